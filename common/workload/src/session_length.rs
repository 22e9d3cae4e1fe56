//! The number of requests of a session.

use std::fmt;
use std::str::FromStr;

use statistics::Generator;

use crate::distribution::Distribution;
use crate::parse_error::ParseError;
use crate::popularity::{Chooser, normalised};

/// The longest session that is generated.
pub const LENGTH_MAX: u32 = 100_000;

/// A distribution of session lengths.
#[derive(Clone, Debug)]
pub struct Lengths {
    typed: String,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    /// One of the ranges, then a length in it, all equally probable.
    Ranges(Vec<Range>, Chooser),
    /// After each request the session ends with this probability.
    Geometric { end: f64 },
    /// The distribution's values rounded down to whole numbers, at least 1.
    Rounded(Distribution),
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    low: u32,
    high: u32,
    weight: f64,
}

/// Names for lengths, their meanings, and their sources.
pub const PRESETS: &[(&str, &str, &str)] = &[
    ("surge-6", "1..6", "as in Radhakrishnan's logs, of which only the maximum is known; mean 3.5"),
    ("brecht-15", "1@30,5..15@70", "Brecht's log generator; mean 7.3"),
    // s * 10 / (s * 10 + (1 - s)) = 0.7 for the share s = 7/37 of sessions that are kept alive.
    ("spec99", "1@30,5..15@7", "SPECweb99: 70 % of requests in sessions of 10; mean 2.7"),
];

impl Lengths {
    /// The length is always `length`, which is at least 1 and at most [`LENGTH_MAX`].
    #[must_use]
    pub fn fixed(length: u32) -> Self {
        let length = length.clamp(1, LENGTH_MAX);
        let range = Range { low: length, high: length, weight: 1.0 };
        Self { typed: length.to_string(), form: Form::from_ranges(vec![range]) }
    }

    /// The next length.
    pub fn sample(&self, generator: &mut Generator) -> u32 {
        match &self.form {
            Form::Ranges(ranges, chooser) => {
                let Range { low, high, .. } = ranges[chooser.draw(generator)];
                low + generator.below((high - low + 1) as usize) as u32
            }
            Form::Geometric { end } if *end >= 1.0 => 1,
            Form::Geometric { end } => {
                // The number of whole times that log(1 - end) fits; a cast saturates.
                let failures = libm::log(generator.unit()) / libm::log1p(-end);
                (failures as u32).saturating_add(1).min(LENGTH_MAX)
            }
            Form::Rounded(distribution) => {
                (distribution.sample(generator) as u32).clamp(1, LENGTH_MAX)
            }
        }
    }

    /// The probability of `length` or more.
    #[must_use]
    pub fn at_least(&self, length: u32) -> f64 {
        match &self.form {
            _ if length <= 1 => 1.0,
            _ if length > LENGTH_MAX => 0.0,
            Form::Ranges(ranges, _) => {
                let weights: Vec<f64> = ranges.iter().map(|range| range.weight).collect();
                let shares = normalised(&weights);
                ranges.iter().zip(shares).map(|(range, share)| share * range.at_least(length)).sum()
            }
            Form::Geometric { end } => libm::pow(1.0 - end, f64::from(length - 1)),
            Form::Rounded(distribution) => distribution.at_least(f64::from(length)),
        }
    }

    /// The mean length.
    #[must_use]
    pub fn mean(&self) -> f64 {
        (1..=LENGTH_MAX)
            .map(|length| self.at_least(length))
            .take_while(|&probability| probability > 0.0)
            .sum()
    }
}

impl Form {
    fn from_ranges(ranges: Vec<Range>) -> Self {
        let weights: Vec<f64> = ranges.iter().map(|range| range.weight).collect();
        Self::Ranges(ranges, Chooser::new(&weights))
    }
}

impl Range {
    fn at_least(self, length: u32) -> f64 {
        let Self { low, high, .. } = self;
        let longer = (high + 1).saturating_sub(length.max(low));
        f64::from(longer) / f64::from(high - low + 1)
    }
}

/// Parses a preset's name; lengths and ranges with their weights (`7`, `5..15`, `1@30,5..15@70`);
/// `fixed:N`; `geometric:P`; or any [`Distribution`].
impl FromStr for Lengths {
    type Err = ParseError;

    fn from_str(typed: &str) -> Result<Self, ParseError> {
        let preset = PRESETS.iter().find(|row| row.0 == typed);
        let meant = preset.map_or(typed, |row| row.1);
        let form = form(meant).map_err(|why| ParseError::new(typed, why))?;
        Ok(Self { typed: typed.to_owned(), form })
    }
}

fn form(typed: &str) -> Result<Form, String> {
    if let Some(length) = typed.strip_prefix("fixed:") {
        return ranges(length);
    }
    if let Some(end) = typed.strip_prefix("geometric:") {
        return match end.parse::<f64>() {
            Ok(end) if end > 0.0 && end <= 1.0 => Ok(Form::Geometric { end }),
            _ => Err("write geometric:P, P above 0 and at most 1: the mean is 1/P".into()),
        };
    }
    if typed.starts_with(|first: char| first.is_ascii_digit()) {
        return ranges(typed);
    }
    if !typed.contains(':') {
        let names: Vec<&str> = PRESETS.iter().map(|row| row.0).collect();
        return Err(format!(
            "unknown lengths: {}, N, LOW..HIGH, 1@30,5..15@70, geometric:P or a distribution",
            names.join(", ")
        ));
    }
    typed.parse().map(Form::Rounded).map_err(|error: ParseError| error.why)
}

fn ranges(typed: &str) -> Result<Form, String> {
    let ranges: Vec<Range> = typed.split(',').map(range).collect::<Result<_, _>>()?;
    Ok(Form::from_ranges(ranges))
}

fn range(typed: &str) -> Result<Range, String> {
    let (lengths, weight) = typed.split_once('@').unwrap_or((typed, "1"));
    let (low, high) = lengths.split_once("..").unwrap_or((lengths, lengths));
    let length = |text: &str| match text.parse::<u32>() {
        Ok(length) if (1..=LENGTH_MAX).contains(&length) => Ok(length),
        _ => Err(format!("\"{text}\" is not a length from 1 to {LENGTH_MAX}")),
    };
    let (low, high) = (length(low)?, length(high)?);
    if low > high {
        return Err(format!("\"{lengths}\" goes backwards: write {high}..{low}"));
    }
    match weight.parse::<f64>() {
        Ok(weight) if weight > 0.0 && weight.is_finite() => Ok(Range { low, high, weight }),
        _ => Err(format!("\"{weight}\" is not a weight above 0")),
    }
}

/// The lengths as they were typed.
impl fmt::Display for Lengths {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.typed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statistics::chi_square_test;

    fn typed(text: &str) -> Lengths {
        text.parse().unwrap_or_else(|why| panic!("{why}"))
    }

    /// The p-value of lengths of `drawn` under `claimed`; those of 100 and more are one cell.
    fn p_value(drawn: &str, claimed: &str) -> f64 {
        let (drawn, claimed) = (typed(drawn), typed(claimed));
        let mut generator = Generator::new(4);
        let mut counts = [0_u64; 101];
        for _ in 0..200_000 {
            counts[drawn.sample(&mut generator).min(100) as usize] += 1;
        }
        let mut shares: Vec<f64> =
            (0..100).map(|n| claimed.at_least(n) - claimed.at_least(n + 1)).collect();
        shares.push(claimed.at_least(100));
        chi_square_test(&counts, &shares).expect("cells").p_value
    }

    #[test]
    fn samples_fit() {
        for text in PRESETS.iter().map(|row| row.0).chain([
            "2..9",
            "geometric:0.2",
            "pareto:1,2.43,max=30",
            "exponential:7",
            "3@1,4@2,10..20@0.5",
        ]) {
            let p = p_value(text, text);
            assert!(p > 0.001, "{text}: p = {p}");
        }
    }

    #[test]
    fn samples_of_others_are_told_apart() {
        for (drawn, claimed) in [
            ("brecht-15", "spec99"),
            ("1@30,5..14@70", "brecht-15"),
            ("geometric:0.21", "geometric:0.2"),
            ("1..7", "surge-6"),
        ] {
            assert!(p_value(drawn, claimed) < 0.001, "{drawn} for {claimed}");
        }
    }

    #[test]
    fn means_are_known() {
        let check = |text: &str, expected: f64| {
            let mean = typed(text).mean();
            assert!((mean - expected).abs() < 1e-3, "{text}: {mean}");
        };
        check("surge-6", 3.5);
        check("brecht-15", 7.3);
        check("spec99", 100.0 / 37.0);
        check("fixed:12", 12.0);
        check("geometric:0.2", 5.0);
        check("geometric:1", 1.0);
        check("constant:0.5", 1.0);
    }

    /// SPECweb99: seven of ten requests are made in sessions that are kept alive.
    #[test]
    fn spec99_keeps_70_percent_of_requests_alive() {
        let (lengths, mut generator) = (typed("spec99"), Generator::new(4));
        let drawn: Vec<u32> = (0..200_000).map(|_| lengths.sample(&mut generator)).collect();
        let alive: u32 = drawn.iter().filter(|&&length| length > 1).sum();
        let share = f64::from(alive) / f64::from(drawn.iter().sum::<u32>());
        assert!((share - 0.7).abs() < 0.005, "{share}");
    }

    #[test]
    fn fixed_is_fixed() {
        let mut generator = Generator::new(1);
        for lengths in [Lengths::fixed(7), typed("7"), typed("fixed:7")] {
            assert_eq!([0; 5].map(|_| lengths.sample(&mut generator)), [7; 5], "{lengths}");
        }
    }

    #[test]
    fn mistakes_say_what_to_write() {
        let check = |text: &str, expected: &str| {
            let error = text.parse::<Lengths>().expect_err(text).to_string();
            assert!(error.starts_with(&format!("\"{text}\": ")), "{error}");
            assert!(error.contains(expected), "{text}: {error}");
            assert_eq!(error.matches(&format!("\"{text}\": ")).count(), 1, "{error}");
        };
        check("surge", "unknown lengths: surge-6, brecht-15, spec99, N, ");
        check("0", "\"0\" is not a length from 1 to 100000");
        check("9..2", "\"9..2\" goes backwards: write 2..9");
        check("1@x", "\"x\" is not a weight above 0");
        check("geometric:0", "the mean is 1/P");
        check("fixed:", "\"\" is not a length");
        check("pareto:1", "write pareto:LOW,ALPHA");
    }
}
