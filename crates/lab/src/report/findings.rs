//! What the figures support and what they do not, in words. Pure: the same records give the same
//! words. Nothing is said here that no figure or table shows.

mod compared;
mod peaks;
mod records;
#[cfg(test)]
mod tests;
mod winners;

use super::summary::{Panel, Summary};
use crate::record::{Kind, Opened};

/// A sentence or two, and under which head they stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) head: Head,
    pub(crate) text: String,
    /// How many bytes of the text name what it is about.
    subject_len: usize,
}

impl Finding {
    /// What is about all that was measured.
    pub(crate) fn new(head: Head, text: impl Into<String>) -> Self {
        Self { head, text: text.into(), subject_len: 0 }
    }

    /// What begins with the name of what it is about.
    pub(crate) fn of(subject: &str, head: Head, rest: &str) -> Self {
        Self { head, text: format!("{subject}{rest}"), subject_len: subject.len() }
    }

    /// What it is about, and what is said of it.
    pub(crate) fn parts(&self) -> (&str, &str) {
        self.text.split_at(self.subject_len)
    }
}

/// In the order in which they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Head {
    Verdict,
    Supported,
    NotSupported,
    NotObserved,
}

impl Head {
    pub(crate) const ALL: [Self; 4] =
        [Self::Verdict, Self::Supported, Self::NotSupported, Self::NotObserved];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Verdict => "Verdict",
            Self::Supported => "What the figures support",
            Self::NotSupported => "What they do not support",
            Self::NotObserved => "What was not observed",
        }
    }
}

/// Gathers findings.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, head: Head, text: impl Into<String>) {
        self.0.push(Finding::new(head, text));
    }

    fn add_of(&mut self, panel: &Panel, head: Head, rest: &str) {
        self.0.push(Finding::of(&panel.title(), head, rest));
    }
}

/// All that can be said, in the order of reading.
pub(crate) fn findings(opened: &Opened, summary: &Summary) -> Vec<Finding> {
    let mut findings = Findings::default();
    match opened.header.kind {
        Kind::Compare => compared::verdicts(&mut findings, opened, summary),
        Kind::Tune => winners::winners(&mut findings, summary),
        Kind::Study | Kind::Cache => (),
    }
    for panel in &summary.panels {
        if opened.header.kind == Kind::Study {
            peaks::compare(&mut findings, panel, summary.confidence);
            // Nobody looks for a peak where two are compared at one load.
            peaks::beyond(&mut findings, panel);
        }
        peaks::doubts(&mut findings, panel, opened.header.kind);
    }
    records::gaps(&mut findings, opened, summary);
    findings.0.sort_by_key(|finding| finding.head);
    findings.0
}

/// Whether the machine was the same whenever the study was resumed.
pub(crate) fn of_machines(opened: &Opened) -> Vec<Finding> {
    let mut findings = Findings::default();
    records::machines(&mut findings, opened);
    findings.0
}

/// `a`, `a and b`, `a, b and c`.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// At most `max` of them, and how many more there are.
pub(super) fn listed_at_most(names: &[String], max: usize) -> String {
    match names.len().checked_sub(max) {
        None | Some(0) => listed(names),
        Some(more) => format!("{} and {more} more", names[..max].join(", ")),
    }
}
