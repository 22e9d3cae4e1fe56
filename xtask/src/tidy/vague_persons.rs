//! Comments and pages name who acts: a client, a process, the caller.

use super::Finding;
use super::leftovers::has_word;
use super::source::{Source, Tree};

/// Split, so that this file passes its own rule.
const PERSONS: &[&str] = &[
    concat!("any", "body"),
    concat!("no", "body"),
    concat!("some", "body"),
    concat!("who", "ever"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources.iter().flat_map(vague).collect()
}

fn vague(source: &Source) -> Vec<Finding> {
    let found = |(line, number)| {
        // In code marks it is a name, such as that of a user.
        let prose = prose(source, line)?.to_lowercase().replace(concat!("`no", "body`"), "");
        let person = PERSONS.iter().find(|person| has_word(&prose, person))?;
        let advice = format!("{person}: say which client, process or caller, or which does not");
        Some(Finding::in_line(source, number, advice))
    };
    source.text.lines().zip(1..).filter_map(found).collect()
}

/// The prose of a line: all of it in a page, its comment in a source.
fn prose<'l>(source: &Source, line: &'l str) -> Option<&'l str> {
    if source.is_rust() {
        let is_comment = line.trim_start().starts_with("//");
        return if is_comment { Some(line) } else { Some(line.split_once(" // ")?.1) };
    }
    source.path.ends_with(".md").then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn persons_are_found_in_prose_and_not_in_code() {
        for person in PERSONS {
            let check = |path: &str, text: String, expected| {
                assert_eq!(check(&Tree::with_file(path, &text)).len(), expected, "{text}");
            };
            let source = "server/a/src/lib.rs";
            check(source, format!("//! A.\n/// {person} waits.\nfn a() {{}}\n"), 1);
            check(source, format!("let a = 1; // for {person}\n"), 1);
            check(source, format!("let {person} = \"{person}\";\n"), 0);
            check("README.md", format!("Then {person} waits.\n"), 1);
            check("a.toml", format!("# {person}\n"), 0);
        }
        let user = format!("The user `{}`.\n", PERSONS[1]);
        assert!(check(&Tree::with_file("README.md", &user)).is_empty());
    }
}
