//! An application as an operator describes it.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

/// An application as an operator describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplicationSettings {
    /// Its servers, at least one. They all answer alike.
    pub servers: Vec<ServerSettings>,
    /// How one of them is chosen.
    pub balancing: Balancing,
    /// How it is spoken to.
    pub protocol: Protocol,
    /// What there is to say of it if that is FastCGI.
    pub fastcgi: FastCgiSettings,
    /// The directory of the files that it may name in place of content (`X-Sendfile`); empty: it
    /// may name none.
    pub sendfile_root: String,
    /// How its servers are checked, if they are.
    pub health: HealthSettings,
    /// The bounds of its calls.
    pub limits: CallLimits,
    /// Whether it finishes what it has all of the request for although the client has left.
    pub ignore_client_abort: bool,
    /// The clients whose word about the clients before them is believed: other proxies.
    pub trusted: Vec<IpAddr>,
}

/// How a server of an application is chosen for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balancing {
    /// By two choices if there are more than two servers, and otherwise in turn.
    #[default]
    Auto,
    /// In turn.
    RoundRobin,
    /// The one with the fewest requests.
    LeastRequests,
    /// The one with fewer requests of two that are chosen at random.
    TwoChoices,
    /// Always the same one for the address of a client.
    ClientAddress,
}

/// How an application is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http,
    /// FastCGI 1.0.
    FastCgi,
    /// CGI 1.1: each request starts a program.
    Cgi,
}

/// What there is to say of a FastCGI application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FastCgiSettings {
    /// The end of the names of its scripts, as `.php`. If it is empty there are no scripts: the
    /// application answers for any path.
    pub suffix: String,
    /// The directory of the scripts, as the application sees it; empty for the root of the host.
    pub root: String,
    /// Its processes, each of which has a connection at a time. 0: connections are not kept,
    /// because a connection at rest would keep a process from everybody else.
    pub children: u64,
}

impl Default for FastCgiSettings {
    fn default() -> Self {
        Self { suffix: ".php".into(), root: String::new(), children: 0 }
    }
}

/// One server of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// Where it listens.
    pub address: Address,
    /// Its share of the requests, beside those of the others.
    pub weight: u32,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A host, by name or by address, and a port.
    Tcp {
        /// The host; an IPv6 address is without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A socket in the file system.
    Unix(PathBuf),
    /// No server, but programs in a directory; empty for that of the path in the root of the host.
    Programs(PathBuf),
}

impl Address {
    /// The `Host` of a request whose client has sent none.
    pub(crate) fn authority(&self) -> String {
        match self {
            Self::Tcp { host, port: 80 } => bracketed(host),
            Self::Tcp { host, port } => format!("{}:{port}", bracketed(host)),
            Self::Unix(_) | Self::Programs(_) => "localhost".into(),
        }
    }

    /// The address without a scheme.
    #[must_use]
    pub fn place(&self) -> String {
        match self {
            Self::Tcp { host, port } => format!("{}:{port}", bracketed(host)),
            Self::Unix(path) => format!("unix:{}", path.display()),
            Self::Programs(path) if path.as_os_str().is_empty() => "cgi".into(),
            Self::Programs(path) => format!("cgi:{}", path.display()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { .. } => write!(out, "http://{}", self.place()),
            Self::Unix(_) | Self::Programs(_) => out.write_str(&self.place()),
        }
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.into() }
}

/// The bounds of the calls to an application. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// Requests that are with the application at a time, for each loop or partition of threads.
    pub in_flight_max: u64,
    /// Requests that wait until one of those is answered, for each loop or partition of threads.
    pub queue_max: u64,
    /// How long a request may wait so.
    pub queue_ms: u64,
    /// How long a connection may take.
    pub connect_ms: u64,
    /// How long the application may take from the end of a request to the first byte of its reply.
    pub first_byte_ms: u64,
    /// How long it may be silent in the middle of a reply, or take nothing of a request.
    pub silence_ms: u64,
    /// How long a connection whose protocol was switched is kept while nothing passes.
    pub tunnel_idle_ms: u64,
    /// How long a connection is kept for the next request. Shorter than what servers keep: Node
    /// closes after 5 s.
    pub idle_ms: u64,
    /// The size of a request's body.
    pub body_bytes_max: u64,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            in_flight_max: 512,
            queue_max: 512,
            queue_ms: 10_000,
            connect_ms: 5_000,
            first_byte_ms: 60_000,
            silence_ms: 60_000,
            tunnel_idle_ms: 3_600_000,
            idle_ms: 4_000,
            body_bytes_max: 1 << 30,
        }
    }
}

/// The time that a check may take at least, in milliseconds, however often there are checks: on a
/// busy machine all servers may be late.
const CHECK_MS_MIN: u64 = 500;

/// The time that a check may take at most, in milliseconds, however seldom there are checks.
const CHECK_MS_MAX: u64 = 5_000;

/// The checks of an application's servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthSettings {
    /// The target of the requests; empty: there are none.
    pub target: String,
    /// From the beginning of a check to that of the next, in milliseconds, unless it takes longer.
    pub interval_ms: u64,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self { target: String::new(), interval_ms: 5_000 }
    }
}

impl HealthSettings {
    /// How long a check may take, in milliseconds: the next one begins only after it.
    #[must_use]
    pub fn check_ms(&self) -> u64 {
        self.interval_ms.clamp(CHECK_MS_MIN, CHECK_MS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_has_some_time_and_not_all_of_it() {
        let check_ms =
            |interval_ms| HealthSettings { interval_ms, ..HealthSettings::default() }.check_ms();
        assert_eq!([10, 700, 60_000].map(check_ms), [500, 700, 5_000]);
    }
}
