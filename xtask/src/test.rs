//! `cargo xtask test`: runs all tests, and prints at the end what was left out on this machine,
//! with the command that installs what is missing.
//!
//! The tests are many programs, each of which knows only what it has left out itself; they write it
//! to one file ([`testkit::SKIPPED`]). Cargo builds them and would run one after the other, but the
//! longest mostly wait: here two run at a time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use testkit::Skipped;

use crate::Failure;
use crate::programs::{self, Built, Program};
use crate::tools;

const HELP: &str = "\
cargo xtask test [ARGUMENTS]

Runs all tests of the workspace, two test programs at a time, and says at the end which checks were
left out, and why. With ARGUMENTS it is `cargo test --no-fail-fast ARGUMENTS` and that list, of the
whole workspace unless they choose packages (-p).
";

/// With more at a time, tests that measure something would have too small a part of a small
/// machine.
pub(crate) const AT_A_TIME: usize = 2;

/// No test program takes so long, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// The number of lines that are repeated of a program that fails.
const FAILURE_LINES_MAX: usize = 100;

/// Runs the tests; the error names what failed, unless Cargo has printed it.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if arguments.first().is_some_and(|first| first == "--help") {
        print!("{HELP}");
        return Ok(());
    }
    let list = List::create()?;
    let result =
        if arguments.is_empty() { all(&list.0) } else { passed(cargo_test(arguments, &list.0)?) };
    print!("{}", summary(&Skipped::read(&list.text()?)));
    result
}

/// Runs all test programs, the longest first, and then the tests in documentation.
fn all(list: &Path) -> Result<(), Failure> {
    let Built { programs, with_examples, .. } = programs::build()?;
    let failed = Mutex::new(Vec::new());
    testkit::at_a_time(AT_A_TIME, &programs, |program| {
        let output = list.with_extension(program.name.replace('/', "-"));
        let why = match run_program(program, &output, list) {
            Ok((status, printed)) => {
                let printed = String::from_utf8_lossy(&printed);
                print!("\n     Running {}\n{printed}", program.name);
                (!status.success()).then(|| format!("{status}\n{}", failures(&printed)))
            }
            Err(why) => Some(format!("{}: {why}", program.path.display())),
        };
        if let Some(why) = why {
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.push(format!("{}: {why}", program.name));
        }
    });
    let documentation = test_examples(&with_examples, list);
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failed.is_empty() { documentation } else { Err(failed.join("\n").into()) }
}

/// What a test program says of its failures at its end, without the calls that led to them: the
/// whole output may be too long for the place where it is kept.
fn failures(whole: &str) -> String {
    let is_call = |line: &str| {
        let first = line.split_whitespace().next().unwrap_or_default();
        let number = first.strip_suffix(':').unwrap_or_default();
        first == "at" || number.parse::<u32>().is_ok()
    };
    let reported = whole.split_once("\nfailures:\n").map_or(whole, |(_, reported)| reported);
    let lines: Vec<&str> = reported.lines().filter(|line| !is_call(line)).collect();
    let last = &lines[lines.len().saturating_sub(FAILURE_LINES_MAX)..];
    let left_out = lines.len() - last.len();
    let note = (left_out > 0).then(|| format!("[{left_out} lines before]"));
    let note = note.as_deref().into_iter();
    note.chain(last.iter().copied()).collect::<Vec<_>>().join("\n")
}

/// Runs the examples in the documentation of packages. Cargo would look for examples in all others,
/// a second each.
fn test_examples(packages: &[String], list: &Path) -> Result<(), Failure> {
    if packages.is_empty() {
        return Ok(());
    }
    let chosen = packages.iter().map(|package| format!("--package={package}"));
    let arguments: Vec<String> = ["--doc".to_owned()].into_iter().chain(chosen).collect();
    passed(cargo_test(&arguments, list)?)
}

/// Runs one program to its end, or ends it if it hangs. Returns how it ended, and its output, which
/// goes through the file `output`, so that a process that the program leaves behind cannot make
/// this wait.
pub(crate) fn run_program(
    program: &Program,
    output: &Path,
    list: &Path,
) -> io::Result<(ExitStatus, Vec<u8>)> {
    let file = File::create(output)?;
    let mut errors = file.try_clone()?;
    let mut command = program.command();
    command.env(testkit::SKIPPED, list).stdout(file).stderr(errors.try_clone()?);
    let status = command.spawn().and_then(|mut child| {
        let is_over = await_end(&mut child, LIMIT)?;
        if !is_over {
            writeln!(errors, "It hung, and was ended after {} minutes.", LIMIT.as_secs() / 60)?;
            child.kill()?;
        }
        child.wait()
    });
    let printed = fs::read(output)?;
    fs::remove_file(output)?;
    Ok((status?, printed))
}

/// Waits for the end of a program, for so long at most. Returns whether it has ended.
fn await_end(child: &mut Child, limit: Duration) -> io::Result<bool> {
    const LOOK: Duration = Duration::from_millis(20);
    let mut waited = Duration::ZERO;
    while child.try_wait()?.is_none() {
        if waited > limit {
            return Ok(false);
        }
        thread::sleep(LOOK);
        waited += LOOK;
    }
    Ok(true)
}

fn passed(status: ExitStatus) -> Result<(), Failure> {
    if status.success() { Ok(()) } else { Err(Failure::Printed) }
}

fn cargo_test(arguments: &[String], list: &Path) -> Result<ExitStatus, String> {
    let mut command = tools::command("cargo test --no-fail-fast");
    if !chooses_packages(arguments) {
        command.arg("--workspace");
    }
    command.args(arguments).env(testkit::SKIPPED, list);
    command.status().map_err(|why| format!("cargo: {why}"))
}

/// Whether the arguments for Cargo select packages.
fn chooses_packages(arguments: &[String]) -> bool {
    let own = arguments.iter().take_while(|argument| *argument != "--");
    own.into_iter().any(|argument| argument.starts_with("-p") || argument.starts_with("--package"))
}

/// What was left out, by reason: the last lines of a run.
fn summary(skipped: &[Skipped]) -> String {
    let mut by_reason: BTreeMap<&str, Vec<&Skipped>> = BTreeMap::new();
    for one in skipped {
        by_reason.entry(&one.why).or_default().push(one);
    }
    let mut text = format!("\n{} checks skipped\n", skipped.len());
    for (why, of_reason) in by_reason {
        let _ = writeln!(text, "{}: {why}", of_reason.len());
        for Skipped { test, check, .. } in of_reason {
            let _ = writeln!(text, "    {test} ({check})");
        }
    }
    text
}

/// The file to which test programs append; it is removed with the value.
struct List(PathBuf);

impl List {
    /// Creates an empty file, beside the build's output.
    fn create() -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|why| format!("xtask: {why}"))?;
        let name = format!("skipped-{}", std::process::id());
        let path = program.with_file_name(name);
        File::create(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        Ok(Self(path))
    }

    fn text(&self) -> Result<String, String> {
        fs::read_to_string(&self.0).map_err(|why| format!("{}: {why}", self.0.display()))
    }
}

impl Drop for List {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0); // of no further use
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn skipped(why: &str, test: &str) -> Skipped {
        let check = format!("a check of {test}");
        Skipped { why: why.to_owned(), test: test.to_owned(), check }
    }

    #[test]
    fn what_was_left_out_is_counted_and_named_by_reason() {
        assert_eq!(summary(&[]), "\n0 checks skipped\n");
        let git = "git is not there: apt-get install git";
        let root = "it takes root";
        let all = [skipped(git, "xtask tidy"), skipped(root, "os one"), skipped(root, "os two")];
        let expected = "
3 checks skipped
1: git is not there: apt-get install git
    xtask tidy (a check of xtask tidy)
2: it takes root
    os one (a check of os one)
    os two (a check of os two)
";
        assert_eq!(summary(&all), expected);
    }

    #[test]
    fn failures_are_repeated_without_the_calls() {
        let printed = "running 2 tests
test one ... FAILED
test two ... ok

failures:

---- one stdout ----
thread 'one' (7) panicked at src/lib.rs:9:5:
it is wrong
stack backtrace:
   0: __rustc::rust_begin_unwind
   1: core::panicking::panic_fmt
             at /rustc/library/core/src/panicking.rs:80:14
note: Some details are omitted

failures:
    one

test result: FAILED. 1 passed; 1 failed
";
        let expected = "
---- one stdout ----
thread 'one' (7) panicked at src/lib.rs:9:5:
it is wrong
stack backtrace:
note: Some details are omitted

failures:
    one

test result: FAILED. 1 passed; 1 failed";
        assert_eq!(failures(printed), expected);
        let many: String = (0..=FAILURE_LINES_MAX).map(|at| format!("line {at}\n")).collect();
        assert!(failures(&many).starts_with("[1 lines before]\nline 1\n"));
    }

    #[test]
    fn a_program_that_hangs_is_not_waited_for() {
        let mut hangs = Command::new("sleep").arg("3600").spawn().expect("it is everywhere");
        assert!(!await_end(&mut hangs, Duration::from_millis(50)).expect("it is ours"));
        hangs.kill().expect("it runs");
        assert!(await_end(&mut hangs, LIMIT).expect("it is ours"));
    }

    #[test]
    fn the_workspace_is_tested_unless_packages_are_chosen() {
        let check = |arguments: &str, expected| {
            let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
            assert_eq!(chooses_packages(&arguments), expected, "{arguments:?}");
        };
        check("", false);
        check("--lib -- -p", false);
        check("-p os", true);
        check("-pos", true);
        check("--package=os name", true);
    }
}
