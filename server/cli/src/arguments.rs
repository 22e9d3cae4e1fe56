//! What can be typed, with its help. Values are checked where the configuration is: a flag and the
//! key it stands for must not differ in what they allow.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, Parser, Subcommand};
use command::generated::{Generated, completions_of};
use command::help::usual;
use command::programs::{OTHERS, Program, SERVER};
use engines::ENGINES;
use server::config::{AUTO, Arguments};

/// A web server for static files and applications.
///
/// Ropewalk serves a directory over HTTP/1.1. How it shares the work among CPUs is a choice: its
/// engines are the concurrency architectures of the literature, behind one protocol.
#[derive(Parser)]
#[command(name = "ropewalk", version, arg_required_else_help = true)]
#[command(after_help = short_help(), after_long_help = long_help())]
#[command(mut_subcommand("completions", |it| completions_of(it, &SERVER)))]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const SHORT_EXAMPLES: &str = "\
Example:
  ropewalk serve public  on http://127.0.0.1:8080";

const STATUS_AND_EXAMPLES: &str = "\
Exit status:
  0  success
  1  it could not be done
  2  wrong usage, or a mistake in the configuration

Files of packages, below /usr or where an archive was unpacked:
  share/doc/ropewalk  the pages of docs/serve, which help names

Examples:
  ropewalk serve examples/site                       on http://127.0.0.1:8080
  ropewalk serve public --listen :80 --log combined  on every address
  ropewalk serve --config /etc/ropewalk/ropewalk.toml
  ropewalk check --config ropewalk.toml              checks the file";

/// The names of the commands of other programs, and examples.
fn short_help() -> String {
    let names = |program: &Program| {
        let names: Vec<&str> = program.commands.iter().map(|(name, _)| *name).collect();
        format!("  {}: {}\n", program.name, names.join(", "))
    };
    let others: String = OTHERS.iter().map(|program| names(program)).collect();
    format!("Commands of other programs (--help describes them):\n{others}\n{SHORT_EXAMPLES}")
}

/// The commands of other programs, exit statuses and examples.
fn long_help() -> String {
    let others: Vec<String> = OTHERS.iter().map(|program| program.help()).collect();
    format!("{}\n{STATUS_AND_EXAMPLES}", others.join("\n"))
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Serve a directory until SIGTERM or Ctrl-C
    #[command(after_help = SERVE_EXAMPLES, after_long_help = SERVE_HELP)]
    #[command(mut_args(usual(SERVE_USUAL)), mut_args(shortened))]
    Serve {
        #[command(flatten)]
        arguments: Arguments,
        /// Say why this engine was chosen
        ///
        /// And which settings of the machine were changed, in lines at the start.
        #[arg(short, long)]
        verbose: bool,
    },
    /// Run as a worker process (internal: started by the server)
    #[command(hide = true)]
    Worker {
        #[arg(allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Check the configuration, and print the effective one
    ///
    /// Takes what `serve` takes, and serves nothing. Each key is printed with its origin: a line of
    /// the file, a flag, or the default.
    #[command(after_help = CHECK_EXAMPLES, after_long_help = CHECK_HELP)]
    #[command(mut_args(usual(SERVE_USUAL)), mut_args(shortened))]
    Check(Arguments),
    /// Ask a server that runs for its status, or to change
    ///
    /// A change is made while it serves: connections go on, but with engines whose connections do
    /// not move each ends with its next response. The command ends when the change is made, or was
    /// refused: then nothing has changed.
    #[command(after_help = CTL_EXAMPLES, after_long_help = CTL_HELP)]
    Ctl(Ctl),
    /// List the engines and their knobs
    ///
    /// An engine is a way to share the work among CPUs; a knob is a setting of one.
    #[command(after_help = ENGINES_HELP)]
    Engines {
        /// Print JSON: an array of objects
        #[arg(long)]
        json: bool,
    },
    /// Check this machine's settings for serving
    ///
    /// Each finding has its cost and the fix; docs/serve/doctor.md lists all checks. What
    /// measurements need is checked by `ropewalk-lab doctor`.
    #[command(after_help = DOCTOR_HELP)]
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

/// What is asked, and of which server.
#[derive(Args)]
pub(crate) struct Ctl {
    /// The control socket of the server; without it that of the only server of this user
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    pub(crate) socket: Option<PathBuf>,
    /// The process of the server, where several run
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<String>,
    #[command(subcommand)]
    pub(crate) request: Request,
}

#[derive(Subcommand)]
pub(crate) enum Request {
    /// What it serves, where and how, and its counts
    #[command(after_long_help = STATUS_HELP)]
    Status,
    /// Read the configuration again, and serve by it
    ///
    /// What was changed by `change` is changed back.
    #[command(after_long_help = RELOAD_HELP)]
    Reload,
    /// Serve with other settings until the next reload
    #[command(after_long_help = CHANGE_HELP)]
    Change {
        /// Keys of the configuration: engine.name=fibers
        #[arg(value_name = "KEY=VALUE", required = true)]
        settings: Vec<String>,
    },
    /// Start the program's file again, which serves in its place
    ///
    /// The new process reads the configuration, takes the listening sockets, and gets the
    /// connections as they come to rest.
    #[command(after_long_help = UPGRADE_HELP)]
    Upgrade,
    /// Finish what is under way, and end: as SIGTERM
    #[command(after_long_help = DRAIN_HELP)]
    Drain,
}

const CTL_EXAMPLES: &str = "\
Examples:
  ropewalk ctl reload
  ropewalk ctl change engine.name=fibers";

const STATUS_HELP: &str = "\
Exit status:
  0  success
  1  no server answers
  2  wrong usage

Examples:
  ropewalk ctl status
  ropewalk ctl --pid 4711 status";

const RELOAD_HELP: &str = "\
Exit status:
  0  it serves by what it has read
  1  it could not be done, or no server answers
  2  a mistake in the configuration: nothing has changed

Examples:
  ropewalk ctl reload";

const CHANGE_HELP: &str = "\
Exit status:
  0  it serves with these settings
  1  it could not be done, or no server answers
  2  wrong usage, or a mistake in the settings: nothing has changed

Examples:
  ropewalk ctl change engine.name=fibers engine.knobs.stack_kib=64";

const UPGRADE_HELP: &str = "\
Exit status:
  0  another process serves
  1  it could not be done, or no server answers
  2  a mistake in the configuration: nothing has changed

Examples:
  ropewalk ctl upgrade";

const DRAIN_HELP: &str = "\
Exit status:
  0  it has stopped: all connections have finished, or were cut off
  1  no server answers, or it has failed
  2  wrong usage

Examples:
  ropewalk ctl drain";

const CTL_HELP: &str = "\
Exit status:
  0  it is done
  1  it could not be done, or no server answers
  2  wrong usage, or a mistake in the configuration: nothing has changed

Examples:
  ropewalk ctl status
  ropewalk ctl reload
  ropewalk ctl change engine.name=fibers engine.knobs.stack_kib=64";

impl Command {
    /// Whether the process becomes a server, which reports in its own way.
    pub(crate) fn is_server(&self) -> bool {
        matches!(self, Self::Serve { .. } | Self::Worker { .. })
    }
}

/// The common options of `serve` and `check`; the others are in the long help.
const SERVE_USUAL: &[&str] =
    &["listen", "port", "listing", "spa", "config", "engine", "log", "set", "verbose"];

/// An option of `serve` with a line for the short help.
fn shortened(option: Arg) -> Arg {
    match option.get_id().as_str() {
        "listen" => {
            let long = option.get_help().cloned().unwrap_or_default();
            let short = "An address: 8080 (this machine), :8080 (everywhere)";
            option.help(short).long_help(long)
        }
        "set" => option.value_name("KEY=VALUE"),
        _ => option,
    }
}

/// The command line with the names of the engines, for shells and man pages. The parser does not
/// check them: the configuration does, in the same way as those in a file.
pub(crate) fn with_names(line: clap::Command) -> clap::Command {
    let names = || ENGINES.iter().map(|engine| engine.name).chain([AUTO]);
    let named = |option: Arg| option.value_parser(PossibleValuesParser::new(names()));
    let named = |command: clap::Command| command.mut_arg("engine", named);
    line.mut_subcommand("serve", named).mut_subcommand("check", named)
}

const SERVE_EXAMPLES: &str = "\
Examples:
  ropewalk serve public --port 3000 --listing
  ropewalk serve public --set cache.revalidate_ms=never";

const SERVE_HELP: &str = "\
Signals:
  SIGTERM, SIGQUIT, Ctrl-C  responses are finished; a second one cuts them off
  SIGUSR1                   the access log is opened again
  SIGUSR2                   the state of the server is printed

Files:
  /etc/ropewalk/ropewalk.toml  the configuration of the installed service
  DIR/404.html                 the page for what does not exist

Exit status:
  0  the server was stopped by a signal
  1  it could not serve
  2  wrong usage, or a mistake in the configuration

Examples:
  ropewalk serve public --port 3000 --listing
  ropewalk serve public --listen 8081 --listen '[::1]:8081'
  ropewalk serve public --engine event-loop --partitions '0-3;4-7'
  ropewalk serve public --set cache.revalidate_ms=never --log json
  ropewalk serve --config /etc/ropewalk/ropewalk.toml";

const CHECK_EXAMPLES: &str = "\
Examples:
  ropewalk check --config ropewalk.toml
  ropewalk check public --engine fibers";

const CHECK_HELP: &str = "\
Exit status:
  0  the configuration is right
  1  it could not be printed
  2  wrong usage, or a mistake in the configuration

Examples:
  ropewalk check --config ropewalk.toml
  ropewalk check public --engine fibers > effective.toml";

const ENGINES_HELP: &str = "\
Exit status:
  0  success
  1  the list could not be printed
  2  wrong usage

Examples:
  ropewalk engines
  ropewalk serve public --engine fibers --set engine.knobs.stack_kib=32";

const DOCTOR_HELP: &str = "\
Exit status:
  0  the checks were made, whatever they found
  1  they could not be printed
  2  wrong usage

Examples:
  ropewalk doctor /srv/www
  ropewalk doctor /srv/www --json";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn help_fits_a_screen_or_has_everything() {
        assert_eq!(command::help::faults(CommandLine::command()), Vec::<String>::new());
    }

    #[test]
    fn mistakes_in_values_are_told_in_our_words() {
        assert_eq!(command::faults_of_values(CommandLine::command()), Vec::<String>::new());
    }
}
