//! Listen addresses as they are written: `8080`, `:8080`, `localhost:8080`, `127.0.0.1:8080`,
//! `[::]:8080`.
//!
//! Names are not resolved: a server must not listen elsewhere because a name server said so.
//! `localhost` is the exception: it means the loopback addresses wherever it occurs (RFC 6761,
//! section 6.3).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use command::near::{hint, nearest};

/// Where to accept connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// Exactly this address; with an IPv6 address, only IPv6 connections are accepted.
    One(SocketAddr),
    /// This port on every address of the machine, IPv4 and, where there is IPv6, IPv6.
    Everywhere(u16),
    /// This port on this machine's loopback addresses, IPv4 and, where there is IPv6, IPv6.
    Localhost(u16),
}

impl ListenAddress {
    /// The default: this machine only, so that nothing is published by accident.
    pub const LOCAL_8080: Self = Self::local(8080);

    const fn local(port: u16) -> Self {
        Self::One(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
    }

    /// Whether the kernel chooses the port.
    #[must_use]
    pub fn is_any_port(self) -> bool {
        match self {
            Self::One(address) => address.port() == 0,
            Self::Everywhere(port) | Self::Localhost(port) => port == 0,
        }
    }

    /// This address with its port raised by `offset`; port 0, which the kernel chooses, stays 0.
    ///
    /// # Errors
    /// One line: the sum is above 65535, so there is no such port.
    pub(crate) fn with_port_offset(self, offset: u16) -> Result<Self, String> {
        if self.is_any_port() {
            return Ok(self);
        }
        let add = |port: u16| {
            port.checked_add(offset)
                .ok_or_else(|| format!("no port is left for copy {offset} above {self}: lower it"))
        };
        Ok(match self {
            Self::One(mut address) => {
                address.set_port(add(address.port())?);
                Self::One(address)
            }
            Self::Everywhere(port) => Self::Everywhere(add(port)?),
            Self::Localhost(port) => Self::Localhost(add(port)?),
        })
    }

    /// The socket addresses to open. All but the first may be missing on this machine.
    #[must_use]
    pub fn socket_addresses(self) -> Vec<SocketAddr> {
        let both = |v4: Ipv4Addr, v6: Ipv6Addr, port| {
            vec![SocketAddr::from((v4, port)), SocketAddr::from((v6, port))]
        };
        match self {
            Self::One(address) => vec![address],
            Self::Everywhere(port) => both(Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED, port),
            Self::Localhost(port) => both(Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST, port),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(address) => address.fmt(f),
            Self::Everywhere(port) => write!(f, ":{port}"),
            Self::Localhost(port) => write!(f, "localhost:{port}"),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(port) = text.parse() {
            return Ok(Self::local(port));
        }
        let address = match text.split_once(':') {
            Some(("", port)) => port.parse().map(Self::Everywhere).ok(),
            Some((name, port)) if is_localhost(name) => port.parse().map(Self::Localhost).ok(),
            _ => text.parse().map(Self::One).ok(),
        };
        address.ok_or_else(|| fault(text))
    }
}

fn is_localhost(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost")
}

/// What is wrong with a text that is no address to listen at, and what would be right.
fn fault(text: &str) -> String {
    const FORMS: &str = "8080, :8080, localhost:8080, 127.0.0.1:8080 or [::1]:8080";
    if let Some((_, rest)) = text.split_once("://") {
        let place = rest.split('/').next().unwrap_or(rest);
        let is_right = place.parse::<ListenAddress>().is_ok();
        let right = if is_right { Some(place.into()) } else { with_port(place) };
        return format!("{text:?} is a URL: write {}", right.as_deref().unwrap_or(FORMS));
    }
    match with_port(text) {
        Some(right) => format!("{text:?} has no port: write {right}"),
        None => format!("{text:?} is no address{}: write {FORMS}", near_localhost(text)),
    }
}

/// ` (did you mean "localhost:8080"?)`, or nothing: the only name that there may be.
fn near_localhost(text: &str) -> String {
    let (name, port) = text.split_once(':').unwrap_or((text, "8080"));
    let near = nearest(name, ["localhost"]).filter(|_| port.parse::<u16>().is_ok());
    hint(near.map(|name| format!("{name}:{port}")).as_ref())
}

/// A place without a port, with one.
fn with_port(place: &str) -> Option<String> {
    let v6 = place.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_place = match v6 {
        Some(v6) => v6.parse::<Ipv6Addr>().is_ok(),
        None => is_localhost(place) || place.parse::<Ipv4Addr>().is_ok(),
    };
    is_place.then(|| format!("{place}:8080"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let check = |text: &str, expected: &str| {
            let printed = text.parse::<ListenAddress>().map(|address| address.to_string());
            assert_eq!(printed.as_deref(), Ok(expected), "{text}");
        };
        check("8080", "127.0.0.1:8080");
        check(":8080", ":8080");
        check("localhost:8080", "localhost:8080");
        check("LocalHost:0", "localhost:0");
        check("127.0.0.1:0", "127.0.0.1:0");
        check("[::]:80", "[::]:80");
        check("[fe80::1%2]:80", "[fe80::1%2]:80");
    }

    #[test]
    fn localhost_is_both_loopback_addresses() {
        let addresses = "localhost:80".parse::<ListenAddress>().unwrap().socket_addresses();
        assert_eq!(addresses, ["127.0.0.1:80".parse().unwrap(), "[::1]:80".parse().unwrap()]);
    }

    #[test]
    fn ports_of_copies() {
        let check = |text: &str, offset, expected: Option<&str>| {
            let moved = text.parse::<ListenAddress>().unwrap().with_port_offset(offset).ok();
            assert_eq!(moved.map(|address| address.to_string()).as_deref(), expected, "{text}");
        };
        check("127.0.0.1:8080", 2, Some("127.0.0.1:8082"));
        check(":80", 1, Some(":81"));
        check("localhost:80", 1, Some("localhost:81"));
        check(":0", 1, Some(":0"));
        check("65535", 1, None);
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "",
            ":",
            "65536",
            ":65536",
            "8080x",
            "a.example:80",
            "localhost:",
            "::1",
            "::1:80",
            "80 ",
        ] {
            let error = text.parse::<ListenAddress>().unwrap_err();
            assert!(
                error.starts_with(&format!("{text:?} is no address: write 8080, :")),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_nearly_an_address_is_answered_with_the_right_one() {
        let check = |text: &str, expected: &str| {
            let error = text.parse::<ListenAddress>().unwrap_err();
            assert_eq!(error, format!("{text:?} {expected}"));
        };
        check("localhost", "has no port: write localhost:8080");
        check("1.2.3.4", "has no port: write 1.2.3.4:8080");
        check("[::1]", "has no port: write [::1]:8080");
        check("http://localhost:8080", "is a URL: write localhost:8080");
        check("http://127.0.0.1:80/index.html", "is a URL: write 127.0.0.1:80");
        check("http://LOCALHOST/", "is a URL: write LOCALHOST:8080");
        check("https://[::1]", "is a URL: write [::1]:8080");
        let forms = "8080, :8080, localhost:8080, 127.0.0.1:8080 or [::1]:8080";
        for text in ["localhst:8080", "localhst"] {
            let near = "is no address (did you mean \"localhost:8080\"?)";
            check(text, &format!("{near}: write {forms}"));
        }
        check("localhst:x", &format!("is no address: write {forms}"));
        check("http://a.example:80/", &format!("is a URL: write {forms}"));
    }
}
