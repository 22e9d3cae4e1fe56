//! A report as Markdown: words and tables, for a repository or an issue. No figures.

use super::chart::Table;
use super::document::Document;
use super::findings::Head;

/// The whole text.
pub(crate) fn render(report: &Document) -> String {
    let mut text = format!("# {}\n\n", plain(&report.title));
    for line in &report.preamble {
        text.push_str(&format!("{}  \n", plain(line)));
    }
    for head in Head::ALL {
        let own: Vec<_> = report.findings.iter().filter(|finding| finding.head == head).collect();
        if !own.is_empty() {
            text.push_str(&format!("\n## {}\n\n", head.title()));
            own.iter().for_each(|finding| text.push_str(&format!("- {}\n", plain(&finding.text))));
        }
    }
    for section in report.tables() {
        text.push_str(&format!("\n## {}\n\n", plain(&section.title)));
        text.push_str(&table(&section.table));
    }
    for figure in report.figures.iter().filter(|figure| !figure.table.rows.is_empty()) {
        text.push_str(&format!("\n## {}\n\n{}\n\n", plain(&figure.title), plain(&figure.about)));
        text.push_str(&table(&figure.table));
    }
    text
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

/// On one line, and without what Markdown or HTML would make of it.
fn plain(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let special = |c: char| matches!(c, '<' | '>' | '*' | '_' | '\\');
    let mut plain = String::with_capacity(text.len());
    let mut in_code = false;
    for c in text.chars() {
        in_code ^= c == '`';
        if special(c) && !in_code {
            plain.push('\\');
        }
        plain.push(c);
    }
    plain
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
}
