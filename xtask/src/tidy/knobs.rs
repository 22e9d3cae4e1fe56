//! Every knob of an engine has a use: a page of the documentation describes its purpose, or an
//! experiment sets it.

use super::Finding;
use super::source::{Source, Tree};

const ENGINES: &str = "server/engines/src/";
const PAGE: &str = "docs/serve/engines.md";
/// Pages for developers: the knobs in them are examples or former names.
const INTERNALS: &str = "docs/internals/";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let engines: Vec<String> = tree.rust().filter_map(|source| engine(&source.path)).collect();
    let texts: Vec<&Source> = tree.sources.iter().filter(|source| says_why(&source.path)).collect();
    let mut findings = Vec::new();
    for source in tree.rust().filter(|source| source.path.starts_with(ENGINES)) {
        let of = engine(&source.path);
        for (offset, name) in knobs(source) {
            // `threads` on the page of engines is the engine, not the pool's knob.
            let is_ambiguous = engines.iter().any(|engine| engine == name);
            let has_use = texts.iter().any(|text| {
                is_set(&text.text, name, of.as_deref(), &engines)
                    || (text.path == PAGE
                        && !is_ambiguous
                        && is_described(&text.text, name, of.as_deref()))
            });
            if !has_use {
                let message = format!("no page and no experiment has a use for the knob {name}");
                findings.push(Finding::in_line(source, source.line_of(offset), message));
            }
        }
    }
    findings
}

/// The engine that a file belongs to. Files that several engines share belong to none.
fn engine(path: &str) -> Option<String> {
    let name = path.strip_prefix(ENGINES)?.split(['/', '.']).next()?;
    (!["parts", "knobs"].contains(&name)).then(|| name.replace('_', "-"))
}

fn says_why(path: &str) -> bool {
    let is_page =
        path.starts_with("docs/") && path.ends_with(".md") && !path.starts_with(INTERNALS);
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

/// Whether a text names a knob by its whole key, as one of its engine: several engines may have a
/// knob of that name.
fn is_set(text: &str, knob: &str, engine: Option<&str>, engines: &[String]) -> bool {
    text.match_indices("engine.knobs.").any(|(at, prefix)| {
        let key = &text[at + prefix.len()..];
        key.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next() == Some(knob)
            && engine.is_none_or(|engine| is_about(&text[..line_end(text, at)], engine, engines))
    })
}

fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |length| at + length)
}

/// Whether the last line of a text that names an engine names this one.
fn is_about(text: &str, engine: &str, engines: &[String]) -> bool {
    let last = text.lines().rev().find(|line| engines.iter().any(|one| is_named(line, one)));
    last.is_some_and(|line| is_named(line, engine))
}

/// Whether a line names an engine, rather than processes or threads of any kind.
fn is_named(line: &str, engine: &str) -> bool {
    line.match_indices(engine).any(|(at, name)| {
        let before = &line[..at];
        let is_name = before.ends_with(['`', ':', '"']) || before.ends_with("--engine ");
        let after = line[at + name.len()..].chars().next();
        is_name && after.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '-' && c != '_')
    })
}

/// Whether a part of the page, from one heading to the next, names both the knob, as `name`,
/// `name = 1` or by its whole key, and its engine. Elsewhere such a word may be a key of the
/// configuration.
fn is_described(page: &str, knob: &str, engine: Option<&str>) -> bool {
    page.split("\n#").any(|part| {
        engine.is_none_or(|engine| part.contains(&format!("`{engine}`")))
            && [format!("`{knob}`"), format!("`{knob} = "), format!("`engine.knobs.{knob}`")]
                .iter()
                .any(|name| part.contains(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOB: &str =
        "const DEPTH: Knob =\n    Knob::number(\"depth\", 0..=9, 1).about(\"how deep\");\n";

    fn found(path: &str, text: &str) -> Vec<String> {
        let mut tree = Tree::with_file("server/engines/src/wells/knobs.rs", KNOB);
        tree.sources.extend(Tree::with_file("server/engines/src/salt_lakes.rs", "").sources);
        tree.sources.extend(Tree::with_file(path, text).sources);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    const MISSING: &str = "server/engines/src/wells/knobs.rs:1: no page and no experiment has a use \
                           for the knob depth";

    #[test]
    fn a_knob_is_named_where_its_purpose_is_described() {
        for (path, text) in [
            ("docs/serve/engines.md", "# A\n\n`wells` are as deep as `depth` says\n"),
            ("docs/serve/engines.md", "`wells`: with `depth = 2`\n"),
            ("docs/serve/engines.md", "`wells` are as deep as `engine.knobs.depth` says\n"),
            ("docs/a.md", "`wells` (`engine.knobs.depth`: how deep)\n"),
            ("docs/a.md", "`--engine wells`\n`--set engine.knobs.depth=4`\n"),
            ("experiments/a.toml", "engine = \"wells\"\nknobs = { \"engine.knobs.depth\" = 2 }\n"),
            ("experiments/a.toml", "servers = [\"ropewalk:wells,engine.knobs.depth=2\"]\n"),
        ] {
            assert_eq!(found(path, text), [""; 0], "{text}");
        }
        for (path, text) in [
            ("docs/serve/engines.md", "`wells` of great depth, or `depths`\n"),
            ("docs/a.md", "`wells`: `engine.knobs.depths`\n"),
            ("docs/internals/renames.md", "`wells`: `engine.knobs.depth`\n"),
            ("docs/internals/README.md", "`--engine wells --set engine.knobs.depth=4`\n"),
            ("crates/a.rs", "// `wells`: `engine.knobs.depth`\n"),
        ] {
            assert_eq!(found(path, text), [MISSING], "{text}");
        }
    }

    /// A key of the configuration, a setting of another server, a knob of another engine and an
    /// engine may have the name.
    #[test]
    fn a_homonym_is_not_the_knob() {
        for (path, text) in [
            ("docs/serve/configuration.md", "| `depth` | number | `wells` |\n"),
            ("docs/studies/a.md", "with `depth = 3`\n"),
            ("docs/serve/engines.md", "`salt-lakes` have a `depth`\n\n## Others\n\n`wells`\n"),
            ("docs/a.md", "`--set engine.knobs.depth=4`, without an engine\n"),
            ("docs/a.md", "`wells`\n`--engine salt-lakes --set engine.knobs.depth=4`\n"),
            (
                "experiments/a.toml",
                "\"ropewalk:wells\"\n\"ropewalk:salt-lakes,engine.knobs.depth=2\"\n",
            ),
            ("experiments/a.toml", "\"ropewalk:wells-deep,engine.knobs.depth=2\"\n"),
        ] {
            assert_eq!(found(path, text), [MISSING], "{text}");
        }
        let named = "`depth`, `wells`\n";
        let mut tree = Tree::with_file("server/engines/src/wells.rs", KNOB);
        tree.sources.extend(Tree::with_file(PAGE, named).sources);
        assert_eq!(check(&tree).len(), 0);
        tree.sources.extend(Tree::with_file("server/engines/src/depth.rs", "").sources);
        assert_eq!(check(&tree).len(), 1, "an engine of that name");
    }
}
