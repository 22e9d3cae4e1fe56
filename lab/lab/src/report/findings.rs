//! The conclusions that the figures support, and those that they do not, in words. All functions
//! are pure: equal records give equal words. Each conclusion can be seen in a figure or table.

mod claims;
mod compared;
mod costs;
mod peaks;
mod records;
#[cfg(test)]
mod tests;
mod winners;

use super::summary::{Panel, Summary};
use crate::record::{Kind, Opened};

/// A finding: a sentence or two, and the head under which they stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) head: Head,
    pub(crate) text: String,
    /// The number of bytes at the beginning of the text that name its subject.
    subject_len: usize,
}

impl Finding {
    /// Makes a finding on the whole study.
    pub(crate) fn new(head: Head, text: impl Into<String>) -> Self {
        Self { head, text: text.into(), subject_len: 0 }
    }

    /// Makes a finding that begins with the name of its subject.
    pub(crate) fn with_subject(subject: &str, head: Head, rest: &str) -> Self {
        Self { head, text: format!("{subject}{rest}"), subject_len: subject.len() }
    }

    /// Returns the subject and the rest of the text.
    pub(crate) fn parts(&self) -> (&str, &str) {
        self.text.split_at(self.subject_len)
    }
}

/// The heads of findings, in the order of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Head {
    Verdict,
    Expected,
    Supported,
    NotSupported,
    NotObserved,
}

impl Head {
    pub(crate) const ALL: [Self; 5] =
        [Self::Verdict, Self::Expected, Self::Supported, Self::NotSupported, Self::NotObserved];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Verdict => "Verdict",
            Self::Expected => "What was expected",
            Self::Supported => "What the figures support",
            Self::NotSupported => "What they do not support",
            Self::NotObserved => "What was not observed",
        }
    }
}

/// The most names that [`did_better`] lists.
const BETTER_MAX: usize = 8;

/// Collects findings.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, head: Head, text: impl Into<String>) {
        self.0.push(Finding::new(head, text));
    }

    fn add_for_panel(&mut self, panel: &Panel, head: Head, rest: &str) {
        self.0.push(Finding::with_subject(&panel.title(), head, rest));
    }
}

pub(crate) use claims::{expectation, labelled, unjudged};
pub(crate) use compared::{by_measure, common, keep_up};

/// Makes all findings, in the order of the report.
pub(crate) fn findings(opened: &Opened, summary: &Summary) -> Vec<Finding> {
    let mut findings = Findings::default();
    match opened.header.kind {
        Kind::Compare => compared::verdicts(&mut findings, opened, summary),
        Kind::Tune => winners::winners(&mut findings, summary),
        Kind::Study | Kind::Cache => (),
    }
    for panel in &summary.panels {
        if opened.header.together {
            costs::compare(&mut findings, panel, summary.confidence);
        } else if opened.header.kind == Kind::Study {
            peaks::compare(&mut findings, panel, summary.confidence);
            // A comparison of two servers at one load does not search for a peak.
            peaks::beyond(&mut findings, panel);
        }
        peaks::doubts(&mut findings, panel, opened.header.kind);
    }
    if opened.header.together {
        findings.add(Head::NotSupported, costs::SHARED);
    }
    claims::judge(&mut findings, opened, summary);
    records::gaps(&mut findings, opened, summary);
    findings.0.sort_by_key(|finding| finding.head);
    findings.0
}

/// Reports whether the machine was the same each time the study was resumed.
pub(crate) fn machine_findings(opened: &Opened) -> Vec<Finding> {
    let mut findings = Findings::default();
    records::machines(&mut findings, opened);
    findings.0
}

/// The sentence on those that were ahead of the best where both were measured: the best has the
/// best median of all its blocks, but the others may not have been measured in each of them.
fn did_better(names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => {
            let names = listed_at_most(names, BETTER_MAX);
            format!(" Where both were measured, {names} did better: it is not decided.")
        }
    }
}

/// Joins names: `a`, `a and b`, `a, b and c`.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Joins at most `max` names, with the number of those left out.
pub(super) fn listed_at_most(names: &[String], max: usize) -> String {
    match names.len().checked_sub(max) {
        None | Some(0) => listed(names),
        Some(more) => format!("{} and {more} more", names[..max].join(", ")),
    }
}
