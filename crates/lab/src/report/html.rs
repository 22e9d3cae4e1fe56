//! A report as one page: style, script, figures and data are in it, nothing is fetched. Each
//! figure is drawn as SVG, for print and for readers without scripts; where scripts run, an
//! interactive chart takes its place on the screen.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::chart::{Chart, Drawing, Figure, Form, Table};
use super::findings::Head;
use super::summary::Panel;
use super::svg::{self, COLOURS, DASHES};
use super::{Report, Section};

const STYLE: &str = include_str!("assets/report.css");
const SCRIPT: &str = include_str!("assets/report.js");
const UPLOT_STYLE: &str = include_str!("assets/uPlot.min.css");
const UPLOT_SCRIPT: &str = include_str!("assets/uPlot.iife.min.js");
/// Goes wherever the library goes.
const UPLOT_LICENCE: &str = include_str!("assets/uPlot-LICENSE");

/// The whole page.
pub(crate) fn render(report: &Report) -> String {
    let title = escape(&report.title());
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n\
         <style>\n{UPLOT_STYLE}\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    );
    for line in report.preamble() {
        // Writing to a string does not fail, here and below.
        let _ = writeln!(text, "<p class=\"preamble\">{}</p>", escape(&line));
    }
    let sections = report.tables();
    contents(&mut text, report, &sections);
    words(&mut text, report);
    let (first, later): (Vec<_>, Vec<_>) =
        sections.iter().partition(|section| section.id.starts_with("summary"));
    first.into_iter().for_each(|section| table_section(&mut text, section));
    figures(&mut text, &report.figures);
    later.into_iter().for_each(|section| table_section(&mut text, section));
    definition(&mut text, report);
    let _ = write!(
        text,
        "</main>\n<script type=\"application/json\" id=\"figures\">{}</script>\n\
         <script>\n/*\n{UPLOT_LICENCE}*/\n{UPLOT_SCRIPT}</script>\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        data(&report.figures)
    );
    text
}

/// What may stand in an element or between double quotes.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // A document may not hold these, and XML no reference to them either.
            c if c.is_control() && !matches!(c, '\n' | '\t') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

fn contents(text: &mut String, report: &Report, sections: &[Section]) {
    text.push_str("<nav aria-label=\"Contents\"><details><summary>Contents</summary><ul>\n");
    let figures = report.figures.iter().map(|figure| (&figure.id, &figure.title));
    let is_summary = |section: &&Section| section.id.starts_with("summary");
    let entry = |section: &'_ Section| (section.id.clone(), section.title.clone());
    let summaries = sections.iter().filter(is_summary).map(entry);
    let others = sections.iter().filter(|section| !is_summary(section)).map(entry);
    let figures = figures.map(|(id, title)| (id.clone(), title.clone()));
    for (id, title) in summaries.chain(figures).chain(others) {
        let _ = writeln!(text, "<li><a href=\"#{}\">{}</a></li>", escape(&id), escape(&title));
    }
    text.push_str("</ul></details></nav>\n");
}

fn words(text: &mut String, report: &Report) {
    for head in Head::ALL {
        let own: Vec<_> = report.findings.iter().filter(|finding| finding.head == head).collect();
        if own.is_empty() {
            continue;
        }
        let class = if head == Head::Verdict { "verdict" } else { "words" };
        let _ = writeln!(text, "<section class=\"{class}\"><h2>{}</h2>\n<ul>", head.title());
        for finding in own {
            let _ = writeln!(text, "<li>{}</li>", sentence(&finding.text, report));
        }
        text.push_str("</ul></section>\n");
    }
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

/// Pairs of backticks become code; the text is escaped already.
fn with_code(escaped: &str) -> String {
    let mut parts = escaped.split('`');
    let mut text = parts.next().unwrap_or_default().to_owned();
    while let (Some(code), Some(rest)) = (parts.next(), parts.next()) {
        let _ = write!(text, "<code>{code}</code>{rest}");
    }
    text
}

fn table_section(text: &mut String, section: &Section) {
    let (id, title) = (escape(&section.id), escape(&section.title));
    let table = table(&section.table, &section.title);
    let _ = match section.folded {
        true => writeln!(
            text,
            "<section id=\"{id}\"><details><summary><h2>{title}</h2></summary>{table}</details>\
             </section>"
        ),
        false => writeln!(text, "<section id=\"{id}\"><h2>{title}</h2>{table}</section>"),
    };
}

fn table(table: &Table, caption: &str) -> String {
    let mut text = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">\
         <table><caption>{0}</caption><thead><tr>",
        escape(caption)
    );
    for head in &table.heads {
        let _ = write!(text, "<th scope=\"col\">{}</th>", escape(head));
    }
    text.push_str("</tr></thead><tbody>\n");
    for row in &table.rows {
        text.push_str("<tr>");
        for (index, cell) in row.iter().enumerate() {
            let cell = escape(cell);
            let _ = match index {
                0 => write!(text, "<th scope=\"row\">{cell}</th>"),
                _ => write!(text, "<td>{cell}</td>"),
            };
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody></table></div>");
    text
}

fn figures(text: &mut String, figures: &[Figure]) {
    if figures.is_empty() {
        return;
    }
    text.push_str("<section><h2>Figures</h2>\n<div class=\"figures\">\n");
    for figure in figures {
        let (id, title) = (escape(&figure.id), escape(&figure.title));
        let live = match &figure.drawing {
            Drawing::Lines(_) => format!("<div class=\"live\" data-figure=\"{id}\"></div>"),
            Drawing::Heat(_) => "<p class=\"pointed\" aria-live=\"polite\">Point at a cell to see \
                its setting.</p>"
                .to_owned(),
        };
        let _ = writeln!(
            text,
            "<figure id=\"{id}\"><figcaption><h3>{title}</h3><p>{}</p></figcaption>\
             <div class=\"still\">{}</div>{live}",
            escape(&figure.about),
            svg::draw(figure)
        );
        if !figure.table.rows.is_empty() {
            let table = table(&figure.table, &figure.title);
            let _ = writeln!(text, "<details><summary>As a table</summary>{table}</details>");
        }
        text.push_str("</figure>\n");
    }
    text.push_str("</div></section>\n");
}

fn definition(text: &mut String, report: &Report) {
    let header = &report.opened.header;
    let configurations = header.servers.iter().flat_map(|server| {
        let files = server.configurations.iter();
        files.map(move |(setting, file)| (format!("{}, {setting}", server.name), file))
    });
    let all: Vec<_> = configurations
        .chain([("The definition".to_owned(), &header.definition)])
        .filter(|(_, contents)| !contents.trim().is_empty())
        .collect();
    if all.is_empty() {
        return;
    }
    text.push_str("<section><h2>Configurations</h2>\n");
    for (name, contents) in all {
        let (name, contents) = (escape(&name), escape(contents));
        let _ = writeln!(
            text,
            "<details><summary>{name}</summary><pre tabindex=\"0\">{contents}</pre></details>"
        );
    }
    text.push_str("</section>\n");
}

/// What the script draws, as JSON that may stand in a script element.
fn data(figures: &[Figure]) -> String {
    let charts: Vec<Value> = figures
        .iter()
        .filter_map(|figure| match &figure.drawing {
            Drawing::Lines(chart) => Some(chart_data(&figure.id, &figure.title, chart)),
            Drawing::Heat(_) => None,
        })
        .collect();
    let looks = json!({ "colours": COLOURS.len(), "dashes": DASHES, "markers": svg::MARKERS });
    let text = json!({ "looks": looks, "charts": charts }).to_string();
    text.replace('<', "\\u003c")
}

/// All curves over the same ascending places, as the library wants them.
fn chart_data(id: &str, title: &str, chart: &Chart) -> Value {
    let mut places: Vec<f64> =
        chart.curves.iter().flat_map(|curve| curve.dots.iter().map(|dot| dot.x)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let shown = |value: f64| match chart.y.log && value <= 0.0 {
        true => Value::Null,
        false => json!(value),
    };
    let curves = chart.curves.iter().map(|curve| {
        let by = |value: fn(&super::chart::Dot) -> f64| -> Vec<Value> {
            let at = |x: &f64| curve.dots.iter().find(|dot| dot.x == *x);
            places.iter().map(|x| at(x).map_or(Value::Null, |dot| shown(value(dot)))).collect()
        };
        let form = match curve.form {
            Form::Measured => "measured",
            Form::Dense => "dense",
            Form::Reference => "reference",
        };
        let mut data = json!({
            "label": curve.label, "form": form, "style": curve.style, "y": by(|dot| dot.y),
        });
        if curve.form == Form::Measured {
            data["low"] = json!(by(|dot| dot.low));
            data["high"] = json!(by(|dot| dot.high));
        }
        data
    });
    json!({
        "id": id,
        "title": title,
        "x": { "label": chart.x.label, "log": chart.x.log, "range": chart.x_range() },
        "y": { "label": chart.y.label, "log": chart.y.log, "range": chart.y_range() },
        "places": places,
        "curves": curves.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_outside_is_text() {
        let odd = "<script>alert('\"&\u{0}')</script>";
        let expected = "&lt;script&gt;alert(&#39;&quot;&amp;\u{fffd}&#39;)&lt;/script&gt;";
        assert_eq!(escape(odd), expected);
        assert_eq!(with_code("a `b` c `d"), "a <code>b</code> c ");
    }
}
