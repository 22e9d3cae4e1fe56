//! `cargo xtask tidy`: the house rules that no compiler checks, one file each.
//!
//! This is not a formatter and not a general linter of Rust: `cargo fmt` and `cargo clippy` do
//! that. A rule here reads the tracked files as text and reports where each breach is and what to
//! do instead.

mod anchors;
mod dependencies;
mod engine_imports;
mod experiments;
mod fault_tests;
mod file_size;
mod forbidden_calls;
mod foreign_crates;
mod knobs;
mod leftovers;
mod line_layout;
mod links;
mod module_docs;
mod private_paths;
mod prose;
mod source;
mod vague_persons;

use std::fmt;
use std::path::Path;

use self::source::{Source, Tree};
use crate::tools;

/// One breach of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The file, relative to the workspace root.
    path: String,
    /// The line, counted from one; zero for the whole file.
    line: usize,
    /// What is wrong and what to do instead.
    message: String,
}

/// A rule: its name, and the function that reports its breaches in a tree of files.
type Rule = (&'static str, fn(&Tree) -> Vec<Finding>);

const RULES: &[Rule] = &[
    ("dependencies", dependencies::check),
    ("engine-imports", engine_imports::check),
    ("experiments", experiments::check),
    ("fault-tests", fault_tests::check),
    ("file-size", file_size::check),
    ("forbidden-calls", forbidden_calls::check),
    ("foreign-crates", foreign_crates::check),
    ("knobs", knobs::check),
    ("leftovers", leftovers::check),
    ("line-layout", line_layout::check),
    ("links", links::check),
    ("module-docs", module_docs::check),
    ("private-paths", private_paths::check),
    ("prose", prose::check),
    ("vague-persons", vague_persons::check),
];

/// Checks the workspace; the error is the list of breaches.
pub(crate) fn run() -> Result<(), String> {
    let report = breaches(&tools::workspace_root())?;
    if report.is_empty() {
        println!("tidy: {} rules hold", RULES.len());
        return Ok(());
    }
    Err(format!("{} breaches\n{}", report.len(), report.join("\n")))
}

/// A line for each breach under `root`.
fn breaches(root: &Path) -> Result<Vec<String>, String> {
    let tree = Tree::read_tracked(root)?;
    let lines = RULES.iter().flat_map(|(name, check)| {
        check(&tree).into_iter().map(move |finding| format!("{finding} [{name}]"))
    });
    Ok(lines.collect())
}

impl Finding {
    fn in_line(source: &Source, line: usize, message: impl Into<String>) -> Self {
        Self { path: source.path.clone(), line, message: message.into() }
    }

    fn in_file(path: &str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: 0, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::tools::{GIT, has};

    #[test]
    fn the_workspace_is_tidy() {
        if !has(&GIT) {
            return;
        }
        let report = breaches(&tools::workspace_root()).expect("git lists the files");
        assert!(report.is_empty(), "\n{}\n", report.join("\n"));
    }

    #[test]
    fn findings_read_like_compiler_messages() {
        let source = Source::new("crates/a/src/lib.rs", "");
        assert_eq!(Finding::in_line(&source, 3, "no").to_string(), "crates/a/src/lib.rs:3: no");
        assert_eq!(Finding::in_file("deny.toml", "no").to_string(), "deny.toml: no");
    }
}
