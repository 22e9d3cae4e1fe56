//! Checks of the health of applications' servers. One thread in the process that was started makes
//! them for all workers, in whatever processes these are: what it finds stands in memory that all
//! read ([`crate::applications`]). It never waits for a server: all checks are under way at once.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use os::epoll::{Epoll, EventBuffer, Interest};
use os::errors::Cause;
use os::event::Wake;
use site::Site;
use upstream::{Address, Application, Check, CheckFailure, Health, Tick};

/// Checks that are under way at a time, at most: each takes a descriptor of those that the server
/// has for itself. Further ones wait.
const CHECKS_MAX: usize = 16;

/// Bytes that are received at once.
const RECEIVE_BYTES: usize = 4096;

/// The key of the order to end, which no server has.
const WAKE_KEY: u64 = u64::MAX;

/// The thread, until it is dropped.
pub(crate) struct Checks {
    end: Arc<Wake>,
    thread: Option<JoinHandle<()>>,
}

impl Checks {
    /// Begins to check the servers of all applications that are to be checked; none if there are
    /// none. A server that falls or rises is reported.
    pub(crate) fn begin(
        site: &Site,
        report: impl Fn(&str) + Send + 'static,
    ) -> io::Result<Option<Self>> {
        let now = Tick(os::clock::now());
        let is_checked = |it: &&Arc<Application>| !it.settings().health.target.is_empty();
        let applications = site.applications().iter().filter(is_checked);
        let servers: Vec<Checked> = applications.flat_map(|it| checked(it, now)).collect();
        if servers.is_empty() {
            return Ok(None);
        }
        let (end, epoll) = (Arc::new(Wake::new()?), Epoll::new()?);
        epoll.add(end.as_fd(), Interest::READ, WAKE_KEY)?;
        let checker = Checker { epoll, servers, under_way: 0, report };
        let thread = thread::Builder::new().name("health".into());
        let thread = Some(thread.spawn(move || checker.run())?);
        Ok(Some(Self { end, thread }))
    }
}

impl Drop for Checks {
    fn drop(&mut self) {
        self.end.notify();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic has been reported
        }
    }
}

/// A server that is checked.
struct Checked {
    application: Arc<Application>,
    server: usize,
    health: Health,
    /// When the next check is to begin.
    due: Tick,
    check: Option<UnderWay>,
}

/// A check that is under way.
struct UnderWay {
    socket: OwnedFd,
    check: Check,
    /// The number of the address that is tried next if this one cannot be reached.
    next: usize,
    until: Tick,
}

fn checked(application: &Arc<Application>, now: Tick) -> impl Iterator<Item = Checked> {
    (0..application.settings().servers.len()).map(move |server| Checked {
        application: Arc::clone(application),
        server,
        health: Health::found(application.is_up(server)),
        due: now,
        check: None,
    })
}

/// Begins a connection to a server, which does not wait: to its address with this number.
fn connect(application: &Application, server: usize, number: usize) -> io::Result<OwnedFd> {
    match &application.settings().servers[server].address {
        Address::Unix(path) => os::socket::connect_unix(path),
        Address::Tcp { .. } | Address::Programs(_) => {
            let address = application.address(server, number).ok_or(io::ErrorKind::NotFound)?;
            os::socket::connect_start(address, None)
        }
    }
}

impl UnderWay {
    /// Sends and receives what is possible. Returns the result of the check if there is one by now.
    fn go_on(&mut self, epoll: &Epoll, key: u64) -> Option<Result<(), CheckFailure>> {
        let socket = self.socket.as_fd();
        while !self.check.to_send().is_empty() {
            match os::send::send(socket, self.check.to_send(), false) {
                Ok(n) => self.check.sent(n),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return None,
                Err(_) => return Some(Err(CheckFailure::Unreachable)),
            }
            if self.check.to_send().is_empty() && epoll.modify(socket, Interest::READ, key).is_err()
            {
                return Some(Err(CheckFailure::Unreachable));
            }
        }
        let mut buffer = [0; RECEIVE_BYTES];
        loop {
            match os::send::recv(socket, &mut buffer) {
                Ok(n) => match self.check.ingest(&buffer[..n]) {
                    None => {}
                    result => return result,
                },
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return None,
                Err(_) => return Some(Err(CheckFailure::Closed)),
            }
        }
    }
}

/// The state of the thread.
struct Checker<R> {
    epoll: Epoll,
    servers: Vec<Checked>,
    under_way: usize,
    report: R,
}

impl<R: Fn(&str)> Checker<R> {
    fn run(mut self) {
        let mut events = EventBuffer::with_capacity(CHECKS_MAX + 1);
        loop {
            let now = Tick(os::clock::now());
            self.begin_due(now);
            let wait_us = self.next_moment().map_or(u64::MAX, |moment| moment.since(now));
            if let Err(why) = self.epoll.wait_us(&mut events, wait_us) {
                return (self.report)(&format!("health is not checked any more: {why}"));
            }
            let keys: Vec<u64> = events.iter().map(|event| event.key).collect();
            if keys.contains(&WAKE_KEY) {
                return;
            }
            keys.into_iter().for_each(|key| self.go_on(key as usize));
            let now = Tick(os::clock::now());
            (0..self.servers.len()).for_each(|index| self.end_if_late(index, now));
        }
    }

    /// When a check is to begin, if there is room for another, or is late.
    fn next_moment(&self) -> Option<Tick> {
        let has_room = self.under_way < CHECKS_MAX;
        let moments = self.servers.iter().filter_map(|server| match &server.check {
            Some(check) => Some(check.until),
            None => has_room.then_some(server.due),
        });
        moments.min()
    }

    /// Begins the checks that are due, as far as there is room for them: what has been due longest
    /// comes first, so that servers which never answer leave room for others.
    fn begin_due(&mut self, now: Tick) {
        while self.under_way < CHECKS_MAX {
            let is_due = |it: &(usize, &Checked)| it.1.check.is_none() && it.1.due <= now;
            let due = self.servers.iter().enumerate().filter(is_due);
            let Some((index, server)) = due.min_by_key(|(_, server)| server.due) else { return };
            let health = &server.application.settings().health;
            let until = now.plus_ms(health.check_ms());
            self.servers[index].due = now.plus_ms(health.interval_ms);
            self.begin(index, 0, until);
        }
    }

    /// Begins a check at an address of the server with this number or, if that cannot be reached,
    /// at one after it.
    fn begin(&mut self, index: usize, mut address: usize, until: Tick) {
        let Checked { application, server, check, .. } = &mut self.servers[index];
        loop {
            let connected = connect(application, *server, address).and_then(|socket| {
                self.epoll.add(socket.as_fd(), Interest::WRITE, index as u64)?;
                Ok(socket)
            });
            address += 1;
            match connected {
                Ok(socket) => {
                    let conversation = Check::new(application, *server);
                    *check = Some(UnderWay { socket, check: conversation, next: address, until });
                    self.under_way += 1;
                    return;
                }
                // That says nothing about the server.
                Err(why) if Cause::from_error(&why).is_exhaustion() => return,
                Err(_) if address < application.addresses(*server) => {}
                Err(_) => return self.note(index, Err(CheckFailure::Unreachable)),
            }
        }
    }

    fn go_on(&mut self, index: usize) {
        let Some(check) = &mut self.servers[index].check else { return };
        if let Some(result) = check.go_on(&self.epoll, index as u64) {
            self.end(index, result);
        }
    }

    fn end_if_late(&mut self, index: usize, now: Tick) {
        if self.servers[index].check.as_ref().is_some_and(|check| check.until <= now) {
            self.end(index, Err(CheckFailure::Late));
        }
    }

    fn end(&mut self, index: usize, result: Result<(), CheckFailure>) {
        let Checked { application, server, check, .. } = &mut self.servers[index];
        let Some(UnderWay { next, until, .. }) = check.take() else { return };
        self.under_way -= 1;
        match result {
            Err(CheckFailure::Unreachable) if next < application.addresses(*server) => {
                self.begin(index, next, until);
            }
            _ => self.note(index, result),
        }
    }

    fn note(&mut self, index: usize, result: Result<(), CheckFailure>) {
        let Checked { application, server, health, .. } = &mut self.servers[index];
        let change = health.note(result.is_ok());
        // In any case: when applications change, others have looked until just now.
        application.set_up(*server, health.is_up());
        if change.is_none() {
            return;
        }
        let address = &application.settings().servers[*server].address;
        match result {
            Ok(()) => (self.report)(&format!("{address}: up again: its health checks succeed")),
            Err(why) => (self.report)(&format!("{address}: down: its health checks fail: {why}")),
        }
    }
}
