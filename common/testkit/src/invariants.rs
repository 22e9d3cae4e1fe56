//! Rules for every response in every case, which no case should have to repeat.
//!
//! Each message names the section it comes from.

use crate::response::{Framing, Response};

/// Every fault of `response`, the answer to a `method` request, that no response may have.
pub(crate) fn check(method: &str, response: &Response) -> Vec<String> {
    let rules = [date, once, framing, entity_tag, status_fields, partial];
    let mut problems: Vec<_> = rules.iter().filter_map(|rule| rule(response)).collect();
    problems.extend(content(method, response));
    problems
}

fn problem(broken: bool, message: &str) -> Option<String> {
    broken.then(|| message.to_owned())
}

/// An origin server with a clock sends Date in all 2xx, 3xx and 4xx responses.
fn date(response: &Response) -> Option<String> {
    let value = response.field("Date").unwrap_or_default();
    problem(
        response.status >= 200 && !is_imf_fixdate(&value),
        "Date is missing or not an IMF-fixdate (RFC 9110 §6.6.1)",
    )
}

/// `Tue, 14 Nov 2023 22:13:20 GMT` (RFC 9110 §5.6.7).
fn is_imf_fixdate(value: &str) -> bool {
    const SHAPE: &[u8] = b"Aaa, 00 Aaa 0000 00:00:00 GMT";
    let fits = |(&shape, byte): (&u8, u8)| match shape {
        b'0' => byte.is_ascii_digit(),
        b'A' => byte.is_ascii_uppercase(),
        b'a' => byte.is_ascii_lowercase(),
        _ => byte == shape,
    };
    value.len() == SHAPE.len() && SHAPE.iter().zip(value.bytes()).all(fits)
}

/// Fields that are not lists occur once.
fn once(response: &Response) -> Option<String> {
    const SINGLE: &[&str] = &[
        "Content-Encoding",
        "Content-Range",
        "Content-Type",
        "Date",
        "ETag",
        "Last-Modified",
        "Location",
        "X-Content-Type-Options",
    ];
    let twice = SINGLE.iter().find(|name| response.values(name).count() > 1)?;
    Some(format!("{twice} occurs twice (RFC 9110 §5.3)"))
}

/// The end of the connection may end a body only where it was announced: only HTTP/1.0 clients get
/// such bodies, if the length is not known beforehand.
fn framing(response: &Response) -> Option<String> {
    let has = |name| response.field(name).is_some();
    if response.status < 200 || response.status == 204 {
        let broken = has("Content-Length") || has("Transfer-Encoding");
        return problem(broken, "framing fields in a 1xx or 204 (RFC 9110 §8.6, RFC 9112 §6.1)");
    }
    problem(
        response.framing == Framing::Close && !response.lists("Connection", "close"),
        "a body without a length: its end cannot be told from an accident (RFC 9112 §8)",
    )
}

/// Strong tags only: `"` etagc* `"` (RFC 9110 §8.8.3).
fn entity_tag(response: &Response) -> Option<String> {
    let tag = response.field("ETag")?;
    let inner = tag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let good = inner.is_some_and(|inner| {
        !inner.is_empty() && inner.bytes().all(|byte| byte > b' ' && byte != b'"' && byte != 0x7f)
    });
    problem(!good, "ETag is not a strong entity tag (RFC 9110 §8.8.3)")
}

/// Fields that a status requires.
fn status_fields(response: &Response) -> Option<String> {
    let lacks = |name| response.field(name).is_none();
    match response.status {
        405 => problem(lacks("Allow"), "405 without Allow (RFC 9110 §15.5.6)"),
        416 => {
            let range = response.field("Content-Range").unwrap_or_default();
            let good = range.starts_with("bytes */");
            problem(!good, "416 without Content-Range: bytes */length (RFC 9110 §15.5.17)")
        }
        301 | 302 | 303 | 307 | 308 => {
            problem(lacks("Location"), "a redirect without Location (RFC 9110 §15.4)")
        }
        _ => None,
    }
}

fn partial(response: &Response) -> Option<String> {
    let range = response.field("Content-Range").is_some();
    let multipart = response
        .field("Content-Type")
        .is_some_and(|kind| kind.to_ascii_lowercase().starts_with("multipart/byteranges"));
    match response.status {
        206 => problem(
            range == multipart,
            "206 needs Content-Range or multipart/byteranges, and not both (RFC 9110 §15.3.7)",
        ),
        416 => None,
        _ => problem(range, "Content-Range in a response that is not partial (RFC 9110 §14.4)"),
    }
}

/// A representation states its type, and that clients must not guess another.
fn content(method: &str, response: &Response) -> Option<String> {
    if response.status != 200 || !matches!(method, "GET" | "HEAD") {
        return None;
    }
    if response.field("Content-Type").is_none() {
        return Some("200 without Content-Type (RFC 9110 §8.3)".into());
    }
    let sniff = response.field("X-Content-Type-Options");
    problem(sniff.as_deref() != Some("nosniff"), "X-Content-Type-Options is not nosniff (policy)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::parse_responses;

    const DATE: &str = "Date: Tue, 14 Nov 2023 22:13:20 GMT\r\n";
    const TYPE: &str = "Content-Type: a/b\r\nX-Content-Type-Options: nosniff\r\n";

    #[test]
    fn rules() {
        let check = |status: &str, fields: &str, expected: &str| {
            let bytes = format!("HTTP/1.1 {status} X\r\n{fields}\r\n");
            let parsed = parse_responses(bytes.as_bytes(), &[], true).expect("well-formed");
            let problems = check("GET", &parsed.responses[0]).join("; ");
            assert_eq!(problems.is_empty(), expected.is_empty(), "{bytes}: {problems}");
            assert!(problems.contains(expected), "{bytes}: {problems}");
        };
        let empty = format!("{DATE}Content-Length: 0\r\n");
        check("404", &empty, "");
        check("404", "Content-Length: 0\r\n", "§6.6.1");
        check("404", "Date: Tue, 14 Nov 2023 22:13:20 UTC\r\nContent-Length: 0\r\n", "§6.6.1");
        check("404", "Date: Tuesday, 14-Nov-23 22:13:20 GMT\r\nContent-Length: 0\r\n", "§6.6.1");
        check("404", &format!("{empty}{DATE}"), "occurs twice");
        check("404", DATE, "RFC 9112 §8");
        check("404", &format!("{DATE}Connection: close\r\n"), "");
        check("200", &format!("{empty}{TYPE}"), "");
        check("200", &empty, "§8.3");
        check("200", &format!("{empty}Content-Type: a/b\r\n"), "nosniff");
        check("200", &format!("{empty}{TYPE}Content-Range: bytes 0-1/2\r\n"), "§14.4");
        check("200", &format!("{empty}{TYPE}ETag: W/\"a\"\r\n"), "§8.8.3");
        check("200", &format!("{empty}{TYPE}ETag: a\r\n"), "§8.8.3");
        check("204", DATE, "");
        check("204", &empty, "§8.6");
        check("206", &empty, "§15.3.7");
        check("301", &empty, "Location");
        check("304", DATE, "");
        check("405", &empty, "Allow");
        check("416", &empty, "§15.5.17");
        check("416", &format!("{empty}Content-Range: bytes */9\r\n"), "");
    }
}
