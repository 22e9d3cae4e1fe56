//! The queues in the orders in which threads can run: the same file, made with loom's locks.

use std::time::Duration;

use loom::sync::Arc;
use loom::thread;

use self::queue::{Inbox, Queue, Taken};

mod sync {
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
}

#[path = "../queue.rs"]
#[allow(clippy::duplicate_mod, reason = "once with the real locks and once with the model's")]
#[expect(dead_code, reason = "figures are not part of the model")]
mod queue;

/// All orders in which threads are interrupted at most twice: almost every bug needs no more, and
/// three interruptions already take half a minute.
fn check(scenario: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(scenario);
}

/// Takes until the queue is closed.
fn take_all(queue: &Queue<u32>, count: usize, patience: Option<Duration>) -> Vec<u32> {
    let mut all = Vec::new();
    loop {
        match queue.take(count, &mut all, patience) {
            Taken::Closed => return all,
            Taken::Batch | Taken::Nudged | Taken::TimedOut => {}
        }
    }
}

/// Two threads sleep and take; what is pushed while they do comes out once, and they end.
#[test]
fn work_is_taken_once_and_never_left_lying() {
    check(|| {
        let queue = Arc::new(Queue::new());
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

/// A thread that takes only some of the work leaves the rest to one that sleeps: with nobody to
/// close the queue, a call too few would be a deadlock, which loom finds.
#[test]
fn what_is_left_wakes_another() {
    check(|| {
        let queue = Arc::new(Queue::new());
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

/// Two that push at the same time, to two that sleep or are about to.
#[test]
fn two_pushes_serve_two_takers() {
    check(|| {
        let queue = Arc::new(Queue::new());
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

/// An inbox whose owner sleeps on a bell, as it sleeps on a descriptor: whatever is put in is
/// found, though the bell is rung only if somebody sleeps.
#[test]
fn an_inbox_is_emptied_though_the_bell_rings_seldom() {
    use sync::{Condvar, Mutex};
    check(|| {
        let inbox = Arc::new(Inbox::new());
        let bell = Arc::new((Mutex::new(false), Condvar::new()));
        let givers: Vec<_> = (0..2)
            .map(|item| {
                let (inbox, bell) = (Arc::clone(&inbox), Arc::clone(&bell));
                thread::spawn(move || {
                    if inbox.push(&mut vec![item]) {
                        *bell.0.lock().unwrap() = true;
                        bell.1.notify_one();
                    }
                })
            })
            .collect();
        let mut all = Vec::new();
        while all.len() < 2 {
            if inbox.may_sleep() {
                let mut rung = bell.0.lock().unwrap();
                while !*rung {
                    rung = bell.1.wait(rung).unwrap();
                }
                *rung = false;
            }
            let mut batch = Vec::new();
            inbox.take(&mut batch);
            all.extend(batch);
        }
        givers.into_iter().for_each(|giver| giver.join().unwrap());
        all.sort_unstable();
        assert_eq!(all, [0, 1]);
    });
}
