//! A report as Markdown: words and tables, without figures, for a repository or an issue.

use super::chart::Table;
use super::document::Document;
use super::findings::Head;
use page::document::Fact;

/// Renders the whole text.
pub(crate) fn render(report: &Document) -> String {
    let mut text = format!("# {}\n\n", plain(&report.title));
    for line in &report.preamble {
        text.push_str(&format!("{}  \n", plain(line)));
    }
    let (last, first) = Head::ALL.split_last().expect("there are some");
    for head in first {
        text.push_str(&words(report, *head));
        if *head == Head::Verdict {
            text.push_str(&facts(&report.facts));
        }
    }
    if !report.matrices.is_empty() {
        text.push_str("\n## Each against each\n");
    }
    for matrix in &report.matrices {
        let about = plain(&matrix.about);
        text.push_str(&format!("\n### {}\n\n{about}\n\n", plain(&matrix.title)));
        text.push_str(&table(&matrix.table()));
        text.push_str(&format!("\n{}\n", plain(&matrix.key())));
    }
    for section in report.tables() {
        text.push_str(&format!("\n## {}\n\n", plain(&section.title)));
        text.push_str(&table(&section.table));
    }
    for figure in report.figures.iter().filter(|figure| !figure.table.rows.is_empty()) {
        text.push_str(&format!("\n## {}\n\n{}\n\n", plain(&figure.title), plain(&figure.about)));
        text.push_str(&table(&figure.table));
    }
    text + &words(report, *last)
}

fn words(report: &Document, head: Head) -> String {
    let own: Vec<_> = report.findings.iter().filter(|finding| finding.head == head).collect();
    if own.is_empty() {
        return String::new();
    }
    let lines: String = own.iter().map(|finding| format!("- {}\n", plain(&finding.text))).collect();
    format!("\n## {}\n\n{lines}", head.title())
}

/// The headline figures, as a table.
fn facts(facts: &[Fact]) -> String {
    if facts.is_empty() {
        return String::new();
    }
    let mut all = Table::new(&["At a glance", "", ""]);
    let row = |Fact { name, value, note }: &Fact| [name, value, note].map(Clone::clone).to_vec();
    all.rows = facts.iter().map(row).collect();
    format!("\n{}", table(&all))
}

fn table(table: &Table) -> String {
    let row = |cells: &Vec<String>| {
        let cells: Vec<String> = cells.iter().map(|cell| cell_text(cell)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = format!("|{}\n", " --- |".repeat(table.heads.len()));
    [row(&table.heads), rule].into_iter().chain(table.rows.iter().map(row)).collect()
}

fn cell_text(cell: &str) -> String {
    plain(cell).replace('|', "\\|")
}

/// Puts a text on one line, and escapes it for Markdown and HTML, except code between backticks.
fn plain(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let special = |c: char| matches!(c, '<' | '>' | '*' | '_' | '\\' | '[' | ']' | '`');
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(c) = rest.chars().next() {
        let length = code(rest).unwrap_or(0);
        if length == 0 {
            if special(c) || is_entity(rest) {
                plain.push('\\');
            }
            plain.push(c);
        }
        let (done, after) = rest.split_at(length.max(c.len_utf8()));
        plain.push_str(&done[..length]);
        rest = after;
    }
    plain
}

/// Whether a text begins with a character reference (CommonMark 0.31, section 2.5).
fn is_entity(text: &str) -> bool {
    let name = text.strip_prefix('&').and_then(|text| text.split_once(';')).map(|(name, _)| name);
    let name = name.map(|name| name.strip_prefix('#').unwrap_or(name));
    name.is_some_and(|name| !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric()))
}

/// The length of the code span with which a text begins, if it does: it is closed by as many
/// backticks as open it (CommonMark 0.31, section 6.1). Unmatched backticks are literal.
fn code(text: &str) -> Option<usize> {
    let run = |text: &str| text.bytes().take_while(|&byte| byte == b'`').count();
    let ticks = Some(run(text)).filter(|&ticks| ticks > 0)?;
    let mut at = ticks;
    loop {
        at += text[at..].find('`')?;
        let found = run(&text[at..]);
        at += found;
        if found == ticks {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_a_table() {
        let mut odd = Table::new(&["a|b", "c"]);
        odd.rows.push(vec!["line\nfeed".into(), "<b>_x_`a_b`".into()]);
        let expected = "| a\\|b | c |\n| --- | --- |\n| line feed | \\<b\\>\\_x\\_`a_b` |\n";
        assert_eq!(table(&odd), expected);
    }

    /// Output of servers and names of files may contain any text.
    #[test]
    fn nothing_becomes_a_link_or_a_tag() {
        let check = |text: &str, expected: &str| assert_eq!(plain(text), expected, "{text}");
        check("a `<b>` <c>", "a `<b>` \\<c\\>");
        check("` <b>", "\\` \\<b\\>");
        check("``a` <b>", "\\``a` \\<b\\>");
        check("``<a> `", "\\``<a> `");
        check("``<a>", "\\`\\`\\<a\\>");
        check("``a ` b`` _", "``a ` b`` \\_");
        check("![x](http://y)", "!\\[x\\](http://y)");
        check("é`ü", "é\\`ü");
        check("&lt;b&#62; &#X3E;", "\\&lt;b\\&#62; \\&#X3E;");
        check("/a?b=1&c=2; & `&lt;` &;", "/a?b=1&c=2; & `&lt;` &;");
    }
}
