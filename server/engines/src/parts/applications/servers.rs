//! The servers of an application: how connections to them are begun, and what is known of each.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use session::Tick;
use upstream::{Address, Application, Balance, Call, ClientKey, Failure, Tried};

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
            balance: Balance::new(application.settings(), os::clock::now_ns()),
            kept: servers.iter().map(|_| Vec::new()).collect(),
        }
    }

    /// Chooses a server for a call of this client, and takes a connection to it that was kept, if
    /// there is one. None that the call has `tried` is chosen until it has tried all, and then only
    /// those that have another address.
    #[inline]
    pub(crate) fn choose(
        &mut self,
        client: ClientKey,
        tried: &mut Tried,
        now: Tick,
    ) -> Option<(usize, Option<K>)> {
        let Self { application, balance, .. } = self;
        let mut choose = |tried: &Tried| {
            let is_up = |server| application.is_up(server);
            let has_another = |server| match tried.rounds() {
                0 => true,
                rounds => application.addresses(server) > rounds,
            };
            let is_wanted = |server| tried.wants(server) && has_another(server);
            balance.choose(client, now, is_wanted, is_up)
        };
        let mut chosen = choose(tried);
        if chosen.is_none() {
            tried.begin_round();
            chosen = choose(tried);
        }
        let server = chosen?;
        Some((server, self.kept[server].pop()))
    }

    /// Notes that a server has got a request.
    #[inline]
    pub(crate) fn begin(&mut self, server: usize) {
        self.balance.begin(server);
    }

    /// Notes that a server has the request no longer.
    #[inline]
    pub(crate) fn end(&mut self, server: usize) {
        self.balance.end(server);
    }

    /// Notes that a server could not be reached.
    pub(crate) fn note_failure(&mut self, server: usize, now: Tick) {
        self.application.note_unreached(server);
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

/// Begins a connection to a server of a call's application, which does not wait. What it has
/// `tried` chooses among the server's addresses.
pub(crate) fn connect(call: &Call, server: usize, tried: &Tried) -> io::Result<OwnedFd> {
    let application = call.application();
    if let Some(program) = call.program() {
        return application.start_program(program);
    }
    if let Address::Unix(path) = &application.settings().servers[server].address {
        return os::socket::connect_unix(path);
    }
    let Some(address) = application.address(server, tried.rounds()) else {
        return Err(io::Error::new(io::ErrorKind::NotFound, "its name has no address"));
    };
    os::socket::connect_start(address, None)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use upstream::{ApplicationSettings, ServerSettings};

    use super::*;

    /// A name may stand for more addresses than the others have, of which the last is the one at
    /// which a server listens.
    #[test]
    fn each_address_of_each_server_is_tried_once() {
        let server = |host: &str| {
            let address = Address::Tcp { host: host.into(), port: 80 };
            ServerSettings { address, weight: 1 }
        };
        let servers = ["three", "one", "none"].map(server).into();
        let settings = ApplicationSettings { servers, ..ApplicationSettings::default() };
        let application = Arc::new(Application::new(settings, 0));
        let addresses = [1, 2, 3].map(|n| SocketAddr::from(([192, 0, 2, n], 80)));
        application.set_addresses(0, &addresses);
        application.set_addresses(1, &addresses[..1]);
        let mut servers = Servers::<()>::new(&application);
        let (mut tried, mut attempts) = (Tried::default(), Vec::new());
        let mut next = |tried: &mut Tried| servers.choose(ClientKey::default(), tried, Tick(0));
        while let Some((server, _)) = next(&mut tried) {
            attempts.push((server, application.address(server, tried.rounds())));
            tried.note(server, false);
        }
        attempts.sort_unstable();
        let first = addresses.map(|address| (0, Some(address)));
        assert_eq!(attempts, [&first[..], &[(1, Some(addresses[0])), (2, None)]].concat());
    }
}
