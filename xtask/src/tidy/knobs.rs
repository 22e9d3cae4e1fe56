//! Every knob of an engine has a use: a page of the documentation describes its purpose, or an
//! experiment sets it.

use super::Finding;
use super::source::{Source, Tree};

const ENGINES: &str = "server/engines/src/";
const RENAMES: &str = "docs/internals/renames.md";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let texts: Vec<&str> =
        tree.sources.iter().filter(|source| says_why(&source.path)).map(|s| &*s.text).collect();
    let mut findings = Vec::new();
    for source in tree.rust().filter(|source| source.path.starts_with(ENGINES)) {
        for (offset, name) in knobs(source) {
            if !texts.iter().any(|text| names(text, name)) {
                let message = format!("no page and no experiment has a use for the knob {name}");
                findings.push(Finding::in_line(source, source.line_of(offset), message));
            }
        }
    }
    findings
}

fn says_why(path: &str) -> bool {
    let is_page = path.starts_with("docs/") && path.ends_with(".md") && path != RENAMES;
    is_page || path.starts_with("experiments/") || path.starts_with("servers/")
}

/// The names of the knobs that a file defines, and where.
fn knobs(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    source.text.match_indices(": Knob =").filter_map(|(at, begin)| {
        // The call that makes a knob takes its name first: Knob::number("workers", …
        let made = source.text[at + begin.len()..].trim_start().strip_prefix("Knob::")?;
        let (_, name) = made.split_once("(\"")?;
        Some((at, name.split_once('"')?.0))
    })
}

/// Whether a text names a knob as such: `name`, name=1, "name" = 1.
fn names(text: &str, knob: &str) -> bool {
    text.match_indices(knob).any(|(at, _)| {
        let before = text[..at].strip_suffix("engine.knobs.").unwrap_or(&text[..at]);
        let after = text[at + knob.len()..].trim_start_matches(['"', ' ']);
        let is_whole = !before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        is_whole && (after.starts_with('=') || (before.ends_with('`') && after.starts_with('`')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOB: &str =
        "const DEPTH: Knob =\n    Knob::number(\"depth\", 0..=9, 1).about(\"how deep\");\n";

    fn found(path: &str, text: &str) -> Vec<String> {
        let mut tree = Tree::with_file("server/engines/src/a.rs", KNOB);
        tree.sources.extend(Tree::with_file(path, text).sources);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_knob_is_named_where_its_purpose_is_described() {
        let missing = "server/engines/src/a.rs:1: no page and no experiment has a use for the knob \
                       depth";
        for (path, text) in [
            ("docs/a.md", "with `depth` as\n"),
            ("docs/a.md", "with `depth = 2`\n"),
            ("docs/a.md", "(`engine.knobs.depth`: how deep)\n"),
            ("experiments/a.toml", "knobs = { \"engine.knobs.depth\" = 2 }\n"),
            ("experiments/a.toml", "servers = [\"ropewalk:a,engine.knobs.depth=2\"]\n"),
        ] {
            assert_eq!(found(path, text), [""; 0], "{text}");
        }
        assert_eq!(found("docs/a.md", "of great depth, or `depths`\n"), [missing]);
        assert_eq!(found("docs/internals/renames.md", "`depth`\n"), [missing]);
        assert_eq!(found("crates/a.rs", "// `depth`\n"), [missing]);
    }
}
