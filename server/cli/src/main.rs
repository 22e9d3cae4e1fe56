//! The `ropewalk` command: parses the arguments and calls the command's module.

mod arguments;
mod ctl;
mod doctor_command;
mod engines_table;

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches};
use command::programs::{OTHERS, SERVER};
use command::{Failure, exit_code, exit_code_of_parser, notify, print};
use server::config::{Arguments, Config, ConfigError};
use server::{Checked, Reported};

use arguments::{Command, CommandLine, with_names};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    if let Some(program) = OTHERS.iter().find(|program| program.is_meant(&arguments)) {
        return exit_code(Err(program.replace_this_process(&arguments)), notify);
    }
    let parsed = parser().try_get_matches();
    match parsed.and_then(|matches| CommandLine::from_arg_matches(&matches)) {
        Ok(CommandLine { command }) => {
            let notify = if command.is_server() { server::report } else { notify };
            exit_code(execute(command), notify)
        }
        Err(error) => exit_code_of_parser(&for_directory(error), &parser(), &arguments),
    }
}

/// Suggests to serve a directory that was typed in place of a command.
fn for_directory(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand)
        && Path::new(name).is_dir()
    {
        let meant = format!("ropewalk serve {name}");
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![meant]));
    }
    error
}

/// The parser of the command line. It knows the commands of other programs only for the nearest to
/// a command that does not exist: they are passed on before.
fn parser() -> clap::Command {
    let others = OTHERS.iter().flat_map(|program| program.commands);
    let hidden = others.map(|(name, _)| clap::Command::new(*name).hide(true));
    CommandLine::command().subcommands(hidden)
}

fn execute(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve { arguments, verbose } => serve(&arguments, verbose),
        Command::Worker { arguments } => Ok(server::run_worker(&arguments)?),
        Command::Check(arguments) => check(&arguments),
        Command::Ctl(request) => ctl::execute(&request),
        Command::Engines { json: false } => print(&engines_table::table()),
        Command::Engines { json: true } => print(&engines_table::json()),
        Command::Doctor { directory, json } => doctor_command::execute(&directory, json),
        Command::Generated(generated) => {
            generated.execute(with_names(CommandLine::command()), &SERVER)
        }
    }
}

fn serve(arguments: &Arguments, is_verbose: bool) -> Result<(), Failure> {
    let config = Config::load(arguments).map_err(usage)?;
    server::check(&config).map_err(usage)?;
    let arguments = arguments.clone();
    let load = move |settings: &[String]| {
        let set = arguments.set.iter().chain(settings).cloned().collect();
        let config = Config::load(&Arguments { set, ..arguments.clone() })?;
        server::check(&config).map(|_| config)
    };
    server::run(&config, Arc::new(load), is_verbose).map_err(|Reported| Failure::Reported(1))
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
