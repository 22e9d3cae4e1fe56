//! An application that is ready to be called: its settings, and what was found out about it since.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use http1::Head;

use crate::balance::ClientKey;
use crate::cgi::start::START_BYTES_MAX;
use crate::facilities::{Facilities, Spooled};
use crate::findings::Findings;
use crate::origin::Origin;
use crate::script::Diagnostic;
use crate::settings::{
    Address, ApplicationSettings, Balancing, CallLimits, FastCgiSettings, Protocol, ServerSettings,
};

/// An application, ready to be called.
pub struct Application {
    settings: ApplicationSettings,
    authorities: Vec<String>,
    /// What is found out about its servers, if no other process finds it out.
    own_findings: Box<[AtomicU64]>,
    /// What is found out about them by one process for all.
    shared_findings: OnceLock<&'static [AtomicU64]>,
    /// Held by the thread that replaces addresses.
    is_being_found: Mutex<()>,
    names: Vec<String>,
    number: usize,
    is_retired: AtomicBool,
    facilities: OnceLock<Facilities>,
    /// How many bodies are in files.
    spooled: Arc<AtomicUsize>,
    /// How many calls go on without a client.
    finishing: Arc<AtomicUsize>,
}

/// The place of a call that goes on without a client, until it is dropped.
#[derive(Debug)]
pub struct Finishing(Arc<AtomicUsize>);

impl Drop for Finishing {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Application {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Application").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Application {
    /// Makes an application of its settings, with its number among all that the workers of a server
    /// have had.
    #[must_use]
    pub fn new(settings: ApplicationSettings, number: usize) -> Self {
        let authorities = settings.servers.iter().map(|it| it.address.authority()).collect();
        let cells = settings.servers.len() * Findings::CELLS;
        let name = |it: &ServerSettings| match (&it.address, settings.protocol) {
            (Address::Tcp { .. }, Protocol::FastCgi) => {
                format!("fastcgi://{}", it.address.place())
            }
            (address, _) => address.to_string(),
        };
        let names = settings.servers.iter().map(name).collect();
        let (facilities, spooled, finishing) = (OnceLock::new(), Arc::default(), Arc::default());
        Self {
            authorities,
            own_findings: (0..cells).map(|_| AtomicU64::new(0)).collect(),
            shared_findings: OnceLock::new(),
            is_being_found: Mutex::new(()),
            names,
            settings,
            number,
            is_retired: AtomicBool::new(false),
            facilities,
            spooled,
            finishing,
        }
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
        self.report(&Diagnostic { name: self.name(), target, line: line.as_bytes() });
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
        self.report(&Diagnostic { name: self.name(), target, line: line.as_bytes() });
    }

    /// Reports that a redirect to a path of this server was not followed.
    pub fn report_redirect(&self, target: &[u8], location: &[u8], why: &str) {
        let location = String::from_utf8_lossy(location);
        let line = format!("a local redirect of it is not followed: {why}: {location}");
        self.report(&Diagnostic { name: self.name(), target, line: line.as_bytes() });
    }

    pub(crate) fn report_too_large(&self, target: &[u8]) {
        let line = format!("431: the request has more than {START_BYTES_MAX} bytes of variables");
        self.report(&Diagnostic { name: self.name(), target, line: line.as_bytes() });
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

    /// Takes a place for a call that goes on without a client. There are as many in this process as
    /// there may be calls in flight.
    #[must_use]
    pub fn enter_finishing(&self) -> Option<Finishing> {
        let place = Finishing(Arc::clone(&self.finishing));
        let others = self.finishing.fetch_add(1, Ordering::Relaxed) as u64;
        (others < self.limits().in_flight_max).then_some(place)
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
        self.names.first().map_or("", |name| name)
    }

    /// The name of one of its servers in logs: its address.
    #[must_use]
    pub fn server_name(&self, server: usize) -> &str {
        &self.names[server]
    }

    /// The number among all applications that the workers of a server have had.
    #[must_use]
    #[inline]
    pub fn number(&self) -> usize {
        self.number
    }

    /// Notes that no further request is for it: no route leads to it any more.
    pub fn retire(&self) {
        self.is_retired.store(true, Ordering::Relaxed);
    }

    /// Whether no further request is for it, so that no connection to it need be kept.
    #[must_use]
    pub fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Relaxed)
    }

    /// The `Host` of a request whose client has sent none.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.authorities.first().map_or("localhost", |authority| authority)
    }

    /// The `Host` of a request that is made to one of the servers by itself.
    pub(crate) fn server_authority(&self, server: usize) -> &str {
        &self.authorities[server]
    }

    /// What of a client decides about its server, if anything does.
    pub(crate) fn client_key(&self, head: &Head<'_>, origin: &Origin<'_>) -> ClientKey {
        match self.settings.balancing {
            Balancing::ClientAddress => ClientKey::new(origin.client(head)),
            _ => ClientKey::default(),
        }
    }

    /// Whether what a client says of the clients before it is believed.
    #[must_use]
    pub fn trusts(&self, client: IpAddr) -> bool {
        self.settings.trusted.contains(&client)
    }

    /// The number of cells in which processes can share what is found out about the servers.
    #[must_use]
    pub fn finding_cells(&self) -> usize {
        self.own_findings.len()
    }

    /// Shares what is found out about the servers with other processes, in cells that were all 0 at
    /// the beginning: once, before anything is found out.
    ///
    /// # Panics
    /// If there are not so many as [`Application::finding_cells`] says.
    pub fn share_findings(&self, cells: &'static [AtomicU64]) {
        assert_eq!(cells.len(), self.finding_cells(), "each server has its cells");
        let _ = self.shared_findings.set(cells);
    }

    fn findings(&self, server: usize) -> Findings<'_> {
        let shared = self.shared_findings.get().copied();
        Findings::of_server(shared.unwrap_or(&self.own_findings), server)
    }

    /// How many addresses a server has; none if it has no name, or the name stands for nothing.
    #[must_use]
    pub fn addresses(&self, server: usize) -> usize {
        self.findings(server).addresses()
    }

    /// The address of a server with this number, counted round and round.
    #[must_use]
    pub fn address(&self, server: usize, number: usize) -> Option<SocketAddr> {
        self.findings(server).address(number)
    }

    /// Replaces the addresses of a server, of which the first few are kept. Only one of all
    /// processes may do so.
    pub fn set_addresses(&self, server: usize, addresses: &[SocketAddr]) {
        let _alone = self.is_being_found.lock().unwrap_or_else(PoisonError::into_inner);
        self.findings(server).set_addresses(addresses);
    }

    /// Notes that a server could not be reached: its name may stand for another address by now.
    pub fn note_unreached(&self, server: usize) {
        self.findings(server).note_unreached();
    }

    /// Whether a server could not be reached since the last call.
    #[must_use]
    pub fn take_unreached(&self, server: usize) -> bool {
        self.findings(server).take_unreached()
    }

    /// Whether a server is up, as far as checks have found.
    #[must_use]
    #[inline]
    pub fn is_up(&self, server: usize) -> bool {
        self.findings(server).is_up()
    }

    /// Notes whether a server is up.
    pub fn set_up(&self, server: usize, is_up: bool) {
        self.findings(server).set_up(is_up);
    }
}
