//! Tests of the queues alone; `tests/model.rs` runs them in all orders of threads. Failures of
//! stages are tested in the crate's `tests/replacements/stages.rs`.

mod model;

use std::rc::Rc;
use std::time::Duration;

use super::queue::{Division, Figures, Inbox, Queue, Sleep, Taken};

/// The division for a thread that is alone: none runs beside the one that takes.
const ALONE: Division = Division { max: 0, part_min: 1 };

#[test]
fn batches_are_as_large_as_requested_and_in_order() {
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

/// Has `threads` sleeping threads take six items. Returns the number that each gets, in ascending
/// order.
fn divide_six(threads: usize, division: Division) -> Vec<usize> {
    let queue = Queue::new(division);
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

/// If one thread took all items, each would wait for the one before it while other threads have no
/// work. Where threads cannot run at the same time, dividing has only costs.
#[test]
fn work_is_divided_among_sleeping_threads_that_can_run() {
    assert_eq!(divide_six(3, Division { max: 7, part_min: 1 }), [2, 2, 2]);
    assert_eq!(divide_six(3, Division { max: 1, part_min: 1 }), [1, 2, 3]);
    assert_eq!(divide_six(3, Division { max: 7, part_min: 4 }), [0, 2, 4]);
    assert_eq!(divide_six(3, ALONE), [0, 0, 6]);
    assert_eq!(divide_six(1, Division { max: 7, part_min: 1 }), [6]);
}

#[test]
fn waiting_for_work_can_time_out() {
    let queue = Queue::<u32>::new(ALONE);
    let timeout = Some(Duration::from_millis(1));
    assert_eq!(queue.take(1, &mut Vec::new(), timeout), Taken::TimedOut);
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
fn an_inbox_wakes_only_an_owner_that_sleeps() {
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
fn an_inbox_does_not_wake_its_owner_for_items_that_are_not_urgent() {
    let inbox = Inbox::new();
    assert!(inbox.may_sleep(Sleep::ForUrgent));
    assert!(!inbox.push(&mut vec![1], false));
    assert!(!inbox.push(&mut vec![2], false), "it sleeps on");
    assert!(inbox.push(&mut vec![3], true));
    assert!(!inbox.may_sleep(Sleep::ForUrgent), "items that are not urgent are kept");
    let mut batch = Vec::new();
    inbox.take(&mut batch);
    assert_eq!(batch, [1, 2, 3]);
}

#[test]
fn items_in_a_closed_inbox_are_dropped() {
    let (inbox, item) = (Inbox::new(), Rc::new(()));
    let _ = inbox.push(&mut vec![Rc::clone(&item)], true);
    inbox.close();
    assert!(!inbox.push(&mut vec![Rc::clone(&item)], true), "no owner is woken");
    assert_eq!(Rc::strong_count(&item), 1);
    let queue = Queue::new(ALONE);
    queue.push(&mut vec![Rc::clone(&item)]);
    queue.clear();
    assert_eq!(Rc::strong_count(&item), 1);
}
