//! Where connections lie that wait for their socket: the epoll set and the timers of a stage that
//! polls.
//!
//! A socket is watched edge-triggered and added once. Its connection comes and goes; an event that
//! comes while it is away is remembered and meets it when it is back. So a request costs no call
//! to change what is watched.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Weak};

use os::epoll::{Epoll, Event, EventBuffer, Interest};
use os::event::Wake;
use session::Tick;

use super::client::{BoxedClient, Client};
use crate::parts::connections::{Connections, Timed};

/// Keys of wake-up calls: above those of all berths.
const WAKE_KEYS: u64 = (u32::MAX as u64) << 32;

/// What a berth is for: which of [`Client::berths`], and which events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    Reading,
    Writing,
}

impl For {
    fn interest(self) -> Interest {
        match self {
            Self::Reading => Interest::READ.with(Interest::RDHUP).with(Interest::EDGE),
            Self::Writing => Interest::WRITE.with(Interest::EDGE),
        }
    }
}

/// A stage's berths.
pub(super) struct Berths {
    purpose: For,
    epoll: Epoll,
    berths: Connections<Berth>,
}

struct Berth {
    /// Of the connection that it belongs to, for as long as that lives.
    socket: Weak<OwnedFd>,
    /// None while the connection is with another stage.
    client: Option<BoxedClient>,
    is_watched: bool,
    /// What events said while the connection was away.
    has_event: bool,
    is_hung_up: bool,
}

impl Timed for Berth {
    fn deadline(&self) -> Option<Tick> {
        self.client.as_ref()?.connection.deadline()
    }

    fn is_idle(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.is_idle())
    }
}

/// What came of an attempt to lay a connection at its berth.
pub(super) enum Moored {
    /// It lies there.
    Waiting,
    /// Its socket is ready already.
    Ready(BoxedClient),
    /// There is no memory to watch its socket.
    Refused(BoxedClient),
}

/// What an event came to.
pub(super) enum Told {
    /// A connection whose socket is ready.
    Ready(BoxedClient),
    /// Somebody calls: which of the wake-ups.
    Wake(usize),
    /// Nothing to do now.
    Nothing,
}

impl Berths {
    /// No berths yet, and wake-up calls that end a wait. They are watched edge-triggered too, so
    /// that nobody has to clear them.
    pub(super) fn new(purpose: For, wakes: &[&Wake], now: Tick) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        for (index, wake) in wakes.iter().enumerate() {
            let interest = Interest::READ.with(Interest::EDGE);
            epoll.add(wake.as_fd(), interest, WAKE_KEYS + index as u64)?;
        }
        Ok(Self { purpose, epoll, berths: Connections::new(now) })
    }

    /// How many connections have a berth, be they there or away.
    pub(super) fn len(&self) -> usize {
        self.berths.len()
    }

    pub(super) fn wait(&self, events: &mut EventBuffer, timeout_ms: Option<u32>) -> io::Result<()> {
        self.epoll.wait(events, timeout_ms).map(drop)
    }

    /// Takes an event to the connection that it is about.
    #[inline]
    pub(super) fn tell(&mut self, event: Event) -> Told {
        if event.key >= WAKE_KEYS {
            return Told::Wake((event.key - WAKE_KEYS) as usize);
        }
        // An event of a connection that has gone meanwhile finds nothing.
        let Some(berth) = self.berths.get(event.key) else { return Told::Nothing };
        let is_hung_up = event.hangup || event.error;
        match berth.client.take() {
            Some(mut client) => {
                client.ready.is_drained &= self.purpose != For::Reading;
                client.ready.is_hung_up |= is_hung_up;
                Told::Ready(client)
            }
            None => {
                berth.has_event = true;
                berth.is_hung_up |= is_hung_up;
                Told::Nothing
            }
        }
    }

    /// Gives a connection a berth, without laying it there. Returns whether it had none.
    #[inline]
    pub(super) fn admit(&mut self, client: &mut Client) -> bool {
        if self.find(client).is_some() {
            return false;
        }
        let key = self.berths.insert(Berth {
            socket: Arc::downgrade(&client.socket),
            client: None,
            is_watched: false,
            has_event: false,
            is_hung_up: false,
        });
        client.berths[self.purpose as usize] = Some(key);
        true
    }

    /// The key of a connection's berth. A key from a stage that has failed may by now be another's.
    #[inline]
    fn find(&mut self, client: &Client) -> Option<u64> {
        let key = client.berths[self.purpose as usize]?;
        let berth = self.berths.get(key)?;
        (berth.socket.as_ptr() == Arc::as_ptr(&client.socket)).then_some(key)
    }

    /// Lays a connection at its berth.
    #[inline]
    pub(super) fn moor(&mut self, mut client: BoxedClient) -> Moored {
        let Some(key) = client.berths[self.purpose as usize] else {
            return Moored::Refused(client);
        };
        let Some(berth) = self.berths.get(key) else { return Moored::Refused(client) };
        client.ready.is_hung_up |= std::mem::take(&mut berth.is_hung_up);
        if std::mem::take(&mut berth.has_event) {
            client.ready.is_drained &= self.purpose != For::Reading;
            return Moored::Ready(client);
        }
        if !std::mem::replace(&mut berth.is_watched, true) {
            // What is there already is told as the first event.
            let interest = self.purpose.interest();
            if self.epoll.add(client.socket.as_fd(), interest, key).is_err() {
                return Moored::Refused(client);
            }
        }
        berth.client = Some(client);
        self.berths.schedule(key);
        Moored::Waiting
    }

    /// Gives a connection's berth up.
    pub(super) fn release(&mut self, client: &mut Client) {
        if let Some(key) = self.find(client) {
            self.berths.remove(key);
        }
        client.berths[self.purpose as usize] = None;
    }

    /// Gives up the berths of connections that are gone without having been closed. Returns how
    /// many they were.
    pub(super) fn clear_lost(&mut self) -> usize {
        let keys = self.berths.keys();
        let is_lost = |berth: &mut Berth| berth.socket.strong_count() == 0;
        let lost: Vec<u64> =
            keys.into_iter().filter(|&key| self.berths.get(key).is_some_and(is_lost)).collect();
        lost.iter().for_each(|&key| drop(self.berths.remove(key)));
        lost.len()
    }

    /// All connections that are here.
    pub(super) fn take_all(&mut self) -> Vec<BoxedClient> {
        let keys = self.berths.keys();
        self.take(keys)
    }

    /// All whose deadline has passed.
    pub(super) fn take_expired(&mut self, now: Tick) -> Vec<BoxedClient> {
        if self.berths.next_look().is_none_or(|look| look > now) {
            return Vec::new();
        }
        let keys = self.berths.take_expired(now);
        self.take(keys)
    }

    /// The idle connection that has rested longest.
    pub(super) fn take_least_recent(&mut self) -> Option<BoxedClient> {
        let asked = |client: &BoxedClient| os::socket::has_input(client.socket.as_fd());
        let has_asked = |berth: &Berth| berth.client.as_ref().is_some_and(asked);
        let first = self.berths.take_least_recent(has_asked)?;
        self.berths.get(first)?.client.take()
    }

    /// When [`Berths::take_expired`] is worth calling again.
    pub(super) fn next_look(&self) -> Option<Tick> {
        self.berths.next_look()
    }

    /// Shuts all sockets down, wherever their connections are: whoever waits for one goes on.
    pub(super) fn shut_down_all(&mut self) {
        for key in self.berths.keys() {
            if let Some(socket) = self.berths.get(key).and_then(|berth| berth.socket.upgrade()) {
                let _ = os::socket::shutdown_write(socket.as_fd()); // its peer may be gone
            }
        }
    }

    fn take(&mut self, keys: Vec<u64>) -> Vec<BoxedClient> {
        let here = |key| self.berths.get(key).and_then(|berth| berth.client.take());
        keys.into_iter().filter_map(here).collect()
    }
}
