//! Every Rust file begins with a comment that says what it is.

use super::Finding;
use super::source::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let silent = tree.rust().filter(|source| !opens_with_docs(&source.text));
    let message = "open with `//!`: what this file is, and what it is not";
    silent.map(|source| Finding::in_line(source, 1, message)).collect()
}

fn opens_with_docs(text: &str) -> bool {
    text.strip_prefix("//! ").is_some_and(|rest| !rest.trim_start().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_docs_are_found() {
        let cases = [
            ("a.rs", "//! What it is.\n", 0),
            ("a.rs", "use std::fmt;\n//! Late.\n", 1),
            ("a.rs", "// Not documentation.\n", 1),
            ("a.rs", "", 1),
            ("a.md", "", 0),
        ];
        for (path, text, expected) in cases {
            assert_eq!(check(&Tree::with_file(path, text)).len(), expected, "{text:?}");
        }
    }
}
