//! The dates of HTTP (RFC 9110, section 5.6.7), as seconds since 1970 in UTC. What time it is now
//! is not known here.

use std::time::UNIX_EPOCH;

const DAY_SECONDS: i64 = 86_400;
/// The first second of the year 1.
const FIRST: i64 = -62_135_596_800;
/// The last second of the year 9999.
const LAST: i64 = 253_402_300_799;

/// Writes a date as IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT`. A time outside of the years 1 to
/// 9999, which the format cannot hold, becomes the nearest one inside.
pub fn format_date(unix_seconds: i64) -> [u8; 29] {
    let seconds = unix_seconds.clamp(FIRST, LAST);
    let days = seconds.div_euclid(DAY_SECONDS);
    let second_of_day = seconds.rem_euclid(DAY_SECONDS);
    let (year, month, day) = civil(days);
    let mut text = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    text[0..3].copy_from_slice(WEEKDAYS[days.rem_euclid(7) as usize]);
    text[8..11].copy_from_slice(MONTHS[month as usize]);
    put_digits(&mut text[5..7], day);
    put_digits(&mut text[12..16], year);
    put_digits(&mut text[17..19], second_of_day / 3600);
    put_digits(&mut text[20..22], second_of_day / 60 % 60);
    put_digits(&mut text[23..25], second_of_day % 60);
    text
}

/// Reads a date in any of the three forms that recipients have to accept: IMF-fixdate, RFC 850,
/// asctime. `None` if it is none of them, is no real day, or lies before 1970.
pub fn parse_date(text: &[u8]) -> Option<i64> {
    let time = httpdate::parse_http_date(str::from_utf8(text).ok()?).ok()?;
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

/// 1970 began on a Thursday.
const WEEKDAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];

/// From March on, so that the leap day is the last of a year.
const MONTHS: [&[u8; 3]; 12] = [
    b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec", b"Jan", b"Feb",
];

/// Year, month counted from March = 0, and day of the month. After Howard Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms".
fn civil(days: i64) -> (i64, i64, i64) {
    const ERA_DAYS: i64 = 146_097; // 400 years
    const EPOCH_DAYS: i64 = 719_468; // from 0000-03-01 to 1970-01-01
    let days = days + EPOCH_DAYS;
    let (era, day) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    (year + era * 400 + i64::from(month >= 10), month, day)
}

/// Fills `text` with the last digits of `number`.
fn put_digits(text: &mut [u8], mut number: i64) {
    for byte in text.iter_mut().rev() {
        *byte = b'0' + (number % 10) as u8;
        number /= 10;
    }
}
