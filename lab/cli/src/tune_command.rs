//! `ropewalk tune`: turns the command line into a search, and prints its result. How the search is
//! done is the part of `lab`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use command::estimate::minutes;
use command::help::usual;
use command::numbers::percent_from;
use command::units::parse_duration;
use command::{Failure, ProgressLine, UNDECIDED, UNFINISHED, print};
use lab::record::Folder;
use lab::search::{
    Method, Plan, Progress, Stop, Subject, Tuned, Wanted, Written, check_conditions,
};
use lab::{Conclusion, ServerSpec, listed_cpus};
use load::find_limit::{Conditions, Judged};
use load::interrupt::Interrupt;

use crate::lab_options::{
    LabOptions, WorkloadOptions, open_records, print_builds, print_knob_notices,
};
use crate::verdict::print_verdict;

pub(crate) const TUNE_EXAMPLES: &str = "\
Examples:
  ropewalk tune nginx --workload zipf --budget 20m
  ropewalk tune nginx --log access.log --root /srv/www --condition p99=50ms";

pub(crate) const TUNE_HELP: &str = "\
The best configuration sustains the highest rate under the conditions: the
share of what is offered that is served, errors, how alike kinds of file fare,
and named quantiles of the response times. Without --knob every knob varies
over its whole grid (`ropewalk servers` lists them); a grid that the budget
does not allow is sampled. --resume goes on with what Ctrl-C, a kill or a power
cut has left. docs/lab/tune.md says how the search goes.

Exit status:
  0  the best of what was tried is known
  1  the search could not be done
  2  wrong usage: also a directory that has records, or with --resume none
  3  it was not decided
  4  it was interrupted, or no run could be made any more; it can be resumed

Examples:
  ropewalk tune nginx --workload zipf --budget 20m
  ropewalk tune ropewalk:fibers --knob engine.knobs.stack_kib
  ropewalk tune ropewalk --knob cache.policy=lru,s3-fifo --method grid
  ropewalk tune nginx --log access.log --root /srv/www --condition p99=50ms
  ropewalk tune nginx --log access.log --root /srv/www -o tune-nginx --resume";

/// The options that most searches need.
const USUAL: &[&str] =
    &["workload", "log", "root", "budget", "knob", "condition", "output", "resume", "dry_run"];

#[derive(Args)]
#[command(mut_args(usual(USUAL)))]
pub(crate) struct TuneArguments {
    #[arg(
        value_name = "SERVER",
        help = "NAME[/SETTING][,KNOB=VALUE...]: the configuration to vary"
    )]
    server: String,
    #[command(flatten)]
    workload: WorkloadOptions,
    /// How long it may take
    #[arg(long, value_name = "TIME", default_value = "20m")]
    budget: String,
    /// Every configuration equally often, or few runs for many and many for few
    #[arg(long, value_enum, value_name = "METHOD", default_value = "halving")]
    method: TypedMethod,
    /// A knob to vary, or its values [default: all]
    ///
    /// Without values over its grid. May be repeated.
    #[arg(long, value_name = "NAME[=V1,V2...]")]
    knob: Vec<String>,
    /// p99=50ms, served=99%, errors=0.1%, spread=2%
    ///
    /// What must hold for a rate to be sustained. May be repeated.
    #[arg(long, value_name = "CONDITION")]
    condition: Vec<String>,
    /// Length of the window of a run
    #[arg(long, value_name = "TIME", default_value = "2s")]
    window: String,
    /// The confidence that the winner is the best
    #[arg(long, value_name = "PERCENT", default_value_t = 95.0, value_parser = percent_from(50.0))]
    confidence: f64,
    /// A difference that does not matter
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = percent_from(0.0))]
    margin: f64,
    /// Seeds the order and the arrivals
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Directory of the records and results [default: tune-SERVER]
    ///
    /// The default is in the current directory.
    #[arg(long, short = 'o', value_name = "DIR")]
    output: Option<PathBuf>,
    /// Go on with a search that was interrupted
    #[arg(long)]
    resume: bool,
    /// Print what would be done, and how long it takes
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    lab: LabOptions,
}

#[derive(Clone, Copy, ValueEnum)]
enum TypedMethod {
    /// Every combination, three times
    Grid,
    /// A third is kept, and measured more often
    Halving,
}

pub(crate) fn execute(arguments: &TuneArguments) -> Result<(), Failure> {
    let (wanted, conditions) = arguments.wanted()?;
    let server: ServerSpec = arguments.server.parse()?;
    let spec = arguments.workload.spec("zipf", &[&server])?;
    let lab = arguments.lab.open()?;
    print_knob_notices(&lab, &server);
    print_builds(&lab, [&server])?;
    let typed = (arguments.server.as_str(), &server);
    let (plan, subject) = ProgressLine::during(&format!("preparing {}", spec.name), || {
        wanted.prepare(&lab, typed, &spec, conditions)
    })?;
    print(&introduction(&plan, &wanted, &subject))?;
    if arguments.dry_run {
        return Ok(());
    }
    let header = subject.header(&plan);
    let path = arguments.output.clone().unwrap_or_else(|| PathBuf::from(&header.name));
    let (folder, opened) = open_records(&path, &header, &subject.environment(), arguments.resume)?;
    let mut interrupt = Interrupt::new().map_err(Failure::Operation)?;
    let mut watch = progress_printer(opened.runs.len());
    let found = subject.search(&plan, (&folder, &opened), &mut watch, &mut || interrupt.came());
    drop(watch);
    match found {
        Ok(tuned) => conclude(&tuned, &subject.keep(&tuned, &plan, &folder)?, &folder),
        Err(Stop::Failed(why)) => Err(Failure::Operation(why)),
        Err(Stop::Unable(why)) => Err(Failure::Stopped(why)),
        Err(Stop::Interrupted) => {
            let path = folder.path().display();
            print(&format!("Interrupted. Go on with the same options and --resume -o {path}\n"))?;
            Err(Failure::Reported(UNFINISHED))
        }
    }
}

impl TuneArguments {
    /// The search, and the conditions under which a rate is sustained.
    fn wanted(&self) -> Result<(Wanted, Conditions), Failure> {
        let explain = |option: &str, why: String| Failure::Usage(format!("{option}: {why}"));
        let seconds = |option: &str, text: &str| {
            let us = parse_duration(text).map_err(|why| explain(option, why))?;
            Ok::<f64, Failure>(us as f64 / 1e6)
        };
        let conditions = match self.condition.join(",").as_str() {
            "" => Conditions::default(),
            text => text.parse().map_err(|why| explain("--condition", why))?,
        };
        check_conditions(&conditions).map_err(|why| explain("--condition", why))?;
        let window_s = seconds("--window", &self.window)?;
        if !(0.05..=600.0).contains(&window_s) {
            return Err(explain("--window", "from 50ms to 10m".into()));
        }
        let wanted = Wanted {
            knobs: self.knob.clone(),
            method: match self.method {
                TypedMethod::Grid => Method::Grid,
                TypedMethod::Halving => Method::Halving,
            },
            budget: self.budget.clone(),
            budget_s: seconds("--budget", &self.budget)?,
            window_s,
            confidence: self.confidence / 100.0,
            margin: self.margin / 100.0,
            seed: self.seed,
        };
        Ok((wanted, conditions))
    }
}

/// Prints the progress, a line for each run that was not on record; on a terminal in one place.
fn progress_printer(recorded: usize) -> impl FnMut(&Progress<'_>) {
    let mut progress_line = ProgressLine::new();
    move |progress| {
        if progress.runs as usize <= recorded {
            return;
        }
        let judged = match progress.judged {
            Judged::Held => "held",
            Judged::Broke => "broke",
            Judged::Void => "void",
        };
        let best = progress
            .best
            .map_or(String::new(), |(name, rate)| format!("; best so far {name}: {rate:.0}/s"));
        let line = format!(
            "run {}, {}, about {} left: {} at {:.0}/s {judged}{best}",
            progress.runs,
            progress.stage,
            // There is a next run; after the last one the second does not matter.
            minutes(progress.left_s.max(1.0)),
            progress.candidate,
            progress.rate,
        );
        progress_line.print_line(&line);
    }
}

/// Describes what is about to happen, and how long it takes.
fn introduction(plan: &Plan, wanted: &Wanted, subject: &Subject<'_>) -> String {
    let Subject { load_setup, installed, base, workload, .. } = subject;
    let described = &workload.described;
    let method = match plan.method {
        Method::Grid => "all of them",
        Method::Halving => "halving",
    };
    let knobs = plan.grid.dimensions().iter();
    let knobs: Vec<String> =
        knobs.map(|knob| format!("{} ({})", knob.name, knob.values.len())).collect();
    format!(
        "{} {}, from {} on; {}: {}\nServer on CPU {}, clients on {}\nKnobs: {}\n\
         {} configurations, {} of them to begin with; {method}; windows of {} s\n\
         Conditions: {}\nAbout {}, at most {}\n",
        installed.description.name,
        installed.version,
        base.name,
        described.name,
        described.about,
        listed_cpus(&subject.launch.cpus),
        listed_cpus(&load_setup.generators[0].cpus),
        knobs.join(", "),
        plan.grid.size(),
        plan.candidates().len(),
        wanted.window_s,
        subject.conditions,
        minutes(plan.expected_s()),
        minutes(wanted.budget_s),
    )
}

fn conclude(tuned: &Tuned, written: &Written, folder: &Folder) -> Result<(), Failure> {
    let Conclusion { details, verdict } = &written.conclusion;
    print(details)?;
    let path = folder.path().display();
    let which = if tuned.is_decided() { "the winner" } else { "the configuration that is ahead" };
    let winner = written.winner.join(", ");
    let more = format!("Records and surface.csv in {path}; {which} in {winner}");
    print_verdict(verdict, &more)?;
    if tuned.is_decided() { Ok(()) } else { Err(Failure::Reported(UNDECIDED)) }
}
