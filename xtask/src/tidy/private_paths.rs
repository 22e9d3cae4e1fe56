//! No paths of a developer's own machine in files that are published.

use super::Finding;
use super::source::{Source, Tree};

/// Starts of paths that exist on one machine only; split, so that this file passes its own rule.
const PRIVATE: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/tmp/", "target"),
    concat!("../sha", "red"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources.iter().flat_map(private_lines).collect()
}

fn private_lines(source: &Source) -> Vec<Finding> {
    let lines = source.text.lines().zip(1..);
    let found = lines.filter_map(|(line, number)| {
        let path = PRIVATE.iter().find(|path| names(line, path))?;
        let message = format!("{path} is a path of one machine: make it relative");
        Some(Finding::in_line(source, number, message))
    });
    found.collect()
}

/// Whether `path` is in `line` where a path can start: a longer path may contain it.
fn names(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '/' | '_' | '-' | '.' | '}'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_paths_are_found() {
        for path in PRIVATE {
            for line in [format!("see {path}x"), format!("\"{path}x\""), format!("DIR={path}x")] {
                assert_eq!(check(&Tree::with_file("a.md", &line)).len(), 1, "{line}");
            }
            assert!(check(&Tree::with_file("a.md", &format!("a{path}x"))).is_empty(), "{path}");
        }
    }
}
