//! The command of the simulator: records, describes and simulates memory traces. What the commands
//! do is in the crates `tracer`, `memory-trace` and `coherence`.

mod simulate_command;
mod system_calls;
mod trace_command;

use std::env;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use command::generated::{Generated, completions_of};
use command::programs::SIMULATOR;
use command::{Failure, exit_code, exit_code_of_parser, notify};

use simulate_command::{SIMULATE_EXAMPLES, SIMULATE_HELP, SimulateArguments};
use trace_command::{TRACE_EXAMPLES, TRACE_HELP, TraceCommand};

/// Memory traces of server processes, on a simulated shared-bus multiprocessor.
///
/// `ropewalk` passes these commands on to this program, except for `completions`, which both have.
#[derive(Parser)]
#[command(
    name = "ropewalk-sim",
    bin_name = "ropewalk",
    override_usage = "ropewalk-sim <COMMAND>",
    version,
    arg_required_else_help = true,
    after_help = EXAMPLES,
    after_long_help = HELP
)]
#[command(mut_subcommand("completions", |it| completions_of(it, &SIMULATOR)))]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  ropewalk trace record --out ls.trace -- ls -aR /usr/share
  ropewalk simulate ls.trace --cpus 1..16";

const HELP: &str = "\
Exit status:
  0  success
  1  it could not be done
  2  wrong usage

Files of packages, below /usr or where an archive was unpacked:
  share/doc/ropewalk-sim  the pages of docs/simulator, which help names
  share/ropewalk-sim      experiments: machines, simulations, traces

Examples:
  ropewalk trace record --out ls.trace -- ls -aR /usr/share
  ropewalk trace info ls.trace
  ropewalk simulate ls.trace --cpus 1..16";

#[derive(Subcommand)]
enum Command {
    /// Simulate how a trace scales on a shared-memory multiprocessor
    #[command(after_help = SIMULATE_EXAMPLES, after_long_help = SIMULATE_HELP)]
    #[command(arg_required_else_help = true)]
    Simulate(Box<SimulateArguments>),
    /// Record, import and describe memory traces
    #[command(subcommand, after_help = TRACE_EXAMPLES, after_long_help = TRACE_HELP)]
    Trace(TraceCommand),
    #[command(flatten)]
    Generated(Generated),
}

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    match CommandLine::try_parse() {
        Ok(line) => exit_code(execute(line.command), notify),
        Err(error) => exit_code_of_parser(&error, &CommandLine::command(), &arguments),
    }
}

fn execute(command: Command) -> Result<(), Failure> {
    match command {
        Command::Simulate(arguments) => simulate_command::execute(&arguments),
        Command::Trace(command) => trace_command::execute(command),
        Command::Generated(generated) => generated.execute(CommandLine::command(), &SIMULATOR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ropewalk` passes on all of them but those that it has itself, and describes them so.
    #[test]
    fn the_commands_are_those_that_are_passed_on() {
        let line = CommandLine::command();
        let own = line.get_subcommands().map(|it| {
            (it.get_name().to_owned(), it.get_about().map(ToString::to_string).unwrap_or_default())
        });
        let listed = SIMULATOR
            .commands
            .iter()
            .map(|(name, about)| ((*name).to_owned(), (*about).to_owned()));
        let both_have = ["completions", "man"];
        let own = own.filter(|(name, _)| !both_have.contains(&name.as_str()));
        assert_eq!(own.collect::<Vec<_>>(), listed.collect::<Vec<_>>());
    }

    #[test]
    fn help_fits_a_screen_or_has_everything() {
        assert_eq!(command::help::faults(CommandLine::command()), Vec::<String>::new());
    }

    #[test]
    fn mistakes_in_values_are_told_in_our_words() {
        assert_eq!(command::faults_of_values(CommandLine::command()), Vec::<String>::new());
    }
}
