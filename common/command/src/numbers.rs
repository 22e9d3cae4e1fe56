//! Numbers as users type them, each with its range: what is none of them is told in the same words
//! by all commands.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A parser of the whole numbers in a range.
pub fn whole<N>(range: RangeInclusive<N>) -> impl Fn(&str) -> Result<N, String> + Clone
where
    N: FromStr + PartialOrd + Display + Clone,
{
    move |typed| match typed.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(format!("write a whole number from {} to {}", range.start(), range.end())),
    }
}

/// Parses a rate, or another number above 0.
///
/// # Errors
/// What to write in its place.
pub fn above_0(typed: &str) -> Result<f64, String> {
    match typed.parse() {
        Ok(number) if number > 0.0 && f64::is_finite(number) => Ok(number),
        _ => Err("write a number above 0".into()),
    }
}

/// A parser of percentages from `least`, and below 100.
pub fn percent_from(least: f64) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |typed| match typed.parse() {
        Ok(percent) if (least..100.0).contains(&percent) => Ok(percent),
        _ => Err(format!("write a percentage from {least}, and below 100")),
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn whole_numbers_in_a_range() {
        let refused = || Err("write a whole number from 1 to 9".to_owned());
        let check = |typed: &str, expected: Option<u32>| {
            assert_eq!(whole(1..=9)(typed), expected.map_or_else(refused, Ok), "{typed}");
        };
        check("1", Some(1));
        check("9", Some(9));
        for wrong in ["", "x", "0", "10", "-1", "1.5", "99999999999999999999"] {
            check(wrong, None);
        }
        let seeds = whole(NonZeroU32::MIN..=NonZeroU32::MAX)("0");
        assert_eq!(seeds, Err("write a whole number from 1 to 4294967295".into()));
    }

    #[test]
    fn rates_and_percentages() {
        assert_eq!(above_0("1.5"), Ok(1.5));
        for wrong in ["", "x", "0", "-1", "inf", "NaN"] {
            assert_eq!(above_0(wrong), Err("write a number above 0".into()), "{wrong}");
        }
        assert_eq!(percent_from(50.0)("99.5"), Ok(99.5));
        for wrong in ["", "x", "49", "100", "NaN"] {
            let why = "write a percentage from 50, and below 100";
            assert_eq!(percent_from(50.0)(wrong), Err(why.into()), "{wrong}");
        }
    }
}
