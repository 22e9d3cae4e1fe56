//! Links in the pages lead to files that exist, and a link whose text is a file's name leads to
//! that file. An anchor is one of the page to which it leads.
//!
//! Links to other hosts are not checked, nor anchors in files that are no pages.

use std::collections::HashMap;

use super::Finding;
use super::anchors::anchors;
use super::source::{Source, Tree};

/// A link of a line, to a file here or to a place in the same page.
#[derive(Clone, Copy)]
struct Link<'s> {
    text: &'s str,
    /// Empty if it is the page itself.
    path: &'s str,
    anchor: Option<&'s str>,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let pages: Vec<_> = tree.sources.iter().filter(|source| is_page(&source.path)).collect();
    let anchors: HashMap<&str, Vec<String>> =
        pages.iter().map(|page| (page.path.as_str(), anchors(&page.text))).collect();
    pages.iter().flat_map(|page| check_page(tree, &anchors, page)).collect()
}

fn check_page(tree: &Tree, anchors: &HashMap<&str, Vec<String>>, page: &Source) -> Vec<Finding> {
    let lines = page.text.lines().zip(1..);
    let links = lines.flat_map(|(line, number)| links(line).map(move |link| (number, link)));
    let wrong = links.filter_map(|(number, link)| {
        let path = match link.path {
            "" => page.path.clone(),
            path => resolved(&page.path, path),
        };
        let name = path.rsplit('/').next().unwrap_or_default();
        let has =
            |anchor: &&str| anchors.get(&*path).is_none_or(|all| all.iter().any(|a| a == anchor));
        let message = match (link.text.trim_matches('`'), link.anchor) {
            _ if !exists(tree, &path) => format!("{path} does not exist: link to another"),
            (_, Some(anchor)) if !has(&anchor) => {
                format!("no heading of {path} has the anchor #{anchor}: link to another")
            }
            (file, _) if is_page(file) && file.rsplit('/').next() != Some(name) => {
                format!("{file} is the text of a link to {name}: write that")
            }
            _ => return None,
        };
        Some(Finding::in_line(page, number, message))
    });
    wrong.collect()
}

/// The links of a line that do not lead to other hosts.
fn links(line: &str) -> impl Iterator<Item = Link<'_>> {
    line.match_indices("](").filter_map(|(at, _)| {
        let text = &line[line[..at].rfind('[')? + 1..at];
        let (target, _) = line[at + 2..].split_once(')')?;
        let (path, anchor) = match target.split_once('#') {
            Some((path, anchor)) => (path, Some(anchor)),
            None => (target, None),
        };
        let is_here = !target.is_empty() && !path.contains(':');
        is_here.then_some(Link { text, path, anchor })
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
            let other = Tree::with_file("docs/b/other.md", "# Other\n\n## A part\n");
            tree.sizes.extend(other.sizes);
            tree.sources.extend(other.sources);
            let found: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("[other](../b/other.md#a-part), [`other.md`](../b/other.md), [b](../b)\n", &[]);
        check("# Part\n[here](#part), [there](https://example.org/x.md#y)\n", &[]);
        check(
            "[other](../b/other.md#part), [here](#part)\n",
            &[
                "docs/a/page.md:1: no heading of docs/b/other.md has the anchor #part: link to another",
                "docs/a/page.md:1: no heading of docs/a/page.md has the anchor #part: link to another",
            ],
        );
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
