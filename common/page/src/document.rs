//! The page: style, script, figures and data are in it, nothing is fetched. Each figure is drawn as
//! SVG, for print and for readers without scripts; where scripts run, an interactive chart replaces
//! it on the screen.
//!
//! A report assembles its body from the parts that are here, and [`render`]s it.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::chart::{Axis, Chart, Dot, Drawing, Figure, Form, Table};
use crate::matrix::Matrix;
use crate::number::counted;
use crate::svg::{self, COLOURS, DASHES, REFERENCE_DASHES};

const STYLE: &str = include_str!("assets/report.css");
const SCRIPT: &str = include_str!("assets/report.js");
const UPLOT_STYLE: &str = include_str!("assets/uPlot.min.css");
const UPLOT_SCRIPT: &str = include_str!("assets/uPlot.iife.min.js");
/// The licence, which must accompany the library.
const UPLOT_LICENCE: &str = include_str!("assets/uPlot-LICENSE");

/// A section with a table.
#[derive(Debug, Clone)]
pub struct Section {
    /// The id of its anchor.
    pub id: String,
    /// The title.
    pub title: String,
    /// The table.
    pub table: Table,
    /// Whether the section is folded, because few will read it.
    pub folded: bool,
}

/// One of the few numbers that a reader comes for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fact {
    /// What it is, in a word or two.
    pub name: String,
    /// The number, with its unit.
    pub value: String,
    /// What must be known to read it: where, of which server.
    pub note: String,
}

impl Fact {
    /// A number with its name and a note.
    pub fn new(name: &str, value: impl Into<String>, note: impl Into<String>) -> Self {
        Self { name: name.to_owned(), value: value.into(), note: note.into() }
    }
}

/// The whole page: a title, lines about it, and a body of HTML whose figures these are.
pub fn render(title: &str, preamble: &[String], body: &str, figures: &[Figure]) -> String {
    let title = escape(title);
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n\
         <style>\n{UPLOT_STYLE}\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    );
    for line in preamble {
        // Writing to a string does not fail, neither here nor below.
        let _ = writeln!(text, "<p class=\"preamble\">{}</p>", escape(line));
    }
    let _ = write!(
        text,
        "{body}</main>\n<script type=\"application/json\" id=\"figures\">{}</script>\n\
         <script>\n/*\n{UPLOT_LICENCE}*/\n{UPLOT_SCRIPT}</script>\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        data(figures)
    );
    text
}

/// Escapes a text for an element or for double quotes.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // A document may not contain these characters, and XML may not even contain references
            // to them.
            c if c.is_control() && !matches!(c, '\n' | '\t') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A list of links: pairs of an anchor and a text.
pub fn contents<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text =
        String::from("<nav aria-label=\"Contents\"><details><summary>Contents</summary><ul>\n");
    for (id, title) in entries {
        let _ = writeln!(text, "<li><a href=\"#{}\">{}</a></li>", escape(id), escape(title));
    }
    text.push_str("</ul></details></nav>\n");
    text
}

/// Sentences under a head, which are HTML already.
pub fn words(class: &str, head: &str, sentences: &[String]) -> String {
    let mut text = format!("<section class=\"{}\"><h2>{}</h2>\n<ul>", escape(class), escape(head));
    for sentence in sentences {
        let _ = writeln!(text, "<li>{sentence}</li>");
    }
    text.push_str("</ul></section>\n");
    text
}

/// The conclusion in large letters: sentences that are HTML already. Many are set smaller.
pub fn verdict(head: &str, sentences: &[String]) -> String {
    let class = if sentences.len() > 3 { "verdict many" } else { "verdict" };
    let mut text = format!("<section class=\"{class}\"><h2>{}</h2>\n", escape(head));
    for sentence in sentences {
        let _ = writeln!(text, "<p>{sentence}</p>");
    }
    text.push_str("</section>\n");
    text
}

/// The headline figures in a row, and the first chart; nothing if there is neither.
pub fn glance(facts: &[Fact], first: Option<&Figure>) -> String {
    if facts.is_empty() && first.is_none() {
        return String::new();
    }
    let mut text = String::from("<section class=\"glance\"><h2>At a glance</h2>\n");
    if !facts.is_empty() {
        text.push_str("<dl class=\"facts\">");
        for Fact { name, value, note } in facts {
            let [name, value, note] = [name, value, note].map(|part| escape(part));
            let note = if note.is_empty() { note } else { format!("<small>{note}</small>") };
            let _ = writeln!(text, "<div><dt>{name}</dt><dd>{value}{note}</dd></div>");
        }
        text.push_str("</dl>\n");
    }
    text.extend(first.map(figure));
    text.push_str("</section>\n");
    text
}

/// Sentences that few will read, folded under their head and their number; nothing if there are
/// none. They are HTML already.
pub fn folded_words(head: &str, sentences: &[String]) -> String {
    if sentences.is_empty() {
        return String::new();
    }
    let items: String = sentences.iter().map(|sentence| format!("<li>{sentence}</li>\n")).collect();
    let summary = summary(head, sentences.len(), "item");
    format!(
        "<section class=\"words folded\"><details>{summary}<ul>{items}</ul></details></section>\n"
    )
}

fn summary(head: &str, count: usize, noun: &str) -> String {
    let (head, count) = (escape(head), counted(count, noun));
    format!("<summary><h2>{head}</h2> <span class=\"count\">{count}</span></summary>")
}

/// Matrices side by side under a common head, each with the text on how to read it; nothing if
/// there are none.
pub fn matrices(head: &str, matrices: &[Matrix]) -> String {
    if matrices.is_empty() {
        return String::new();
    }
    let (head, all) = (escape(head), matrices.iter().map(matrix).collect::<String>());
    format!("<section><h2>{head}</h2>\n<div class=\"matrices\">{all}</div></section>\n")
}

fn matrix(matrix: &Matrix) -> String {
    let (id, title, about) = (escape(&matrix.id), escape(&matrix.title), escape(&matrix.about));
    let class = if matrix.names.len() > 4 { "pairs wide" } else { "pairs" };
    format!(
        "<section id=\"{id}\" class=\"{class}\"><h3>{title}</h3><p class=\"about\">{about}</p>{}\
         <p class=\"key\">{}</p></section>\n",
        matrix.html(),
        matrix.key()
    )
}

/// Marks up pairs of backticks as code, a single one stays text; the text is escaped already.
pub fn with_code(escaped: &str) -> String {
    let (mut text, mut rest) = (String::new(), escaped);
    while let Some((before, after)) = rest.split_once('`')
        && let Some((code, left)) = after.split_once('`')
    {
        let _ = write!(text, "{before}<code>{code}</code>");
        rest = left;
    }
    text + rest
}

/// A table under its title.
pub fn section(section: &Section) -> String {
    let (id, title) = (escape(&section.id), escape(&section.title));
    let table = table(&section.table, &section.title);
    match section.folded {
        true => {
            let summary = summary(&section.title, section.table.rows.len(), "row");
            format!("<section id=\"{id}\"><details>{summary}{table}</details></section>\n")
        }
        false => format!("<section id=\"{id}\"><h2>{title}</h2>{table}</section>\n"),
    }
}

/// The number of letters of the longest name, which decides the width of a column of names.
pub(crate) fn letters<'n>(names: impl Iterator<Item = &'n String>) -> usize {
    names.map(|name| name.chars().count()).max().unwrap_or(0) + 2
}

fn table(table: &Table, caption: &str) -> String {
    let mut text = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">\
         <table style=\"--name:{1}ch\"><caption>{0}</caption><thead><tr>",
        escape(caption),
        letters(table.rows.iter().filter_map(|row| row.first()))
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

/// Figures, under a common head; nothing if there are none.
pub fn figures(head: &str, figures: &[Figure]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let all: String = figures.iter().map(figure).collect();
    let head = escape(head);
    format!("<section><h2>{head}</h2>\n<div class=\"figures\">\n{all}</div></section>\n")
}

fn figure(figure: &Figure) -> String {
    let (id, title) = (escape(&figure.id), escape(&figure.title));
    let live = match &figure.drawing {
        Drawing::Lines(_) => format!("<div class=\"live\" data-figure=\"{id}\"></div>"),
        Drawing::Heat(_) => pointed("Point at a cell to see its setting."),
        Drawing::Bars(_) => pointed("Point at a part to see its size."),
        Drawing::Ranked(_) => pointed("Point at a bar to see its figures."),
    };
    let narrow = svg::draw_narrow(figure);
    let class = if narrow.is_some() { "still two" } else { "still" };
    let mut text = format!(
        "<figure id=\"{id}\"><figcaption><h3>{title}</h3><p>{}</p></figcaption>\
         <div class=\"{class}\">{}{}</div>{live}\n",
        escape(&figure.about),
        svg::draw(figure),
        narrow.unwrap_or_default()
    );
    if !figure.table.rows.is_empty() {
        let table = table(&figure.table, &figure.title);
        let _ = writeln!(text, "<details><summary>As a table</summary>{table}</details>");
    }
    text.push_str("</figure>\n");
    text
}

/// Texts that few will read, each folded under its name, and all under their head and number;
/// nothing if there are none.
pub fn folded(head: &str, noun: &str, texts: &[(String, &str)]) -> String {
    if texts.is_empty() {
        return String::new();
    }
    let mut text = format!("<section><details>{}\n", summary(head, texts.len(), noun));
    for (name, contents) in texts {
        let (name, contents) = (escape(name), escape(contents));
        let _ = writeln!(
            text,
            "<details><summary>{name}</summary><pre tabindex=\"0\">{contents}</pre></details>"
        );
    }
    text.push_str("</details></section>\n");
    text
}

/// The place where the script describes the element under the pointer.
fn pointed(hint: &str) -> String {
    format!("<p class=\"pointed\" aria-live=\"polite\">{hint}</p>")
}

/// The data for the script, as JSON that is safe in a script element.
fn data(figures: &[Figure]) -> String {
    let charts: Vec<Value> = figures
        .iter()
        .filter_map(|figure| match &figure.drawing {
            Drawing::Lines(chart) => Some(chart_data(&figure.id, &figure.title, chart)),
            Drawing::Heat(_) | Drawing::Bars(_) | Drawing::Ranked(_) => None,
        })
        .collect();
    let looks = json!({
        "colours": COLOURS.len(), "dashes": DASHES, "references": REFERENCE_DASHES,
        "markers": svg::MARKERS,
    });
    let text = json!({ "looks": looks, "charts": charts }).to_string();
    text.replace('<', "\\u003c")
}

/// All curves over common ascending places, in the form that the library expects.
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
        let by = |value: fn(&Dot) -> f64| -> Vec<Value> {
            let at = |x: &f64| curve.dots.iter().find(|dot| dot.x == *x);
            places.iter().map(|x| at(x).map_or(Value::Null, |dot| shown(value(dot)))).collect()
        };
        let form = match curve.form {
            Form::Measured => "measured",
            Form::Dense => "dense",
            Form::Reference => "reference",
            Form::Stated => "stated",
        };
        let mut data = json!({
            "label": curve.label, "form": form, "style": curve.style, "y": by(|dot| dot.y),
        });
        if curve.form.has_markers() {
            data["low"] = json!(by(|dot| dot.low));
            data["high"] = json!(by(|dot| dot.high));
        }
        data
    });
    json!({
        "id": id,
        "title": title,
        "x": axis_data(&chart.x, chart.x_range()),
        "y": axis_data(&chart.y, chart.y_range()),
        "places": places,
        "curves": curves.collect::<Vec<_>>(),
    })
}

fn axis_data(axis: &Axis, range: (f64, f64)) -> Value {
    json!({ "label": axis.label, "log": axis.log, "range": range, "names": axis.names })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_outside_is_text() {
        let odd = "<script>alert('\"&\u{0}')</script>";
        let expected = "&lt;script&gt;alert(&#39;&quot;&amp;\u{fffd}&#39;)&lt;/script&gt;";
        assert_eq!(escape(odd), expected);
        assert_eq!(with_code("a `b` c `d"), "a <code>b</code> c `d");
    }
}
