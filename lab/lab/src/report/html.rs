//! A report as one page: the order of its parts. The crate `page` renders them.

use page::document::{self, escape, with_code};

use super::document::Document;
use super::findings::{Finding, Head};

/// Renders the whole page.
pub(crate) fn render(report: &Document) -> String {
    // Readers come for the results: what was not seen, and what was set, is below, and folded.
    let mut body = words(report, Head::Verdict);
    let (first, others) = match &report.figures[..] {
        [] => (None, &[][..]),
        [first, others @ ..] => (Some(first), others),
    };
    body += &document::glance(&report.facts, first);
    body += &contents(report);
    let middle = [Head::Expected, Head::Supported, Head::NotSupported];
    body.extend(middle.map(|head| words(report, head)));
    body += &document::matrices("Each against each", &report.matrices);
    body.extend(report.summaries.iter().map(document::section));
    body += &document::figures("Figures", others);
    body.extend(report.sections.iter().filter(|section| !section.folded).map(document::section));
    body += &words(report, Head::NotObserved);
    body.extend(report.sections.iter().filter(|section| section.folded).map(document::section));
    let texts = report.texts.iter().map(|(name, text)| (name.clone(), &**text));
    body += &document::folded("Configurations", "text", &texts.collect::<Vec<_>>());
    document::render(&report.title, &report.preamble, &body, &report.figures)
}

fn contents(report: &Document) -> String {
    let figures = report.figures.iter().map(|figure| (&*figure.id, &*figure.title));
    let first = report.summaries.iter().map(|section| (&*section.id, &*section.title));
    let pairs = report.matrices.iter().map(|matrix| (&*matrix.id, &*matrix.title));
    let later = report.sections.iter().map(|section| (&*section.id, &*section.title));
    document::contents(pairs.chain(first).chain(figures).chain(later))
}

fn words(report: &Document, head: Head) -> String {
    let own = report.findings.iter().filter(|finding| finding.head == head);
    let own: Vec<String> = own.map(sentence).collect();
    match head {
        _ if own.is_empty() => String::new(),
        Head::Verdict => document::verdict(head.title(), &own),
        Head::NotObserved => document::folded_words(head.title(), &own),
        _ => document::words("words", head.title(), &own),
    }
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
    use page::document::{Fact, Section};
    use page::matrix::Matrix;

    use super::*;

    /// Readers come for the results, not for two screens of missing observations.
    #[test]
    fn the_verdict_is_first_and_what_was_not_seen_is_last_and_folded() {
        let finding = |head: Head| Finding::new(head, head.title());
        let figure = |id: &str| Figure {
            id: id.into(),
            title: id.into(),
            about: String::new(),
            drawing: Drawing::Lines(Chart::default()),
            table: Table::default(),
        };
        let section = |id: &str, folded| Section {
            id: id.into(),
            title: id.into(),
            table: Table { rows: vec![vec!["1".into()]; 3], ..Table::default() },
            folded,
        };
        let report = Document {
            facts: vec![Fact::new("Void runs", "2 of 506", "")],
            findings: Head::ALL.map(finding).to_vec(),
            matrices: vec![Matrix { id: "pairs".into(), ..Matrix::default() }],
            summaries: vec![section("summary", false)],
            figures: ["first", "other"].map(figure).to_vec(),
            sections: vec![section("void", true), section("observed", false)],
            texts: vec![("nginx".into(), "listen 80;".into())],
            ..Document::default()
        };
        let page = render(&report);
        let head = |head: Head| format!("<h2>{}</h2>", head.title());
        let id = |id: &str| format!("id=\"{id}\"");
        let parts = [
            head(Head::Verdict),
            "2 of 506".into(),
            id("first"),
            head(Head::Expected),
            head(Head::Supported),
            head(Head::NotSupported),
            id("pairs"),
            id("summary"),
            id("other"),
            id("observed"),
            "<details><summary><h2>What was not observed</h2> <span class=\"count\">1 item".into(),
            "<section id=\"void\"><details><summary><h2>void</h2> <span class=\"count\">3 rows"
                .into(),
            "<details><summary><h2>Configurations</h2> <span class=\"count\">1 text".into(),
        ];
        let places = parts.map(|part| page.find(&part).unwrap_or_else(|| panic!("no {part}")));
        assert!(places.is_sorted(), "{places:?}");
    }
}
