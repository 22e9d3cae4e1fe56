//! The arithmetic and the words; the comparison of real servers is tested with the command.

use super::*;
use crate::observe::Disturbed;
use crate::record::Figures;
use load::measures::Measures;
use load::outcome::Outcome;
use std::collections::BTreeMap;

fn measured(throughput_per_s: f64, cpu_us: Option<f64>, failed: u64) -> Measured {
    let errors = [("reset".to_owned(), failed)].into_iter().filter(|(_, count)| *count > 0);
    let cpu = cpu_us.map(|us| ("cpu_us_per_request".to_owned(), us));
    Measured {
        figures: Figures {
            throughput_per_s,
            requests_due: 1000,
            kept_up_share: 1.0,
            errors: errors.collect(),
            times_us: BTreeMap::from([("p50".into(), 100.0), ("p99".into(), 900.0)]),
            ..Figures::default()
        },
        observed: cpu.into_iter().collect(),
        not_available: Vec::new(),
        void: Vec::new(),
        started_unix_us: 0,
        outcome_json: String::new(),
        outcome: Outcome {
            setting: load::outcome::Setting::default(),
            window_us: 1_000_000,
            started_unix_us: 0,
            interval_us: 1_000_000,
            cpu_us: (0, 0),
            run_delay_us: None,
            wake_ups: 0,
            others_us: None,
            server_cpu: None,
            measures: Measures::default(),
            void: Vec::new(),
            first_bad: None,
            first_refused: None,
            interrupted: false,
        },
    }
}

/// Times of which one in ten is longer.
fn times(usual_us: u64, long_us: u64) -> hdrhistogram::Histogram<u64> {
    let mut times = load::measures::histogram();
    times.record_n(usual_us, 90).expect("both are within the histogram's bounds");
    times.record_n(long_us, 10).expect("both are within the histogram's bounds");
    times
}

/// Ten pairs with a little noise.
fn phase(first: impl Fn(f64) -> Measured, second: impl Fn(f64) -> Measured) -> Phase {
    let noise = |n: usize| 1.0 + 0.01 * (n * 3 % 7) as f64;
    [
        (0..10).map(|n| Some(first(noise(n)))).collect(),
        (0..10).map(|n| Some(second(noise(n + 2)))).collect(),
    ]
}

fn sides() -> [Side; 2] {
    ["a", "b"].map(|name| Side {
        program: Default::default(),
        server: name.into(),
        setting: "usual".into(),
        version: "1".into(),
        description: String::new(),
        configuration: String::new(),
        instance: Instance::Running(SocketAddr::from(([127, 0, 0, 1], 1))),
    })
}

fn compared(phase: &Phase) -> Comparison {
    let figures = figures(phase, phase).map(|figure| {
        let verdict = figure.judge(0.02, 0.95);
        (figure, verdict)
    });
    let caveats = caveats(&sides(), phase, phase);
    let (figures, void) = (figures.into(), Vec::new());
    Comparison { figures, rate_per_s: 500.0, confidence: 0.95, void, caveats }
}

#[test]
fn the_cheaper_server_wins_and_the_words_say_by_how_much() {
    let phase = phase(
        |n| measured(1000.0 * n, Some(20.0 * n), 0),
        |n| measured(900.0 * n, Some(40.0 * n), 0),
    );
    let text = conclude(&compared(&phase), &sides()).to_string();
    assert!(text.contains("Verdict: a/usual. A against B in CPU us/request"), "{text}");
    assert!(text.contains("0.5") && text.contains("A is better"), "{text}");
    assert!(!text.contains("Mind"), "{text}");
    let rate = common_rate(&phase);
    assert!((450.0..480.0).contains(&rate), "half of the slower one's: {rate}");
}

#[test]
fn without_processor_time_throughput_decides() {
    let phase = phase(|n| measured(500.0 * n, None, 0), |n| measured(900.0 * n, None, 0));
    let text = conclude(&compared(&phase), &sides()).to_string();
    assert!(text.contains("Verdict: b/usual. A against B in requests/s"), "{text}");
    assert!(text.contains("not measured"), "{text}");
}

#[test]
fn a_server_that_is_compared_with_itself_has_two_names() {
    let names = |second: &str, setting: &str| {
        let mut sides = sides();
        (sides[1].server, sides[1].setting) = (second.into(), setting.into());
        Side::name_apart(&mut sides);
        sides.map(|side| side.label())
    };
    assert_eq!(names("a", "usual"), ["a/usual", "a again/usual"]);
    assert_eq!(names("a", "other"), ["a/usual", "a/other"]);
    assert_eq!(names("b", "usual"), ["a/usual", "b/usual"]);
}

#[test]
fn equal_servers_are_a_tie() {
    let equal = || measured(500.0, Some(20.0), 0);
    let text = conclude(&compared(&phase(|_| equal(), |_| equal())), &sides()).to_string();
    assert!(text.contains("Verdict: a tie. "), "{text}");
}

/// A server may win by not doing its work; the verdict then says so.
#[test]
fn what_was_failed_is_said() {
    let phase = phase(
        |n| measured(900.0 * n, Some(10.0 * n), 300),
        |n| measured(900.0 * n, Some(40.0 * n), 0),
    );
    let text = conclude(&compared(&phase), &sides()).to_string();
    assert!(text.contains("Mind: a/usual failed 6000 of 20000 requests (30.00 %)"), "{text}");
    assert!(text.ends_with("But see the caveats.\n"), "{text}");
}

/// Requests that queue are served in bulk, which costs less than the same work done in time.
#[test]
fn a_server_that_does_not_sustain_the_common_rate_is_named() {
    let late = |n: f64| {
        let mut late = measured(900.0 * n, Some(10.0 * n), 0);
        late.figures.kept_up_share = 0.8;
        late
    };
    let text = conclude(&compared(&phase(late, |n| measured(900.0 * n, Some(40.0), 0))), &sides())
        .to_string();
    let expected = "Mind: a/usual does not sustain the common rate: it kept up with 80.0 % of it";
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains("b/usual does not"), "{text}");
}

#[test]
fn interference_while_a_server_was_measured_is_said() {
    let told = |share: f64| {
        let mut disturbed = phase(|_| measured(500.0, None, 0), |_| measured(900.0, None, 0));
        let last = disturbed[1].last_mut().and_then(Option::as_mut).expect("it was measured");
        last.observed.insert(Disturbed::Server.name().into(), share);
        compared(&disturbed).caveats
    };
    let expected = "while b/usual was measured, other processes kept the server from running for \
                    3 % of the time";
    assert_eq!(told(0.03), [expected]);
    assert_eq!(told(0.01), [""; 0]);
}

/// How they were set is not known, and a verdict is of that as well.
#[test]
fn servers_that_ran_already_are_a_caveat() {
    let expected = "both run as they were started: their workers, CPUs and logs may differ, and \
                    they may use the clients' CPUs";
    assert_eq!(started_by_others(&sides()).as_deref(), Some(expected));
}

#[test]
fn times_that_are_mostly_the_generators_own_are_named() {
    let mut outcome = measured(900.0, None, 0).outcome;
    outcome.measures.times.corrected = times(900, 13_400);
    outcome.measures.times.lag = times(30, 8_100);
    let own = Figures::from_outcome(&outcome).mostly_own_lag;
    assert_eq!(own, ["p95", "p99", "p99.9", "max"].map(str::to_owned).into());
    let told = |marked: usize| {
        let mut runs = phase(|_| measured(500.0, None, 0), |_| measured(900.0, None, 0));
        for run in runs[1].iter_mut().take(marked).flatten() {
            run.figures.mostly_own_lag = own.clone();
        }
        compared(&runs).caveats
    };
    let expected = "p99 of b/usual is mostly the generator's own lag: of the server it says little";
    assert_eq!(told(5), [expected]);
    assert_eq!(told(4), [""; 0]);
}

#[test]
fn without_a_pair_there_is_no_verdict() {
    let one = || Some(measured(900.0, None, 0));
    let apart: Phase = [vec![None, one()], vec![one(), None]];
    let comparison = compared(&apart);
    assert!(comparison.is_void());
    let text = conclude(&comparison, &sides()).to_string();
    assert!(text.ends_with("Verdict: none. In no pair were both windows good.\n"), "{text}");
}

/// No rate is known then that both sustain, and the server that has answered would win by that
/// alone.
#[test]
fn a_server_that_has_not_answered_is_not_compared() {
    let good = || vec![None, Some(measured(900.0, None, 0))];
    let window = |side, pair, why: &str| VoidWindow {
        side,
        purpose: Purpose::Saturation,
        pair,
        why: vec![why.into()],
    };
    let void = [window(1, 1, "one"), window(1, 2, "two"), window(0, 2, "three")];
    let check = |second, expected: &str| {
        let why = check_answers(&sides(), &[good(), second], &void).expect_err("b is at fault");
        let told = why.to_string();
        assert!(told.starts_with(&format!("b/usual: {expected}. So ")), "{told}");
        why
    };
    let last = "all its windows with all clients were void, the last: \
                b/usual, saturation, pair 2: two";
    assert!(matches!(check(vec![None, None], last), Uncompared::Void(_)));
    let mute = vec![None, Some(measured(0.0, None, 900))];
    let failed = check(mute, "it answered nothing to all clients");
    assert!(matches!(failed, Uncompared::Failed(_)), "{failed}");
    assert_eq!(check_answers(&sides(), &[good(), good()], &void), Ok(()));
}

/// Everything is requested once and warming up takes three windows of each server; each of the four
/// windows of a pair has its load started and ended; a quarter of all may be void.
#[test]
fn an_estimate_has_everything_that_takes_time() {
    let plan = Plan {
        connections: 8,
        pairs: 15,
        window_s: 1.0,
        rate_per_s: None,
        margin: 0.02,
        confidence: 0.95,
        seed: 1,
        verify_bytes: false,
    };
    let seconds = 2.0 * (0.5 + 3.0 * 0.25) + 15.0 * 4.0 * 1.25;
    assert_eq!(plan.estimates_s(), [seconds, 1.25 * seconds]);
}
