//! Times as access logs write them, in microseconds since 1970. A leap second counts as the next
//! second.

const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Parses `10/Oct/2000:13:55:36 -0700`.
pub(super) fn ncsa(text: &[u8]) -> Option<u64> {
    let mut rest = text;
    let day = digits(&mut rest, 2)?;
    expect(&mut rest, b'/')?;
    let (name, after) = rest.split_first_chunk::<3>()?;
    let month = MONTHS.iter().position(|known| known.eq_ignore_ascii_case(name))? as i64 + 1;
    rest = after;
    expect(&mut rest, b'/')?;
    let year = digits(&mut rest, 4)?;
    expect(&mut rest, b':')?;
    let seconds = time_of_day(&mut rest)?;
    expect(&mut rest, b' ')?;
    let offset = offset(rest)?;
    unix_us(days(year, month, day)?, seconds - offset, 0)
}

/// Parses `2026-01-02T03:04:05.123456Z`, or a time with an offset (RFC 3339, ISO 8601); a space may
/// stand for the T.
pub(super) fn iso(text: &[u8]) -> Option<u64> {
    let mut rest = text;
    let year = digits(&mut rest, 4)?;
    expect(&mut rest, b'-')?;
    let month = digits(&mut rest, 2)?;
    expect(&mut rest, b'-')?;
    let day = digits(&mut rest, 2)?;
    let (separator, after) = rest.split_first()?;
    rest = after;
    matches!(separator, b'T' | b't' | b' ').then_some(())?;
    let seconds = time_of_day(&mut rest)?;
    let mut micros = 0;
    if let Some(after) = rest.strip_prefix(b".") {
        let len = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (fraction, after) = after.split_at(len);
        let digit = |at: usize| fraction.get(at).map_or(0, |byte| u64::from(byte - b'0'));
        micros = (0..6).fold(0, |value, at| value * 10 + digit(at));
        rest = after;
    }
    let offset = if matches!(rest, b"Z" | b"z") { 0 } else { offset(rest)? };
    unix_us(days(year, month, day)?, seconds - offset, micros)
}

fn unix_us(days: i64, seconds: i64, micros: u64) -> Option<u64> {
    let seconds = u64::try_from(days * 86_400 + seconds).ok()?;
    Some(seconds * 1_000_000 + micros)
}

/// Parses `13:55:36`, in seconds.
fn time_of_day(rest: &mut &[u8]) -> Option<i64> {
    let hour = digits(rest, 2)?;
    expect(rest, b':')?;
    let minute = digits(rest, 2)?;
    expect(rest, b':')?;
    let second = digits(rest, 2)?;
    (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
}

/// Parses `-0700` or `-07:00`, in seconds.
fn offset(text: &[u8]) -> Option<i64> {
    let (sign, mut rest) = text.split_first()?;
    let hours = digits(&mut rest, 2)?;
    rest = rest.strip_prefix(b":").unwrap_or(rest);
    let minutes = digits(&mut rest, 2)?;
    let seconds = hours * 3600 + minutes * 60;
    match sign {
        b'+' if rest.is_empty() => Some(seconds),
        b'-' if rest.is_empty() => Some(-seconds),
        _ => None,
    }
}

fn digits(rest: &mut &[u8], count: usize) -> Option<i64> {
    let (digits, after) = rest.split_at_checked(count)?;
    *rest = after;
    let add =
        |value: i64, byte: &u8| byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0'));
    digits.iter().try_fold(0, add)
}

fn expect(rest: &mut &[u8], byte: u8) -> Option<()> {
    *rest = rest.strip_prefix(&[byte])?;
    Some(())
}

/// Days from 1970-01-01 to a date: Howard Hinnant's `days_from_civil`. Years begin in March, so
/// that the leap day is the last of its year, and 400 of them have 146,097 days.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let month_days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(is_leap),
        _ => return None,
    };
    if !(1..=month_days).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let check = |text: &str, expected: Option<u64>| {
            let read = if text.contains('/') { ncsa } else { iso };
            assert_eq!(read(text.as_bytes()), expected, "{text}");
        };
        let s = 1_000_000;
        check("10/Oct/2000:13:55:36 -0700", Some(971_211_336 * s));
        check("01/Jan/1970:00:00:00 +0000", Some(0));
        check("01/Jan/1970:00:30:00 +0100", None);
        check("29/Feb/2024:23:59:60 +0000", Some(1_709_251_200 * s));
        check("29/Feb/2023:00:00:00 +0000", None);
        check("31/Apr/2024:00:00:00 +0000", None);
        check("10/Foo/2000:13:55:36 -0700", None);
        check("10/Oct/2000:24:55:36 -0700", None);
        check("10/Oct/2000:13:55:36 -07", None);
        check("10/Oct/2000:13:55:36", None);
        check("2000-10-10T20:55:36Z", Some(971_211_336 * s));
        check("2000-10-10T13:55:36.5-07:00", Some(971_211_336 * s + 500_000));
        check("2000-10-10 20:55:36.123456789Z", Some(971_211_336 * s + 123_456));
        check("2000-10-10T20:55:36", None);
        check("2000-13-10T20:55:36Z", None);
        check("", None);
    }
}
