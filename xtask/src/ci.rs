//! `cargo xtask ci`: every check of the project, in one table, in order of cost.
//!
//! Each step is a command line that a person can repeat by hand. The first failure ends the run. A
//! step whose tools are missing is skipped, counted, and named at the end with the command that
//! would install them; tools that `.ci/run` installs must be there when `CI=true`.

use std::process::Stdio;

use testkit::tools::{DEBOOTSTRAP, IPROUTE2, QEMU, VALGRIND, WRK};

use crate::Failure;
use crate::tools::{
    self, ADVISORY_DATABASE, CARGO_DENY, CARGO_FUZZ, MIRI, MUSL_TARGET, NIGHTLY, ROOT,
    SHARED_MEMORY, Tool,
};

const HELP: &str = "\
cargo xtask ci [--long]

  --long   also: a minute of each fuzz target, Miri on the pure crates, ThreadSanitizer on the
           engines, all benchmarks, a server that takes minutes to build (it is installed), and
           the README's commands on a machine that has nothing else
";

/// When a step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Always,
    /// With `--long`, instead of the step's short form.
    Long,
    /// Without `--long` only.
    Short,
}

/// One check.
#[derive(Debug)]
struct Step {
    name: &'static str,
    when: When,
    /// The words of a command, separated by single spaces.
    command: &'static str,
    /// Variables set for the command.
    environment: &'static [(&'static str, &'static str)],
    needs: &'static [Tool],
}

/// Engines in which threads share data.
const THREADED_ENGINES: &str = "event-loop-per-core,event-loop-helpers,staged,threads,\
                                threads-direct,thread-pool,tasks,rings";

const STEPS: &[Step] = &[
    step("fmt", When::Always, "cargo fmt --all --check", &[]),
    step("lock", When::Always, "cargo update --workspace --locked", &[]),
    step(
        "fuzz-lock",
        When::Always,
        "cargo update --workspace --locked --manifest-path fuzz/Cargo.toml",
        &[],
    ),
    step("tidy", When::Always, "cargo xtask tidy", &[]),
    step("clippy", When::Always, "cargo clippy --workspace --all-targets -- -D warnings", &[]),
    Step {
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
        ..step(
            "docs",
            When::Always,
            "cargo doc --workspace --no-deps --document-private-items",
            &[],
        )
    },
    step("deny", When::Always, "cargo deny check bans licenses sources", &[CARGO_DENY]),
    step(
        "advisories",
        When::Always,
        "cargo deny --offline check advisories",
        &[CARGO_DENY, ADVISORY_DATABASE],
    ),
    step("test", When::Always, "cargo xtask test", &[]),
    Step {
        // On many systems temporary files are in memory, where files are never cold.
        environment: &[("TMPDIR", "/dev/shm")],
        ..step(
            "test-tmpfs",
            When::Always,
            "cargo xtask test --package server --package os",
            &[SHARED_MEMORY],
        )
    },
    Step {
        environment: &[("ROPEWALK_STORM_SECONDS", "20")],
        ..step("storm", When::Long, "cargo test --package server --test storm", &[])
    },
    step("static-web-server", When::Long, "cargo install --quiet --locked static-web-server", &[]),
    Step {
        environment: &[("ROPEWALK_TEST_SERVERS", "static-web-server")],
        ..step(
            "servers",
            When::Long,
            "cargo test --package ropewalk-lab --test it servers::every_server",
            &[],
        )
    },
    step(
        "build",
        When::Always,
        "cargo build --release --package ropewalk --package ropewalk-lab --package ropewalk-sim",
        &[],
    ),
    step("size", When::Always, "cargo xtask size", &[]),
    linked_statically(
        When::Short,
        "cargo build --release --target x86_64-unknown-linux-musl --package ropewalk",
    ),
    linked_statically(
        When::Long,
        "cargo build --release --target x86_64-unknown-linux-musl --package ropewalk \
         --package ropewalk-lab --package ropewalk-sim",
    ),
    step("fuzz", When::Short, "cargo xtask fuzz --seconds 10", &[NIGHTLY, CARGO_FUZZ]),
    step("fuzz", When::Long, "cargo xtask fuzz --seconds 60", &[NIGHTLY, CARGO_FUZZ]),
    Step {
        // Memory that processes share is leaked in tests that stand in for it.
        environment: &[
            ("PROPTEST_CASES", "4"),
            ("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-ignore-leaks"),
        ],
        ..step(
            "miri",
            When::Long,
            "cargo +nightly miri test --package http1 --package site --package session \
             --package file-cache --lib",
            &[NIGHTLY, MIRI],
        )
    },
    Step {
        // Fibers change stacks, which the sanitizer cannot follow.
        environment: &[
            ("RUSTFLAGS", "-Zsanitizer=thread"),
            ("ROPEWALK_TEST_ENGINES", THREADED_ENGINES),
        ],
        ..step(
            "tsan",
            When::Long,
            "cargo +nightly test -Zbuild-std --target x86_64-unknown-linux-gnu \
             --target-dir target/tsan --package engines --package server --lib --test storm \
             -- --skip fibers",
            &[NIGHTLY, MIRI],
        )
    },
    step("fresh", When::Long, "cargo xtask fresh", &[ROOT, DEBOOTSTRAP, IPROUTE2]),
    step("bench-simulate", When::Short, "cargo test --package coherence --bench references", &[]),
    step("bench-simulate", When::Long, "cargo bench --package coherence --bench references", &[]),
    step(
        "study-servers",
        When::Short,
        ".ci/study experiments/ourselves-servers.toml --size quick",
        &[WRK],
    ),
    step(
        "study-servers",
        When::Long,
        ".ci/study experiments/ourselves-servers.toml --size once",
        &[WRK],
    ),
    step(
        "study-load",
        When::Short,
        ".ci/study experiments/ourselves-load.toml --size quick",
        &[WRK],
    ),
    step("study-load", When::Long, ".ci/study experiments/ourselves-load.toml", &[WRK]),
    step("bench-recorders", When::Short, "cargo xtask bench --quick", &[VALGRIND, QEMU]),
    step("bench-recorders", When::Long, "cargo xtask bench", &[VALGRIND, QEMU]),
    step(
        "study-engines",
        When::Short,
        ".ci/study experiments/ourselves-engines.toml --size quick",
        &[],
    ),
    step(
        "study-engines",
        When::Long,
        ".ci/study experiments/ourselves-engines.toml --size once",
        &[],
    ),
];

/// Builds programs with musl. Whether they can be linked so does not depend on optimisation.
const fn linked_statically(when: When, command: &'static str) -> Step {
    Step {
        environment: &[
            ("CARGO_PROFILE_RELEASE_LTO", "off"),
            ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
            ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
        ],
        ..step("static", when, command, &[MUSL_TARGET])
    }
}

const fn step(
    name: &'static str,
    when: When,
    command: &'static str,
    needs: &'static [Tool],
) -> Step {
    Step { name, when, command, environment: &[], needs }
}

/// The outcome of a step.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Skipped(Tool),
    Failed(String),
}

/// Runs the steps; the error is the line that reports the outcome.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let long = match arguments {
        [] => false,
        [option] if option == "--long" => true,
        [option] if option == "--help" => {
            print!("{HELP}");
            return Ok(());
        }
        _ => return Err(format!("ci knows no such options\n\n{HELP}").into()),
    };
    let strict = std::env::var("CI").is_ok_and(|value| value == "true");
    let steps = STEPS.iter().filter(|step| step.is_due(long));
    report(&run_until_failure(steps, |step| step.run(strict)))
}

/// The outcomes up to the first failure.
fn run_until_failure<'s>(
    steps: impl Iterator<Item = &'s Step>,
    run: impl Fn(&Step) -> Outcome,
) -> Vec<(&'s Step, Outcome)> {
    let mut outcomes = Vec::new();
    for step in steps {
        println!("\nci: {}: {}", step.name, step.command_line());
        let start_us = os::clock::now();
        let outcome = run(step);
        println!("ci: {}", outcome.line(step, os::clock::now() - start_us));
        let failed = matches!(outcome, Outcome::Failed(_));
        outcomes.push((step, outcome));
        if failed {
            break;
        }
    }
    outcomes
}

/// Prints what was skipped and the counts, which are the last line of a run that passed.
fn report(outcomes: &[(&Step, Outcome)]) -> Result<(), Failure> {
    println!();
    for (step, outcome) in outcomes {
        if let Outcome::Skipped(tool) = outcome {
            println!("skipped {}: {}", step.name, tool.is_missing());
        }
    }
    let count = |wanted: fn(&Outcome) -> bool| outcomes.iter().filter(|(_, o)| wanted(o)).count();
    let passed = count(|outcome| matches!(outcome, Outcome::Passed));
    let failed = count(|outcome| matches!(outcome, Outcome::Failed(_)));
    let skipped = count(|outcome| matches!(outcome, Outcome::Skipped(_)));
    if let Some((step, Outcome::Failed(why))) = outcomes.last() {
        println!("FAILED at {}: {why}", step.name);
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 { Ok(()) } else { Err(Failure::Printed) }
}

impl Step {
    fn is_due(&self, long: bool) -> bool {
        match self.when {
            When::Always => true,
            When::Long => long,
            When::Short => !long,
        }
    }

    /// The command as a person would type it.
    fn command_line(&self) -> String {
        let variables = self.environment.iter().map(|(name, value)| format!("{name}=\"{value}\" "));
        variables.chain([self.command.to_owned()]).collect()
    }

    /// Runs the command with no input; `strict` forbids skipping for lack of what CI provides.
    fn run(&self, strict: bool) -> Outcome {
        if let Some(tool) = self.needs.iter().find(|tool| !tool.is_there()) {
            return missing(*tool, strict);
        }
        let mut command = tools::command(self.command);
        command.stdin(Stdio::null()).envs(self.environment.iter().copied());
        match command.status() {
            Ok(status) if status.success() => Outcome::Passed,
            Ok(status) => Outcome::Failed(format!("{status}: {}", self.command_line())),
            Err(why) => Outcome::Failed(format!("{why}: {}", self.command_line())),
        }
    }
}

fn missing(tool: Tool, strict: bool) -> Outcome {
    if strict && tool.provided_in_ci {
        return Outcome::Failed(tool.is_missing());
    }
    Outcome::Skipped(tool)
}

impl Outcome {
    fn line(&self, step: &Step, elapsed_us: u64) -> String {
        let seconds = elapsed_us as f64 / 1e6;
        match self {
            Self::Passed => format!("{} passed in {seconds:.1} s", step.name),
            Self::Skipped(tool) => format!("{} skipped: {} is missing", step.name, tool.name),
            Self::Failed(_) => format!("{} FAILED after {seconds:.1} s", step.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Probe;

    fn named(name: &'static str) -> Step {
        step(name, When::Always, "cargo --version", &[])
    }

    #[test]
    fn the_first_failure_ends_the_run() {
        let steps = [named("a"), named("b"), named("c")];
        let run = |step: &Step| match step.name {
            "b" => Outcome::Failed("broken".into()),
            _ => Outcome::Passed,
        };
        let outcomes = run_until_failure(steps.iter(), run);
        let names: Vec<_> = outcomes.iter().map(|(step, _)| step.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(report(&outcomes).is_err());
        assert!(report(&outcomes[..1]).is_ok());
    }

    #[test]
    fn a_missing_tool_is_a_failure_only_where_ci_provides_it() {
        let probe = Probe::Program("no-such-program-anywhere");
        let fuzz = Tool { probe, ..CARGO_FUZZ };
        let miri = Tool { probe, ..MIRI };
        assert_eq!(missing(fuzz, false), Outcome::Skipped(fuzz));
        assert!(matches!(missing(fuzz, true), Outcome::Failed(_)));
        assert_eq!(missing(miri, true), Outcome::Skipped(miri));
    }

    #[test]
    fn steps_pass_and_fail_with_their_command() {
        assert_eq!(named("good").run(true), Outcome::Passed);
        let bad = step("bad", When::Always, "cargo no-such-subcommand", &[]);
        let Outcome::Failed(why) = bad.run(true) else { panic!("it cannot pass") };
        assert!(why.ends_with("cargo no-such-subcommand"), "{why}");
    }

    #[test]
    fn every_step_is_due_once_in_each_length() {
        for long in [false, true] {
            let mut names: Vec<_> =
                STEPS.iter().filter(|step| step.is_due(long)).map(|step| step.name).collect();
            let due = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), due);
            assert!(names.contains(&"fuzz"));
            assert_eq!(names.contains(&"miri"), long);
            assert_eq!(names.contains(&"tsan"), long);
            assert_eq!(names.contains(&"fresh"), long);
            assert_eq!(names.contains(&"static-web-server"), long);
        }
    }

    #[test]
    fn command_lines_can_be_repeated_by_hand() {
        let docs = STEPS.iter().find(|step| step.name == "docs").expect("there is one");
        assert!(docs.command_line().starts_with("RUSTDOCFLAGS=\"-D warnings\" cargo doc "));
        assert!(STEPS.iter().all(|step| !step.command.contains("  ")));
    }
}
