//! A strict parser of `multipart/byteranges` bodies (RFC 9110 §14.6, RFC 2046 §5.1).
//!
//! Boundaries are not searched for: each part states its length in `Content-Range`, and the
//! boundary must follow exactly there, so a wrong length cannot hide.

use crate::response::escape;

/// One part of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The value of the part's `Content-Type`, if it has one.
    pub content_type: Option<String>,
    /// The first byte's offset in the whole.
    pub first: u64,
    /// The last byte's offset.
    pub last: u64,
    /// The length of the whole.
    pub complete: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Parses a body.
///
/// # Errors
/// What is wrong, in words.
pub fn parse(content_type: &str, body: &[u8]) -> Result<Vec<Part>, String> {
    let delimiter = format!("\r\n--{}", boundary(content_type)?);
    // The first delimiter may lack its CRLF, as nothing precedes it.
    let mut rest = body
        .strip_prefix(delimiter.as_bytes())
        .or_else(|| body.strip_prefix(&delimiter.as_bytes()[2..]))
        .ok_or_else(|| format!("does not begin with the boundary: {}", escape(body, 60)))?;
    let mut parts = Vec::new();
    while rest != b"--\r\n" && rest != b"--" {
        let (part, after) = parse_part(rest)?;
        rest = after.strip_prefix(delimiter.as_bytes()).ok_or_else(|| {
            format!("no boundary after part {}: {}", parts.len() + 1, escape(after, 60))
        })?;
        parts.push(part);
    }
    Ok(parts)
}

/// The boundary of a content type: at most 70 characters (RFC 2046 §5.1.1), quoted or not.
fn boundary(content_type: &str) -> Result<&str, String> {
    let (kind, value) = content_type.split_once(';').unwrap_or((content_type, ""));
    if !kind.trim().eq_ignore_ascii_case("multipart/byteranges") {
        return Err(format!("not multipart/byteranges: {content_type}"));
    }
    let boundary = value.trim().strip_prefix("boundary=").unwrap_or("").trim_matches('"');
    let fits = (1..=70).contains(&boundary.len());
    fits.then_some(boundary).ok_or_else(|| format!("no boundary in: {content_type}"))
}

/// Parses one part and returns what follows it; `bytes` begin after the boundary.
fn parse_part(bytes: &[u8]) -> Result<(Part, &[u8]), String> {
    let bytes = bytes.strip_prefix(b"\r\n").ok_or("no line end after a boundary")?;
    let head_end = crate::request::find(bytes, b"\r\n\r\n").ok_or("a part without a head")?;
    let head = String::from_utf8_lossy(&bytes[..head_end]);
    let field = |name: &str| {
        head.split("\r\n").find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    };
    let range = field("Content-Range").ok_or("a part without Content-Range")?;
    let (first, last, complete) =
        parse_content_range(&range).ok_or_else(|| format!("Content-Range: {range}"))?;
    let content = &bytes[head_end + 4..];
    let len = usize::try_from(last - first + 1).map_err(|error| error.to_string())?;
    let part_bytes = content.get(..len).ok_or_else(|| format!("the part {range} is short"))?;
    let content_type = field("Content-Type");
    let part = Part { content_type, first, last, complete, bytes: part_bytes.to_vec() };
    Ok((part, &content[len..]))
}

/// Parses `bytes 0-8/1000`, with `first <= last < complete`.
fn parse_content_range(value: &str) -> Option<(u64, u64, u64)> {
    let (range, complete) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last, complete) = (first.parse().ok()?, last.parse().ok()?, complete.parse().ok()?);
    (first <= last && last < complete).then_some((first, last, complete))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/byteranges; boundary=XX";

    fn ranges(body: &str) -> Result<Vec<(u64, u64)>, String> {
        Ok(parse(TYPE, body.as_bytes())?.iter().map(|part| (part.first, part.last)).collect())
    }

    #[test]
    fn good_bodies() {
        let part = |range: &str, bytes: &str| {
            format!(
                "--XX\r\nContent-Type: a/b\r\nContent-Range: bytes {range}/9\r\n\r\n{bytes}\r\n"
            )
        };
        let body = format!("{}{}--XX--\r\n", part("0-1", "ab"), part("5-5", "f"));
        assert_eq!(ranges(&body), Ok(vec![(0, 1), (5, 5)]));
        assert_eq!(ranges(&format!("\r\n{body}")), Ok(vec![(0, 1), (5, 5)]));
    }

    #[test]
    fn bad_bodies() {
        let check = |body: &str, reason: &str| {
            let message = ranges(body).expect_err(body);
            assert!(message.contains(reason), "{body:?}: {message}");
        };
        let head = "--XX\r\nContent-Range: bytes 0-1/9\r\n\r\n";
        check("", "begin with the boundary");
        check("--XY\r\n", "begin with the boundary");
        check("--XX\r\n\r\n\r\n--XX--\r\n", "without");
        check("--XX\r\nContent-Range: bytes 1-0/9\r\n\r\n", "Content-Range: bytes 1-0");
        check(&format!("{head}abc\r\n--XX--\r\n"), "no boundary after part 1");
        check(&format!("{head}ab\r\n--XX"), "no line end");
        check(&format!("{head}a"), "is short");
        check(&format!("{head}ab\r\n--XX--\r\nmore"), "no line end");
    }

    #[test]
    fn content_types() {
        assert_eq!(boundary("multipart/byteranges; boundary=\"a b\""), Ok("a b"));
        assert!(boundary("multipart/byteranges").is_err());
        assert!(boundary("text/plain; boundary=a").is_err());
    }
}
