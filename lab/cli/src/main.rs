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
mod verdict;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use command::generated::{Generated, completions_of};
use command::programs::LAB;
use command::{Failure, exit_code, exit_code_of_parser, notify};

use compare_command::{COMPARE_EXAMPLES, COMPARE_HELP, CompareArguments};
use fileset_arguments::{FILESET_EXAMPLES, FILESET_HELP, FilesetArguments};
use load_arguments::{LOAD_EXAMPLES, LOAD_HELP, LoadArguments};
use log_arguments::{LOG_EXAMPLES, LOG_HELP, LogCommand};
use membench_command::{MEMBENCH_EXAMPLES, MEMBENCH_HELP, MembenchArguments};
use report_command::{REPORT_EXAMPLES, REPORT_HELP, ReportArguments};
use servers_command::{SERVERS_EXAMPLES, SERVERS_HELP, ServersArguments};
use study_command::{STUDY_EXAMPLES, STUDY_HELP, StudyArguments};
use tune_command::{TUNE_EXAMPLES, TUNE_HELP, TuneArguments};

/// Load, comparisons, tunings, studies and reports, for any web server.
///
/// `ropewalk` passes these commands on to this program, except for `doctor` and `completions`,
/// which both have.
#[derive(Parser)]
#[command(
    name = "ropewalk-lab",
    bin_name = "ropewalk",
    override_usage = "ropewalk-lab <COMMAND>",
    version,
    arg_required_else_help = true,
    after_help = EXAMPLES,
    after_long_help = HELP
)]
#[command(mut_subcommand("completions", |it| completions_of(it, &LAB)))]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  ropewalk compare ropewalk nginx";

const HELP: &str = "\
Exit status:
  0  success
  1  it could not be done
  2  wrong usage
  3  not decided, or void
  4  interrupted; it can be resumed where the command has --resume

Files:
  /var/tmp/ropewalk-UID  file sets and logs, which are used again

Files of packages, below /usr or where an archive was unpacked:
  share/doc/ropewalk-lab  the pages of docs/lab and docs/load, which help names
  share/ropewalk-lab      experiments

Examples:
  ropewalk load http://127.0.0.1:8080/ --rate 2000
  ropewalk compare ropewalk nginx
  ropewalk study experiments/ourselves-servers.toml
  ropewalk report ourselves-servers";

const DOCTOR_HELP: &str = "\
Exit status:
  0  the checks were made, whatever they found
  1  they could not be printed
  2  wrong usage

Examples:
  ropewalk-lab doctor
  ropewalk-lab doctor /srv/www --json";

#[derive(Subcommand)]
enum Command {
    /// Drive a web server and report how it performed
    #[command(after_help = LOAD_EXAMPLES, after_long_help = LOAD_HELP)]
    #[command(arg_required_else_help = true)]
    Load(Box<LoadArguments>),
    /// Write, check or repair the files that load is generated for
    #[command(after_help = FILESET_EXAMPLES, after_long_help = FILESET_HELP)]
    #[command(arg_required_else_help = true)]
    Fileset(FilesetArguments),
    /// Generate, describe and import request logs: what clients ask for
    #[command(subcommand, after_help = LOG_EXAMPLES, after_long_help = LOG_HELP)]
    Log(LogCommand),
    /// Say which of two servers is better for a workload
    ///
    /// The workload is one of the literature, or your own traffic: an access log and the directory
    /// that was served.
    #[command(after_help = COMPARE_EXAMPLES, after_long_help = COMPARE_HELP)]
    #[command(arg_required_else_help = true)]
    Compare(Box<CompareArguments>),
    /// Find the configuration of a server that sustains the most
    #[command(after_help = TUNE_EXAMPLES, after_long_help = TUNE_HELP)]
    #[command(arg_required_else_help = true)]
    Tune(Box<TuneArguments>),
    /// Run an experiment: servers under workloads in testbeds
    ///
    /// All are measured in a randomised order, and nothing that was measured is lost, whatever ends
    /// the study.
    #[command(after_help = STUDY_EXAMPLES, after_long_help = STUDY_HELP)]
    #[command(arg_required_else_help = true)]
    Study(Box<StudyArguments>),
    /// Make a page of what a study, tuning or comparison has measured
    #[command(after_help = REPORT_EXAMPLES, after_long_help = REPORT_HELP)]
    Report(ReportArguments),
    /// List the servers that can be compared, and how to install others
    #[command(after_help = SERVERS_EXAMPLES, after_long_help = SERVERS_HELP, alias = "peers")]
    Servers(ServersArguments),
    /// Measure the bandwidth of memory, the ceiling of every server
    ///
    /// Reading, writing and copying by 1, 2, 4, … cores.
    #[command(after_help = MEMBENCH_EXAMPLES, after_long_help = MEMBENCH_HELP)]
    Membench(MembenchArguments),
    /// Check this machine's settings as a testbed
    ///
    /// Each finding has its cost and the fix. docs/serve/doctor.md lists all checks.
    #[command(override_usage = "ropewalk-lab doctor [OPTIONS] [DIR]", after_help = DOCTOR_HELP)]
    Doctor {
        /// The directory that would be served: its file system matters
        #[arg(value_name = "DIR", default_value = ".")]
        directory: PathBuf,
        /// Print JSON: all findings, and how many of which kind
        #[arg(long)]
        json: bool,
    },
    #[command(flatten)]
    Generated(Generated),
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
        Command::Generated(generated) => generated.execute(CommandLine::command(), &LAB),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ropewalk` passes on all of them but those that it has itself.
    #[test]
    fn the_commands_are_those_that_are_passed_on() {
        let line = CommandLine::command();
        let own = line.get_subcommands().map(|it| {
            (it.get_name().to_owned(), it.get_about().map(ToString::to_string).unwrap_or_default())
        });
        let both_have = ["doctor", "completions", "man"];
        let own: Vec<_> = own.filter(|(name, _)| !both_have.contains(&name.as_str())).collect();
        let listed =
            LAB.commands.iter().map(|(name, about)| ((*name).to_owned(), (*about).to_owned()));
        assert_eq!(own, listed.collect::<Vec<_>>());
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
