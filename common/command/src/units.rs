//! Durations and shares as users type them: `10s`, `500ms`, `1.5m`, `100us`, `2h`; `5%`.
//!
//! This is not a clock: nothing here knows the time.

use std::fmt;
use std::str::FromStr;

/// Names of units and their length in microseconds, largest first.
const UNITS: [(&str, u64); 5] =
    [("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1000), ("us", 1)];

/// A duration in microseconds. It is displayed in a form in which it can be typed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(pub u64);

impl FromStr for Duration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_duration(text).map(Self)
    }
}

/// Exact, in the largest unit of which it is at least one; hours and minutes only if whole.
impl fmt::Display for Duration {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |unit: u64| match unit {
            60_000_000.. => self.0.is_multiple_of(unit),
            _ => self.0 >= unit,
        };
        let found = UNITS.into_iter().find(|(_, unit)| self.0 > 0 && fits(*unit));
        let Some((name, unit)) = found else { return out.write_str("0s") };
        let (whole, rest) = (self.0 / unit, self.0 % unit);
        if rest == 0 {
            return write!(out, "{whole}{name}");
        }
        let digits = unit.ilog10() as usize; // seconds and milliseconds are powers of ten
        let fraction = format!("{rest:0digits$}");
        write!(out, "{whole}.{}{name}", fraction.trim_end_matches('0'))
    }
}

/// Parses a duration, in microseconds.
///
/// # Errors
/// What is wrong, in a line.
pub fn parse_duration(text: &str) -> Result<u64, String> {
    const EXAMPLES: &str = "write 10s, 500ms, 1.5m, 100us or 2h";
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, name) = text.split_at(split);
    let name = name.trim_start();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return Err(format!("not a duration; {EXAMPLES}"));
    }
    if name.is_empty() && number == "0" {
        return Ok(0);
    }
    if name.is_empty() {
        return Err(format!("a duration without a unit; {EXAMPLES}"));
    }
    let unit = match name {
        "\u{b5}s" | "\u{3bc}s" => Some(1), // both of Unicode's letters for micro
        _ => UNITS.into_iter().find(|(known, _)| *known == name).map(|(_, unit)| unit),
    };
    let unit = unit.ok_or_else(|| format!("no unit {name:?}; {EXAMPLES}"))?;
    let fraction = fraction.trim_end_matches('0');
    let digits = u32::try_from(fraction.len()).unwrap_or(u32::MAX);
    let too_long = || "too long a duration".to_owned();
    let scaled: u128 = match format!("{whole}{fraction}").trim_start_matches('0') {
        "" => 0,
        digits => digits.parse().map_err(|_| too_long())?,
    };
    let scale = 10_u128.checked_pow(digits).ok_or("finer than a microsecond")?;
    let product = scaled.checked_mul(u128::from(unit)).ok_or_else(too_long)?;
    if !product.is_multiple_of(scale) {
        return Err("finer than a microsecond".into());
    }
    u64::try_from(product / scale).map_err(|_| too_long())
}

/// Parses a share: `5%` is 0.05.
///
/// # Errors
/// The accepted forms, in a line.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').map(|number| number.trim().parse::<f64>());
    match number {
        Some(Ok(percent)) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("give a share from 0% to 100%".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_are_percentages() {
        let check = |text: &str, share: Option<f64>| {
            assert_eq!(parse_share(text).ok(), share, "{text}");
        };
        check("5%", Some(0.05));
        check(" 12.5 % ", Some(0.125));
        check("100%", Some(1.0));
        for text in ["0.05", "5", "101%", "-1%", "%", "NaN%", ""] {
            check(text, None);
        }
    }

    #[test]
    fn what_can_be_typed() {
        let check = |text: &str, us: u64| assert_eq!(parse_duration(text), Ok(us), "{text}");
        check("10s", 10_000_000);
        check("500ms", 500_000);
        check("1.5m", 90_000_000);
        check("100us", 100);
        check("100µs", 100);
        check("2h", 7_200_000_000);
        check("0.000001s", 1);
        check(".5s", 500_000);
        check("3.s", 3_000_000);
        check(" 1 s ", 1_000_000);
        check("0", 0);
        check("0s", 0);
        check("000000000000000000000000000000000000000000000001s", 1_000_000);
        check("1.500000000000000000000000000000000000000000000000s", 1_500_000);
    }

    #[test]
    fn what_cannot() {
        let check = |text: &str, why: &str| {
            let error = parse_duration(text).unwrap_err();
            assert!(error.starts_with(why), "{text}: {error}");
            assert!(!error.contains('\n'));
        };
        check("", "not a duration");
        check(".", "not a duration");
        check("s", "not a duration");
        check("-1s", "not a duration");
        check("1.2.3s", "not a duration");
        check("10", "a duration without a unit");
        check("10 sec", "no unit \"sec\"");
        check("1s2", "no unit \"s2\"");
        check("0.0000001s", "finer than a microsecond");
        check("0.5us", "finer than a microsecond");
        check(&format!("0.{}1s", "0".repeat(60)), "finer than a microsecond");
        check("9999999999999h", "too long");
        check(&format!("1{}s", "0".repeat(60)), "too long");
    }

    #[test]
    fn what_is_shown() {
        let check = |us: u64, text: &str| assert_eq!(Duration(us).to_string(), text);
        check(0, "0s");
        check(1, "1us");
        check(999, "999us");
        check(1000, "1ms");
        check(51_234, "51.234ms");
        check(50_000, "50ms");
        check(1_500_000, "1.5s");
        check(90_000_000, "90s");
        check(120_000_000, "2m");
        check(3_600_000_000, "1h");
        check(3_600_000_001, "3600.000001s");
    }

    proptest! {
        #[test]
        fn what_is_shown_can_be_typed(us: u64, shift in 0..64_u32) {
            let duration = Duration(us >> shift);
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn no_text_is_a_panic(text: String) {
            let _ = parse_duration(&text);
        }
    }
}
