//! The command line of `ropewalk study`.

use std::path::PathBuf;

use clap::Args;
use command::Failure;
use command::help::usual;
use command::numbers::whole;
use command::units::parse_duration;

use crate::lab_options::LabOptions;

pub(crate) const STUDY_EXAMPLES: &str = "\
Examples:
  ropewalk study experiments/ourselves-servers.toml
  ropewalk study my.toml --size paper --budget 4h -o results";

pub(crate) const STUDY_HELP: &str = "\
An experiment is a TOML file: servers, workloads, testbeds (CPUs, memory,
network), how much is offered, how often; or parameters of the cache by itself.
docs/lab/study.md describes it. The records go into a folder, a line for each
run as soon as it is made; whatever ends the study, --resume goes on with it.
`ropewalk report DIR` shows them.

Exit status:
  0  all that can be was measured
  1  nothing could be measured, or the records cannot be read or written
  2  wrong usage: also a directory that has records, or with --resume none
  4  the budget is spent or the study was interrupted; it can be resumed

Examples:
  ropewalk study experiments/ourselves-servers.toml
  ropewalk study my.toml --dry-run
  ropewalk study my.toml --repetitions 6        so that its claims are judged
  ropewalk study my.toml --size paper --budget 4h -o results
  ropewalk study my.toml -o results --resume";

/// The options that most studies need.
const USUAL: &[&str] = &["size", "budget", "repetitions", "mat", "output", "resume", "dry_run"];

#[derive(Args)]
#[command(mut_args(usual(USUAL)))]
// Testbeds assign the CPUs: they are refused, and say so.
#[command(mut_arg("server_cpus", |option| option.hide(true)))]
#[command(mut_arg("client_cpus", |option| option.hide(true)))]
pub(crate) struct StudyArguments {
    /// The experiment
    #[arg(value_name = "FILE")]
    pub(super) experiment: PathBuf,
    /// One of the file's sizes, such as paper
    #[arg(long, value_name = "NAME")]
    pub(super) size: Option<String>,
    /// How long it may take; time goes to the points whose intervals are widest
    #[arg(long, value_name = "TIME")]
    budget: Option<String>,
    /// How often each point is measured [default: as the file says]
    #[arg(long, value_name = "N", value_parser = whole(1..=u32::MAX))]
    pub(super) repetitions: Option<u32>,
    /// Search for each server's highest rate, instead of the file's rates
    #[arg(long)]
    pub(super) mat: bool,
    /// Where the records go [default: the experiment's name, in the current directory]
    #[arg(long, short = 'o', value_name = "DIR")]
    output: Option<PathBuf>,
    /// Go on with a study that was interrupted
    #[arg(long)]
    pub(super) resume: bool,
    /// Print what would be done, and how long it takes
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) lab: LabOptions,
}

impl StudyArguments {
    pub(super) fn budget_s(&self) -> Result<Option<f64>, Failure> {
        let Some(budget) = &self.budget else { return Ok(None) };
        let budget_us = parse_duration(budget)
            .map_err(|why| Failure::Usage(format!("--budget {budget}: {why}")))?;
        Ok(Some(budget_us as f64 / 1e6))
    }

    pub(super) fn folder(&self, name: &str) -> PathBuf {
        self.output.clone().unwrap_or_else(|| PathBuf::from(name))
    }
}
