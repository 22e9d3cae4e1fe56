//! The contents of a report before it is rendered: words, tables and figures of any kind of study.

use page::chart::Figure;
use page::document::{Fact, Section};
use page::matrix::Matrix;

use super::findings::Finding;
use crate::record::Header;

/// The contents of a report.
#[derive(Debug, Default)]
pub(crate) struct Document {
    pub(crate) title: String,
    /// The question, its source, the time of the study, and the amount of data.
    pub(crate) preamble: Vec<String>,
    /// The few numbers that a reader comes for.
    pub(crate) facts: Vec<Fact>,
    pub(crate) findings: Vec<Finding>,
    /// Each server against each other.
    pub(crate) matrices: Vec<Matrix>,
    /// Tables that belong to no figure and stand before the figures.
    pub(crate) summaries: Vec<Section>,
    /// The figures; the first is shown beside the headline figures.
    pub(crate) figures: Vec<Figure>,
    pub(crate) sections: Vec<Section>,
    /// Texts that few readers need, each with its name.
    pub(crate) texts: Vec<(String, String)>,
}

impl Document {
    /// Returns all tables that belong to no figure.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Section> {
        self.summaries.iter().chain(&self.sections)
    }
}

/// Returns the title of a report.
pub(crate) fn title(header: &Header) -> String {
    if header.title.is_empty() { header.name.clone() } else { header.title.clone() }
}

/// Returns the known lines on the question: its source, and the question itself.
pub(crate) fn question_lines(header: &Header) -> impl Iterator<Item = String> {
    let told = [("After", &header.source), ("Question:", &header.question)];
    let told = told.into_iter().filter(|(_, text)| !text.is_empty());
    told.map(|(head, text)| format!("{head} {text}"))
}
