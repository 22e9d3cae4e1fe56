//! Every crate but `os` and `system` has the compiler forbid unsafe code.

use super::Finding;
use super::source::{Source, Tree};

const ATTRIBUTE: &str = "#![forbid(unsafe_code)]";

/// Crates whose root must carry the attribute.
const CRATES: &[&str] = &["http1", "site", "file-cache", "session", "statistics"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let roots = tree.rust().filter(|source| CRATES.iter().any(|name| is_root(source, name)));
    let without = roots.filter(|source| !source.code.contains(ATTRIBUTE));
    without
        .map(|source| Finding::in_line(source, 1, format!("a pure crate: add {ATTRIBUTE}")))
        .collect()
}

fn is_root(source: &Source, name: &str) -> bool {
    source.path.ends_with(&format!("/{name}/src/lib.rs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pure_crate_without_the_attribute_is_found() {
        let cases = [
            ("crates/http1/src/lib.rs", "//! Docs.\nmod head;", 1),
            ("crates/http1/src/lib.rs", "//! #![forbid(unsafe_code)]", 1),
            ("crates/http1/src/lib.rs", "//! Docs.\n#![forbid(unsafe_code)]", 0),
            ("crates/http1/src/head.rs", "", 0),
            ("crates/os/src/lib.rs", "", 0),
        ];
        for (path, text, expected) in cases {
            assert_eq!(check(&Tree::with_file(path, text)).len(), expected, "{path} {text}");
        }
    }
}
