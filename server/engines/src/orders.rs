//! Orders: issued to an engine, and passed on by it to its loops and processes.

use std::borrow::Borrow;
use std::sync::atomic::{AtomicU64, Ordering};

/// An order to an engine. Orders are issued in the order of the variants, of which any may be left
/// out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Begin to accept. What is started accepts nothing before: all others may have to be ready.
    Begin,
    /// Give all connections to another engine, which accepts from the same listeners; or end each
    /// with its next response, if there is no other.
    Leave,
    /// Stop accepting. Connections that wait in a listener's queue are accepted first: closing the
    /// listener would reset them.
    StopAccepting,
    /// Have every connection finish the response under way and then close.
    Drain,
    /// Close every connection now.
    Abort,
}

impl Order {
    /// The byte that stands for the order on a socket between processes.
    #[must_use]
    pub fn byte(self) -> u8 {
        match self {
            Self::Begin => b'b',
            Self::Leave => b'l',
            Self::StopAccepting => b's',
            Self::Drain => b'd',
            Self::Abort => b'a',
        }
    }

    /// The order that this byte stands for, if any.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        let all = [Self::Begin, Self::Leave, Self::StopAccepting, Self::Drain, Self::Abort];
        all.into_iter().find(|order| order.byte() == byte)
    }

    /// Whether its recipient ends after it.
    #[must_use]
    pub fn is_to_end(self) -> bool {
        !matches!(self, Self::Begin | Self::StopAccepting)
    }

    /// The bit that stands for the order in [`Orders`].
    fn bit(self) -> u64 {
        1 << self as u64
    }
}

/// In the cell, above the bits of the orders, is the number of those who have left.
const ONE_LEFT: u64 = 1 << 32;

/// The orders that were issued: in a cell of their own, or in one that processes share. Any thread
/// may issue orders; each loop polls them.
#[derive(Clone, Debug, Default)]
pub struct Orders<Cell = AtomicU64>(pub(crate) Cell);

impl<Cell: Borrow<AtomicU64>> Orders<Cell> {
    /// Issues an order, which cannot be taken back.
    pub fn issue(&self, order: Order) {
        self.0.borrow().fetch_or(order.bit(), Ordering::SeqCst);
    }

    /// Whether an order was issued.
    #[inline]
    pub fn is_issued(&self, order: Order) -> bool {
        self.0.borrow().load(Ordering::SeqCst) & order.bit() != 0
    }

    /// Notes that one of those who carry out the order to leave has done so as far as it can be
    /// done at once: it accepts no more.
    pub(crate) fn note_left(&self) {
        self.0.borrow().fetch_add(ONE_LEFT, Ordering::SeqCst);
    }

    /// The number of those who accept no more since the order to leave.
    pub(crate) fn left(&self) -> usize {
        (self.0.borrow().load(Ordering::SeqCst) / ONE_LEFT) as usize
    }

    /// Whether any order was issued but the one to begin.
    #[inline]
    pub(crate) fn is_any_issued(&self) -> bool {
        self.0.borrow().load(Ordering::SeqCst) & !Order::Begin.bit() != 0
    }

    /// Whether no connection is to stay: they go to another engine, or end.
    #[inline]
    pub fn is_ending(&self) -> bool {
        let ending = Order::Leave.bit() | Order::Drain.bit() | Order::Abort.bit();
        self.0.borrow().load(Ordering::SeqCst) & ending != 0
    }
}
