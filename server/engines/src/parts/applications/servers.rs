//! The servers of an application: how connections to them are begun, and what is known of each.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use session::Tick;
use upstream::{Address, Application, Balance, Call, Failure};

/// The servers of an application as the loops or threads of one partition know them. A connection
/// that is kept is a `K`.
pub(crate) struct Servers<K> {
    pub(crate) application: Arc<Application>,
    balance: Balance,
    /// Kept connections of each server; the last used is first used again.
    pub(crate) kept: Vec<Vec<K>>,
}

impl<K> Servers<K> {
    pub(crate) fn new(application: &Arc<Application>) -> Self {
        let servers = &application.settings().servers;
        Self {
            application: Arc::clone(application),
            balance: Balance::new(servers.iter().map(|server| server.weight)),
            kept: servers.iter().map(|_| Vec::new()).collect(),
        }
    }

    /// Chooses a server for a call, and takes a connection to it that was kept, if there is one.
    #[inline]
    pub(crate) fn choose(&mut self, now: Tick) -> Option<(usize, Option<K>)> {
        let server = self.balance.choose(now, |_| true)?;
        Some((server, self.kept[server].pop()))
    }

    /// Notes that a server could not be reached.
    pub(crate) fn note_failure(&mut self, server: usize, now: Tick) {
        self.balance.note_failure(server, now);
    }

    /// Notes how a call of a server has ended.
    #[inline]
    pub(crate) fn note_end(&mut self, server: usize, failure: Option<Failure>, now: Tick) {
        match failure {
            None => self.balance.note_success(server),
            Some(failure) if failure.is_servers() => self.balance.note_failure(server, now),
            Some(_) => {}
        }
    }
}

/// Begins a connection to a server of a call's application, which does not wait; `attempt` chooses
/// among the server's addresses.
pub(crate) fn connect(call: &Call, server: usize, attempt: u32) -> io::Result<OwnedFd> {
    let application = call.application();
    if let Some(program) = call.program() {
        return application.start_program(program);
    }
    if let Address::Unix(path) = &application.settings().servers[server].address {
        return os::socket::connect_unix(path);
    }
    let addresses = application.addresses(server);
    let Some(address) = addresses.get(attempt as usize % addresses.len().max(1)) else {
        return Err(io::Error::new(io::ErrorKind::NotFound, "its name has no address"));
    };
    os::socket::connect_start(*address, None)
}

/// How often connecting is tried before the application counts as out of reach: once for each
/// address.
pub(crate) fn attempts_max(application: &Application) -> u32 {
    let of_server = |server| application.addresses(server).len().max(1) as u32;
    (0..application.settings().servers.len()).map(of_server).sum()
}
