//! What is said of a handful of runs.

use super::*;
use crate::record::{Ceiling, Described, Figures, Header, Offered, Point, Run, Search};

/// Throughputs of a server at what was offered, block by block.
fn runs(server: &str, offered: f64, throughputs: &[f64]) -> Vec<Run> {
    let run = |(block, throughput): (usize, &f64)| Run {
        point: Point {
            server: server.into(),
            workload: "w".into(),
            domain: "d".into(),
            offered: Offered::RequestsPerS(offered),
            ..Point::default()
        },
        block: block as u32,
        figures: Some(Figures {
            throughput_per_s: *throughput,
            kept_up_share: throughput / offered,
            ..Figures::default()
        }),
        ..Run::default()
    };
    throughputs.iter().enumerate().map(run).collect()
}

fn said(header: Header, runs: &[Vec<Run>]) -> Vec<Finding> {
    let ceilings = vec![("d".to_owned(), Ceiling { bytes_per_s: 1e12, requests_per_s: 1e9 })];
    let opened = Opened { header, runs: runs.concat(), ceilings, ..Opened::default() };
    findings(&opened, &Summary::of(&opened))
}

#[track_caller]
fn check(runs: &[Vec<Run>], head: Head, part: &str) {
    let said = said(Header::default(), runs);
    let found = said.iter().any(|finding| finding.head == head && finding.text.contains(part));
    assert!(found, "{head:?} {part:?} is not in {said:#?}");
}

#[test]
fn six_blocks_that_agree_are_a_difference() {
    let fast = runs("fast", 200.0, &[110.0, 112.0, 111.0, 113.0, 110.0, 112.0]);
    let slow = runs("slow", 200.0, &[100.0, 101.0, 99.0, 100.0, 102.0, 100.0]);
    check(&[fast, slow], Head::Supported, "fast serves 1.11 [1.");
}

#[test]
fn few_blocks_that_agree_only_seem_to() {
    let fast = runs("fast", 200.0, &[110.0, 112.0, 111.0]);
    let slow = runs("slow", 200.0, &[100.0, 101.0, 99.0]);
    let part = "3 pairs are too few: as many agree by chance once in 4 times";
    check(&[fast, slow], Head::NotSupported, part);
}

#[test]
fn an_interval_that_holds_1_is_a_tie() {
    let one = runs("one", 200.0, &[100.0, 104.0, 98.0, 103.0, 99.0, 102.0]);
    let other = runs("other", 200.0, &[101.0, 99.0, 102.0, 98.0, 103.0, 100.0]);
    check(&[one, other], Head::Supported, "Between one and other: a tie.");
}

#[test]
fn servers_that_keep_up_are_not_ranked() {
    let one = runs("one", 100.0, &[100.0; 6]);
    let other = runs("other", 100.0, &[100.0; 6]);
    check(&[one, other], Head::NotSupported, "no ranking by throughput");
}

/// The same of clients that wait for replies.
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
    check(&[fast, slow], Head::Supported, "fast serves 1.11 [1.");
}

#[test]
fn clients_without_time_left_are_told() {
    let closed = |busy| said(Header::default(), &[closed_runs("one", &[50.0; 6], busy)]);
    let told = |busy| {
        closed(busy)
            .iter()
            .any(|finding| finding.text.contains("no processor time left in runs of one"))
    };
    assert!(told(0.97) && !told(0.9));
}

#[test]
fn idle_connections_that_were_closed_are_told() {
    let mut runs = runs("one", 100.0, &[100.0, 100.0]);
    let figures = runs[1].figures.as_mut().expect("it has some");
    (figures.idle_connections, figures.idle_closed) = (50, 7);
    let part = "one closed 7 of 50 idle connections before its runs were over";
    check(&[runs], Head::NotSupported, part);
}

#[test]
fn utilisations_without_a_rate_are_told() {
    let looked_for = |rate: f64, busy: f64| {
        let mut run = runs("one", rate, &[rate]).remove(0);
        run.purpose = "rate for utilisation 0.8".into();
        run.observed = [("cpu_utilisation", busy), ("cpus_busy_share", busy + 0.2)]
            .map(|(name, share)| (name.to_owned(), share))
            .into();
        run
    };
    let begun = closed_runs("one", &[900.0], 0.5).remove(0);
    let tried = vec![begun, looked_for(500.0, 0.3), looked_for(700.0, 0.55)];
    let part = "one (w, d) was not measured at 80 % CPU, as was asked for: of the rates that were \
                tried the nearest, 700 requests/s, takes 55 %.";
    check(std::slice::from_ref(&tried), Head::NotSeen, part);
    let numbers = [("client_cpus".to_owned(), 0.0)].into();
    let shared = Described { name: "d".into(), numbers, ..Described::default() };
    let header = Header { domains: vec![shared], ..Header::default() };
    let of_both = said(header, std::slice::from_ref(&tried));
    assert!(of_both.iter().any(|finding| finding.text.contains("takes 75 %.")), "{of_both:#?}");
    let found = [tried, vec![looked_for(1000.0, 0.81)]];
    let part = "1,000 requests/s were found to take 81 %, and the study ended before";
    check(&found, Head::NotSeen, part);
    let measured = [found.concat(), runs("one", 1000.0, &[1000.0; 6])];
    let said = said(Header::default(), &measured);
    assert!(!said.iter().any(|finding| finding.text.contains("not measured")), "{said:#?}");
}

#[test]
fn void_runs_take_no_part_and_are_counted() {
    let mut run = runs("one", 100.0, &[1.0]);
    run[0].void = vec!["late by 3.5 ms".into()];
    let mut again = run.clone();
    again[0].void = vec!["late by 7.25 ms".into()];
    let said = said(Header::default(), &[run, again]);
    let texts: Vec<&str> = said.iter().map(|finding| &*finding.text).collect();
    let void = "2 of 2 runs were void and take no part: late by 3.5 ms (2).";
    assert_eq!(texts, [void, "No run counts of one at 100 (w, d)."]);
}

#[test]
fn a_lucky_setting_that_was_given_up_is_not_crowned() {
    let setting = |name: &str, rates: &[f64]| -> (Vec<Run>, Vec<Search>) {
        let named = |mut run: Run| {
            run.point.setting = name.into();
            run.point.knobs.insert("k".into(), name.into());
            run.purpose = "race".into();
            run
        };
        let search = |(block, rate): (usize, &f64)| Search {
            purpose: format!("race {block}"),
            setting: name.into(),
            server: "s".into(),
            workload: "w".into(),
            domain: "d".into(),
            held_per_s: *rate,
            broke_per_s: Some(rate * 1.02),
            ..Search::default()
        };
        let runs = runs("s", rates[0], rates).into_iter().map(named).collect();
        (runs, rates.iter().enumerate().map(search).collect())
    };
    let (first, second) = (setting("good", &[100.0; 6]), setting("lucky", &[140.0]));
    let header = Header { kind: Kind::Tune, ..Header::default() };
    let (runs, searches) = ([first.0, second.0].concat(), [first.1, second.1].concat());
    let opened = Opened { header, runs, searches, ..Opened::default() };
    let said = findings(&opened, &Summary::of(&opened));
    assert_eq!(said[0].head, Head::Verdict);
    assert!(
        said[0].text.starts_with("w, d: the best of 2 settings is s good (k = good)"),
        "{said:?}"
    );
}
