//! The command of the simulator: records, describes and simulates memory traces. What the commands
//! do is in the crates `tracer`, `memory-trace` and `coherence`.

mod simulate_command;
mod system_calls;
mod trace_command;

use std::env;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use command::{Failure, exit_code, exit_code_of_parser, notify};

use simulate_command::{SIMULATE_HELP, SimulateArguments};
use trace_command::TraceCommand;

/// Memory traces of server processes, on a simulated shared-bus multiprocessor.
///
/// `ropewalk` passes these commands on to this program.
#[derive(Parser)]
#[command(
    name = "ropewalk-sim",
    bin_name = "ropewalk",
    override_usage = "ropewalk-sim <COMMAND>",
    version,
    arg_required_else_help = true
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Simulate how a trace scales on a shared-memory multiprocessor
    #[command(after_help = SIMULATE_HELP, arg_required_else_help = true)]
    Simulate(Box<SimulateArguments>),
    /// Record, import and describe memory traces
    #[command(subcommand)]
    Trace(TraceCommand),
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use command::programs::SIMULATOR;

    /// `ropewalk` passes on exactly these, and describes them so.
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
        assert_eq!(own.collect::<Vec<_>>(), listed.collect::<Vec<_>>());
    }
}
