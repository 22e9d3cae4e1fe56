//! Every crate that is not of this workspace stands in one table with its reason: a line of
//! `[workspace.dependencies]` in `Cargo.toml`, and the comment at its end.
//!
//! Licences and advisories are the business of `cargo deny`.

use std::collections::BTreeSet;

use super::Finding;
use super::dependencies::{entries, is_manifest};
use super::source::{Source, Tree};

const SECTIONS: [&str; 3] = ["dependencies", "build-dependencies", "dev-dependencies"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = tree.sources.iter().filter(|source| is_manifest(&source.path));
    let mut findings = Vec::new();
    let mut used = BTreeSet::new();
    for source in manifests {
        // One that is not readable is a finding of `dependencies`.
        let manifest: toml::Table = source.text.parse().unwrap_or_default();
        for (name, value) in entries(&manifest, &SECTIONS) {
            if value.is_str() || value.get("version").is_some() {
                let message =
                    format!("{name} belongs in [workspace.dependencies], with its reason");
                findings.push(Finding::in_file(&source.path, message));
            }
            used.insert(name.clone());
        }
    }
    let table = tree.sources.iter().find(|source| source.path == "Cargo.toml");
    findings.extend(table.into_iter().flat_map(|table| judge(table, &used)));
    findings
}

/// The foreign crates of the table that have no reason, or that no manifest uses.
fn judge(table: &Source, used: &BTreeSet<String>) -> Vec<Finding> {
    let manifest: toml::Table = table.text.parse().unwrap_or_default();
    let rows = manifest.get("workspace").and_then(|workspace| workspace.get("dependencies"));
    let rows = rows.and_then(|rows| rows.as_table()).into_iter().flatten();
    let foreign = rows.filter(|(_, value)| value.get("path").is_none());
    let messages = foreign.filter_map(|(name, _)| {
        let is_row = |line: &&str| line.split([' ', '=', '.']).next() == Some(name);
        let row = table.text.lines().find(is_row)?;
        if !used.contains(name) {
            return Some(format!("no package uses {name}: take it out"));
        }
        (!row.contains(" # ")).then(|| format!("{name} has no reason: put it at the line's end"))
    });
    messages.map(|message| Finding::in_file(&table.path, message)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_outside_the_table_is_found() {
        for version in ["\"1\"", "{ version = \"1\", features = [] }"] {
            let text = format!("[dev-dependencies]\nx = {version}\nos.workspace = true\n");
            let found = check(&Tree::with_file("a/Cargo.toml", &text));
            assert_eq!(found.len(), 1, "{version}");
            assert!(check(&Tree::with_file("fuzz/Cargo.toml", &text)).is_empty());
        }
    }

    #[test]
    fn a_row_without_reason_or_use_is_found() {
        let check = |row: &str, expected: &[&str]| {
            let text = format!("[workspace.dependencies]\nours = {{ path = \"a\" }}\n{row}\n");
            let used = BTreeSet::from(["libc", "libm"].map(str::to_owned));
            let found = judge(&Source::new("Cargo.toml", &text), &used);
            let found: Vec<String> = found.into_iter().map(|finding| finding.message).collect();
            assert_eq!(found, expected, "{row}");
        };
        check("libc = \"1\" # the kernel's calls", &[]);
        check("libc = \"1\"", &["libc has no reason: put it at the line's end"]);
        check("libm = { version = \"1\" }", &["libm has no reason: put it at the line's end"]);
        check("gone = \"1\" # once", &["no package uses gone: take it out"]);
    }
}
