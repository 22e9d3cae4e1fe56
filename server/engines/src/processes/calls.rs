//! Calls of applications in processes: the places that they share, and the master's orders, which
//! a process hears while its client waits for an application.
//!
//! The places in use stand on the board, in the row of each process: the master clears the row of a
//! process that ends, so that a process which is killed keeps no place.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use os::signals::SignalDescriptor;

use super::board::{Board, CallState, ProcessRow};
use crate::orders::Order;
use crate::parts::applications::call_pool::SharedPlaces;
use crate::parts::kernel_threads::registry::{Registry, Summons};

/// The places of all processes of a master, as one of them takes them.
pub(super) struct Places {
    pub(super) board: Board,
    pub(super) row: ProcessRow,
}

impl Places {
    /// The number of processes whose call of an application is in such a state.
    fn count(&self, application: usize, is_counted: impl Fn(CallState) -> bool) -> u64 {
        let rows = (0..self.board.rows()).map(|index| self.board.row(index));
        rows.filter(|row| is_counted(row.call(application))).count() as u64
    }
}

impl SharedPlaces for Places {
    /// Takes a place and counts then. Of two processes that take the last place at once both may
    /// give it back, but never do both keep it.
    fn take(&self, application: usize, in_flight_max: u64) -> bool {
        let before = self.row.call(application);
        self.row.set_call(application, CallState::InFlight);
        let has_place =
            self.count(application, |state| state == CallState::InFlight) <= in_flight_max;
        if !has_place {
            self.row.set_call(application, before);
        }
        has_place
    }

    fn wait(&self, application: usize, waiting_max: u64, calls_max: u64) -> bool {
        self.row.set_call(application, CallState::Waiting);
        let may_wait = self.count(application, |state| state == CallState::Waiting) <= waiting_max
            && self.count(application, |state| state != CallState::None) <= calls_max;
        if !may_wait {
            self.leave();
        }
        may_wait
    }

    fn leave(&self) {
        self.row.set_call(0, CallState::None);
    }
}

/// The master's signals, and the board on which its orders stand.
pub(super) struct MasterCalls {
    pub(super) signals: Arc<SignalDescriptor>,
    pub(super) board: Board,
    /// Whether the master has called while the connection waited for an application.
    pub(super) is_called: Arc<AtomicBool>,
}

impl Summons for MasterCalls {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }

    fn heed(&self, registry: &Registry) {
        while self.signals.read().is_some() {
            self.is_called.store(true, Ordering::Relaxed);
        }
        if self.board.orders.is_issued(Order::Drain) {
            registry.shared.orders.issue(Order::Drain);
        }
        if self.board.orders.is_issued(Order::Abort) {
            registry.shared.orders.issue(Order::Abort);
            registry.cut_off();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_processes_have_a_place_than_may() {
        let board = Board::new(4).unwrap();
        let places: Vec<Places> =
            (0..4).map(|index| Places { board: board.clone(), row: board.row(index) }).collect();
        assert!(places[0].take(0, 1) && places[1].take(1, 1));
        assert!(!places[2].take(0, 1));
        assert!(places[2].wait(0, 1, 2) && !places[3].wait(0, 1, 4) && !places[3].wait(0, 2, 2));
        assert_eq!(places[3].row.call(0), CallState::None);
        assert!(!places[2].take(0, 1) && places[2].row.call(0) == CallState::Waiting);
        // The row of a process that was killed is cleared, and begins anew.
        board.row(0).set_call(0, CallState::None);
        assert!(places[2].take(0, 1));
        places[2].leave();
        assert!(places[3].take(0, 1));
    }
}
