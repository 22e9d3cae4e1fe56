//! `ropewalk simulate`: what was typed becomes machines, each is run with each seed, and the
//! outcomes become a table and files. How a machine is simulated is the business of `coherence`.

mod csv;
mod html;
mod lists;
mod measured;
mod paper;
mod settings;
mod show;
mod spec;
mod sweep;

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use clap::Args;
use coherence::{Machine, Options, Outcome, Workload};
use memory_trace::Reader;

use crate::{Failure, print, whole_file};
use html::Told;
use lists::{CacheSize, Lists, Numbers};
use measured::Runs;
use paper::Plan;
use sweep::{Point, Progress};

pub(crate) const SIMULATE_HELP: &str = "\
Lists make a sweep: every combination of what is listed is simulated, in parallel threads. What is
not typed is the machine file's, or the reference machine's of Foglia et al. (2001).
docs/simulator.md says what is modelled, what is inferred, and what a machine file can hold.

Examples:
  ropewalk simulate server.trace
  ropewalk simulate server.trace --cpus 1..16 --protocol mesi,amsd,pscr --json sweep.json
  ropewalk simulate server.trace --cpus 4 --block 32 --cache 128K/1,512K/2,2M/4 --csv sweep.csv
  ropewalk simulate server.trace --machine ours.toml --top 20 --three-c
  ropewalk simulate server.trace --set bus.memory_latency=split --set kernel.enabled=false
  ropewalk simulate server.trace --paper --html paper.html     the paper's figures, its and ours";

#[derive(Args)]
pub(crate) struct SimulateArguments {
    /// The trace, as `ropewalk trace` writes it
    #[arg(value_name = "TRACE", required_unless_present = "print_machine")]
    trace: Option<PathBuf>,
    /// The machine (TOML); flags override it
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,
    /// A value of the machine in place of the file's: kernel.code_skew=1.6; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<settings::Setting>,
    /// Processors: 8, 4,8,12 or 1..16
    #[arg(long, value_name = "LIST")]
    cpus: Option<Numbers>,
    /// Coherence protocols: mesi, amsd, pscr, dragon
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    protocol: Vec<String>,
    /// Bytes of a block: 32, 64, 128, 256
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    block: Vec<u64>,
    /// Caches, with or without their ways: 128K/1,2M/4
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cache: Vec<CacheSize>,
    /// Schedulers: random, affinity
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    scheduler: Vec<lists::Scheduler>,
    /// The machines of the paper's Figures 1 to 11 and Table 5 in place of lists
    #[arg(long, conflicts_with_all = ["cpus", "protocol", "block", "cache", "scheduler", "top"])]
    paper: bool,
    /// Run each machine with so many seeds
    #[arg(long, value_name = "N", default_value = "3")]
    seeds: NonZeroU32,
    /// In the exact order of time; otherwise processors run ahead while they hit
    #[arg(long)]
    strict: bool,
    /// Without references of the operating system: only what was traced
    #[arg(long)]
    no_kernel: bool,
    /// Tell capacity misses from conflict misses; takes several times as long
    #[arg(long)]
    three_c: bool,
    /// Name so many functions and data that cause misses and coherence transactions
    #[arg(long, value_name = "N", default_value_t = 0)]
    top: usize,
    /// Simulate so many machines at once [default: one on each CPU]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Write all outcomes as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a row for each outcome
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a page of figures and tables; with --paper the paper's beside ours
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Only print the machine, with all that can be set
    #[arg(long)]
    print_machine: bool,
}

pub(crate) fn execute(arguments: &SimulateArguments) -> Result<(), Failure> {
    let machine = arguments.machine()?;
    let machines = arguments.lists().machines(&machine);
    for machine in &machines {
        machine.check().map_err(Failure::Usage)?;
    }
    let Some(trace) = arguments.trace.as_deref().filter(|_| !arguments.print_machine) else {
        let shown: Vec<String> = machines.iter().map(Machine::to_toml).collect();
        return print(&shown.join("\n"));
    };
    let workload = read(trace)?;
    let plan = arguments.paper.then(|| Plan::of(workload.tasks())).transpose();
    let plan = plan.map_err(|why| Failure::Usage(format!("{}: {why}", trace.display())))?;
    let machines = plan.as_ref().map_or(machines, |plan| plan.machines(&machine));
    let points = arguments.points(machines);
    let threads = arguments.threads.unwrap_or_else(available);
    let outcomes = sweep::run(&workload, &points, threads).map_err(Failure::Operation)?;
    arguments.write(trace, &workload, &outcomes, plan.as_ref())?;
    let head = show::head(trace, &workload, &machine);
    let body = show::outcomes(&outcomes, arguments.seeds.get() as usize, arguments.top);
    print(&format!("{head}\n{body}"))
}

impl SimulateArguments {
    fn machine(&self) -> Result<Machine, Failure> {
        let mut machine = match &self.machine {
            None => Machine::default(),
            Some(path) => {
                let why = |why: String| Failure::Usage(format!("{}: {why}", path.display()));
                let text = fs::read_to_string(path).map_err(|error| why(error.to_string()))?;
                Machine::from_toml(&text).map_err(why)?
            }
        };
        for setting in &self.set {
            machine = setting.apply(&machine).map_err(Failure::Usage)?;
        }
        machine.kernel.enabled &= !self.no_kernel;
        Ok(machine)
    }

    /// The files that were asked for.
    fn write(
        &self,
        trace: &Path,
        workload: &Workload,
        outcomes: &[Outcome],
        plan: Option<&Plan>,
    ) -> Result<(), Failure> {
        if let Some(path) = &self.json {
            write(path, &show::json(trace, workload, outcomes))?;
        }
        if let Some(path) = &self.csv {
            write(path, &csv::rows(outcomes))?;
        }
        let Some(path) = &self.html else { return Ok(()) };
        let (base, seeds) = (&self.machine()?, self.seeds.get());
        let told = Told { trace, workload, base, options: self.options(), seeds };
        let runs = Runs::of(outcomes, seeds as usize).map_err(Failure::Operation)?;
        let text = match plan {
            Some(plan) => html::of_paper(&told, plan, &runs),
            None => html::of_sweep(&told, &runs),
        };
        write(path, &text)
    }

    fn lists(&self) -> Lists<'_> {
        Lists {
            cpus: self.cpus.as_ref().map_or(&[][..], |numbers| &numbers.0[..]),
            protocols: &self.protocol,
            blocks: &self.block,
            caches: &self.cache,
            schedulers: &self.scheduler,
        }
    }

    fn options(&self) -> Options {
        Options {
            run_ahead_cycles: if self.strict { 0 } else { Options::RUN_AHEAD_CYCLES },
            three_c: self.three_c,
            rank: self.top > 0,
            prefetch: os::memory::prefetch,
        }
    }

    /// Every machine with every seed, the seeds of a machine one after the other.
    fn points(&self, machines: Vec<Machine>) -> Vec<Point> {
        let options = self.options();
        let seeds = |machine: Machine| {
            (1..=u64::from(self.seeds.get())).map(move |seed| Point {
                machine: machine.clone(),
                options,
                seed,
            })
        };
        machines.into_iter().flat_map(seeds).collect()
    }
}

fn read(path: &Path) -> Result<Workload, Failure> {
    let failed = Failure::Operation;
    let reader = Reader::open(path).map_err(|why| failed(why.to_string()))?;
    if let Some(damage) = reader.damage() {
        return Err(failed(format!("{damage}; nothing was simulated")));
    }
    let all: u64 = reader.processes().iter().map(|one| reader.references(one.id)).sum();
    let mut progress = Progress::new("reading", all);
    let named = |why: String| match why.contains(&*path.to_string_lossy()) {
        true => failed(why),
        false => failed(format!("{}: {why}", path.display())),
    };
    Workload::from_trace(&reader, |read| progress.show(read)).map_err(named)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let written = whole_file::write(path, |file| std::io::Write::write_all(file, text.as_bytes()));
    written.map_err(|why| Failure::Operation(format!("cannot write {}: {why}", path.display())))
}

fn available() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
