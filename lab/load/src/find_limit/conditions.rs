//! The conditions that a run must meet for its rate to count as sustained.

use std::fmt;
use std::str::FromStr;

use crate::outcome::Outcome;
use crate::void::Void;
use command::units::{Duration, parse_duration, parse_share};

/// The conditions, all of which must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    /// The least part of the requests due that must get a reply, 0 to 1.
    pub served_min: f64,
    /// The most failed requests, as a part of the requests issued, 0 to 1.
    pub errors_max: f64,
    /// The largest difference allowed between the timeout shares of file types.
    pub spread_max: f64,
    /// Quantiles, and the most that the corrected time at each may be, in microseconds.
    pub quantiles: Vec<(f64, u64)>,
}

impl Default for Conditions {
    fn default() -> Self {
        Self { served_min: 0.99, errors_max: 0.001, spread_max: 0.02, quantiles: Vec::new() }
    }
}

/// One of the conditions; its `Display` is the form in which it can be typed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Condition {
    /// The least part of the requests due that must get a reply, 0 to 1.
    Served(f64),
    /// The most failed requests, as a part of the requests issued, 0 to 1.
    Errors(f64),
    /// The largest difference allowed between the timeout shares of file types, 0 to 1.
    Spread(f64),
    /// The most that the corrected time at a quantile may be, in microseconds.
    Quantile(f64, u64),
}

/// What was found in place of what a condition allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// A share, 0 to 1.
    Share(f64),
    /// A time, in microseconds.
    Time(u64),
}

/// A condition that broke.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Violation {
    /// The condition.
    pub condition: Condition,
    /// The value that was found instead.
    pub found: Amount,
    /// How far beyond the bound the value is, as a factor.
    pub excess: f64,
    /// Whether the value is mostly the generator's own lag: then the server may keep the condition.
    pub is_own_lag: bool,
}

impl Violation {
    /// Why a run says nothing about the server that broke nothing but this; none if it says that
    /// the server broke it.
    pub(super) fn own_lag(&self) -> Option<Void> {
        match (self.is_own_lag, self.condition, self.found) {
            (true, Condition::Quantile(quantile, _), Amount::Time(reported_us)) => {
                let thousandths = (quantile * 100_000.0).round() as u32;
                Some(Void::OwnLag { thousandths, reported_us })
            }
            _ => None,
        }
    }
}

/// The results that are compared with the conditions, of one run or of several.
pub struct Kept<'a> {
    /// The part of the requests due that got a reply in time to keep up, 0 to 1.
    pub served_share: f64,
    /// The part of the requests issued that failed, 0 to 1.
    pub error_share: f64,
    /// The difference between the timeout shares of kinds of file; none if too few files were
    /// requested.
    pub spread: Option<f64>,
    /// The quantile of corrected times, in microseconds; none if there are no times.
    pub quantile_us: &'a dyn Fn(f64) -> Option<u64>,
    /// Whether that time is mostly the generator's own lag.
    pub is_own_lag: &'a dyn Fn(f64) -> bool,
}

impl Conditions {
    /// Whether the conditions concern rates only. How long replies take depends on random arrivals,
    /// such as those of users; how many replies there can be does not, and evenly spaced sessions
    /// show that sooner.
    #[must_use]
    pub fn are_of_rates(&self) -> bool {
        self.quantiles.is_empty()
    }

    /// The conditions that `outcome` breaks, the worst first.
    #[must_use]
    pub fn violations(&self, outcome: &Outcome) -> Vec<Violation> {
        let times = &outcome.measures.times.corrected;
        self.broken(&Kept {
            served_share: outcome.served_share().min(outcome.kept_up_share()),
            error_share: outcome.error_share(),
            spread: outcome.fairness_spread().map(|spread| spread.beyond_chance() / 100.0),
            quantile_us: &|quantile| Some(times.value_at_quantile(quantile)),
            is_own_lag: &|quantile| outcome.is_mostly_own_lag(quantile),
        })
    }

    /// The conditions that `kept` breaks, the worst first.
    #[must_use]
    pub fn broken(&self, kept: &Kept<'_>) -> Vec<Violation> {
        let mut violations: Vec<Violation> = [
            self.served(kept.served_share),
            check_at_most(Condition::Errors, kept.error_share, self.errors_max),
            kept.spread
                .and_then(|spread| check_at_most(Condition::Spread, spread, self.spread_max)),
        ]
        .into_iter()
        .flatten()
        .collect();
        for &(quantile, bound_us) in &self.quantiles {
            let found_us = (kept.quantile_us)(quantile);
            if let Some(found_us) = found_us.filter(|found_us| *found_us > bound_us) {
                violations.push(Violation {
                    condition: Condition::Quantile(quantile, bound_us),
                    found: Amount::Time(found_us),
                    excess: found_us as f64 / bound_us.max(1) as f64,
                    is_own_lag: (kept.is_own_lag)(quantile),
                });
            }
        }
        violations.sort_by(|a, b| b.excess.total_cmp(&a.excess));
        violations
    }

    fn served(&self, share: f64) -> Option<Violation> {
        (share < self.served_min).then(|| Violation {
            condition: Condition::Served(self.served_min),
            found: Amount::Share(share),
            excess: self.served_min / share.max(1e-9),
            is_own_lag: false,
        })
    }
}

fn check_at_most(condition: fn(f64) -> Condition, found: f64, bound: f64) -> Option<Violation> {
    (found > bound).then(|| Violation {
        condition: condition(bound),
        found: Amount::Share(found),
        excess: found / bound.max(1e-9),
        is_own_lag: false,
    })
}

fn percent(share: f64) -> String {
    // Three decimals distinguish 99.999 % from 100 %.
    let text = format!("{:.3}", share * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

impl fmt::Display for Condition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Served(share) => write!(out, "served={}", percent(share)),
            Self::Errors(share) => write!(out, "errors={}", percent(share)),
            Self::Spread(share) => write!(out, "spread={}", percent(share)),
            Self::Quantile(quantile, bound_us) => {
                let percentile = percent(quantile);
                write!(out, "p{}={}", percentile.trim_end_matches('%'), Duration(bound_us))
            }
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Share(share) => out.write_str(&percent(share)),
            Self::Time(us) => Duration(us).fmt(out),
        }
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &(quantile, bound_us) in &self.quantiles {
            write!(out, "{},", Condition::Quantile(quantile, bound_us))?;
        }
        let (served, errors) =
            (Condition::Served(self.served_min), Condition::Errors(self.errors_max));
        write!(out, "{served},{errors},{}", Condition::Spread(self.spread_max))
    }
}

/// Reads `p99=50ms,errors=0.1%`: a condition that is not named keeps its default.
impl FromStr for Conditions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut conditions = Self::default();
        for part in text.split(',').map(str::trim) {
            let (name, bound) = part.split_once('=').ok_or_else(|| unknown(part))?;
            match name {
                "served" => conditions.served_min = share(part, bound)?,
                "errors" => conditions.errors_max = share(part, bound)?,
                "spread" => conditions.spread_max = share(part, bound)?,
                _ => {
                    let digits = name.strip_prefix('p').ok_or_else(|| unknown(part))?;
                    let percent: f64 = digits.parse().map_err(|_| unknown(part))?;
                    if !(0.0..100.0).contains(&percent) {
                        return Err(format!("{part}: a percentile is at least 0, below 100"));
                    }
                    let bound_us = parse_duration(bound).map_err(|why| format!("{part}: {why}"))?;
                    conditions.quantiles.push((percent / 100.0, bound_us));
                }
            }
        }
        Ok(conditions)
    }
}

fn unknown(part: &str) -> String {
    format!("{part:?}: a condition is p99=50ms, served=99%, errors=0.1% or spread=2%")
}

fn share(part: &str, bound: &str) -> Result<f64, String> {
    parse_share(bound).map_err(|why| format!("{part}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_conditions() {
        let conditions: Conditions = "p99=50ms, errors=1%".parse().unwrap();
        assert_eq!(conditions.quantiles, [(0.99, 50_000)]);
        assert_eq!(conditions.errors_max, 0.01);
        assert_eq!(conditions.served_min, 0.99);
        assert_eq!(conditions.to_string(), "p99=50ms,served=99%,errors=1%,spread=2%");
        assert_eq!(conditions.to_string().parse::<Conditions>().unwrap(), conditions);
        let fine: Conditions = "p99.9=1s".parse().unwrap();
        assert_eq!(fine.to_string(), "p99.9=1s,served=99%,errors=0.1%,spread=2%");
    }

    #[track_caller]
    fn check_error(text: &str, part: &str) {
        let error = text.parse::<Conditions>().unwrap_err();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn conditions_that_are_none() {
        check_error("p99", "a condition is");
        check_error("speed=3", "a condition is");
        check_error("p100=1s", "below 100");
        check_error("p99=fast", "p99=fast");
        check_error("errors=2", "0% to 100%");
        check_error("errors=200%", "0% to 100%");
    }
}
