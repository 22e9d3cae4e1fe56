//! What the source of an experiment found, beside what was measured: each claim is confirmed,
//! contradicted or not decided, by the same ratios and intervals as all other findings.

use super::super::comparison::Comparison;
use super::super::measure::Measure;
use super::super::number;
use super::super::summary::{Panel, Series, Summary};
use super::{Finding, Findings, Head, common};
use crate::record::{Claim, ClaimMeasure, ClaimSide, Header, Opened};
use statistics::values_min;

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
    if !header.expected.trim().is_empty() {
        findings.add(Head::Expected, header.expected.trim());
    }
    for claim in &header.claims {
        let (judged, figures) = judged(claim, header, summary);
        let bounds = bounds(claim);
        let text = format!(" ({bounds}): {}. {figures}.", judged.name());
        findings.0.push(Finding::with_subject(
            claim.text.trim_end_matches('.'),
            Head::Expected,
            &text,
        ));
    }
}

/// The expectation as a text, which only a reader can judge.
pub(crate) fn unjudged(header: &Header) -> Option<Finding> {
    let expected = header.expected.trim();
    let text = format!("{expected} (To be judged by the reader.)");
    (!expected.is_empty()).then(|| Finding::new(Head::Expected, text))
}

/// What is claimed, as numbers.
fn bounds(claim: &Claim) -> String {
    let what = match claim.measure {
        ClaimMeasure::Throughput => "throughput",
        ClaimMeasure::CpuPerRequest => "CPU time per request",
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

/// What the figures of all workloads and testbeds say, and the figures.
fn judged(claim: &Claim, header: &Header, summary: &Summary) -> (Judged, String) {
    let is_named =
        |names: &[String], name: &str| names.is_empty() || names.iter().any(|n| n == name);
    let panels = summary.panels.iter().filter(|panel| {
        is_named(&claim.workloads, &panel.workload)
            && is_named(&claim.testbeds, &panel.testbed)
            && panel.testbed != claim.than_testbed
    });
    let mut told: Vec<(Judged, String)> = Vec::new();
    for panel in panels {
        for side in &claim.servers {
            told.extend(of_panel(claim, side, panel, summary));
        }
    }
    told.extend(without_testbed(claim, header, summary));
    // What contradicts a claim, or leaves it open, is told first.
    told.sort_by_key(|(judged, _)| std::cmp::Reverse(*judged));
    let judged = told.first().map_or(Judged::Undecided, |(judged, _)| *judged);
    let figures: Vec<String> = told.into_iter().map(|(_, figures)| figures).collect();
    match figures.is_empty() {
        true => (judged, "Nothing that it compares was measured".into()),
        false => (judged, capital(&joined(&figures))),
    }
}

/// Joins figures, of which each has commas of its own.
fn joined(figures: &[String]) -> String {
    let shown = figures[..figures.len().min(LISTED_MAX)].join("; ");
    match figures.len().saturating_sub(LISTED_MAX) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

/// A testbed of a claim in which nothing was measured.
fn without_testbed(claim: &Claim, header: &Header, summary: &Summary) -> Option<(Judged, String)> {
    let mut named = claim.testbeds.iter().chain(Some(&claim.than_testbed));
    let is_absent = |testbed: &&String| {
        !testbed.is_empty() && summary.panels.iter().all(|panel| panel.testbed != **testbed)
    };
    let absent = named.find(is_absent)?;
    let skipped =
        header.skipped.iter().find(|one| one.what.to_string() == format!("testbed {absent}"));
    let why = match skipped {
        Some(skipped) => format!("testbed {absent}: {}", skipped.reason.trim_end_matches('.')),
        None => format!("nothing was measured in testbed {absent}"),
    };
    Some((Judged::Undecided, why))
}

/// One side of a claim in a panel, against each other side, or against itself in another testbed.
fn of_panel(
    claim: &Claim,
    side: &ClaimSide,
    panel: &Panel,
    summary: &Summary,
) -> Vec<(Judged, String)> {
    let own = match best(claim, side, panel) {
        Ok(own) => own,
        Err(why) => return vec![(Judged::Undecided, why)],
    };
    let place = panel.title();
    if !claim.than_testbed.is_empty() {
        let other = summary.panels.iter().find(|other| {
            other.testbed == claim.than_testbed
                && (&other.workload, other.closed) == (&panel.workload, panel.closed)
        });
        let Some(other) = other else { return Vec::new() };
        return match best(claim, side, other) {
            Err(why) => vec![(Judged::Undecided, why)],
            Ok(others) => {
                let than = format!("{} in {}", others.name, claim.than_testbed);
                vec![compared(claim, (own, others), &than, (&place, summary.confidence))]
            }
        };
    }
    let against = claim.than.iter().map(|than| match best(claim, than, panel) {
        Err(why) => (Judged::Undecided, why),
        Ok(others) => compared(claim, (own, others), &others.name, (&place, summary.confidence)),
    });
    against.collect()
}

/// The best of the servers that a side names, or why there is none.
fn best<'p>(claim: &Claim, side: &ClaimSide, panel: &'p Panel) -> Result<&'p Series, String> {
    let is_of = |series: &&Series| {
        side.settings
            .iter()
            .any(|(server, setting)| (server, setting) == (&series.server, &series.setting))
    };
    let value = |series: &&Series| match claim.measure {
        ClaimMeasure::Throughput => series.peak().map(|peak| peak.per_s),
        ClaimMeasure::CpuPerRequest => {
            series.at_peak()?.median(Measure::CpuPerRequest).map(|cost| -cost)
        }
    };
    let measured = panel.series.iter().filter(is_of).filter_map(|one| Some((value(&one)?, one)));
    let best = measured.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, series)| series);
    best.ok_or_else(|| match &*side.absent {
        "" => format!("{} was not measured in {}", side.name, panel.title()),
        why => why.to_owned(),
    })
}

/// The judgement of a pair, with its figures.
fn compared(
    claim: &Claim,
    (own, others): (&Series, &Series),
    than: &str,
    (place, confidence): (&str, f64),
) -> (Judged, String) {
    let pair = match claim.measure {
        ClaimMeasure::Throughput => Comparison::compare_peaks(own, others, confidence),
        ClaimMeasure::CpuPerRequest => {
            let points = common(own, others).or_else(|| own.at_peak().zip(others.at_peak()));
            points.and_then(|(one, other)| {
                let (one, other) = ((&*own.name, one), (&*others.name, other));
                Comparison::compare_points(one, other, Measure::CpuPerRequest, confidence)
            })
        }
    };
    let Some(pair) = pair else {
        let why = format!("{} and {than} have no run of the same block in {place}", own.name);
        return (Judged::Undecided, why);
    };
    let (judged, why) = of_ratio(claim, &pair, confidence);
    (judged, format!("{} {} times {than} in {place}{why}", own.name, pair.shown()))
}

/// The judgement of a ratio, and what keeps it from being one.
fn of_ratio(claim: &Claim, pair: &Comparison, confidence: f64) -> (Judged, String) {
    use super::super::comparison::Verdict;
    let (low, high) = (pair.ratio.interval.low, pair.ratio.interval.high);
    match pair.pairs {
        _ if pair.verdict == Verdict::NotReached => {
            return (Judged::Undecided, " (a peak was not reached)".into());
        }
        None => return (Judged::Undecided, " (one search of each)".into()),
        Some(pairs) if pairs < values_min(confidence) => {
            let pairs = number::counted(pairs, "pair");
            return (Judged::Undecided, format!(" (only {pairs})"));
        }
        Some(_) => (),
    }
    let (least, most) = (claim.at_least.unwrap_or(0.0), claim.at_most.unwrap_or(f64::INFINITY));
    let judged = match () {
        () if low > most || high < least => Judged::Contradicted,
        () if low > least && high < most => Judged::Confirmed,
        () => Judged::Undecided,
    };
    (judged, String::new())
}

/// The text with its first letter as a capital, if it is no name.
fn capital(text: &str) -> String {
    let is_word = text.starts_with("nothing ") || text.starts_with("testbed ");
    match is_word {
        true => format!("{}{}", text[..1].to_uppercase(), &text[1..]),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Absent, Run, Skipped};
    use crate::report::made_runs::runs_on;

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

    /// What is told of the claim.
    fn told(claim: Claim, skipped: Vec<Skipped>, runs: &[Vec<Run>]) -> String {
        let header =
            Header { claims: vec![claim], skipped, expected: "So.".into(), ..Header::default() };
        let opened = Opened { header, runs: runs.concat(), ..Opened::default() };
        let all = super::super::findings(&opened, &Summary::new(&opened));
        let expected: Vec<&Finding> =
            all.iter().filter(|finding| finding.head == Head::Expected).collect();
        assert_eq!(expected[0].text, "So.", "{expected:?}");
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
            let told = told(claim(&["two"], at_least, at_most), Vec::new(), &[fast(), slow()]);
            assert!(told.contains(expected), "{told}");
            assert!(told.contains("one 1.30 times two in w, d, closed."), "{told}");
        };
        check(Some(1.0), None, "It is so (throughput more than 1 times): confirmed. one 1.30");
        check(Some(1.35), None, "(throughput more than 1.35 times): contradicted. ");
        check(Some(1.3), None, "not decided. ");
        check(None, Some(1.02), "contradicted. ");
        check(Some(1.2), Some(1.4), "(throughput 1.2 to 1.4 times): confirmed. ");
        check(Some(0.98), Some(1.02), "contradicted. ");
    }

    #[test]
    fn processor_time_is_better_if_it_is_less() {
        let mut claim = claim(&["two"], None, Some(0.6));
        claim.measure = ClaimMeasure::CpuPerRequest;
        let told = told(claim, Vec::new(), &[fast(), slow()]);
        let expected = "(CPU time per request less than 0.6 times): confirmed. one 0.50 times two";
        assert!(told.contains(expected), "{told}");
    }

    #[test]
    fn too_few_pairs_decide_nothing() {
        let few = [runs_on("d", "one", &[130.0; 3], 1.0), runs_on("d", "two", &[100.0; 3], 1.0)];
        let told = told(claim(&["two"], Some(1.0), None), Vec::new(), &few);
        assert!(told.contains("not decided. ") && told.contains("(only 3 pairs)"), "{told}");
    }

    #[test]
    fn a_server_that_is_not_installed_leaves_it_open() {
        let mut claim = claim(&["two", "h2o"], Some(1.0), None);
        (claim.than[1].settings, claim.than[1].absent) = (Vec::new(), "h2o: not installed".into());
        let told = told(claim, Vec::new(), &[fast(), slow()]);
        assert!(told.contains(": not decided. h2o: not installed; one 1.30"), "{told}");
    }

    #[test]
    fn a_server_is_compared_with_itself_in_another_testbed() {
        let elsewhere = runs_on("e", "one", &[260.0, 262.0, 258.0, 260.0, 264.0, 260.0], 10.0);
        let mut claim = claim(&[], Some(1.8), None);
        (claim.testbeds, claim.than_testbed) = (vec!["e".into()], "d".into());
        let told_of = |runs: &[Vec<Run>], skipped| told(claim.clone(), skipped, runs);
        let found = told_of(&[fast(), elsewhere], Vec::new());
        assert!(found.contains("confirmed. one 2.00 times one in d in w, e, closed."), "{found}");
        let what = Absent::Testbed { testbed: "e".into() };
        let skipped =
            Skipped { what, reason: "8 CPUs are too many".into(), command: String::new() };
        let found = told_of(&[fast()], vec![skipped]);
        assert!(found.contains("not decided. Testbed e: 8 CPUs are too many."), "{found}");
    }

    #[test]
    fn a_text_alone_is_left_to_the_reader() {
        let header = Header { expected: " Nobody knows. ".into(), ..Header::default() };
        let text = unjudged(&header).expect("there is one").text;
        assert_eq!(text, "Nobody knows. (To be judged by the reader.)");
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
