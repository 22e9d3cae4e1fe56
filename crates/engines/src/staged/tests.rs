//! The queues alone; in all orders of threads they are tried in `tests/model.rs`. Stages that fail
//! are in `tests/failures.rs`.

mod failures;
mod model;

use std::rc::Rc;
use std::time::Duration;

use super::queue::{Figures, Helpers, Inbox, Queue, Sleep, Taken};

/// No helpers: no thread runs beside the one that takes.
const ALONE: Helpers = Helpers { max: 0, part_min: 1 };

#[test]
fn batches_are_as_large_as_asked_and_in_order() {
    let queue = Queue::new(ALONE);
    queue.push(&mut vec![1, 2, 3]);
    queue.push(&mut vec![]);
    queue.push(&mut vec![4, 5]);
    let mut batch = Vec::new();
    assert_eq!(queue.take(4, &mut batch, None), Taken::Batch);
    assert_eq!(batch, [1, 2, 3, 4]);
    assert_eq!(queue.figures(), Figures { len: 1, longest: 5, batches: 1, taken: 4 });
    queue.close();
    batch.clear();
    assert_eq!(queue.take(4, &mut batch, None), Taken::Batch);
    assert_eq!(batch, [5]);
    assert_eq!(queue.take(4, &mut batch, None), Taken::Closed);
    queue.push(&mut vec![6]);
    assert_eq!(queue.take(4, &mut batch, None), Taken::Closed);
}

/// How many of six each of so many threads gets that sleep, the fewest first.
fn parts_of_six(threads: usize, helpers: Helpers) -> Vec<usize> {
    let queue = Queue::new(helpers);
    std::thread::scope(|scope| {
        let take = || {
            let mut batch = Vec::new();
            queue.take(64, &mut batch, None);
            batch.len()
        };
        let takers: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        while queue.sleepers() < threads {
            std::thread::yield_now();
        }
        queue.push(&mut vec![1, 2, 3, 4, 5, 6]);
        while queue.figures().len > 0 {
            std::thread::yield_now();
        }
        queue.close();
        let mut parts: Vec<usize> = takers.into_iter().map(|one| one.join().unwrap()).collect();
        parts.sort_unstable();
        parts
    })
}

/// A thread that took all would have each wait for the one before it, while others have nothing to
/// do. Where they cannot run at the same time, dividing only costs.
#[test]
fn work_is_divided_among_those_that_sleep_and_can_run() {
    assert_eq!(parts_of_six(3, Helpers { max: 7, part_min: 1 }), [2, 2, 2]);
    assert_eq!(parts_of_six(3, Helpers { max: 1, part_min: 1 }), [1, 2, 3]);
    assert_eq!(parts_of_six(3, Helpers { max: 7, part_min: 4 }), [0, 2, 4]);
    assert_eq!(parts_of_six(3, ALONE), [0, 0, 6]);
    assert_eq!(parts_of_six(1, Helpers { max: 7, part_min: 1 }), [6]);
}

#[test]
fn a_thread_that_waits_in_vain_is_told() {
    let queue = Queue::<u32>::new(ALONE);
    let patience = Some(Duration::from_millis(1));
    assert_eq!(queue.take(1, &mut Vec::new(), patience), Taken::TimedOut);
}

#[test]
fn sleepers_can_be_nudged() {
    let queue = Queue::<u32>::new(ALONE);
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| queue.take(1, &mut Vec::new(), None));
        while !sleeper.is_finished() {
            queue.nudge();
            std::thread::yield_now();
        }
        assert_eq!(sleeper.join().unwrap(), Taken::Nudged);
    });
}

#[test]
fn an_inbox_rings_only_for_those_who_sleep() {
    let inbox = Inbox::new();
    assert!(!inbox.push(&mut vec![1], true), "its owner has not gone to sleep yet");
    assert!(!inbox.may_sleep(Sleep::ForAll), "it is not empty");
    let mut batch = Vec::new();
    inbox.take(&mut batch);
    assert!(inbox.may_sleep(Sleep::ForAll));
    assert!(inbox.push(&mut vec![2], false), "the first wakes it");
    assert!(!inbox.push(&mut vec![3], true), "it is awake");
    batch.clear();
    inbox.take(&mut batch);
    assert_eq!(batch, [2, 3]);
    assert_eq!(inbox.figures(), Figures { len: 0, longest: 2, batches: 2, taken: 3 });
}

#[test]
fn an_inbox_lets_sleep_who_is_only_woken_for_what_is_urgent() {
    let inbox = Inbox::new();
    assert!(inbox.may_sleep(Sleep::ForUrgent));
    assert!(!inbox.push(&mut vec![1], false));
    assert!(!inbox.push(&mut vec![2], false), "it sleeps on");
    assert!(inbox.push(&mut vec![3], true));
    assert!(!inbox.may_sleep(Sleep::ForUrgent), "what is not urgent is not forgotten");
    let mut batch = Vec::new();
    inbox.take(&mut batch);
    assert_eq!(batch, [1, 2, 3]);
}

#[test]
fn what_is_in_a_closed_inbox_is_dropped() {
    let (inbox, item) = (Inbox::new(), Rc::new(()));
    let _ = inbox.push(&mut vec![Rc::clone(&item)], true);
    inbox.close();
    assert!(!inbox.push(&mut vec![Rc::clone(&item)], true), "nobody is woken");
    assert_eq!(Rc::strong_count(&item), 1);
    let queue = Queue::new(ALONE);
    queue.push(&mut vec![Rc::clone(&item)]);
    queue.clear();
    assert_eq!(Rc::strong_count(&item), 1);
}
