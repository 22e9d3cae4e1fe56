//! Numbers of the log formats, read by hand: seconds become microseconds without rounding twice.

const POWERS: [u64; 7] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000];

/// Parses digits with at most six after a point, at the start of `bytes`: seconds as microseconds,
/// and the number of bytes they took. `None` for rarer forms: [`us`] reads those too.
#[inline]
pub(super) fn leading_us(bytes: &[u8]) -> Option<(u64, usize)> {
    let (seconds, whole_len) = leading_digits(bytes);
    if !(1..=9).contains(&whole_len) {
        return None;
    }
    let Some(fraction) = bytes[whole_len..].strip_prefix(b".") else {
        return Some((seconds * 1_000_000, whole_len));
    };
    let (parts, len) = leading_digits(fraction);
    let scale = POWERS[6_usize.checked_sub(len)?];
    Some((seconds * 1_000_000 + parts * scale, whole_len + 1 + len))
}

/// The digits at the start and how many there are; ten stand for more.
#[inline]
fn leading_digits(bytes: &[u8]) -> (u64, usize) {
    let mut value = 0;
    let mut len = 0;
    while len < 10
        && let Some(digit) = bytes.get(len).map(|byte| byte.wrapping_sub(b'0'))
        && digit < 10
    {
        value = value * 10 + u64::from(digit);
        len += 1;
    }
    (value, len)
}

/// Parses all of `bytes` as seconds, in any form C's `strtod` knows except words, as microseconds.
pub(super) fn us(bytes: &[u8]) -> Option<u64> {
    if let Some((us, taken)) = leading_us(bytes)
        && taken == bytes.len()
    {
        return Some(us);
    }
    if let Some(us) = plain_us(bytes) {
        return Some(us);
    }
    let is_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
    let text = std::str::from_utf8(bytes).ok().filter(|_| bytes.iter().all(is_number))?;
    let seconds: f64 = text.parse().ok()?;
    // A cast saturates: the builder finds what is too large.
    (seconds.is_finite() && seconds >= 0.0).then(|| (seconds * 1e6).round() as u64)
}

/// Parses all of `bytes` as seconds with at most six digits behind a point: exact, where a float of
/// as many digits is not.
fn plain_us(bytes: &[u8]) -> Option<u64> {
    let point = bytes.iter().position(|byte| *byte == b'.').unwrap_or(bytes.len());
    let (seconds, fraction) = (whole(&bytes[..point])?, bytes.get(point + 1..).unwrap_or(&[]));
    let scale = POWERS[6_usize.checked_sub(fraction.len())?];
    let parts = if fraction.is_empty() { 0 } else { whole(fraction)? };
    seconds.checked_mul(1_000_000)?.checked_add(parts * scale)
}

/// Parses all of `bytes` as a whole number.
pub(super) fn whole(bytes: &[u8]) -> Option<u64> {
    let digits = bytes.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(bytes).ok().filter(|_| digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<u64>) {
        assert_eq!(us(text.as_bytes()), expected, "{text}");
    }

    #[test]
    fn seconds() {
        check("0.000000", Some(0));
        check("3", Some(3_000_000));
        check("3.", Some(3_000_000));
        check(".5", Some(500_000));
        check("0.343", Some(343_000));
        check("0.0000014", Some(1));
        check("0.0000015", Some(2));
        check("1700000000.123456", Some(1_700_000_000_123_456));
        check("4379538356.270001", Some(4_379_538_356_270_001));
        check("43795383561.27", Some(43_795_383_561_270_000));
        check("1e-3", Some(1000));
        check("+2", Some(2_000_000));
        check("99999999999999999999", Some(u64::MAX));
        for wrong in ["", ".", "-1", "1s", "nan", "inf", "0x10", "1 ", "1..2", "e"] {
            check(wrong, None);
        }
    }

    #[test]
    fn leading_seconds() {
        assert_eq!(leading_us(b"0.343\n"), Some((343_000, 5)));
        assert_eq!(leading_us(b"12 x"), Some((12_000_000, 2)));
        assert_eq!(leading_us(b"999999999.999999"), Some((999_999_999_999_999, 16)));
        assert_eq!(leading_us(b"1.1234567"), None);
        assert_eq!(leading_us(b"x"), None);
    }
}
