//! Response heads as bytes. The caller decides which fields a response has.

use crate::bytes::{is_field_value, is_token};

/// Appends a response head to a buffer.
///
/// Call [`new`](Self::new), then [`field`](Self::field) and
/// [`content_length`](Self::content_length) in the order of the fields, then
/// [`finish`](Self::finish).
#[derive(Debug)]
#[must_use = "a head without its blank line is not a head"]
pub struct HeadWriter<'v> {
    out: &'v mut Vec<u8>,
}

impl<'v> HeadWriter<'v> {
    /// Writes the status line.
    ///
    /// # Panics
    ///
    /// If the status does not have three digits, which is a bug in the caller.
    pub fn new(out: &'v mut Vec<u8>, status: u16) -> Self {
        assert!((100..1000).contains(&status), "a status has three digits, not {status}");
        if status == 200 {
            // Most are, and need no search.
            out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
            return Self { out };
        }
        let digit = |ten: u16| b'0' + (status / ten % 10) as u8;
        let mut line = *b"HTTP/1.1 000 ";
        line[9..12].copy_from_slice(&[digit(100), digit(10), digit(1)]);
        out.extend_from_slice(&line);
        out.extend_from_slice(reason_phrase(status).as_bytes());
        out.extend_from_slice(b"\r\n");
        Self { out }
    }

    /// Writes one field.
    ///
    /// # Panics
    ///
    /// If the name is no token or the value has a control byte. That is a bug in the caller which
    /// would let a client write parts of the response, so it is checked in releases, too.
    pub fn field(&mut self, name: &str, value: &[u8]) {
        assert!(!name.is_empty() && name.bytes().all(is_token), "field name {name:?}");
        let clean = value.iter().fold(true, |clean, &byte| clean & is_field_value(byte));
        assert!(clean, "control byte in the value of {name}");
        for part in [name.as_bytes(), b": ", value, b"\r\n"] {
            self.out.extend_from_slice(part);
        }
    }

    /// Writes the length of the content.
    #[inline]
    pub fn content_length(&mut self, length: u64) {
        self.out.extend_from_slice(b"Content-Length: ");
        put_number(self.out, length);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Writes field lines that were rendered before, each with its line end.
    pub fn lines(&mut self, rendered: &[u8]) {
        debug_assert!(rendered.is_empty() || rendered.ends_with(b"\r\n"), "whole lines");
        self.out.extend_from_slice(rendered);
    }

    /// The buffer to which the caller appends whole field lines.
    pub fn rest(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// Writes the blank line.
    pub fn finish(self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

/// The reason phrase of a status, for people; empty for a status without one (RFC 9110, section 15;
/// RFC 6585; RFC 7725).
pub fn reason_phrase(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        _ => "",
    }
}

/// Appends the line that begins a chunk (RFC 9112, section 7.1).
pub fn put_chunk_size(out: &mut Vec<u8>, mut size: usize) {
    const DIGITS_MAX: usize = 16; // of 2^64 - 1
    let mut line = *b"0000000000000000\r\n";
    let mut start = DIGITS_MAX;
    loop {
        start -= 1;
        line[start] = b"0123456789abcdef"[size % 16];
        size /= 16;
        if size == 0 {
            break;
        }
    }
    out.extend_from_slice(&line[start..]);
}

/// Appends a decimal number.
fn put_number(out: &mut Vec<u8>, mut number: u64) {
    const DIGITS_MAX: usize = 20; // of 2^64 - 1
    let mut digits = [0; DIGITS_MAX];
    let mut start = DIGITS_MAX;
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}
