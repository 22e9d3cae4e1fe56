//! The queues in the orders in which threads can run: the same file, made with loom's locks.

use std::time::Duration;

use loom::sync::Arc;
use loom::thread;

use self::queue::{Helpers, Inbox, Queue, Sleep, Taken};

mod sync {
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
}

#[path = "../queue.rs"]
#[allow(clippy::duplicate_mod, reason = "once with the real locks and once with the model's")]
#[expect(dead_code, reason = "figures are not part of the model")]
mod queue;

/// Both threads run at the same time, and whatever there is is divided.
const HELPERS: Helpers = Helpers { max: 1, part_min: 1 };

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
        let queue = Arc::new(Queue::new(HELPERS));
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
        let queue = Arc::new(Queue::new(HELPERS));
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
        let queue = Arc::new(Queue::new(HELPERS));
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

/// What an inbox's owner sleeps on, as it sleeps on a descriptor.
#[derive(Default)]
struct Bell {
    is_rung: sync::Mutex<bool>,
    rings: sync::Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.is_rung.lock().unwrap() = true;
        self.rings.notify_one();
    }

    fn wait(&self) {
        let mut is_rung = self.is_rung.lock().unwrap();
        while !*is_rung {
            is_rung = self.rings.wait(is_rung).unwrap();
        }
        *is_rung = false;
    }
}

/// Whatever is put in is found, though the bell is rung only if somebody sleeps who is to be woken
/// for it. Its owner sleeps and looks until it has `until` of what wakes it; two bring something.
/// Then it looks once more, as it does when anything else wakes it.
fn finds_all(sleep: Sleep, are_urgent: [bool; 2], until: usize) {
    check(move || {
        let (inbox, bell) = (Arc::new(Inbox::new()), Arc::new(Bell::default()));
        let givers = are_urgent.map(|is_urgent| {
            let (inbox, bell) = (Arc::clone(&inbox), Arc::clone(&bell));
            thread::spawn(move || {
                if inbox.push(&mut vec![is_urgent], is_urgent) {
                    bell.ring();
                }
            })
        });
        let mut all = Vec::new();
        let look = |all: &mut Vec<bool>| {
            let mut batch = Vec::new();
            inbox.take(&mut batch);
            all.append(&mut batch);
        };
        while all.iter().filter(|&&is_urgent| is_urgent || sleep == Sleep::ForAll).count() < until {
            if inbox.may_sleep(sleep) {
                bell.wait();
            }
            look(&mut all);
        }
        givers.into_iter().for_each(|giver| giver.join().unwrap());
        look(&mut all);
        all.sort_unstable();
        assert_eq!(all, are_urgent);
    });
}

#[test]
fn an_inbox_is_emptied_though_the_bell_rings_seldom() {
    finds_all(Sleep::ForAll, [false, false], 2);
    finds_all(Sleep::ForUrgent, [true, true], 2);
}

/// What has time does not hide what has none, whichever comes first.
#[test]
fn who_sleeps_for_what_is_urgent_finds_it() {
    finds_all(Sleep::ForUrgent, [false, true], 1);
}
