//! The findings on a handful of runs.

use super::super::summary::Found;
use super::super::tables;
use super::*;
use crate::record::{
    Ceiling, Described, Figures, Header, Offered, Planned, Point, Purpose, RaceOutcome, Rival, Run,
    Search, Tuning,
};
use crate::void::Void;

/// Runs with these throughputs of a server at an offered load, block by block.
fn runs(server: &str, offered: f64, throughputs: &[f64]) -> Vec<Run> {
    let run = |(block, throughput): (usize, &f64)| Run {
        point: Point {
            server: server.into(),
            workload: "w".into(),
            testbed: "d".into(),
            offered: Offered::RequestsPerS(offered),
            ..Point::default()
        },
        block: block as u32,
        figures: Some(Figures {
            throughput_per_s: *throughput,
            kept_up_share: throughput / offered,
            served_share: 1.0,
            ..Figures::default()
        }),
        ..Run::default()
    };
    throughputs.iter().enumerate().map(run).collect()
}

fn all_findings(header: Header, runs: &[Vec<Run>]) -> Vec<Finding> {
    let ceilings = vec![("d".to_owned(), Ceiling { bytes_per_s: 1e12, requests_per_s: 1e9 })];
    let opened = Opened { header, runs: runs.concat(), ceilings, ..Opened::default() };
    findings(&opened, &Summary::new(&opened))
}

#[track_caller]
fn check(runs: &[Vec<Run>], head: Head, part: &str) {
    let said = all_findings(Header::default(), runs);
    let found = said.iter().any(|finding| finding.head == head && finding.text.contains(part));
    assert!(found, "{head:?} {part:?} is not in {said:#?}");
}

#[test]
fn six_blocks_that_agree_are_a_difference() {
    let fast = runs("fast", 200.0, &[110.0, 112.0, 111.0, 113.0, 110.0, 112.0]);
    let slow = runs("slow", 200.0, &[100.0, 101.0, 99.0, 100.0, 102.0, 100.0]);
    check(&[fast, slow], Head::Verdict, "It serves 1.11 [1.");
}

#[test]
fn few_blocks_that_agree_only_seem_to() {
    let fast = runs("fast", 200.0, &[110.0, 112.0, 111.0]);
    let slow = runs("slow", 200.0, &[100.0, 101.0, 99.0]);
    let part = "3 pairs are too few: as many agree by chance once in 4 times";
    check(&[fast.clone(), slow.clone()], Head::NotSupported, part);
    check(&[fast, slow], Head::Verdict, ", but no other is certain to serve less.");
    let single = [runs("fast", 200.0, &[110.0]), runs("slow", 200.0, &[100.0])];
    check(&single, Head::NotSupported, "but one run of each is too few: one of them is always");
}

/// The mark stands in tables and verdicts, and one sentence says what it means.
#[test]
fn times_that_are_mostly_the_generators_own_are_marked() {
    let timed = |server: &str, marked: usize| {
        let mut runs = runs(server, 200.0, &[200.0; 6]);
        for (index, run) in runs.iter_mut().enumerate() {
            let figures = run.figures.as_mut().expect("each run has figures");
            let times = [("p50", 900.0), ("p99", 13_400.0)];
            figures.times_us = times.map(|(name, us)| (name.to_owned(), us)).into();
            if index < marked {
                figures.mostly_own_lag = ["p99".to_owned()].into();
            }
        }
        runs
    };
    let told = |marked| {
        let runs = [timed("one", marked), timed("two", 0)].concat();
        let header = Header { kind: Kind::Compare, ..Header::default() };
        let opened = Opened { header, runs, ..Opened::default() };
        let summary = Summary::new(&opened);
        let cells = tables::points(&summary.panels[0]).rows.concat();
        let texts = findings(&opened, &summary).into_iter().map(|finding| finding.text);
        (cells, texts.collect::<Vec<_>>().join("\n"))
    };
    let (cells, texts) = told(3);
    let times: Vec<&String> = cells.iter().filter(|cell| cell.starts_with("13.4")).collect();
    assert_eq!(times, ["13.4*", "13.4"]);
    assert!(cells.iter().all(|cell| !cell.starts_with("0.9") || !cell.contains('*')), "{cells:?}");
    assert!(texts.contains("99th percentile of response times* (1"), "{texts}");
    assert!(texts.contains("median response time (1"), "{texts}");
    let sentence = "A time with a *, or a ratio of such a time, is mostly the generator's own lag";
    assert_eq!(texts.matches(sentence).count(), 1, "{texts}");
    let (cells, texts) = told(2);
    assert!(!cells.concat().contains('*') && !texts.contains('*'), "{cells:?}\n{texts}");
}

/// Runs that are void for it take no part, and do not count here.
#[test]
fn interference_in_runs_that_count_is_reported() {
    use crate::observe::Disturbed::{Generator, ServerCpus};
    let told = |share: f64| {
        let mut runs = runs("one", 200.0, &[100.0; 4]);
        runs[0].observed.insert(ServerCpus.name().into(), 0.002);
        runs[1].observed.insert(ServerCpus.name().into(), share);
        runs[2].observed.insert(Generator.name().into(), 0.015);
        runs[3].observed.insert(ServerCpus.name().into(), 0.08);
        runs[3].void = vec![Void::Interference { disturbed: ServerCpus, share: 0.08, bound: 0.05 }];
        let said = all_findings(Header::default(), &[runs]);
        let of_it =
            said.into_iter().filter(|finding| finding.text.contains("there was interference"));
        of_it.map(|finding| (finding.head, finding.text)).collect::<Vec<_>>()
    };
    let text = |count, worst| {
        format!(
            "In {count} of the 3 runs that count there was interference, less than makes a run \
             void: at worst {worst}. Differences of that size may be its effect."
        )
    };
    let expected = text(2, "other processes used 3 % of the server's CPUs");
    assert_eq!(told(0.03), [(Head::NotSupported, expected)]);
    let generator = "other processes kept the load generator from running for 1.5 % of the time";
    assert_eq!(told(0.009), [(Head::NotSupported, text(1, generator))]);
}

/// The number of pairs that is too small depends on the confidence.
#[test]
fn a_study_of_another_confidence_needs_other_numbers_of_blocks() {
    #[track_caller]
    fn check(confidence: f64, blocks: usize, told: Option<&str>) {
        let fast: Vec<f64> = (0..blocks).map(|n| 110.0 + n as f64 / 10.0).collect();
        let slow: Vec<f64> = (0..blocks).map(|n| 100.0 + n as f64 / 10.0).collect();
        let header = Header { confidence, ..Header::default() };
        let said = all_findings(header, &[runs("fast", 200.0, &fast), runs("slow", 200.0, &slow)]);
        let is_said = |head: Head, part: &str| {
            said.iter().any(|finding| finding.head == head && finding.text.contains(part))
        };
        assert_eq!(is_said(Head::Verdict, "It serves 1.10 "), told.is_none(), "{said:#?}");
        assert_eq!(is_said(Head::NotSupported, "rest on fewer than"), told.is_some(), "{said:#?}");
        assert!(told.is_none_or(|told| is_said(Head::NotSupported, told)), "{said:#?}");
    }
    check(
        0.99,
        7,
        Some(
            "fewer than 8 blocks: such an interval is the whole range, still too narrow for 99 %, and",
        ),
    );
    check(0.99, 8, None);
    check(0.999, 10, Some("2 of 2 points rest on fewer than 11 blocks: "));
    check(0.95, 5, Some("2 of 2 points rest on fewer than 6 blocks: "));
    check(0.8, 3, Some("2 of 2 points rest on fewer than 4 blocks: "));
    check(0.8, 4, None);
}

/// A point that was measured often does not make up for points that were not.
#[test]
fn points_and_highest_rates_that_rest_on_little_are_counted() {
    let often = runs("one", 200.0, &[100.0; 6]);
    let part = "1 of 2 points rest on fewer than 6 blocks: ";
    check(&[often, runs("one", 300.0, &[110.0; 2])], Head::NotSupported, part);

    let found = |server: &str, count: u32| {
        let searches = (0..count).map(|block| in_block(block, search(server, 100.0, Some(104.0))));
        searches.collect::<Vec<_>>()
    };
    let told = |kind| {
        let found = [found("one", 6), found("two", 3)].concat();
        let (runs, searches): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let header = Header { kind, ..Header::default() };
        let opened = Opened { header, runs: runs.concat(), searches, ..Opened::default() };
        findings(&opened, &Summary::new(&opened))
    };
    has(&told(Kind::Study), "1 of 2 highest rates rest on fewer than 6 searches: ");
    // Most settings of a tuning are given up early.
    assert!(!told(Kind::Tune).iter().any(|one| one.text.contains("highest rates rest")));
}

#[test]
fn an_interval_that_holds_1_is_a_tie() {
    let one = runs("one", 200.0, &[100.0, 104.0, 98.0, 103.0, 99.0, 102.0]);
    let other = runs("other", 200.0, &[101.0, 99.0, 102.0, 98.0, 103.0, 100.0]);
    check(&[one, other], Head::Verdict, "Between one and other: a tie.");
}

/// A request that timed out is no longer in a queue, and was not served.
#[test]
fn a_server_that_fails_requests_does_not_keep_up() {
    let mut failing = runs("failing", 100.0, &[100.0; 6]);
    for run in &mut failing {
        run.figures.as_mut().expect("it has some").served_share = 0.88;
    }
    let said = all_findings(Header::default(), &[failing]);
    assert!(
        !said.iter().any(|finding| finding.text.contains("its peak may lie higher")),
        "{said:#?}"
    );
}

#[test]
fn servers_of_which_nothing_is_known_are_named() {
    let planned = |server: &str, testbed: &str| Planned {
        server: server.into(),
        workload: "w".into(),
        testbed: testbed.into(),
        ..Planned::default()
    };
    let planned = vec![planned("one", "d"), planned("one", "e"), planned("two", "d")];
    let header = Header { planned, repetitions: 1, ..Header::default() };
    let mut void = runs("two", 100.0, &[90.0]);
    void[0].void = vec!["late".into()];
    let said = all_findings(header, &[runs("one", 100.0, &[90.0]), void]);
    let part = "Nothing was measured of one/ (w, e) and two/ (w, d).";
    assert!(said.iter().any(|finding| finding.text == part), "{said:#?}");
}

#[test]
fn testbeds_without_a_ceiling_are_named() {
    let named = |name: &str| Described { name: name.into(), ..Described::default() };
    let part = "The path's own limit was not measured in e: a figure may measure the path.";
    let told = |names: &[&str]| {
        let testbeds = names.iter().map(|name| named(name)).collect();
        let said =
            all_findings(Header { testbeds, ..Header::default() }, &[runs("one", 100.0, &[90.0])]);
        said.iter().any(|finding| finding.text == part)
    };
    assert!(told(&["d", "e"]) && !told(&["d"]));
}

#[test]
fn points_that_only_others_have_are_missing() {
    let header = Header { repetitions: 1, ..Header::default() };
    let both = [runs("one", 100.0, &[90.0]), runs("one", 200.0, &[90.0])];
    let said = all_findings(header, &[both.concat(), runs("two", 100.0, &[80.0])]);
    let part = "1 of 4 points have fewer valid runs than the 1 that were asked for.";
    let caveat = format!("Mind: {part}");
    let found = said.iter().find(|finding| finding.text.ends_with(part)).expect("it is said");
    assert_eq!((found.head, &found.text), (Head::Verdict, &caveat), "{said:#?}");
}

/// An interval that reaches beyond the margin is no tie, as on the terminal.
#[test]
fn an_open_comparison_is_no_tie() {
    let header = Header { kind: Kind::Compare, margin: 0.02, ..Header::default() };
    let one = runs("one", 200.0, &[100.0, 130.0, 80.0, 125.0, 85.0, 120.0]);
    let said = all_findings(header, &[one, runs("other", 200.0, &[100.0; 6])]);
    let verdict = said.iter().find(|finding| finding.head == Head::Verdict).expect("there is one");
    assert!(verdict.text.contains("More pairs would tell: throughput (1."), "{said:#?}");
    assert!(!verdict.text.contains("tie"), "{said:#?}");
}

/// A comparison at a given rate has no finding on a peak, nor on the precision of the highest
/// throughput.
#[test]
fn a_comparison_reports_no_peak() {
    let told = |kind, served_share| {
        let mut runs = vec![runs("one", 200.0, &[200.0; 6]), runs("other", 200.0, &[200.0; 6])];
        for figures in runs.iter_mut().flatten().flat_map(|run| &mut run.figures) {
            figures.served_share = served_share;
            figures.error_share = 1.0 - served_share;
        }
        let said = all_findings(Header { kind, ..Header::default() }, &runs);
        said.into_iter().map(|finding| finding.text).collect::<Vec<_>>().join("\n")
    };
    let (study, comparison) = (told(Kind::Study, 1.0), told(Kind::Compare, 1.0));
    for part in ["the peak of one and other lies beyond", "highest throughputs are known to"] {
        assert!(study.contains(part), "{study}");
    }
    let failing = told(Kind::Compare, 0.9);
    assert!(failing.contains(": requests failed: 10 % at one and 10 % at other."), "{failing}");
    for text in [comparison, failing] {
        assert!(!text.contains("highest") && !text.contains("peak"), "{text}");
    }
}

/// The run of the second setting at a rate does not count for the first.
#[test]
fn a_setting_of_which_no_run_counts_is_named() {
    let of = |setting: &str, void: &[&str]| {
        let mut runs = runs("one", 100.0, &[90.0]);
        runs[0].point.setting = setting.into();
        runs[0].void = void.iter().map(|&reason| reason.into()).collect();
        runs
    };
    check(
        &[of("a", &["late"]), of("b", &[])],
        Head::NotObserved,
        "No run counts of one a at 100 (w, d).",
    );
}

/// The run that found the rate of a utilisation is none of the runs that were to be made at that
/// rate.
#[test]
fn a_rate_that_was_found_and_not_measured_is_reported() {
    let mut found = runs("one", 100.0, &[90.0]);
    found[0].purpose = Purpose::Utilisation(0.8);
    let mut measured = runs("one", 100.0, &[90.0, 90.0]);
    for run in &mut measured {
        run.void = vec!["late".into()];
    }
    check(&[found, measured], Head::NotObserved, "No run counts of one at 100 (w, d).");
}

/// A search of a server: the rate that held, and the rate that broke.
fn search(server: &str, held: f64, broke: Option<f64>) -> (Vec<Run>, Search) {
    let purpose = Purpose::Limit { block: 0 };
    let mut runs = runs(server, held, &[held]);
    runs[0].purpose = purpose.clone();
    let Point { server, workload, testbed, .. } = runs[0].point.clone();
    let (held_per_s, broke_per_s) = (held, broke);
    let generator_bound = broke.is_none();
    let rest = Search::default();
    let search = Search {
        purpose,
        server,
        workload,
        testbed,
        held_per_s,
        broke_per_s,
        generator_bound,
        ..rest
    };
    (runs, search)
}

/// The runs and the search of a server, moved to another block.
fn in_block(block: u32, (mut runs, search): (Vec<Run>, Search)) -> (Vec<Run>, Search) {
    let purpose = Purpose::Limit { block };
    for run in &mut runs {
        (run.purpose, run.block) = (purpose.clone(), block);
    }
    (runs, Search { purpose, block, ..search })
}

#[test]
fn single_searches_and_lower_bounds_prove_nothing() {
    let check = |one: (Vec<Run>, Search), two: (Vec<Run>, Search), head, part: &str| {
        let (runs, searches) = ([one.0, two.0].concat(), vec![one.1, two.1]);
        let opened = Opened { runs, searches, ..Opened::default() };
        let said = findings(&opened, &Summary::new(&opened));
        let found = said.iter().any(|f| f.head == head && f.text.contains(part));
        assert!(found, "{part:?} is not in {said:#?}");
    };
    let (fast, slow) = (|| search("fast", 200.0, Some(208.0)), search("slow", 100.0, Some(104.0)));
    let part = "but one search of each is too few";
    check(fast(), slow, Head::NotSupported, part);
    let bound = search("bound", 150.0, None);
    check(fast(), bound, Head::Verdict, "bound may serve more: what was seen is a lower bound");
    let high = search("high", 300.0, None);
    check(fast(), high, Head::NotSupported, "high seems to serve more than fast at its peak");
}

#[test]
fn servers_that_keep_up_are_not_ranked() {
    let one = runs("one", 100.0, &[100.0; 6]);
    let other = runs("other", 100.0, &[100.0; 6]);
    check(&[one, other], Head::Verdict, "no ranking by throughput");
}

/// The best kept up with all that was offered; the other reached its peak.
#[test]
fn a_lower_bound_is_reported_of_the_right_server() {
    let best = runs("best", 100.0, &[100.0, 99.5, 100.0, 99.0, 100.0, 99.5]);
    let other = runs("other", 100.0, &[98.0, 100.5, 98.0, 98.0, 100.5, 98.0]);
    let said = all_findings(Header::default(), &[best, other]);
    has(&said, "best may serve more than was seen, and so more than other.");
    assert!(!said.iter().any(|one| one.text.contains("other may serve")), "{said:#?}");
}

/// A floor that kept up with all that was offered may be far above it.
#[test]
fn the_distance_to_a_floor_whose_peak_was_not_seen_is_a_bound() {
    let column = |server: f64, floor: f64| {
        let runs = [runs("one", 100.0, &[server; 6]), runs("floor", 100.0, &[floor; 6])].concat();
        let header = Header { floor: "floor".into(), ..Header::default() };
        let opened = Opened { header, runs, ..Opened::default() };
        let table = tables::summary(&Summary::new(&opened).panels[0], 0.95, true);
        let at = table.heads.iter().position(|head| head == "of the floor's");
        let row = table.rows.iter().find(|row| row[0] == "one").expect("it ran");
        at.map(|at| row[at].clone()).unwrap_or_default()
    };
    assert_eq!(column(50.0, 80.0), "0.62");
    assert_eq!(column(50.0, 100.0), "≤ 0.50");
    assert_eq!(column(100.0, 100.0), "");
}

/// Throughputs of a server with 64 clients that wait for replies, block by block; the generator was
/// busy for the share `busy` of each window.
fn closed_runs(server: &str, throughputs: &[f64], busy: f64) -> Vec<Run> {
    let mut runs = runs(server, 64.0, throughputs);
    for run in &mut runs {
        run.point.offered = Offered::Connections(64);
        let figures = run.figures.as_mut().expect("it has some");
        (figures.kept_up_share, figures.client_busy_share) = (1.0, busy);
    }
    runs
}

#[test]
fn servers_whose_clients_wait_for_replies_are_ranked() {
    let fast = closed_runs("fast", &[110.0, 112.0, 111.0, 113.0, 110.0, 112.0], 0.5);
    let slow = closed_runs("slow", &[100.0, 101.0, 99.0, 100.0, 102.0, 100.0], 0.5);
    check(&[fast, slow], Head::Verdict, "It serves 1.11 [1.");
}

/// Of servers that were loaded together costs are compared, and no throughputs.
#[test]
fn servers_that_were_loaded_together_are_compared_by_their_costs() {
    let runs = |server: &str, costs: &[f64]| {
        let mut runs = closed_runs(server, &vec![100.0; costs.len()], 0.5);
        for (run, cost) in runs.iter_mut().zip(costs) {
            run.observed = [("cpu_us_per_request".to_owned(), *cost)].into();
        }
        runs
    };
    let header = Header { together: true, ..Header::default() };
    let costs = [10.0, 13.0, 11.0, 10.0, 12.0, 10.0];
    let times = |factor: f64| costs.map(|cost| cost * factor);
    let close = [10.2, 12.87, 11.22, 9.9, 12.24, 10.2];
    let all = [runs("dear", &times(1.5)), runs("least", &costs), runs("close", &close)];
    let said = all_findings(header.clone(), &all);
    has(&said, "least needs the least processor time, 10.5 [10.0, 12.6] us/request at 64 conn");
    has(&said, "Between least and close: a tie. dear needs 1.50 times as much.");
    has(&said, "say nothing of what a server can do by itself");
    assert!(!said.iter().any(|one| one.text.contains("highest throughput")), "{said:#?}");
    let few = [runs("dear", &[15.0, 16.0, 15.0]), runs("least", &[10.0, 11.0, 10.0])];
    let said = all_findings(header.clone(), &few);
    has(&said, "least seems to need less than dear, on too few pairs to be sure.");
    has(
        &said,
        "least has the lowest median processor time, 10.0 [10.0, 11.0] us/request at 64 \
         connections, but no other is certain to need more.",
    );
    let alone = all_findings(header.clone(), &few[1..]);
    has(&alone, "least needs the least processor time, 10.0 [10.0, 11.0] us/request at 64 conn");
    // The floor is no competitor.
    let header = Header { floor: "least".into(), ..header };
    let said = all_findings(header, &all);
    has(&said, "close needs the least processor time");
    has(&said, "The next, dear, needs 1.47 [1.47, 1.52] times as much.");
}

/// The best has the best median of all its blocks, and may be behind in those that both have.
#[test]
fn a_server_that_was_behind_in_pairs_does_not_seem_to_be_better() {
    let behind = [90.0, 91.0, 200.0, 201.0, 202.0];
    let said = all_findings(
        Header::default(),
        &[runs("one", 300.0, &behind), runs("two", 300.0, &[100.0, 101.0])],
    );
    assert!(!said.iter().any(|one| one.text.contains("seems to serve more")), "{said:#?}");
    has(&said, "Where both were measured, two did better: it is not decided.");

    let with_costs = |server: &str, costs: &[f64]| {
        let mut runs = closed_runs(server, &vec![100.0; costs.len()], 0.5);
        for (run, cost) in runs.iter_mut().zip(costs) {
            run.observed = [("cpu_us_per_request".to_owned(), *cost)].into();
        }
        runs
    };
    let all = [with_costs("one", &[20.0, 20.0, 9.0, 9.0, 9.0]), with_costs("two", &[18.0, 18.0])];
    let said = all_findings(Header { together: true, ..Header::default() }, &all);
    assert!(!said.iter().any(|one| one.text.contains("seems to need less")), "{said:#?}");
    has(&said, "Where both were measured, two did better: it is not decided.");
}

#[test]
fn the_next_is_the_one_with_the_next_highest_peak() {
    let first = runs("a", 200.0, &[111.0; 6]);
    let second = runs("b", 200.0, &[110.0, 112.0, 109.0, 113.0, 110.0, 112.0]);
    let third = runs("c", 200.0, &[100.0; 6]);
    let said = all_findings(Header::default(), &[first.clone(), second, third.clone()]);
    has(&said, "It serves 1.11 times the requests of c. Between a and b: a tie.");
    let said = all_findings(Header::default(), &[first, third, runs("d", 200.0, &[90.0; 6])]);
    has(&said, "It serves 1.11 times the requests of c, the next.");
}

#[test]
fn clients_without_time_left_are_reported() {
    let closed = |busy| all_findings(Header::default(), &[closed_runs("one", &[50.0; 6], busy)]);
    let told = |busy| {
        closed(busy)
            .iter()
            .any(|finding| finding.text.contains("no processor time left in runs of one"))
    };
    assert!(told(0.97) && !told(0.9));
    let mut begun = closed_runs("one", &[50.0], 0.97);
    begun[0].purpose = Purpose::Limit { block: 0 };
    let of_a_search = all_findings(Header::default(), std::slice::from_ref(&begun));
    assert!(!of_a_search.iter().any(|one| one.text.contains("no processor time")));
    let header = Header { kind: Kind::Compare, ..Header::default() };
    has(&all_findings(header, &[begun]), "no processor time left in runs of one");
}

/// A value that was missing when the study was begun has appeared since.
#[test]
fn what_a_machine_has_only_after_a_resume_is_a_change() {
    let first = serde_json::json!({ "kernel": "6.1", "recorded_at_s": 1 });
    let again = serde_json::json!({ "kernel": "6.1", "recorded_at_s": 2, "quota": "2" });
    let opened = Opened { environments: vec![first, again], ..Opened::default() };
    let part = "The study was resumed 1 time; the machine was not the same: quota changed.";
    has(&machine_findings(&opened), part);
}

#[test]
fn idle_connections_that_were_closed_are_reported() {
    let mut runs = runs("one", 100.0, &[100.0, 100.0]);
    let figures = runs[1].figures.as_mut().expect("it has some");
    (figures.idle_connections, figures.idle_closed) = (50, 7);
    let part = "one closed 7 of 50 idle connections before its runs were over";
    check(&[runs], Head::NotSupported, part);
}

#[test]
fn utilisations_without_a_rate_are_reported() {
    let looked_for = |rate: f64, busy: f64| {
        let mut run = runs("one", rate, &[rate]).remove(0);
        run.purpose = Purpose::Utilisation(0.8);
        run.observed = [("cpu_utilisation", busy), ("cpus_busy_share", busy + 0.2)]
            .map(|(name, share)| (name.to_owned(), share))
            .into();
        run
    };
    let begun = closed_runs("one", &[900.0], 0.5).remove(0);
    let tried = vec![begun, looked_for(500.0, 0.3), looked_for(700.0, 0.55)];
    let part = "one (w, d) was not measured at 80 % CPU, as was asked for: of the rates that were \
                tried the nearest, 700 requests/s, takes 55 %.";
    check(std::slice::from_ref(&tried), Head::NotObserved, part);
    let numbers = [("client_cpus".to_owned(), 0.0)].into();
    let shared = Described { name: "d".into(), numbers, ..Described::default() };
    let header = Header { testbeds: vec![shared], ..Header::default() };
    let of_both = all_findings(header, std::slice::from_ref(&tried));
    assert!(of_both.iter().any(|finding| finding.text.contains("takes 75 %.")), "{of_both:#?}");
    let named = [("a", &tried), ("b", &tried)].map(|(setting, runs)| {
        let mut runs = runs.clone();
        runs.iter_mut().for_each(|run| run.point.setting = setting.into());
        runs
    });
    check(&named, Head::NotObserved, "one b (w, d) was not measured at 80 % CPU");
    let found = [tried, vec![looked_for(1000.0, 0.81)]];
    let part = "1,000 requests/s were found to take 81 %, and the study ended before";
    check(&found, Head::NotObserved, part);
    let measured = [found.concat(), runs("one", 1000.0, &[1000.0; 6])];
    let said = all_findings(Header::default(), &measured);
    assert!(!said.iter().any(|finding| finding.text.contains("not measured")), "{said:#?}");
}

#[test]
fn void_runs_take_no_part_and_are_counted() {
    let mut run = runs("one", 100.0, &[1.0]);
    run[0].void = vec![Void::Ended { copy: 1, copies: 2 }];
    let mut again = run.clone();
    again[0].void = vec![Void::Ended { copy: 2, copies: 2 }];
    let said = all_findings(Header::default(), &[run, again]);
    let texts: Vec<&str> = said.iter().map(|finding| &*finding.text).collect();
    let void = "2 of 2 runs were void and take no part: copy 1 of 2 of the server has ended (2).";
    assert_eq!(texts, [void, "No run counts of one at 100 (w, d)."]);
}

/// Reasons are grouped by kind, whatever their words have in common; reasons from elsewhere, by
/// their words.
#[test]
fn void_runs_are_counted_by_the_kind_of_their_reason() {
    let check = |reasons: &[Void], expected: &str| {
        let of_run = |reason: &Void| {
            let mut run = runs("one", 100.0, &[1.0]);
            run[0].void = vec![reason.clone()];
            run
        };
        let runs: Vec<Vec<Run>> = reasons.iter().map(of_run).collect();
        let count = runs.len();
        let text = format!("{count} of {count} runs were void and take no part: {expected}.");
        has(&all_findings(Header::default(), &runs), &text);
    };
    let late = |p99_us| Void::Load(load::void::Void::Late { p99_us, bound_us: 4_000 });
    let lag = "generator saturated: its own lag is 5.000 ms at the 99th percentile, more than the \
               4.000 ms allowed";
    check(&["one".into(), late(5_000), late(7_250)], &format!("{lag} (2) and one (1)"));
    check(&["port 1".into(), "port 2".into()], "port 1 (1) and port 2 (1)");
    let no_load = |why: &str| Void::NoLoad(why.into());
    check(&[no_load("it ended"), no_load("it ended")], "it ended (2)");
    let part = "there was no load (2), the first time because: it ended";
    check(&[no_load("it ended"), no_load("404")], part);
}

/// Searches of a setting in a tuning, one in each of the blocks from 0 on.
fn setting(name: &str, rates: &[f64]) -> (Vec<Run>, Vec<Search>) {
    let named = |mut run: Run| {
        run.point.setting = name.into();
        run.point.knobs.insert("k".into(), name.into());
        run.purpose = Purpose::Race;
        run
    };
    let search = |(block, rate): (usize, &f64)| Search {
        purpose: Purpose::Race,
        block: block as u32,
        setting: name.into(),
        server: "s".into(),
        workload: "w".into(),
        testbed: "d".into(),
        held_per_s: *rate,
        broke_per_s: Some(rate * 1.02),
        ..Search::default()
    };
    let runs = runs("s", rates[0], rates).into_iter().map(named).collect();
    (runs, rates.iter().enumerate().map(search).collect())
}

/// The verdict on a tuning with these settings.
fn crowned(settings: Vec<(Vec<Run>, Vec<Search>)>, tuning: Option<Tuning>) -> String {
    let header = Header { kind: Kind::Tune, ..Header::default() };
    let (runs, searches): (Vec<_>, Vec<_>) = settings.into_iter().unzip();
    let (runs, searches) = (runs.concat(), searches.concat());
    let opened = Opened { header, runs, searches, tuning, ..Opened::default() };
    let said = findings(&opened, &Summary::new(&opened));
    assert_eq!(said[0].head, Head::Verdict);
    said[0].text.clone()
}

#[test]
fn a_lucky_setting_that_was_given_up_is_not_crowned() {
    let told = crowned(vec![setting("good", &[100.0; 6]), setting("lucky", &[140.0])], None);
    assert!(told.starts_with("w, d: the best of 2 settings is s good (k = good)"), "{told}");
}

/// In an interrupted tuning the setting with the highest median may be behind where both were
/// measured.
#[test]
fn a_setting_that_was_behind_in_pairs_is_not_said_to_be_better() {
    let high = [[100.0; 6].as_slice(), &[200.0; 7]].concat();
    let told = crowned(vec![setting("high", &high), setting("ahead", &[120.0; 6])], None);
    assert!(told.contains("ahead did better: it is not decided."), "{told}");
    assert!(!told.contains("better than"), "{told}");
}

#[test]
fn a_winner_that_was_not_driven_to_its_limit_is_said_to_be_none() {
    let (runs, mut searches) = setting("bound", &[100.0; 6]);
    for search in &mut searches {
        (search.generator_bound, search.broke_per_s) = (true, None);
    }
    let settings = vec![(runs, searches), setting("low", &[50.0; 6])];
    let told = crowned(settings, None);
    assert!(told.contains("(k = bound): ≥ 100 requests/s. It may sustain more"), "{told}");
    let (runs, mut searches) = setting("open", &[99.0; 6]);
    searches.iter_mut().for_each(|search| search.generator_bound = true);
    let told = crowned(vec![setting("good", &[100.0; 6]), (runs, searches)], None);
    assert!(told.contains("Whether it is better than s open is not decided"), "{told}");
}

/// A winner that has beaten the winner before it has fewer searches, and need not look better in
/// them.
#[test]
fn the_winner_is_the_one_that_the_tuning_has_named() {
    let settings = || {
        vec![
            setting("before", &[103.0; 20]),
            setting("winner", &[102.0; 5]),
            setting("tied", &[101.0; 5]),
            setting("near", &[101.0; 5]),
            setting("lucky", &[140.0]),
        ]
    };
    let rival = |setting: &str, outcome| Rival { setting: setting.into(), outcome };
    let rivals = vec![
        rival("near", RaceOutcome::Open),
        rival("tied", RaceOutcome::Tie),
        rival("before", RaceOutcome::Better),
    ];
    let tuning = Tuning { winner: "winner".into(), rivals };
    let told = crowned(settings(), Some(tuning.clone()));
    let last_race = "s winner (k = winner): 103 requests/s. A tie with s tied: any of these may be \
                     the best.";
    let others = " In its last race it was better than s before. Given up before: 1 other.";
    let undecided = format!(
        "w, d: which is best was not decided; ahead of 5 settings is {last_race} Too close to tell \
         from s near.{others}"
    );
    assert_eq!(told, undecided);
    let decided = Tuning { rivals: tuning.rivals[1..].to_vec(), ..tuning.clone() };
    let told = crowned(settings(), Some(decided));
    assert!(
        told.starts_with(&format!("w, d: the best of 5 settings is {last_race}{others}")[..90])
    );
    let unknown = Tuning { winner: "gone".into(), ..tuning };
    assert_eq!(crowned(settings(), Some(unknown)), crowned(settings(), None));
}

/// A search: the rate that held, the rate that broke, and why.
type Limit = (f64, Option<f64>, &'static str);

/// A study of searches, ten times each.
fn searched(servers: &[(&str, [Limit; 10])]) -> (Summary, Vec<Finding>) {
    let (mut runs, mut searches) = (Vec::new(), Vec::new());
    for (server, found) in servers {
        for (block, (held, broke, why)) in (0..).zip(found) {
            let (mut run, found) = in_block(block, search(server, *held, *broke));
            let generator_bound = *held > 0.0 && broke.is_none();
            let broken = [*why].map(str::to_owned).into_iter().filter(|why| !why.is_empty());
            let broken = broken.collect();
            searches.push(Search { broken, generator_bound, ..found });
            runs.append(&mut run);
        }
    }
    let header = Header { repetitions: 10, ..Header::default() };
    let opened = Opened { header, runs, searches, ..Opened::default() };
    let summary = Summary::new(&opened);
    let said = findings(&opened, &summary);
    (summary, said)
}

#[test]
fn limits_have_intervals_of_the_studys_confidence() {
    let width = |confidence: f64| {
        let searches = (0..10).map(|block| Search {
            purpose: Purpose::Limit { block },
            block,
            held_per_s: 100.0 + f64::from(block),
            broke_per_s: Some(101.0 + f64::from(block)),
            ..search("one", 1.0, None).1
        });
        let header = Header { repetitions: 10, confidence, ..Header::default() };
        let runs = search("one", 100.0, None).0;
        let opened = Opened { header, runs, searches: searches.collect(), ..Opened::default() };
        let peak = Summary::new(&opened).panels[0].series[0].peak().expect("all held something");
        peak.high - peak.low
    };
    assert!(width(0.99) > 1.5 * width(0.5), "{} {}", width(0.99), width(0.5));
}

#[track_caller]
fn has(said: &[Finding], part: &str) {
    assert!(said.iter().any(|one| one.text.contains(part)), "{part:?} is not in {said:#?}");
}

/// Five limits of one kind, and five of the other.
fn halves(one: Limit, other: Limit) -> [Limit; 10] {
    std::array::from_fn(|block| if block % 2 == 0 { one } else { other })
}

#[test]
fn searches_in_which_nothing_held_count() {
    let half = halves((100.0, Some(104.0), "p99"), (0.0, Some(1.0), "served=99%: 80%"));
    let (summary, said) = searched(&[("half", half), ("whole", [(90.0, Some(93.0), ""); 10])]);
    let peak = summary.panels[0].series[0].peak().expect("it held something");
    assert_eq!((peak.low, peak.found), (0.0, Found::Searched));
    assert!((50.0..52.0).contains(&peak.per_s), "{peak:?}");
    has(&said, "whole has the highest maximum achievable throughput");
    has(&said, "Between whole and half: a tie.");
    has(&said, "no rate was held by half in 5 of 10 searches (served=99%: 80%): such a search");
    let (summary, said) = searched(&[("none", [(0.0, Some(1.0), "errors"); 10])]);
    assert_eq!(summary.panels[0].series[0].peak().map(|peak| peak.high), Some(0.0));
    has(&said, "w, d: no rate was held by none (errors): such a search counts as 0.");
    assert!(!said.iter().any(|one| one.text.contains("highest maximum")), "{said:#?}");
}

#[test]
fn searches_that_the_generator_ended_count_as_lower_bounds() {
    let half = halves((100.0, None, ""), (100.0, Some(104.0), "p99"));
    let (summary, said) = searched(&[("half", half)]);
    let series = &summary.panels[0].series[0];
    assert_eq!(
        (series.limits.len(), series.peak().map(|peak| peak.found)),
        (10, Some(Found::AtLeast))
    );
    has(&said, "the generator, not the server, was the limit of half in 5 of 10 searches.");
    // A lower bound that lies above the median does not move it.
    let mut found = [(100.0, Some(104.0), "p99"); 10];
    found[3] = (130.0, None, "");
    let (summary, _) = searched(&[("once", found)]);
    let peak = summary.panels[0].series[0].peak().expect("it held something");
    assert_eq!((peak.found, peak.per_s.round()), (Found::Searched, 102.0));
    // With an even number the median lies between two limits, and moves with the higher of them.
    let found = halves((100.0, Some(104.0), "p99"), (130.0, None, ""));
    let (summary, _) = searched(&[("half", found)]);
    let peak = summary.panels[0].series[0].peak().expect("it held something");
    assert_eq!((peak.found, peak.per_s.round()), (Found::AtLeast, 116.0));
}

/// The medians of both are known, but not which server is ahead in each block.
#[test]
fn blocks_that_may_be_higher_decide_nothing() {
    let some = |at: usize, low: Limit, high: Limit| -> [Limit; 10] {
        std::array::from_fn(|block| if block < at { low } else { high })
    };
    let one = some(6, (1000.0, Some(1040.0), "p99"), (2000.0, None, ""));
    let other = some(6, (1100.0, Some(1144.0), "p99"), (2200.0, Some(2288.0), "p99"));
    let (_, said) = searched(&[("one", one), ("other", other)]);
    has(&said, "Between other and one it is open");
    // A server that is ahead regardless of the bounds is reported.
    let one = some(8, (1000.0, Some(1040.0), "p99"), (2000.0, None, ""));
    let (_, said) = searched(&[("one", one), ("other", [(2200.0, Some(2288.0), "p99"); 10])]);
    has(&said, "It serves 2.2");
}

#[test]
fn of_a_server_that_never_ran_no_rate_is_known() {
    let dead = [(0.0, None, "it does not start:\nno such file"); 10];
    let bound = |rate| [(rate, None, ""); 10];
    let (summary, said) =
        searched(&[("dead", dead), ("one", bound(100.0)), ("other", bound(90.0))]);
    assert_eq!(summary.panels[0].series[0].peak(), None);
    has(&said, "searches that found no limit do not count: dead (it does not start:).");
    has(&said, "All servers but dead may serve more than was seen: no rate is known to break");
    has(&said, "rest on fewer searches than the 10 that were asked for: dead (0).");
}
