//! Findings on the records themselves: void, missing or too few runs, and missing observations.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::super::measure::Measure;
use super::super::number;
use super::super::summary::{Measured, Panel, Series, Summary, number_of};
use super::{Findings, Head, listed_at_most};
use crate::observe::INTERFERENCE_REPORTED;
use crate::record::{CLIENT_BUSY_MAX, Kind, Offered, Opened, Planned, Point, Purpose, Run};
use crate::study::utilisation::{self, Gauge};
use crate::void::Void;
use statistics::values_min;

const LISTED_MAX: usize = 6;

pub(super) fn gaps(findings: &mut Findings, opened: &Opened, summary: &Summary) {
    unmeasured(findings, opened);
    blocks(findings, opened, summary);
    without_intervals(findings, opened, summary);
    searches(findings, opened, summary);
    if opened.header.kind != Kind::Compare && !opened.header.together {
        precision(findings, summary);
    }
    mostly_own_lag(findings, summary);
    saturated(findings, opened);
    not_at_rest(findings, opened);
    not_so_busy(findings, opened);
    voided(findings, opened);
    disturbed(findings, opened);
    machines(findings, opened);
    skipped(findings, opened);
    not_available(findings, opened);
    for line in &opened.damage {
        findings.add(Head::NotObserved, format!("The records are damaged: {line}."));
    }
    without_limit(findings, opened);
}

/// Reports testbeds whose path has no known limit; without names if no limit was measured at all.
fn without_limit(findings: &mut Findings, opened: &Opened) {
    let is_known = |testbed: &str| opened.ceilings.iter().any(|(known, _)| known == testbed);
    let unknown = opened.header.testbeds.iter().map(|testbed| &testbed.name);
    let unknown: Vec<String> = unknown.filter(|name| !is_known(name)).cloned().collect();
    let of_which = match opened.ceilings.is_empty() {
        true => String::new(),
        false if unknown.is_empty() => return,
        false => format!(" in {}", listed_at_most(&unknown, LISTED_MAX)),
    };
    if !opened.runs.is_empty() {
        let text = "The path's own limit was not measured";
        findings
            .add(Head::NotObserved, format!("{text}{of_which}: a figure may measure the path."));
    }
}

fn points(summary: &Summary) -> impl Iterator<Item = &Measured> {
    summary.panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points)
}

/// Reports servers without measurements where they were to be measured: the study was interrupted,
/// its budget was spent, or all their runs were void.
fn unmeasured(findings: &mut Findings, opened: &Opened) {
    let valid = opened.runs.iter().filter(|run| run.void.is_empty());
    let known: Vec<Planned> = valid.map(|run| run.point.clone().into()).collect();
    let unknown = opened.header.planned.iter().filter(|planned| !known.contains(planned));
    let named = unknown.map(|planned| {
        let Planned { server, setting, workload, testbed } = planned;
        format!("{server}/{setting} ({workload}, {testbed})")
    });
    let named: Vec<String> = named.collect();
    if !named.is_empty() {
        let text = format!("Nothing was measured of {}.", listed_at_most(&named, LISTED_MAX));
        findings.add(Head::NotObserved, text);
    }
}

/// Counts the points that one server of a panel has and another lacks.
fn points_missing(opened: &Opened, summary: &Summary) -> usize {
    if opened.runs.iter().any(|run| run.purpose.utilisation().is_some()) {
        return 0; // each setting has rates of its own
    }
    let of_panel = |panel: &Panel| {
        let points = || panel.series.iter().flat_map(|series| &series.points);
        let mut rates: Vec<f64> = points().map(|point| point.offered).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        rates.len() * panel.series.len() - points().count()
    };
    summary.panels.iter().map(of_panel).sum()
}

/// Reports points with fewer blocks than were requested.
fn blocks(findings: &mut Findings, opened: &Opened, summary: &Summary) {
    let asked = opened.header.repetitions as usize;
    let without = points_missing(opened, summary);
    let all = points(summary).count() + without;
    let short = points(summary).filter(|point| point.blocks.len() < asked).count() + without;
    if short > 0 {
        let text = format!(
            "{short} of {} have fewer valid runs than the {asked} that were asked for.",
            number::counted(all, "point")
        );
        let has_verdict = findings.0.iter().any(|finding| finding.head == Head::Verdict);
        match has_verdict {
            true => findings.add(Head::Verdict, format!("Mind: {text}")),
            false => findings.add(Head::NotSupported, text),
        }
    }
}

/// Reports points and highest rates that rest on fewer blocks or searches than an interval needs.
fn without_intervals(findings: &mut Findings, opened: &Opened, summary: &Summary) {
    let (least, confidence) = (values_min(summary.confidence), number::percent(summary.confidence));
    let mut tell = |counts: &[usize], what: &str, of_what: &str, why: &str| {
        let few = counts.iter().filter(|count| **count < least).count();
        if few > 0 {
            let text = format!(
                "{few} of {} rest on fewer than {least} {of_what}: {why} {confidence}, and no \
                 difference there is called certain.",
                number::counted(counts.len(), what)
            );
            findings.add(Head::NotSupported, text);
        }
    };
    let blocks: Vec<usize> = points(summary).map(|point| point.blocks.len()).collect();
    let why = "such an interval is the whole range, still too narrow for";
    tell(&blocks, "point", "blocks", why);
    // A tuning gives up most settings early, and reports that itself.
    if opened.header.kind != Kind::Tune {
        let series = summary.panels.iter().flat_map(|panel| &panel.series);
        let limits = series.map(|series| series.limits.len()).filter(|count| *count > 0);
        let why = "too few for an interval of";
        tell(&limits.collect::<Vec<_>>(), "highest rate", "searches", why);
    }
}

/// Reports highest rates that rest on fewer searches than were requested.
fn searches(findings: &mut Findings, opened: &Opened, summary: &Summary) {
    let asked = opened.header.repetitions as usize;
    for panel in &summary.panels {
        let searched = panel.series.iter().filter(|series| !series.searches.is_empty());
        let short = searched.filter(|series| series.limits.len() < asked);
        let short: Vec<String> =
            short.map(|series| format!("{} ({})", series.name, series.limits.len())).collect();
        if !short.is_empty() {
            let text = format!(
                ": the highest rates of these rest on fewer searches than the {asked} that were \
                 asked for: {}.",
                listed_at_most(&short, LISTED_MAX)
            );
            findings.add_for_panel(panel, Head::NotSupported, &text);
        }
    }
}

/// Reports the smallest difference that these runs could have shown.
fn precision(findings: &mut Findings, summary: &Summary) {
    // Below the peak the throughput is the offered load, which is known to the generator's
    // precision.
    let peaks = summary.panels.iter().flat_map(|panel| &panel.series).filter_map(Series::best);
    let widths = peaks.filter_map(|point| {
        let estimate = point.estimates.get(&Measure::Throughput)?;
        let width = estimate.interval.high - estimate.interval.low;
        (estimate.median > 0.0 && point.blocks.len() > 1).then(|| width / 2.0 / estimate.median)
    });
    let widths: Vec<f64> = widths.collect();
    let (Some(typical), Some(widest)) =
        (statistics::median(&widths), statistics::quantile(&widths, 1.0))
    else {
        return;
    };
    let text = format!(
        "The highest throughputs are known to about ±{:.1} % (at worst ±{:.1} %): smaller \
         differences are not seen.",
        typical * 100.0,
        widest * 100.0
    );
    findings.add(Head::NotSupported, text);
}

/// Explains the mark of times that are mostly the generator's own lag, if there is any.
fn mostly_own_lag(findings: &mut Findings, summary: &Summary) {
    let series = || summary.panels.iter().flat_map(|panel| &panel.series);
    let mut shown = series().flat_map(|one| one.points.iter().chain(&one.trials).chain(&one.held));
    if shown.any(|point| !point.mostly_own_lag.is_empty()) {
        let text = "A time with a *, or a ratio of such a time, is mostly the generator's own lag \
                    in half of its runs or more: of the server it says little.";
        findings.add(Head::NotSupported, text);
    }
}

/// Reports closed runs in which the clients had no processor time left. The closed runs at the
/// beginning of a search are no points, but those of a comparison are.
fn saturated(findings: &mut Findings, opened: &Opened) {
    let is_point =
        |run: &&Run| run.purpose == Purpose::Point || opened.header.kind == Kind::Compare;
    let closed = opened
        .runs
        .iter()
        .filter(|run| run.void.is_empty() && matches!(run.point.offered, Offered::Connections(_)))
        .filter(is_point);
    let is_busy =
        |run: &&Run| run.figures.as_ref().is_some_and(|f| f.client_busy_share > CLIENT_BUSY_MAX);
    let servers: BTreeSet<String> =
        closed.filter(is_busy).map(|run| run.point.server.clone()).collect();
    if !servers.is_empty() {
        let servers: Vec<String> = servers.into_iter().collect();
        let text = format!(
            "With a fixed number of clients, these had no processor time left in runs of {}: what \
             was served then is their limit as much as the server's.",
            listed_at_most(&servers, LISTED_MAX)
        );
        findings.add(Head::NotSupported, text);
    }
}

/// Reports runs whose server closed connections that were to stay idle beside the load.
fn not_at_rest(findings: &mut Findings, opened: &Opened) {
    let mut closed: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for run in opened.runs.iter().filter(|run| run.void.is_empty()) {
        let Some(figures) = run.figures.as_ref().filter(|figures| figures.idle_closed > 0) else {
            continue;
        };
        let sum = closed.entry(&run.point.server).or_default();
        *sum = (sum.0 + figures.idle_closed, sum.1 + figures.idle_connections);
    }
    for (server, (closed, all)) in closed {
        let text = format!(
            "{server} closed {closed} of {all} idle connections before its runs were over: it \
             watched fewer than the workload says."
        );
        findings.add(Head::NotSupported, text);
    }
}

/// Reports utilisations that were requested and at which nothing was measured.
fn not_so_busy(findings: &mut Findings, opened: &Opened) {
    let mut searches: Vec<(f64, Vec<&Run>)> = Vec::new();
    for run in &opened.runs {
        let Some(share) = run.purpose.utilisation() else { continue };
        let same = |other: &&mut (f64, Vec<&Run>)| other.0 == share && alike(other.1[0], run);
        match searches.iter_mut().find(same) {
            Some((_, runs)) => runs.push(run),
            None => searches.push((share, vec![run])),
        }
    }
    let names = Names::new(opened);
    for (share, tried) in searches {
        let was_tried = |point: &Point| tried.iter().any(|run| run.point == *point);
        if opened.runs.iter().any(|run| run.purpose == Purpose::Point && was_tried(&run.point)) {
            continue;
        }
        let Point { workload, testbed, .. } = &tried[0].point;
        let server = names.point_name(&tried[0].point);
        let of_testbed = |what| number_of(&opened.header.testbeds, testbed, what);
        let gauge = Gauge::of_cpus(of_testbed("cpus"), of_testbed("client_cpus"));
        let nearest = nearest(&tried, share, gauge);
        let text = format!(
            "{server} ({workload}, {testbed}) was not measured at {:.0} % CPU, as was asked for: \
             {}.",
            100.0 * share,
            nearest.unwrap_or_else(|| "no rate was tried in a run that counts".into())
        );
        findings.add(Head::NotObserved, text);
    }
}

/// Whether two runs differ at most in the offered load.
fn alike(one: &Run, other: &Run) -> bool {
    Point { offered: other.point.offered, ..one.point.clone() } == other.point
}

/// Describes the tried rate that came nearest to a utilisation.
fn nearest(tried: &[&Run], share: f64, gauge: Gauge) -> Option<String> {
    let counts = tried.iter().filter(|run| run.void.is_empty());
    let busy = counts.filter_map(|run| match run.point.offered {
        Offered::RequestsPerS(rate) => Some((rate, gauge.read(run)?)),
        Offered::Connections(_) => None,
    });
    let (rate, busy) = utilisation::nearest(busy, share)?;
    let (rate, percent) = (number::plain(rate), 100.0 * busy);
    Some(match (busy - share).abs() <= utilisation::NEAR {
        true => format!(
            "{rate} requests/s were found to take {percent:.0} %, and the study ended before it \
             was measured there"
        ),
        false => format!(
            "of the rates that were tried the nearest, {rate} requests/s, takes {percent:.0} %"
        ),
    })
}

fn voided(findings: &mut Findings, opened: &Opened) {
    let void = || opened.runs.iter().filter(|run| !run.void.is_empty());
    let count = void().count();
    if count == 0 {
        return;
    }
    let mut ranked = group_by_kind(void().flat_map(|run| &run.void));
    ranked.sort_by_key(|alike| Reverse(alike.len()));
    let reasons: Vec<String> = ranked.iter().map(|alike| describe_group(alike)).collect();
    let text = format!(
        "{count} of {} were void and take no part: {}.",
        number::counted(opened.runs.len(), "run"),
        listed_at_most(&reasons, LISTED_MAX)
    );
    findings.add(Head::NotObserved, text);
    lost(findings, opened);
}

/// Reports interference by other processes in runs that count nevertheless.
fn disturbed(findings: &mut Findings, opened: &Opened) {
    let counting = || opened.runs.iter().filter(|run| run.void.is_empty());
    let reported = counting().filter_map(Run::interference);
    let reported: Vec<_> = reported.filter(|(_, share)| *share > INTERFERENCE_REPORTED).collect();
    let Some((disturbed, share)) = reported.iter().max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return;
    };
    let text = format!(
        "In {} of the {} that count there was interference, less than makes a run void: \
         at worst {}. Differences of that size may be its effect.",
        reported.len(),
        number::counted(counting().count(), "run"),
        disturbed.describe(*share)
    );
    findings.add(Head::NotSupported, text);
}

/// Groups reasons by kind, in the order of the first of each kind.
fn group_by_kind<'v>(reasons: impl Iterator<Item = &'v Void>) -> Vec<Vec<&'v Void>> {
    let mut kinds: Vec<(Void, Vec<&Void>)> = Vec::new();
    for reason in reasons {
        let kind = reason.kind();
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, alike)) => alike.push(reason),
            None => kinds.push((kind, vec![reason])),
        }
    }
    kinds.into_iter().map(|(_, alike)| alike).collect()
}

/// Describes reasons of one kind: the first of them, and their number.
fn describe_group(alike: &[&Void]) -> String {
    let (first, times) = (alike[0], alike.len());
    // The first reason does not stand for others that differ: both servers and generators fail to
    // start in many ways.
    let is_told = matches!(first, Void::NoLoad(_) | Void::Generator(_));
    match is_told && alike.iter().any(|other| *other != first) {
        true => format!("there was no load ({times}), the first time because: {first}"),
        false => format!("{first} ({times})"),
    }
}

/// The servers that ran, with their settings, to name points.
struct Names<'o>(BTreeSet<(&'o str, &'o str)>);

impl<'o> Names<'o> {
    fn new(opened: &'o Opened) -> Self {
        Self(opened.runs.iter().map(|run| (&*run.point.server, &*run.point.setting)).collect())
    }

    /// The server's name, with the setting's where there are several.
    fn point_name(&self, Point { server, setting, .. }: &Point) -> String {
        match self.0.iter().filter(|(name, _)| name == server).count() > 1 {
            true => format!("{server} {setting}"),
            false => server.clone(),
        }
    }
}

/// Reports points of which no run counts, even if runs for another purpose count there.
fn lost(findings: &mut Findings, opened: &Opened) {
    let names = Names::new(opened);
    let name = |run: &Run| {
        let Point { workload, testbed, .. } = &run.point;
        let offered = number::plain(super::super::summary::offered(&run.point));
        format!("{} at {offered} ({workload}, {testbed})", names.point_name(&run.point))
    };
    let named = |is_void: bool| -> BTreeSet<(String, String)> {
        let runs = opened.runs.iter().filter(|run| run.void.is_empty() != is_void);
        runs.map(|run| (name(run), run.purpose.to_string())).collect()
    };
    let valid = named(false);
    let lost: BTreeSet<String> = named(true)
        .into_iter()
        .filter(|point| !valid.contains(point))
        .map(|(name, _)| name)
        .collect();
    let lost: Vec<String> = lost.into_iter().collect();
    if !lost.is_empty() {
        let text = format!("No run counts of {}.", listed_at_most(&lost, LISTED_MAX));
        findings.add(Head::NotObserved, text);
    }
}

pub(super) fn machines(findings: &mut Findings, opened: &Opened) {
    let differing = differences(opened);
    if opened.environments.len() > 1 {
        let times = number::counted(opened.environments.len() - 1, "time");
        let changed = match differing.len() {
            0 => "the machine was the same each time.".to_owned(),
            _ => format!(
                "the machine was not the same: {} changed.",
                listed_at_most(&differing, LISTED_MAX)
            ),
        };
        let head = if differing.is_empty() { Head::Supported } else { Head::NotSupported };
        findings.add(head, format!("The study was resumed {times}; {changed}"));
    }
}

/// The names of the values that differ between environments, without those that always do.
fn differences(opened: &Opened) -> Vec<String> {
    const ALWAYS: [&str; 3] = ["recorded_at_s", "load_1m", "runnable"];
    let all = &opened.environments;
    let names = all.iter().filter_map(|one| one.as_object()).flat_map(|one| one.keys());
    let names: BTreeSet<&String> = names.collect();
    let changed = names.into_iter().filter(|name| {
        let values = || all.iter().map(|one| one.get(name));
        values().skip(1).zip(values()).any(|(now, before)| now != before)
    });
    changed.filter(|name| !ALWAYS.contains(&name.as_str())).cloned().collect()
}

fn skipped(findings: &mut Findings, opened: &Opened) {
    for skipped in &opened.header.skipped {
        let mend = match &*skipped.command {
            "" => String::new(),
            command => format!(" Fix it with `{command}`."),
        };
        let reason = skipped.reason.trim_end_matches('.');
        findings.add(Head::NotObserved, format!("{} took no part: {reason}.{mend}", skipped.what));
    }
}

fn not_available(findings: &mut Findings, opened: &Opened) {
    let mut lines: Vec<&str> = Vec::new();
    for line in opened.runs.iter().flat_map(|run| &run.not_available) {
        if !lines.contains(&&**line) {
            lines.push(line);
        }
    }
    for line in lines {
        findings.add(Head::NotObserved, format!("Not observed: {}.", line.trim_end_matches('.')));
    }
}
