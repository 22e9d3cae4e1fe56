//! Request heads: finding the end of one, and parsing it. The state of a head that is not complete
//! is one number, so a connection that waits costs nothing.
//!
//! However the bytes of a head are cut into reads, the outcome is the same. To ensure that, an
//! error in the field lines is reported only when the head is complete, after any wrong line end or
//! exceeded limit before it. An error in the request line is reported as soon as the line is
//! complete, and bytes that cannot be a method at once.

use memchr::{memchr, memchr_iter};

use crate::{
    FieldName, HeadError, HeadLimits, Lines, Method, Target, Values, Version,
    authority::Authority,
    fields::{Fields, Picked},
    request_line::{RequestLine, check_prefix},
};

/// How the end of a request body is found (RFC 9112, section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFraming {
    /// No body.
    None,
    /// A body of this many bytes, perhaps none.
    Length(u64),
    /// The chunked transfer coding.
    Chunked,
}

/// What the client waits for before it sends the body (RFC 9110, section 10.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expectation {
    /// Nothing.
    #[default]
    None,
    /// `100-continue`.
    Continue,
    /// An expectation that no standard defines: 417.
    Unknown,
}

/// The result of [`parse_head`].
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation for each request")]
pub enum Parsed<'b> {
    /// The head has no blank line yet.
    Partial {
        /// How many bytes were scanned; to be passed to the next call.
        scanned: usize,
    },
    /// A complete head.
    Complete(Head<'b>),
}

/// A request head that passed every check. It borrows from the buffer that it was read from.
#[derive(Debug)]
#[non_exhaustive]
pub struct Head<'b> {
    /// Bytes of the head, with its blank line and with a tolerated blank line before it.
    pub len: usize,
    /// The method.
    pub method: Method,
    /// The method as it was sent.
    pub method_bytes: &'b [u8],
    /// The target of the request.
    pub target: Target<'b>,
    /// The target as it was sent.
    pub target_bytes: &'b [u8],
    /// Host and port that the request is for: from an absolute target, or from `Host`. It is always
    /// present in HTTP/1.1.
    pub host: Option<&'b [u8]>,
    /// The protocol version.
    pub version: Version,
    /// Whether the client wants to keep this connection.
    pub keep_alive: bool,
    /// Whether `Connection` names fields, which are for one hop then (RFC 9110, section 7.6.1).
    pub names_fields: bool,
    /// How the body ends.
    pub body: BodyFraming,
    /// What the client waits for. HTTP/1.0 clients cannot wait for anything.
    pub expectation: Expectation,
    picked: Picked<'b>,
}

impl<'b> Head<'b> {
    /// The value of the first line of a field, without white space around it.
    pub fn field(&self, name: FieldName) -> Option<&'b [u8]> {
        self.picked.first(name)
    }

    /// The value of the only line of a field that has one value. A repeated field has no value that
    /// all recipients would agree on, and counts as absent.
    pub fn only(&self, name: FieldName) -> Option<&'b [u8]> {
        self.picked.only(name)
    }

    /// The values of all lines of a field.
    pub fn values(&self, name: FieldName) -> Values<'b> {
        self.picked.values(name)
    }

    /// All fields, as they were sent.
    pub fn lines(&self) -> Lines<'b> {
        self.picked.lines()
    }

    /// Whether any field makes the request conditional; `If-Range` counts.
    pub fn has_conditions(&self) -> bool {
        self.picked.has_conditions()
    }
}

/// Parses the request head at the front of `bytes`, which may be longer than the head.
///
/// `scanned` says how many of the bytes an earlier call has scanned: the number in its
/// [`Parsed::Partial`], or 0 for a new head. With it a head that arrives a byte at a time costs
/// little more than one that arrives at once.
///
/// # Errors
///
/// The peer sent bytes that are no request, that are ambiguous, or that exceed a limit. The answer
/// is [`HeadError::status`], and the connection has to be closed.
pub fn parse_head<'b>(
    bytes: &'b [u8],
    scanned: usize,
    limits: &HeadLimits,
) -> Result<Parsed<'b>, HeadError> {
    let partial = Parsed::Partial { scanned: bytes.len() };
    let Some(start) = skip_blank_line(bytes)? else {
        return Ok(partial);
    };
    let message = &bytes[start..];
    let scanned = scanned.saturating_sub(start);
    let Some(line_end) = find_line_end(message, limits)? else {
        return Ok(partial);
    };
    // The first part of the head arrived earlier. Parse it only if it is complete now.
    if scanned > line_end && find_head_end(message, scanned, limits)?.is_none() {
        return Ok(partial);
    }
    let line = RequestLine::parse(&message[..line_end - 1])?;
    match finish(&line, message, line_end + 1, start, limits) {
        Ok(Parsed::Partial { .. }) => find_head_end(message, scanned, limits).map(|_| partial),
        Err(error) => match find_head_end(message, 0, limits)? {
            None => Ok(partial),
            Some(_) => Err(error),
        },
        complete => complete,
    }
}

/// Whether bytes that are no request, or only a part of one, begin like a HEAD request: whatever
/// else is wrong with it, its answer has no content (RFC 9110, section 9.3.2). Only the blank line
/// that may precede a request is skipped: any other bytes before the method are refused as soon as
/// they arrive, and it must not matter whether a method has arrived by then.
pub fn begins_head_request(bytes: &[u8]) -> bool {
    bytes.strip_prefix(b"\r\n").unwrap_or(bytes).starts_with(b"HEAD ")
}

/// Skips one blank line before a request line (RFC 9112, section 2.2). `None`: wait for more.
fn skip_blank_line(bytes: &[u8]) -> Result<Option<usize>, HeadError> {
    match bytes {
        [] | [b'\r'] | [b'\r', b'\n'] => Ok(None),
        [b'\r', b'\n', b'\r' | b'\n', ..] => Err(HeadError::BlankLines),
        [b'\r', b'\n', ..] => Ok(Some(2)),
        [b'\n', ..] => Err(HeadError::BareLineFeed),
        [b'\r', ..] => Err(HeadError::BlankLines),
        _ => Ok(Some(0)),
    }
}

/// Finds the line feed of the request line. `None`: wait for more.
fn find_line_end(message: &[u8], limits: &HeadLimits) -> Result<Option<usize>, HeadError> {
    let line_window = limits.request_line_bytes_max.saturating_add(2);
    let window = line_window.min(limits.head_bytes_max);
    let outcome = match memchr(b'\n', &message[..message.len().min(window)]) {
        Some(end) if end > 0 && message[end - 1] == b'\r' => return Ok(Some(end)),
        Some(_) => Err(HeadError::BareLineFeed),
        None if message.len() < window => Ok(None),
        None if window == line_window => Err(HeadError::RequestLineTooLong),
        None => Err(HeadError::HeadTooLarge),
    };
    check_prefix(message).and(outcome)
}

/// Finds the blank line, or the first error before it. `None`: wait for more. The lines before
/// `scanned` are known to be correct.
#[cold]
fn find_head_end(
    message: &[u8],
    scanned: usize,
    limits: &HeadLimits,
) -> Result<Option<usize>, HeadError> {
    let window = &message[..message.len().min(limits.head_bytes_max)];
    let scanned = scanned.min(window.len());
    let lines_max = limits.fields_max.min(crate::FIELDS_MAX) + 1;
    // Lines are counted only when one has ended, so this is linear for bytes that arrive one by
    // one.
    let mut lines = None;
    for end in memchr_iter(b'\n', &window[scanned..]).map(|end| scanned + end) {
        if end == 0 || window[end - 1] != b'\r' {
            return Err(HeadError::BareLineFeed);
        }
        if end >= 2 && window[end - 2] == b'\n' {
            return Ok(Some(end + 1));
        }
        let before = lines.unwrap_or_else(|| memchr_iter(b'\n', &window[..scanned]).count());
        if before == lines_max {
            return Err(HeadError::TooManyFields);
        }
        lines = Some(before + 1);
    }
    if message.len() >= limits.head_bytes_max { Err(HeadError::HeadTooLarge) } else { Ok(None) }
}

/// Parses the field lines, which begin at `fields_start`, and checks the combination of line and
/// fields. `skipped` bytes before the message count for the length.
fn finish<'b>(
    line: &RequestLine<'b>,
    message: &'b [u8],
    fields_start: usize,
    skipped: usize,
    limits: &HeadLimits,
) -> Result<Parsed<'b>, HeadError> {
    let mut fields = Fields::default();
    let Some(fields_len) = fields.read(&message[fields_start..], limits)? else {
        return Ok(Parsed::Partial { scanned: 0 });
    };
    let len = fields_start + fields_len;
    if len > limits.head_bytes_max {
        return Err(HeadError::HeadTooLarge);
    }
    Ok(Parsed::Complete(Head {
        len: skipped + len,
        method: line.method,
        method_bytes: line.method_bytes,
        target: line.target,
        target_bytes: line.target_bytes,
        host: host(line, fields.host)?,
        version: line.version,
        names_fields: fields.options.names_fields,
        keep_alive: !fields.options.close
            && (line.version == Version::Http11 || fields.options.keep_alive),
        body: framing(line.version, &fields)?,
        // RFC 9110, section 10.1.1: 100-continue from an HTTP/1.0 client has to be ignored.
        expectation: match line.version {
            Version::Http10 => Expectation::None,
            Version::Http11 => fields.expectation,
        },
        picked: fields.picked,
    }))
}

/// Determines the host. A 1.1 request has one valid `Host` (RFC 9112, section 3.2). The authority
/// of an absolute target replaces it (section 3.2.2). If it names another host, the request is
/// refused, because a cache may have used the other one; but not in 1.0, where `Host` has no
/// meaning.
fn host<'b>(
    line: &RequestLine<'b>,
    field: Option<&'b [u8]>,
) -> Result<Option<&'b [u8]>, HeadError> {
    let Some(value) = field else {
        return match line.version {
            Version::Http11 => Err(HeadError::HostMissing),
            Version::Http10 => Ok(line.origin.as_ref().map(|origin| origin.bytes)),
        };
    };
    let authority = Authority::parse(value).ok_or(HeadError::Host)?;
    match &line.origin {
        None => Ok(Some(value)),
        Some(origin) if line.version == Version::Http10 => Ok(Some(origin.bytes)),
        Some(origin) if origin.authority.has_same_host(&authority) => Ok(Some(origin.bytes)),
        Some(_) => Err(HeadError::HostDisagrees),
    }
}

fn framing(version: Version, fields: &Fields<'_>) -> Result<BodyFraming, HeadError> {
    let codings = fields.codings;
    match (codings.is_any(), fields.content_length) {
        (false, None) => Ok(BodyFraming::None),
        (false, Some(length)) => Ok(BodyFraming::Length(length)),
        (true, _) if version == Version::Http10 => Err(HeadError::TransferEncodingVersion),
        (true, Some(_)) => Err(HeadError::TwoLengths),
        (true, None) if !codings.is_chunked => Err(HeadError::TransferEncoding),
        (true, None) if codings.has_unknown => Err(HeadError::TransferCoding),
        (true, None) => Ok(BodyFraming::Chunked),
    }
}
