//! How a loop learns which sockets are ready: the one place that distinguishes the event
//! mechanisms.
//!
//! With edge triggering, a socket is registered once, for all events. With level triggering, it is
//! watched for the event that its connection waits for, and for its end only while the connection
//! waits for something else: its socket would be reported for ever.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use os::epoll::{Epoll, Event, EventBuffer, Interest};
use os::poll::PollSet;
use os::select::SelectSet;
use session::{Connection, Op};

use super::connections::Slot;
use super::step::Ready;
use crate::engine::Wakeups;
use crate::knobs::{Knob, KnobValues};
use crate::parts::accept::listeners::WatchListeners;

pub(crate) const EVENTS: Knob = Knob::choice("events", &["epoll", "epoll-level", "poll", "select"])
    .about(
        "how readiness is learnt: epoll edge- or level-triggered; poll; select, which cannot \
         watch descriptors from 1024 on",
    );

/// Which waiters an arrival wakes with these knobs: only epoll can be set to wake one.
pub(crate) fn wakeups(knobs: &KnobValues) -> Wakeups {
    match knobs.get(EVENTS.name) {
        0 | 1 => Wakeups::AsConfigured,
        _ => Wakeups::All,
    }
}

/// All events of a socket, reported when they occur.
const ALL: Interest =
    Interest::READ.with(Interest::WRITE).with(Interest::RDHUP).with(Interest::EDGE);

/// Nothing but errors and a complete hang-up, which select(2) does not report. Once is enough.
const END: Interest = Interest::ONCE;

/// The set of sockets that a loop watches, and the events of its last wait.
pub(crate) struct Watch {
    set: Set,
    buffer: EventBuffer,
    /// The events of the last wait, for mechanisms that are not epoll.
    events: Vec<Event>,
}

/// The event mechanisms.
enum Set {
    Edge(Epoll),
    Level(Epoll),
    Poll(RefCell<PollSet>),
    Select(Box<RefCell<SelectSet>>),
}

impl Watch {
    /// An empty set, watched by the mechanism with this number in [`EVENTS`].
    pub(crate) fn new(mechanism: u64, events_max: usize) -> io::Result<Self> {
        let set = match mechanism {
            0 => Set::Edge(Epoll::new()?),
            1 => Set::Level(Epoll::new()?),
            2 => Set::Poll(RefCell::default()),
            _ => Set::Select(Box::default()),
        };
        Ok(Self { set, buffer: EventBuffer::with_capacity(events_max), events: Vec::new() })
    }

    /// Waits until there is an event or the time has passed; none means for ever.
    #[inline]
    pub(crate) fn wait(&mut self, timeout_ms: Option<u32>) -> io::Result<()> {
        let (events, events_max) = (&mut self.events, self.buffer.capacity());
        match &mut self.set {
            Set::Edge(epoll) | Set::Level(epoll) => {
                epoll.wait(&mut self.buffer, timeout_ms).map(|_| ())
            }
            Set::Poll(set) => set.get_mut().wait(events, events_max, timeout_ms),
            Set::Select(set) => set.get_mut().wait(events, events_max, timeout_ms),
        }
    }

    /// The event at `index` of the last wait.
    #[inline]
    pub(crate) fn event(&self, index: usize) -> Option<Event> {
        match &self.set {
            Set::Edge(_) | Set::Level(_) => self.buffer.get(index),
            Set::Poll(_) | Set::Select(_) => self.events.get(index).copied(),
        }
    }

    /// Watches a socket for what its connection waits for, and for its end. Costs no system call if
    /// it is watched so already.
    ///
    /// # Errors
    /// No memory for it, or a descriptor that the mechanism cannot watch.
    #[inline]
    pub(crate) fn follow(&self, slot: &mut Slot, key: u64) -> io::Result<()> {
        let wanted = match &self.set {
            Set::Edge(_) => ALL,
            _ => interest(&slot.connection, &slot.ready),
        };
        if slot.watched == wanted {
            return Ok(());
        }
        self.watch(slot.socket.as_fd(), &mut slot.watched, wanted, key)
    }

    /// Watches a socket for what is `wanted` of it, or not at all.
    ///
    /// # Errors
    /// As [`Watch::follow`].
    pub(crate) fn follow_socket(
        &self,
        socket: BorrowedFd<'_>,
        watched: &mut Interest,
        wanted: Interest,
        key: u64,
    ) -> io::Result<()> {
        let wanted = if matches!(self.set, Set::Edge(_)) { ALL } else { wanted };
        match *watched == wanted {
            true => Ok(()),
            false => self.watch(socket, watched, wanted, key),
        }
    }

    /// Watches a socket for something else than before.
    fn watch(
        &self,
        socket: BorrowedFd<'_>,
        watched: &mut Interest,
        wanted: Interest,
        key: u64,
    ) -> io::Result<()> {
        match (*watched, wanted) {
            (_, Interest::NONE) => self.end(socket),
            (Interest::NONE, _) => self.begin(socket, wanted, key)?,
            _ => self.change(socket, wanted, key)?,
        }
        *watched = wanted;
        Ok(())
    }

    /// Forgets a socket that goes to another loop.
    pub(crate) fn forget(&self, socket: BorrowedFd<'_>, watched: &mut Interest) {
        if std::mem::replace(watched, Interest::NONE) != Interest::NONE {
            self.end(socket);
        }
    }

    /// Forgets a socket that is about to be closed, as [`Watch::leave`] does.
    pub(crate) fn leave_socket(&self, socket: BorrowedFd<'_>, watched: &mut Interest) {
        if matches!(self.set, Set::Poll(_) | Set::Select(_)) && *watched != Interest::NONE {
            self.end(socket);
            *watched = Interest::NONE;
        }
    }

    /// Forgets a socket that is about to be closed. Epoll does so by itself.
    #[inline]
    pub(crate) fn leave(&self, slot: &mut Slot) {
        let is_kept = matches!(self.set, Set::Poll(_) | Set::Select(_));
        if is_kept && slot.watched != Interest::NONE {
            self.end(slot.socket.as_fd());
            slot.watched = Interest::NONE;
        }
    }

    /// Whether a descriptor that was opened just now can be watched at all.
    pub(crate) fn can_watch(&self, descriptor: BorrowedFd<'_>) -> bool {
        let number = descriptor.as_raw_fd() as usize; // not negative while it is borrowed
        !matches!(self.set, Set::Select(_)) || number < os::select::DESCRIPTORS_MAX
    }

    fn change(&self, socket: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()> {
        match &self.set {
            Set::Edge(epoll) | Set::Level(epoll) => epoll.modify(socket, interest, key),
            Set::Poll(set) => set.borrow_mut().modify(socket, interest, key),
            Set::Select(set) => set.borrow_mut().modify(socket, interest, key),
        }
    }
}

impl WatchListeners for Watch {
    /// Starts to watch a descriptor. Only epoll knows exclusive wake-ups: with the other mechanisms
    /// an arrival wakes all threads that wait at a listener.
    fn begin(&self, socket: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()> {
        match &self.set {
            Set::Edge(epoll) | Set::Level(epoll) => epoll.add(socket, interest, key),
            Set::Poll(set) => set.borrow_mut().add(socket, plain(interest), key),
            Set::Select(set) => set.borrow_mut().add(socket, plain(interest), key),
        }
    }

    fn end(&self, socket: BorrowedFd<'_>) {
        // It fails only if the descriptor is not in the set.
        let _ = match &self.set {
            Set::Edge(epoll) | Set::Level(epoll) => epoll.remove(socket),
            Set::Poll(set) => set.borrow_mut().remove(socket),
            Set::Select(set) => set.borrow_mut().remove(socket),
        };
    }
}

fn plain(interest: Interest) -> Interest {
    let wanted = |one| if interest.contains(one) { one } else { Interest::NONE };
    wanted(Interest::READ).with(wanted(Interest::WRITE))
}

/// The events that a connection that cannot go on waits for. Errors and resets are reported in any
/// case.
fn interest(connection: &Connection, ready: &Ready) -> Interest {
    let wants_room = match connection.next() {
        Op::Recv => return Interest::READ,
        Op::Job | Op::Stream(_) | Op::Wait => false,
        _ => !ready.is_fetching,
    };
    match (wants_room, connection.wants_input()) {
        (true, true) => Interest::WRITE.with(Interest::READ),
        (true, false) => Interest::WRITE,
        (false, true) => Interest::READ,
        (false, false) => END,
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use session::{Counters, Limits};

    use super::*;
    use crate::idle;

    const KEY: u64 = 7;

    /// What a wait reports of the socket: whether it is readable, and writable.
    fn events(watch: &mut Watch) -> Option<(bool, bool)> {
        watch.wait(Some(0)).unwrap();
        let event = watch.event(0)?;
        assert_eq!(event.key, KEY);
        Some((event.readable, event.writable))
    }

    /// A socket with room to send, which level-triggered mechanisms report as long as it is watched
    /// for that.
    #[test]
    fn a_socket_is_watched_for_what_its_connection_wants_and_for_nothing_else() {
        for mechanism in 1..=3 {
            let mut watch = Watch::new(mechanism, 4).unwrap();
            let (ours, _theirs) = UnixStream::pair().unwrap();
            let make = idle::maker(idle::directory_site("/"), Limits::default());
            let mut worker = make(None, Arc::new(Counters::default()));
            let connection = Connection::new(&worker, "192.0.2.7:4711".parse().unwrap());
            let mut slot = Slot {
                connection,
                socket: OwnedFd::from(ours),
                ready: Ready::default(),
                watched: Interest::NONE,
                is_queued: false,
                upstream: crate::parts::loops::connections::NO_UPSTREAM,
            };
            let mut follow = |slot: &mut Slot| {
                watch.follow(slot, KEY).unwrap();
                events(&mut watch)
            };
            assert_eq!(follow(&mut slot), None, "it is to be readable");
            slot.connection.ingest(&mut worker, b"no request\r\n\r\n");
            assert_eq!(follow(&mut slot), Some((false, true)), "an answer is to be sent");
            // The client has shut its side down, and what is to be sent is being fetched.
            slot.connection.ingest(&mut worker, b"");
            slot.ready.is_fetching = true;
            assert_eq!(follow(&mut slot), None, "nothing is wanted of it");
            assert_eq!(slot.watched, END);
            slot.ready.is_fetching = false;
            assert_eq!(follow(&mut slot), Some((false, true)), "it is watched again");
        }
    }
}
