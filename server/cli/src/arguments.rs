//! What can be typed, with its help. Values are checked where the configuration is: a flag and the
//! key it stands for must not differ in what they allow.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use command::programs::OTHERS;
use server::config::Arguments;

/// A web server for static files.
///
/// Ropewalk serves a directory over HTTP/1.1. How it shares the work among CPUs is a choice: its
/// engines are the concurrency architectures of the literature, behind one protocol.
#[derive(Parser)]
#[command(name = "ropewalk", version, after_help = after_help(), arg_required_else_help = true)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  ropewalk serve examples/site                       on http://127.0.0.1:8080
  ropewalk serve public --listen :80 --log combined  on every address of this machine
  ropewalk serve --config /etc/ropewalk/ropewalk.toml
  ropewalk check --config ropewalk.toml              is it right, and what does it mean?";

fn after_help() -> String {
    let others: Vec<String> = OTHERS.iter().map(|program| program.help()).collect();
    format!("{}\n{EXAMPLES}", others.join("\n"))
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Serve a directory until SIGTERM or Ctrl-C
    #[command(after_help = SERVE_EXAMPLES)]
    Serve {
        #[command(flatten)]
        arguments: Arguments,
        /// Say at the start why this engine was chosen, and which settings of the machine changed
        #[arg(short, long)]
        verbose: bool,
    },
    /// What a server starts as a worker process; not for people
    #[command(hide = true)]
    Worker {
        #[arg(allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Print the effective configuration, each key with its origin, or say what is wrong with it
    Check(Arguments),
    /// List the engines and their knobs
    Engines {
        /// For programs: an array of objects
        #[arg(long)]
        json: bool,
    },
    /// Say what this machine lacks for serving, what it costs and what mends it
    ///
    /// Status 1 if anything is wrong. docs/serve/doctor.md lists all checks. What measurements need
    /// is checked by `ropewalk-lab doctor`.
    Doctor {
        /// The directory that would be served: its file system matters
        #[arg(value_name = "DIR", default_value = ".")]
        directory: PathBuf,
        /// For programs: all findings, and how many of which kind
        #[arg(long)]
        json: bool,
    },
}

impl Command {
    /// Whether the process becomes a server, which reports in its own way.
    pub(crate) fn is_server(&self) -> bool {
        matches!(self, Self::Serve { .. } | Self::Worker { .. })
    }
}

const SERVE_EXAMPLES: &str = "\
SIGTERM, SIGQUIT and Ctrl-C let responses finish; a second one cuts them off. SIGUSR1 reopens the
access log.

Examples:
  ropewalk serve public --port 3000 --listing
  ropewalk serve public --listen 8081 --listen '[::1]:8081'
  ropewalk serve public --engine event-loop --partitions '0-3;4-7'
  ropewalk serve public --set cache.revalidate_ms=never --set host.html_suffix=true";
