//! Applications: as an operator describes them, and with what was found out about them since.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// An application as an operator describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplicationSettings {
    /// Its servers, at least one. They all answer alike.
    pub servers: Vec<ServerSettings>,
    /// The bounds of its calls.
    pub limits: CallLimits,
    /// The clients whose word about the clients before them is believed: other proxies.
    pub trusted: Vec<IpAddr>,
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
}

impl Address {
    /// The `Host` of a request whose client has sent none.
    fn authority(&self) -> String {
        match self {
            Self::Tcp { host, port: 80 } => bracketed(host),
            Self::Tcp { host, port } => format!("{}:{port}", bracketed(host)),
            Self::Unix(_) => "localhost".into(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => write!(out, "http://{}:{port}", bracketed(host)),
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
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
            idle_ms: 4_000,
            body_bytes_max: 1 << 30,
        }
    }
}

/// An application, ready to be called.
#[derive(Debug)]
pub struct Application {
    settings: ApplicationSettings,
    servers: Vec<Server>,
    name: String,
    number: usize,
}

/// A server and the addresses that its name stands for.
#[derive(Debug)]
struct Server {
    authority: String,
    addresses: RwLock<Arc<[SocketAddr]>>,
}

impl Application {
    /// Makes an application of its settings, with its number among all of the server.
    #[must_use]
    pub fn new(settings: ApplicationSettings, number: usize) -> Self {
        let server = |server: &ServerSettings| Server {
            authority: server.address.authority(),
            addresses: RwLock::new(Arc::from([])),
        };
        let servers = settings.servers.iter().map(server).collect();
        let name = settings.servers.first().map(|it| it.address.to_string());
        Self { servers, name: name.unwrap_or_default(), settings, number }
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &ApplicationSettings {
        &self.settings
    }

    /// The bounds of its calls.
    #[must_use]
    #[inline]
    pub fn limits(&self) -> &CallLimits {
        &self.settings.limits
    }

    /// The name in logs and in the status: the address of the first server.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number among all applications of the server.
    #[must_use]
    #[inline]
    pub fn number(&self) -> usize {
        self.number
    }

    /// The `Host` of a request whose client has sent none.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.servers.first().map_or("localhost", |server| &server.authority)
    }

    /// Whether what a client says of the clients before it is believed.
    #[must_use]
    pub fn trusts(&self, client: IpAddr) -> bool {
        self.settings.trusted.contains(&client)
    }

    /// The addresses of a server; none if it has no name, or the name stands for nothing.
    #[must_use]
    pub fn addresses(&self, server: usize) -> Arc<[SocketAddr]> {
        let addresses = self.servers[server].addresses.read();
        Arc::clone(&addresses.unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the addresses of a server.
    pub fn set_addresses(&self, server: usize, addresses: Vec<SocketAddr>) {
        let place = self.servers[server].addresses.write();
        *place.unwrap_or_else(PoisonError::into_inner) = addresses.into();
    }
}
