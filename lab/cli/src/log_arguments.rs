//! The arguments of `ropewalk log`, with their help; those that experiments have are in `lab`.
//! `log_command` parses the values.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use command::help::usual;
use lab::workload::{LogOptions, MixOptions};
use workload::model::MODEL_PRESETS;
use workload::session_length;

pub(crate) const LOG_EXAMPLES: &str = "\
Examples:
  ropewalk log import /var/log/nginx/access.log --output users.log
  ropewalk log describe users.log";

pub(crate) const LOG_HELP: &str = "\
A request log has sessions: what one client requests over one connection, with
its pauses. `ropewalk load --log` replays it. The format is httperf's
--wsesslog.

Exit status:
  0  success
  1  it could not be done
  2  wrong usage, or a mistake in a log

Examples:
  ropewalk log generate --preset surge --sessions 1000 --output surge.log
  ropewalk log import /var/log/nginx/access.log --output users.log
  ropewalk log describe users.log";

#[derive(Subcommand)]
pub(crate) enum LogCommand {
    /// Generate sessions of requests of clients for a file set
    #[command(after_help = GENERATE_EXAMPLES, after_long_help = generate_help())]
    Generate(Box<GenerateArguments>),
    /// Write a log that requests every file of a set once, to warm caches
    #[command(after_help = PRIME_HELP)]
    Prime(PrimeArguments),
    /// Describe a log, and how far it is from the distribution it should have
    #[command(after_help = DESCRIBE_EXAMPLES, after_long_help = DESCRIBE_HELP)]
    Describe(DescribeArguments),
    /// Convert an access log to sessions, to replay the traffic of real users
    #[command(after_help = IMPORT_EXAMPLES, after_long_help = IMPORT_HELP)]
    Import(ImportArguments),
}

/// The long help of `generate`: the presets from their tables, then explanations that need more
/// than a line.
fn generate_help() -> String {
    let presets: String = MODEL_PRESETS
        .iter()
        .map(|preset| format!("  {}\n      {}\n", preset.name, preset.about))
        .collect();
    let lengths: String = session_length::PRESETS
        .iter()
        .map(|(name, stands_for, about)| format!("  {name}: {stands_for}\n      {about}\n"))
        .collect();
    format!("{PRESETS}\n\nPresets:\n{presets}\nLengths:\n{lengths}{FORMS}")
}

const GENERATE_EXAMPLES: &str = "\
Examples:
  ropewalk log generate --preset surge --sessions 1000 --output surge.log
  ropewalk log generate --single 51200 --lengths 1 --requests 1000 --output -";

const PRESETS: &str = "Every other option overrides what the preset says.";

const FORMS: &str = "  or 7, 5..15, LENGTHS@WEIGHT,LENGTHS@WEIGHT,
  geometric:P, any distribution

Distributions:
  constant:VALUE, or VALUE alone
  uniform:LOW,HIGH
  exponential:MEAN
  pareto:LOW,ALPHA
  weibull:SHAPE,SCALE
  each with ,max=N for a ceiling

The file is in httperf's --wsesslog format. It begins with the options that
made it and with how far it is from its distribution. The same options and seed
give the same log on every machine.

Exit status:
  0  success
  1  the log could not be written
  2  wrong usage

Examples:
  ropewalk log generate --preset radhakrishnan --sessions 100000 -o sessions.log
  ropewalk log generate --single 51200 --lengths 1 --requests 1000 --output -
  ropewalk log generate --preset surge --lengths geometric:0.1 -o surge.log";

const PRIME_HELP: &str = "\
Exit status:
  0  success
  1  the log could not be written
  2  wrong usage

Examples:
  ropewalk log prime --directories 680 --output prime.log";

const DESCRIBE_EXAMPLES: &str = "\
Examples:
  ropewalk log describe sessions.log
  ropewalk log describe access.sessions.log --json";

const DESCRIBE_HELP: &str = "\
The distribution to compare with is the one that --directories, --alpha and
--classes name, else the one that the head of the file names, else SPECweb99's
over the directories that occur.

Exit status:
  0  success
  1  the log could not be read, or the description not printed
  2  wrong usage, or a mistake in the log

Examples:
  ropewalk log describe sessions.log
  ropewalk log describe access.sessions.log --json";

const IMPORT_EXAMPLES: &str = "\
Examples:
  ropewalk log import /var/log/nginx/access.log --output users.log";

const IMPORT_HELP: &str = "\
Read are the common and combined formats (Apache, nginx, Ropewalk) and JSON
lines (Ropewalk, Caddy, nginx). A session is what one client, by address and
user agent, asks for without a longer silence. The pause after a request lasts
until the client's next one. Only GET and HEAD are replayed; what was left out
is counted by reason.

Exit status:
  0  success
  1  the access log could not be read, or the log not written
  2  wrong usage, or nothing to replay in the access log

Examples:
  ropewalk log import /var/log/nginx/access.log --output users.log
  ropewalk log import access.json --session-gap 10m --think-max 60s -o users.log";

/// The options that most generated logs need.
const USUAL_OF_GENERATE: &[&str] =
    &["preset", "directories", "single", "lengths", "think", "sessions", "requests", "output"];

#[derive(Args)]
#[command(mut_args(usual(USUAL_OF_GENERATE)))]
pub(crate) struct GenerateArguments {
    #[command(flatten)]
    pub(crate) options: LogOptions,
    /// Where to write it; - is standard output
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: PathBuf,
}

#[derive(Args)]
pub(crate) struct PrimeArguments {
    /// Directories of the SPECweb99 file set
    #[arg(long, value_name = "N", required_unless_present = "single")]
    pub(crate) directories: Option<String>,
    /// The file sizeBYTES instead of directories
    #[arg(long, value_name = "BYTES", conflicts_with = "directories")]
    pub(crate) single: Option<String>,
    /// The path at which the file set is served
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub(crate) prefix: String,
    /// Where to write it; - is standard output
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: PathBuf,
}

#[derive(Args)]
pub(crate) struct DescribeArguments {
    /// The log, in httperf's --wsesslog format; - is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) mix: MixOptions,
    /// Print JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ImportArguments {
    /// The access log; - is standard input
    #[arg(value_name = "ACCESS_LOG")]
    pub(crate) file: PathBuf,
    /// Its format: common, combined, json, or auto, the format of its first valid line
    #[arg(long, value_name = "FORM", default_value = "auto")]
    pub(crate) format: String,
    /// A client that is silent for longer begins a new session
    #[arg(long, value_name = "DURATION", default_value = "30m")]
    pub(crate) session_gap: String,
    /// Longer pauses within a session are shortened to this
    #[arg(long, value_name = "DURATION")]
    pub(crate) think_max: Option<String>,
    /// Images, scripts and styles within a second after a page are one burst with it
    #[arg(long)]
    pub(crate) bursts: bool,
    /// Leave out requests that were not answered with 2xx or 304
    #[arg(long)]
    pub(crate) good_only: bool,
    /// Where to write it; - is standard output
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: PathBuf,
}
