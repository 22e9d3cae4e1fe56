//! Checks the documentation of the configuration against the keys that exist.

use std::collections::BTreeSet;
use std::fs;

use server::config::{Arguments, Config, DocumentedKey, documented_keys};
use testkit::Temporary;

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Sections are headings like "## `[cache]`", keys rows like "| `policy` | type | `"s3-fifo"` | … |".
#[test]
fn every_key_is_documented_with_its_default_and_nothing_else_is() {
    let page = fs::read_to_string(format!("{REPOSITORY}/docs/serve/configuration.md")).unwrap();
    let documented: BTreeSet<Row> = rows(&page).into_iter().collect();
    let existing: BTreeSet<Row> = documented_keys().iter().map(row).collect();
    let missing: Vec<_> = existing.difference(&documented).collect();
    let stale: Vec<_> = documented.difference(&existing).collect();
    assert!(missing.is_empty() && stale.is_empty(), "missing: {missing:#?}\nstale: {stale:#?}");
}

#[test]
fn the_packaged_example_is_accepted() {
    let arguments = Arguments {
        config: Some(format!("{REPOSITORY}/packaging/ropewalk.toml").into()),
        directory: Some(REPOSITORY.into()),
        set: vec!["log.path=-".into()], // its folder is made by the service manager
        ..Arguments::default()
    };
    Config::load(&arguments).unwrap();
}

#[test]
fn the_examples_of_the_page_of_applications_are_accepted() {
    let page = fs::read_to_string(format!("{REPOSITORY}/docs/serve/applications.md")).unwrap();
    let blocks = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let blocks: Vec<&str> = blocks.collect();
    assert!(!blocks.is_empty());
    let folder = Temporary::new();
    folder.file("site/index.html", "");
    folder.file("protected/a/b.pdf", "");
    let srv = format!("{}/", folder.path().display());
    for block in blocks {
        let text = block.replace("/srv/", &srv);
        let config = Some(folder.file("ropewalk.toml", text));
        let loaded = Config::load(&Arguments { config, ..Arguments::default() });
        assert!(loaded.is_ok(), "{}\n{block}", loaded.unwrap_err());
    }
}

/// Section, name, default.
type Row = (String, String, String);

fn row(key: &DocumentedKey) -> Row {
    (key.section.clone(), key.name.into(), key.default.clone())
}

fn rows(page: &str) -> Vec<Row> {
    let mut section = String::new();
    let mut rows = Vec::new();
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading.trim_matches('`').to_string();
            if !section.starts_with('[') {
                section.clear();
            }
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let ["", name, _, default, _, ""] = cells[..]
            && let Some(name) = code(name)
        {
            rows.push((section.clone(), name, code(default).unwrap_or_default()));
        }
    }
    rows
}

/// The text between backticks.
fn code(cell: &str) -> Option<String> {
    Some(cell.strip_prefix('`')?.strip_suffix('`')?.to_string())
}
