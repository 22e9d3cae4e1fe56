//! The rule of admission, one for all engines: when a connection is taken from a listener's queue,
//! and what happens when there is no room for it.
//!
//! An idle connection is closed to make room for one that waits, and for no other reason. Where
//! none is idle, a connection that lacks a place waits in the queue while the other loops are
//! requested to make room, and a connection that lacks a descriptor is turned away: it would wait
//! for ever.

use std::net::SocketAddr;
use std::ops::DerefMut;
use std::os::fd::OwnedFd;

use super::listeners::{Accepted, BACKLOG_MAX, Listeners};
use crate::knobs::Knob;

pub(crate) const ACCEPTS_PER_WAKE: Knob = Knob::number("accepts_per_wake", 1..=4096, 64)
    .about("connections accepted in a row before anything else is done");

/// The resource that is missing for the next connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// As many connections are open as may be.
    Places,
    /// There is no descriptor or no memory for the first connection in the queue of this listener.
    Descriptors {
        /// The index of the listener.
        listener: usize,
    },
}

/// The outcome of an attempt to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// An idle connection has been closed.
    Made,
    /// An idle connection is about to close. Accepting pauses until it has, or for a moment.
    Begun,
    /// None is idle.
    None,
}

impl Room {
    /// The outcome for an engine that closes idle connections at once; `is_closed` says whether
    /// there was one.
    pub(crate) fn if_closed(is_closed: bool) -> Self {
        if is_closed { Self::Made } else { Self::None }
    }
}

/// How a row of attempts to accept ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowOutcome {
    /// The queue is empty.
    Empty,
    /// The turn is over; more connections may wait in the queue.
    Enough,
    /// A connection waits for room that is being made.
    Waits,
    /// A connection waits, and no room can be made.
    NoRoom,
}

/// An engine's side of the rule. Its methods are called for connections, never for requests.
pub(crate) trait Admission {
    /// Whether as many connections are open as may be.
    fn is_full(&self) -> bool;

    /// The engine's listeners.
    fn listeners(&mut self) -> impl DerefMut<Target = Listeners>;

    /// Whether a connection waits at a listener. An event that reports one may be stale: other
    /// loops accept there, too.
    fn has_arrival(&mut self, listener: usize) -> bool {
        self.listeners().has_arrival(listener)
    }

    /// Whether the engine may take the next connection: false if it has a reason of its own to
    /// leave it in the queue.
    fn may_accept(&mut self) -> bool {
        true
    }

    /// Takes a connection from a queue.
    fn accept(&mut self, listener: usize) -> Accepted {
        self.listeners().accept(listener)
    }

    /// Has a connection served. Returns false if the next one has to wait: accepting is then
    /// paused already.
    fn admit(&mut self, socket: OwnedFd, peer: SocketAddr) -> bool;

    /// Closes the connection that has been idle for longest, if there is one.
    fn make_room(&mut self, shortage: Shortage) -> Room;

    /// Requests the other loops to close an idle connection.
    fn request_room_from_others(&mut self);

    /// Answers the client at the head of a queue that it is not served.
    fn turn_one_away(&mut self, listener: usize) {
        self.listeners().turn_one_away(listener);
    }

    /// Pauses accepting for a moment.
    fn pause(&mut self);

    /// Handles a shortage while no connection is idle: requests room from other loops, or turns one
    /// client away, and pauses accepting for a moment.
    fn handle_no_room(&mut self, shortage: Shortage) {
        match shortage {
            Shortage::Places => self.request_room_from_others(),
            Shortage::Descriptors { listener } => self.turn_one_away(listener),
        }
        self.pause();
    }
}

/// Accepts up to `count` connections from one listener.
#[inline]
pub(crate) fn accept_row<A: Admission>(
    engine: &mut A,
    listener: usize,
    count: usize,
) -> RowOutcome {
    for attempt in 0..count {
        if engine.is_full() {
            // The event announces one connection. The next event announces further ones.
            if attempt > 0 {
                return RowOutcome::Enough;
            }
            if !engine.has_arrival(listener) {
                return RowOutcome::Empty;
            }
            match find_room(engine, Shortage::Places) {
                Room::Made => {}
                Room::Begun => return RowOutcome::Waits,
                Room::None => return RowOutcome::NoRoom,
            }
        }
        if !engine.may_accept() {
            return RowOutcome::Enough;
        }
        match engine.accept(listener) {
            Accepted::Connection(socket, peer) => {
                if !engine.admit(socket, peer) {
                    return RowOutcome::NoRoom;
                }
            }
            Accepted::Nothing => return RowOutcome::Empty,
            Accepted::Gone => {}
            Accepted::Exhausted => match find_room(engine, Shortage::Descriptors { listener }) {
                Room::Made => {}
                Room::Begun => return RowOutcome::Waits,
                Room::None => return RowOutcome::NoRoom,
            },
        }
    }
    RowOutcome::Enough
}

/// Makes room for a connection that waits, or handles that there is none.
pub(crate) fn find_room<A: Admission>(engine: &mut A, shortage: Shortage) -> Room {
    match engine.make_room(shortage) {
        // Others may have taken the place.
        Room::Made if shortage != Shortage::Places || !engine.is_full() => Room::Made,
        Room::Begun => Room::Begun,
        Room::Made | Room::None => {
            engine.handle_no_room(shortage);
            Room::None
        }
    }
}

/// Accepts the connections that wait at listeners which are others' from now on. Returns false if
/// it is to be called again, because some wait for room.
pub(crate) fn accept_all<A: Admission>(engine: &mut A) -> bool {
    let listeners = engine.listeners().count();
    (0..listeners).all(|listener| {
        let mut rows = (0..BACKLOG_MAX).map(|_| accept_row(engine, listener, BACKLOG_MAX));
        rows.find(|outcome| *outcome != RowOutcome::Enough).is_none_or(|it| it == RowOutcome::Empty)
    })
}

/// Empties the queues of listeners that are about to be closed: closing would reset the connections
/// in them. A queue holds [`BACKLOG_MAX`] connections; later ones are not waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastRows {
    /// The index of the first listener whose queue may not be empty.
    listener: usize,
}

impl LastRows {
    /// Accepts the connections that wait at the engine's listeners. Returns false if it is to be
    /// called again when there is room.
    pub(crate) fn take<A: Admission>(&mut self, engine: &mut A) -> bool {
        while self.listener < engine.listeners().count() {
            for _ in 0..BACKLOG_MAX {
                match accept_row(engine, self.listener, BACKLOG_MAX) {
                    RowOutcome::Enough if engine.is_full() => {} // room is made for one at a time
                    RowOutcome::Empty | RowOutcome::Enough => break,
                    RowOutcome::Waits => return false,
                    RowOutcome::NoRoom => return true, // nor will there be any for the others
                }
            }
            self.listener += 1;
        }
        true
    }

    /// Abandons the connections that still wait: no room can be made.
    pub(crate) fn abandon(&mut self) {
        self.listener = usize::MAX;
    }
}

#[cfg(test)]
mod tests;
