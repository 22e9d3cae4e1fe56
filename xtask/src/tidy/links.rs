//! Links in the pages lead to files that exist, and a link whose text is a file's name leads to
//! that file.
//!
//! Anchors and links to other hosts are not checked.

use super::Finding;
use super::source::{Source, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let pages = tree.sources.iter().filter(|source| source.path.ends_with(".md"));
    pages.flat_map(|page| check_page(tree, page)).collect()
}

fn check_page(tree: &Tree, page: &Source) -> Vec<Finding> {
    let lines = page.text.lines().zip(1..);
    let links = lines.flat_map(|(line, number)| links(line).map(move |link| (number, link)));
    let wrong = links.filter_map(|(number, (text, target))| {
        let path = resolved(&page.path, target);
        let name = path.rsplit('/').next().unwrap_or_default();
        let message = match text.trim_matches('`') {
            _ if !exists(tree, &path) => format!("{path} does not exist: link to another"),
            file if is_page(file) && file.rsplit('/').next() != Some(name) => {
                format!("{file} is the text of a link to {name}: write that")
            }
            _ => return None,
        };
        Some(Finding::in_line(page, number, message))
    });
    wrong.collect()
}

/// The texts and targets of the links of a line, without anchors, that lead to files here.
fn links(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.match_indices("](").filter_map(|(at, _)| {
        let text = &line[line[..at].rfind('[')? + 1..at];
        let (target, _) = line[at + 2..].split_once(')')?;
        let path = target.split('#').next()?;
        (!path.is_empty() && !path.contains(':')).then_some((text, path))
    })
}

/// The path of a target that is relative to a page.
fn resolved(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/').filter(|part| !matches!(*part, "" | ".")) {
        match part {
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

fn exists(tree: &Tree, path: &str) -> bool {
    let folder = format!("{path}/");
    tree.sizes.iter().any(|(known, _)| known == path || known.starts_with(&folder))
}

fn is_page(text: &str) -> bool {
    text.ends_with(".md") && !text.contains(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_where_they_say() {
        let check = |text: &str, expected: &[&str]| {
            let mut tree = Tree::with_file("docs/a/page.md", text);
            tree.sizes.push(("docs/b/other.md".to_owned(), 1));
            let found: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("[other](../b/other.md#part), [`other.md`](../b/other.md), [b](../b)\n", &[]);
        check("[here](#part), [there](https://example.org/x.md)\n", &[]);
        check(
            "[gone](gone.md)\n",
            &["docs/a/page.md:1: docs/a/gone.md does not exist: link to another"],
        );
        check(
            "a\n[old.md](../b/other.md)\n",
            &["docs/a/page.md:2: old.md is the text of a link to other.md: write that"],
        );
    }
}
