//! A report as one page: what stands in it, and in which order. How a page is made is the
//! business of `page`.

use page::document::{self, Section, escape, with_code};

use super::Report;
use super::findings::Head;
use super::summary::Panel;

/// The whole page.
pub(crate) fn render(report: &Report) -> String {
    let sections = report.tables();
    let (first, later): (Vec<_>, Vec<_>) =
        sections.iter().partition(|section| section.id.starts_with("summary"));
    let mut body = contents(report, &first, &later);
    body += &words(report);
    first.into_iter().for_each(|section| body += &document::section(section));
    body += &document::figures(&report.figures);
    later.into_iter().for_each(|section| body += &document::section(section));
    body += &definition(report);
    document::render(&report.title(), &report.preamble(), &body, &report.figures)
}

fn contents(report: &Report, first: &[&Section], later: &[&Section]) -> String {
    let figures = report.figures.iter().map(|figure| (&*figure.id, &*figure.title));
    let first = first.iter().map(|section| (&*section.id, &*section.title));
    let later = later.iter().map(|section| (&*section.id, &*section.title));
    document::contents(first.chain(figures).chain(later))
}

fn words(report: &Report) -> String {
    let mut text = String::new();
    for head in Head::ALL {
        let own = report.findings.iter().filter(|finding| finding.head == head);
        let own: Vec<String> = own.map(|finding| sentence(&finding.text, report)).collect();
        if !own.is_empty() {
            let class = if head == Head::Verdict { "verdict" } else { "words" };
            text += &document::words(class, head.title(), &own);
        }
    }
    text
}

/// What it is about stands out.
fn sentence(text: &str, report: &Report) -> String {
    let titles = report.summary.panels.iter().map(Panel::title);
    let about = titles.filter(|title| text.starts_with(&**title)).max_by_key(String::len);
    let (about, rest) = text.split_at(about.map_or(0, |title| title.len()));
    let about = match about {
        "" => String::new(),
        about => format!("<strong>{}</strong>", escape(about)),
    };
    about + &with_code(&escape(rest))
}

fn definition(report: &Report) -> String {
    let header = &report.opened.header;
    let configurations = header.servers.iter().flat_map(|server| {
        let files = server.configurations.iter();
        files.map(move |(setting, file)| (format!("{}, {setting}", server.name), &**file))
    });
    let all: Vec<(String, &str)> = configurations
        .chain([("The definition".to_owned(), &*header.definition)])
        .filter(|(_, contents)| !contents.trim().is_empty())
        .collect();
    document::folded("Configurations", &all)
}
