//! Commands that print and end.

use crate::run;

#[test]
fn version_is_that_of_the_program() {
    let version = concat!("ropewalk-lab ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(run(&["--version"]), (0, version.to_owned(), String::new()));
}

#[test]
fn the_doctor_has_a_line_for_each_check_of_a_testbed() {
    let (status, out, error) = run(&["doctor", "examples/site"]);
    assert_eq!(error, "");
    for subject in ["turbo", "swap", "somaxconn"] {
        let is_it = |line: &&str| line.get(5..).is_some_and(|line| line.starts_with(subject));
        assert_eq!(out.lines().filter(is_it).count(), 1, "{subject}: {out}");
    }
    let wrong = out.lines().filter(|line| line.starts_with("note ")).count();
    assert_eq!(status, 0, "notes are advice: {out}");
    assert!(out.ends_with(" not readable here\n"), "{out}");
    assert!(out.contains(&format!(" checks: {wrong} to look at, ")), "{out}");
}

#[test]
fn membench_says_how_long_and_keeps_to_it() {
    let short = ["membench", "--budget", "800ms", "--repetitions", "1", "--area", "4"];
    let (status, out, error) = run(&short);
    assert_eq!(status, 0, "{error}");
    assert!(
        error.contains(" measurements of ") && error.ends_with(": at most about 1 s\n"),
        "{error}"
    );
    for access in ["read", "write", "copy"] {
        assert!(out.contains(&format!(" CPUs, {access}: ")), "{out}");
    }
    let (status, out, _) = run(&[&short[..], &["--json"]].concat());
    let outcome: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &outcome["repetitions"]), (0, &1.into()));
    assert_eq!(outcome["rows"][0]["instructions"], "plain");
}

#[test]
fn membench_refuses_what_cannot_be_measured() {
    for (typed, expected) in
        [("--budget=1ms", "ropewalk: --budget: "), ("--area=1", "ropewalk: --area: ")]
    {
        let (status, out, error) = run(&["membench", typed]);
        assert_eq!((status, out.as_str()), (2, ""), "{error}");
        assert!(error.starts_with(expected) && error.lines().count() == 1, "{error}");
    }
}
