//! Lines end where their text ends, and Rust lines fit a hundred columns.
//!
//! `rustfmt` leaves comments, strings and macros alone; this rule does not, except for the rows of
//! test tables: a case is easiest to read on one line, however long its text.

use super::Finding;
use super::source::{Source, Tree};

/// Columns of a line at most; `max_width` in rustfmt.toml is the same.
const COLUMNS_MAX: usize = 100;

/// Bytes for the fuzzer, carriage returns and all.
const DATA: &str = "fuzz/seeds/";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let written = tree.sources.iter().filter(|source| !source.path.starts_with(DATA));
    written.flat_map(bad_lines).collect()
}

fn bad_lines(source: &Source) -> Vec<Finding> {
    let tests = source.test_ranges();
    let mut findings = Vec::new();
    let mut start = 0;
    for (line, number) in source.text.split('\n').zip(1..) {
        let in_tests = source.is_test_file() || tests.iter().any(|range| range.contains(&start));
        let columns_max = match source.is_rust() && !(in_tests && line.contains('"')) {
            true => COLUMNS_MAX,
            false => usize::MAX,
        };
        let message = bad_line(line, columns_max);
        findings.extend(message.map(|message| Finding::in_line(source, number, message)));
        start += line.len() + 1;
    }
    findings
}

fn bad_line(line: &str, columns_max: usize) -> Option<String> {
    let columns = line.chars().count();
    if columns > columns_max {
        return Some(format!("{columns} columns; {columns_max} fit: break the line"));
    }
    line.ends_with([' ', '\t', '\r']).then(|| "white space at the end of the line".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_lines_are_found() {
        let long = "é".repeat(COLUMNS_MAX + 1);
        let row = format!("(\"{long}\", 0),");
        let fitting = "é".repeat(COLUMNS_MAX);
        let cases = [
            ("a.rs", "x\n", 0),
            ("a.rs", "x \n", 1),
            ("a.md", "x\t\ny\r\n", 2),
            ("a.rs", &*long, 1),
            ("a.rs", &*fitting, 0),
            ("a.md", &*long, 0),
            ("tests/a.rs", &*long, 1),
            ("tests/a.rs", &*row, 0),
            ("fuzz/seeds/head/crlf", "x\r\n", 0),
            ("a.rs", &*row, 1),
        ];
        for (path, text, expected) in cases {
            assert_eq!(check(&Tree::with_file(path, text)).len(), expected, "{path} {text}");
        }
    }
}
