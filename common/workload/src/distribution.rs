//! Distributions of times and counts, as they are typed: `pareto:1,1.5`, `constant:3.0`.
//!
//! Sampling is by inversion: one random number for each value. Logarithms and powers are libm's, in
//! software, because those of systems differ in the last digit.

use std::fmt;
use std::str::FromStr;

use statistics::{Generator, regularised_gamma};

use crate::parse_error::ParseError;

/// A distribution of numbers from 0 up, with a ceiling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distribution {
    shape: Shape,
    /// The ceiling, to which larger values are reduced; infinite if there is none.
    max: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Constant { value: f64 },
    Uniform { low: f64, high: f64 },
    Exponential { mean: f64 },
    Pareto { low: f64, alpha: f64 },
    Weibull { shape: f64, scale: f64 },
}

/// A distribution's name, its parameters, and the function that makes its shape from them.
type Row = (&'static str, &'static [&'static str], fn(&[f64]) -> Shape);

const TABLE: &[Row] = &[
    ("constant", &["VALUE"], |p| Shape::Constant { value: p[0] }),
    ("uniform", &["LOW", "HIGH"], |p| Shape::Uniform { low: p[0], high: p[1] }),
    ("exponential", &["MEAN"], |p| Shape::Exponential { mean: p[0] }),
    ("pareto", &["LOW", "ALPHA"], |p| Shape::Pareto { low: p[0], alpha: p[1] }),
    ("weibull", &["SHAPE", "SCALE"], |p| Shape::Weibull { shape: p[0], scale: p[1] }),
];

impl Distribution {
    /// A distribution that is always `value`.
    #[must_use]
    pub const fn constant(value: f64) -> Self {
        Self { shape: Shape::Constant { value }, max: f64::INFINITY }
    }

    /// The Pareto distribution: P(X > x) = (low / x)^alpha.
    #[must_use]
    pub const fn pareto(low: f64, alpha: f64) -> Self {
        Self { shape: Shape::Pareto { low, alpha }, max: f64::INFINITY }
    }

    /// The Weibull distribution: P(X > x) = e^-((x / scale)^shape).
    #[must_use]
    pub const fn weibull(shape: f64, scale: f64) -> Self {
        Self { shape: Shape::Weibull { shape, scale }, max: f64::INFINITY }
    }

    /// This distribution with a ceiling: larger values are reduced to it. A lower ceiling that it
    /// has already stays.
    #[must_use]
    pub const fn at_most(self, max: f64) -> Self {
        Self { max: if max < self.max { max } else { self.max }, ..self }
    }

    /// The ceiling; infinite if there is none.
    #[must_use]
    pub fn ceiling(&self) -> f64 {
        self.max
    }

    /// The next value. All but the constant take one random number.
    pub fn sample(&self, generator: &mut Generator) -> f64 {
        let value = match self.shape {
            Shape::Constant { value } => value,
            Shape::Uniform { low, high } => low + (high - low) * generator.unit(),
            Shape::Exponential { mean } => -mean * libm::log(generator.unit()),
            Shape::Pareto { low, alpha } => low * libm::pow(generator.unit(), -1.0 / alpha),
            Shape::Weibull { shape, scale } => {
                scale * libm::pow(-libm::log(generator.unit()), 1.0 / shape)
            }
        };
        value.min(self.max)
    }

    /// The probability of a value of `x` or more.
    #[must_use]
    pub fn at_least(&self, x: f64) -> f64 {
        if x > self.max {
            return 0.0;
        }
        match self.shape {
            _ if x <= 0.0 => 1.0,
            Shape::Constant { value } => f64::from(u8::from(x <= value)),
            Shape::Uniform { low, high } if low < high => {
                ((high - x) / (high - low)).clamp(0.0, 1.0)
            }
            Shape::Uniform { low, .. } => f64::from(u8::from(x <= low)),
            Shape::Exponential { mean } => libm::exp(-x / mean),
            Shape::Pareto { low, alpha } => libm::pow(low / x, alpha).min(1.0),
            Shape::Weibull { shape, scale } => libm::exp(-libm::pow(x / scale, shape)),
        }
    }

    /// The mean, the ceiling considered; infinite if there is none (Pareto, alpha of 1 or less).
    #[must_use]
    pub fn mean(&self) -> f64 {
        let max = self.max;
        match self.shape {
            Shape::Constant { value } => value.min(max),
            Shape::Uniform { low, high } => mean_of_uniform(low, high, max),
            Shape::Exponential { mean } => mean * (1.0 - libm::exp(-max / mean)),
            Shape::Pareto { low, alpha } => mean_of_pareto(low, alpha, max),
            Shape::Weibull { shape, scale } => mean_of_weibull(shape, scale, max),
        }
    }

    /// The mean of the values rounded down to whole numbers, as counts are.
    ///
    /// # Panics
    /// If there is no ceiling: the number of terms is that of the counts up to it.
    #[must_use]
    pub fn mean_of_counts(&self) -> f64 {
        assert!(self.max.is_finite(), "counts have a ceiling");
        (1..=self.max as u64).map(|count| self.at_least(count as f64)).sum()
    }
}

fn mean_of_uniform(low: f64, high: f64, max: f64) -> f64 {
    match max {
        max if max >= high => f64::midpoint(low, high),
        max if max <= low => max,
        // Below the ceiling the middle of what is left; the rest of the probability is at the
        // ceiling.
        max => max - (max - low) * (max - low) / (2.0 * (high - low)),
    }
}

/// Computes low + the integral of (low / x)^alpha from low to max.
fn mean_of_pareto(low: f64, alpha: f64, max: f64) -> f64 {
    match max {
        max if max <= low => max,
        max if alpha == 1.0 => low * (1.0 + libm::log(max / low)),
        max => low * (alpha - libm::pow(low / max, alpha - 1.0)) / (alpha - 1.0),
    }
}

/// Computes the integral of e^-((x / scale)^shape) from 0 to max.
fn mean_of_weibull(shape: f64, scale: f64, max: f64) -> f64 {
    let below = regularised_gamma(1.0 / shape, libm::pow(max / scale, shape));
    scale * libm::tgamma(1.0 + 1.0 / shape) * below
}

/// Parses `NAME:NUMBER,NUMBER` and perhaps `,max=NUMBER`; a lone number is a constant.
impl FromStr for Distribution {
    type Err = ParseError;

    fn from_str(typed: &str) -> Result<Self, ParseError> {
        let wrong = |why: String| ParseError::new(typed, why);
        let (name, numbers) = match typed.split_once(':') {
            Some(parts) => parts,
            None if typed.starts_with(|c: char| c.is_ascii_digit()) => ("constant", typed),
            None => (typed, ""),
        };
        let Some((_, names, make)) = TABLE.iter().find(|row| row.0 == name) else {
            return Err(wrong(format!("unknown distribution: {}", forms())));
        };
        let (numbers, max) = match numbers.split_once(",max=") {
            Some((numbers, max)) => (numbers, number(max).map_err(wrong)?),
            None => (numbers, f64::INFINITY),
        };
        let numbers: Vec<f64> =
            numbers.split(',').map(number).collect::<Result<_, _>>().map_err(wrong)?;
        if numbers.len() != names.len() {
            return Err(wrong(format!("write {name}:{}", names.join(","))));
        }
        let shape = make(&numbers);
        shape.check().map_err(wrong)?;
        Ok(Self { shape, max })
    }
}

fn number(typed: &str) -> Result<f64, String> {
    match typed.trim().parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err(format!("\"{typed}\" is not a number from 0 up")),
    }
}

/// All forms, for error messages.
fn forms() -> String {
    let forms: Vec<String> =
        TABLE.iter().map(|(name, names, _)| format!("{name}:{}", names.join(","))).collect();
    format!("{}; each with ,max=NUMBER if it shall have a ceiling", forms.join(", "))
}

impl Shape {
    fn check(self) -> Result<(), String> {
        let positive = |what: &str, value: f64| match value > 0.0 {
            true => Ok(()),
            false => Err(format!("{what} must be above 0")),
        };
        match self {
            Self::Uniform { low, high } if low > high => Err("LOW is above HIGH".into()),
            Self::Constant { .. } | Self::Uniform { .. } => Ok(()),
            Self::Exponential { mean } => positive("MEAN", mean),
            Self::Pareto { low, alpha } => positive("LOW", low).and(positive("ALPHA", alpha)),
            Self::Weibull { shape, scale } => {
                positive("SHAPE", shape).and(positive("SCALE", scale))
            }
        }
    }
}

/// The form in which it can be typed.
impl fmt::Display for Distribution {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shape {
            Shape::Constant { value } => write!(out, "constant:{value}"),
            Shape::Uniform { low, high } => write!(out, "uniform:{low},{high}"),
            Shape::Exponential { mean } => write!(out, "exponential:{mean}"),
            Shape::Pareto { low, alpha } => write!(out, "pareto:{low},{alpha}"),
            Shape::Weibull { shape, scale } => write!(out, "weibull:{shape},{scale}"),
        }?;
        if self.max.is_finite() { write!(out, ",max={}", self.max) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statistics::chi_square_test;

    fn typed(text: &str) -> Distribution {
        text.parse().unwrap_or_else(|why| panic!("{why}"))
    }

    /// The value below which a share `probability` of all values lies, by bisection.
    fn quantile(distribution: &Distribution, probability: f64) -> f64 {
        let (mut low, mut high) = (0.0, 1e9);
        for _ in 0..200 {
            let middle = f64::midpoint(low, high);
            let below = 1.0 - distribution.at_least(middle) < probability;
            *(if below { &mut low } else { &mut high }) = middle;
        }
        low
    }

    /// The p-value of samples of `drawn` in fifty bins that are equally probable under `claimed`.
    fn p_value(drawn: &str, claimed: &str) -> f64 {
        let claimed = typed(claimed);
        let ends: Vec<f64> = (1..50).map(|n| quantile(&claimed, f64::from(n) / 50.0)).collect();
        let mut counts = [0_u64; 50];
        let mut generator = Generator::new(11);
        for _ in 0..50_000 {
            let value = typed(drawn).sample(&mut generator);
            counts[ends.partition_point(|&end| end <= value)] += 1;
        }
        chi_square_test(&counts, &[1.0; 50]).expect("fifty cells").p_value
    }

    #[test]
    fn samples_fit_their_distribution() {
        for text in ["uniform:2,5", "exponential:5", "pareto:1,1.5", "weibull:1.46,0.382"] {
            let p = p_value(text, text);
            assert!(p > 0.001, "{text}: p = {p}");
        }
    }

    #[test]
    fn samples_of_another_distribution_are_told_apart() {
        for (drawn, claimed) in [
            ("uniform:2,5.1", "uniform:2,5"),
            ("exponential:5.2", "exponential:5"),
            ("pareto:1,1.55", "pareto:1,1.5"),
            ("weibull:0.382,1.46", "weibull:1.46,0.382"),
            ("exponential:3", "pareto:1,1.5"),
        ] {
            let p = p_value(drawn, claimed);
            assert!(p < 0.001, "{drawn} for {claimed}: p = {p}");
        }
    }

    #[test]
    fn means_are_known() {
        let check = |text: &str, expected: f64| {
            let mean = typed(text).mean();
            assert!(mean == expected || (mean - expected).abs() < 5e-4, "{text}: {mean}");
        };
        check("constant:0.343", 0.343);
        check("constant:3,max=2", 2.0);
        check("uniform:2,5", 3.5);
        check("uniform:0,2,max=1", 0.75);
        check("uniform:2,5,max=1", 1.0);
        check("exponential:5", 5.0);
        check("exponential:5,max=5", 5.0 * (1.0 - (-1.0_f64).exp()));
        check("pareto:1,1.5", 3.0); // SURGE's inactive time, the papers' 3.0 s
        check("weibull:1.46,0.382", 0.346); // SURGE's active time, the papers' 0.343 s
        check("pareto:1,1", f64::INFINITY);
        check("pareto:1,1,max=2.718281828", 2.0);
    }

    #[test]
    fn the_mean_of_samples_is_the_mean_with_its_ceiling() {
        for text in ["uniform:1,9,max=4", "exponential:2,max=3", "pareto:1,1.5,max=20"]
            .into_iter()
            .chain(["pareto:1,0.9,max=50", "weibull:0.6,2,max=5"])
        {
            let (distribution, mut generator) = (typed(text), Generator::new(5));
            let total: f64 = (0..400_000).map(|_| distribution.sample(&mut generator)).sum();
            let (got, expected) = (total / 400_000.0, distribution.mean());
            assert!((got / expected - 1.0).abs() < 0.01, "{text}: {got}, not {expected}");
        }
    }

    #[test]
    fn counts_are_whole() {
        assert_eq!(typed("constant:4,max=100").mean_of_counts(), 4.0);
        let (pages, mut generator) = (typed("pareto:1,2.43,max=20"), Generator::new(5));
        let total: f64 = (0..400_000).map(|_| pages.sample(&mut generator).floor()).sum();
        assert!((total / 400_000.0 - pages.mean_of_counts()).abs() < 0.01);
    }

    #[test]
    fn the_same_on_every_machine() {
        let first = |text: &str| typed(text).sample(&mut Generator::new(1));
        assert_eq!(first("pareto:1,1.5"), 1.460_501_213_300_939_2);
        assert_eq!(first("weibull:1.46,0.382"), 0.259_356_751_428_681_75);
        assert_eq!(first("exponential:5"), 2.840_847_551_916_396_7);
    }

    #[test]
    fn what_is_typed_is_printed() {
        for text in ["constant:3", "uniform:0.5,2", "exponential:5", "pareto:1,1.5,max=60"] {
            assert_eq!(typed(text).to_string(), text);
        }
        assert_eq!(typed("3.0").to_string(), "constant:3");
        assert_eq!(typed("exponential:5").at_most(9.0).at_most(10.0), typed("exponential:5,max=9"));
    }

    #[test]
    fn mistakes_say_what_to_write() {
        let check = |text: &str, expected: &str| {
            let error = text.parse::<Distribution>().expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        };
        check("parteo:1,2", "unknown distribution: constant:VALUE, uniform:LOW,HIGH,");
        check("", "unknown distribution");
        check("pareto:1", "write pareto:LOW,ALPHA");
        check("pareto:1,x", "\"x\" is not a number from 0 up");
        check("exponential:-5", "\"-5\" is not a number");
        check("exponential:0", "MEAN must be above 0");
        check("weibull:1,0", "SCALE must be above 0");
        check("uniform:3,2", "LOW is above HIGH");
        check("constant:inf", "is not a number");
        check("constant:1,max=", "\"\" is not a number");
    }
}
