//! Why a message cannot be read. Every error here is the peer's mistake, and after each of them the
//! connection has to be closed, because the start of the next message is not known.

use std::fmt;

/// Why a request head is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadError {
    /// A line feed without a carriage return before it (RFC 9112, section 2.2).
    BareLineFeed,
    /// More than the one blank line that may precede a request line (RFC 9112, section 2.2).
    BlankLines,
    /// The first bytes are not a method followed by a space.
    Method,
    /// The target has a byte that it may not have, or a form that the method does not allow.
    Target,
    /// The version is missing or is not `HTTP/` digit `.` digit.
    VersionSyntax,
    /// The major version is not 1.
    Version,
    /// The request line is longer than the limit.
    RequestLineTooLong,
    /// The head is longer than the limit.
    HeadTooLarge,
    /// The head has more field lines than the limit.
    TooManyFields,
    /// A field name is empty or no token, a space precedes the colon, or a line is folded.
    FieldName,
    /// A field value has a control byte.
    FieldValue,
    /// An HTTP/1.1 request without `Host`.
    HostMissing,
    /// More than one `Host`.
    HostRepeated,
    /// A `Host` that is not a host with an optional port.
    Host,
    /// An absolute target names another host than `Host` does.
    HostDisagrees,
    /// A `Content-Length` that is not one decimal number.
    ContentLength,
    /// More than one `Content-Length` line.
    ContentLengthRepeated,
    /// A `Transfer-Encoding` that is no list, or whose last coding is not `chunked`: the end of the
    /// message cannot be found (RFC 9112, section 6.3).
    TransferEncoding,
    /// Codings before `chunked` that are not understood here (RFC 9112, section 6.1).
    TransferCoding,
    /// A `Transfer-Encoding` in an HTTP/1.0 request (RFC 9112, section 6.1).
    TransferEncodingVersion,
    /// Both `Content-Length` and `Transfer-Encoding` (RFC 9112, section 6.3).
    TwoLengths,
}

impl HeadError {
    /// The status of the answer: 400, 414, 431, 501 or 505.
    pub fn status(self) -> u16 {
        match self {
            Self::TransferCoding => 501,
            Self::RequestLineTooLong => 414,
            Self::HeadTooLarge | Self::TooManyFields => 431,
            Self::Version => 505,
            _ => 400,
        }
    }

    /// The reason, in words for a log.
    pub fn reason(self) -> &'static str {
        match self {
            Self::BareLineFeed => "line feed without carriage return",
            Self::BlankLines => "blank lines before the request line",
            Self::Method => "invalid method",
            Self::Target => "invalid request target",
            Self::VersionSyntax => "invalid protocol version",
            Self::Version => "unsupported protocol version",
            Self::RequestLineTooLong => "request line too long",
            Self::HeadTooLarge => "request head too large",
            Self::TooManyFields => "too many header fields",
            Self::FieldName => "invalid header field name",
            Self::FieldValue => "invalid header field value",
            Self::HostMissing => "missing Host",
            Self::HostRepeated => "repeated Host",
            Self::Host => "invalid Host",
            Self::HostDisagrees => "request target and Host disagree",
            Self::ContentLength => "invalid Content-Length",
            Self::ContentLengthRepeated => "repeated Content-Length",
            Self::TransferEncoding => "invalid Transfer-Encoding",
            Self::TransferCoding => "unsupported transfer coding",
            Self::TransferEncodingVersion => "Transfer-Encoding in HTTP/1.0",
            Self::TwoLengths => "Content-Length with Transfer-Encoding",
        }
    }
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for HeadError {}

/// Why a chunked body is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// A chunk size that is not 1 to 16 hexadecimal digits, or does not end in CRLF.
    ChunkSize,
    /// A chunk extension that is not `;name` or `;name=value`.
    Extension,
    /// The extensions of one chunk are longer than
    /// [`EXTENSION_BYTES_MAX`](crate::EXTENSION_BYTES_MAX).
    ExtensionTooLong,
    /// The data of a chunk is not followed by CRLF.
    ChunkEnd,
    /// A trailer line that is no field line.
    Trailer,
    /// The trailer is longer than [`TRAILER_BYTES_MAX`](crate::TRAILER_BYTES_MAX).
    TrailerTooLong,
    /// The trailer has more than [`TRAILER_FIELDS_MAX`](crate::TRAILER_FIELDS_MAX) field lines.
    TooManyTrailers,
}

impl BodyError {
    /// The status of the answer: 400 or 431.
    pub fn status(self) -> u16 {
        match self {
            Self::TrailerTooLong | Self::TooManyTrailers => 431,
            _ => 400,
        }
    }

    /// The reason, in words for a log.
    pub fn reason(self) -> &'static str {
        match self {
            Self::ChunkSize => "invalid chunk size",
            Self::Extension => "invalid chunk extension",
            Self::ExtensionTooLong => "chunk extension too long",
            Self::ChunkEnd => "chunk without line end",
            Self::Trailer => "invalid trailer field",
            Self::TrailerTooLong => "trailer too large",
            Self::TooManyTrailers => "too many trailer fields",
        }
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for BodyError {}
