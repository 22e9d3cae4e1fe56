//! Trailer fields (RFC 9110 §6.5), which follow content in chunks: which clients take them, and
//! which of them are passed on. They never become fields of a head.

use http1::{
    BodyError, BodySkipper, Head, Lines, Version, is_for_one_hop, is_name, list, trailer_lines,
};

use crate::downstream::Downstream;
use crate::fields::{Named, is_forwarded, options, put_fields};

/// Whether the client takes the trailers of a reply. It says so for its own hop (RFC 9110 §10.1.4),
/// and most requests name nothing in `Connection`.
#[inline]
pub(crate) fn are_accepted(head: &Head<'_>) -> bool {
    head.names_fields && accepts(head)
}

#[cold]
fn accepts(head: &Head<'_>) -> bool {
    let mut codings = head.lines().filter(|(name, _)| is_name(name, b"te"));
    head.version == Version::Http11
        && options(head.lines()).any(|it| it.eq_ignore_ascii_case(b"te"))
        && codings.any(|(_, value)| list(value).any(|it| it.eq_ignore_ascii_case(b"trailers")))
}

/// The `Connection` lines of a head, which may name fields of its trailer as well; none for most.
pub(crate) fn connection_lines(lines: Lines<'_>, names_fields: bool) -> Vec<u8> {
    let mut kept = Vec::new();
    if names_fields {
        put_connection_lines(&mut kept, lines);
    }
    kept
}

#[cold]
fn put_connection_lines(kept: &mut Vec<u8>, lines: Lines<'_>) {
    put_fields(kept, lines, |name| is_name(name, b"connection"));
}

/// Writes the fields of a trailer that may stand in one, that its message's `Connection` lines do
/// not name, and that `is_passed_on`.
#[cold]
pub(crate) fn put(
    out: &mut Vec<u8>,
    trailer: &[u8],
    connection: &[u8],
    is_passed_on: impl Fn(&[u8]) -> bool,
) {
    let named = Named::new(&trailer_lines(connection), true);
    put_fields(out, trailer_lines(trailer), |name| {
        !is_for_the_head(name) && !named.contains(name) && is_passed_on(name)
    });
}

/// Fields that would come too late in a trailer, or would be believed there by a recipient that
/// takes both for one (RFC 9110 §6.5.1, RFC 7230 §4.1.2): those of routing, of conditions and other
/// modifiers of a request, of authentication, of the control of a response and of the format of
/// content; and those by which an application tells a server in front of it what to send.
const FOR_THE_HEAD: [&[u8]; 29] = [
    b"age",
    b"authorization",
    b"cache-control",
    b"content-disposition",
    b"content-encoding",
    b"content-language",
    b"content-location",
    b"content-range",
    b"content-type",
    b"cookie",
    b"date",
    b"expect",
    b"expires",
    b"host",
    b"if-match",
    b"if-modified-since",
    b"if-none-match",
    b"if-range",
    b"if-unmodified-since",
    b"location",
    b"max-forwards",
    b"pragma",
    b"range",
    b"retry-after",
    b"set-cookie",
    b"status",
    b"vary",
    b"www-authenticate",
    b"x-sendfile",
];

/// Whether a field must not stand in a trailer; those of framing and of one hop included.
fn is_for_the_head(name: &[u8]) -> bool {
    is_for_one_hop(name)
        || is_forwarded(name)
        || name.get(..8).is_some_and(|start| is_name(start, b"x-accel-"))
        || FOR_THE_HEAD.iter().any(|known| is_name(name, known))
}

/// Reads the content of a reply whose client takes its trailer.
#[derive(Clone)]
pub(crate) struct TrailerReader {
    /// The trailer, as far as it has come.
    lines: Vec<u8>,
    /// The reply's `Connection` lines.
    connection: Vec<u8>,
}

impl TrailerReader {
    #[cold]
    pub(crate) fn new(lines: Lines<'_>, names_fields: bool) -> Self {
        Self { lines: Vec::new(), connection: connection_lines(lines, names_fields) }
    }

    /// Reads as the content's reader does by itself.
    #[cold]
    pub(crate) fn read<'b>(
        &mut self,
        content: &mut BodySkipper,
        bytes: &'b [u8],
    ) -> Result<(usize, &'b [u8]), BodyError> {
        content.read_with_trailer(bytes, &mut self.lines)
    }

    /// Ends the reply, all of which was read.
    #[cold]
    pub(crate) fn end<D: Downstream>(&self, d: &mut D) {
        let mut trailers = Vec::new();
        put(&mut trailers, &self.lines, &self.connection, |_| true);
        d.end(&trailers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(trailer: &str, connection: &str, expected: &str) {
        let mut out = Vec::new();
        let is_passed_on = |name: &[u8]| name != b"no";
        put(&mut out, trailer.as_bytes(), connection.as_bytes(), is_passed_on);
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    #[test]
    fn what_is_for_the_head_is_dropped() {
        for known in FOR_THE_HEAD {
            let name = String::from_utf8_lossy(known).to_uppercase();
            check(&format!("a: 1\r\n{name}: 2\r\nb: 3\r\n"), "", "a: 1\r\nb: 3\r\n");
        }
        for name in [
            "Content-Length",
            "Transfer-Encoding",
            "Trailer",
            "TE",
            "Connection",
            "Keep-Alive",
            "Upgrade",
            "Proxy-Authorization",
            "Forwarded",
            "X-Forwarded-For",
            "X-Real-IP",
            "X-Accel-Buffering",
            "no",
        ] {
            check(&format!("{name}: 1\r\n"), "", "");
        }
    }

    #[test]
    fn fields_that_were_made_for_trailers_pass() {
        let trailers = "grpc-status: 0\r\ngrpc-message: \r\nContent-Digest: sha-256=:x:\r\n\
                        Server-Timing: db;dur=5\r\nETag: \"x\"\r\nAuthentication-Info: y\r\n";
        check(trailers, "", trailers);
    }

    #[test]
    fn what_connection_names_is_for_one_hop() {
        check(
            "x-hop: 1\r\nx-end: 2\r\n",
            "Connection: TE, X-Hop\r\nConnection: y\r\n",
            "x-end: 2\r\n",
        );
    }
}
