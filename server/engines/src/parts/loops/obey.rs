//! How a loop carries out the orders that were issued to the engine.

use std::borrow::Borrow;
use std::sync::atomic::AtomicU64;

use session::Tick;

use crate::orders::{Order, Orders};

/// How long a loop waits for room for its connections in another engine, in milliseconds.
pub(crate) const LEAVES_AGAIN_MS: u64 = 1;

/// The pause between two walks over all connections of a loop that leaves, in milliseconds, and how
/// many of them need one: 10,000 that cannot be moved take half a millisecond each time.
const WALKS_AGAIN_MS: u64 = 10;
const FEW_CONNECTIONS: usize = 64;

/// The orders that one loop has carried out.
#[derive(Debug, Default)]
pub(crate) struct Obeyed {
    /// Whether the loop accepts no more.
    pub(crate) is_closed: bool,
    /// Whether that has been noted after the order to leave.
    pub(crate) has_left: bool,
    /// Whether the loop's connections end after the response under way.
    pub(crate) is_draining: bool,
    /// When all connections are to be looked at again that may be movable by then.
    walks_again: Tick,
}

impl Obeyed {
    /// When a loop that leaves is to look at all its connections, of which there are so many; none
    /// if it is now.
    pub(crate) fn next_walk(&mut self, connections: usize, now: Tick) -> Option<Tick> {
        let is_early = now < self.walks_again && connections > FEW_CONNECTIONS;
        if !is_early {
            self.walks_again = now.plus_ms(WALKS_AGAIN_MS);
        }
        is_early.then_some(self.walks_again)
    }

    /// Notes that a walk ended early: others take no more connections for a moment.
    pub(crate) fn walk_is_not_over(&mut self) {
        self.walks_again = Tick::default();
    }
}

/// A loop that carries out orders, which are in a cell of its process or in one that processes
/// share.
pub(crate) trait Obey<Cell: Borrow<AtomicU64> = AtomicU64> {
    fn orders(&self) -> &Orders<Cell>;

    fn obeyed(&mut self) -> &mut Obeyed;

    /// Accepts no more, and gives each connection that can be moved to another engine; without one,
    /// has each end with its next response. Called in each turn: more of them may be movable then.
    fn leave(&mut self);

    /// Whether none of those that it directs accepts any more, after it has closed its listeners.
    fn have_others_left(&self) -> bool {
        true
    }

    /// Empties the queues of the loop's listeners and closes the listeners. Returns false if it has
    /// to go on in the next turn.
    fn stop_accepting(&mut self) -> bool;

    /// Has every connection end after the response under way. Returns false if it is too early.
    fn drain(&mut self) -> bool;

    /// Ends every connection. Called in each turn: connections may have come since.
    fn abort(&mut self);
}

/// Carries out the orders that were issued and are not carried out yet; to be called in each turn
/// of a loop.
#[inline]
pub(crate) fn obey<Cell: Borrow<AtomicU64>, L: Obey<Cell>>(this: &mut L) {
    if this.orders().is_any_issued() {
        obey_issued(this);
    }
}

#[cold]
fn obey_issued<Cell: Borrow<AtomicU64>, L: Obey<Cell>>(this: &mut L) {
    if this.orders().is_issued(Order::Leave) {
        this.leave();
        let has_left = this.obeyed().is_closed && this.have_others_left();
        if has_left && !std::mem::replace(&mut this.obeyed().has_left, true) {
            this.orders().note_left();
        }
    }
    if this.orders().is_issued(Order::StopAccepting) && !this.obeyed().is_closed {
        this.obeyed().is_closed = this.stop_accepting();
    }
    if this.orders().is_issued(Order::Drain) && !this.obeyed().is_draining {
        this.obeyed().is_draining = this.drain();
    }
    if this.orders().is_issued(Order::Abort) {
        this.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_connections_are_looked_at_now_and_then() {
        let mut obeyed = Obeyed::default();
        let at = |ms: u64| Tick(1).plus_ms(ms);
        let many = FEW_CONNECTIONS + 1;
        assert_eq!(obeyed.next_walk(many, at(0)), None, "the first time");
        assert_eq!(obeyed.next_walk(many, at(3)), Some(at(WALKS_AGAIN_MS)));
        assert_eq!(obeyed.next_walk(FEW_CONNECTIONS, at(3)), None, "they cost nothing");
        assert_eq!(obeyed.next_walk(many, at(WALKS_AGAIN_MS)), Some(at(3 + WALKS_AGAIN_MS)));
        assert_eq!(obeyed.next_walk(many, at(3 + WALKS_AGAIN_MS)), None);
        obeyed.walk_is_not_over();
        assert_eq!(obeyed.next_walk(many, at(4 + WALKS_AGAIN_MS)), None, "there may be room");
    }
}
