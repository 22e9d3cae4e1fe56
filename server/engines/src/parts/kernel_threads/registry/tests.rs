//! Which connections may be closed from outside, in which order, and how workers are lent.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use session::Limits;

use super::*;
use crate::engine::ConnectionLimit;
use crate::idle;
use crate::parts::applications::call_pool::Bounds;
use crate::parts::loops::cpu_placement::CpuPlacement;

/// A registry of at most `connections_max` connections, the only one of its engine.
pub(crate) fn registry(connections_max: usize) -> Registry {
    let site = idle::directory_site("/");
    let runner = Arc::new(Runner::new(Arc::clone(&site), 0).unwrap());
    let make = idle::maker(site, Limits::default());
    let more: MakeWorker = Arc::new(move || make(None, Arc::default()));
    let loop_context = LoopContext {
        runner,
        shared: Arc::new(Shared::new(1, ConnectionLimit::new(usize::MAX)).unwrap()),
        index: 0,
        placement: CpuPlacement::default(),
        sendfile: SendfileMode::Blocking,
        exclusive_wakeups: false,
        knobs: crate::ENGINES[0].default_knobs(),
        start_helper: crate::engine::no_helper_processes(),
    };
    let bounds = Bounds::of_threads(connections_max, &ConnectionLimit::new(usize::MAX), false);
    let calls = CallPool::new(&[], 0, bounds, None);
    Registry::new(&loop_context, Vec::new(), more, Arc::default(), connections_max, calls)
}

/// A connection in the registry, and its client.
pub(crate) fn admit(registry: &Registry) -> (Arrival, UnixStream) {
    let (ours, client) = UnixStream::pair().unwrap();
    (registry.admit(OwnedFd::from(ours), SocketAddr::from(([127, 0, 0, 1], 1))), client)
}

fn open(registry: &Registry) -> u64 {
    lock(&registry.entries).counters.connections_open.get()
}

#[test]
fn the_connection_that_has_rested_longest_is_closed_first_and_a_busy_one_stays() {
    let registry = registry(4);
    let (mut arrivals, _clients): (Vec<Arrival>, Vec<UnixStream>) =
        (0..4).map(|_| admit(&registry)).unzip();
    assert!(registry.is_full());
    assert!(!registry.evict(), "no connection rests");
    for (arrival, at) in arrivals.iter().zip([30, 10, 20, 40]) {
        arrival.entry.rest(Tick(at));
    }
    assert!(arrivals[2].entry.resume(), "the third is busy again");
    assert!(registry.evict());
    assert!(!arrivals[1].entry.resume(), "the second had rested longest");
    assert!(registry.evict());
    assert!(!arrivals[0].entry.resume(), "then the first");
    arrivals[2].entry.rest(Tick(50));
    assert!(registry.evict() && registry.evict() && !registry.evict());
    assert_eq!((open(&registry), registry.shared.open.load(Ordering::Relaxed)), (0, 0));
    arrivals.drain(..).for_each(|arrival| registry.leave(arrival));
    assert_eq!((open(&registry), registry.shared.open.load(Ordering::Relaxed)), (0, 0));
    assert_eq!(lock(&registry.entries).counters.connections_evicted.get(), 4);
}

/// A connection whose request has arrived does not rest, even if its thread has not had a CPU
/// since.
#[test]
fn a_connection_with_a_request_does_not_rest() {
    let registry = registry(4);
    let (first, mut client) = admit(&registry);
    let (second, _client) = admit(&registry);
    first.entry.rest(Tick(10));
    second.entry.rest(Tick(20));
    client.write_all(b"GET").unwrap();
    assert!(registry.evict());
    assert!(!second.entry.resume(), "the second has no request");
    assert!(!registry.evict(), "the first has one");
    assert!(first.entry.resume());
}

/// The thread of a connection that is closed from outside may have received a request in that very
/// moment.
#[test]
fn a_connection_that_was_closed_may_still_answer() {
    let registry = registry(4);
    let (arrival, mut client) = admit(&registry);
    arrival.entry.rest(Tick(10));
    assert!(registry.evict());
    assert_eq!(os::send::send(arrival.entry.socket(), b"last words", false).unwrap(), 10);
    registry.leave(arrival);
    let mut received = String::new();
    client.read_to_string(&mut received).unwrap();
    assert_eq!(received, "last words");
}

#[test]
fn a_slot_is_used_again_and_no_connection_is_taken_for_another() {
    let registry = registry(4);
    let (first, _client) = admit(&registry);
    first.entry.rest(Tick(10));
    assert!(registry.evict());
    assert_eq!(open(&registry), 0, "there is room at once");
    let (second, _client) = admit(&registry);
    let slot = first.slot;
    assert_ne!(slot, second.slot, "its thread has it still");
    registry.leave(first);
    assert_eq!(open(&registry), 1, "the one that was taken is not counted twice");
    let (third, _client) = admit(&registry);
    assert_eq!(slot, third.slot);
    registry.leave(second);
    registry.leave(third);
    assert_eq!(open(&registry), 0);
}

#[test]
fn of_many_that_rest_each_is_closed_in_its_order() {
    let registry = registry(4);
    let many: Vec<_> = (0..200).map(|_| admit(&registry)).collect();
    for (at, (arrival, _)) in many.iter().enumerate() {
        arrival.entry.rest(Tick((at as u64 * 77) % 200 + 1));
    }
    let mut order: Vec<usize> = (0..200).collect();
    order.sort_by_key(|at| (at * 77) % 200);
    for at in order {
        assert!(registry.evict());
        assert_eq!(many[at].0.entry.rests_since.load(Ordering::Relaxed), TAKEN, "{at}");
    }
}

#[test]
fn workers_are_lent_and_returned() {
    let registry = registry(4);
    let (one, other) = (registry.take_worker(), registry.take_worker());
    registry.return_worker(one);
    registry.return_worker(other);
    assert_eq!(registry.workers_spare(), 2);
    registry.do_housekeeping();
    drop(registry.take_worker());
    assert_eq!(registry.workers_spare(), 1, "the one that was dropped is gone");
}
