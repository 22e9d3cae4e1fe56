//! Who has a connection while engines come and go, in all orders in which threads can run: compiles
//! `handover.rs` with loom's locks.

use std::sync::PoisonError;

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use self::handover::{Inbox, Put};

mod sync {
    pub(super) use std::sync::PoisonError;

    pub(super) use loom::sync::{Mutex, MutexGuard};
}

#[path = "../handover.rs"]
#[allow(clippy::duplicate_mod, reason = "once with the real locks and once with the model's")]
#[expect(dead_code, reason = "a loop that fails is not part of the model")]
mod handover;

/// A connection, by its number.
type Connection = u32;

/// An engine of one loop.
struct Engine {
    inbox: Inbox<Connection>,
    /// The heir's place among the engines, with a number that grows with each order to leave; the
    /// place is none if no engine takes the connections.
    order: Mutex<(u32, Option<usize>)>,
    is_called: Mutex<bool>,
    called: Condvar,
}

impl Engine {
    fn new() -> Self {
        let (order, is_called) = (Mutex::new((0, None)), Mutex::new(false));
        Self { inbox: Inbox::new(), order, is_called, called: Condvar::new() }
    }

    fn call(&self) {
        *self.is_called.lock().unwrap() = true;
        self.called.notify_one();
    }

    fn leave(&self, heir: Option<usize>) {
        let mut order = self.order.lock().unwrap();
        *order = (order.0 + 1, heir);
        drop(order);
        self.call();
    }

    /// Works until it has left, or has an order after which its connections stay with it; then
    /// `last` is the number of that order. Returns those that it has at the end.
    fn work(&self, engines: &[Self], mut own: Vec<Connection>, last: u32) -> Vec<Connection> {
        loop {
            own.extend(self.inbox.take());
            let (number, heir) = *self.order.lock().unwrap();
            if let Some(heir) = heir {
                let heir = &engines[heir];
                own.retain(|connection| match heir.inbox.put(|| *connection) {
                    Put::Refused => true,
                    Put::First => {
                        heir.call();
                        false
                    }
                    Put::Next => false,
                });
            }
            if number == last && (own.is_empty() || heir.is_none()) && self.inbox.close_if_empty() {
                return own;
            }
            let mut is_called = self.is_called.lock().unwrap_or_else(PoisonError::into_inner);
            while number != last && !*is_called {
                is_called = self.called.wait(is_called).unwrap();
            }
            *is_called = false;
        }
    }
}

/// The first engine has two connections and leaves to the second, which leaves as well meanwhile:
/// `heir` says whether there is a third.
fn two_changes(heir: Option<usize>) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let engines: Arc<Vec<Engine>> = Arc::new((0..3).map(|_| Engine::new()).collect());
        let start = |index: usize, own: Vec<Connection>, last: u32| {
            let engines = Arc::clone(&engines);
            thread::spawn(move || engines[index].work(&engines, own, last))
        };
        let (first, second) = (start(0, vec![1, 2], 2), start(1, Vec::new(), 1));
        engines[0].leave(Some(1));
        [0, 1].iter().for_each(|index| engines[*index].leave(heir));
        let mut all = [first.join().unwrap(), second.join().unwrap()].concat();
        assert!(heir.is_none() || all.is_empty(), "there was an heir to take them");
        all.extend(engines[2].inbox.take());
        all.sort_unstable();
        assert_eq!(all, [1, 2], "each is somewhere, and once");
    });
}

#[test]
fn each_connection_has_one_owner_when_its_heir_leaves() {
    two_changes(Some(2));
}

#[test]
fn connections_that_can_go_nowhere_stay_with_one_engine() {
    two_changes(None);
}
