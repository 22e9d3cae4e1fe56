//! Another protocol in the place of HTTP (RFC 9110 §7.8): which requests ask for one, and how far
//! the change has come.

use http1::{BodyFraming, Expectation, Head, Method, Version, list};

use crate::fields::{options, upgrades};

/// How far a change of the protocol has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upgrade {
    /// The request does not ask for one.
    None,
    /// It does.
    Asked,
    /// The application has agreed: bytes pass as they are.
    Open,
    /// The client sends nothing more, and the application was told.
    HalfClosed,
}

impl Upgrade {
    /// Whether a request asks for another protocol. Most name nothing in `Connection`.
    #[inline]
    pub(crate) fn from_head(head: &Head<'_>) -> Self {
        if head.names_fields && is_asked(head) { Self::Asked } else { Self::None }
    }
}

/// A body would have to be told from the bytes of the other protocol; none that is switched to has
/// a request with one. HTTP/2 is not passed on: its requests would pass by the rules of this server
/// (h2c was never widely used for anything else, and RFC 9113 has taken it out).
#[cold]
fn is_asked(head: &Head<'_>) -> bool {
    let is_plain = head.method == Method::Get
        && head.version == Version::Http11
        && matches!(head.body, BodyFraming::None | BodyFraming::Length(0))
        && head.expectation == Expectation::None;
    let has_option = || options(head.lines()).any(|it| it.eq_ignore_ascii_case(b"upgrade"));
    let mut protocols = upgrades(head.lines()).flat_map(list).peekable();
    is_plain && has_option() && protocols.peek().is_some() && !protocols.any(is_http2)
}

fn is_http2(protocol: &[u8]) -> bool {
    let name = protocol.split(|byte| *byte == b'/').next().unwrap_or_default();
    name.eq_ignore_ascii_case(b"h2c")
}

/// Passes on what is asked for.
#[cold]
pub(crate) fn put_fields(out: &mut Vec<u8>, head: &Head<'_>) {
    for protocols in upgrades(head.lines()) {
        out.extend_from_slice(b"Upgrade: ");
        out.extend_from_slice(protocols);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"Connection: upgrade\r\n");
}
