//! The time series as CSV, one row for each interval. The names of the columns contain the units.

use std::fmt::Write as _;

use super::json::mostly_own_lag;
use crate::measures::Interval;
use crate::outcome::Outcome;

const HEADER: &str = "start_s,sessions_due,sessions_completed,requests,replies,errors,body_bytes,\
in_flight,connections,requests_per_s,replies_per_s,mean_ms,p50_ms,p90_ms,p99_ms,max_ms,\
mostly_own_lag\n";

/// Writes the series: a header, then a row for each interval. Cells of times are empty where no
/// reply was completed. The last interval of the window may be shorter than the others; rates are
/// over each interval's own length. The last column names the times of the whole run that are
/// mostly the generator's own lag, which is not known of an interval.
#[must_use]
pub fn render(outcome: &Outcome) -> String {
    let mut text = HEADER.to_owned();
    let own = mostly_own_lag(outcome).join(" ");
    for (index, interval) in outcome.measures.series.iter().enumerate() {
        let (start_us, length_us) = outcome.interval_span_us(index);
        row(&mut text, (start_us, length_us), interval, &own);
    }
    text
}

fn row(text: &mut String, (start_us, length_us): (u64, u64), interval: &Interval, own: &str) {
    let (start_s, seconds) = (start_us as f64 / 1e6, length_us.max(1) as f64 / 1e6);
    // Writing to a string does not fail; this holds for the whole file.
    let _ = write!(
        text,
        "{start_s:.3},{},{},{},{},{},{},{},{},{:.3},{:.3}",
        interval.sessions_due,
        interval.sessions_completed,
        interval.requests,
        interval.replies,
        interval.errors,
        interval.body_bytes,
        interval.in_flight,
        interval.connections,
        interval.requests as f64 / seconds,
        interval.replies as f64 / seconds,
    );
    let times = &interval.times;
    if times.is_empty() {
        let _ = writeln!(text, ",,,,,,{own}");
        return;
    }
    let ms = |quantile| times.value_at_quantile(quantile) as f64 / 1e3;
    let (mean, max) = (times.mean() / 1e3, times.max() as f64 / 1e3);
    let (p50, p90, p99) = (ms(0.5), ms(0.9), ms(0.99));
    let _ = writeln!(text, ",{mean:.3},{p50:.3},{p90:.3},{p99:.3},{max:.3},{own}");
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn golden() {
        sample::check_golden("series.csv", &render(&sample::run()));
    }

    #[test]
    fn times_that_are_mostly_lag_are_named() {
        let mut outcome = sample::run();
        let times = &mut outcome.measures.times;
        let replies = times.corrected.len();
        times.lag.record_n(times.corrected.max(), 9 * replies).unwrap();
        assert!(
            render(&outcome)
                .lines()
                .nth(1)
                .unwrap()
                .ends_with(",p50 p75 p90 p95 p99 p99.9 p99.99 max")
        );
    }

    #[test]
    fn rates_of_a_short_last_interval_are_over_its_own_length() {
        let mut outcome = sample::run();
        outcome.window_us = 11_500_000; // eleven and a half intervals
        let text = render(&outcome);
        let last: Vec<&str> = text.lines().last().unwrap().split(',').collect();
        assert_eq!((last[3], last[9], last[10]), ("3600", "7200.000", "7182.000"));
    }

    #[test]
    fn every_row_has_a_cell_for_each_column() {
        for line in render(&sample::run()).lines() {
            assert_eq!(line.split(',').count(), 17, "{line}");
        }
    }
}
