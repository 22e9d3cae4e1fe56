//! Listen addresses as they are written: `8080`, `:8080`, `127.0.0.1:8080`, `[::]:8080`.
//!
//! Names are not resolved: a server that listens elsewhere because a name server said so is a
//! surprise nobody wants.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// Where to accept connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// Exactly this address; an IPv6 one takes IPv6 connections only.
    One(SocketAddr),
    /// This port on every address of the machine, IPv4 and, where there is IPv6, IPv6.
    Everywhere(u16),
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
            Self::Everywhere(port) => port == 0,
        }
    }

    /// The same address with a port so much higher; port 0 stays.
    ///
    /// # Errors
    /// One line: there is no such port.
    pub(crate) fn with_port_offset(self, offset: u16) -> Result<Self, String> {
        if self.is_any_port() {
            return Ok(self);
        }
        let add = |port: u16| {
            port.checked_add(offset)
                .ok_or_else(|| format!("no port is left for copy {offset} above {self}"))
        };
        Ok(match self {
            Self::One(mut address) => {
                address.set_port(add(address.port())?);
                Self::One(address)
            }
            Self::Everywhere(port) => Self::Everywhere(add(port)?),
        })
    }

    /// The socket addresses to open. All but the first may be missing on this machine.
    #[must_use]
    pub fn socket_addresses(self) -> Vec<SocketAddr> {
        match self {
            Self::One(address) => vec![address],
            Self::Everywhere(port) => vec![
                SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port),
                SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port),
            ],
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(address) => address.fmt(f),
            Self::Everywhere(port) => write!(f, ":{port}"),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} is no address: write 8080, :8080, 127.0.0.1:8080 or [::1]:8080");
        if let Ok(port) = text.parse() {
            return Ok(Self::local(port));
        }
        match text.strip_prefix(':') {
            Some(port) => port.parse().map(Self::Everywhere).map_err(|_| wrong()),
            None => text.parse().map(Self::One).map_err(|_| wrong()),
        }
    }
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
        check("127.0.0.1:0", "127.0.0.1:0");
        check("[::]:80", "[::]:80");
        check("[fe80::1%2]:80", "[fe80::1%2]:80");
    }

    #[test]
    fn ports_of_copies() {
        let check = |text: &str, offset, expected: Option<&str>| {
            let moved = text.parse::<ListenAddress>().unwrap().with_port_offset(offset).ok();
            assert_eq!(moved.map(|address| address.to_string()).as_deref(), expected, "{text}");
        };
        check("127.0.0.1:8080", 2, Some("127.0.0.1:8082"));
        check(":80", 1, Some(":81"));
        check(":0", 1, Some(":0"));
        check("65535", 1, None);
    }

    #[test]
    fn everything_else_is_refused() {
        for text in ["", ":", "65536", ":65536", "localhost:80", "::1:80", "1.2.3.4", "80 "] {
            let error = text.parse::<ListenAddress>().unwrap_err();
            assert!(error.starts_with(&format!("{text:?} is no address")), "{error}");
        }
    }
}
