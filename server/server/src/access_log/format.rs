//! Formats one record as one line. Whatever a client sent, the line stays one line of printable
//! ASCII: an escape sequence in a request must not reach a terminal, nor a quote end its field.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};

use http1::{DateTime, MONTHS};
use session::Record;

/// Appends a record in Apache's combined log format, followed by the duration in microseconds;
/// times are in UTC: `peer - - [time] "request" status bytes "referer" "user agent" duration`.
pub(super) fn combined(line: &mut Vec<u8>, record: &Record<'_>) {
    let DateTime { year, month, day, hour, minute, second } = date_time(record);
    let month = MONTHS[month as usize - 1];
    print(line, format_args!("{} - - [{day:02}/{month}/{year}", peer(record).ip()));
    print(line, format_args!(":{hour:02}:{minute:02}:{second:02} +0000] \""));
    if record.method.is_empty() {
        line.push(b'-');
    } else {
        escape(line, record.method);
        line.push(b' ');
        escape(line, record.target);
        print(line, format_args!(" {}", record.version));
    }
    print(line, format_args!("\" {} {} \"", record.status, record.body_bytes));
    escape(line, record.referer.unwrap_or(b"-"));
    line.extend_from_slice(b"\" \"");
    escape(line, record.user_agent.unwrap_or(b"-"));
    print(line, format_args!("\" {}\n", record.duration_us));
}

/// Appends a record as one JSON object (RFC 8259): the facts of [`combined`], and the host.
pub(super) fn json(line: &mut Vec<u8>, record: &Record<'_>) {
    let DateTime { year, month, day, hour, minute, second } = date_time(record);
    let microsecond = record.unix_us % 1_000_000;
    print(line, format_args!("{{\"time\":\"{year}-{month:02}-{day:02}T{hour:02}:{minute:02}"));
    print(line, format_args!(":{second:02}.{microsecond:06}Z\",\"peer\":\"{}\"", peer(record)));
    json_text(line, "method", Some(record.method));
    json_text(line, "target", Some(record.target));
    json_text(line, "version", Some(record.version.as_bytes()));
    json_text(line, "host", record.host);
    print(line, format_args!(",\"status\":{},\"bytes\":{}", record.status, record.body_bytes));
    json_text(line, "referer", record.referer);
    json_text(line, "user_agent", record.user_agent);
    print(line, format_args!(",\"duration_us\":{}}}\n", record.duration_us));
}

/// The client's address. A client of IPv4 has its own at a socket for both families, too, as
/// service managers open them; the kernel shows it there as `::ffff:192.0.2.1` (RFC 4291
/// §2.5.5.2).
fn peer(record: &Record<'_>) -> SocketAddr {
    match record.peer.ip().to_canonical() {
        v4 @ IpAddr::V4(_) => SocketAddr::new(v4, record.peer.port()),
        IpAddr::V6(_) => record.peer,
    }
}

fn date_time(record: &Record<'_>) -> DateTime {
    DateTime::from_unix_seconds((record.unix_us / 1_000_000).cast_signed())
}

/// Appends `bytes` with quotes, backslashes, control characters and everything beyond ASCII as
/// `\xHH`, as Apache and nginx write them.
fn escape(line: &mut Vec<u8>, mut bytes: &[u8]) {
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f | 0x7f..);
    while let Some(plain) = bytes.iter().position(is_special) {
        line.extend_from_slice(&bytes[..plain]);
        print(line, format_args!("\\x{:02X}", bytes[plain]));
        bytes = &bytes[plain + 1..];
    }
    line.extend_from_slice(bytes);
}

/// Appends `,"name":"value"` or `,"name":null`. Bytes that are not UTF-8 become U+FFFD: JSON has no
/// way to hold them (RFC 8259 §8.1).
fn json_text(line: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    print(line, format_args!(",\"{name}\":"));
    let Some(value) = value else { return line.extend_from_slice(b"null") };
    line.push(b'"');
    for chunk in value.utf8_chunks() {
        chunk.valid().chars().for_each(|c| json_char(line, c));
        if !chunk.invalid().is_empty() {
            json_char(line, char::REPLACEMENT_CHARACTER);
        }
    }
    line.push(b'"');
}

fn json_char(line: &mut Vec<u8>, c: char) {
    match c {
        '"' | '\\' => line.extend_from_slice(&[b'\\', c as u8]),
        ' '..='~' => line.push(c as u8),
        // RFC 8259 §7: characters beyond the Basic Multilingual Plane are two surrogates.
        c => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                print(line, format_args!("\\u{unit:04x}"));
            }
        }
    }
}

fn print(line: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    line.write_fmt(arguments).expect("writing to memory cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(bytes: &[u8]) -> String {
        let mut line = Vec::new();
        escape(&mut line, bytes);
        String::from_utf8(line).unwrap()
    }

    fn json_escaped(bytes: &[u8]) -> String {
        let mut line = Vec::new();
        json_text(&mut line, "v", Some(bytes));
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn escapes() {
        let check = |bytes: &[u8], combined: &str, json: &str| {
            assert_eq!(escaped(bytes), combined);
            assert_eq!(json_escaped(bytes), format!(",\"v\":\"{json}\""));
        };
        check(b"/plain?a=1 ~", "/plain?a=1 ~", "/plain?a=1 ~");
        check(b"a\"b", "a\\x22b", "a\\\"b");
        check(b"a\\b", "a\\x5Cb", "a\\\\b");
        check(b"\r\n\0", "\\x0D\\x0A\\x00", "\\u000d\\u000a\\u0000");
        check(b"\x1b[31m", "\\x1B[31m", "\\u001b[31m");
        check(b"\x7f", "\\x7F", "\\u007f");
        check("ä".as_bytes(), "\\xC3\\xA4", "\\u00e4");
        check("\u{202e}".as_bytes(), "\\xE2\\x80\\xAE", "\\u202e");
        check("🪢".as_bytes(), "\\xF0\\x9F\\xAA\\xA2", "\\ud83e\\udea2");
        check(b"\xff\xfe!", "\\xFF\\xFE!", "\\ufffd\\ufffd!");
        check(b"\xe2\x82", "\\xE2\\x82", "\\ufffd");
    }
}
