//! No notes to self: unfinished work is not in the code.

use super::Finding;
use super::source::{Source, Tree};

/// Split, so that this file passes its own rule.
const NOTES: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources.iter().flat_map(notes).collect()
}

fn notes(source: &Source) -> Vec<Finding> {
    let lines = source.text.lines().zip(1..);
    let noted = lines.filter_map(|(line, number)| {
        let note = NOTES.iter().find(|note| has_word(line, note))?;
        Some(Finding::in_line(source, number, format!("{note}: do it, or write an issue")))
    });
    noted.collect()
}

/// Whether a line has a word, and not only a longer one.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        ![before, after].into_iter().flatten().any(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_found_in_code_and_prose() {
        for note in NOTES {
            let text = format!("//! A.\n// {note}: later\n");
            assert_eq!(check(&Tree::with_file("crates/a/src/lib.rs", &text)).len(), 1, "{note}");
            assert_eq!(check(&Tree::with_file("README.md", &text)).len(), 1, "{note}");
            let longer = format!("A{note}S");
            assert!(check(&Tree::with_file("README.md", &longer)).is_empty(), "{longer}");
        }
    }
}
