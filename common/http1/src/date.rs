//! The dates of HTTP (RFC 9110, section 5.6.7), as seconds since 1970 in UTC, and the calendar
//! behind them. There is no clock here, and there are no time zones: logs of several machines are
//! compared, and a change to summer time would make that difficult.

use std::time::UNIX_EPOCH;

const DAY_SECONDS: i64 = 86_400;
/// The first second of the year 1.
const FIRST: i64 = -62_135_596_800;
/// The last second of the year 9999.
const LAST: i64 = 253_402_300_799;

/// The names of months, as in logs and in the dates of HTTP.
pub const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A date and a time of day, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateTime {
    /// From 1 to 9999.
    pub year: i64,
    /// The month, from 1.
    pub month: i64,
    /// The day of the month, from 1.
    pub day: i64,
    /// From 0 to 23.
    pub hour: i64,
    /// From 0 to 59.
    pub minute: i64,
    /// From 0 to 59: leap seconds are not counted since 1970.
    pub second: i64,
}

impl DateTime {
    /// The date and time in UTC of a number of seconds since 1970. A time outside of the years 1 to
    /// 9999 becomes the nearest one inside.
    pub fn from_unix_seconds(unix_seconds: i64) -> Self {
        let seconds = unix_seconds.clamp(FIRST, LAST);
        let (year, month, day) = civil(seconds.div_euclid(DAY_SECONDS));
        let seconds = seconds.rem_euclid(DAY_SECONDS);
        let (hour, minute) = (seconds / 3600, seconds / 60 % 60);
        Self { year, month, day, hour, minute, second: seconds % 60 }
    }
}

/// Formats a date as IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT`. A time outside of the years 1 to
/// 9999, for which the format has no room, becomes the nearest one inside.
pub fn format_date(unix_seconds: i64) -> [u8; 29] {
    let days = unix_seconds.clamp(FIRST, LAST).div_euclid(DAY_SECONDS);
    let date = DateTime::from_unix_seconds(unix_seconds);
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    text[0..3].copy_from_slice(WEEKDAYS[days.rem_euclid(7) as usize]);
    text[8..11].copy_from_slice(MONTHS[date.month as usize - 1].as_bytes());
    put_digits(&mut text[5..7], date.day);
    put_digits(&mut text[12..16], date.year);
    put_digits(&mut text[17..19], date.hour);
    put_digits(&mut text[20..22], date.minute);
    put_digits(&mut text[23..25], date.second);
    text
}

/// Parses a date in any of the three forms that recipients have to accept: IMF-fixdate, RFC 850,
/// asctime. `None` if it has none of these forms, is no real day, or is before 1970.
pub fn parse_date(text: &[u8]) -> Option<i64> {
    let time = httpdate::parse_http_date(str::from_utf8(text).ok()?).ok()?;
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

/// The days of the week from 1970-01-01 on, which was a Thursday.
const WEEKDAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];

/// The year, month and day of the month, all from 1, of a number of days since 1970. After Howard
/// Hinnant, "chrono-Compatible Low-Level Date Algorithms": years begin in March, so that the leap
/// day is the last day of a year.
fn civil(days: i64) -> (i64, i64, i64) {
    const ERA_DAYS: i64 = 146_097; // 400 years
    const EPOCH_DAYS: i64 = 719_468; // from 0000-03-01 to 1970-01-01
    let days = days + EPOCH_DAYS;
    let (era, day) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    (year + era * 400 + i64::from(month >= 10), (month + 2) % 12 + 1, day)
}

/// Fills `text` with the last digits of `number`.
fn put_digits(text: &mut [u8], mut number: i64) {
    for byte in text.iter_mut().rev() {
        *byte = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let check = |unix_seconds: i64, expected| {
            let m = DateTime::from_unix_seconds(unix_seconds);
            assert_eq!((m.year, m.month, m.day, m.hour, m.minute, m.second), expected);
        };
        check(0, (1970, 1, 1, 0, 0, 0));
        check(784_111_777, (1994, 11, 6, 8, 49, 37)); // the example of RFC 9110 §5.6.7
        check(951_782_399, (2000, 2, 28, 23, 59, 59));
        check(951_782_400, (2000, 2, 29, 0, 0, 0));
        check(951_868_800, (2000, 3, 1, 0, 0, 0));
        check(4_107_542_400, (2100, 3, 1, 0, 0, 0)); // 2100 is no leap year
        check(1_735_689_599, (2024, 12, 31, 23, 59, 59));
        check(-1, (1969, 12, 31, 23, 59, 59));
        check(i64::MIN, (1, 1, 1, 0, 0, 0));
        check(i64::MAX, (9999, 12, 31, 23, 59, 59));
    }
}
