//! The `ropewalk` command: parses the arguments and calls the command's module.

mod arguments;
mod compare_command;
mod doctor_command;
mod engines_table;
mod fileset_arguments;
mod fileset_command;
mod former_names;
mod lab_options;
mod load_arguments;
mod load_command;
mod log_arguments;
mod log_command;
mod membench_command;
mod progress_line;
mod report_command;
mod servers_command;
mod study_command;
mod tune_command;

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use command::programs::SIMULATOR;
use command::{Failure, exit_code, notify, print};
use server::config::{Arguments, Config, ConfigError};
use server::{Checked, Reported};

use arguments::{Command, CommandLine, Serving, ServingLine};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    if SIMULATOR.is_meant(&arguments) {
        return exit_code(Err(SIMULATOR.replace_this_process(&arguments)), notify);
    }
    match command() {
        Ok(Command::Serving(serving)) => exit_code(execute_serving(serving), server::report),
        Ok(command) => {
            former_names::notices(&arguments).iter().for_each(|notice| notify(notice));
            exit_code(execute(command), notify)
        }
        Err(error) => {
            // Clap reports help and version as errors, with status 0.
            let printed = error.print().is_ok();
            if printed && error.exit_code() == 0 { ExitCode::SUCCESS } else { ExitCode::from(2) }
        }
    }
}

/// Parses the command line.
fn command() -> Result<Command, clap::Error> {
    match env::args_os().nth(1) {
        Some(first) if first == "serve" || first == "worker" => {
            ServingLine::try_parse().map(|line| Command::Serving(line.command))
        }
        _ => CommandLine::try_parse().map(|line| line.command),
    }
}

fn execute(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serving(serving) => execute_serving(serving),
        Command::Check(arguments) => check(&arguments.into()),
        Command::Log(command) => log_command::execute(command),
        Command::Fileset(arguments) => fileset_command::execute(&arguments),
        Command::Load(arguments) => load_command::load(*arguments),
        Command::Compare(arguments) => compare_command::compare(&arguments),
        Command::Study(arguments) => study_command::study(&arguments),
        Command::Tune(arguments) => tune_command::execute(&arguments),
        Command::Engines { json: false } => print(&engines_table::table()),
        Command::Engines { json: true } => print(&engines_table::json()),
        Command::Servers(arguments) => servers_command::execute(&arguments),
        Command::Report(arguments) => report_command::execute(&arguments),
        Command::Membench(arguments) => membench_command::execute(&arguments),
        Command::Doctor { directory, json } => doctor_command::execute(&directory, json),
    }
}

/// A separate function, so that a serving process does not touch the code pages of other commands.
#[inline(never)]
fn execute_serving(serving: Serving) -> Result<(), Failure> {
    match serving {
        Serving::Serve(arguments) => serve(&arguments.into()),
        Serving::Worker { arguments } => server::run_worker(&arguments).map_err(Failure::Usage),
    }
}

fn serve(arguments: &Arguments) -> Result<(), Failure> {
    let config = Config::load(arguments).map_err(usage)?;
    server::check(&config).map_err(usage)?;
    server::run(&config).map_err(|Reported| Failure::Reported(1))
}

fn check(arguments: &Arguments) -> Result<(), Failure> {
    let config = Config::load(arguments).map_err(usage)?;
    let Checked { effective, without_effect } = server::check(&config).map_err(usage)?;
    without_effect.iter().for_each(|line| server::report(line));
    print(&effective)
}

/// The failure for a mistake in the arguments or in the configuration file.
fn usage(error: ConfigError) -> Failure {
    Failure::Usage(error.into())
}
