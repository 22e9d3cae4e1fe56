//! `cargo xtask ci`: every check of the project, in one table, in order of cost.
//!
//! Each step is a command line that a person can repeat by hand. The first failure ends the run. A
//! step whose tools are missing is skipped, counted, and named at the end with the command that
//! would install them; tools that `.ci/run` installs must be there when `CI=true`.

use testkit::tools::{DEBOOTSTRAP, IPROUTE2, QEMU, UNSHARE, VALGRIND, WRK};

use crate::Failure;
use crate::steps::{Step, When, report, run_until_failure, step};
use crate::tools::{
    ADVISORY_DATABASE, BUILDAH, CARGO_DEB, CARGO_DENY, CARGO_FUZZ, LINTIAN, MIRI, MUSL_GCC,
    MUSL_TARGET, NIGHTLY, PODMAN, ROOT, SHARED_MEMORY,
};

const HELP: &str = "\
cargo xtask ci [--long]

  --long   also: a minute of each fuzz target, Miri on the pure crates, ThreadSanitizer on the
           engines, all benchmarks, a server that takes minutes to build (it is installed), the
           packages, the README's commands on a machine that has nothing else (as an ordinary user
           and as root, with /tmp in memory and on a disk), and whether equal servers are found
           equal beside a load that comes and goes
";

/// Engines in which threads share data.
const THREADED_ENGINES: &str = "event-loop-per-core,event-loop-helpers,staged,threads,\
                                threads-direct,thread-pool,tasks,rings";

pub(crate) const STEPS: &[Step] = &[
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
    cheaply(step(
        "static",
        When::Always,
        "cargo build --profile dist --target x86_64-unknown-linux-musl --package ropewalk",
        &[MUSL_TARGET],
    )),
    cheaply(step("package-static", When::Long, "cargo xtask package static", &[UNSHARE, IPROUTE2])),
    // Made by the step before, which does not say that it leaves them out for want of the target or
    // its compiler.
    cheaply(step(
        "package-musl",
        When::Long,
        "packaging/static try musl",
        &[MUSL_TARGET, MUSL_GCC, UNSHARE, IPROUTE2],
    )),
    cheaply(step(
        "package-deb",
        When::Long,
        "cargo xtask package deb",
        &[CARGO_DEB, LINTIAN, ROOT, DEBOOTSTRAP, IPROUTE2],
    )),
    cheaply(step(
        "package-container",
        When::Long,
        "cargo xtask package container",
        &[BUILDAH, PODMAN, ROOT, IPROUTE2],
    )),
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
             --package upstream --package file-cache --lib",
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
    step(
        "fresh",
        When::Long,
        "cargo xtask fresh user-tmpfs user-disk root-tmpfs root-disk",
        &[ROOT, DEBOOTSTRAP, IPROUTE2],
    ),
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
    step(
        "lab-ignored",
        When::Long,
        "cargo test --release --package ropewalk-lab --test it \
         -- --ignored --nocapture --test-threads 1",
        &[WRK],
    ),
];

/// The step with programs that are built in a fraction of the time: whether they can be linked and
/// packed does not depend on optimisation.
const fn cheaply(step: Step) -> Step {
    Step {
        environment: &[
            ("CARGO_PROFILE_DIST_LTO", "off"),
            ("CARGO_PROFILE_DIST_CODEGEN_UNITS", "16"),
            ("CARGO_PROFILE_DIST_OPT_LEVEL", "1"),
        ],
        ..step
    }
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
    report(&run_until_failure("ci", steps, |step| step.run(strict)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_due_once_in_each_length() {
        for long in [false, true] {
            let mut names: Vec<_> =
                STEPS.iter().filter(|step| step.is_due(long)).map(|step| step.name).collect();
            let due = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), due);
            assert!(names.contains(&"fuzz") && names.contains(&"test-tmpfs"));
            assert_eq!(names.contains(&"miri"), long);
            assert_eq!(names.contains(&"tsan"), long);
            assert_eq!(names.contains(&"fresh"), long);
            assert_eq!(names.contains(&"package-deb"), long);
            assert_eq!(names.contains(&"static-web-server"), long);
        }
    }

    /// A machine that lacks what the tests need fails in CI, and leaves out none of them.
    #[test]
    fn no_tests_are_left_out_in_ci() {
        let tests = STEPS.iter().filter(|step| step.command.starts_with("cargo xtask test"));
        let needed: Vec<_> = tests.flat_map(|step| step.needs).collect();
        assert!(!needed.is_empty());
        for tool in needed {
            assert!(tool.provided_in_ci, "without {} tests are left out", tool.name);
        }
    }

    /// Root's rounds reuse what ordinary users have built, and not the other way round.
    #[test]
    fn the_bare_machine_has_every_round_and_roots_are_last() {
        let fresh = STEPS.iter().find(|step| step.name == "fresh").expect("there is one");
        let rounds: Vec<_> = fresh.command.split(' ').skip(3).collect();
        assert_eq!(rounds, ["user-tmpfs", "user-disk", "root-tmpfs", "root-disk"]);
    }

    #[test]
    fn command_lines_can_be_repeated_by_hand() {
        let docs = STEPS.iter().find(|step| step.name == "docs").expect("there is one");
        assert!(docs.command_line().starts_with("RUSTDOCFLAGS=\"-D warnings\" cargo doc "));
        assert!(STEPS.iter().all(|step| !step.command.contains("  ")));
    }
}
