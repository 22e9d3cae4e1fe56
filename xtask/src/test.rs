//! `cargo xtask test`: all tests, and at the end what was left out on this machine, with what
//! brings it.
//!
//! The tests are many programs, each of which knows only what it has left out itself; they write
//! it to one file ([`testkit::SKIPPED`]). Cargo does all the rest.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use testkit::Skipped;

use crate::tools;

const HELP: &str = "\
cargo xtask test [ARGUMENTS]

Runs `cargo test --workspace --no-fail-fast ARGUMENTS`, without --workspace where ARGUMENTS choose
packages (-p), and says at the end which checks were left out, and why.
";

/// What follows the number in the line that begins the list of what was left out.
pub(crate) const COUNTED: &str = " checks skipped";

/// Runs the tests; the error is empty, because Cargo has said what failed.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    if arguments.first().is_some_and(|first| first == "--help") {
        print!("{HELP}");
        return Ok(());
    }
    let list = List::create()?;
    let status = cargo_test(arguments, &list.0)?;
    let skipped = Skipped::read(&list.text()?);
    print!("{}", summary(&skipped));
    if status.success() { Ok(()) } else { Err(String::new()) }
}

fn cargo_test(arguments: &[String], list: &Path) -> Result<ExitStatus, String> {
    let mut command = tools::command("cargo test --no-fail-fast");
    if !chooses_packages(arguments) {
        command.arg("--workspace");
    }
    command.args(arguments).env(testkit::SKIPPED, list);
    command.status().map_err(|why| format!("cargo: {why}"))
}

/// Whether Cargo is told of which packages the tests are.
fn chooses_packages(arguments: &[String]) -> bool {
    let own = arguments.iter().take_while(|argument| *argument != "--");
    own.into_iter().any(|argument| argument.starts_with("-p") || argument.starts_with("--package"))
}

/// What was left out, by the reasons: the last lines of a run.
fn summary(skipped: &[Skipped]) -> String {
    let mut by_reason: BTreeMap<&str, Vec<&Skipped>> = BTreeMap::new();
    for one in skipped {
        by_reason.entry(&one.why).or_default().push(one);
    }
    let mut text = format!("\n{}{COUNTED}\n", skipped.len());
    for (why, of_reason) in by_reason {
        let _ = writeln!(text, "{}: {why}", of_reason.len());
        for Skipped { test, check, .. } in of_reason {
            let _ = writeln!(text, "    {test} ({check})");
        }
    }
    text
}

/// The file to which test programs add; it is removed with the value.
struct List(PathBuf);

impl List {
    /// An empty one, beside what is built.
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
        let _ = fs::remove_file(&self.0); // of no use to anybody
    }
}

#[cfg(test)]
mod tests {
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
