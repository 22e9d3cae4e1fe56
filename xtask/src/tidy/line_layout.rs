//! Lines end where their text ends, and Rust lines fit a hundred columns.
//!
//! `rustfmt` leaves comments, strings and macros alone; this rule does not.

use super::Finding;
use super::source::{Source, Tree};

/// The same as `max_width` in rustfmt.toml.
const COLUMNS_MAX: usize = 100;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources.iter().flat_map(bad_lines).collect()
}

fn bad_lines(source: &Source) -> Vec<Finding> {
    let lines = source.text.split('\n').zip(1..);
    let messages = lines.filter_map(|(line, number)| {
        let message = bad_line(line, source.is_rust())?;
        Some(Finding::at(source, number, message))
    });
    messages.collect()
}

fn bad_line(line: &str, is_rust: bool) -> Option<String> {
    let columns = line.chars().count();
    if is_rust && columns > COLUMNS_MAX {
        return Some(format!("{columns} columns; {COLUMNS_MAX} fit: break the line"));
    }
    line.ends_with([' ', '\t', '\r']).then(|| "white space at the end of the line".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_lines_are_found() {
        let long = "é".repeat(COLUMNS_MAX + 1);
        let fitting = "é".repeat(COLUMNS_MAX);
        let cases = [
            ("a.rs", "x\n", 0),
            ("a.rs", "x \n", 1),
            ("a.md", "x\t\ny\r\n", 2),
            ("a.rs", &*long, 1),
            ("a.rs", &*fitting, 0),
            ("a.md", &*long, 0),
        ];
        for (path, text, expected) in cases {
            assert_eq!(check(&Tree::of(path, text)).len(), expected, "{path} {text:?}");
        }
    }
}
