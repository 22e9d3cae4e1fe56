//! The connections that wait for their socket: the epoll set and the timers of a stage that polls.
//!
//! A socket is registered once, edge-triggered, and stays so until its connection ends. The
//! connection itself is parked here only while it waits; an event that comes while it is with
//! another stage is remembered until it is parked again. So a request costs no call to change the
//! registration.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Weak};

use os::epoll::{Epoll, Event, EventBuffer, Interest};
use os::event::Wake;
use session::Tick;

use super::client::{BoxedClient, Client};
use crate::parts::loops::connections::{Connections, Timed};
use crate::parts::loops::step::Ready;

/// Keys of wake-up calls: above those of all registrations.
const WAKE_KEYS: u64 = (u32::MAX as u64) << 32;

/// When a connection that waits for room is watched for input as well, in milliseconds after its
/// request was found. Most clients take their responses in less, and to watch a socket for more
/// costs a call, and a wake-up with each later request.
const LISTEN_AFTER_MS: u64 = 1000;

/// The purpose of a registration: its index in [`Client::registrations`], and its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Reading,
    Writing,
}

impl Direction {
    /// The events to watch a socket for; `listens` says whether input is one of them.
    fn interest(self, listens: bool) -> Interest {
        let input = if listens { Interest::READ.with(Interest::RDHUP) } else { Interest::NONE };
        let room = if self == Self::Writing { Interest::WRITE } else { Interest::NONE };
        room.with(input).with(Interest::EDGE)
    }

    /// Takes note of an event of the socket.
    fn note(self, ready: &mut Ready, event: Event) {
        let is_over = event.hangup || event.error;
        let has_input = event.readable || is_over || self == Self::Reading;
        ready.is_drained &= !has_input;
        ready.is_full &= !event.writable && !event.error;
        ready.is_hung_up |= is_over;
    }
}

/// The connections and wake-up calls that a stage waits for.
pub(super) struct WaitSet {
    direction: Direction,
    epoll: Arc<Epoll>,
    registrations: Connections<Registration>,
    /// The number of registrations whose connection is parked here.
    parked: usize,
    /// The number of registrations with an event that is remembered for their connection.
    unmet: usize,
}

struct Registration {
    /// The socket of the connection that the registration belongs to, for as long as that lives.
    socket: Weak<OwnedFd>,
    /// None while the connection is with another stage.
    client: Option<BoxedClient>,
    is_watched: bool,
    /// Whether the socket is watched for input.
    listens: bool,
    /// The events that came while the connection was away, as one.
    missed: Option<Missed>,
}

/// What events reported while their connection was away.
#[derive(Clone, Copy, Default)]
struct Missed {
    input: bool,
    room: bool,
    hangup: bool,
    error: bool,
}

impl Timed for Registration {
    /// The deadline of a parked connection, or the moment from which it is watched for input.
    fn deadline(&self) -> Option<Tick> {
        let client = self.client.as_ref()?;
        let listens = self.listens || !client.connection.wants_input();
        let listens_from = (!listens).then(|| listens_from(client));
        client.connection.deadline().into_iter().chain(listens_from).min()
    }

    fn is_idle(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.is_idle())
    }
}

/// The outcome of an attempt to park a connection.
pub(super) enum Parked {
    /// The connection waits.
    Waiting,
    /// The connection's socket is ready already.
    Ready(BoxedClient),
    /// There is no memory to watch the connection's socket.
    Refused(BoxedClient),
}

/// The outcome of dispatching an event.
pub(super) enum Dispatched {
    /// A connection whose socket is ready.
    Ready(BoxedClient),
    /// A wake-up call, by its index.
    Wake(usize),
    /// Nothing to do now.
    Nothing,
}

impl WaitSet {
    /// A set without connections, with wake-up calls that end a wait. They are watched
    /// edge-triggered too, so that they need not be cleared.
    pub(super) fn new(direction: Direction, wakes: &[&Wake], now: Tick) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        for (index, wake) in wakes.iter().enumerate() {
            let interest = Interest::READ.with(Interest::EDGE);
            epoll.add(wake.as_fd(), interest, WAKE_KEYS + index as u64)?;
        }
        let registrations = Connections::new(now);
        Ok(Self { direction, epoll: Arc::new(epoll), registrations, parked: 0, unmet: 0 })
    }

    /// The set in which the sockets are watched.
    pub(super) fn epoll(&self) -> &Arc<Epoll> {
        &self.epoll
    }

    /// The number of registered connections, whether parked or with another stage.
    pub(super) fn len(&self) -> usize {
        self.registrations.len()
    }

    /// Whether connections that come back from other stages may wait in the inbox until another
    /// event: yes, unless an event has come for one of them meanwhile.
    pub(super) fn lets_wait(&self) -> bool {
        self.unmet == 0
    }

    /// Whether connections are with other stages.
    pub(super) fn has_some_away(&self) -> bool {
        self.parked < self.registrations.len()
    }

    pub(super) fn wait(&self, events: &mut EventBuffer, timeout_ms: Option<u32>) -> io::Result<()> {
        self.epoll.wait(events, timeout_ms).map(drop)
    }

    /// Takes the connection that an event concerns, or remembers the event if it is away.
    #[inline]
    pub(super) fn dispatch(&mut self, event: Event) -> Dispatched {
        if event.key >= WAKE_KEYS {
            return Dispatched::Wake((event.key - WAKE_KEYS) as usize);
        }
        // An event of a connection that has gone meanwhile finds no registration.
        let Some(registration) = self.registrations.get(event.key) else {
            return Dispatched::Nothing;
        };
        match registration.client.take() {
            Some(mut client) => {
                self.parked -= 1;
                self.direction.note(&mut client.ready, event);
                Dispatched::Ready(client)
            }
            None => {
                self.unmet += usize::from(registration.missed.is_none());
                registration.missed.get_or_insert_default().add(event);
                Dispatched::Nothing
            }
        }
    }

    /// Registers a connection, without parking it. Returns false if it was registered already.
    #[inline]
    pub(super) fn register(&mut self, client: &mut Client) -> bool {
        if self.find(client).is_some() {
            return false;
        }
        let key = self.registrations.insert(Registration {
            socket: Arc::downgrade(&client.socket),
            client: None,
            is_watched: false,
            listens: self.direction == Direction::Reading,
            missed: None,
        });
        client.registrations[self.direction as usize] = Some(key);
        true
    }

    /// The key of a connection's registration. A key from a stage that has failed may by now be
    /// that of another connection.
    #[inline]
    fn find(&mut self, client: &Client) -> Option<u64> {
        let key = client.registrations[self.direction as usize]?;
        let registration = self.registrations.get(key)?;
        (registration.socket.as_ptr() == Arc::as_ptr(&client.socket)).then_some(key)
    }

    /// Has a connection wait for its socket.
    #[inline]
    pub(super) fn park(&mut self, mut client: BoxedClient) -> Parked {
        let Some(key) = client.registrations[self.direction as usize] else {
            return Parked::Refused(client);
        };
        let Some(registration) = self.registrations.get(key) else {
            return Parked::Refused(client);
        };
        if let Some(missed) = registration.missed.take() {
            self.unmet -= 1;
            self.direction.note(&mut client.ready, missed.event(key));
            return Parked::Ready(client);
        }
        if !std::mem::replace(&mut registration.is_watched, true) {
            // If the socket is ready already, epoll reports that as the first event.
            let interest = self.direction.interest(registration.listens);
            if self.epoll.add(client.socket.as_fd(), interest, key).is_err() {
                return Parked::Refused(client);
            }
        }
        client.is_watched |= self.direction == Direction::Reading;
        registration.client = Some(client);
        self.parked += 1;
        self.registrations.schedule(key);
        Parked::Waiting
    }

    /// Whether a connection that waits for room is to be watched for input as well: `listen` does.
    pub(super) fn is_to_listen(client: &Client, now: Tick) -> bool {
        listens_from(client) <= now && client.connection.wants_input()
    }

    /// Has a connection wait for its socket, which is watched for input as well.
    pub(super) fn listen(&mut self, client: BoxedClient) -> Parked {
        let key = client.registrations[self.direction as usize];
        if let Some(key) = key
            && let Some(registration) = self.registrations.get(key)
            && !std::mem::replace(&mut registration.listens, true)
            && registration.is_watched
        {
            // If there is input already, epoll reports it anew.
            let changed =
                self.epoll.modify(client.socket.as_fd(), self.direction.interest(true), key);
            debug_assert!(changed.is_ok(), "the watch of a watched socket can be changed");
        }
        self.park(client)
    }

    /// Ends a connection's registration.
    pub(super) fn release(&mut self, client: &mut Client) {
        if let Some(key) = self.find(client) {
            self.remove(key);
        }
        client.registrations[self.direction as usize] = None;
    }

    /// Ends the registration of a connection whose socket stays open.
    pub(super) fn forget(&mut self, client: &mut Client) {
        let _ = self.epoll.remove(client.socket.as_fd()); // it fails if it was not watched
        self.release(client);
    }

    /// Removes the registration of a connection that is with another stage.
    fn remove(&mut self, key: u64) {
        let removed = self.registrations.remove(key);
        self.unmet -= usize::from(removed.is_some_and(|removed| removed.missed.is_some()));
    }

    /// Ends the registrations of connections that are gone without having been closed. Returns
    /// their number.
    pub(super) fn clear_lost(&mut self) -> usize {
        let keys = self.registrations.keys();
        let is_lost = |registration: &mut Registration| registration.socket.strong_count() == 0;
        let lost: Vec<u64> = keys
            .into_iter()
            .filter(|&key| self.registrations.get(key).is_some_and(is_lost))
            .collect();
        lost.iter().for_each(|&key| self.remove(key));
        lost.len()
    }

    /// Takes all parked connections.
    pub(super) fn take_all(&mut self) -> Vec<BoxedClient> {
        let keys = self.registrations.keys();
        self.take(keys)
    }

    /// Takes all parked connections whose deadline has passed.
    pub(super) fn take_expired(&mut self, now: Tick) -> Vec<BoxedClient> {
        if self.registrations.next_check().is_none_or(|moment| moment > now) {
            return Vec::new();
        }
        let keys = self.registrations.take_expired(now);
        self.take(keys)
    }

    /// Takes the connection that has been idle longest.
    pub(super) fn take_least_recent(&mut self) -> Option<BoxedClient> {
        let is_readable = |client: &BoxedClient| os::socket::has_input(client.socket.as_fd());
        let has_input =
            |registration: &Registration| registration.client.as_ref().is_some_and(is_readable);
        let first = self.registrations.take_least_recent(has_input)?;
        self.take(vec![first]).pop()
    }

    /// The moment at which [`WaitSet::take_expired`] is worth calling again.
    pub(super) fn next_check(&self) -> Option<Tick> {
        self.registrations.next_check()
    }

    /// Shuts all sockets down, wherever their connections are: a thread that waits for one goes on.
    pub(super) fn shut_down_all(&mut self) {
        for key in self.registrations.keys() {
            if let Some(socket) =
                self.registrations.get(key).and_then(|registration| registration.socket.upgrade())
            {
                let _ = os::socket::shutdown_write(socket.as_fd()); // fails if the peer has gone
            }
        }
    }

    fn take(&mut self, keys: Vec<u64>) -> Vec<BoxedClient> {
        let here =
            |key| self.registrations.get(key).and_then(|registration| registration.client.take());
        let taken: Vec<BoxedClient> = keys.into_iter().filter_map(here).collect();
        self.parked -= taken.len();
        taken
    }
}

impl Missed {
    fn add(&mut self, event: Event) {
        self.input |= event.readable;
        self.room |= event.writable;
        self.hangup |= event.hangup;
        self.error |= event.error;
    }

    fn event(self, key: u64) -> Event {
        let Self { input: readable, room: writable, hangup, error } = self;
        Event { key, readable, writable, hangup, error }
    }
}

/// The moment from which a connection that waits for room is watched for input as well.
fn listens_from(client: &Client) -> Tick {
    client.since.plus_ms(LISTEN_AFTER_MS)
}
