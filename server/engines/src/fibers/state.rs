//! The scheduling state of a fiber: whether it rests, is ready or runs, and the events that it has
//! not taken yet. One word, so that events, timers and orders can come from any thread at any time
//! without a lock, wake a fiber at most once, and never get lost.
//!
//! The thread that turns a resting fiber into a ready one owns it until it rests again.

#[cfg(test)]
use shuttle::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(test))]
use std::sync::atomic::{AtomicU64, Ordering};

use os::epoll::Event;
use session::Tick;

/// No deadline, or no entry in the wheel.
pub(super) const NEVER: Tick = Tick(u64::MAX);

/// Events for a fiber: a union of the constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FiberEvents(u64);

impl FiberEvents {
    pub(super) const NONE: Self = Self(0);
    /// The fiber's socket has input.
    pub(super) const READABLE: Self = Self(1 << 8);
    /// The fiber's socket has room.
    pub(super) const WRITABLE: Self = Self(1 << 9);
    /// The fiber's peer has shut its side down.
    pub(super) const HUNG_UP: Self = Self(1 << 10);
    /// The fiber's deadline may have passed.
    pub(super) const EXPIRED: Self = Self(1 << 11);
    /// The fiber, which was idle, is to make room for other connections.
    pub(super) const EVICTED: Self = Self(1 << 12);
    /// The fiber is to finish the response under way, and end.
    pub(super) const DRAIN: Self = Self(1 << 13);
    /// The fiber is to end now.
    pub(super) const ABORT: Self = Self(1 << 14);
    /// The socket of the fiber's application has input.
    pub(super) const CALL_READABLE: Self = Self(1 << 15);
    /// The socket of the fiber's application has room.
    pub(super) const CALL_WRITABLE: Self = Self(1 << 16);
    /// The fiber's application has shut its side down.
    pub(super) const CALL_HUNG_UP: Self = Self(1 << 17);
    /// The fiber's call, which waited for a place, has one.
    pub(super) const PLACE: Self = Self(1 << 18);
    /// The fiber's connection is to go to another engine, as soon as it can be moved.
    pub(super) const LEAVE: Self = Self(1 << 19);
    /// All events of a call.
    pub(super) const OF_CALL: Self = Self(0xf << 15);

    const ALL: u64 = 0xfff << 8;

    /// What an event of the fiber's socket says.
    #[inline]
    pub(super) fn from_event(event: Event) -> Self {
        let mut events = Self::NONE;
        if event.readable {
            events = events.with(Self::READABLE);
        }
        if event.writable {
            events = events.with(Self::WRITABLE);
        }
        if event.hangup || event.error {
            events = events.with(Self::HUNG_UP);
        }
        events
    }

    pub(super) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// These events, which both sockets have, of the application's socket.
    pub(super) fn of_call(self) -> Self {
        Self(self.0 << 7)
    }

    #[must_use]
    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The bit for a slot that has a fiber.
const LIVES: u64 = 1;
/// The bit for a fiber that is ready or runs, and so has an owner.
const OWNED: u64 = 2;
/// The bit for a fiber that rests between two requests, and may be evicted.
const IDLE: u64 = 4;

/// The word: a generation above, the state below.
pub(super) struct FiberState(AtomicU64);

impl FiberState {
    /// The state of a slot without a fiber.
    pub(super) fn vacant() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Puts a fiber, owned by the caller, into the slot. Returns its generation.
    pub(super) fn occupy(&self) -> u32 {
        let word = self.0.load(Ordering::Acquire);
        debug_assert_eq!(word & LIVES, 0, "a slot is given to one fiber at a time");
        self.0.store(word | LIVES | OWNED, Ordering::Release);
        generation(word)
    }

    /// Removes the fiber, owned by the caller, for good. Later events for it have no effect.
    pub(super) fn vacate(&self) {
        let word = self.0.load(Ordering::Acquire);
        // The last generation is left out: keys of listeners and wake-ups begin there.
        let next = (generation(word) + 1) % (u32::MAX - 1);
        self.0.store(u64::from(next) << 32, Ordering::Release);
    }

    pub(super) fn generation(&self) -> u32 {
        generation(self.0.load(Ordering::Acquire))
    }

    /// Adds events for the fiber of that generation. Returns whether it rested: then the caller
    /// owns it now and has to run it.
    #[inline]
    pub(super) fn notify(&self, expected: u32, events: FiberEvents) -> bool {
        self.change(|word| {
            let is_there = word & LIVES != 0 && generation(word) == expected;
            is_there.then_some(word | events.0 | OWNED)
        })
        .is_some_and(|before| before & OWNED == 0)
    }

    /// Adds events for the fiber in this slot, of any generation; does nothing if the slot is
    /// vacant. Returns whether the fiber rested: then the caller owns it now and has to run it.
    pub(super) fn notify_any(&self, events: FiberEvents) -> bool {
        self.change(|word| (word & LIVES != 0).then_some(word | events.0 | OWNED))
            .is_some_and(|before| before & OWNED == 0)
    }

    /// Evicts the fiber of that generation if it is idle. Returns whether it was: then the caller
    /// owns it now and has to run it.
    pub(super) fn evict(&self, expected: u32) -> bool {
        self.change(|word| {
            let rests = word & (LIVES | OWNED | IDLE) == LIVES | IDLE;
            let is_idle = rests && generation(word) == expected;
            is_idle.then_some(word | OWNED | FiberEvents::EVICTED.0)
        })
        .is_some()
    }

    /// Takes the events. Only for the fiber's owner.
    #[inline]
    pub(super) fn take_events(&self) -> FiberEvents {
        FiberEvents(self.0.fetch_and(!FiberEvents::ALL, Ordering::AcqRel) & FiberEvents::ALL)
    }

    /// Lets the fiber rest. Only for its owner. Returns false if there are events: then the caller
    /// still owns it.
    #[inline]
    #[must_use]
    pub(super) fn rest(&self, is_idle: bool) -> bool {
        self.change(|word| {
            let rested = if is_idle { word | IDLE } else { word & !IDLE };
            (word & FiberEvents::ALL == 0).then_some(rested & !OWNED)
        })
        .is_some()
    }

    /// Changes the word to the value that `to` returns, if any, and returns the former value.
    #[inline]
    fn change(&self, to: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, to).ok()
    }
}

fn generation(word: u64) -> u32 {
    (word >> 32) as u32
}
