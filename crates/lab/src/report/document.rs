//! A report before it has a form: words, tables and figures, whatever they are of.

use page::chart::Figure;
use page::document::Section;

use super::findings::Finding;
use crate::record::Header;

/// All that is shown.
#[derive(Debug, Default)]
pub(crate) struct Document {
    pub(crate) title: String,
    /// What was asked, by whom, when, and how much of it there is.
    pub(crate) preamble: Vec<String>,
    pub(crate) findings: Vec<Finding>,
    /// Tables that belong to no figure, those first that stand before the figures.
    pub(crate) summaries: Vec<Section>,
    pub(crate) figures: Vec<Figure>,
    pub(crate) sections: Vec<Section>,
    /// What few will read, each under its name.
    pub(crate) texts: Vec<(String, String)>,
}

impl Document {
    /// All tables that belong to no figure.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Section> {
        self.summaries.iter().chain(&self.sections)
    }
}

/// What a report is called.
pub(crate) fn title(header: &Header) -> String {
    if header.title.is_empty() { header.name.clone() } else { header.title.clone() }
}

/// Who asked first, what, and what was found there: what is known of it.
pub(crate) fn asked(header: &Header) -> impl Iterator<Item = String> {
    let told = [
        ("After", &header.source),
        ("Question:", &header.question),
        ("Expected:", &header.expected),
    ];
    let told = told.into_iter().filter(|(_, text)| !text.is_empty());
    told.map(|(head, text)| format!("{head} {text}"))
}
