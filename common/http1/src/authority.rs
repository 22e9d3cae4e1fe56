//! Authorities: the value of `Host`, and the part of a target that names a host. Names are not
//! resolved here.

use std::net::Ipv6Addr;

use crate::bytes::is_host_name;

/// A host with an optional port, checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Authority<'b> {
    host: &'b [u8],
    port: Option<u16>,
}

impl<'b> Authority<'b> {
    /// Parses `uri-host [ ":" port ]` (RFC 9110, section 7.2). User information, paths, spaces and
    /// lists are refused, and so is an empty host, which `http` URIs may not have (section 4.2.1).
    pub(crate) fn parse(bytes: &'b [u8]) -> Option<Self> {
        let host_len = host_len(bytes)?;
        let (host, rest) = bytes.split_at(host_len);
        let port = match rest {
            [] | [b':'] => None,
            [b':', digits @ ..] => Some(port(digits)?),
            _ => return None,
        };
        Some(Self { host, port })
    }

    /// The explicit port; `host:` has none (RFC 3986, section 3.2.3).
    pub(crate) fn port(&self) -> Option<u16> {
        self.port
    }

    /// Whether both name the same host, whatever the port.
    pub(crate) fn has_same_host(&self, other: &Self) -> bool {
        self.host.eq_ignore_ascii_case(other.host)
    }
}

/// The length of the host at the front of `bytes`, if there is a valid one.
fn host_len(bytes: &[u8]) -> Option<usize> {
    if bytes.first() == Some(&b'[') {
        return bracketed_len(bytes);
    }
    let end = bytes.iter().position(|&byte| !is_host_name(byte)).unwrap_or(bytes.len());
    match bytes.get(end) {
        Some(b'%') => encoded_len(bytes),
        _ => (end > 0).then_some(end),
    }
}

/// The length of the registered name at the front of `bytes`, if it is valid, for the rare names
/// with percent signs.
#[cold]
fn encoded_len(bytes: &[u8]) -> Option<usize> {
    let mut end = 0;
    loop {
        match &bytes[end..] {
            [b'%', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                end += 3;
            }
            [b'%', ..] => return None,
            [byte, ..] if is_host_name(*byte) => end += 1,
            _ => return Some(end),
        }
    }
}

/// The length of the address in brackets at the front of `bytes`, if it is valid: an IPv6 address,
/// or one of a future kind.
fn bracketed_len(bytes: &[u8]) -> Option<usize> {
    let end = memchr::memchr(b']', bytes)?;
    let address = str::from_utf8(&bytes[1..end]).ok()?;
    let is_valid = address.parse::<Ipv6Addr>().is_ok() || is_future_address(address);
    is_valid.then_some(end + 1)
}

/// Whether an address is an `IPvFuture` (RFC 3986, section 3.2.2): `v`, a version in hexadecimal, a
/// dot, and characters defined by that version.
fn is_future_address(address: &str) -> bool {
    let rest = address.strip_prefix(['v', 'V']).unwrap_or_default();
    rest.split_once('.').is_some_and(|(version, address)| {
        let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
        let fits = |byte: u8| byte == b':' || is_host_name(byte);
        is_hex(version) && !address.is_empty() && address.bytes().all(fits)
    })
}

/// Parses a port of at least one digit and at most 65535.
fn port(digits: &[u8]) -> Option<u16> {
    digits.iter().try_fold(0_u16, |port, byte| {
        let digit = byte.is_ascii_digit().then(|| u16::from(byte - b'0'))?;
        port.checked_mul(10)?.checked_add(digit)
    })
}
