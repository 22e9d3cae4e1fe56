//! The commands that both the CI script and people run: `cargo xtask COMMAND`.
//!
//! This is not part of the server: nothing here is shipped.

mod bench;
mod ci;
mod flaky;
mod fuzz;
mod package;
mod programs;
mod size;
mod steps;
mod test;
mod tidy;
mod tools;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  ci      run every check of the project: the one command before a push
  test    run all tests; list at the end what this machine lacks for some
  fresh   run the README's commands on a bare machine (a root made by debootstrap)
  package build the packages, and try them: static programs, .deb, a container image
  tidy    check the house rules: dependencies, layout, forbidden calls
  fuzz    fuzz every target for a while
  flaky   run the test programs again and again beside a load
  size    count the crates that the server is built of, and measure the built program
  bench   measure the recorders of memory traces and the simulator

`cargo xtask COMMAND --help` says more.
";

/// Why a command failed.
#[derive(Debug)]
enum Failure {
    /// The command has printed it.
    Printed,
    /// In words, which are yet to be printed.
    Because(String),
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Because(why)
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Printed) => ExitCode::FAILURE,
        Err(Failure::Because(why)) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the script that knows how to make a machine; what it prints is for people.
fn fresh(rounds: &[String]) -> Result<(), Failure> {
    let status = tools::command(".ci/fresh").args(rounds).status();
    let status = status.map_err(|why| format!(".ci/fresh: {why}"))?;
    if status.success() { Ok(()) } else { Err(Failure::Printed) }
}

fn run(arguments: &[String]) -> Result<(), Failure> {
    let (command, rest) =
        arguments.split_first().map_or(("help", &[][..]), |(first, rest)| (first.as_str(), rest));
    match command {
        "ci" => ci::run(rest),
        "test" => test::run(rest),
        "fresh" => fresh(rest),
        "package" => package::run(rest),
        "tidy" => Ok(tidy::run()?),
        "fuzz" => Ok(fuzz::run(rest)?),
        "flaky" => Ok(flaky::run(rest)?),
        "size" => Ok(size::run()?),
        "bench" => Ok(bench::run(rest)?),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(Failure::Because(format!("no command {other:?}\n\n{HELP}"))),
    }
}
