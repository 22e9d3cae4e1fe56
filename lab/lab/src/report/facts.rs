//! The headline figures of a report: the few numbers that a reader comes for. All functions are
//! pure.

use std::collections::BTreeMap;

use page::document::Fact;

use super::comparison::{Comparison, Verdict, ranked};
use super::figures::cell;
use super::findings::{COMPARED, common, common_load};
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
        Kind::Tune => tuned(&panels),
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
    let ahead = |panel: &&Panel| {
        let ranked = ranked(panel);
        let ((best, _), others) = ranked.split_first()?;
        let compare = |other| Comparison::compare_peaks(best, other, confidence);
        let is_ahead = others.iter().all(|(other, _)| is_ahead(compare(other), true));
        (is_ahead && !others.is_empty()).then(|| best.name.clone())
    };
    let mut facts: Vec<Fact> =
        most_often_ahead(&panels.iter().map(ahead).collect::<Vec<_>>()).into_iter().collect();
    let first = ranked_all().find(|(_, ranked)| ranked.first().is_some_and(|(_, p)| p.per_s > 0.0));
    let Some((panel, ranked)) = first else { return facts };
    let (best, peak) = &ranked[0];
    if ranked.len() > 1 && ranked.iter().all(|(_, peak)| peak.found.is_lower_bound()) {
        facts.push(Fact::new("Highest throughput", "not seen", "all may serve more"));
        let cost = |one: &Series| one.at_peak()?.median(Measure::CpuPerRequest);
        let costs = ranked.iter().filter_map(|(one, _)| Some((cost(one)?, *one)));
        let least = costs.min_by(|(a, _), (b, _)| a.total_cmp(b));
        facts.extend(least.and_then(|(_, series)| cost_of(series)));
        facts.extend(least.and_then(|(_, series)| distance(panel, series, confidence)));
        return facts;
    }
    facts.push(Fact::new("Most requests", best.name.clone(), panel.title()));
    facts.push(highest(peak, &best.name));
    if let Some((next, _)) = ranked.get(1)
        && let Some(pair) = Comparison::compare_peaks(best, next, confidence)
    {
        let interval = number::estimate(&pair.ratio, number::ratio);
        let note = format!("{interval} of {}: {}", next.name, decided(pair.verdict));
        facts.push(Fact::new("Against the next", times(pair.ratio.median), note));
    }
    facts.extend(cost_of(best));
    facts.extend(distance(panel, best, confidence));
    facts
}

/// A peak, with its interval if it has one.
fn highest(peak: &Peak, whose: &str) -> Fact {
    let shown = number::interval(peak.per_s, peak.low, peak.high, number::figure);
    let (value, interval) = shown.split_once(' ').unwrap_or((&shown, ""));
    let value = format!("{}{value} /s", peak.found.sign());
    Fact::new("Highest throughput", value, format!("{whose} {interval}").trim_end())
}

/// The processor time of a request at the peak of a series.
fn cost_of(series: &Series) -> Option<Fact> {
    let shown = cell(series.at_peak()?, Measure::CpuPerRequest);
    let (value, interval) = shown.split_once(' ').unwrap_or((&shown, ""));
    let note = format!("{} {interval}", series.name);
    (!value.is_empty())
        .then(|| Fact::new("CPU per request", format!("{value} us"), note.trim_end()))
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
    let shown = cpu_by_floor(series, floor, confidence);
    let (value, _) = shown.split_once(' ').unwrap_or((&shown, ""));
    let note = format!("the CPU of {}: {shown}", floor.name);
    (!shown.is_empty()).then(|| Fact::new("Distance to the floor", format!("{value} times"), note))
}

/// The figures of servers that were loaded together: costs.
fn together(panels: &[&Panel], confidence: f64) -> Vec<Fact> {
    let by_cost = |panel: &&Panel| -> Vec<(f64, String)> {
        let Some(load) = common_load(panel) else { return Vec::new() };
        let others = panel.series.iter().filter(|one| Some(&one.name) != panel.floor.as_ref());
        let costs = others.filter_map(|series| {
            let cost = series.point_at(load)?.median(Measure::CpuPerRequest)?;
            Some((cost, series.name.clone()))
        });
        let mut costs: Vec<(f64, String)> = costs.collect();
        costs.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        costs
    };
    let all: Vec<(&&Panel, Vec<(f64, String)>)> =
        panels.iter().map(|panel| (panel, by_cost(panel))).collect();
    let mut facts: Vec<Fact> = most_often_ahead(
        &all.iter().map(|(panel, costs)| cheapest(panel, costs, confidence)).collect::<Vec<_>>(),
    )
    .into_iter()
    .collect();
    let Some((panel, costs)) = all.iter().find(|(_, costs)| !costs.is_empty()) else {
        return facts;
    };
    let (least, name) = &costs[0];
    let place = panel.title();
    facts.push(Fact::new(
        "Least CPU per request",
        format!("{} us", number::figure(*least)),
        format!("{name}, {place}"),
    ));
    if let Some((_, next)) = costs.get(1)
        && let Some(pair) = compare_costs(panel, (next, name), confidence)
    {
        let interval = number::estimate(&pair.ratio, number::ratio);
        let note = format!("{interval} in {next}: {}", decided(pair.verdict));
        facts.push(Fact::new("The next needs", times(pair.ratio.median), note));
    }
    let series = panel.series.iter().find(|series| series.name == *name);
    facts.extend(series.and_then(|series| distance(panel, series, confidence)));
    facts
}

/// The first of the series, ordered by cost, if it certainly needs less than all others.
fn cheapest(panel: &Panel, costs: &[(f64, String)], confidence: f64) -> Option<String> {
    let ((_, best), others) = costs.split_first()?;
    let is_less = |(_, other): &(f64, String)| {
        is_ahead(compare_costs(panel, (best, other), confidence), false)
    };
    (!others.is_empty() && others.iter().all(is_less)).then(|| best.clone())
}

/// Compares the processor time of two series at the load that all have in common.
fn compare_costs(
    panel: &Panel,
    (first, second): (&str, &str),
    confidence: f64,
) -> Option<Comparison> {
    let load = common_load(panel)?;
    let at_load =
        |name: &str| panel.series.iter().find(|series| series.name == name)?.point_at(load);
    let points = ((first, at_load(first)?), (second, at_load(second)?));
    Comparison::compare_points(points.0, points.1, Measure::CpuPerRequest, confidence)
}

/// The figures of a comparison: the ratios of the first panel.
fn compared(header: &Header, panels: &[&Panel], confidence: f64) -> Vec<Fact> {
    let mut facts = Vec::new();
    for panel in panels {
        let others = panel.series.iter().filter(|one| one.server != header.floor);
        let [first, second, ..] = others.collect::<Vec<_>>()[..] else { continue };
        let Some((own, others)) = common(first, second) else { continue };
        let load = format!("{} {}", number::plain(own.offered), panel.unit());
        facts.push(Fact::new("The same load of both", load, panel.title()));
        for (measure, name) in COMPARED {
            let points = ((&*first.name, own), (&*second.name, others));
            let pair = Comparison::compare_points(points.0, points.1, measure, confidence);
            let Some(pair) = pair else { continue };
            let (interval, pairs) = (pair.ratio.interval, pair.pairs.unwrap_or(0));
            let first_is_better = (pair.ratio.median > 1.0) == (measure == Measure::Throughput);
            let better = if first_is_better { &first.name } else { &second.name };
            let outcome = match judge_ratio(interval, header.margin, pairs, confidence) {
                RatioVerdict::Higher | RatioVerdict::Lower => format!("{better} is better"),
                RatioVerdict::Tie => "a tie".into(),
                RatioVerdict::Open | RatioVerdict::TooFew => "not decided".into(),
            };
            let mut name = name.to_owned();
            name[..1].make_ascii_uppercase();
            let interval = number::estimate(&pair.ratio, number::ratio);
            let note = format!("{interval}, {} to {}: {outcome}", first.name, second.name);
            facts.push(Fact::new(&name, times(pair.ratio.median), note));
        }
        return facts;
    }
    facts
}

/// The figures of a tuning: the setting that it names, or the best so far.
fn tuned(panels: &[&Panel]) -> Vec<Fact> {
    let Some(panel) = panels.first() else { return Vec::new() };
    let ranked = ranked(panel);
    let named = |setting: &str| ranked.iter().find(|(series, _)| series.setting == setting);
    let winner = panel.tuning.as_ref().and_then(|tuning| named(&tuning.winner));
    let Some((best, peak)) = winner.or(ranked.first()) else { return Vec::new() };
    let knobs = best.knobs.iter().filter(|(_, value)| !value.is_empty());
    let knobs: Vec<String> = knobs.map(|(knob, value)| format!("{knob} = {value}")).collect();
    let mut facts = vec![
        Fact::new("Best setting", best.name.clone(), knobs.join(", ")),
        highest(peak, &panel.title()),
    ];
    if let Some((worst, low)) = ranked.last().filter(|(_, low)| ranked.len() > 1 && low.per_s > 0.0)
    {
        let note = format!("the throughput of {}, the lowest", worst.name);
        facts.push(Fact::new("What tuning gains", times(peak.per_s / low.per_s), note));
    }
    facts.push(Fact::new("Settings tried", panel.series.len().to_string(), ""));
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

    fn told(header: Header, runs: Vec<Run>) -> Vec<String> {
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
        assert_eq!(told(header(), runs.clone()), expected);
        runs.push(run("one", "x", 100.0, 10.0));
        let several = told(header(), runs);
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
        let told = told(Header::default(), vec![keeping_up("one", 12.0), keeping_up("two", 10.0)]);
        let expected =
            ["Highest throughput: not seen", "CPU per request: 10.0 us", "Void runs: 0 of 2"];
        assert_eq!(told, expected);
    }

    #[test]
    fn servers_that_shared_a_cpu_have_no_highest_throughput() {
        let header = Header { together: true, ..Header::default() };
        let told = told(header, vec![run("one", "w", 100.0, 10.0), run("two", "w", 200.0, 12.0)]);
        let expected =
            ["Least CPU per request: 10.0 us", "The next needs: 1.20 times", "Void runs: 0 of 2"];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_comparison_has_ratios_and_no_highest_throughput() {
        let header = Header { kind: Kind::Compare, ..Header::default() };
        let told = told(header, vec![run("one", "w", 100.0, 10.0), run("two", "w", 200.0, 20.0)]);
        let expected = [
            "The same load of both: 64 connections",
            "Throughput: 0.50 times",
            "CPU time per request: 0.50 times",
            "Void runs: 0 of 2",
        ];
        assert_eq!(told, expected);
    }
}
