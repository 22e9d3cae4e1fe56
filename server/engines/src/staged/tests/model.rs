//! Tests of the queues in all orders in which threads can run: compiles `queue.rs` with loom's
//! locks.

use std::time::Duration;

use loom::sync::Arc;
use loom::thread;

use self::queue::{Division, Inbox, Queue, Sleep, Taken};

mod sync {
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
}

#[path = "../queue.rs"]
#[allow(clippy::duplicate_mod, reason = "once with the real locks and once with the model's")]
#[expect(dead_code, reason = "figures are not part of the model")]
mod queue;

/// Settings with which both threads run at the same time, and any number of items is divided.
const DIVISION: Division = Division { max: 1, part_min: 1 };

/// Runs a scenario in all orders in which threads are interrupted at most twice: almost every bug
/// needs no more, and three interruptions already take half a minute.
fn check(scenario: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(scenario);
}

/// Takes until the queue is closed.
fn take_all(queue: &Queue<u32>, count: usize, timeout: Option<Duration>) -> Vec<u32> {
    let mut all = Vec::new();
    loop {
        match queue.take(count, &mut all, timeout) {
            Taken::Closed => return all,
            Taken::Batch | Taken::Nudged | Taken::TimedOut => {}
        }
    }
}

/// Two threads sleep and take; items that are pushed meanwhile come out once, and the threads end.
#[test]
fn work_is_taken_once_and_never_left_lying() {
    check(|| {
        let queue = Arc::new(Queue::new(DIVISION));
        let takers: Vec<_> = (0..2)
            .map(|_| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || take_all(&queue, 1, None))
            })
            .collect();
        queue.push(&mut vec![1, 2]);
        queue.close();
        let mut all: Vec<u32> =
            takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect();
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
    });
}

/// A thread that takes only some of the work leaves the rest to one that sleeps: as no thread
/// closes the queue, one call too few would be a deadlock, which loom finds.
#[test]
fn remaining_items_wake_another_thread() {
    check(|| {
        let queue = Arc::new(Queue::new(DIVISION));
        let takers: Vec<_> = (0..2)
            .map(|_| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || {
                    let mut one = Vec::new();
                    assert_eq!(queue.take(1, &mut one, None), Taken::Batch);
                    one
                })
            })
            .collect();
        queue.push(&mut vec![1, 2]);
        let all: usize = takers.into_iter().map(|taker| taker.join().unwrap().len()).sum();
        assert_eq!(all, 2);
    });
}

/// Two threads push at the same time, to two that sleep or are about to.
#[test]
fn two_pushes_serve_two_takers() {
    check(|| {
        let queue = Arc::new(Queue::new(DIVISION));
        let spawn = |work: fn(&Queue<u32>)| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || work(&queue))
        };
        let take: fn(&Queue<u32>) =
            |queue| assert_eq!(queue.take(1, &mut Vec::new(), None), Taken::Batch);
        let others = [spawn(take), spawn(take), spawn(|queue| queue.push(&mut vec![1]))];
        queue.push(&mut vec![2]);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// A stand-in for the descriptor on which an inbox's owner sleeps.
#[derive(Default)]
struct ModelWake {
    is_notified: sync::Mutex<bool>,
    notified: sync::Condvar,
}

impl ModelWake {
    fn notify(&self) {
        *self.is_notified.lock().unwrap() = true;
        self.notified.notify_one();
    }

    fn wait(&self) {
        let mut is_notified = self.is_notified.lock().unwrap();
        while !*is_notified {
            is_notified = self.notified.wait(is_notified).unwrap();
        }
        *is_notified = false;
    }
}

/// Checks that the owner finds all items, though it is woken only if it sleeps and is to be woken
/// for the item. Two threads push one item each. The owner sleeps and takes until it has `until`
/// items of the kind that wakes it. Then it takes once more, as it does when anything else wakes
/// it.
fn finds_all(sleep: Sleep, are_urgent: [bool; 2], until: usize) {
    check(move || {
        let (inbox, wake) = (Arc::new(Inbox::new()), Arc::new(ModelWake::default()));
        let senders = are_urgent.map(|is_urgent| {
            let (inbox, wake) = (Arc::clone(&inbox), Arc::clone(&wake));
            thread::spawn(move || {
                if inbox.push(&mut vec![is_urgent], is_urgent) {
                    wake.notify();
                }
            })
        });
        let mut all = Vec::new();
        let take = |all: &mut Vec<bool>| {
            let mut batch = Vec::new();
            inbox.take(&mut batch);
            all.append(&mut batch);
        };
        while all.iter().filter(|&&is_urgent| is_urgent || sleep == Sleep::ForAll).count() < until {
            if inbox.may_sleep(sleep) {
                wake.wait();
            }
            take(&mut all);
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        take(&mut all);
        all.sort_unstable();
        assert_eq!(all, are_urgent);
    });
}

#[test]
fn an_inbox_is_emptied_though_its_owner_is_woken_seldom() {
    finds_all(Sleep::ForAll, [false, false], 2);
    finds_all(Sleep::ForUrgent, [true, true], 2);
}

/// An item that is not urgent does not hide an urgent one, whichever comes first.
#[test]
fn an_owner_that_sleeps_for_urgent_items_finds_them() {
    finds_all(Sleep::ForUrgent, [false, true], 1);
}
