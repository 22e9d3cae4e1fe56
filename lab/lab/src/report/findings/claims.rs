//! What the source of an experiment found, beside what was measured: each claim is confirmed,
//! contradicted or not decided, by the same ratios and intervals as all other findings.

use std::cmp::Reverse;
use std::slice::from_ref;

use super::super::comparison::{Comparison, SPREAD_POINTS, is_unfair};
use super::super::measure::Measure;
use super::super::number;
use super::super::summary::{Measured, Panel, Series, Summary};
use super::{Finding, Findings, Head, common};
use crate::record::{Absent, Claim, ClaimMeasure, ClaimSide, Header, Opened, Skipped};
use statistics::{Interval, values_min};

/// The most figures that are given for a claim.
const LISTED_MAX: usize = 6;

/// What the figures say of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Judged {
    Confirmed,
    Undecided,
    Contradicted,
}

impl Judged {
    fn name(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Undecided => "not decided",
            Self::Contradicted => "contradicted",
        }
    }
}

/// Reports what was expected, and judges the claims.
pub(super) fn judge(findings: &mut Findings, opened: &Opened, summary: &Summary) {
    let header = &opened.header;
    if header.claims.is_empty() {
        findings.0.extend(unjudged(header));
        return;
    }
    findings.0.extend(expectation(header, ""));
    for claim in &header.claims {
        let (judged, figures) = judged(claim, header, summary);
        let bounds = bounds(claim);
        let text = format!(" ({bounds}): {}: {figures}.", judged.name());
        findings.0.push(Finding::with_subject(&labelled(&claim.text), Head::Expected, &text));
    }
}

/// What tells an expectation from a result, among which it is printed.
const LABEL: &str = "Expected: ";

/// The text of a claim as the subject of a sentence.
pub(crate) fn labelled(claim: &str) -> String {
    format!("{LABEL}{}", claim.trim_end_matches('.'))
}

/// The expectation as a text, which only a reader can judge.
pub(crate) fn unjudged(header: &Header) -> Option<Finding> {
    expectation(header, " (To be judged by the reader.)")
}

/// The expectation as a text with this end, if there is one.
pub(crate) fn expectation(header: &Header, end: &str) -> Option<Finding> {
    let expected = header.expected.trim();
    let text = format!("{LABEL}{expected}{end}");
    (!expected.is_empty()).then(|| Finding::new(Head::Expected, text))
}

/// What is claimed, as numbers.
fn bounds(claim: &Claim) -> String {
    let what = match claim.measure {
        ClaimMeasure::Throughput => "throughput",
        ClaimMeasure::CpuPerRequest => "CPU time per request",
        ClaimMeasure::MeanTime => "mean response time",
        ClaimMeasure::P99 => "p99 response time",
        ClaimMeasure::Spread => return spread_bound(claim),
    };
    let ratio = number::plain;
    match (claim.at_least, claim.at_most) {
        (Some(least), Some(most)) => {
            format!("{what} {} to {} times", ratio(least), ratio(most))
        }
        (Some(least), None) => format!("{what} more than {} times", ratio(least)),
        (None, Some(most)) => format!("{what} less than {} times", ratio(most)),
        (None, None) => what.to_owned(),
    }
}

fn spread_bound(claim: &Claim) -> String {
    let most = number::plain(claim.at_most.unwrap_or(SPREAD_POINTS));
    format!("timeouts spread over kinds of file within {most} points")
}

/// What is measured at a point for a claim about a time; none for one about throughput, which is of
/// peaks.
fn time(claim: &Claim) -> Option<Measure> {
    match claim.measure {
        ClaimMeasure::Throughput => None,
        ClaimMeasure::CpuPerRequest => Some(Measure::CpuPerRequest),
        ClaimMeasure::MeanTime => Some(Measure::MeanTime),
        ClaimMeasure::P99 => Some(Measure::P99),
        ClaimMeasure::Spread => Some(Measure::Spread),
    }
}

/// How a claim is judged by what was measured in one place.
struct LocalVerdict<'p> {
    judged: Judged,
    text: String,
    /// The servers that were compared, if any were.
    sides: Option<Sides<'p>>,
}

impl LocalVerdict<'_> {
    /// What leaves a claim open.
    fn open(why: String) -> Self {
        Self { judged: Judged::Undecided, text: why, sides: None }
    }
}

/// The servers of both sides of a ratio, each the best first.
struct Sides<'p> {
    own: Vec<&'p Series>,
    others: Vec<&'p Series>,
}

/// What the figures of all workloads and testbeds say, and the figures.
fn judged(claim: &Claim, header: &Header, summary: &Summary) -> (Judged, String) {
    let mut told: Vec<LocalVerdict<'_>> = Vec::new();
    for (workload, testbed) in places(claim, header, summary) {
        told.extend(verdicts_in(claim, (workload, testbed), header, summary));
    }
    let left_out = claim.left_out.iter();
    told.extend(
        left_out.map(|name| LocalVerdict::open(format!("{name} has no part in this size"))),
    );
    // What contradicts a claim is told first, then what leaves it open, reasons before ratios.
    told.sort_by_key(|told| (Reverse(told.judged), told.sides.is_some()));
    let (judged, note) = overall(claim, &told, summary.confidence);
    let mut figures: Vec<String> = Vec::new();
    for LocalVerdict { text, .. } in told {
        if !figures.contains(&text) {
            figures.push(text);
        }
    }
    match figures.is_empty() {
        true => (judged, "nothing that it compares was measured".into()),
        false => (judged, joined(&figures) + &note),
    }
}

/// The judgement of all that is told, and what keeps ratios beyond the bounds from deciding it.
fn overall(claim: &Claim, told: &[LocalVerdict<'_>], confidence: f64) -> (Judged, String) {
    let beyond = told.iter().filter(|told| told.judged == Judged::Contradicted).count();
    let ratios: Vec<&Sides<'_>> = told.iter().filter_map(|told| told.sides.as_ref()).collect();
    let none = String::new();
    match () {
        () if beyond > 0 && claim.measure == ClaimMeasure::Spread => (Judged::Contradicted, none),
        () if beyond > 0 && are_beyond(claim, &ratios, confidence) => (Judged::Contradicted, none),
        () if beyond > 0 => {
            let all = number::counted(ratios.len(), "ratio");
            (Judged::Undecided, format!(" (of {all} {beyond} beyond the bounds may be chance)"))
        }
        () if !told.is_empty() && told.iter().all(|told| told.judged == Judged::Confirmed) => {
            (Judged::Confirmed, none)
        }
        () => (Judged::Undecided, none),
    }
}

/// Whether ratios lie beyond the bounds of a claim, and not by chance. Of many intervals some miss
/// the truth: one of them decides at a confidence raised for their number (Bonferroni), two thirds
/// of them do at a lower one (Rüger 1978). Either rule calls a true claim false with half of the
/// chance, at most, that the confidence leaves.
fn are_beyond(claim: &Claim, ratios: &[&Sides<'_>], confidence: f64) -> bool {
    let all = ratios.len();
    [1, (2 * all).div_ceil(3)].into_iter().any(|count| {
        let confidence = 1.0 - (1.0 - confidence) * count as f64 / all as f64;
        let is_beyond = |sides: &&&Sides<'_>| {
            judge_interval(claim, known(claim, sides, confidence)) == Judged::Contradicted
        };
        ratios.iter().filter(is_beyond).count() >= count
    })
}

/// Joins figures, of which each has commas of its own.
fn joined(figures: &[String]) -> String {
    let shown = figures[..figures.len().min(LISTED_MAX)].join("; ");
    match figures.len().saturating_sub(LISTED_MAX) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

/// The workloads and testbeds for which a claim is: those that it names, or all that were to be
/// measured.
fn places<'a>(
    claim: &'a Claim,
    header: &'a Header,
    summary: &'a Summary,
) -> Vec<(&'a str, &'a str)> {
    let skipped = header.skipped.iter().filter_map(|one| testbed_of(&one.what));
    let testbeds = header.testbeds.iter().map(|one| &*one.name).chain(skipped);
    let testbeds = testbeds.chain(summary.panels.iter().map(|panel| &*panel.testbed));
    let workloads = header.workloads.iter().map(|one| &*one.name);
    let workloads = workloads.chain(summary.panels.iter().map(|panel| &*panel.workload));
    let mut testbeds = named_or(&claim.testbeds, testbeds);
    testbeds.retain(|testbed| testbed.is_empty() || *testbed != claim.than_testbed);
    let of_workload = |workload| testbeds.iter().map(move |testbed| (workload, *testbed));
    named_or(&claim.workloads, workloads).into_iter().flat_map(of_workload).collect()
}

/// The names, or without any all that there are, each once.
fn named_or<'a>(names: &'a [String], all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut chosen: Vec<&str> = names.iter().map(String::as_str).collect();
    for name in all.filter(|_| names.is_empty()) {
        if !chosen.contains(&name) {
            chosen.push(name);
        }
    }
    chosen
}

fn testbed_of(absent: &Absent) -> Option<&str> {
    match absent {
        Absent::Testbed { testbed } => Some(testbed),
        _ => None,
    }
}

/// How a claim is judged by a workload in a testbed.
fn verdicts_in<'s>(
    claim: &Claim,
    (workload, testbed): (&str, &str),
    header: &Header,
    summary: &'s Summary,
) -> Vec<LocalVerdict<'s>> {
    let panels = panels_of(summary, (workload, testbed));
    if panels.is_empty() {
        return vec![LocalVerdict::open(unmeasured((workload, testbed), header, summary))];
    }
    let mut told = Vec::new();
    for panel in panels {
        let beside = match &*claim.than_testbed {
            "" => Some(panel),
            than => {
                let panels = panels_of(summary, (workload, than));
                panels.into_iter().find(|one| one.closed == panel.closed)
            }
        };
        if claim.measure == ClaimMeasure::Spread {
            told.extend(claim.servers.iter().map(|side| verdict_alone(claim, side, panel)));
            continue;
        }
        let Some(beside) = beside else {
            let place = (workload, &*claim.than_testbed);
            told.push(LocalVerdict::open(unmeasured(place, header, summary)));
            continue;
        };
        for side in &claim.servers {
            let than = if claim.than_testbed.is_empty() { &claim.than[..] } else { from_ref(side) };
            let of =
                |than| verdict_between(claim, (side, panel), (than, beside), summary.confidence);
            told.extend(than.iter().map(of));
        }
    }
    told
}

fn panels_of<'s>(summary: &'s Summary, place: (&str, &str)) -> Vec<&'s Panel> {
    let is_it = |panel: &&Panel| (&*panel.workload, &*panel.testbed) == place;
    summary.panels.iter().filter(is_it).collect()
}

/// Why nothing is known of a workload in a testbed.
fn unmeasured((workload, testbed): (&str, &str), header: &Header, summary: &Summary) -> String {
    let is_it = |one: &&Skipped| testbed_of(&one.what) == Some(testbed);
    if let Some(skipped) = header.skipped.iter().find(is_it) {
        return format!("testbed {testbed}: {}", skipped.reason.trim_end_matches('.'));
    }
    match summary.panels.iter().any(|panel| panel.testbed == testbed) {
        true => format!("nothing was measured in {workload}, {testbed}"),
        false => format!("nothing was measured in testbed {testbed}"),
    }
}

/// How a claim is judged by one of its sides against another, or against itself in another testbed.
fn verdict_between<'p>(
    claim: &Claim,
    (side, panel): (&ClaimSide, &'p Panel),
    (than, other): (&ClaimSide, &'p Panel),
    confidence: f64,
) -> LocalVerdict<'p> {
    let (own, others) = match (measured(claim, side, panel), measured(claim, than, other)) {
        (Ok(own), Ok(others)) => (own, others),
        (Err(why), _) | (_, Err(why)) => return LocalVerdict::open(why),
    };
    let (first, second, place) = (&own[0].name, &others[0].name, panel.title());
    let Some(pair) = ratio(claim, own[0], others[0], confidence) else {
        return LocalVerdict::open(format!(
            "{first} and {second} have no block in common in {place} in which they served anything"
        ));
    };
    let elsewhere = match &*claim.than_testbed {
        "" => String::new(),
        testbed => format!(" in {testbed}"),
    };
    let text = match pair.ratio.median.is_finite() {
        true => {
            let mark = mark(claim, own[0], others[0]);
            format!("{first} {} times{mark} {second}{elsewhere} in {place}", pair.shown())
        }
        false => format!("{second} served nothing{elsewhere} in {place}"),
    };
    let sides = Sides { own, others };
    let judged = judge_interval(claim, known(claim, &sides, confidence));
    let why = if judged == Judged::Undecided { doubt(claim, &pair, confidence) } else { None };
    let text = text + &why.map(|why| format!(" ({why})")).unwrap_or_default();
    LocalVerdict { judged, text, sides: Some(sides) }
}

/// How a claim about the spread of timeouts is judged by one of its servers. The spread has been
/// corrected for chance, so that its number decides; where nothing timed out, nothing can have been
/// neglected.
fn verdict_alone<'p>(claim: &Claim, side: &ClaimSide, panel: &'p Panel) -> LocalVerdict<'p> {
    let series = match measured(claim, side, panel) {
        Ok(all) => all[0],
        Err(why) => return LocalVerdict::open(why),
    };
    let (name, place) = (&series.name, panel.title());
    let timed_out =
        |point: &&Measured| point.median(Measure::TimeoutShare).is_some_and(|share| share > 0.0);
    let spreads = series.points.iter().filter(timed_out);
    let widest = spreads.filter_map(|point| point.median(Measure::Spread)).reduce(f64::max);
    let Some(widest) = widest else {
        return LocalVerdict::open(format!("nothing timed out at {name} in {place}"));
    };
    let judged = match widest <= claim.at_most.unwrap_or(SPREAD_POINTS) {
        true => Judged::Confirmed,
        false => Judged::Contradicted,
    };
    let text = format!("{name} {} points in {place}", number::figure(widest));
    LocalVerdict { judged, text, sides: None }
}

/// The servers of a side that were measured in a panel, the best first, or why not all of them
/// were: of several each may be the best.
fn measured<'p>(
    claim: &Claim,
    side: &ClaimSide,
    panel: &'p Panel,
) -> Result<Vec<&'p Series>, String> {
    if !side.absent.is_empty() {
        return Err(side.absent.clone());
    }
    let value = |series: &Series| match time(claim) {
        None => series.peak().map(|peak| peak.per_s),
        Some(measure) => series.at_peak()?.median(measure).map(|time| -time),
    };
    let mut found = Vec::new();
    for (server, setting) in &side.settings {
        let is_it = |one: &&Series| (&one.server, &one.setting) == (server, setting);
        let series = panel.series.iter().find(is_it);
        let Some((series, value)) = series.and_then(|one| Some((one, value(one)?))) else {
            let setting = if side.settings.len() > 1 { &**setting } else { "" };
            let name = format!("{} {setting}", side.name);
            return Err(format!("{} was not measured in {}", name.trim_end(), panel.title()));
        };
        let is_of_replies =
            !matches!(claim.measure, ClaimMeasure::CpuPerRequest | ClaimMeasure::Spread);
        if is_of_replies && is_unfair(series) {
            let place = panel.title();
            return Err(format!(
                "{} did not serve all kinds of file alike in {place}",
                series.name
            ));
        }
        found.push((value, series));
    }
    if found.is_empty() {
        return Err(format!("{} was not measured in {}", side.name, panel.title()));
    }
    found.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    Ok(found.into_iter().map(|(_, series)| series).collect())
}

/// The ratio that a claim is of.
fn ratio(claim: &Claim, own: &Series, others: &Series, confidence: f64) -> Option<Comparison> {
    let compare = |one: &Series, other: &Series| match time(claim) {
        None => Comparison::compare_peaks(one, other, confidence),
        Some(measure) => {
            let (own, others) = points(one, other)?;
            let points = ((&*one.name, own), (&*other.name, others));
            Comparison::compare_points(points.0, points.1, measure, confidence)
        }
    };
    // To a server that served nothing there is no ratio, but from it.
    compare(own, others).or_else(|| Some(compare(others, own)?.reversed()))
}

/// The mark behind a ratio of times of which one is mostly the generator's own lag; else empty.
fn mark(claim: &Claim, own: &Series, others: &Series) -> &'static str {
    let marks = time(claim).zip(points(own, others));
    marks.map_or("", |(measure, (own, others))| own.mark(measure).max(others.mark(measure)))
}

/// The points at which times are compared: at the highest utilisation for which both have a rate of
/// their own, else at the highest load that both have, else at their peaks.
fn points<'s>(one: &'s Series, other: &'s Series) -> Option<(&'s Measured, &'s Measured)> {
    let mut sought = one.points.iter().rev().filter(|point| point.sought.is_some());
    let equally_busy = sought.find_map(|point| {
        let is_as_busy = |beside: &&Measured| beside.sought == point.sought;
        Some((point, other.points.iter().find(is_as_busy)?))
    });
    let at_peaks = || one.at_peak().zip(other.at_peak());
    equally_busy.or_else(|| common(one, other)).or_else(at_peaks)
}

/// Where the ratio of the best of one side to the best of the other is known to lie. Which of them
/// is the best is not known for sure: all count, each as far as it is known.
fn known(claim: &Claim, sides: &Sides<'_>, confidence: f64) -> Interval {
    let of_pair = |own: &Series, others: &Series| {
        let pair = ratio(claim, own, others, confidence);
        let is_enough = |pair: &Comparison| pair.pairs >= Some(values_min(confidence));
        let nothing = Interval { low: 0.0, high: f64::INFINITY };
        pair.filter(is_enough).map_or(nothing, |pair| pair.known)
    };
    // The best serves most, or takes least time.
    let [best, least]: [fn(f64, f64) -> f64; 2] = match time(claim) {
        None => [f64::max, f64::min],
        Some(_) => [f64::min, f64::max],
    };
    let both = |of: fn(f64, f64) -> f64| {
        move |a: Interval, b: Interval| Interval { low: of(a.low, b.low), high: of(a.high, b.high) }
    };
    let against_all =
        |own: &&Series| sides.others.iter().map(|others| of_pair(own, others)).reduce(both(least));
    let best = sides.own.iter().filter_map(against_all).reduce(both(best));
    best.expect("each side has a server that was measured")
}

/// The judgement of a ratio that lies in this interval.
fn judge_interval(claim: &Claim, Interval { low, high }: Interval) -> Judged {
    let (least, most) = (claim.at_least, claim.at_most);
    match () {
        () if least.is_some_and(|least| high < least) || most.is_some_and(|most| low > most) => {
            Judged::Contradicted
        }
        () if least.is_none_or(|least| low > least) && most.is_none_or(|most| high < most) => {
            Judged::Confirmed
        }
        () => Judged::Undecided,
    }
}

/// What keeps the figures of the best of both sides from deciding.
fn doubt(claim: &Claim, pair: &Comparison, confidence: f64) -> Option<String> {
    match pair.pairs {
        None => Some("one search of each".into()),
        Some(pairs) if pairs < values_min(confidence) => {
            Some(format!("only {}: see --repetitions", number::counted(pairs, "pair")))
        }
        Some(_) if pair.known != pair.ratio.interval => Some("a peak was not reached".into()),
        Some(_) if judge_interval(claim, pair.known) != Judged::Undecided => {
            Some("another of its settings may be the best".into())
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Described, Offered, Purpose, Run};
    use crate::report::made_runs::runs_on;
    use load::error_kind::ErrorKind;

    fn side(name: &str) -> ClaimSide {
        ClaimSide {
            name: name.into(),
            settings: vec![(name.into(), "default".into())],
            ..ClaimSide::default()
        }
    }

    fn claim(than: &[&str], at_least: Option<f64>, at_most: Option<f64>) -> Claim {
        let than = than.iter().map(|name| side(name)).collect();
        let (text, servers) = ("It is so.".into(), vec![side("one")]);
        Claim { text, servers, than, at_least, at_most, ..Claim::default() }
    }

    /// The sentence about the claim.
    fn sentence(claim: Claim, skipped: Vec<Skipped>, runs: &[Vec<Run>]) -> String {
        let header =
            Header { claims: vec![claim], skipped, expected: "So.".into(), ..Header::default() };
        let opened = Opened { header, runs: runs.concat(), ..Opened::default() };
        let all = super::super::findings(&opened, &Summary::new(&opened));
        let expected: Vec<&Finding> =
            all.iter().filter(|finding| finding.head == Head::Expected).collect();
        assert_eq!(expected[0].text, "Expected: So.", "{expected:?}");
        expected[1].text.clone()
    }

    fn fast() -> Vec<Run> {
        runs_on("d", "one", &[130.0, 131.0, 129.0, 130.0, 132.0, 130.0], 10.0)
    }

    fn slow() -> Vec<Run> {
        runs_on("d", "two", &[100.0, 101.0, 99.0, 100.0, 102.0, 100.0], 20.0)
    }

    #[test]
    fn a_claim_is_judged_by_the_interval_of_the_ratio() {
        let check = |at_least, at_most, expected: &str| {
            let told = sentence(claim(&["two"], at_least, at_most), Vec::new(), &[fast(), slow()]);
            assert!(told.contains(expected), "{told}");
            assert!(told.contains("one 1.30 times two in w, d, closed."), "{told}");
        };
        check(Some(1.0), None, "It is so (throughput more than 1 times): confirmed: one 1.30");
        check(Some(1.35), None, "(throughput more than 1.35 times): contradicted: ");
        check(Some(1.3), None, "not decided: ");
        check(None, Some(1.02), "contradicted: ");
        check(Some(1.2), Some(1.4), "(throughput 1.2 to 1.4 times): confirmed: ");
        check(Some(0.98), Some(1.02), "contradicted: ");
    }

    #[test]
    fn processor_time_is_better_if_it_is_less() {
        let mut claim = claim(&["two"], None, Some(0.6));
        claim.measure = ClaimMeasure::CpuPerRequest;
        let told = sentence(claim, Vec::new(), &[fast(), slow()]);
        let expected = "(CPU time per request less than 0.6 times): confirmed: one 0.50 times two";
        assert!(told.contains(expected), "{told}");
    }

    /// Runs at this rate whose replies took so long, on average and at the 99th percentile.
    fn timed(testbed: &str, name: &str, per_s: f64, [mean, p99]: [f64; 2]) -> Vec<Run> {
        let mut runs = runs_on(testbed, name, &[per_s; 6], 10.0);
        for run in &mut runs {
            run.point.offered = Offered::RequestsPerS(per_s);
            let figures = run.figures.as_mut().expect("it has some");
            figures.times_us = [("mean".to_owned(), mean), ("p99".to_owned(), p99)].into();
        }
        runs
    }

    #[test]
    fn response_times_are_better_if_they_are_less() {
        let runs = [timed("d", "one", 100.0, [50.0, 900.0]), timed("d", "two", 100.0, [100.0; 2])];
        let check = |measure, expected: &str| {
            let claim = Claim { measure, ..claim(&["two"], None, Some(1.0)) };
            let found = sentence(claim, Vec::new(), &runs);
            assert!(found.contains(expected), "{found}");
        };
        let mean = "(mean response time less than 1 times): confirmed: one 0.50 times two";
        check(ClaimMeasure::MeanTime, mean);
        check(ClaimMeasure::P99, "(p99 response time less than 1 times): contradicted: one 9.0");
        let mut marked = runs.clone();
        for run in &mut marked[1] {
            let figures = run.figures.as_mut().expect("it has some");
            figures.mostly_own_lag = ["p99".to_owned()].into();
        }
        let claim_of = |measure| Claim { measure, ..claim(&["two"], None, Some(1.0)) };
        let found = sentence(claim_of(ClaimMeasure::P99), Vec::new(), &marked);
        assert!(found.contains("contradicted: one 9.00 times* two"), "{found}");
        let found = sentence(claim_of(ClaimMeasure::MeanTime), Vec::new(), &marked);
        assert!(found.contains("confirmed: one 0.50 times two"), "{found}");
        let none = [fast(), slow()];
        let claim = Claim { measure: ClaimMeasure::P99, ..claim(&["two"], None, Some(1.0)) };
        let found = sentence(claim, Vec::new(), &none);
        assert!(found.contains(": not decided: one was not measured in w, d"), "{found}");
    }

    /// Rates that lead to the same utilisation may differ, and equal rates lead to others.
    #[test]
    fn times_are_compared_at_the_highest_utilisation_that_both_have() {
        let at = |share: f64, runs: Vec<Run>| {
            let search = Run { purpose: Purpose::Utilisation(share), ..runs[0].clone() };
            [vec![search], runs].concat()
        };
        let runs = [
            at(0.5, timed("d", "one", 100.0, [10.0; 2])),
            at(0.8, timed("d", "one", 200.0, [20.0; 2])),
            at(0.5, timed("e", "one", 200.0, [10.0; 2])),
            at(0.8, timed("e", "one", 400.0, [60.0; 2])),
        ];
        let mut slower = claim(&[], Some(1.0), None);
        (slower.testbeds, slower.than_testbed) = (vec!["e".into()], "d".into());
        slower.measure = ClaimMeasure::MeanTime;
        let found = sentence(slower, Vec::new(), &runs);
        assert!(found.contains("confirmed: one 3.00 times one in d in w, e."), "{found}");
    }

    #[test]
    fn too_few_pairs_decide_nothing() {
        let few = [runs_on("d", "one", &[130.0; 3], 1.0), runs_on("d", "two", &[100.0; 3], 1.0)];
        let told = sentence(claim(&["two"], Some(1.0), None), Vec::new(), &few);
        let why = "(only 3 pairs: see --repetitions)";
        assert!(told.contains("not decided: ") && told.contains(why), "{told}");
    }

    #[test]
    fn a_server_that_is_not_installed_leaves_it_open() {
        let mut claim = claim(&["two", "h2o"], Some(1.0), None);
        (claim.than[1].settings, claim.than[1].absent) = (Vec::new(), "h2o: not installed".into());
        let told = sentence(claim, Vec::new(), &[fast(), slow()]);
        assert!(told.contains(": not decided: h2o: not installed; one 1.30"), "{told}");
    }

    #[test]
    fn a_server_is_compared_with_itself_in_another_testbed() {
        let elsewhere = runs_on("e", "one", &[260.0, 262.0, 258.0, 260.0, 264.0, 260.0], 10.0);
        let mut claim = claim(&[], Some(1.8), None);
        (claim.testbeds, claim.than_testbed) = (vec!["e".into()], "d".into());
        let told_of = |runs: &[Vec<Run>], skipped| sentence(claim.clone(), skipped, runs);
        let found = told_of(&[fast(), elsewhere], Vec::new());
        assert!(found.contains("confirmed: one 2.00 times one in d in w, e, closed."), "{found}");
        let what = Absent::Testbed { testbed: "e".into() };
        let skipped =
            Skipped { what, reason: "8 CPUs are too many".into(), command: String::new() };
        let found = told_of(&[fast()], vec![skipped]);
        assert!(found.contains("not decided: testbed e: 8 CPUs are too many."), "{found}");
    }

    /// A server that kept up with all that it was offered may serve more.
    #[test]
    fn a_peak_that_was_not_seen_bounds_the_ratio_on_one_side() {
        let offered_130 = |mut runs: Vec<Run>, share: f64| {
            for run in &mut runs {
                run.point.offered = Offered::RequestsPerS(130.0);
                let figures = run.figures.as_mut().expect("it has some");
                (figures.kept_up_share, figures.served_share) = (share, share);
            }
            runs
        };
        let runs = [offered_130(fast(), 1.0), offered_130(slow(), 0.77)];
        let check = |at_least, at_most, expected: &str| {
            let told = sentence(claim(&["two"], at_least, at_most), Vec::new(), &runs);
            assert!(told.contains(expected), "{told}");
        };
        check(
            Some(1.5),
            None,
            ": not decided: one 1.30 times two in w, d (a peak was not reached)",
        );
        check(Some(1.2), Some(1.4), ": not decided: one 1.30");
        check(Some(1.2), None, ": confirmed: ");
        check(None, Some(1.1), ": contradicted: ");
    }

    /// The side `name`, which means the servers `names`.
    fn one_of(name: &str, names: &[&str]) -> ClaimSide {
        let settings = names.iter().map(|name| ((*name).to_owned(), "default".into())).collect();
        ClaimSide { settings, ..side(name) }
    }

    #[test]
    fn of_several_each_may_be_the_best() {
        let widely = [70.0, 90.0, 99.0, 99.0, 140.0, 150.0];
        let level = |name, per_s| runs_on("d", name, &[per_s; 6], 10.0);
        let mut more = claim(&["two"], Some(1.3), None);
        more.servers = vec![one_of("A", &["one", "uno"])];
        let runs = [level("one", 100.0), runs_on("d", "uno", &widely, 10.0), level("two", 100.0)];
        let found = sentence(more, Vec::new(), &runs);
        let expected = ": not decided: one 1.00 times two in w, d, closed (another of its settings";
        assert!(found.contains(expected), "{found}");

        let mut than = claim(&[], Some(1.0), None);
        than.than = vec![one_of("B", &["two", "due"])];
        let runs = [level("one", 110.0), level("two", 100.0), runs_on("d", "due", &widely, 10.0)];
        let found = sentence(than.clone(), Vec::new(), &runs);
        assert!(found.contains(": not decided: one 1.10 times two"), "{found}");
        let runs = [level("one", 110.0), level("two", 100.0), level("due", 90.0)];
        let found = sentence(than.clone(), Vec::new(), &runs);
        assert!(found.contains(": confirmed: one 1.10 times two"), "{found}");
        than.measure = ClaimMeasure::CpuPerRequest;
        let runs =
            [runs[0].clone(), runs[1].clone(), runs_on("d", "due", &[100.0; 6], 5.0)].to_vec();
        let found = sentence(than, Vec::new(), &runs);
        assert!(found.contains(": confirmed: one 2.00 times due"), "{found}");
    }

    #[test]
    fn all_of_several_must_have_been_measured() {
        let mut absent = claim(&["two"], Some(1.0), None);
        absent.servers[0].absent = "uno: not installed".into();
        let found = sentence(absent, Vec::new(), &[fast(), slow()]);
        assert!(found.contains(": not decided: uno: not installed."), "{found}");
        let mut unmeasured = claim(&["two"], Some(1.0), None);
        unmeasured.servers = vec![one_of("A", &["one", "uno"])];
        let found = sentence(unmeasured, Vec::new(), &[fast(), slow()]);
        assert!(found.contains(": not decided: A default was not measured in w, d"), "{found}");
    }

    /// Where a claim is for a workload or a testbed of which nothing is known, it is open.
    #[test]
    fn places_without_a_measurement_leave_it_open() {
        let elsewhere = || runs_on("e", "one", &[260.0; 6], 10.0);
        let of_workload = |mut runs: Vec<Run>, workload: &str| {
            runs.iter_mut().for_each(|run| run.point.workload = workload.into());
            runs
        };
        let mut named = claim(&["two"], Some(1.0), None);
        named.workloads = vec!["w".into(), "x".into()];
        let found = sentence(named, Vec::new(), &[fast(), slow()]);
        let expected = ": not decided: nothing was measured in testbed d";
        assert!(!found.contains(expected) && found.contains("measured in x, d; one"), "{found}");
        assert!(found.contains(": not decided: nothing"), "{found}");

        let what = Absent::Testbed { testbed: "e".into() };
        let skipped = Skipped { what, reason: "too small".into(), command: String::new() };
        let found = sentence(claim(&["two"], Some(1.0), None), vec![skipped], &[fast(), slow()]);
        assert!(found.contains(": not decided: testbed e: too small; one 1.30"), "{found}");

        let mut itself = claim(&[], Some(1.8), None);
        (itself.testbeds, itself.than_testbed) = (vec!["e".into()], "d".into());
        let runs = [fast(), elsewhere(), of_workload(elsewhere(), "x")];
        let found = sentence(itself, Vec::new(), &runs);
        assert!(found.contains(": not decided: nothing was measured in x, d; one 2.00"), "{found}");

        let planned = Header {
            claims: vec![claim(&["two"], Some(1.0), None)],
            testbeds: ["d", "e"]
                .map(|name| Described { name: name.into(), ..Described::default() })
                .to_vec(),
            ..Header::default()
        };
        let opened =
            Opened { header: planned, runs: [fast(), slow()].concat(), ..Opened::default() };
        let (judged, text) =
            judged(&opened.header.claims[0], &opened.header, &Summary::new(&opened));
        assert_eq!(judged, Judged::Undecided, "{text}");
        assert!(text.starts_with("nothing was measured in testbed e; one 1.30"), "{text}");
    }

    #[test]
    fn what_has_no_part_in_a_size_leaves_it_open() {
        let mut smaller = claim(&["two"], Some(1.0), None);
        smaller.left_out = vec!["h2o".into()];
        let found = sentence(smaller, Vec::new(), &[fast(), slow()]);
        assert!(found.contains(": not decided: h2o has no part in this size; one"), "{found}");

        // It is told, however many ratios there are.
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let mut many = claim(&names, Some(1.0), None);
        many.left_out = vec!["h2o".into()];
        let mut runs: Vec<Vec<Run>> =
            names.iter().map(|name| runs_on("d", name, &[130.0; 6], 10.0)).collect();
        runs.push(fast());
        let found = sentence(many, Vec::new(), &runs);
        assert!(found.contains(": not decided: h2o has no part in this size; one"), "{found}");
    }

    #[test]
    fn a_server_that_served_nothing_is_behind() {
        let nothing = || runs_on("d", "two", &[0.0; 6], 10.0);
        let found = sentence(claim(&["two"], Some(1.0), None), Vec::new(), &[fast(), nothing()]);
        assert!(found.contains(": confirmed: two served nothing in w, d, closed."), "{found}");
        let found = sentence(claim(&["two"], None, Some(2.0)), Vec::new(), &[fast(), nothing()]);
        assert!(found.contains(": contradicted: two served nothing"), "{found}");
    }

    #[test]
    fn a_throughput_that_was_bought_by_neglect_decides_nothing() {
        let mut unfair = fast();
        for figures in unfair.iter_mut().filter_map(|run| run.figures.as_mut()) {
            figures.spread_points = Some(30.0);
        }
        let found = sentence(claim(&["two"], Some(1.0), None), Vec::new(), &[unfair, slow()]);
        let expected = ": not decided: one did not serve all kinds of file alike in w, d, closed.";
        assert!(found.contains(expected), "{found}");
    }

    /// Of a server at which nothing timed out nothing is known.
    #[test]
    fn a_spread_of_timeouts_is_judged_by_itself() {
        let at = |name: &str, timeouts: u64, points: f64| {
            let mut runs = runs_on("d", name, &[100.0; 6], 10.0);
            for figures in runs.iter_mut().filter_map(|run| run.figures.as_mut()) {
                figures.spread_points = Some(points);
                let kind = ErrorKind::ALL.into_iter().find(|kind| kind.is_timeout());
                let name = kind.expect("there is one").name().to_owned();
                figures.errors = [(name, timeouts)].into();
            }
            runs
        };
        let check = |one: Vec<Run>, at_most, expected: &str| {
            let claim = Claim { measure: ClaimMeasure::Spread, ..claim(&[], None, at_most) };
            let found = sentence(claim, Vec::new(), &[one]);
            assert!(found.contains(expected), "{found}");
        };
        let within = "It is so (timeouts spread over kinds of file within 2 points): ";
        let so = format!("{within}confirmed: one 1.5 points in w, d, closed.");
        check(at("one", 9, 1.5), Some(2.0), &so);
        check(at("one", 9, 3.5), Some(2.0), &format!("{within}contradicted: one 3.5 points"));
        check(at("one", 9, 3.5), Some(4.0), "within 4 points): confirmed: ");
        let nothing = "not decided: nothing timed out at one in w, d, closed.";
        check(at("one", 0, 0.0), Some(2.0), &format!("{within}{nothing}"));
    }

    /// Of many ratios some lie beyond a bound by chance.
    #[test]
    fn one_of_many_ratios_contradicts_only_beyond_doubt() {
        let names: Vec<String> = (0..18).map(|n| format!("other {n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let check = |slower: usize, blocks: usize, expected: &str| {
            let runs = names.iter().enumerate().map(|(n, name)| {
                let per_s = if n < slower { 140.0 } else { 100.0 };
                runs_on("d", name, &vec![per_s; blocks], 10.0)
            });
            let mut runs: Vec<Vec<Run>> = runs.collect();
            runs.push(runs_on("d", "one", &vec![130.0; blocks], 10.0));
            let found = sentence(claim(&names, Some(1.0), None), Vec::new(), &runs);
            assert!(found.contains(expected), "{slower} of {blocks}: {found}");
        };
        check(1, 6, ": not decided: one 0.93 times other 0 ");
        check(1, 6, "and 12 more (of 18 ratios 1 beyond the bounds may be chance).");
        check(1, 10, ": contradicted: ");
        check(11, 6, ": not decided: ");
        check(12, 6, ": contradicted: ");
        check(0, 6, ": confirmed: ");
    }

    #[test]
    fn a_text_alone_is_left_to_the_reader() {
        let header = Header { expected: " Nobody knows. ".into(), ..Header::default() };
        let text = unjudged(&header).expect("there is one").text;
        assert_eq!(text, "Expected: Nobody knows. (To be judged by the reader.)");
        assert!(unjudged(&Header::default()).is_none());
    }

    /// Records that were written before there were claims have none.
    #[test]
    fn old_records_are_read_and_new_ones_as_they_were_written() {
        let old: Header = serde_json::from_str(r#"{"expected": "So."}"#).expect("it is read");
        assert!(old.claims.is_empty());
        let claims = vec![claim(&["two"], Some(1.0), None)];
        let new = Header { claims, ..Header::default() };
        let text = serde_json::to_string(&new).expect("it is JSON");
        assert_eq!(serde_json::from_str::<Header>(&text).expect("it is read"), new);
        let without = serde_json::to_string(&Header::default()).expect("it is JSON");
        assert!(!without.contains("claims"), "{without}");
    }
}
