//! No engine uses another: code that two engines share is in a file that is not an engine.
//!
//! A difference between two engines is then a difference in concurrency, and either can be
//! deleted without a thought for the other.

use super::Finding;
use super::source::{Source, Tree};

const ENGINES: &str = "server/engines/src/";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let sources: Vec<&Source> =
        tree.rust().filter(|source| source.path.starts_with(ENGINES)).collect();
    let engines: Vec<String> = sources.iter().flat_map(|source| engine_modules(source)).collect();
    let mut findings = Vec::new();
    for source in sources {
        let Some(own) = engines.iter().find(|engine| module(&source.path) == engine.as_str())
        else {
            continue;
        };
        for other in engines.iter().filter(|engine| *engine != own) {
            findings.extend(imports(source, other).map(|offset| {
                let message = format!("engine {own} uses engine {other}: move what they share out");
                Finding::in_line(source, source.line_of(offset), message)
            }));
        }
    }
    findings
}

/// The modules of the engines that `source` describes: `name: "event-loop"` in an `EngineSpec`.
fn engine_modules(source: &Source) -> Vec<String> {
    let specs = source
        .words("EngineSpec")
        .filter(|start| source.code[start + "EngineSpec".len()..].trim_start().starts_with('{'));
    specs.filter_map(|start| name_field(&source.text[start..])).collect()
}

/// The value of the first `name: "..."` of a struct expression, as a module's name.
fn name_field(spec: &str) -> Option<String> {
    let (_, value) = spec.split_once("name: \"")?;
    let (name, _) = value.split_once('"')?;
    Some(name.replace('-', "_"))
}

/// The module a file of the crate belongs to: `a` for src/a.rs and src/a/b.rs.
fn module(path: &str) -> &str {
    let inside = path.strip_prefix(ENGINES).unwrap_or(path);
    inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs")
}

/// The places where `source` names the module `other` in a path.
fn imports<'s>(source: &'s Source, other: &'s str) -> impl Iterator<Item = usize> + 's {
    source.words(other).filter(move |start| {
        let before = source.code[..*start].trim_end();
        let after = source.code[start + other.len()..].trim_start();
        before.ends_with("crate::") || before.ends_with("super::") || after.starts_with("::")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "pub const ENGINES: &[EngineSpec] = &[
        EngineSpec { name: \"event-loop\", start }, EngineSpec { name: \"threads\", start }];";

    fn found(path: &str, text: &str) -> usize {
        let mut tree = Tree::with_file("server/engines/src/lib.rs", TABLE);
        tree.sources.push(Source::new(path, text));
        check(&tree).len()
    }

    #[test]
    fn an_engine_may_not_use_another() {
        let cases = [
            ("use crate::threads::Pool;", 1),
            ("use super::threads;", 1),
            ("fn f() { crate::threads::go() }", 1),
            ("// crate::threads::go is another\nuse crate::acceptor::Acceptor;", 0),
            ("use crate::event_loop::Loop; let threads = 3;", 0),
        ];
        for (text, expected) in cases {
            assert_eq!(found("server/engines/src/event_loop.rs", text), expected, "{text}");
            assert_eq!(found("server/engines/src/event_loop/turn.rs", text), expected, "{text}");
        }
    }

    #[test]
    fn the_table_and_shared_files_may_use_all() {
        assert_eq!(found("server/engines/src/acceptor.rs", "use crate::threads::Pool;"), 0);
    }
}
