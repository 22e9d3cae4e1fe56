//! The arguments of `ropewalk log`, with their help. `log_command` parses the values.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use command::help::usual;
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
  1  the description could not be printed
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
  1  the log could not be written
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
    /// The model to start from
    #[arg(long, value_name = "NAME", default_value = "geneves")]
    pub(crate) preset: String,
    #[command(flatten)]
    pub(crate) mix: MixArguments,
    /// Deal classes from shuffled decks of 1,000 with their exact shares, as SPECweb99 does
    #[arg(long, conflicts_with = "single")]
    pub(crate) deck: bool,
    /// Request one file only, sizeBYTES
    #[arg(long, value_name = "BYTES", conflicts_with_all = ["directories", "alpha", "classes"])]
    pub(crate) single: Option<String>,
    /// Requests of a session
    #[arg(long, value_name = "LENGTHS")]
    pub(crate) lengths: Option<String>,
    /// Seconds between one page and the next (inactive off-time)
    #[arg(long, value_name = "DISTRIBUTION")]
    pub(crate) think: Option<String>,
    /// Seconds between a page and its embedded objects (active off-time)
    #[arg(long, value_name = "DISTRIBUTION")]
    pub(crate) active_think: Option<String>,
    /// Embedded objects of a page, requested in one burst; none: every page is one file
    #[arg(long, value_name = "DISTRIBUTION")]
    pub(crate) pages: Option<String>,
    /// The path at which the file set is served
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub(crate) prefix: String,
    /// This many sessions
    #[arg(long, value_name = "N", conflicts_with_all = ["requests", "within"])]
    pub(crate) sessions: Option<String>,
    /// This many requests
    #[arg(long, value_name = "N", conflicts_with = "within")]
    pub(crate) requests: Option<String>,
    /// Until classes, files and popular directories are this close to their shares [default: 0.1]
    #[arg(long, value_name = "PART")]
    pub(crate) within: Option<String>,
    /// Another seed gives another log of the same model
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: String,
    /// Where to write it; - is standard output
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: PathBuf,
}

#[derive(Args)]
pub(crate) struct MixArguments {
    /// Directories of the SPECweb99 file set
    #[arg(long, value_name = "N")]
    pub(crate) directories: Option<String>,
    /// Exponent of Zipf's law over the directories: 1 is SPECweb99's, 0 is uniform
    #[arg(long, value_name = "X")]
    pub(crate) alpha: Option<String>,
    /// Shares of the four classes: 0.35,0.5,0.14,0.01 is SPECweb99's
    #[arg(long, value_name = "A,B,C,D")]
    pub(crate) classes: Option<String>,
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
    pub(crate) mix: MixArguments,
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
