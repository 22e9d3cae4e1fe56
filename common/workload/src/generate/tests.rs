//! Generated logs: their shape, their length, their distribution.

use statistics::chi_square_test;

use super::*;
use crate::describe::describe;
use crate::mix::Mix;
use crate::model::{ModelPreset, Pages};
use crate::session_length::Lengths;

fn preset(name: &str) -> Model {
    ModelPreset::find(name).unwrap().model()
}

fn uris(log: &RequestLog) -> Vec<String> {
    let requests = (0..log.sessions()).flat_map(|index| log.session(index));
    let uri = |request: &Request| &log.templates()[request.template()].uri;
    requests.map(|request| String::from_utf8(uri(request).to_vec()).unwrap()).collect()
}

/// The joins and the pauses in milliseconds of a session.
fn shape(session: &[Request]) -> Vec<(bool, u64)> {
    session.iter().map(|request| (request.joins(), request.pause_us() / 1000)).collect()
}

#[test]
fn a_session_is_pages_with_bursts_and_pauses() {
    let pages = Pages::new(Distribution::constant(3.0), Distribution::constant(0.343));
    let model =
        Model { lengths: Lengths::fixed(10), pages: Some(pages), ..preset("radhakrishnan") };
    let log = generate(&model, Extent::Sessions(3), 1).unwrap();
    let page = [(false, 343), (false, 0), (true, 0), (true, 3000)];
    for index in 0..3 {
        let expected = [&page[..], &page, &[(false, 343), (false, 0)]].concat();
        assert_eq!(shape(log.session(index)), expected);
    }
}

#[test]
fn without_pages_every_request_is_one() {
    let model = Model { lengths: Lengths::fixed(3), pages: None, ..preset("geneves") };
    let log = generate(&model, Extent::Sessions(1), 1).unwrap();
    assert_eq!(shape(log.session(0)), [(false, 3000), (false, 3000), (false, 0)]);
}

#[test]
fn extents_are_exact() {
    let log = generate(&preset("brecht"), Extent::Sessions(1234), 1).unwrap();
    assert_eq!(log.sessions(), 1234);
    let log = generate(&preset("brecht"), Extent::Requests(12_345), 1).unwrap();
    assert_eq!(log.requests(), 12_345);
    for extent in [Extent::Sessions(0), Extent::Requests(0)] {
        assert_eq!(generate(&preset("brecht"), extent, 1), Err(GenerateError::Empty));
    }
}

#[test]
fn a_log_is_the_beginning_of_every_longer_one() {
    let model = preset("surge");
    let short = generate(&model, Extent::Sessions(100), 7).unwrap();
    let long = generate(&model, Extent::Sessions(300), 7).unwrap();
    assert_eq!(uris(&short), uris(&long)[..short.requests()]);
    for index in 0..100 {
        assert_eq!(shape(short.session(index)), shape(long.session(index)));
    }
    let other = generate(&model, Extent::Sessions(100), 8).unwrap();
    assert_ne!(uris(&short), uris(&other));
}

/// If this fails on one machine only, logs are no longer the same everywhere; if it fails on all,
/// published seeds give other logs than before: then it must be in the changelog.
#[test]
fn the_same_on_every_machine() {
    let log = generate(&preset("surge"), Extent::Requests(200_000), 42).unwrap();
    let mut sum = 0_u64;
    for index in 0..log.sessions() {
        for request in log.session(index) {
            let uri = &log.templates()[request.template()].uri;
            let words = uri.iter().map(|&byte| u64::from(byte));
            for word in words.chain([u64::from(request.joins()), request.pause_us()]) {
                sum = (sum.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            }
        }
    }
    assert_eq!((log.sessions(), sum), (39_750, 15_460_069_081_846_762_376));
}

#[test]
fn presets_have_the_lengths_and_pauses_they_promise() {
    let check = |name: &str, length: f64, longest: f64, think: f64| {
        let found = describe(&generate(&preset(name), Extent::Sessions(100_000), 1).unwrap(), None);
        let close = |got: f64, expected: f64| (got - expected).abs() <= 0.02 * expected;
        assert!(close(found.session_length.mean, length), "{name}: {found}");
        assert!(found.session_length.max == longest || longest == 0.0, "{name}: {found}");
        assert!(close(found.think_s.mean, think) || think < 0.0, "{name}: {found}");
    };
    check("radhakrishnan", 3.5, 6.0, -1.0);
    check("spec99", 2.7027, 15.0, 0.0);
    check("brecht", 7.3, 15.0, 0.0);
    check("surge", 5.0, 0.0, -1.0);
}

/// The pauses of SURGE pages, distinguished by what follows: an embedded object or another page.
#[test]
fn pauses_are_of_two_kinds() {
    let log = generate(&preset("geneves"), Extent::Sessions(10_000), 1).unwrap();
    let mut pauses: Vec<u64> = (0..log.sessions())
        .flat_map(|index| log.session(index).iter().map(|request| request.pause_us()))
        .collect();
    pauses.sort_unstable();
    pauses.dedup();
    assert_eq!(pauses, [0, 343_000, 3_000_000]);
}

#[test]
fn sessions_fit_their_lengths() {
    let mut model = preset("brecht");
    model.lengths = "brecht-15".parse().unwrap();
    let log = generate(&model, Extent::Sessions(100_000), 3).unwrap();
    let mut counts = [0_u64; 16];
    for index in 0..log.sessions() {
        counts[log.session(index).len()] += 1;
    }
    let lengths = [(1, 0.3)].into_iter().chain((5..=15).map(|n| (n, 0.7 / 11.0)));
    let mut shares = [0.0; 16];
    lengths.for_each(|(length, share)| shares[length] = share);
    let found = chi_square_test(&counts, &shares).unwrap();
    assert!(found.p_value > 0.001, "{found:?}");
}

#[test]
fn a_wrong_mix_is_rejected() {
    let mut model = preset("spec99");
    let right = Mix::spec99(680);
    let wrong = Mix { classes: [0.36, 0.49, 0.14, 0.01], alpha: 0.95, ..right.clone() };
    model.files = Files::Spec(wrong.clone());
    let log = generate(&model, Extent::Requests(300_000), 3).unwrap();
    let p_values = |target: &Mix| {
        let fit = describe(&log, Some(target)).fit.unwrap();
        [fit.classes, fit.files, fit.per_directory].map(|agreement| agreement.p_value.unwrap())
    };
    assert!(p_values(&wrong).iter().all(|&p| p > 0.001));
    assert!(p_values(&right).iter().all(|&p| p < 0.001));
}

#[test]
fn a_log_comes_within_its_tolerance() {
    let model = preset("spec99");
    let coarse = generate(&model, Extent::Within(0.2), 1).unwrap();
    let fine = generate(&model, Extent::Within(0.1), 1).unwrap();
    assert!(coarse.requests() < fine.requests() && fine.requests() < 1_000_000);
    let classes = describe(&fine, Some(&Mix::spec99(680))).fit.unwrap().classes;
    let worst = classes.largest_relative_difference.unwrap();
    assert!((worst.actual / worst.expected - 1.0).abs() <= 0.1, "{worst:?}");
}

#[test]
fn a_single_file() {
    let model = Model { files: Files::Single(51_200), prefix: "/a".into(), ..preset("brecht") };
    for extent in [Extent::Sessions(50), Extent::Within(0.1)] {
        let log = generate(&model, extent, 1).unwrap();
        assert!(uris(&log).iter().all(|uri| uri == "/a/size51200"));
    }
}

#[test]
fn priming_asks_for_every_file_once() {
    let log = prime(&FileSet::directories(3).unwrap(), "/set").unwrap();
    assert_eq!((log.sessions(), log.requests(), log.templates().len()), (1, 108, 108));
    assert_eq!(uris(&log)[107], "/set/dir00000/class0_0");
    assert!(log.session(0).iter().all(|request| !request.joins() && request.pause_us() == 0));
    let log = prime(&FileSet::singles(&[5]).unwrap(), "").unwrap();
    assert_eq!(uris(&log), ["/size5"]);
}
