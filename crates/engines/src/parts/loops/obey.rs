//! How a loop does what the engine was told to do.

use crate::orders::{Order, Orders};

/// How far one loop has come.
#[derive(Debug, Default)]
pub(crate) struct Obeyed {
    /// Whether the loop accepts no more.
    pub(crate) is_closed: bool,
    /// Whether the loop's connections end after the response under way.
    pub(crate) is_draining: bool,
}

/// A loop that obeys.
pub(crate) trait Obey {
    fn orders(&self) -> &Orders;

    fn obeyed(&mut self) -> &mut Obeyed;

    /// Empties the queues of its listeners and closes them. False if it has to go on in the next
    /// turn.
    fn stop_accepting(&mut self) -> bool;

    /// Has every connection end after the response under way. False if it is not time yet.
    fn drain(&mut self) -> bool;

    /// Ends every connection. Called in each turn: some may have come since.
    fn abort(&mut self);
}

/// Does what was ordered and is not done yet; to be called in each turn of a loop.
#[inline]
pub(crate) fn obey<L: Obey>(this: &mut L) {
    if this.orders().are_given() {
        obey_given(this);
    }
}

#[cold]
fn obey_given<L: Obey>(this: &mut L) {
    if this.orders().is_given(Order::StopAccepting) && !this.obeyed().is_closed {
        this.obeyed().is_closed = this.stop_accepting();
    }
    if this.orders().is_given(Order::Drain) && !this.obeyed().is_draining {
        this.obeyed().is_draining = this.drain();
    }
    if this.orders().is_given(Order::Abort) {
        this.abort();
    }
}
