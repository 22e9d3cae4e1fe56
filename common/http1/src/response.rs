//! Reading the head of a response, as a client does (RFC 9112, sections 4 and 6.3).
//!
//! The end of the message is determined as strictly as for requests; only the fields are parsed
//! that decide it, or whether the connection goes on.

use std::fmt;

use crate::{
    BodyFraming, Lines, Version,
    bytes::{find, find_no_field_value, is_name},
    lines::{HopField, Line, Options, Runs, read_line},
};

/// The largest number of fields: no server sends so many.
const FIELDS_MAX: usize = 100;

/// The head of one response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// Bytes of the head with its blank line.
    pub len: usize,
    /// The status, from 100 to 999.
    pub status: u16,
    /// The version, 1.0 or 1.1.
    pub version: Version,
    /// Whether the server will take another request on this connection.
    pub keep_alive: bool,
    /// Whether `Connection` names fields, which are for one hop then (RFC 9110, section 7.6.1).
    pub names_fields: bool,
    /// Where the body ends.
    pub body: ResponseBody,
    /// The length that the head announces, of which a response to HEAD has nothing.
    pub content_length: Option<u64>,
    /// Where the lines of the fields begin.
    fields_at: usize,
    /// Where they end and the blank line begins.
    blank_at: usize,
    /// Whether there is a `Date`.
    pub has_date: bool,
    /// Those that may be passed on.
    passed_on: Runs,
}

impl ResponseHead {
    /// All fields, in the bytes that the head was read from.
    pub fn lines<'b>(&'b self, bytes: &'b [u8]) -> Lines<'b> {
        Lines::new(bytes.get(self.fields_at..self.blank_at).unwrap_or_default())
    }

    /// The lines of all fields that are for the next recipient, in the bytes that the head was read
    /// from, several at once; none if some of them are not written as others are. Those that
    /// `Connection` names are among them.
    #[inline]
    pub fn passed_on<'b>(&self, bytes: &'b [u8]) -> Option<impl Iterator<Item = &'b [u8]>> {
        self.passed_on.lines(bytes)
    }
}

/// Where the body of a response ends (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    /// The body ends by its length or with its last chunk.
    Framed(BodyFraming),
    /// The body ends where the connection does.
    UntilClose,
}

/// Why bytes are no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseError {
    /// The bytes are not a status line followed by fields.
    Syntax,
    /// More fields than any server sends.
    TooManyFields,
    /// A field line that is continued in the next line (obs-fold, RFC 9112, section 5.2).
    Folded,
    /// A Content-Length that is no number, or two that differ.
    ContentLength,
    /// A coding other than chunked.
    TransferEncoding,
    /// Both chunked and a length: a smuggled response (RFC 9112, section 6.3).
    LengthAndChunks,
    /// Chunks from a server that knows none: its framing is faulty (RFC 9112, section 6.1).
    ChunksIn10,
}

impl fmt::Display for ResponseError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Syntax => "not an HTTP/1 response head",
            Self::TooManyFields => "more than 100 fields",
            Self::ContentLength => "Content-Length is no number, or there are two",
            Self::Folded => "a folded field line (RFC 9112, section 5.2)",
            Self::TransferEncoding => "a Transfer-Encoding other than chunked",
            Self::LengthAndChunks => {
                "Content-Length beside Transfer-Encoding (RFC 9112, section 6.3)"
            }
            Self::ChunksIn10 => "Transfer-Encoding in HTTP/1.0 (RFC 9112, section 6.1)",
        })
    }
}

/// Parses the head at the front of `bytes`, the response to a HEAD request if `to_head`. None if it
/// is not complete. An interim response (1xx) is returned like any other, without a body.
///
/// # Errors
/// The bytes are no response, or its end could be read in two ways.
pub fn parse_response_head(
    bytes: &[u8],
    to_head: bool,
) -> Result<Option<ResponseHead>, ResponseError> {
    let Some((version, status, fields_at)) = status_line(bytes)? else { return Ok(None) };
    let mut head = ResponseHead {
        len: 0,
        status,
        version,
        keep_alive: false,
        names_fields: false,
        body: ResponseBody::UntilClose,
        content_length: None,
        fields_at,
        blank_at: fields_at,
        has_date: false,
        passed_on: Runs::new(),
    };
    let Some(framing) = head.read_fields(bytes)? else { return Ok(None) };
    let Options { close, keep_alive, names_fields } = framing.options;
    let is_11 = version == Version::Http11;
    if framing.chunked && !is_11 {
        return Err(ResponseError::ChunksIn10);
    }
    let asked = if is_11 { !close } else { keep_alive };
    head.body = framing.body(status, to_head)?;
    head.keep_alive = asked && head.body != ResponseBody::UntilClose;
    head.content_length = framing.length;
    head.names_fields = names_fields;
    Ok(Some(head))
}

/// Parses the status line (RFC 9112, section 4). Returns where the fields begin, too; none if the
/// line is not complete. The blank before an empty reason may be absent.
fn status_line(bytes: &[u8]) -> Result<Option<(Version, u16, usize)>, ResponseError> {
    const NAME: &[u8] = b"HTTP/1.";
    let version = match bytes.first_chunk() {
        Some(b"HTTP/1.1") => Some(Version::Http11),
        Some(b"HTTP/1.0") => Some(Version::Http10),
        _ if !bytes.starts_with(NAME) && !NAME.starts_with(bytes) => {
            return Err(ResponseError::Syntax);
        }
        _ => None,
    };
    let Some(end) = find_no_field_value(bytes, 0) else { return Ok(None) };
    let fields_at = match (bytes[end], bytes.get(end + 1)) {
        (b'\r', Some(b'\n')) => end + 2,
        (b'\n', _) => end + 1,
        // Whatever is wrong with the line, it is so when the line is complete.
        _ if find(b'\n', bytes).is_none() => return Ok(None),
        _ => return Err(ResponseError::Syntax),
    };
    let version = version.ok_or(ResponseError::Syntax)?;
    match bytes[NAME.len() + 1..end] {
        [b' ', h @ b'1'..=b'9', t @ b'0'..=b'9', o @ b'0'..=b'9', ref rest @ ..]
            if matches!(rest, [] | [b' ', ..]) =>
        {
            let [h, t, o] = [h, t, o].map(|digit| u16::from(digit - b'0'));
            Ok(Some((version, h * 100 + t * 10 + o, fields_at)))
        }
        _ => Err(ResponseError::Syntax),
    }
}

/// Whether a line of the head begins with white space.
fn has_fold(bytes: &[u8]) -> bool {
    let lines = bytes.split(|byte| *byte == b'\n');
    let head = lines.take_while(|line| !matches!(line, [] | [b'\r']));
    head.skip(1).any(|line| line.starts_with(b" ") || line.starts_with(b"\t"))
}

impl ResponseHead {
    /// Reads the lines of the fields and the blank one; none if that has not arrived.
    #[inline]
    fn read_fields(&mut self, bytes: &[u8]) -> Result<Option<Framing>, ResponseError> {
        // What a field means counts only if the lines of all fields are sound.
        let (mut framing, mut outcome) = (Framing::default(), Ok(()));
        let (mut at, mut count) = (self.fields_at, 0);
        loop {
            match read_line(bytes, at) {
                Ok(Line::Partial) => return Ok(None),
                Ok(Line::Field(_)) if count == FIELDS_MAX => {
                    return Err(ResponseError::TooManyFields);
                }
                Ok(Line::Field(line)) => {
                    let name = line.name(bytes);
                    match HopField::from_name(name) {
                        None => {
                            self.passed_on.add(&line, bytes);
                            self.has_date |= is_name(name, b"date");
                        }
                        Some(field) if outcome.is_ok() => {
                            outcome = framing.take(field, line.value(bytes));
                        }
                        Some(_) => {}
                    }
                    count += 1;
                    at = line.end;
                }
                Ok(Line::Blank(len)) => {
                    self.passed_on.end();
                    (self.blank_at, self.len) = (at, at + len);
                    return outcome.map(|()| Some(framing));
                }
                Err(_) if has_fold(bytes) => return Err(ResponseError::Folded),
                Err(_) => return Err(ResponseError::Syntax),
            }
        }
    }
}

/// The fields that decide about the body and the connection.
#[derive(Default)]
struct Framing {
    length: Option<u64>,
    chunked: bool,
    options: Options,
}

impl Framing {
    /// Takes in a field, which all that decide are for one hop.
    #[inline]
    fn take(&mut self, field: HopField, value: &[u8]) -> Result<(), ResponseError> {
        match field {
            HopField::Connection => self.options.take(value),
            HopField::ContentLength => self.content_length(value)?,
            HopField::TransferEncoding => {
                if self.chunked || !is_name(value, b"chunked") {
                    return Err(ResponseError::TransferEncoding);
                }
                self.chunked = true;
            }
            HopField::Other => {}
        }
        Ok(())
    }

    fn content_length(&mut self, value: &[u8]) -> Result<(), ResponseError> {
        let length = number(value).ok_or(ResponseError::ContentLength)?;
        if self.length.replace(length).is_some_and(|before| before != length) {
            return Err(ResponseError::ContentLength);
        }
        Ok(())
    }

    /// Determines the body by the rules of RFC 9112, section 6.3, for a client.
    fn body(&self, status: u16, to_head: bool) -> Result<ResponseBody, ResponseError> {
        if to_head || matches!(status, 100..=199 | 204 | 304) {
            return Ok(ResponseBody::Framed(BodyFraming::None));
        }
        match (self.chunked, self.length) {
            (true, None) => Ok(ResponseBody::Framed(BodyFraming::Chunked)),
            (true, Some(_)) => Err(ResponseError::LengthAndChunks),
            (false, Some(length)) => Ok(ResponseBody::Framed(BodyFraming::Length(length))),
            (false, None) => Ok(ResponseBody::UntilClose),
        }
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH_5: ResponseBody = ResponseBody::Framed(BodyFraming::Length(5));
    const NONE: ResponseBody = ResponseBody::Framed(BodyFraming::None);
    const CHUNKED: ResponseBody = ResponseBody::Framed(BodyFraming::Chunked);

    /// Checks a response head; `fields` are without the blank line.
    #[track_caller]
    fn check(status_line: &str, fields: &str, keep_alive: bool, body: ResponseBody) {
        let head = format!("{status_line}\r\n{fields}\r\n");
        let parsed = parse_response_head(format!("{head}body").as_bytes(), false);
        let parsed = parsed.unwrap().expect("it is complete");
        assert_eq!(parsed.len, head.len());
        assert_eq!((parsed.keep_alive, parsed.body), (keep_alive, body));
        for end in 0..head.len() {
            assert_eq!(parse_response_head(&head.as_bytes()[..end], false), Ok(None), "{end}");
        }
    }

    #[test]
    fn where_the_body_ends_and_whether_the_connection_goes_on() {
        let ok = "HTTP/1.1 200 OK";
        check(ok, "Content-Length: 5\r\n", true, LENGTH_5);
        check(ok, "content-length:5\r\nConnection: keep-alive, Close\r\n", false, LENGTH_5);
        check(ok, "Transfer-Encoding: Chunked\r\n", true, CHUNKED);
        check(ok, "Server: x\r\n", false, ResponseBody::UntilClose);
        check(ok, "Content-Length: 5\r\nContent-Length: 5\r\n", true, LENGTH_5);
        check("HTTP/1.0 200 OK", "Content-Length: 5\r\n", false, LENGTH_5);
        let kept = "Connection: keep-alive\r\nContent-Length: 5\r\n";
        check("HTTP/1.0 200 OK", kept, true, LENGTH_5);
        check("HTTP/1.1 304 Not Modified", "Content-Length: 5\r\n", true, NONE);
        check("HTTP/1.1 204 No Content", "", true, NONE);
        check("HTTP/1.1 100 Continue", "", true, NONE);
        check("HTTP/1.1 200 ", "Content-Length: 5\r\n", true, LENGTH_5);
    }

    #[test]
    fn a_response_to_head_has_no_body() {
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        let head = parse_response_head(bytes, true).unwrap().unwrap();
        assert_eq!((head.body, head.content_length), (NONE, Some(5)));
    }

    #[test]
    fn fields_are_as_they_were_sent() {
        let some = "HTTP/1.1 200 OK\r\nServer:x y \r\nSet-Cookie: a\r\nset-cookie: b\r\n";
        let more = "n: v\r\n".repeat(40);
        for (more, count) in [("", 3), (&*more, 43)] {
            let bytes = format!("{some}{more}\r\nbody: no field\r\n").into_bytes();
            let head = parse_response_head(&bytes, false).unwrap().unwrap();
            let lines: Vec<_> = head.lines(&bytes).collect();
            assert_eq!(lines.len(), count);
            let expected: [(&[u8], &[u8]); 3] =
                [(b"Server", b"x y"), (b"Set-Cookie", b"a"), (b"set-cookie", b"b")];
            assert_eq!(lines[..3], expected);
        }
        let bytes = b"HTTP/1.1 200 OK\r\n\r\n";
        let head = parse_response_head(bytes, false).unwrap().unwrap();
        assert_eq!(head.lines(bytes).count(), 0);
    }

    #[test]
    fn lines_that_are_passed_on_as_they_are() {
        let check = |fields: &str, expected: Option<&[&str]>| {
            let bytes = format!("HTTP/1.1 200 OK\r\n{fields}\r\nbody").into_bytes();
            let head = parse_response_head(&bytes, false).unwrap().unwrap();
            let text = |lines| str::from_utf8(lines).unwrap();
            let lines: Option<Vec<_>> = head.passed_on(&bytes).map(|it| it.map(text).collect());
            assert_eq!(lines.as_deref(), expected, "{fields:?}");
            head.has_date
        };
        let whole = "A: 1\r\nDate: \r\n";
        assert!(check(&format!("{whole}Keep-Alive: 2\r\nB: 3\r\n"), Some(&[whole, "B: 3\r\n"])));
        assert!(!check("Content-Length: 0\r\nTE: date\r\n", Some(&[])));
        check("TE:none\r\nA: 1\r\n", Some(&["A: 1\r\n"]));
        for unusual in
            ["A:1\r\n", "A:  1\r\n", "A:\t1\r\n", "A: 1 \r\n", "A: 1\n", "A: 1 \n", "A:\r\n"]
        {
            check(&format!("B: 2\r\n{unusual}C: 3\r\n"), None);
        }
        let apart = "A: 1\r\nTE: 2\r\n";
        check(&apart.repeat(4), Some(&["A: 1\r\n"; 4]));
        check(&apart.repeat(5), None);
    }

    #[track_caller]
    fn check_error(head: &str, expected: ResponseError) {
        assert_eq!(parse_response_head(head.as_bytes(), false), Err(expected));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_an_error() {
        let with = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n");
        for line in [
            "SSH-2.0-x",
            "HTTP/2 200 OK",
            "HTTP/1.2 200 OK",
            "HTTP/1.1  200 OK",
            "HTTP/1.1 20 OK",
            "HTTP/1.1 2000 OK",
            "HTTP/1.1 099 OK",
            "HTTP/1.1 200OK",
            "HTTP/1.1 200 O\0K",
            "HTTP/1.1 200 O\rK",
            "",
        ] {
            check_error(&format!("{line}\r\n\r\n"), ResponseError::Syntax);
        }
        check_error(&with("Content-Length: -1"), ResponseError::ContentLength);
        check_error(&with("Content-Length: 99999999999999999999"), ResponseError::ContentLength);
        let two = "Content-Length: 1\r\nContent-Length: 2";
        check_error(&with(two), ResponseError::ContentLength);
        check_error(&with("Transfer-Encoding: gzip"), ResponseError::TransferEncoding);
        let both = "Transfer-Encoding: chunked\r\nContent-Length: 2";
        check_error(&with(both), ResponseError::LengthAndChunks);
        let old = "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        check_error(old, ResponseError::ChunksIn10);
        check_error(&with("A: b\r\n c"), ResponseError::Folded);
        check_error(&with(&"A: b\r\n".repeat(101)), ResponseError::TooManyFields);
    }
}
