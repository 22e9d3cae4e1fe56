//! The request line (RFC 9112, section 3): method, target, version. Percent signs and dot segments
//! in the path are not interpreted here; the `site` crate does that.

use crate::{HeadError, authority::Authority, bytes::is_token};

/// The method of a request. Methods are case-sensitive (RFC 9110, section 9.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// `GET`
    Get,
    /// `HEAD`
    Head,
    /// `OPTIONS`
    Options,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `DELETE`
    Delete,
    /// `PATCH` (RFC 5789)
    Patch,
    /// `CONNECT`
    Connect,
    /// `TRACE`
    Trace,
    /// Any other token.
    Unknown,
}

/// The protocol version of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1, and any later 1.x, which has to be read like it (RFC 9110, section 2.5).
    Http11,
}

impl Version {
    /// The version as it is written in a log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
        }
    }
}

/// The target of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'b> {
    /// `*`, or an absolute URI without a path: `OPTIONS` of the server as a whole.
    Asterisk,
    /// A path as it was sent, percent signs and all, and the query after its first question mark.
    Path {
        /// Begins with a slash.
        path: &'b [u8],
        /// The bytes after the question mark, if there is one.
        query: Option<&'b [u8]>,
    },
    /// A host and a port: `CONNECT`.
    Authority,
}

/// A request line, and the authority of an absolute target, which has to be compared with `Host`.
#[derive(Debug)]
pub(crate) struct RequestLine<'b> {
    pub(crate) method: Method,
    pub(crate) method_bytes: &'b [u8],
    pub(crate) target: Target<'b>,
    pub(crate) target_bytes: &'b [u8],
    pub(crate) origin: Option<Origin<'b>>,
    pub(crate) version: Version,
}

/// The authority of an absolute target.
#[derive(Debug)]
pub(crate) struct Origin<'b> {
    pub(crate) bytes: &'b [u8],
    pub(crate) authority: Authority<'b>,
}

/// A longer method is only checked when the line is complete.
const METHOD_PREFIX_BYTES: usize = 32;

/// Refuses bytes that cannot begin a request, such as those of a TLS handshake, without waiting
/// for the end of a line that may never come.
pub(crate) fn check_prefix(bytes: &[u8]) -> Result<(), HeadError> {
    let prefix = &bytes[..bytes.len().min(METHOD_PREFIX_BYTES)];
    match prefix.iter().position(|&byte| !is_token(byte)) {
        None => Ok(()),
        Some(end) if end > 0 && prefix[end] == b' ' => Ok(()),
        Some(_) => Err(HeadError::Method),
    }
}

impl<'b> RequestLine<'b> {
    /// Parses a line without its CRLF.
    pub(crate) fn parse(line: &'b [u8]) -> Result<Self, HeadError> {
        let method_len = method_len(line)?;
        let (method_bytes, rest) = (&line[..method_len], &line[method_len + 1..]);
        let method = method(method_bytes);
        let (target_bytes, version) = split_version(rest)?;
        let (target, origin) = target(method, target_bytes)?;
        Ok(Self { method, method_bytes, target, target_bytes, origin, version })
    }
}

/// The length of the token before the first space.
fn method_len(line: &[u8]) -> Result<usize, HeadError> {
    match line.iter().position(|&byte| !is_token(byte)) {
        Some(end) if end > 0 && line[end] == b' ' => Ok(end),
        _ => Err(HeadError::Method),
    }
}

fn method(bytes: &[u8]) -> Method {
    match bytes {
        b"GET" => Method::Get,
        b"HEAD" => Method::Head,
        b"OPTIONS" => Method::Options,
        b"POST" => Method::Post,
        b"PUT" => Method::Put,
        b"DELETE" => Method::Delete,
        b"PATCH" => Method::Patch,
        b"CONNECT" => Method::Connect,
        b"TRACE" => Method::Trace,
        _ => Method::Unknown,
    }
}

/// Cuts the version, which has eight bytes, off the end of the line. The rest is the target; a
/// space in it is found when the target is checked.
fn split_version(rest: &[u8]) -> Result<(&[u8], Version), HeadError> {
    let Some((target, version)) = rest.split_last_chunk::<9>() else {
        return Err(HeadError::VersionSyntax);
    };
    match version {
        b" HTTP/1.1" => Ok((target, Version::Http11)),
        b" HTTP/1.0" => Ok((target, Version::Http10)),
        [b' ', b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'] => {
            Ok((target, Version::Http11))
        }
        [b' ', b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => {
            Err(HeadError::Version)
        }
        _ => Err(HeadError::VersionSyntax),
    }
}

/// Parses a target in one of the four forms of RFC 9112, section 3.2.
fn target<'b>(
    method: Method,
    bytes: &'b [u8],
) -> Result<(Target<'b>, Option<Origin<'b>>), HeadError> {
    if !bytes.iter().fold(true, |valid, &byte| valid & is_target(byte)) {
        return Err(HeadError::Target);
    }
    match (method, bytes) {
        (Method::Connect, _) => connect(bytes),
        (_, [b'/', ..]) => Ok((path(bytes), None)),
        (Method::Options, b"*") => Ok((Target::Asterisk, None)),
        _ => absolute(method, bytes),
    }
}

/// Whether a byte may occur in a target: visible ASCII without the fragment sign, which no client
/// may send, and without the backslash, which some programs would read as a slash. The caller has
/// no early exit, so that this is vectorised.
fn is_target(byte: u8) -> bool {
    (byte > b' ') & (byte < 0x7f) & (byte != b'#') & (byte != b'\\')
}

fn path(bytes: &[u8]) -> Target<'_> {
    match memchr::memchr(b'?', bytes) {
        None => Target::Path { path: bytes, query: None },
        Some(mark) => Target::Path { path: &bytes[..mark], query: Some(&bytes[mark + 1..]) },
    }
}

/// Parses the authority-form, in which the port is not optional (RFC 9112, section 3.2.3).
#[cold]
fn connect(bytes: &[u8]) -> Result<(Target<'_>, Option<Origin<'_>>), HeadError> {
    match Authority::parse(bytes) {
        Some(authority) if authority.port().is_some() => Ok((Target::Authority, None)),
        _ => Err(HeadError::Target),
    }
}

/// Parses the absolute-form, which proxies get and servers have to understand (RFC 9112, section
/// 3.2.2).
#[cold]
fn absolute<'b>(
    method: Method,
    bytes: &'b [u8],
) -> Result<(Target<'b>, Option<Origin<'b>>), HeadError> {
    let rest = strip_scheme(bytes).ok_or(HeadError::Target)?;
    let end = rest.iter().position(|byte| b"/?".contains(byte)).unwrap_or(rest.len());
    let (authority_bytes, rest) = rest.split_at(end);
    let authority = Authority::parse(authority_bytes).ok_or(HeadError::Target)?;
    let target = match rest {
        // OPTIONS of a URI without a path means the asterisk (RFC 9112, section 3.2.4).
        [] if method == Method::Options => Target::Asterisk,
        [] => Target::Path { path: b"/", query: None },
        [b'?', query @ ..] => Target::Path { path: b"/", query: Some(query) },
        _ => path(rest),
    };
    Ok((target, Some(Origin { bytes: authority_bytes, authority })))
}

/// Returns the text after `http://` or `https://`.
fn strip_scheme(bytes: &[u8]) -> Option<&[u8]> {
    [&b"http://"[..], b"https://"].into_iter().find_map(|scheme| {
        let (front, rest) = bytes.split_at_checked(scheme.len())?;
        front.eq_ignore_ascii_case(scheme).then_some(rest)
    })
}
