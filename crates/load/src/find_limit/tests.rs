//! The search against servers that are formulas.

use super::*;
use crate::measures::Measures;
use crate::outcome::Setting;

/// A server that answers all requests in 1 ms up to `capacity` and loses the rest.
fn outcome(rate: f64, capacity: f64, generator_capacity: f64) -> Outcome {
    let mut measures = Measures::default();
    let due = (rate * 10.0) as u64;
    let served = (rate.min(capacity) * 10.0) as u64;
    measures.counts.sessions_due = due;
    measures.counts.requests = due;
    measures.counts.replies = served;
    measures.counts.replies_in_window = served;
    for _ in served..due {
        measures.errors.add(crate::error_kind::ErrorKind::TimeoutWaiting);
    }
    measures.times.corrected.record_n(1000, served.max(1)).unwrap();
    let void = if rate > generator_capacity { vec!["late".into()] } else { vec![] };
    Outcome {
        setting: Setting::default(),
        window_us: 10_000_000,
        started_unix_us: 0,
        interval_us: 1_000_000,
        cpu_us: (0, 0),
        measures,
        void,
        first_bad: None,
        interrupted: false,
    }
}

fn find(capacity: f64, generator_capacity: f64, first_rate: f64) -> Limit {
    let mut trial = |rate: f64| Ok(outcome(rate, capacity, generator_capacity));
    search(&Conditions::default(), first_rate, &mut trial, &mut |_| {}).unwrap()
}

#[test]
fn the_limit_is_bracketed() {
    for first_rate in [1.0, 900.0, 50_000.0] {
        let limit = find(1000.0, f64::INFINITY, first_rate);
        let (held, broke) = (limit.held.unwrap(), limit.broke.unwrap());
        // A thousandth of errors is allowed.
        assert!(held.rate <= 1001.1 && broke.rate > 1001.0, "{held:?} {broke:?}");
        assert!(broke.rate <= held.rate * (1.0 + GAP));
        assert_eq!((held.held, held.trials), (CONFIRMATIONS, CONFIRMATIONS));
        assert_eq!((broke.held, broke.trials), (0, CONFIRMATIONS));
        assert_eq!(limit.causes()[0].condition, "errors=0.1%");
    }
}

#[test]
fn a_generator_that_gives_out_is_no_limit() {
    let limit = find(1000.0, 300.0, 100.0);
    assert!(limit.is_lower_bound());
    let held = limit.held.unwrap();
    assert!((300.0 / (1.0 + GAP)..=300.0).contains(&held.rate), "{held:?}");
    assert_eq!(held.trials, CONFIRMATIONS);
}

#[test]
fn a_server_that_never_holds_has_no_limit() {
    let limit = find(0.0, f64::INFINITY, 100.0);
    assert_eq!(limit.held, None);
    assert!(limit.broke.is_some_and(|broke| broke.rate < 1.0));
}

#[test]
fn a_server_on_the_edge_moves_the_limit_down() {
    // Holds above 500 only the first time.
    let mut asked = 0;
    let mut trial = |rate: f64| {
        asked += usize::from(rate > 500.0);
        Ok(outcome(rate, if asked > 1 { 500.0 } else { 1000.0 }, f64::INFINITY))
    };
    let limit = search(&Conditions::default(), 800.0, &mut trial, &mut |_| {}).unwrap();
    assert!(limit.held.unwrap().rate <= 501.0, "{limit:?}");
}

#[test]
fn the_time_that_breaks_is_named() {
    let conditions: Conditions = "p99=500us".parse().unwrap();
    let mut trial = |rate: f64| Ok(outcome(rate, 1000.0, f64::INFINITY));
    let limit = search(&conditions, 100.0, &mut trial, &mut |_| {}).unwrap();
    assert_eq!(limit.held, None);
    assert_eq!(limit.causes()[0].condition, "p99=500us");
}
