//! The way of connections from one driver to another: each loop has an inbox, which its wake-up
//! call announces.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Shared;
use super::handover::{Inbox, Put};
use crate::engine::{Handed, Heir};

/// The inboxes of the loops of one engine.
pub(crate) struct Inboxes {
    of_loops: Vec<Inbox<Handed>>,
    /// The loops that take connections of other engines.
    pub(super) takers: Vec<usize>,
    /// The number of connections that came from other engines.
    taken: AtomicUsize,
}

impl Inboxes {
    /// Inboxes for so many loops, none of which takes connections of other engines.
    pub(super) fn new(loops: usize) -> Self {
        let of_loops = std::iter::repeat_with(Inbox::new).take(loops).collect();
        Self { of_loops, takers: Vec::new(), taken: AtomicUsize::new(0) }
    }

    /// Takes what has come for a loop.
    pub(crate) fn take(&self, index: usize) -> Vec<Handed> {
        self.of_loops[index].take()
    }

    /// Puts back what a loop has no room for yet.
    pub(crate) fn put_back(&self, index: usize, handed: impl Iterator<Item = Handed>) {
        self.of_loops[index].put_back(handed);
    }

    /// Closes the inbox of a loop unless something is in it. Returns whether it is closed.
    pub(crate) fn close_if_empty(&self, index: usize) -> bool {
        self.of_loops[index].close_if_empty()
    }
}

impl Shared {
    /// Hands a connection to one of the loops. Returns false, and does not call `release`, if that
    /// takes no more.
    pub(crate) fn hand_to(&self, index: usize, release: impl FnOnce() -> Handed) -> bool {
        let put = self.inboxes.of_loops[index].put(release);
        if put == Put::First {
            self.wakes[index].notify();
        }
        put != Put::Refused
    }

    /// Closes the connections that are on their way to a loop which has failed for good.
    pub(super) fn close_inbox(&self, index: usize) {
        let waiting = self.inboxes.of_loops[index].close();
        self.open.fetch_sub(waiting.len(), Ordering::Relaxed);
    }
}

/// How many connections may be on their way to a loop: as many as it takes in within a millisecond
/// or two, if each of them costs a thread.
const ROOM: usize = 32;

impl Heir for Shared {
    fn has_room(&self) -> bool {
        let Inboxes { takers, of_loops, .. } = &self.inboxes;
        takers.iter().any(|taker| of_loops[*taker].has_room(ROOM))
    }

    fn is_full(&self) -> bool {
        Self::is_full(self)
    }

    /// The loops take connections in turn.
    fn take(&self, release: &mut dyn FnMut() -> Handed) -> bool {
        let Inboxes { takers, taken, .. } = &self.inboxes;
        let first = taken.fetch_add(1, Ordering::Relaxed);
        let taker = |index: usize| takers[first.wrapping_add(index) % takers.len()];
        (0..takers.len()).any(|index| self.hand_to(taker(index), &mut *release))
    }
}
