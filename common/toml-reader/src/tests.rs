//! Mistakes, and that what is right is read as the crate `toml` reads it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Whole {
    title: String,
    share: Option<f64>,
    #[serde(default)]
    kind: Kind,
    #[serde(default)]
    parts: Vec<Part>,
    #[serde(default)]
    free: BTreeMap<String, toml::Value>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Part {
    cpus: u32,
    kind: Option<Kind>,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    #[default]
    AllDone,
    Busy,
    Both {
        cpus: Number,
    },
}

#[derive(Debug, Deserialize, PartialEq)]
struct Number(u32);

const TEXT: &str = r#"
title = "t"
share = 1
kind = { both = { cpus = 3 } }
[free]
date = 2026-11-29
list = [true, 1.5]
[[parts]]
cpus = 1
[[parts]]
cpus = 2
kind = "busy"
[sizes.small]
parts = [{ cpus = 9 }]
"#;

/// The text without its sizes, which are no part of the table.
fn whole() -> &'static str {
    TEXT.split_once("[sizes").expect("they come last").0
}

#[test]
fn what_is_right_is_read() {
    let expected: Whole = toml::from_str(whole()).expect("it is right");
    assert_eq!(expected.kind, Kind::Both { cpus: Number(3) });
    let mut found: Whole = read(whole()).expect("it is right");
    assert_eq!(found.free.remove("date"), Some("2026-11-29".into()), "a date is its text");
    assert_eq!(found, Whole { free: found_free(expected.free), ..expected });
}

fn found_free(mut free: BTreeMap<String, toml::Value>) -> BTreeMap<String, toml::Value> {
    free.remove("date");
    free
}

#[test]
fn a_mistake_is_one_line_with_its_number_and_the_nearest_word() {
    let check = |from: &str, to: &str, expected: &str| {
        assert!(TEXT.contains(from), "{from}");
        let found = read::<Whole>(&whole().replacen(from, to, 1)).expect_err(to);
        assert_eq!(found, expected);
    };
    check("share", "shared", "line 3: unknown key \"shared\" (did you mean \"share\"?)");
    check("title", "quite", "line 2: unknown key \"quite\"");
    check("title = \"t\"", "", "the key \"title\" is missing");
    check("cpus = 2", "cups = 2", "line 11: unknown key \"cups\" (did you mean \"cpus\"?)");
    check("cpus = 2", "", "line 10: the key \"cpus\" is missing");
    let word = "line 12: kind must be one of all-done, busy, both, not \"bussy\" (did you mean \
                \"busy\"?)";
    check("\"busy\"", "\"bussy\"", word);
    check("cpus = 1", "cpus = \"1\"", "line 9: invalid type: string \"1\", expected u32");
    check("cpus = 3", "cpus = -3", "line 4: invalid value: integer `-3`, expected u32");
    check(
        "title = \"t\"",
        "title = ",
        "line 2: string values must be quoted, expected literal string",
    );
}

#[test]
fn a_key_or_an_item_beside_what_is_read_is_a_mistake() {
    #[derive(Debug, Deserialize)]
    struct Both {
        _pair: (u8, u8),
        _kind: Kind,
    }
    let check = |pair: &str, kind: &str, expected: &str| {
        let found = read::<Both>(&format!("_pair = {pair}\n_kind = {kind}\n"));
        assert_eq!(found.map(|_| ()).err().unwrap_or_default(), expected);
    };
    check("[1, 2]", "{ both = { cpus = 1 } }", "");
    check("[1, 2,\n3]", "\"busy\"", "line 2: item 3 is one too many");
    let key = "line 2: key \"x\" is one too many";
    check("[1, 2]", "{ both = { cpus = 1 }, x = 1 }", key);
}

/// A table in which something was replaced has lines in two places of the text.
#[test]
fn the_line_of_a_changed_table_is_looked_for_where_it_may_come_from() {
    let line = |steps: &[Step]| {
        let mut mistake = read_value::<Part>(Table::new()).expect_err("it is empty");
        for step in steps.iter().rev().cloned() {
            mistake = mistake.below(step);
        }
        mistake.line_prefix(TEXT, &[&["sizes", "small"]])
    };
    let part = |index| [Step::Key("parts".into()), Step::Item(index)];
    assert_eq!(line(&part(0)), "line 14: ");
    assert_eq!(line(&part(1)), "line 10: ", "it is not in the size");
    assert_eq!(line(&part(2)), "");
    assert_eq!(line(&[Step::Key("share".into())]), "line 3: ");
}
