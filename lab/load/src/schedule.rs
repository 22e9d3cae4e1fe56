//! Rates over time: how many sessions a second are due, and when each session is.
//!
//! A schedule is typed as pieces: `500` until the end, or `500@10s,500..2000@60s,5000@2s`: a step,
//! a ramp, a spike. This module uses neither random numbers nor a clock.

use std::fmt;
use std::str::FromStr;

use command::units::{Duration, parse_duration};

/// The highest rate, in sessions per second: a thousand arrivals in each microsecond of the clock.
const RATE_MAX: f64 = 1e9;

/// Sessions per second as a function of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pieces: Vec<Piece>,
}

/// A stretch of time in which the rate is a straight line.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Piece {
    /// Rates at its begin and end, per second.
    from: f64,
    to: f64,
    /// The length of the piece; none: until the end of the run.
    len_us: Option<u64>,
    /// When the piece begins.
    start_us: u64,
    /// How many arrivals are due before the piece begins.
    before: f64,
}

impl Schedule {
    /// A schedule of one rate, in sessions per second, until the end of the run. `None` if the
    /// number is no valid rate, or 0.
    #[must_use]
    pub fn constant(per_second: f64) -> Option<Self> {
        let piece = Piece::new(per_second, per_second, None);
        (is_rate(per_second) && per_second > 0.0).then(|| Self { pieces: vec![piece] })
    }

    /// This schedule with all rates multiplied by `factor`; the lengths of the pieces stay
    /// unchanged.
    ///
    /// # Panics
    /// If the factor is not above 0.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        assert!(factor > 0.0 && factor.is_finite(), "a factor of {factor}");
        let scale =
            |piece: &Piece| Piece::new(piece.from * factor, piece.to * factor, piece.len_us);
        Self::chained(self.pieces.iter().map(scale).collect())
    }

    /// The length of the schedule in microseconds; none if it lasts until the end of the run.
    #[must_use]
    pub fn duration_us(&self) -> Option<u64> {
        let last = self.pieces.last().expect("a schedule has pieces");
        Some(last.start_us + last.len_us?)
    }

    /// Sessions per second at a time; 0 after the end. Where two pieces meet, the rate of the later
    /// one.
    #[must_use]
    pub fn rate(&self, time_us: u64) -> f64 {
        let index = self.pieces.partition_point(|piece| piece.start_us <= time_us);
        let piece = &self.pieces[index.saturating_sub(1)]; // the first starts at 0
        let inside_us = time_us - piece.start_us;
        if piece.len_us.is_some_and(|len_us| inside_us >= len_us) {
            return 0.0;
        }
        piece.from + piece.slope() * (inside_us as f64 / 1e6)
    }

    /// How many sessions are due before a time: the integral of the rate.
    #[must_use]
    pub fn count(&self, time_us: u64) -> f64 {
        let index = self.pieces.partition_point(|piece| piece.start_us <= time_us);
        let piece = &self.pieces[index.saturating_sub(1)];
        piece.before + piece.count(time_us - piece.start_us)
    }

    /// When [`count`](Self::count) first exceeds `count`, in microseconds; none if it never does.
    /// The session with this number, from 0, is due then.
    #[must_use]
    pub fn time_us(&self, count: f64) -> Option<f64> {
        // The count of a piece without arrivals does not grow, so such pieces are skipped.
        let index = self.pieces.partition_point(|piece| piece.before + piece.total() <= count);
        let piece = self.pieces.get(index)?;
        let inside = (count - piece.before).max(0.0);
        Some(piece.start_us as f64 + piece.inverse_us(inside))
    }

    /// The number of all sessions that are ever due; infinite if the schedule lasts until the end
    /// of the run.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.pieces.last().map_or(0.0, |last| last.before + last.total())
    }

    /// Computes for each piece its start and the arrivals before it.
    fn chained(mut pieces: Vec<Piece>) -> Self {
        let (mut start_us, mut before) = (0, 0.0);
        for piece in &mut pieces {
            (piece.start_us, piece.before) = (start_us, before);
            start_us += piece.len_us.unwrap_or(0);
            before += piece.total();
        }
        Self { pieces }
    }
}

impl Piece {
    fn new(from: f64, to: f64, len_us: Option<u64>) -> Self {
        Self { from, to, len_us, start_us: 0, before: 0.0 }
    }

    /// Change of the rate per second.
    fn slope(&self) -> f64 {
        self.len_us.map_or(0.0, |len_us| (self.to - self.from) / (len_us as f64 / 1e6))
    }

    /// How many sessions are due in the first `inside_us` of the piece.
    fn count(&self, inside_us: u64) -> f64 {
        let seconds = self.len_us.map_or(inside_us, |len_us| inside_us.min(len_us)) as f64 / 1e6;
        seconds * (self.from + self.slope() * seconds / 2.0)
    }

    /// How many sessions are due in the whole piece.
    fn total(&self) -> f64 {
        match self.len_us {
            Some(len_us) => (self.from + self.to) / 2.0 * len_us as f64 / 1e6,
            None if self.from > 0.0 => f64::INFINITY,
            None => 0.0,
        }
    }

    /// When `count` sessions are due, from the begin of the piece. The solution of the quadratic
    /// equation `from * t + slope * t^2 / 2 = count` in the form that does not subtract nearly
    /// equal numbers; with no slope it is `count / from`.
    fn inverse_us(&self, count: f64) -> f64 {
        if self.from == self.to {
            return count * 1e6 / self.from;
        }
        let root = (self.from * self.from + 2.0 * self.slope() * count).max(0.0).sqrt();
        let sum = self.from + root;
        let seconds = if sum > 0.0 { 2.0 * count / sum } else { 0.0 };
        seconds * 1e6
    }
}

impl FromStr for Schedule {
    type Err = String;

    /// # Errors
    /// Which piece is wrong, and why.
    fn from_str(text: &str) -> Result<Self, String> {
        let typed: Vec<&str> = text.split(',').map(str::trim).collect();
        let mut pieces = Vec::with_capacity(typed.len());
        for (index, one) in typed.iter().enumerate() {
            let is_last = index + 1 == typed.len();
            let piece = parse_piece(one, is_last).map_err(|why| match typed.len() {
                1 => why,
                _ => format!("piece {}, {one:?}: {why}", index + 1),
            })?;
            pieces.push(piece);
        }
        let add = |sum: u64, piece: &Piece| sum.checked_add(piece.len_us.unwrap_or(0));
        if pieces.iter().try_fold(0, add).is_none() {
            return Err("the durations together are too long".into());
        }
        let schedule = Self::chained(pieces);
        if schedule.total() > 0.0 { Ok(schedule) } else { Err("nothing is ever due".into()) }
    }
}

fn parse_piece(text: &str, is_last: bool) -> Result<Piece, String> {
    let (rates, len) = match text.split_once('@') {
        Some((rates, len)) => (rates, Some(len)),
        None => (text, None),
    };
    let (from, to) = match rates.split_once("..") {
        Some((from, to)) => (parse_rate(from)?, parse_rate(to)?),
        None => (parse_rate(rates)?, parse_rate(rates)?),
    };
    let len_us = len.map(parse_duration).transpose()?;
    match len_us {
        Some(0) => Err("it takes no time".into()),
        None if !is_last => Err("only the last piece may go without a duration, @10s".into()),
        None if rates.contains("..") => Err("a ramp needs a duration, as in 500..2000@60s".into()),
        _ => Ok(Piece::new(from, to, len_us)),
    }
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let rate = text.parse().ok().filter(|rate| is_rate(*rate));
    rate.ok_or_else(|| format!("{text:?} is no rate: a number per second, at most {RATE_MAX}"))
}

fn is_rate(rate: f64) -> bool {
    rate.is_finite() && rate.is_sign_positive() && rate <= RATE_MAX
}

/// Writes the schedule in the form in which it can be typed.
impl fmt::Display for Schedule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, piece) in self.pieces.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(out, "{comma}{}", piece.from)?;
            if piece.to != piece.from {
                write!(out, "..{}", piece.to)?;
            }
            if let Some(len_us) = piece.len_us {
                write!(out, "@{}", Duration(len_us))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn schedule(text: &str) -> Schedule {
        text.parse().unwrap()
    }

    #[test]
    fn rates_counts_and_times() {
        let schedule = schedule("500@10s,500..2000@60s,5000@2s");
        assert_eq!(schedule.duration_us(), Some(72_000_000));
        let check = |time_us: u64, rate: f64, count: f64| {
            assert_eq!(schedule.rate(time_us), rate, "rate at {time_us}");
            assert_eq!(schedule.count(time_us), count, "count at {time_us}");
        };
        check(0, 500.0, 0.0);
        check(1_000_000, 500.0, 500.0);
        check(10_000_000, 500.0, 5000.0);
        check(40_000_000, 1250.0, 5000.0 + 30.0 * 875.0);
        check(70_000_000, 5000.0, 80_000.0);
        check(71_000_000, 5000.0, 85_000.0);
        check(72_000_000, 0.0, 90_000.0);
        check(99_000_000, 0.0, 90_000.0);
        assert_eq!(schedule.total(), 90_000.0);
        assert_eq!(schedule.count(72_000_000) / 72.0, 1250.0);
        assert_eq!(schedule.time_us(80_000.0), Some(70_000_000.0));
        assert_eq!(schedule.time_us(31_250.0), Some(40_000_000.0));
        assert_eq!(schedule.time_us(90_000.0), None);
    }

    #[test]
    fn stretches_without_arrivals_are_passed_over() {
        let schedule = schedule("0@10s,100@1s,0@5s,0..100@10s,0");
        assert_eq!(schedule.rate(3), 0.0);
        assert_eq!(schedule.time_us(0.0), Some(10_000_000.0));
        assert_eq!(schedule.time_us(100.0), Some(16_000_000.0));
        assert_eq!(schedule.time_us(600.0), None);
        assert_eq!(schedule.duration_us(), None);
        assert_eq!(schedule.total(), 600.0);
    }

    #[test]
    fn a_ramp_down_to_nothing_ends_in_time() {
        let schedule = schedule("1000..0@10s");
        assert_eq!(schedule.total(), 5000.0);
        assert_eq!(schedule.time_us(0.0), Some(0.0));
        let last = schedule.time_us(4_999.999_999).unwrap();
        assert!(last > 9_999_000.0 && last <= 10_000_000.0, "{last}");
    }

    #[test]
    fn the_number_of_an_arrival_determines_its_time_without_drift() {
        let third = schedule("3");
        assert_eq!(third.time_us(3e9), Some(1e15));
        assert_eq!(schedule("50000").time_us(1e9), Some(20_000e6));
        assert_eq!(schedule("0.001").time_us(1.0), Some(1e9));
    }

    #[test]
    fn mistakes_are_named() {
        let check = |text: &str, expected: &str| {
            assert_eq!(text.parse::<Schedule>().unwrap_err(), expected, "{text}");
        };
        let no_rate = "is no rate: a number per second, at most 1000000000";
        check("", &format!("\"\" {no_rate}"));
        check("-1", &format!("\"-1\" {no_rate}"));
        check("nan", &format!("\"nan\" {no_rate}"));
        check("inf", &format!("\"inf\" {no_rate}"));
        check("5x@3s", &format!("\"5x\" {no_rate}"));
        check("5@3s,6x@1s", &format!("piece 2, \"6x@1s\": \"6x\" {no_rate}"));
        check("5,6@1s", "piece 1, \"5\": only the last piece may go without a duration, @10s");
        check("5..6", "a ramp needs a duration, as in 500..2000@60s");
        check("5@0s", "it takes no time");
        check("5@1s,", &format!("piece 2, \"\": \"\" {no_rate}"));
        check("5@1s,5@1", {
            "piece 2, \"5@1\": a duration without a unit; write 10s, 500ms, 1.5m, 100us or 2h"
        });
        check("0", "nothing is ever due");
        check("0@5s", "nothing is ever due");
        check("1@5000000000h,1@5000000000h", "the durations together are too long");
        check("1@5000000000h,1@5000000000h,1", "the durations together are too long");
    }

    #[test]
    fn a_constant_rate_is_one() {
        assert_eq!(Schedule::constant(2.5), Some(schedule("2.5")));
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e10] {
            assert_eq!(Schedule::constant(wrong), None);
        }
    }

    #[test]
    fn scaling_scales_rates_and_not_times() {
        let half = schedule("500@10s,500..2000@60s,5000").scaled(0.5);
        assert_eq!(half, schedule("250@10s,250..1000@60s,2500"));
        assert_eq!(half.count(10_000_000), 2500.0);
    }

    fn piece() -> impl Strategy<Value = String> {
        let rate = prop_oneof![Just(0.0), 0.001..1e6_f64, (0..1000_u32).prop_map(f64::from)];
        (rate.clone(), rate, any::<bool>(), 1..10_000_000_u64).prop_map(
            |(from, to, ramp, len_us)| {
                let len = Duration(len_us);
                if ramp { format!("{from}..{to}@{len}") } else { format!("{from}@{len}") }
            },
        )
    }

    proptest! {
        #[test]
        fn a_shown_schedule_can_be_typed(pieces in prop::collection::vec(piece(), 1..5)) {
            let Ok(schedule) = pieces.join(",").parse::<Schedule>() else { return Ok(()) };
            prop_assert_eq!(schedule.to_string().parse(), Ok(schedule));
        }

        #[test]
        fn the_inverse_is_one(pieces in prop::collection::vec(piece(), 1..5), at in 0.0..1.0_f64) {
            let Ok(schedule) = pieces.join(",").parse::<Schedule>() else { return Ok(()) };
            let count = schedule.total() * at;
            let Some(time_us) = schedule.time_us(count) else { return Ok(()) };
            prop_assert!(time_us <= schedule.duration_us().unwrap() as f64 * (1.0 + 1e-12));
            // The counts just before and just after the time enclose `count`.
            let slack = 1e-9 * schedule.total() + 1e-9;
            prop_assert!(schedule.count(time_us as u64) <= count + slack);
            prop_assert!(schedule.count(time_us as u64 + 1) >= count - slack);
        }

        #[test]
        fn no_text_is_a_panic(text in "[0-9.@,smuhe-]{0,20}") {
            let _ = text.parse::<Schedule>();
        }
    }
}
