//! The listeners of one ring: which of them have an accept under way, and which connections were
//! accepted and wait for room.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};

use os::ring::{Descriptor, Operation, Ring};
use session::Tick;

use crate::parts::accept::listeners::{LISTENER_KEYS, Listeners, PAUSE_MS};

/// With fewer free places than this, connections are accepted one at a time, so that hardly any
/// connection is accepted without a place.
pub(super) const MARGIN: usize = 64;

/// The listeners of one ring.
pub(super) struct Accepting {
    pub(super) listeners: Listeners,
    doors: Vec<Door>,
    /// Connections that were accepted when there was no place left.
    pub(super) waiting: VecDeque<Descriptor>,
    paused_until: Option<Tick>,
    /// A connection that was closed for its descriptor, which its operations may still hold.
    leaving: Weak<Descriptor>,
}

/// A listener, as the ring uses it.
struct Door {
    listener: Rc<Descriptor>,
    accepting: Option<(Operation, Many)>,
}

/// The number of connections that an accept is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Many {
    One,
    All,
    /// No more: the accept was cancelled.
    NoMore,
}

impl Accepting {
    pub(super) fn new(sockets: Vec<OwnedFd>) -> io::Result<Self> {
        let listeners = Listeners::new(sockets, false); // accepts in a ring are exclusive anyway
        let door = |listener: OwnedFd| Door { listener: Rc::new(listener.into()), accepting: None };
        Ok(Self {
            doors: listeners.copies()?.into_iter().map(door).collect(),
            listeners,
            waiting: VecDeque::new(),
            paused_until: None,
            leaving: Weak::new(),
        })
    }

    /// Begins and cancels accepts, so that each listener accepts as many connections as it should.
    pub(super) fn arm(&mut self, ring: &mut Ring, many: bool) {
        let is_idle = self.paused_until.is_none() && self.waiting.is_empty();
        let is_ready = is_idle && self.leaving.strong_count() == 0;
        for (index, door) in self.doors.iter_mut().enumerate() {
            match &mut door.accepting {
                None if is_ready => {
                    let key = LISTENER_KEYS + index as u64;
                    let operation = ring.accept(key, &door.listener, many);
                    door.accepting = Some((operation, if many { Many::All } else { Many::One }));
                }
                Some((operation, count @ Many::All)) if !many || !is_idle => {
                    *count = Many::NoMore;
                    ring.cancel(*operation);
                }
                _ => {}
            }
        }
    }

    /// Whether [`Accepting::arm`] waits for the end of a connection.
    pub(super) fn is_awaiting_descriptor(&self) -> bool {
        self.leaving.strong_count() > 0
    }

    /// Records that the accept on that listener has ended.
    pub(super) fn ended(&mut self, index: usize) {
        if let Some(door) = self.doors.get_mut(index) {
            door.accepting = None;
        }
    }

    /// Pauses accepting until this descriptor has been closed.
    pub(super) fn await_descriptor(&mut self, socket: &Rc<Descriptor>) {
        self.leaving = Rc::downgrade(socket);
    }

    /// Pauses accepting for [`PAUSE_MS`]. The kernel's queue holds connections that come meanwhile.
    pub(super) fn pause(&mut self, now: Tick) {
        self.paused_until = Some(now.plus_ms(PAUSE_MS));
    }

    /// Ends a pause that is over. Returns whether one was.
    pub(super) fn resume(&mut self, now: Tick) -> bool {
        self.paused_until.take_if(|until| *until <= now).is_some()
    }

    /// The moment at which [`Accepting::resume`] is worth calling; none without a pause.
    pub(super) fn next_check(&self) -> Option<Tick> {
        self.paused_until
    }

    /// Cancels all accepts. Returns whether all have ended.
    pub(super) fn disarm(&mut self, ring: &mut Ring) -> bool {
        for door in &mut self.doors {
            if let Some((operation, count)) = &mut door.accepting
                && *count != Many::NoMore
            {
                *count = Many::NoMore;
                ring.cancel(*operation);
            }
        }
        self.doors.iter().all(|door| door.accepting.is_none())
    }

    /// Closes all listeners, and the connections that were accepted without a place.
    pub(super) fn close(&mut self) {
        self.doors.clear();
        self.listeners = Listeners::new(Vec::new(), false);
        self.waiting.clear();
        self.paused_until = None;
    }
}
