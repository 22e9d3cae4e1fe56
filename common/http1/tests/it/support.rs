//! Helpers that the test modules share: one-shot and piecewise parsing, and heads as text to
//! compare.

use http1::{Head, HeadError, HeadLimits, Parsed, Target, parse_head};

/// A head as one line of text; "partial" if it is not complete; or the error.
pub(crate) type Outcome = Result<String, HeadError>;

/// Parses all bytes at once.
pub(crate) fn parse(bytes: &[u8], limits: &HeadLimits) -> Outcome {
    match parse_head(bytes, 0, limits)? {
        Parsed::Partial { .. } => Ok("partial".to_owned()),
        Parsed::Complete(head) => {
            check_invariants(&bytes[..head.len], &head);
            Ok(describe(&head))
        }
    }
}

/// Checks invariants of every accepted head, whatever the bytes.
fn check_invariants(bytes: &[u8], head: &Head<'_>) {
    let text = bytes.escape_ascii();
    assert!(bytes.ends_with(b"\r\n\r\n"), "{text}");
    let line_feeds = bytes.iter().filter(|&&byte| byte == b'\n').count();
    let returns = bytes.iter().filter(|&&byte| byte == b'\r').count();
    let line_ends = bytes.windows(2).filter(|pair| pair == b"\r\n").count();
    assert_eq!((line_feeds, returns), (line_ends, line_ends), "{text}");
    assert!(!bytes.contains(&0), "{text}");
    assert!(head.host.is_none_or(|host| !host.is_empty()), "{text}");
}

/// Parses like a connection that reads `bytes` up to each of `cuts`, and then all of them. Bytes
/// that have not arrived do not exist: each call gets a slice that ends before them.
pub(crate) fn parse_in_pieces(
    bytes: &[u8],
    cuts: impl IntoIterator<Item = usize>,
    limits: &HeadLimits,
) -> Outcome {
    let mut scanned = 0;
    for end in cuts.into_iter().chain([bytes.len()]) {
        let piece = bytes[..end].to_vec().into_boxed_slice();
        match parse_head(&piece, scanned, limits)? {
            Parsed::Partial { scanned: now } => {
                assert!(scanned <= now && now <= end, "{scanned} <= {now} <= {end}");
                scanned = now;
            }
            Parsed::Complete(head) => return Ok(describe(&head)),
        }
    }
    Ok("partial".to_owned())
}

/// Formats the values of a head, except its fields.
pub(crate) fn describe(head: &Head<'_>) -> String {
    let target = match head.target {
        Target::Asterisk => "*".to_owned(),
        Target::Authority => "authority".to_owned(),
        Target::Path { path, query: None } => text(path),
        Target::Path { path, query: Some(query) } => format!("{} ? {}", text(path), text(query)),
    };
    let host = head.host.map_or("-".to_owned(), text);
    let after = if head.keep_alive { "keep" } else { "close" };
    format!(
        "{:?} {target} {:?} {host} {after} {:?} {:?} {}",
        head.method, head.version, head.body, head.expectation, head.len
    )
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
