//! The arguments of `ropewalk load`: the options of the `load` crate, which checks their values,
//! and further ones of this command: files to write, the search for the limit, `merge`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use command::help::usual;
use load::options::{CHECKED, Options, REPORTED};

pub(crate) const LOAD_EXAMPLES: &str = "\
Examples:
  ropewalk load http://127.0.0.1:8080/                 64 connections, 10 s
  ropewalk load http://127.0.0.1:8080/ --find-limit p99=50ms";

pub(crate) const LOAD_HELP: &str = "\
Without --rate the run is closed: each of the --connections asks again as soon
as its reply has come, as wrk does. With --rate it is open: sessions start when
they are due, however slow the server is, and times count from when a request
should have been sent. With --log sessions go on after think times: partly
open, as real users behave. docs/load/load.md describes it.

Exit status:
  0  success
  1  errors of the server; or a host has no address, or a file cannot be read or
     written
  2  wrong usage
  3  the run is void: the generator could not keep up, or others used its CPUs;
     or --find-limit knows no limit, or only a bound of it
  4  it was interrupted

Examples:
  ropewalk load http://127.0.0.1:8080/                 64 connections, 10 s
  ropewalk load http://127.0.0.1:8080/ --rate 2000 --arrivals poisson -d 30s
  ropewalk load http://127.0.0.1:8080 --log sessions.log --rate 500..2000@60s
  ropewalk load http://127.0.0.1:8080/ --find-limit p99=50ms
  ropewalk load http://10.0.0.2 --log sessions.log --rate 900 --share 1/3 \\
                --start-at 1790000000 --json part1.json
  ropewalk load merge part1.json part2.json part3.json";

const MERGE_HELP: &str = "\
Exit status:
  0  success
  1  errors of the server, or a file cannot be read or written
  2  wrong usage, or the results do not belong together
  3  a run is void: its generator could not keep up, or others used its CPUs

Examples:
  ropewalk load merge part1.json part2.json part3.json
  ropewalk load merge part*.json --json all.json --spectrum times.txt";

/// The options that most runs need.
const USUAL: &[&str] = &["log", "clients", "rate", "duration", "find_limit", "json"];

/// The common outputs of a merge.
const USUAL_OF_MERGE: &[&str] = &["json", "spectrum", "fairness"];

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(mut_arg("default_think", |option| option.requires("log")))]
#[command(mut_arg("think_max", |option| option.requires("log")))]
#[command(mut_args(usual(USUAL)), disable_help_subcommand = true)]
pub(crate) struct LoadArguments {
    #[command(subcommand)]
    pub(crate) command: Option<LoadCommand>,
    #[command(flatten)]
    pub(crate) run: Options,
    /// Find the highest rate under conditions
    ///
    /// The conditions are such as p99=50ms, or errors=0.1%,p99.9=1s.
    #[arg(long, value_name = "CONDITIONS", help_heading = CHECKED)]
    pub(crate) find_limit: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

#[derive(Subcommand)]
pub(crate) enum LoadCommand {
    /// Merge the JSON results of several generators, exactly
    #[command(after_help = MERGE_HELP, mut_args(usual(USUAL_OF_MERGE)))]
    Merge {
        /// Results written with --json
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
        #[command(flatten)]
        output: OutputArguments,
    },
}

#[derive(Args)]
#[command(next_help_heading = REPORTED)]
pub(crate) struct OutputArguments {
    /// Write all results, for programs
    ///
    /// With the histograms, for `ropewalk load merge` among others.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// HdrHistogram log, version 2, an interval a line
    #[arg(long, value_name = "FILE")]
    pub(crate) interval_log: Option<PathBuf>,
    /// Percentile spectrum, as wrk2 and HdrHistogram print it
    #[arg(long, value_name = "FILE")]
    pub(crate) spectrum: Option<PathBuf>,
    /// Time series as CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) series: Option<PathBuf>,
    /// httperf's own text, for programs that read it
    #[arg(long, value_name = "FILE")]
    pub(crate) httperf: Option<PathBuf>,
    /// Print the fairness table: by file type, class and session length
    #[arg(long)]
    pub(crate) fairness: bool,
    /// No progress and no summary
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
}

impl LoadArguments {
    /// Splits the arguments into the options of the `load` crate, the conditions of a search for
    /// the limit, and the output files.
    pub(crate) fn into_options(self) -> (Options, Option<String>, OutputArguments) {
        let Self { run, find_limit, output, .. } = self;
        (Options { command: command_line(), ..run }, find_limit, output)
    }
}

/// The command line as it was typed, for the report.
fn command_line() -> String {
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| word.to_string_lossy().into_owned());
    words.fold("ropewalk".into(), |line, word| format!("{line} {word}"))
}
