//! `ropewalk simulate`: builds machines from the arguments, runs each with each seed, and writes
//! the outcomes as a table and as files. The crate `coherence` simulates the machines.

mod csv;
mod html;
mod lists;
mod measured;
mod paper;
mod settings;
mod show;
mod spec;
mod sweep;
mod varied;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use coherence::protocol::PROTOCOLS;
use coherence::{Machine, Options, Outcome, Until, Workload, WorkloadError};
use command::help::usual;
use command::near::unread;
use command::numbers::whole;
use command::{DASH, Failure, notify, print, takes_stdout, whole_file};

use html::RunInputs;
use lists::{CacheSize, Lists, Numbers};
use measured::Runs;
use paper::{Paper, Plan};
use sweep::{Point, Progress};
use varied::Varied;

use crate::trace_command::open_trace;

/// The key of the number of tasks that have to be left.
const TASKS_LEFT: &str = "scheduler.tasks_left";
/// The most machines of a sweep: their runs already take very long, and all outcomes are kept in
/// memory.
const MACHINES_MAX: usize = 20_000;

pub(crate) const SIMULATE_EXAMPLES: &str = "\
Examples:
  ropewalk simulate server.trace --cpus 1..16 --protocol mesi,amsd,pscr
  ropewalk simulate server.trace --paper --html paper.html";

pub(crate) const SIMULATE_HELP: &str = "\
Lists make a sweep: every combination of what is listed is simulated, in
parallel threads. What is not typed is the machine file's, or the reference
machine's of Foglia et al. (2001). docs/simulator/simulate.md says what is
modelled, what is inferred, and what a machine file can hold.

Exit status:
  0  success
  1  the trace is damaged, or a file cannot be read or written
  2  wrong usage, a file that is no trace, or a mistake in the machine

Examples:
  ropewalk simulate server.trace
  ropewalk simulate server.trace --cpus 1..16 --protocol mesi,amsd,pscr
  ropewalk simulate server.trace --block 32 --cache 128K/1,512K/2 --csv all.csv
  ropewalk simulate server.trace --machine ours.toml --top 20 --three-c
  ropewalk simulate server.trace --set kernel.enabled=false
  ropewalk simulate server.trace --cpus 1..16 --set cpu.write_buffer=1,8
  ropewalk simulate server.trace --paper --html paper.html    the paper's and ours";

/// The options that most simulations need.
const USUAL: &[&str] =
    &["machine", "cpus", "protocol", "block", "cache", "paper", "json", "csv", "html"];

#[derive(Args)]
#[command(mut_args(usual(USUAL)))]
pub(crate) struct SimulateArguments {
    /// The trace, as `ropewalk trace` writes it
    #[arg(value_name = "TRACE", required_unless_present = "print_machine")]
    trace: Option<PathBuf>,
    /// The machine (TOML); flags override it
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,
    /// Values of the machine in place of the file's: kernel.code_skew=1.6 or cpu.write_buffer=1,8;
    /// may be repeated
    #[arg(long, value_name = "KEY=LIST")]
    set: Vec<settings::Setting>,
    /// Processors: 8, 4,8,12 or 1..16
    #[arg(long, value_name = "LIST")]
    cpus: Option<Numbers>,
    /// Coherence protocols: mesi, amsd, pscr, dragon
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(PROTOCOLS.map(|protocol| protocol.name)),
        hide_possible_values = true
    )]
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
    /// The machines of Foglia et al. (2001), or of FILE
    ///
    /// A paper's machines in place of lists: those of Figures 1 to 11 and Table 5, or of the paper
    /// that FILE (TOML) describes.
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        conflicts_with_all = ["cpus", "protocol", "block", "cache", "scheduler", "top"]
    )]
    paper: Option<Option<PathBuf>>,
    /// Run each machine with this many seeds
    #[arg(long, value_name = "N", default_value = "3")]
    #[arg(value_parser = whole(NonZeroU32::MIN..=NonZeroU32::MAX))]
    seeds: NonZeroU32,
    /// Simulate in the exact order of time; otherwise processors run ahead while they hit
    #[arg(long)]
    strict: bool,
    /// Simulate without references of the operating system: only what was traced
    #[arg(long)]
    no_kernel: bool,
    /// Tell capacity misses from conflict misses; takes several times as long
    #[arg(long)]
    three_c: bool,
    /// Name the N functions and data that cause most misses and coherence transactions
    #[arg(long, value_name = "N", default_value_t = 0)]
    top: usize,
    /// Simulate this many machines at once [default: one on each CPU]
    #[arg(long, value_name = "N", value_parser = whole(1..=1024_usize))]
    threads: Option<usize>,
    /// Write all outcomes as JSON; - is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a row for each outcome
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a page of figures and tables
    ///
    /// With --paper the paper's beside ours.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Only print the machine, with all that can be set
    #[arg(long)]
    print_machine: bool,
}

pub(crate) fn execute(arguments: &SimulateArguments) -> Result<(), Failure> {
    let on_stdout = takes_stdout(arguments.files()).map_err(Failure::Usage)?;
    let paper = arguments.paper()?;
    let mut bases = arguments.bases()?;
    let lists = arguments.lists();
    if !arguments.sets(TASKS_LEFT) {
        end_together(&mut bases, &lists);
    }
    let machines: Vec<Machine> = bases.iter().flat_map(|base| lists.machines(base)).collect();
    for machine in &machines {
        machine.check().map_err(|why| Failure::Usage(why.to_string()))?;
    }
    let machine = &bases[0];
    let Some(trace) = arguments.trace.as_deref().filter(|_| !arguments.print_machine) else {
        let shown: Vec<String> = machines.iter().map(Machine::to_toml).collect();
        return print(&shown.join("\n"));
    };
    let workload = read(trace)?;
    let plan = paper.as_ref().map(|paper| Plan::new(paper, workload.tasks())).transpose();
    let plan = plan.map_err(|why| Failure::Usage(format!("{}: {why}", trace.display())))?;
    let machines = plan.as_ref().map_or(machines, |plan| plan.machines(machine));
    let points = arguments.points(machines);
    let threads = arguments.threads.unwrap_or_else(available);
    let outcomes = sweep::run(&workload, &points, threads)
        .map_err(|why| Failure::Operation(why.to_string()))?;
    let seeds = arguments.seeds.get();
    let varied = &Varied::from_settings(&arguments.set);
    let options = arguments.options();
    let inputs = RunInputs { trace, workload: &workload, base: machine, options, seeds, varied };
    arguments.write(&inputs, &outcomes, plan.as_ref())?;
    let head = show::head(trace, &workload, machine, varied);
    let body = show::outcomes(&workload, &outcomes, seeds as usize, arguments.top, varied);
    let table = format!("{head}\n{body}");
    if on_stdout {
        // A failure to write to standard error cannot be reported.
        let _ = io::stderr().write_all(table.as_bytes());
        return Ok(());
    }
    print(&table)
}

impl SimulateArguments {
    /// The machine of the file, or the default.
    fn machine(&self) -> Result<Machine, Failure> {
        let path = self.machine.as_deref();
        path.map_or_else(
            || Ok(Machine::default()),
            |path| from_file(path, settings::read_machine, "the file of a machine"),
        )
    }

    /// The paper that is asked for: the shipped one if no file is named.
    fn paper(&self) -> Result<Option<Paper>, Failure> {
        let named = |path: &PathBuf| {
            let paper = from_file(path, paper::read, "the file of a paper")?;
            let tell = |notice: &String| notify(&format!("{}: {notice}", path.display()));
            paper.notices.iter().for_each(tell);
            Ok(paper)
        };
        let paper =
            |path: &Option<PathBuf>| path.as_ref().map_or_else(|| Ok(paper::shipped()), named);
        self.paper.as_ref().map(paper).transpose()
    }

    /// The machine with each combination of what `--set` lists; there is at least one.
    fn bases(&self) -> Result<Vec<Machine>, Failure> {
        self.check_settings().map_err(Failure::Usage)?;
        let lists = self.lists();
        let check = |base: &Machine| lists.machines(base).iter().try_for_each(Machine::check);
        let mut machines =
            settings::machines(&self.machine()?, &self.set, &check).map_err(Failure::Usage)?;
        for machine in &mut machines {
            machine.kernel.enabled &= !self.no_kernel;
        }
        Ok(machines)
    }

    /// Whether `--set` gives a key one or more values.
    fn sets(&self, key: &str) -> bool {
        self.set.iter().any(|setting| setting.key() == key)
    }

    /// Checks that lists do not contradict one another. Of several single values the last is used,
    /// and flags override them.
    fn check_settings(&self) -> Result<(), String> {
        let flags = [
            ("cpus", "--cpus", self.cpus.is_some()),
            ("protocol", "--protocol", !self.protocol.is_empty()),
            ("cache.block_bytes", "--block", !self.block.is_empty()),
            ("cache.size_kib", "--cache", !self.cache.is_empty()),
            ("cache.ways", "--cache", self.cache.iter().any(|cache| cache.has_ways())),
            ("scheduler.policy", "--scheduler", !self.scheduler.is_empty()),
            ("kernel.enabled", "--no-kernel", self.no_kernel),
        ];
        let mut count = self.lists().count();
        for (at, setting) in self.set.iter().enumerate() {
            let key = setting.key();
            let before = self.set[..at].iter().find(|other| other.key() == key);
            if before.is_some_and(|other| other.count().max(setting.count()) > 1) {
                return Err(format!("--set {key}: listed twice; write all values in one list"));
            }
            count = count.saturating_mul(setting.count());
            if setting.count() == 1 {
                continue;
            }
            if self.paper.is_some() {
                return Err(format!(
                    "--set {key}: with --paper each value is one; run it once for each of the list"
                ));
            }
            if let Some((_, flag, _)) = flags.iter().find(|one| one.2 && one.0 == key) {
                return Err(format!("--set {key}: {flag} says it as well; give one of them"));
            }
        }
        match count > MACHINES_MAX {
            true => Err(format!("the lists make {count} machines; at most {MACHINES_MAX} are run")),
            false => Ok(()),
        }
    }

    /// The options for files with the files given.
    fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let files = [("--json", &self.json), ("--csv", &self.csv), ("--html", &self.html)];
        files.into_iter().filter_map(|(option, path)| Some((option, path.as_deref()?)))
    }

    /// Writes the files that were asked for.
    fn write(
        &self,
        inputs: &RunInputs<'_>,
        outcomes: &[Outcome],
        plan: Option<&Plan<'_>>,
    ) -> Result<(), Failure> {
        let RunInputs { trace, workload, varied, .. } = *inputs;
        if let Some(path) = &self.json {
            write(path, &show::json(trace, workload, outcomes, varied))?;
        }
        if let Some(path) = &self.csv {
            write(path, &csv::rows(outcomes, varied))?;
        }
        let Some(path) = &self.html else { return Ok(()) };
        let runs = Runs::from_outcomes(outcomes, inputs.seeds as usize, varied)
            .map_err(|why| Failure::Operation(why.to_string()))?;
        let text = match plan {
            Some(plan) => html::paper_page(inputs, plan, &runs),
            None => html::sweep_page(inputs, &runs),
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

    /// Pairs every machine with every seed, the seeds of a machine one after the other.
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

/// Makes each run end where that of the largest machine does, so that machines of several sizes are
/// compared on about the same part of the trace. A base that sets how many tasks have to be left is
/// not changed.
fn end_together(bases: &mut [Machine], lists: &Lists<'_>) {
    let sizes: BTreeSet<u32> =
        bases.iter().flat_map(|base| lists.machines(base)).map(|machine| machine.cpus).collect();
    let Some(most) = sizes.last().copied().filter(|_| sizes.len() > 1) else { return };
    for scheduler in bases.iter_mut().map(|base| &mut base.scheduler) {
        if scheduler.until == Until::Busy && scheduler.tasks_left == 0 {
            scheduler.tasks_left = most;
        }
    }
}

/// Reads and parses a file of the operator's.
fn from_file<T, E: fmt::Display>(
    path: &Path,
    read: impl FnOnce(&str) -> Result<T, E>,
    wanted: &str,
) -> Result<T, Failure> {
    let text = fs::read_to_string(path).map_err(|why| unread(path, &why, wanted))?;
    read(&text).map_err(|why| Failure::Usage(format!("{}: {why}", path.display())))
}

fn read(path: &Path) -> Result<Workload, Failure> {
    let failed = Failure::Operation;
    let reader = open_trace(path)?;
    if let Some(damage) = reader.damage() {
        return Err(failed(format!("{damage}; nothing was simulated")));
    }
    let all: u64 = reader.processes().iter().map(|one| reader.references(one.id)).sum();
    let mut progress = Progress::new("reading", all, 1);
    Workload::from_trace(&reader, |read| progress.show(read)).map_err(|why| match why {
        // The error names the file itself.
        WorkloadError::Trace(why) => failed(why.to_string()),
        why => failed(format!("{}: {why}", path.display())),
    })
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if path.as_os_str() == DASH {
        return print(text);
    }
    let written = whole_file::write(path, |file| file.write_all(text.as_bytes()));
    written.map_err(|why| Failure::Operation(format!("cannot write {}: {why}", path.display())))
}

fn available() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
