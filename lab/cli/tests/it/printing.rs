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
    // Other tests run at the same time, which makes the results void.
    assert_eq!(status, if out.contains("VOID") { 3 } else { 0 }, "{error}");
    assert!(
        error.contains(" measurements of ") && error.ends_with(": at most about 1 s\n"),
        "{error}"
    );
    for access in ["read", "write", "copy"] {
        assert!(out.contains(&format!(" CPUs, {access}: ")), "{out}");
    }
    let (status, out, _) = run(&[&short[..], &["--json"]].concat());
    let outcome: serde_json::Value = serde_json::from_str(&out).unwrap();
    let is_void = outcome["void"].as_array().is_some_and(|void| !void.is_empty());
    assert_eq!(status, if is_void { 3 } else { 0 }, "{out}");
    assert_eq!(outcome["repetitions"], 1);
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

#[test]
fn values_that_are_no_numbers_or_out_of_range_are_told_alike() {
    let whole = "write a whole number";
    for (command, option, expected) in [
        ("compare a b", "--pairs x", "write a whole number from 1 to 4294967295"),
        ("compare a b", "--pairs 0", "write a whole number from 1 to 4294967295"),
        ("compare a b", "--margin x", "write a percentage from 0, and below 100"),
        ("compare a b", "--request-rate 0", "write a number above 0"),
        ("compare a b", "--seed x", whole),
        ("tune a", "--confidence 100", "write a percentage from 50, and below 100"),
        ("tune a", "--seed 99999999999999999999", "write a smaller number"),
        ("study a", "--repetitions 0", "write a whole number from 1 to 4294967295"),
        ("membench", "--area x", whole),
        ("membench", "--repetitions 0", "write a whole number from 1 to 4294967295"),
        ("fileset a", "--threads 0", "write a whole number from 1 to 1024"),
        ("fileset a", "--directories x", whole),
        ("log generate --output a", "--directories x", "write a whole number from 1 to 100000"),
        ("load a", "--idle x", whole),
        ("load a", "--speed x", "write a number"),
    ] {
        let words: Vec<&str> = command.split(' ').chain(option.split(' ')).collect();
        let (status, out, error) = run(&words);
        assert_eq!((status, out.as_str(), error.lines().count()), (2, "", 1), "{error}");
        let (said, _) = error.split_once(": see `").unwrap_or((error.trim_end(), ""));
        assert_eq!(said, format!("ropewalk: {option}: {expected}"));
    }
}

/// It refuses them, as its testbeds assign the CPUs.
#[test]
fn help_of_a_study_has_no_options_for_cpus() {
    let help = |command| run(&[command, "--help"]).1;
    for option in ["--server-cpus", "--client-cpus"] {
        assert!(help("tune").contains(option), "{option}");
        assert!(!help("study").contains(option), "{option}");
    }
}
