//! What an engine is told, and what it tells its loops and processes.

use std::borrow::Borrow;
use std::sync::atomic::{AtomicU64, Ordering};

/// What an engine is told, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Accept no more. Connections that wait in a listener's queue are accepted first: closing the
    /// listener would reset them.
    StopAccepting,
    /// Have every connection finish the response under way and then close.
    Drain,
    /// Close every connection now.
    Abort,
}

impl Order {
    /// The order as a process is told it over a socket.
    #[must_use]
    pub fn byte(self) -> u8 {
        match self {
            Self::StopAccepting => b's',
            Self::Drain => b'd',
            Self::Abort => b'a',
        }
    }

    /// The order that is told by this byte, if one is.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        let all = [Self::StopAccepting, Self::Drain, Self::Abort];
        all.into_iter().find(|order| order.byte() == byte)
    }

    /// The order among others in one number.
    fn bit(self) -> u64 {
        1 << self as u64
    }
}

/// The orders that have been given: in a cell of their own, or in one that processes share. Anybody
/// gives them, each loop looks for itself.
#[derive(Clone, Debug, Default)]
pub struct Orders<Cell = AtomicU64>(pub(crate) Cell);

impl<Cell: Borrow<AtomicU64>> Orders<Cell> {
    /// Gives an order, for good.
    pub fn give(&self, order: Order) {
        self.0.borrow().fetch_or(order.bit(), Ordering::SeqCst);
    }

    /// Whether an order was given.
    #[inline]
    pub fn is_given(&self, order: Order) -> bool {
        self.0.borrow().load(Ordering::SeqCst) & order.bit() != 0
    }

    /// Whether any order was given.
    #[inline]
    pub(crate) fn are_given(&self) -> bool {
        self.0.borrow().load(Ordering::SeqCst) != 0
    }

    /// Whether connections are to end: after the response under way, or now.
    #[inline]
    pub fn is_ending(&self) -> bool {
        self.0.borrow().load(Ordering::SeqCst) & (Order::Drain.bit() | Order::Abort.bit()) != 0
    }
}
