//! Applications: as an operator describes them, and with what was found out about them since.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::cgi::START_BYTES_MAX;
use crate::facilities::{Facilities, Spooled};
use crate::script::Diagnostic;

/// An application as an operator describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplicationSettings {
    /// Its servers, at least one. They all answer alike.
    pub servers: Vec<ServerSettings>,
    /// How it is spoken to.
    pub protocol: Protocol,
    /// What there is to say of it if that is FastCGI.
    pub fastcgi: FastCgiSettings,
    /// The directory of the files that it may name in place of content (`X-Sendfile`); empty: it
    /// may name none.
    pub sendfile_root: String,
    /// The bounds of its calls.
    pub limits: CallLimits,
    /// The clients whose word about the clients before them is believed: other proxies.
    pub trusted: Vec<IpAddr>,
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
    fn authority(&self) -> String {
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

/// An application, ready to be called.
pub struct Application {
    settings: ApplicationSettings,
    servers: Vec<Server>,
    name: String,
    number: usize,
    facilities: OnceLock<Facilities>,
    /// How many bodies are in files.
    spooled: Arc<AtomicUsize>,
}

impl fmt::Debug for Application {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Application").field("settings", &self.settings).finish_non_exhaustive()
    }
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
        let name = settings.servers.first().map(|it| match (&it.address, settings.protocol) {
            (Address::Tcp { .. }, Protocol::FastCgi) => {
                format!("fastcgi://{}", it.address.place())
            }
            (address, _) => address.to_string(),
        });
        let name = name.unwrap_or_default();
        let (facilities, spooled) = (OnceLock::new(), Arc::default());
        Self { servers, name, settings, number, facilities, spooled }
    }

    /// Sets what the application needs of the system: once, before the first call.
    pub fn set_facilities(&self, facilities: Facilities) {
        let _ = self.facilities.set(facilities);
    }

    pub(crate) fn report(&self, diagnostic: &Diagnostic<'_>) {
        if let Some(report) = self.facilities.get().and_then(|it| it.report.as_ref()) {
            report(diagnostic);
        }
    }

    /// Makes a file for the body of a request.
    ///
    /// # Errors
    /// There is no place for one, there are enough, or the system has failed.
    pub fn open_spool(&self) -> io::Result<Spooled> {
        match self.facilities.get().and_then(|it| it.open_spool.as_ref()) {
            Some(open) => Spooled::open(open, &self.spooled),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Reports that the body of a request was not kept.
    pub fn report_spool(&self, target: &[u8], why: &io::Error) {
        let line = format!("cannot keep the request's body: {why}");
        self.report(&Diagnostic { name: &self.name, target, line: line.as_bytes() });
    }

    /// The settings of FastCGI; none if the application speaks another protocol.
    #[must_use]
    pub fn fastcgi(&self) -> Option<&FastCgiSettings> {
        match self.settings.protocol {
            Protocol::Http | Protocol::Cgi => None,
            Protocol::FastCgi => Some(&self.settings.fastcgi),
        }
    }

    /// The directory of programs, empty for the root of the host; none if the application is a
    /// server.
    #[must_use]
    pub fn programs(&self) -> Option<&Path> {
        match &self.settings.servers.first()?.address {
            Address::Programs(folder) => Some(folder),
            Address::Tcp { .. } | Address::Unix(_) => None,
        }
    }

    /// Has a program started. Returns a connection to its standard input and output.
    ///
    /// # Errors
    /// There is nothing that starts programs, or nothing any more; `WouldBlock` if it is busy.
    pub fn start_program(&self, message: &[u8]) -> io::Result<OwnedFd> {
        match self.facilities.get().and_then(|it| it.start_programs.as_ref()) {
            Some(start) => start(message),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Reports that a file is not sent that the application has named in place of content.
    pub fn report_named_file(&self, target: &[u8], named: &[u8], why: &str) {
        let named = String::from_utf8_lossy(named);
        let line = format!("a file that it names is not sent: {why}: {named}");
        self.report(&Diagnostic { name: &self.name, target, line: line.as_bytes() });
    }

    /// Reports that a redirect to a path of this server was not followed.
    pub fn report_redirect(&self, target: &[u8], location: &[u8], why: &str) {
        let location = String::from_utf8_lossy(location);
        let line = format!("a local redirect of it is not followed: {why}: {location}");
        self.report(&Diagnostic { name: &self.name, target, line: line.as_bytes() });
    }

    pub(crate) fn report_too_large(&self, target: &[u8]) {
        let line = format!("431: the request has more than {START_BYTES_MAX} bytes of variables");
        self.report(&Diagnostic { name: &self.name, target, line: line.as_bytes() });
    }

    /// Whether a FastCGI application is to keep its connections.
    pub(crate) fn keeps_connections(&self) -> bool {
        self.fastcgi().is_some_and(|settings| settings.children > 0)
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
