//! Formats numbers for people. Reports for programs do not use these functions.

use hdrhistogram::Histogram;

/// Formats microseconds in milliseconds: fewer decimals the larger the number is, none beyond
/// microseconds.
pub(super) fn ms(us: f64) -> String {
    let ms = us / 1e3;
    match ms {
        _ if ms < 9.9995 => format!("{ms:.3}"),
        _ if ms < 99.995 => format!("{ms:.2}"),
        _ if ms < 9_999.95 => format!("{ms:.1}"),
        _ => format!("{ms:.0}"),
    }
}

/// Formats a duration in a suitable unit.
pub(super) fn duration(us: u64) -> String {
    let (value, unit) = match us {
        0..1_000 => (us as f64, "us"),
        1_000..1_000_000 => (us as f64 / 1e3, "ms"),
        _ => (us as f64 / 1e6, "s"),
    };
    let text = format!("{value:.3}");
    format!("{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Formats a number with a comma between each three digits.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a rate, with one decimal below a thousand.
pub(super) fn rate(per_second: f64) -> String {
    if per_second < 999.95 { format!("{per_second:.1}") } else { count(per_second.round() as u64) }
}

/// Formats a part of one in percent. A part below one is never shown as 100 %, a part above none
/// never as 0 %.
pub(super) fn percent(part: f64) -> String {
    let percent = part * 100.0;
    match percent {
        _ if percent > 0.0 && percent < 0.005 => "<0.01 %".into(),
        _ if (99.995..100.0).contains(&percent) => ">99.99 %".into(),
        _ => format!("{percent:.2} %"),
    }
}

/// Formats a number in at most six columns, with a letter as the last from a thousand on: `12.3k`.
pub(super) fn short(number: f64) -> String {
    let mut value = number;
    for suffix in ["", "k", "M", "G", "T", "P"] {
        if value < 999.5 {
            return match suffix {
                "" => format!("{value:.0}"),
                _ => format!("{value:.1}{suffix}"),
            };
        }
        value /= 1e3;
    }
    ">999P".into()
}

/// Formats bytes in decimal units, which are usual for networks.
pub(super) fn bytes(number: f64) -> String {
    let mut value = number;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 999.95 {
            return format!("{value:.1} {unit}");
        }
        value /= 1e3;
    }
    format!("{value:.1} TB")
}

/// The value, in milliseconds, at a quantile; `-` if nothing was recorded.
pub(super) fn quantile_ms(histogram: &Histogram<u64>, quantile: f64) -> String {
    if histogram.is_empty() { "-".into() } else { ms(histogram.value_at_quantile(quantile) as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_read_them() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 999, 1_500, 10_000_000].map(duration), ["0 us", "999 us", "1.5 ms", "10 s"]);
        assert_eq!([0.0, 1_234.0, 9_999.6, 99_999.0].map(ms), ["0.000", "1.234", "10.00", "100.0"]);
        assert_eq!([12e6, 3_600e6].map(ms), ["12000", "3600000"]);
        assert_eq!([999.94, 999.96, 43_210.4].map(rate), ["999.9", "1,000", "43,210"]);
        assert_eq!([0.0, 999.0, 1e3, 12_345.0].map(short), ["0", "999", "1.0k", "12.3k"]);
        assert_eq!([999_600.0, u64::MAX as f64].map(short), ["1.0M", ">999P"]);
        assert_eq!([12.0, 1e6, 2.5e13].map(bytes), ["12.0 B", "1.0 MB", "25.0 TB"]);
    }

    #[test]
    fn rounding_hides_no_failure() {
        let shown = [0.0, 1e-9, 0.5, 0.999_999, 1.0].map(percent);
        assert_eq!(shown, ["0.00 %", "<0.01 %", "50.00 %", ">99.99 %", "100.00 %"]);
    }
}
