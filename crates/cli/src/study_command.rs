//! `ropewalk study`: an experiment, from its file to a folder of records. How it is run is `lab`'s
//! business.

mod of_cache;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use lab::record::Skipped;
use lab::study::{
    Cast, Definition, End, Experiment, Stage, Study, Tally, check_domains, estimate_s, minutes,
    reckoned_run_s,
};
use lab::watch::Watch;
use load::interrupt::Interrupt;
use load::units::parse_duration;
use page::number::counted;

use crate::lab_options::{LabOptions, open_records};
use crate::{Failure, UNFINISHED, print};

pub(crate) const STUDY_HELP: &str = "\
An experiment is a TOML file: servers, workloads, domains (CPUs, memory, network), how much is
offered, how often; or what is varied of the cache by itself (docs/study.md). Its records go into a
folder, a line for each run as soon as it is made; whatever ends the study, --resume goes on with
it. `ropewalk report FOLDER` shows them.

Exit status: 0 all that can be was measured, 1 nothing could be, 2 wrong usage, 4 the budget is
spent or the study was interrupted, and it can be resumed.

Examples:
  ropewalk study experiments/radhakrishnan-2019-fig-3-18-zipf-4gb.toml
  ropewalk study my.toml --size paper --budget 4h -o results
  ropewalk study my.toml -o results --resume";

#[derive(Args)]
pub(crate) struct StudyArguments {
    /// The experiment
    #[arg(value_name = "FILE")]
    experiment: PathBuf,
    /// One of the file's sizes, such as paper
    #[arg(long, value_name = "NAME")]
    size: Option<String>,
    /// How long it may take; time goes to the points whose intervals are widest
    #[arg(long, value_name = "TIME")]
    budget: Option<String>,
    /// Search the most that each server bears, in place of the rates of the file
    #[arg(long)]
    mat: bool,
    /// Where the records go [default: the experiment's name, in the current folder]
    #[arg(long, short = 'o', value_name = "DIR")]
    output: Option<PathBuf>,
    /// Go on with a study that was interrupted
    #[arg(long)]
    resume: bool,
    /// Only say what would be done, and how long it takes
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    lab: LabOptions,
}

pub(crate) fn study(arguments: &StudyArguments) -> Result<(), Failure> {
    let experiment = Experiment::read(&arguments.experiment, arguments.size.as_deref());
    match experiment.map_err(Failure::Usage)? {
        Experiment::Servers(definition) => of_servers(arguments, *definition),
        Experiment::Cache(definition) => of_cache::study(arguments, *definition),
    }
}

fn of_servers(arguments: &StudyArguments, mut definition: Definition) -> Result<(), Failure> {
    if let Some(option) = arguments.lab.cpus_typed() {
        return Err(Failure::Usage(format!(
            "{option}: a study's domains say who gets which CPUs: put `cpus` and `client_cpus` \
             under [[domains]] in {}; `taskset` bounds what they are taken from",
            arguments.experiment.display()
        )));
    }
    definition.budget_s = arguments.budget_s()?.or(definition.budget_s);
    if arguments.mat {
        definition.search_limits().map_err(Failure::Usage)?;
    }
    definition.check_budget(reckoned_run_s(&definition))?;
    let mut lab = arguments.lab.open()?;
    definition.settle_bounds(&mut lab.bench, arguments.lab.interference_bound()?);
    let cast = Cast::find(&lab, &mut definition)?;
    print(&introduction(&definition, &cast))?;
    if arguments.dry_run {
        return Ok(());
    }
    let mut stage = cast.stage(&lab, &definition)?;
    let (more, inside) = stage.try_domains()?;
    print(&more.iter().map(told_of).collect::<String>())?;
    check_domains(&stage.domains)?;
    definition.check_budget(stage.reckoned_run_s())?;
    print(&told_of_pauses(&stage))?;
    let path = arguments.folder(&definition.name);
    let skipped = [cast.skipped, more].concat();
    let (folder, opened) = open_records(&path, &stage.header(&lab, skipped), arguments.resume)?;
    let environment = stage.environment().with_domains(inside);
    folder.add_environment(&environment).map_err(Failure::Operation)?;
    let mut watch = Terminal { interrupt: Interrupt::new().map_err(Failure::Operation)? };
    let began_us = os::clock::now();
    let say = |line: &str| print(&format!("{line}\n"));
    stage.measure_ceilings(&lab, &folder, &opened.ceilings, began_us, &mut watch, say)?;
    let mut study = Study::new(&stage, &folder, opened, began_us, watch);
    let end = study.run().map_err(Failure::Stopped)?;
    conclude(end, study.tally(), &path)
}

impl StudyArguments {
    fn budget_s(&self) -> Result<Option<f64>, Failure> {
        let Some(budget) = &self.budget else { return Ok(None) };
        let budget_us = parse_duration(budget)
            .map_err(|why| Failure::Usage(format!("--budget {budget}: {why}")))?;
        Ok(Some(budget_us as f64 / 1e6))
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.output.clone().unwrap_or_else(|| PathBuf::from(name))
    }
}

/// What is about to happen, and how long it takes.
fn introduction(definition: &Definition, cast: &Cast) -> String {
    let mut text = format!("{}\n", definition.title);
    if !definition.source.is_empty() {
        text += &format!("after {}\n", definition.source);
    }
    text += &format!(
        "{}, {}, {}, {}: about {}\n",
        counted(cast.entrants.len(), "server"),
        counted(definition.workloads.len(), "workload"),
        counted(definition.domains.len(), "domain"),
        counted(definition.repetitions as usize, "repetition"),
        minutes(estimate_s(definition, cast.cells(definition), reckoned_run_s(definition))),
    );
    text + &cast.skipped.iter().map(told_of).collect::<String>()
}

/// What sessions that pause take, and how long it takes in all then.
fn told_of_pauses(stage: &Stage<'_>) -> String {
    let line = |(workload, seconds)| {
        format!(
            "workload {workload}: its sessions pause, so each run begins {seconds:.1} s before \
             its window\n"
        )
    };
    let lines: String = stage.fillings().map(line).collect();
    match lines.is_empty() {
        true => lines,
        false => format!("{lines}with that about {}\n", minutes(stage.estimate_s())),
    }
}

fn told_of(skipped: &Skipped) -> String {
    let Skipped { what, reason, command } = skipped;
    match command.as_str() {
        "" => format!("skipped {what}: {reason}\n"),
        command => format!("skipped {what}: {reason}; {command}\n"),
    }
}

fn conclude(end: End, tally: Tally, path: &Path) -> Result<(), Failure> {
    let path = path.display();
    let Tally { wanted, unknown } = tally;
    let (line, status) = match end {
        End::Complete if unknown > 0 && unknown == wanted => {
            (format!("Nothing could be measured: ropewalk report {path} says why"), 1)
        }
        End::Complete if unknown > 0 => (
            format!(
                "{} of {wanted} are measured, the others could not be: ropewalk report {path}",
                wanted - unknown
            ),
            0,
        ),
        End::Complete => (format!("All is measured: ropewalk report {path}"), 0),
        End::BudgetSpent => {
            (format!("The budget is spent. ropewalk report {path} shows what there is"), UNFINISHED)
        }
        End::Interrupted => (format!("Interrupted. Go on with --resume -o {path}"), UNFINISHED),
    };
    print(&format!("{line}\n"))?;
    if status == 0 { Ok(()) } else { Err(Failure::Reported(status)) }
}

/// Progress goes to standard error, a line for each run.
struct Terminal {
    interrupt: Interrupt,
}

impl Watch for Terminal {
    fn tell(&mut self, line: &str) {
        // Whoever cannot be told need not be.
        let _ = writeln!(std::io::stderr(), "{line}");
    }

    fn is_interrupted(&mut self) -> bool {
        self.interrupt.came()
    }
}
