//! A report as one page: the order of its parts. The crate `page` renders them.

use page::document::{self, escape, with_code};

use super::document::Document;
use super::findings::{Finding, Head};

/// Renders the whole page.
pub(crate) fn render(report: &Document) -> String {
    let mut body = contents(report);
    let is_first = |head: &Head| *head != Head::NotObserved;
    Head::ALL.into_iter().filter(is_first).for_each(|head| body += &words(report, head));
    report.summaries.iter().for_each(|section| body += &document::section(section));
    body += &document::figures(&report.figures);
    // Findings on missing observations stand below the figures.
    body += &words(report, Head::NotObserved);
    report.sections.iter().for_each(|section| body += &document::section(section));
    let texts = report.texts.iter().map(|(name, text)| (name.clone(), &**text));
    body += &document::folded("Configurations", &texts.collect::<Vec<_>>());
    document::render(&report.title, &report.preamble, &body, &report.figures)
}

fn contents(report: &Document) -> String {
    let figures = report.figures.iter().map(|figure| (&*figure.id, &*figure.title));
    let first = report.summaries.iter().map(|section| (&*section.id, &*section.title));
    let later = report.sections.iter().map(|section| (&*section.id, &*section.title));
    document::contents(first.chain(figures).chain(later))
}

fn words(report: &Document, head: Head) -> String {
    let own = report.findings.iter().filter(|finding| finding.head == head);
    let own: Vec<String> = own.map(sentence).collect();
    let class = if head == Head::Verdict { "verdict" } else { "words" };
    if own.is_empty() { String::new() } else { document::words(class, head.title(), &own) }
}

/// Renders a finding, with its subject emphasised.
fn sentence(finding: &Finding) -> String {
    let (subject, rest) = finding.parts();
    let subject = match subject {
        "" => String::new(),
        subject => format!("<strong>{}</strong>", escape(subject)),
    };
    subject + &with_code(&escape(rest))
}

#[cfg(test)]
mod tests {
    use page::chart::{Chart, Drawing, Figure, Table};

    use super::*;

    /// Readers come for the results, not for two screens of missing observations.
    #[test]
    fn what_was_not_seen_stands_below_the_figures() {
        let finding = |head: Head| Finding::new(head, head.title());
        let figure = Figure {
            id: "f".into(),
            title: "A figure".into(),
            about: String::new(),
            drawing: Drawing::Lines(Chart::default()),
            table: Table::default(),
        };
        let report = Document {
            findings: Head::ALL.map(finding).to_vec(),
            figures: vec![figure],
            ..Document::default()
        };
        let page = render(&report);
        let place = |part: &str| page.find(part).expect("it is there");
        let [first @ .., last] = Head::ALL.map(|head| place(head.title()));
        let figure = place("<figure");
        assert!(first.is_sorted() && first[2] < figure && figure < last, "{first:?} {last}");
    }
}
