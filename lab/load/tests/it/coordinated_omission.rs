//! A server that stalls for a second, at a known rate: the percentiles must equal the ones that
//! arithmetic gives.
//!
//! The rate is 100 sessions/s for three seconds, the stall lasts from the first second to the
//! second. A session that is due t before the end of the stall waits t, so that the waits of the
//! hundred sessions that are due in it are 0.01 s, 0.02 s, … 1.00 s; all others wait for a
//! negligible time. A generator that waits for replies before it goes on would see the stall once.

use load::measures::Times;
use load::plan::Model;
use testkit::scripted::{Action, Reply, Scripted};
use testkit::undisturbed;

use crate::models::start_in;
use crate::setup::{MS, SECOND, errors, get, log, open, plan, run_from, send};

const RATE: u64 = 100;
const RUN_US: u64 = 3 * SECOND;
const STALL_US: std::ops::Range<u64> = SECOND..2 * SECOND;
/// Holds all replies back while it stalls; `start_us` is when the run begins.
fn stalling(start_us: u64) -> Scripted {
    let from_us = start_us + STALL_US.start;
    let to_us = start_us + STALL_US.end;
    Scripted::start(os::clock::now, move |asked| {
        let reply = send(&Reply::ok(b"hello"));
        // A request due at the first moment of the stall may arrive a little later, never before.
        let is_held = (from_us - 2..to_us).contains(&asked.at_us);
        if is_held { vec![Action::WaitUntil(to_us), reply] } else { vec![reply] }
    })
}

/// The waits that arithmetic gives, sorted.
fn expected_us() -> Vec<u64> {
    let due = (0..RATE * RUN_US / SECOND).map(|k| k * SECOND / RATE);
    let wait = |at: u64| if STALL_US.contains(&at) { STALL_US.end - at } else { 0 };
    let mut waits: Vec<u64> = due.map(wait).collect();
    waits.sort_unstable();
    waits
}

/// The smallest wait that at least the part `share` of all waits does not exceed.
fn quantile(sorted: &[u64], share: f64) -> u64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted[rank.max(1) - 1]
}

/// The largest rounding error of a histogram at this value.
fn rounding_us(us: u64) -> u64 {
    us / 100 + 2
}

/// No wait can be shorter than arithmetic gives, and none is longer than the time since the request
/// was sent plus the lag that the generator reports plus the time in which it connected.
#[track_caller]
fn check(times: &Times, share: f64, expected_us: u64) {
    let [got_us, waited_us] =
        [&times.corrected, &times.uncorrected].map(|times| times.value_at_quantile(share));
    let most_us = waited_us + times.lag.max() + times.connect.max();
    let said = format!("p{}: {got_us} us: {expected_us} to {most_us} us", share * 100.0);
    assert!(got_us + rounding_us(expected_us) >= expected_us, "{said}");
    assert!(got_us <= most_us + rounding_us(most_us), "{said}");
}

/// Each session has a connection of its own, so that none waits for another: the server's stall is
/// in the uncorrected times as well.
#[test]
fn an_open_run_sees_all_of_a_stall() {
    // By hand: of 300 waits, ranks 270, 285, 297 and 300 are waits 70, 85, 97 and 100.
    let by_hand = [(0.5, 0), (0.9, 700), (0.95, 850), (0.99, 970), (1.0, 1_000)];
    for (share, wait_ms) in by_hand {
        assert_eq!(quantile(&expected_us(), share), wait_ms * MS);
    }
    let mut plan = plan("127.0.0.1:1".parse().unwrap(), log(&[&[get("/a")]]));
    (plan.model, plan.sessions_max, plan.duration_us) = (open(RATE as f64), None, Some(RUN_US));
    let (start_us, start) = start_in(&mut plan, 300);
    let server = stalling(start_us);
    plan.targets[0].address = server.address();
    let outcome = run_from(start, &plan);
    assert_eq!(errors(&outcome), []);
    let (expected, times) = (expected_us(), &outcome.measures.times);
    assert_eq!(times.corrected.len(), expected.len() as u64);
    for share in [0.5, 0.66, 0.75, 0.9, 0.95, 0.99, 1.0] {
        check(times, share, quantile(&expected, share));
    }
}

/// One client that would send a hundred requests a second meets the stall once: 99 % of its replies
/// come at once.
#[test]
fn a_closed_run_sees_it_once() {
    undisturbed(|| {
        let mut plan =
            plan("127.0.0.1:1".parse().unwrap(), log(&[&[get("/a").pause_ms(1_000 / RATE)]]));
        plan.model = Model::Closed { clients: 1, endless: true };
        (plan.sessions_max, plan.duration_us) = (None, Some(RUN_US));
        let (start_us, start) = start_in(&mut plan, 300);
        let server = stalling(start_us);
        plan.targets[0].address = server.address();
        let outcome = run_from(start, &plan);
        assert_eq!(errors(&outcome), []);
        let times = &outcome.measures.times;
        let replies = times.uncorrected.len();
        // At most 201: the replies of two seconds, and the one that met the stall.
        assert!(replies <= 201, "{replies}");
        // The one long wait is the stall, less a pause at most, plus any delay by the machine. A
        // client that is kept from its CPU may ask rarely, or late in the stall.
        let longest_us = times.uncorrected.max();
        if replies < 20 || longest_us < 900 * MS {
            return Err(format!("{replies} replies, the longest after {longest_us} us"));
        }
        let long = times.uncorrected.iter_recorded();
        let long = long.filter(|value| value.value_iterated_to() > 500 * MS);
        let long: u64 = long.map(|value| value.count_since_last_iteration()).sum();
        if long == 1 { Ok(()) } else { Err(format!("{long} long waits")) }
    });
}
