//! The time series as CSV, a row for each interval. The units are in the names of the columns.

use std::fmt::Write as _;

use crate::measures::Interval;
use crate::outcome::Outcome;

const HEADER: &str = "start_s,sessions_due,sessions_completed,requests,replies,errors,body_bytes,\
in_flight,connections,requests_per_s,replies_per_s,mean_ms,p50_ms,p90_ms,p99_ms,max_ms\n";

/// Writes the series: a header, then a row for each interval. Cells of times are empty where no
/// reply was completed. The last interval may be shorter than the others.
#[must_use]
pub fn render(outcome: &Outcome) -> String {
    let mut text = HEADER.to_owned();
    for (index, interval) in outcome.measures.series.iter().enumerate() {
        row(&mut text, index as f64 * seconds(outcome), seconds(outcome), interval);
    }
    text
}

fn seconds(outcome: &Outcome) -> f64 {
    outcome.interval_us.max(1) as f64 / 1e6
}

fn row(text: &mut String, start_s: f64, seconds: f64, interval: &Interval) {
    // Writing to a string does not fail, here and below.
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
        text.push_str(",,,,,\n");
        return;
    }
    let ms = |quantile| times.value_at_quantile(quantile) as f64 / 1e3;
    let (mean, max) = (times.mean() / 1e3, times.max() as f64 / 1e3);
    let _ = writeln!(text, ",{mean:.3},{:.3},{:.3},{:.3},{max:.3}", ms(0.5), ms(0.9), ms(0.99));
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
    fn every_row_has_a_cell_for_each_column() {
        for line in render(&sample::run()).lines() {
            assert_eq!(line.split(',').count(), 16, "{line}");
        }
    }
}
