//! Numbers as a report shows them, for people only. Formats for programs do not use these
//! functions.

use http1::DateTime;
use statistics::Estimate;
use std::fmt;

/// A number with three significant digits from one on upwards, and no fewer than all digits before
/// the point: more would be noise.
pub fn figure(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => "-".into(),
        _ if size >= 99.95 => grouped(value.round()),
        _ if size >= 9.995 => format!("{value:.1}"),
        _ if size >= 0.995 || size == 0.0 => trimmed(format!("{value:.2}")),
        _ => significant(value),
    }
}

/// A number without trailing zeros, for the labels of axes and for values that were chosen, not
/// measured.
pub fn plain(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 { grouped(value) } else { figure(value) }
}

/// A count with its noun: `1 run`, `2 runs`.
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// A part of one as a percentage. A part below one is never shown as 100 %, and one above zero
/// never as 0 %.
pub fn percent(part: f64) -> String {
    Quantity::percent(part).to_string()
}

/// A number of bytes in binary units, as memory is measured.
pub fn memory(bytes: f64) -> String {
    Quantity::memory(bytes).to_string()
}

/// A number as it is shown, with its unit; empty if it has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// The number.
    pub number: String,
    /// The unit.
    pub unit: &'static str,
}

impl Quantity {
    /// As [`figure`] shows it.
    pub fn figure(value: f64) -> Self {
        Self { number: figure(value), unit: "" }
    }

    /// As [`percent`] shows it.
    pub fn percent(part: f64) -> Self {
        let percent = part * 100.0;
        let number = match percent {
            _ if percent > 0.0 && percent < 0.005 => "<0.01".into(),
            _ if (99.995..100.0).contains(&percent) => ">99.99".into(),
            _ => trimmed(format!("{percent:.2}")),
        };
        Self { number, unit: "%" }
    }

    /// As [`memory`] shows it.
    pub fn memory(bytes: f64) -> Self {
        let mut value = bytes;
        for unit in ["B", "KiB", "MiB", "GiB"] {
            if value < 1024.0 {
                return Self { number: figure(value), unit };
            }
            value /= 1024.0;
        }
        Self { number: figure(value), unit: "TiB" }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, unit } = self;
        let gap = if unit.is_empty() { "" } else { " " };
        write!(out, "{number}{gap}{unit}")
    }
}

/// A median with its interval.
pub fn estimate(estimate: &Estimate, show: fn(f64) -> String) -> String {
    interval(estimate.median, estimate.interval.low, estimate.interval.high, show)
}

/// A value with the ends of its interval; the value alone if they are the same.
pub fn interval(value: f64, low: f64, high: f64, show: fn(f64) -> String) -> String {
    let bounds = bounds(value, low, high, show).map(|bounds| format!(" {bounds}"));
    show(value) + &bounds.unwrap_or_default()
}

/// The ends of an interval; none if they are shown as its value is.
pub fn bounds(value: f64, low: f64, high: f64, show: fn(f64) -> String) -> Option<String> {
    let (value, low, high) = (show(value), show(low), show(high));
    (low != value || high != value).then(|| format!("[{low}, {high}]"))
}

/// A ratio: always two decimals, because it is compared with 1.
pub fn ratio(value: f64) -> String {
    if value < 0.095 { significant(value) } else { format!("{value:.2}") }
}

/// A duration in words.
pub fn duration(seconds: f64) -> String {
    match seconds {
        _ if seconds < 120.0 => format!("{seconds:.0} s"),
        _ if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

/// The date and time of a moment, in UTC: `2026-11-22 09:55`.
pub fn moment(unix_us: u64) -> String {
    let time = DateTime::from_unix_seconds((unix_us / 1_000_000).cast_signed());
    let DateTime { year, month, day, hour, minute, .. } = time;
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// A number below one: three digits after the zeros.
fn significant(value: f64) -> String {
    let decimals = (2.0 - value.abs().log10().floor()).clamp(0.0, 9.0) as usize;
    trimmed(format!("{value:.decimals$}"))
}

fn trimmed(text: String) -> String {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A whole number with a comma between each three digits.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_read_them() {
        let shown = [0.0, 0.001_234, 0.5, 1.0, 9.876, 12.34, 123.4, 1_234_567.0].map(figure);
        assert_eq!(shown, ["0", "0.00123", "0.5", "1", "9.88", "12.3", "123", "1,234,567"]);
        assert_eq!([0, 1, 2].map(|n| counted(n, "run")), ["0 runs", "1 run", "2 runs"]);
        assert_eq!([2000.0, 2.5, 0.25].map(plain), ["2,000", "2.5", "0.25"]);
        assert_eq!(
            [0.0, 1e-6, 0.5, 0.99999, 1.0].map(percent),
            ["0 %", "<0.01 %", "50 %", ">99.99 %", "100 %"]
        );
        assert_eq!([512.0, 3.0 * 1024.0 * 1024.0].map(memory), ["512 B", "3 MiB"]);
        assert_eq!([0.004, 0.5, 1.118].map(ratio), ["0.004", "0.50", "1.12"]);
        assert_eq!([5.0, 600.0, 9000.0].map(duration), ["5 s", "10 min", "2.5 h"]);
        assert_eq!(figure(f64::NAN), "-");
    }

    #[test]
    fn an_interval_without_width_is_not_shown() {
        assert_eq!(interval(3.0, 3.0, 3.0, figure), "3");
        assert_eq!(interval(3.0, 2.0, 3.0, figure), "3 [2, 3]");
    }

    /// The expected texts are those of `date --utc`.
    #[test]
    fn moments() {
        assert_eq!(moment(0), "1970-01-01 00:00 UTC");
        assert_eq!(moment(951_782_400_000_000), "2000-02-29 00:00 UTC");
        assert_eq!(moment(1_795_341_357_000_000), "2026-11-22 09:55 UTC");
    }
}
