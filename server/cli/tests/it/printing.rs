//! Commands that print and end.

use std::fs::File;
use std::process::Stdio;

use crate::{ropewalk, run};

/// Every mistake is one line: the place, what is wrong, and what to do, with the nearest right
/// word.
#[test]
fn mistakes_are_one_line_and_status_2() {
    let check = |arguments: &[&str], expected: &str| {
        let (status, out, error) = run(arguments);
        assert_eq!((status, out.as_str()), (2, ""), "{arguments:?}");
        assert_eq!(error, format!("ropewalk: {expected}\n"));
    };
    MISTAKES.iter().for_each(|(arguments, expected)| check(arguments, expected));
}

/// What is typed in the root of the repository, and what is answered.
const MISTAKES: &[(&[&str], &str)] = &[
    // Commands, of other programs too.
    (&["sreve"], "unknown command \"sreve\" (did you mean \"serve\"?): see `ropewalk --help`"),
    (&["lod"], "unknown command \"lod\" (did you mean \"load\"?): see `ropewalk --help`"),
    (
        &["simulat"],
        "unknown command \"simulat\" (did you mean \"simulate\"?): see `ropewalk --help`",
    ),
    (
        &["examples/site"],
        "unknown command \"examples/site\" (did you mean \"ropewalk serve examples/site\"?): see \
         `ropewalk --help`",
    ),
    (&["Cargo.toml"], "unknown command \"Cargo.toml\": see `ropewalk --help`"),
    (
        &["completions", "tcsh"],
        "<SHELL> tcsh: it must be one of bash, zsh, fish: see `ropewalk completions --help`",
    ),
    (&["--prot", "80"], "unknown option \"--prot\": see `ropewalk --help`"),
    // Options.
    (
        &["serve", "--prot", "80"],
        "unknown option \"--prot\" (did you mean \"--port\"?): see `ropewalk serve --help`",
    ),
    (&["serve", "-x"], "unknown option \"-x\": see `ropewalk serve --help`"),
    (&["serve", "a", "b"], "unexpected argument \"b\": see `ropewalk serve --help`"),
    (&["serve", "--port"], "--port <PORT>: a value is missing: see `ropewalk serve --help`"),
    (
        &["serve", "--spa=yes"],
        "--spa: the value \"yes\" is one too many: see `ropewalk serve --help`",
    ),
    (
        &["serve", "--log", "off", "--log", "json"],
        "--log <FORM> is there twice: leave one out: see `ropewalk serve --help`",
    ),
    (
        &["serve", "--port", "80", "--listen", ":80"],
        "--port <PORT> cannot be used with --listen <ADDR>: leave one out: see `ropewalk serve --help`",
    ),
    // Addresses.
    (
        &["serve", "--port", "80x"],
        "--port: \"80x\" is no port: write a number from 1 to 65535, such as 8080",
    ),
    (
        &["serve", "--listen", "8080x"],
        "--listen: \"8080x\" is no address: write 8080, :8080, localhost:8080, 127.0.0.1:8080 or \
         [::1]:8080",
    ),
    (
        &["serve", "--listen", "http://localhost:8080"],
        "--listen: \"http://localhost:8080\" is a URL: write localhost:8080",
    ),
    (
        &["serve", "--listen", "localhost"],
        "--listen: \"localhost\" has no port: write localhost:8080",
    ),
    // Files.
    (
        &["serve", "exampels"],
        "DIR: \"exampels\" does not exist (did you mean \"examples\"?): name the directory to serve",
    ),
    (&["serve", "/no/such"], "DIR: \"/no/such\" does not exist: name the directory to serve"),
    (
        &["serve", "Cargo.toml"],
        "DIR: \"Cargo.toml\" is not a directory: name the directory that holds it \
         (a configuration is read with --config)",
    ),
    (
        &["doctor", "exampels"],
        "DIR: \"exampels\" does not exist (did you mean \"examples\"?): name the directory to serve",
    ),
    (
        &["doctor", "Cargo.toml"],
        "DIR: \"Cargo.toml\" is not a directory: name the directory to serve",
    ),
    (
        &["check", "--config", "packaging/ropwalk.toml"],
        "packaging/ropwalk.toml: there is no such file (did you mean \"packaging/ropewalk.toml\"?): \
         name the configuration",
    ),
    (
        &["serve", "server", "--spa"],
        "--spa: there is no page \"/index.html\" in \"server\", or only by a link that `symlinks` does \
         not follow: name one that exists, or put it there",
    ),
    // Settings.
    (
        &["serve", "--engine", "event-lop"],
        "--engine: unknown engine \"event-lop\" (did you mean \"event-loop\"?): see `ropewalk engines`",
    ),
    (
        &["serve", "--log", "jsn"],
        "--log: log.access must be \"off\", \"combined\" or \"json\", not \"jsn\" (did you mean \
         \"json\"?)",
    ),
    (
        &["check", "--set", "cache.polcy=lru"],
        "--set cache.polcy=lru: unknown key \"polcy\" (did you mean \"policy\"?)",
    ),
    (
        &["check", "--set", "cache.policy=lrv"],
        "--set cache.policy=lrv: cache.policy must be \"s3-fifo\", \"lru\" or \"clock\", not \"lrv\" (did \
         you mean \"lru\"?)",
    ),
    (&["check", "--set", "host.listing"], "--set host.listing: write SECTION.KEY=VALUE"),
    (&["check", "--config", "Cargo.toml"], "Cargo.toml:1:2: unknown key \"workspace\""),
];

/// Without arguments there is no mistake to name: the help says what there is.
#[test]
fn without_a_command_the_help_is_printed() {
    let (status, out, error) = run(&[]);
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(error.contains("Usage: "), "{error}");
}

#[test]
fn help_that_cannot_be_printed_is_no_mistake_of_the_user() {
    let output = |out: Stdio| ropewalk(&["--help"]).stdout(out).output().unwrap();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let without_room = output(full.into());
    let error = String::from_utf8(without_room.stderr).unwrap();
    assert_eq!(error, "ropewalk: cannot print: No space left on device (os error 28)\n");
    assert_eq!(without_room.status.code(), Some(1));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let without_reader = output(writer.into());
    assert_eq!((without_reader.status.code(), without_reader.stderr), (Some(0), vec![]));
}

#[test]
fn help_and_version() {
    let (status, out, error) = run(&["--version"]);
    let version = concat!("ropewalk ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!((status, out.as_str(), error.as_str()), (0, version, ""));
    for arguments in [&["--help"][..], &["help"], &["serve", "--help"], &["serve", "-h"]] {
        let (status, out, error) = run(arguments);
        assert_eq!((status, error.as_str()), (0, ""));
        assert!(out.contains("Examples:\n  ropewalk serve "), "{out}");
        assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
    }
}

#[test]
fn check_prints_a_configuration() {
    let packaged = ["check", "examples/site", "--config", "packaging/ropewalk.toml"];
    // The folder of its log is made by the service manager.
    let (status, out, error) = run(&[&packaged[..], &["--set", "log.path=-"]].concat());
    assert_eq!((status, error.as_str()), (0, ""));
    assert!(out.starts_with("listen = [\":80\"] # packaging/ropewalk.toml:5:10\n"), "{out}");
    assert!(out.contains("\nroot = \"examples/site\" # DIR\n"), "{out}");
    assert!(out.contains("\nidle_ms = 60000 # default\n"), "{out}");
}

#[test]
fn knobs_of_earlier_versions_are_read_with_a_line() {
    let check = |set: &[&str], expected: &str| {
        let arguments = [&["check", "examples/site", "--engine", "event-loop-helpers"], set];
        let (status, _, error) = run(&arguments.concat());
        assert_eq!((status, error.as_str()), (0, expected), "{set:?}");
    };
    check(
        &["--set", "engine.knobs.loops=2"],
        "ropewalk: engine.knobs.loops is called workers now; the old name is read until 0.2\n",
    );
    check(
        &["--set", "engine.knobs.events_per_wait=64"],
        "ropewalk: engine.knobs.events_per_wait has no effect any more: events are taken 256 at a \
         time\n",
    );
    check(&["--set", "engine.knobs.workers=2"], "");
}

#[test]
fn a_server_reports_once_which_settings_have_no_effect() {
    // The server ends by itself: no machine has this address (RFC 5737).
    let serve = ["serve", "examples/site", "--engine", "event-loop", "--listen", "192.0.2.1:80"];
    let (status, _, error) =
        run(&[&serve[..], &["--set", "engine.knobs.events_per_wait=64"]].concat());
    let lines = error.lines().filter(|line| line.contains("events_per_wait")).count();
    assert_eq!((status, lines), (1, 1), "{error}");
}

#[test]
fn engines_are_listed_with_their_knobs() {
    let (status, out, _) = run(&["engines"]);
    assert_eq!(status, 0);
    for spec in engines::ENGINES {
        assert!(out.contains(&format!("{}  ({}; ", spec.name, spec.family)), "{out}");
        for knob in spec.knobs {
            assert!(
                out.contains(&format!("\n    {} = {}  (", knob.name, knob.show(knob.default))),
                "{out}"
            );
        }
    }
}

#[test]
fn doctor_has_a_line_for_each_thing() {
    let (status, out, error) = run(&["doctor", "examples/site"]);
    assert_eq!(error, "");
    let subjects = ["kernel", "openat2", "non-blocking reads", "descriptors ", "somaxconn"];
    for subject in subjects {
        let is_it = |line: &&str| line.get(5..).is_some_and(|line| line.starts_with(subject));
        assert_eq!(out.lines().filter(is_it).count(), 1, "{subject}: {out}");
    }
    let wrong = out.lines().filter(|line| line.starts_with("note ")).count();
    assert_eq!(out.matches("\n     fix:   ").count(), wrong, "each has a remedy: {out}");
    assert_eq!(status, 0, "notes are advice: {out}");
    let last = out.lines().last().unwrap();
    assert!(last.contains(&format!(" checks: {wrong} to look at, ")), "{last}");
}

#[test]
fn doctor_speaks_to_programs() {
    let (status, out, error) = run(&["doctor", "examples/site", "--json"]);
    assert_eq!(error, "");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let wrong = findings.iter().filter(|finding| finding["verdict"] == "wrong").count();
    assert_eq!(report["tally"]["wrong"], wrong);
    assert_eq!(status, 0);
    assert!(findings.iter().any(|finding| finding["subject"] == "openat2"), "{out}");
}
