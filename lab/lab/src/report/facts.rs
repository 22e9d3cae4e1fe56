//! The headline figures of a report: the few numbers that a reader comes for. All functions are
//! pure.

use std::collections::BTreeMap;

use page::document::Fact;
use statistics::Estimate;

use super::comparison::{Comparison, Verdict, by_cost, candidates, no_peak_was_seen, ranked};
use super::findings::{by_measure, common, keep_up};
use super::measure::Measure;
use super::number;
use super::summary::{Panel, Peak, Series, Summary};
use super::tables::cpu_by_floor;
use crate::compare::{RatioVerdict, judge_ratio};
use crate::record::{Header, Kind, Opened};

/// Makes the headline figures.
pub(crate) fn facts(opened: &Opened, summary: &Summary) -> Vec<Fact> {
    let header = &opened.header;
    let panels: Vec<&Panel> = summary.panels.iter().filter(|panel| !panel.is_empty()).collect();
    let mut facts = match header.kind {
        Kind::Compare => compared(header, &panels, summary.confidence),
        Kind::Tune => tuned(&panels, summary.confidence),
        Kind::Study | Kind::Cache if header.together => together(&panels, summary.confidence),
        Kind::Study | Kind::Cache => studied(&panels, summary.confidence),
    };
    facts.extend(void_runs(opened));
    facts
}

fn void_runs(opened: &Opened) -> Option<Fact> {
    let (void, all) =
        (opened.runs.iter().filter(|run| !run.void.is_empty()).count(), opened.runs.len());
    let note = if void == 0 { "all of them count" } else { "they take no part" };
    (all > 0).then(|| Fact::new("Void runs", format!("{void} of {all}"), note))
}

/// The server that is certainly better than all others in most panels, if there are several panels.
/// `best` has such a server for each of them, or none.
fn most_often_ahead(best: &[Option<String>]) -> Option<Fact> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    best.iter().flatten().for_each(|name| *counts.entry(name).or_default() += 1);
    let most = counts.values().copied().max().unwrap_or(0);
    let names = counts.iter().filter(|(_, count)| **count == most).map(|(name, _)| *name);
    let names: Vec<&str> = names.collect();
    let note = match most {
        0 => format!("in any of {} workloads and testbeds", best.len()),
        _ => format!("in {most} of {} workloads and testbeds", best.len()),
    };
    let value = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    (best.len() > 1).then(|| Fact::new("Ahead of all others", value, note))
}

/// Whether the first of two is better beyond doubt.
fn is_ahead(pair: Option<Comparison>, more_is_better: bool) -> bool {
    pair.is_some_and(|pair| {
        pair.verdict == Verdict::Differ && (pair.ratio.median > 1.0) == more_is_better
    })
}

/// The figures of the best server of the first panel.
fn studied(panels: &[&Panel], confidence: f64) -> Vec<Fact> {
    let ranked_all = || panels.iter().map(|panel| (panel, ranked(panel)));
    let ahead = |(_, ranked): (_, Vec<(&Series, Peak)>)| {
        let ((best, _), others) = ranked.split_first()?;
        let is_behind = |other| match Comparison::compare_peaks(best, other, confidence) {
            // To a server that served nothing there is no ratio, but from it.
            None => is_ahead(Comparison::compare_peaks(other, best, confidence), false),
            pair => is_ahead(pair, true),
        };
        others.iter().all(|(other, _)| is_behind(other)).then(|| best.name.clone())
    };
    let contested = ranked_all().filter(|(_, ranked)| ranked.len() > 1);
    let best: Vec<Option<String>> = contested.map(ahead).collect();
    let mut facts: Vec<Fact> = most_often_ahead(&best).into_iter().collect();
    let first = ranked_all().find(|(_, ranked)| ranked.first().is_some_and(|(_, p)| p.per_s > 0.0));
    let Some((panel, ranked)) = first else { return facts };
    let (best, peak) = &ranked[0];
    if no_peak_was_seen(&ranked) {
        facts.push(Fact::new("Highest throughput", "not seen", "all may serve more"));
        let cost = |one: &Series| one.at_peak()?.median(Measure::CpuPerRequest);
        let costs = ranked.iter().filter_map(|(one, _)| Some((cost(one)?, *one)));
        let least = costs.min_by(|(a, _), (b, _)| a.total_cmp(b));
        facts.extend(least.and_then(|(_, series)| cost_of(series)));
        facts.extend(least.and_then(|(_, series)| distance(panel, series, confidence)));
        return facts;
    }
    if ranked.len() > 1 {
        facts.push(Fact::new("Most requests", best.name.clone(), panel.title()));
    }
    facts.push(highest(peak, &best.name));
    if let Some((next, _)) = ranked.get(1)
        && let Some(pair) = Comparison::compare_peaks(best, next, confidence)
    {
        let note = format!("{} of {}: {}", pair.shown(), next.name, decided(pair.verdict));
        facts.push(Fact::new("Against the next", times(pair.ratio.median), note));
    }
    facts.extend(cost_of(best));
    facts.extend(distance(panel, best, confidence));
    facts
}

/// A peak, with its interval if it has one.
fn highest(peak: &Peak, whose: &str) -> Fact {
    let bounds = number::bounds(peak.per_s, peak.low, peak.high, number::figure);
    let value = format!("{}{} /s", peak.found.sign(), number::figure(peak.per_s));
    Fact::new("Highest throughput", value, with_bounds(whose, bounds))
}

/// The processor time of a request at the peak of a series.
fn cost_of(series: &Series) -> Option<Fact> {
    let Estimate { median, interval, .. } =
        *series.at_peak()?.estimates.get(&Measure::CpuPerRequest)?;
    let bounds = number::bounds(median, interval.low, interval.high, number::figure);
    let value = format!("{} us", number::figure(median));
    Some(Fact::new("CPU per request", value, with_bounds(&series.name, bounds)))
}

fn with_bounds(name: &str, bounds: Option<String>) -> String {
    bounds.map_or_else(|| name.to_owned(), |bounds| format!("{name} {bounds}"))
}

fn decided(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Differ => "certain",
        Verdict::Tie => "a tie",
        Verdict::Indicated => "too few pairs to be sure",
        Verdict::NotReached => "not decided",
    }
}

fn times(ratio: f64) -> String {
    format!("{} times", number::ratio(ratio))
}

/// The distance of a server to the floor, in processor time.
fn distance(panel: &Panel, series: &Series, confidence: f64) -> Option<Fact> {
    let floor = panel.floor().filter(|floor| floor.name != series.name)?;
    let ratio = cpu_by_floor(series, floor, confidence)?;
    let note = format!("the CPU of {}: {}", floor.name, number::estimate(&ratio, number::ratio));
    Some(Fact::new("Distance to the floor", times(ratio.median), note))
}

/// The figures of servers that were loaded together: costs.
fn together(panels: &[&Panel], confidence: f64) -> Vec<Fact> {
    let all: Vec<(&Panel, Vec<(&Series, Estimate)>)> =
        panels.iter().map(|panel| (*panel, by_cost(panel))).collect();
    let contested = all.iter().filter(|(_, costs)| costs.len() > 1);
    let best = contested.map(|(panel, costs)| cheapest(panel, costs, confidence));
    let best: Vec<Option<String>> = best.collect();
    let mut facts: Vec<Fact> = most_often_ahead(&best).into_iter().collect();
    let Some((panel, costs)) = all.iter().find(|(_, costs)| !costs.is_empty()) else {
        return facts;
    };
    let (best, least) = &costs[0];
    facts.push(Fact::new(
        "Least CPU per request",
        format!("{} us", number::figure(least.median)),
        format!("{}, {}", best.name, panel.title()),
    ));
    if let Some((next, _)) = costs.get(1)
        && let Some(pair) = Comparison::compare_costs(panel, (next, best), confidence)
    {
        let note = format!("{} in {}: {}", pair.shown(), next.name, decided(pair.verdict));
        facts.push(Fact::new("The next needs", times(pair.ratio.median), note));
    }
    facts.extend(distance(panel, best, confidence));
    facts
}

/// The first of the series, ordered by cost, if it certainly needs less than all others.
fn cheapest(panel: &Panel, costs: &[(&Series, Estimate)], confidence: f64) -> Option<String> {
    let ((best, _), others) = costs.split_first()?;
    let is_less = |(other, _): &(&Series, Estimate)| {
        is_ahead(Comparison::compare_costs(panel, (best, other), confidence), false)
    };
    others.iter().all(is_less).then(|| best.name.clone())
}

/// The figures of a comparison: the ratios of the first panel, and of others by what says nothing
/// there.
fn compared(header: &Header, panels: &[&Panel], confidence: f64) -> Vec<Fact> {
    let mut facts: Vec<Fact> = Vec::new();
    for panel in panels {
        let others = panel.series.iter().filter(|one| one.server != header.floor);
        let [first, second, ..] = others.collect::<Vec<_>>()[..] else { continue };
        let Some((own, others)) = common(first, second) else { continue };
        let mut place = String::new();
        if facts.is_empty() {
            let load = format!("{} {}", number::plain(own.offered), panel.unit());
            let both = if keep_up(panel, [own, others]) { ": both keep up" } else { "" };
            facts.push(Fact::new("The same load of both", load, panel.title() + both));
        } else {
            place = format!("; {}", panel.title());
        }
        for compared in by_measure(panel, (first, own), (second, others), confidence) {
            let mut name = compared.name;
            name[..1].make_ascii_uppercase();
            if facts.iter().all(|fact| fact.name != name) {
                let better = if compared.first_is_better { first } else { second };
                let outcome = outcome(&compared.pair, &better.name, header.margin, confidence);
                let shown = compared.pair.shown();
                let note = format!("{shown}, {} to {}: {outcome}{place}", first.name, second.name);
                facts.push(Fact::new(&name, times(compared.pair.ratio.median), note));
            }
        }
    }
    facts
}

/// What a ratio of a comparison says; `better` is the one that is ahead by it.
fn outcome(pair: &Comparison, better: &str, margin: f64, confidence: f64) -> String {
    match judge_ratio(pair.ratio.interval, margin, pair.pairs.unwrap_or(0), confidence) {
        RatioVerdict::Higher | RatioVerdict::Lower => format!("{better} is better"),
        RatioVerdict::Tie => "a tie".into(),
        RatioVerdict::Open | RatioVerdict::TooFew => "not decided".into(),
    }
}

/// The figures of a tuning: the setting that it names, or the best so far.
fn tuned(panels: &[&Panel], confidence: f64) -> Vec<Fact> {
    let Some(panel) = panels.first() else { return Vec::new() };
    let tried = Fact::new("Settings tried", panel.series.len().to_string(), "");
    let (fair, _) = candidates(panel);
    let Some(((best, peak), others)) = fair.split_first() else { return vec![tried] };
    let knobs = best.knobs.iter().filter(|(_, value)| !value.is_empty());
    let knobs: Vec<String> = knobs.map(|(knob, value)| format!("{knob} = {value}")).collect();
    let is_open = panel.tuning.as_ref().is_some_and(|tuning| !tuning.is_decided());
    let name = if is_open { "Ahead, but not decided" } else { "Best setting" };
    let mut facts =
        vec![Fact::new(name, best.name.clone(), knobs.join(", ")), highest(peak, &panel.title())];
    let lowest = others.iter().min_by(|(_, a), (_, b)| a.per_s.total_cmp(&b.per_s));
    if let Some((lowest, _)) = lowest
        && let Some(pair) = Comparison::compare_peaks(best, lowest, confidence)
    {
        let note = format!(
            "{} of {}, the lowest tried: {}",
            pair.shown(),
            lowest.name,
            decided(pair.verdict)
        );
        facts.push(Fact::new("Best against lowest", times(pair.ratio.median), note));
    }
    facts.push(tried);
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Figures, Offered, Point, Run};
    use crate::void::Void;

    fn run(server: &str, workload: &str, throughput_per_s: f64, cost_us: f64) -> Run {
        Run {
            point: Point {
                server: server.into(),
                workload: workload.into(),
                offered: Offered::Connections(64),
                ..Point::default()
            },
            observed: [("cpu_us_per_request".to_owned(), cost_us)].into(),
            figures: Some(Figures { throughput_per_s, ..Figures::default() }),
            ..Run::default()
        }
    }

    fn sentences(header: Header, runs: Vec<Run>) -> Vec<String> {
        let opened = Opened { header, runs, ..Opened::default() };
        let facts = facts(&opened, &Summary::new(&opened));
        facts.into_iter().map(|fact| format!("{}: {}", fact.name, fact.value)).collect()
    }

    #[test]
    fn a_study_has_the_best_its_distance_and_void_runs() {
        let header = || Header { floor: "floor".into(), ..Header::default() };
        let mut runs = vec![
            run("floor", "w", 200.0, 5.0),
            run("one", "w", 100.0, 10.0),
            run("two", "w", 80.0, 12.0),
        ];
        runs.push(Run { void: vec![Void::from("late")], ..run("two", "w", 1.0, 1.0) });
        let expected = [
            "Most requests: one",
            "Highest throughput: 100 /s",
            "Against the next: 1.25 times",
            "CPU per request: 10.0 us",
            "Distance to the floor: 2.00 times",
            "Void runs: 1 of 4",
        ];
        assert_eq!(sentences(header(), runs.clone()), expected);
        runs.extend([run("one", "x", 100.0, 10.0), run("two", "x", 80.0, 12.0)]);
        let several = sentences(header(), runs);
        assert_eq!(several[0], "Ahead of all others: none", "one pair proves nothing");
    }

    /// Where all kept up, the verdict ranks none by throughput, and neither do the figures.
    #[test]
    fn a_peak_that_was_not_seen_is_no_figure() {
        let keeping_up = |server: &str, cost_us: f64| {
            let mut run = run(server, "w", 100.0, cost_us);
            run.point.offered = Offered::RequestsPerS(100.0);
            let figures = run.figures.as_mut().expect("it has some");
            (figures.kept_up_share, figures.served_share) = (1.0, 1.0);
            run
        };
        let told =
            sentences(Header::default(), vec![keeping_up("one", 12.0), keeping_up("two", 10.0)]);
        let expected =
            ["Highest throughput: not seen", "CPU per request: 10.0 us", "Void runs: 0 of 2"];
        assert_eq!(told, expected);
    }

    #[test]
    fn servers_that_shared_a_cpu_have_no_highest_throughput() {
        let header = Header { together: true, ..Header::default() };
        let told =
            sentences(header, vec![run("one", "w", 100.0, 10.0), run("two", "w", 200.0, 12.0)]);
        let expected =
            ["Least CPU per request: 10.0 us", "The next needs: 1.20 times", "Void runs: 0 of 2"];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_comparison_has_ratios_and_no_highest_throughput() {
        let header = Header { kind: Kind::Compare, ..Header::default() };
        let told =
            sentences(header, vec![run("one", "w", 100.0, 10.0), run("two", "w", 200.0, 20.0)]);
        let expected = [
            "The same load of both: 64 connections",
            "Throughput: 0.50 times",
            "CPU time per request: 0.50 times",
            "Void runs: 0 of 2",
        ];
        assert_eq!(told, expected);
    }

    /// Runs of six blocks.
    fn blocks(server: &str, workload: &str, throughput_per_s: f64, cost_us: f64) -> Vec<Run> {
        let of_block = |block| Run { block, ..run(server, workload, throughput_per_s, cost_us) };
        (0..6).map(of_block).collect()
    }

    #[test]
    fn a_server_that_served_nothing_is_behind_in_all_places() {
        let runs = ["w", "x"].map(|workload| {
            [blocks("one", workload, 100.0, 1.0), blocks("none", workload, 0.0, 1.0)].concat()
        });
        let told = sentences(Header::default(), runs.concat());
        assert_eq!(told[0], "Ahead of all others: one");
    }

    #[test]
    fn a_single_server_is_not_said_to_be_ahead() {
        let runs = ["w", "x"].map(|workload| blocks("one", workload, 100.0, 1.0)).concat();
        let expected =
            ["Highest throughput: 100 /s", "CPU per request: 1 us", "Void runs: 0 of 12"];
        assert_eq!(sentences(Header::default(), runs.clone()), expected);
        let together = Header { together: true, ..Header::default() };
        assert_eq!(sentences(together, runs)[0], "Least CPU per request: 1 us");
    }

    /// At a rate that both keep up with each serves what is offered.
    #[test]
    fn a_comparison_has_the_throughput_of_servers_that_did_not_keep_up() {
        let keeping_up = |server: &str| {
            let mut runs = blocks(server, "w", 100.0, 10.0);
            for run in &mut runs {
                run.point.offered = Offered::RequestsPerS(100.0);
                let figures = run.figures.as_mut().expect("it has some");
                (figures.kept_up_share, figures.served_share) = (1.0, 1.0);
            }
            runs
        };
        let header = || Header { kind: Kind::Compare, ..Header::default() };
        let rate = [keeping_up("one"), keeping_up("two")].concat();
        let mut expected = vec![
            "The same load of both: 100 requests/s",
            "CPU time per request: 1.00 times",
            "Void runs: 0 of 12",
        ];
        assert_eq!(sentences(header(), rate.clone()), expected);
        let closed = [blocks("one", "w", 300.0, 10.0), blocks("two", "w", 200.0, 10.0)].concat();
        expected.insert(2, "Throughput: 1.50 times");
        expected[3] = "Void runs: 0 of 24";
        assert_eq!(sentences(header(), [rate, closed].concat()), expected);
    }

    /// As in the verdict, a setting that neglects kinds of file is not the best.
    #[test]
    fn a_tuning_has_the_setting_that_its_verdict_has() {
        let setting = |setting: &str, throughput_per_s: f64, spread: f64| {
            let mut runs = blocks("s", "w", throughput_per_s, 10.0);
            for run in &mut runs {
                run.point.setting = setting.into();
                run.figures.as_mut().expect("it has some").spread_points = Some(spread);
            }
            runs
        };
        let header = || Header { kind: Kind::Tune, ..Header::default() };
        let (greedy, fair) = (setting("greedy", 200.0, 30.0), setting("fair", 100.0, 0.0));
        let slow = setting("slow", 80.0, 0.0);
        let expected = [
            "Best setting: s fair",
            "Highest throughput: 100 /s",
            "Best against lowest: 1.25 times",
            "Settings tried: 3",
            "Void runs: 0 of 18",
        ];
        assert_eq!(sentences(header(), [greedy.clone(), fair, slow].concat()), expected);
        assert_eq!(sentences(header(), greedy), ["Settings tried: 1", "Void runs: 0 of 6"]);
    }
}
