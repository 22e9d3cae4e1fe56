//! A strict parser of responses: bytes in, responses out, no leniency.
//!
//! Pure, so that the bytes may come from a socket or from a connection in memory. It accepts what a
//! server of this project may send; a general client would have to be more lenient.

use std::fmt;

use crate::request::find;

/// How the end of a body was found (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Framing {
    /// There is none: HEAD, 1xx, 204, 304.
    None,
    /// `Content-Length`.
    Length,
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// The end of the connection.
    Close,
}

/// Field names and values.
pub type Fields = Vec<(String, Vec<u8>)>;

/// One response.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Names as sent and values without surrounding blanks, in order.
    pub fields: Fields,
    /// The content, with chunks put together.
    pub body: Vec<u8>,
    /// How the end of the body was found.
    pub framing: Framing,
}

impl Response {
    /// The values of all fields called `name`, as text.
    pub fn values<'r>(&'r self, name: &'r str) -> impl Iterator<Item = String> + 'r {
        self.fields
            .iter()
            .filter(move |(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    }

    /// The value of the field `name`; several lines are joined by commas (RFC 9110 §5.3).
    pub fn field(&self, name: &str) -> Option<String> {
        let values: Vec<_> = self.values(name).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    /// Whether the list in the field `name` has the member `token`, in any case.
    pub fn lists(&self, name: &str, token: &str) -> bool {
        self.field(name)
            .is_some_and(|list| list.split(',').any(|item| item.trim().eq_ignore_ascii_case(token)))
    }
}

/// The responses in some bytes.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// The complete responses.
    pub responses: Vec<Response>,
    /// The length of these responses in bytes; what follows is the beginning of another.
    pub consumed: usize,
}

/// Why bytes are not responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The offset at which the malformed response begins.
    pub offset: usize,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "response at byte {}: {}", self.offset, self.reason)
    }
}

impl std::error::Error for ParseError {}

/// Parses as many responses as `bytes` hold.
///
/// `heads` tells of each request whether it was a HEAD; requests beyond its end were not. `closed`
/// means that no more bytes can come, which ends a body without a length and makes a partial
/// response wrong.
///
/// # Errors
/// The first response that is malformed or, if `closed`, cut short.
pub fn parse_responses(bytes: &[u8], heads: &[bool], closed: bool) -> Result<Parsed, ParseError> {
    let mut parsed = Parsed::default();
    let mut finals = 0;
    while parsed.consumed < bytes.len() {
        let offset = parsed.consumed;
        let is_head = heads.get(finals).copied().unwrap_or(false);
        let one = parse_one(&bytes[offset..], is_head, closed)
            .map_err(|reason| ParseError { offset, reason })?;
        let Some((response, len)) = one else { break };
        finals += usize::from(response.status >= 200);
        parsed.consumed += len;
        parsed.responses.push(response);
    }
    if closed && parsed.consumed < bytes.len() {
        let reason = format!("cut short after {} bytes", bytes.len() - parsed.consumed);
        return Err(ParseError { offset: parsed.consumed, reason });
    }
    Ok(parsed)
}

/// A response and its length, or nothing if more bytes are needed.
type Partial<T> = Result<Option<T>, String>;

/// The longest head that the parser waits for: a longer one is a fault of the server.
const HEAD_BYTES_MAX: usize = 64 * 1024;

fn parse_one(bytes: &[u8], is_head: bool, closed: bool) -> Partial<(Response, usize)> {
    if !bytes.starts_with(&b"HTTP/1.1 "[..bytes.len().min(9)]) {
        return Err(format!("no status line of HTTP/1.1: {}", escape(bytes, 60)));
    }
    let Some(head_end) = find(&bytes[..bytes.len().min(HEAD_BYTES_MAX)], b"\r\n\r\n") else {
        return if bytes.len() < HEAD_BYTES_MAX { Ok(None) } else { Err("endless head".into()) };
    };
    let (status, fields) = parse_head(&bytes[..head_end])?;
    let mut response = Response { status, fields, body: Vec::new(), framing: Framing::None };
    response.framing = framing(&response, is_head)?;
    let start = head_end + 4;
    let body = match response.framing {
        Framing::None => Some((Vec::new(), 0)),
        Framing::Length => length_body(&response, &bytes[start..])?,
        Framing::Chunked => chunked_body(&bytes[start..])?,
        Framing::Close => closed.then(|| (bytes[start..].to_vec(), bytes.len() - start)),
    };
    let Some((body, len)) = body else { return Ok(None) };
    response.body = body;
    Ok(Some((response, start + len)))
}

/// Parses status and fields; `head` is without the blank line.
fn parse_head(head: &[u8]) -> Result<(u16, Fields), String> {
    let (status_line, mut rest) = split_line(head)?;
    let status = parse_status(status_line)?;
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let (line, after) = split_line(rest)?;
        fields.push(parse_field(line)?);
        rest = after;
    }
    Ok((status, fields))
}

/// Splits off a line and its CRLF; a CR or LF by itself is a control byte like any other.
fn split_line(bytes: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let len = find(bytes, b"\r\n").unwrap_or(bytes.len());
    let line = &bytes[..len];
    if line.iter().any(|&byte| (byte < b' ' && byte != b'\t') || byte == 0x7f) {
        return Err(format!("control byte in the head: {}", escape(line, 60)));
    }
    Ok((line, bytes.get(len + 2..).unwrap_or_default()))
}

/// `HTTP/1.1 SP 3DIGIT SP [reason]` (RFC 9112 §4: the second space is not optional).
fn parse_status(line: &[u8]) -> Result<u16, String> {
    let digits = line.get(9..12).filter(|digits| digits.iter().all(u8::is_ascii_digit));
    let status = digits
        .filter(|_| line.get(12) == Some(&b' '))
        .and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok())
        .filter(|status| (100..600).contains(status));
    status.ok_or_else(|| format!("bad status line: {}", escape(line, 60)))
}

fn parse_field(line: &[u8]) -> Result<(String, Vec<u8>), String> {
    let bad = || format!("bad field line: {}", escape(line, 60));
    let colon = line.iter().position(|&byte| byte == b':').ok_or_else(bad)?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    if name.is_empty() || !name.iter().all(is_token) {
        return Err(bad());
    }
    Ok((String::from_utf8_lossy(name).into_owned(), value.to_vec()))
}

/// How the body is framed (RFC 9112 §6.3, without its leniency).
fn framing(response: &Response, is_head: bool) -> Result<Framing, String> {
    let lengths = response.values("Content-Length").count();
    let coding = response.field("Transfer-Encoding");
    match (lengths, coding.as_deref()) {
        (2.., _) => Err("two Content-Length fields".into()),
        (1, Some(_)) => Err("Content-Length with Transfer-Encoding".into()),
        _ if is_head || response.status < 200 || matches!(response.status, 204 | 304) => {
            Ok(Framing::None)
        }
        (1, None) => Ok(Framing::Length),
        (0, Some("chunked")) => Ok(Framing::Chunked),
        (0, Some(other)) => Err(format!("Transfer-Encoding: {other}")),
        (0, None) => Ok(Framing::Close),
    }
}

fn length_body(response: &Response, bytes: &[u8]) -> Partial<(Vec<u8>, usize)> {
    let value = response.field("Content-Length").unwrap_or_default();
    let len = digits(value.as_bytes(), 10).ok_or(format!("Content-Length: {value}"))?;
    Ok(bytes.get(..len).map(|body| (body.to_vec(), len)))
}

/// Parses chunks without extensions or trailers, which this server never sends.
fn chunked_body(bytes: &[u8]) -> Partial<(Vec<u8>, usize)> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let Some(line_len) = find(&bytes[at..], b"\r\n") else { return Ok(None) };
        let size = &bytes[at..at + line_len];
        let len = digits(size, 16).ok_or(format!("chunk size: {}", escape(size, 40)))?;
        at += line_len + 2;
        let Some(chunk) = bytes.get(at..at + len + 2) else { return Ok(None) };
        if !chunk.ends_with(b"\r\n") {
            return Err(format!("chunk of {len} bytes without CRLF at its end"));
        }
        body.extend_from_slice(&chunk[..len]);
        at += len + 2;
        if len == 0 {
            return Ok(Some((body, at)));
        }
    }
}

fn digits(bytes: &[u8], radix: u32) -> Option<usize> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.starts_with('+'))?;
    usize::from_str_radix(text, radix).ok()
}

/// At most `max` bytes in a form that a terminal can show.
pub(crate) fn escape(bytes: &[u8], max: usize) -> String {
    let shown = bytes[..bytes.len().min(max)].escape_ascii();
    if bytes.len() > max {
        format!("{shown}… ({} bytes)", bytes.len())
    } else {
        shown.to_string()
    }
}

#[cfg(test)]
mod tests;
