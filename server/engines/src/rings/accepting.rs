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
    ring_listeners: Vec<RingListener>,
    /// Connections that were accepted when there was no place left.
    pub(super) waiting: VecDeque<Descriptor>,
    paused_until: Option<Tick>,
    /// A connection that was closed for its descriptor, which its operations may still hold.
    leaving: Weak<Descriptor>,
}

/// A listener, as the ring uses it.
struct RingListener {
    listener: Rc<Descriptor>,
    accepting: Option<(Operation, AcceptMode)>,
}

/// How many connections an accept is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AcceptMode {
    One,
    All,
    /// The accept was cancelled.
    Cancelled,
}

impl Accepting {
    pub(super) fn new(sockets: Vec<OwnedFd>) -> io::Result<Self> {
        let listeners = Listeners::new(sockets, false); // accepts in a ring are exclusive anyway
        let ring_listener = |listener: OwnedFd| RingListener {
            listener: Rc::new(listener.into()),
            accepting: None,
        };
        Ok(Self {
            ring_listeners: listeners.copies()?.into_iter().map(ring_listener).collect(),
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
        for (index, ring_listener) in self.ring_listeners.iter_mut().enumerate() {
            match &mut ring_listener.accepting {
                None if is_ready => {
                    let key = LISTENER_KEYS + index as u64;
                    let operation = ring.accept(key, &ring_listener.listener, many);
                    ring_listener.accepting =
                        Some((operation, if many { AcceptMode::All } else { AcceptMode::One }));
                }
                Some((operation, mode @ AcceptMode::All)) if !many || !is_idle => {
                    *mode = AcceptMode::Cancelled;
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
        if let Some(ring_listener) = self.ring_listeners.get_mut(index) {
            ring_listener.accepting = None;
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

    /// Pauses until then.
    pub(super) fn rest(&mut self, until: Tick) {
        self.paused_until = Some(until);
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
        for ring_listener in &mut self.ring_listeners {
            if let Some((operation, mode)) = &mut ring_listener.accepting
                && *mode != AcceptMode::Cancelled
            {
                *mode = AcceptMode::Cancelled;
                ring.cancel(*operation);
            }
        }
        self.ring_listeners.iter().all(|ring_listener| ring_listener.accepting.is_none())
    }

    /// Closes all listeners, and the connections that were accepted without a place.
    pub(super) fn close(&mut self) {
        self.ring_listeners.clear();
        self.listeners = Listeners::new(Vec::new(), false);
        self.waiting.clear();
        self.paused_until = None;
    }
}
