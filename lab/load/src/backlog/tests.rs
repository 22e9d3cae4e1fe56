//! Servers in virtual time, of exactly known capacities.

use statistics::Generator;
use testkit::virtual_server::{Service, Steps, VirtualLoad};

use super::*;

/// Requests a second that the queue sustains at most.
const CAPACITY: f64 = 250.0;
/// What may be left unserved: `served=99%`.
const LEFT_MAX: f64 = 0.01;

/// The backlog of a load in virtual time, and how long nine of ten replies took at most, as a part
/// of the window.
fn backlog(load: VirtualLoad, seed: u64) -> (Backlog, f64) {
    let mut random = Generator::new(seed);
    let steps = load.run(STEPS, &mut || random.unit());
    let reply_s = steps.took_us_of_most() as f64 / 1e6;
    let Steps { begin, asked, settled, .. } = steps;
    (Backlog { begin, asked, settled }, reply_s / load.window_s)
}

fn left(load: VirtualLoad, seed: u64) -> f64 {
    let (backlog, reply_share) = backlog(load, seed);
    let sessions = backlog.asked_in_window() / load.length as u64;
    backlog.share_left(sessions, load.is_random, reply_share)
}

fn each_length(check: impl Fn(VirtualLoad)) {
    for length in [1, 3, 5, 8] {
        for (warm_up_s, window_s) in [(1.0, 5.0), (0.0, 5.0), (0.0, 2.0)] {
            let load = VirtualLoad {
                service: Service::Queue(CAPACITY),
                length,
                asked_per_s: CAPACITY,
                is_random: false,
                warm_up_s,
                window_s,
            };
            check(load);
        }
    }
}

/// A load 2 % above the capacity is recognised, however long sessions are; a load 1 % below it is
/// sustained.
#[test]
fn a_load_above_a_queues_capacity_is_recognised() {
    each_length(|load| {
        for part in [0.3, 0.7, 0.95, 0.98, 0.99, 0.995] {
            let load = VirtualLoad { asked_per_s: CAPACITY * part, ..load };
            assert!(left(load, 1) <= LEFT_MAX, "{load:?}: {}", left(load, 1));
        }
        for part in [1.02, 1.03, 1.1, 1.5, 3.0] {
            let load = VirtualLoad { asked_per_s: CAPACITY * part, ..load };
            assert!(left(load, 1) > LEFT_MAX, "{load:?}: {}", left(load, 1));
        }
    });
}

/// The share left is the excess of the load over the capacity.
#[test]
fn the_share_left_is_the_excess_of_the_load() {
    each_length(|load| {
        for part in [1.1_f64, 1.5, 3.0] {
            let load = VirtualLoad { asked_per_s: CAPACITY * part, ..load };
            let expected = 1.0 - 1.0 / part;
            assert!((left(load, 1) - expected).abs() < 0.03, "{load:?}: {}", left(load, 1));
        }
    });
}

/// Random arrivals make queues at servers that sustain them: one run in five at 97 % of the
/// capacity is judged wrongly, and the search tries again.
#[test]
fn chance_is_not_held_against_a_server() {
    each_length(|load| {
        let held = |part: f64| {
            let load = VirtualLoad { asked_per_s: CAPACITY * part, is_random: true, ..load };
            (0..40).filter(|seed| left(load, *seed) <= LEFT_MAX).count()
        };
        let counts = [0.7, 0.9, 0.97, 1.3].map(held);
        assert!(counts[0] >= 39 && counts[1] >= 36 && counts[2] >= 28, "{load:?} {counts:?}");
        assert!(counts[3] <= 8, "{load:?} {counts:?}");
    });
}

/// Requests that a server has under way all the time are no growth.
#[test]
fn slow_servers_keep_up() {
    for is_random in [false, true] {
        for length in [1, 3] {
            let load = VirtualLoad {
                service: Service::Slow(0.3),
                length,
                asked_per_s: 300.0,
                is_random,
                warm_up_s: 3.0,
                window_s: 5.0,
            };
            let held = (0..40).filter(|seed| left(load, *seed) <= LEFT_MAX).count();
            assert!(held >= 36, "{load:?}: {held}");
        }
    }
}

/// A backlog that builds up at the beginning is no growth either: a run need not warm up for longer
/// than the replies of a session take.
#[test]
fn filling_a_slow_server_is_no_falling_behind() {
    let delay = |length| (Service::Delay(1.0), length);
    for (service, length) in [delay(1), delay(3), delay(5), (Service::Slow(0.7), 1)] {
        for (is_random, warm_up_s) in [(false, 0.0), (false, 0.4), (true, 0.0)] {
            let (asked_per_s, window_s) = (300.0, 10.0);
            let load = VirtualLoad { service, length, asked_per_s, is_random, warm_up_s, window_s };
            let held = (0..40).filter(|seed| left(load, *seed) <= LEFT_MAX).count();
            assert!(held >= 36, "{load:?}: {held}");
        }
    }
}

#[test]
fn nothing_asked_is_nothing_left() {
    assert_eq!(Backlog::default().share_left(0, true, 0.0), 0.0);
    let (asked, settled) = (vec![0; STEPS], vec![0; STEPS]);
    assert_eq!(Backlog { begin: 3, asked, settled }.share_left(0, false, 0.0), 0.0);
}

#[test]
fn sums_are_exact() {
    let load = |asked_per_s| VirtualLoad {
        service: Service::Queue(CAPACITY),
        length: 3,
        asked_per_s,
        is_random: false,
        warm_up_s: 1.0,
        window_s: 2.0,
    };
    let (mut sum, other) = (backlog(load(300.0), 1).0, backlog(load(500.0), 1).0);
    let expected = sum.asked_in_window() + other.asked_in_window();
    let begin = sum.begin + other.begin;
    sum.merge(&other);
    assert_eq!((sum.asked_in_window(), sum.begin), (expected, begin));
    let mut none = Backlog::default();
    none.merge(&sum);
    assert_eq!(none, sum);
}
