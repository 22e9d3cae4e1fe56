//! Steps of `cargo xtask ci` and `cargo xtask package`: command lines that a person can repeat by
//! hand, and what came of them.

use std::process::Stdio;

use crate::Failure;
use crate::tools::{self, Tool};

/// When a step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    /// With `--long`, instead of the step's short form.
    Long,
    /// Without `--long` only.
    Short,
}

/// One check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) when: When,
    /// The words of a command, separated by single spaces.
    pub(crate) command: &'static str,
    /// Variables set for the command.
    pub(crate) environment: &'static [(&'static str, &'static str)],
    pub(crate) needs: &'static [Tool],
}

pub(crate) const fn step(
    name: &'static str,
    when: When,
    command: &'static str,
    needs: &'static [Tool],
) -> Step {
    Step { name, when, command, environment: &[], needs }
}

/// The outcome of a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Skipped(Tool),
    Failed(String),
}

/// The outcomes up to the first failure. `command`: what the lines on the way begin with.
pub(crate) fn run_until_failure<'s>(
    command: &str,
    steps: impl Iterator<Item = &'s Step>,
    run: impl Fn(&Step) -> Outcome,
) -> Vec<(&'s Step, Outcome)> {
    let mut outcomes = Vec::new();
    for step in steps {
        println!("\n{command}: {}: {}", step.name, step.command_line());
        let start_us = os::clock::now();
        let outcome = run(step);
        println!("{command}: {}", outcome.line(step, os::clock::now() - start_us));
        let failed = matches!(outcome, Outcome::Failed(_));
        outcomes.push((step, outcome));
        if failed {
            break;
        }
    }
    outcomes
}

/// Prints what was skipped, the failures and the counts, which are the last line of a run that
/// passed.
pub(crate) fn report(outcomes: &[(&Step, Outcome)]) -> Result<(), Failure> {
    println!();
    for (step, outcome) in outcomes {
        if let Outcome::Skipped(tool) = outcome {
            println!("skipped {}: {}", step.name, tool.is_missing());
        }
    }
    conclude(outcomes)
}

/// Prints the failures and the counts.
pub(crate) fn conclude(outcomes: &[(&Step, Outcome)]) -> Result<(), Failure> {
    for (step, outcome) in outcomes {
        if let Outcome::Failed(why) = outcome {
            println!("FAILED at {}: {why}", step.name);
        }
    }
    let count = |wanted: fn(&Outcome) -> bool| outcomes.iter().filter(|(_, o)| wanted(o)).count();
    let passed = count(|outcome| matches!(outcome, Outcome::Passed));
    let failed = count(|outcome| matches!(outcome, Outcome::Failed(_)));
    let skipped = count(|outcome| matches!(outcome, Outcome::Skipped(_)));
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 { Ok(()) } else { Err(Failure::Printed) }
}

impl Step {
    /// Whether the step belongs to a run of this length.
    pub(crate) fn is_due(&self, long: bool) -> bool {
        match self.when {
            When::Always => true,
            When::Long => long,
            When::Short => !long,
        }
    }

    /// The command as a person would type it.
    pub(crate) fn command_line(&self) -> String {
        let variables = self.environment.iter().map(|(name, value)| format!("{name}=\"{value}\" "));
        variables.chain([self.command.to_owned()]).collect()
    }

    /// Runs the command with no input; `strict` forbids skipping for lack of what CI provides.
    pub(crate) fn run(&self, strict: bool) -> Outcome {
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
    use crate::tools::{CARGO_FUZZ, MIRI, Probe};

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
        let outcomes = run_until_failure("test", steps.iter(), run);
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
}
