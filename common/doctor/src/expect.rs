//! Expectations of tests of checks, in each crate that has checks.

use std::collections::BTreeSet;

use super::{Check, Machine, Reading, Section, Verdict, examine};

/// The reading of the check called `subject` on a machine; its verdict must be `expected`.
///
/// # Panics
/// When there is no such check, or the verdict is another.
#[track_caller]
pub fn verdict(checks: &[&Check], subject: &str, machine: &Machine, expected: Verdict) -> Reading {
    let check = checks.iter().find(|check| check.subject == subject).expect("such a check");
    let reading = check.read(machine);
    assert_eq!(reading.verdict, expected, "{subject}: {reading:?}");
    reading
}

/// A good value and a bad one of a setting that is one number, or several.
///
/// # Panics
/// When one of them has another verdict.
#[track_caller]
pub fn setting(checks: &[&Check], subject: &str, path: &str, good: &str, bad: &str) {
    let check = |files: &[(&str, &str)], expected| {
        verdict(checks, subject, &Machine::with_files(files), expected);
    };
    check(&[(path, good)], Verdict::Fine);
    check(&[(path, bad)], Verdict::Wrong);
    check(&[(path, "")], Verdict::Unreadable);
    check(&[], Verdict::Unreadable);
}

/// Subjects differ, texts are whole and fit into a table, and nothing is wrong with a machine that
/// tells nothing.
///
/// # Panics
/// When it is otherwise.
pub fn whole_list(checks: &[&Check]) {
    let subjects: BTreeSet<&str> = checks.iter().map(|check| check.subject).collect();
    assert_eq!(subjects.len(), checks.len());
    for check in checks {
        for text in [check.subject, check.source, check.good, check.cost, check.mend] {
            assert!(!text.is_empty() && !text.contains(['\n', '|']), "{}: {text:?}", check.subject);
        }
    }
    for finding in examine(checks, &Machine::default()) {
        assert_ne!(finding.verdict, Verdict::Wrong, "{finding:?}");
    }
}

/// The table of a section in docs/serve/doctor.md, whose text is `page`: it has these checks, word
/// for word, and no others.
///
/// # Panics
/// When it is otherwise.
pub fn documented(page: &str, section: Section, checks: &[&Check]) {
    let heading = match section {
        Section::Measuring => "## For measuring",
        Section::Serving => "## For serving",
    };
    let (_, part) = page.split_once(heading).expect("the section is there");
    let part = part.split("\n## ").next().expect("it has an end");
    let row = |of: [&str; 5]| format!("| {} |\n", of.join(" | "));
    let head = row(["subject", "good", "what it costs", "fix", "source"]);
    let rows = checks
        .iter()
        .map(|check| row([check.subject, check.good, check.cost, check.mend, check.source]));
    let table = head + "|---|---|---|---|---|\n" + &rows.collect::<String>();
    assert!(part.contains(&table), "docs/serve/doctor.md should have:\n{table}");
    let rows = part.lines().filter(|line| line.starts_with("| ")).count();
    assert_eq!(rows, checks.len() + 1, "a heading, and no other rows");
}
