//! The command of the lab: parses what was typed and hands it on. What the commands do is in the
//! crates `lab`, `load`, `fileset` and `workload`.

mod compare_command;
mod doctor_command;
mod fileset_arguments;
mod fileset_command;
mod former_names;
mod lab_options;
mod load_arguments;
mod load_command;
mod log_arguments;
mod log_command;
mod membench_command;
mod report_command;
mod servers_command;
mod study_command;
mod tune_command;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use command::{Failure, exit_code, exit_code_of_parser, notify};

use compare_command::{COMPARE_HELP, CompareArguments};
use fileset_arguments::{FILESET_HELP, FilesetArguments};
use load_arguments::{LOAD_EXAMPLES, LoadArguments};
use log_arguments::LogCommand;
use membench_command::{MEMBENCH_EXAMPLES, MembenchArguments};
use report_command::{REPORT_EXAMPLES, ReportArguments};
use servers_command::{SERVERS_HELP, ServersArguments};
use study_command::{STUDY_HELP, StudyArguments};
use tune_command::{TUNE_HELP, TuneArguments};

/// Load, comparisons, tunings, studies and reports, for any web server.
///
/// `ropewalk` passes these commands on to this program, except for `doctor`, which both have.
#[derive(Parser)]
#[command(
    name = "ropewalk-lab",
    bin_name = "ropewalk",
    override_usage = "ropewalk-lab <COMMAND>",
    version,
    arg_required_else_help = true
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Drive a web server and report how it performed
    #[command(after_help = LOAD_EXAMPLES, arg_required_else_help = true)]
    Load(Box<LoadArguments>),
    /// Write, check or repair the files that load is generated for
    #[command(after_help = FILESET_HELP, arg_required_else_help = true)]
    Fileset(FilesetArguments),
    /// Generate, describe and import request logs: what clients ask for
    #[command(subcommand)]
    Log(LogCommand),
    /// Say which of two servers is better for a workload, your own traffic for instance
    #[command(after_help = COMPARE_HELP, arg_required_else_help = true)]
    Compare(Box<CompareArguments>),
    /// Find the configuration of a server that sustains the most
    #[command(after_help = TUNE_HELP, arg_required_else_help = true)]
    Tune(Box<TuneArguments>),
    /// Run an experiment: servers, workloads and testbeds, measured in a randomised order
    #[command(after_help = STUDY_HELP, arg_required_else_help = true)]
    Study(Box<StudyArguments>),
    /// Make a page of what a study, a tuning or a comparison has measured
    #[command(after_help = REPORT_EXAMPLES)]
    Report(ReportArguments),
    /// List the servers that can be compared, and how to install those that are not here
    #[command(after_help = SERVERS_HELP, alias = "peers")]
    Servers(ServersArguments),
    /// Measure what memory gives to 1, 2, 4, … cores: the ceiling of every server
    #[command(after_help = MEMBENCH_EXAMPLES)]
    Membench(MembenchArguments),
    /// Say what this machine lacks as a testbed, what it costs and what mends it
    ///
    /// Status 1 if anything is wrong. docs/serve/doctor.md lists all checks.
    #[command(override_usage = "ropewalk-lab doctor [OPTIONS] [DIR]")]
    Doctor {
        /// The directory that would be served: its file system matters
        #[arg(value_name = "DIR", default_value = ".")]
        directory: PathBuf,
        /// For programs: all findings, and how many of which kind
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    match CommandLine::try_parse() {
        Ok(line) => {
            former_names::notices(&arguments).iter().for_each(|notice| notify(notice));
            exit_code(execute(line.command), notify)
        }
        Err(error) => exit_code_of_parser(&error, &CommandLine::command(), &arguments),
    }
}

fn execute(command: Command) -> Result<(), Failure> {
    match command {
        Command::Load(arguments) => load_command::load(*arguments),
        Command::Fileset(arguments) => fileset_command::execute(&arguments),
        Command::Log(command) => log_command::execute(command),
        Command::Compare(arguments) => compare_command::compare(&arguments),
        Command::Tune(arguments) => tune_command::execute(&arguments),
        Command::Study(arguments) => study_command::study(&arguments),
        Command::Report(arguments) => report_command::execute(&arguments),
        Command::Servers(arguments) => servers_command::execute(&arguments),
        Command::Membench(arguments) => membench_command::execute(&arguments),
        Command::Doctor { directory, json } => doctor_command::execute(&directory, json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use command::programs::LAB;

    /// `ropewalk` passes on all of them but the doctor, which it has itself.
    #[test]
    fn the_commands_are_those_that_are_passed_on() {
        let line = CommandLine::command();
        let own = line.get_subcommands().map(|it| {
            (it.get_name().to_owned(), it.get_about().map(ToString::to_string).unwrap_or_default())
        });
        let own: Vec<_> = own.filter(|(name, _)| name != "doctor").collect();
        let listed =
            LAB.commands.iter().map(|(name, about)| ((*name).to_owned(), (*about).to_owned()));
        assert_eq!(own, listed.collect::<Vec<_>>());
    }
}
