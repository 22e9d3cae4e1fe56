//! Tests that written documents can be read back, and are consistent.

use proptest::prelude::*;

use super::super::sample;
use super::*;

/// The payload depends on the compression library; other tests check that it can be read back.
fn without_payloads(text: &str) -> String {
    let mut masked = String::new();
    for line in text.lines() {
        let at = line.find("\"histogram\": \"").map(|at| at + "\"histogram\": \"".len());
        masked.push_str(&line[..at.unwrap_or(line.len())]);
        masked.push_str(if at.is_some() { "...\"\n" } else { "\n" });
    }
    masked
}

#[test]
fn golden() {
    let mut outcome = sample::void();
    outcome.measures.series.truncate(3);
    sample::check_golden("outcome.json", &without_payloads(&write(&outcome)));
}

#[test]
fn samples_read_back() {
    for outcome in [sample::empty(), sample::run(), sample::void()] {
        let text = write(&outcome);
        let parsed = parse(&text).unwrap();
        assert!(parsed == outcome);
        assert_eq!(write(&parsed), text);
    }
}

#[test]
fn other_documents_are_refused() {
    let good = write(&sample::run());
    let check = |text: &str, expected: &str| {
        let why = parse(text).unwrap_err();
        assert!(why.contains(expected), "{why}");
        assert!(!why.contains('\n'), "{why}");
    };
    check("", "not an outcome of `ropewalk load`: EOF");
    check("[1]", "not an outcome of `ropewalk load`");
    check("{\"format\": \"k6\", \"version\": 1}", "its format is `k6`");
    check(&good.replace("\"version\": 2", "\"version\": 3"), "its version is 3");
    check(&good.replace("\"version\": 2", "\"version\": 0"), "its version is 0");
    check(&good.replace("\"refused\"", "\"denied\""), "there is no error `denied`");
    check(&good.replace("\"class0_4\"", "\"class9_4\""), "no kind of file `class9_4`");
    check(&good.replace("\"class3\"", "\"class4\""), "there is no class of files `class4`");
    check(&good.replace("\"length\": 10,", "\"length\": 65,"), "sessions of 65 requests");
    check(&good.replace("\"histogram\": \"", "\"histogram\": \"!"), "a histogram is damaged");
    check(&good.replace("\"histogram\": \"", "\"histogram\": \"AAAA"), "a histogram is damaged");
    check(&good.replace("\"generators\": 1", "\"generators\": 0"), "share 0 of 0 generators");
    let mut coarse = sample::run();
    coarse.measures.times.lag = interval_histogram();
    check(&write(&coarse), "at 2 digits is not ours");
}

#[test]
fn fields_of_a_later_release_are_ignored() {
    let text = write(&sample::run()).replacen('{', "{\"carbon\": 1,", 1);
    assert!(parse(&text).unwrap() == sample::run());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn everything_reads_back(seed in any::<u64>()) {
        let outcome = sample::random(seed, 0, 1);
        prop_assert!(parse(&write(&outcome)).unwrap() == outcome);
    }

    #[test]
    fn merging_and_writing_can_be_swapped(seed in any::<u64>(), of in 2_u32..5) {
        let outcomes: Vec<_> =
            (0..of).map(|index| sample::random(seed ^ u64::from(index) << 32, index, of)).collect();
        let read = |outcome: &Outcome| parse(&write(outcome)).unwrap();
        let parsed: Vec<_> = outcomes.iter().rev().map(read).collect();
        let merged = Outcome::merge(outcomes).unwrap();
        prop_assert!(Outcome::merge(parsed).unwrap() == read(&merged));
    }
}

/// Outcomes that were written before reasons had names can still be read.
#[test]
fn reasons_of_which_only_the_words_are_known_are_kept() {
    let text = write(&sample::void());
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["version"] = 1.into();
    value["setting"]["lag_bound_us"] = 10_000.into();
    value["setting"].as_object_mut().unwrap().remove("run_delay_bound");
    let later = ["void_reasons", "backlog", "run_delay_us", "others_us", "server_cpu"];
    for field in later.into_iter().chain(["first_refused"]) {
        value.as_object_mut().unwrap().remove(field);
    }
    let parsed = parse(&value.to_string()).unwrap();
    assert!(parsed.void.iter().all(|void| matches!(void, Void::Other(_))), "{:?}", parsed.void);
    let words =
        |outcome: &Outcome| -> Vec<String> { outcome.void.iter().map(Void::to_string).collect() };
    assert_eq!(words(&parsed), words(&sample::void()));
}
