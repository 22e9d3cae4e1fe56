//! Who may be closed from outside, in which order, and what becomes of a worker.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use session::Limits;

use super::*;
use crate::{KnobValues, idle};

/// A house for at most `connections_max` connections, beside nobody.
pub(crate) fn house(connections_max: usize) -> House {
    let site = idle::site_of("/");
    let runner = Arc::new(Runner::new(Arc::clone(&site), 0).unwrap());
    let make = idle::maker(site, Limits::default());
    let more: MakeWorker = Arc::new(move || make(None, Arc::default()));
    let seat = Seat {
        runner,
        shared: Arc::new(Shared::new(1, usize::MAX).unwrap()),
        index: 0,
        sendfile: SendfileMode::Blocking,
        exclusive_wakeups: false,
        knobs: KnobValues::defaults(&crate::ENGINES[0]),
        start_helper: crate::no_helper_processes(),
    };
    House::new(&seat, Vec::new(), more, Arc::default(), connections_max)
}

/// A connection of the house, and its client.
pub(crate) fn admit(house: &House) -> (Arrival, UnixStream) {
    let (ours, client) = UnixStream::pair().unwrap();
    (house.admit(OwnedFd::from(ours), SocketAddr::from(([127, 0, 0, 1], 1))), client)
}

fn open(house: &House) -> u64 {
    house.guests().counters.connections_open.get()
}

#[test]
fn who_has_rested_longest_goes_first_and_who_is_busy_stays() {
    let house = house(4);
    let (mut arrivals, _clients): (Vec<Arrival>, Vec<UnixStream>) =
        (0..4).map(|_| admit(&house)).unzip();
    assert!(house.is_full());
    assert!(!house.evict(), "nobody rests");
    for (arrival, at) in arrivals.iter().zip([30, 10, 20, 40]) {
        arrival.guest.rest(Tick(at));
    }
    assert!(arrivals[2].guest.resume(), "the third is busy again");
    assert!(house.evict());
    assert!(!arrivals[1].guest.resume(), "the second had rested longest");
    assert!(house.evict());
    assert!(!arrivals[0].guest.resume(), "then the first");
    arrivals[2].guest.rest(Tick(50));
    assert!(house.evict() && house.evict() && !house.evict());
    assert_eq!((open(&house), house.shared.open.load(Ordering::Relaxed)), (0, 0));
    arrivals.drain(..).for_each(|arrival| house.leave(arrival));
    assert_eq!((open(&house), house.shared.open.load(Ordering::Relaxed)), (0, 0));
    assert_eq!(house.guests().counters.connections_evicted.get(), 4);
}

/// Its thread may not have had a CPU since.
#[test]
fn who_has_asked_does_not_rest() {
    let house = house(4);
    let (first, mut asks) = admit(&house);
    let (second, _client) = admit(&house);
    first.guest.rest(Tick(10));
    second.guest.rest(Tick(20));
    asks.write_all(b"GET").unwrap();
    assert!(house.evict());
    assert!(!second.guest.resume(), "the second has asked for nothing");
    assert!(!house.evict(), "the first has");
    assert!(first.guest.resume());
}

#[test]
fn a_place_is_used_again_and_nobody_is_taken_for_another() {
    let house = house(4);
    let (first, _client) = admit(&house);
    first.guest.rest(Tick(10));
    assert!(house.evict());
    let (second, _client) = admit(&house);
    assert_eq!(first.place, second.place);
    house.leave(first);
    assert_eq!(open(&house), 1, "the one that was taken is not counted twice");
    house.leave(second);
    assert_eq!(open(&house), 0);
}

#[test]
fn many_rest_and_all_go_in_their_order() {
    let house = house(4);
    let many: Vec<_> = (0..200).map(|_| admit(&house)).collect();
    for (at, (arrival, _)) in many.iter().enumerate() {
        arrival.guest.rest(Tick((at as u64 * 77) % 200 + 1));
    }
    let mut order: Vec<usize> = (0..200).collect();
    order.sort_by_key(|at| (at * 77) % 200);
    for at in order {
        assert!(house.evict());
        assert_eq!(many[at].0.guest.rests_since.load(Ordering::Relaxed), TAKEN, "{at}");
    }
}

#[test]
fn workers_go_from_hand_to_hand() {
    let house = house(4);
    let (one, other) = (house.take_worker(), house.take_worker());
    house.give_worker(one);
    house.give_worker(other);
    assert_eq!(house.workers_spare(), 2);
    house.keep_house();
    drop(house.take_worker());
    assert_eq!(house.workers_spare(), 1, "the one that was dropped is gone");
}
