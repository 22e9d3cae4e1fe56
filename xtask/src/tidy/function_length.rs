//! A function fits a screen.
//!
//! Clippy's `too_many_lines` says the same, but an `allow` silences it; this rule has none.

use super::Finding;
use super::source::{self, Source, Tree};

/// Lines of code from the brace to its match; blank lines and comments are free.
const LINES_MAX: usize = 70;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().flat_map(long_functions).collect()
}

fn long_functions(source: &Source) -> Vec<Finding> {
    let lengths = source.words("fn").filter_map(|start| {
        let name = source.code[start + 2..].trim_start().split(['(', '<']).next()?;
        // `fn(` is the type of a function pointer.
        let named = !name.is_empty() && !name.starts_with(char::is_whitespace);
        let body = source::body(&source.code, start).filter(|_| named)?;
        let lines = source.code[body].lines().filter(|line| !line.trim().is_empty()).count();
        Some((start, name, lines))
    });
    let long = lengths.filter(|(_, _, lines)| *lines > LINES_MAX);
    long.map(|(start, name, lines)| {
        let message = format!("{name} has {lines} lines of code; {LINES_MAX} fit a screen: cut it");
        Finding::in_line(source, source.line_of(start), message)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(body: &str) -> Vec<Finding> {
        let text = format!("//! A.\nfn long(run: fn(u8)) -> [u8; 2] {{\n{body}}}\nfn b() {{}}\n");
        check(&Tree::with_file("crates/a/src/lib.rs", &text))
    }

    #[test]
    fn long_functions_are_found() {
        assert!(found(&"x();\n".repeat(LINES_MAX - 2)).is_empty());
        let found = found(&"x();\n".repeat(LINES_MAX - 1));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 2);
        assert!(found[0].message.starts_with("long has 71 lines"), "{}", found[0].message);
    }

    #[test]
    fn comments_and_blank_lines_are_free() {
        assert!(found(&"// why\n\n".repeat(LINES_MAX)).is_empty());
    }

    #[test]
    fn braces_in_strings_do_not_end_a_function() {
        let body = format!("let brace = \"}}\";\n{}", "x();\n".repeat(LINES_MAX));
        assert_eq!(found(&body).len(), 1);
    }
}
