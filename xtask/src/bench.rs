//! `cargo xtask bench`: the cost of recording a program and of simulating a processor with its
//! references, beside Cachegrind on the same program, which does both at once.
//!
//! The simulator by itself with many processors is measured by `cargo bench -p coherence`, servers
//! and the load generator by studies: docs/lab/benchmarks.md.

use crate::tools;
use lab::SourceTree;
use lab::client::Client;
use memory_trace::Reader;
use statistics::Generator;
use std::path::Path;
use std::time::Duration;
use testkit::Temporary;
use testkit::tools::{QEMU, Tool, VALGRIND};

const HELP: &str = "\
cargo xtask bench [--quick]

Records programs with both recorders and simulates a processor with their references, beside
Cachegrind, three times; prints processor time and references per second.

  --quick   one program with little to do, once: does it work?
";

/// A program to be recorded. `FILE` stands for a text.
#[derive(Debug)]
struct Program {
    command: &'static str,
    /// The number of lines of the text, chosen so that there are about 100 million references.
    lines: usize,
}

const WC: &str = "wc FILE";

const PROGRAMS: &[Program] = &[
    Program { command: "gzip -kf FILE", lines: 12_000 },
    Program { command: "sort --buffer-size=8M --parallel=1 FILE -o FILE.sorted", lines: 60_000 },
    Program { command: WC, lines: 200_000 },
];

const QUICK_PROGRAMS: &[Program] = &[Program { command: WC, lines: 1000 }];

const ROUNDS: usize = 3;

/// The processor that everything runs on.
const CPU: usize = 0;

/// How long one command may take.
const WITHIN: Duration = Duration::from_secs(580);

/// The options of Cachegrind for three caches.
const CACHEGRIND: &str = "valgrind --tool=cachegrind --cache-sim=yes \
                          --cachegrind-out-file=/dev/null \
                          --I1=32768,8,64 --D1=32768,8,64 --LL=2097152,16,64";
/// The most similar machine of the simulator: a cache for code and data as large as the first two,
/// and a last-level cache.
const MACHINE: &str = "cpus = 1\n\
                       [cache]\nsize_kib = 64\nways = 8\nblock_bytes = 64\n\
                       [llc]\ncpus_per_group = 1\nsize_kib = 2048\nways = 16\nhit_cycles = 15\n";

/// Seeds of the longer of two runs of the simulator; the difference to the shorter one excludes
/// reading the trace.
const SEEDS: u32 = 5;

/// One line of the report: seconds of processor time in each round.
#[derive(Debug, Default)]
struct Measured {
    name: &'static str,
    references: u64,
    seconds: Vec<f64>,
}

/// The recorder, the simulator and the files of a run.
struct Stage {
    scratch: Temporary,
    ropewalk: String,
    machine: String,
}

/// Runs the benchmark and prints a table for each program.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let (programs, rounds) = match arguments {
        [] => (PROGRAMS, ROUNDS),
        [option] if option == "--quick" => (QUICK_PROGRAMS, 1),
        [option] if option == "--help" => {
            print!("{HELP}");
            return Ok(());
        }
        _ => return Err(format!("unknown arguments\n\n{HELP}")),
    };
    let missing: Vec<Tool> = [VALGRIND, QEMU].into_iter().filter(|one| !one.is_there()).collect();
    if missing.contains(&VALGRIND) {
        return Err(VALGRIND.is_missing());
    }
    let stage = Stage::new()?;
    for program in programs {
        let mut all: Vec<Measured> = Vec::new();
        for round in 1..=rounds {
            eprintln!("  {}, round {round} of {rounds}", program.command);
            let measured = stage.round(program, !missing.contains(&QEMU))?;
            if all.is_empty() {
                all = measured;
            } else {
                for (all, one) in all.iter_mut().zip(measured) {
                    all.seconds.extend(one.seconds);
                }
            }
        }
        println!("### {}\n\n{}", program.command, show(&all));
    }
    for tool in missing {
        println!("skipped: {}", tool.is_missing());
    }
    Ok(())
}

impl Stage {
    fn new() -> Result<Self, String> {
        let build = "cargo build --release --package ropewalk-sim";
        match tools::command(build).status() {
            Ok(status) if status.success() => {}
            failed => return Err(format!("{build}: {failed:?}")),
        }
        let target = SourceTree::find(false).target_dir.unwrap_or_else(|| "target".into());
        let ropewalk = target.join("release/ropewalk-sim").display().to_string();
        let scratch = Temporary::new();
        let machine = scratch.file("machine.toml", MACHINE).display().to_string();
        Ok(Self { scratch, ropewalk, machine })
    }

    /// Measures everything once, one after the other, on one processor.
    fn round(&self, program: &Program, with_qemu: bool) -> Result<Vec<Measured>, String> {
        let file = self.scratch.file("text", text(program.lines)).display().to_string();
        let command = words(program.command).map(|word| word.replace("FILE", &file));
        let command: Vec<String> = command.collect();
        let trace = |name: &str| self.scratch.path().join(name).display().to_string();
        let (valgrind, qemu) = (trace("valgrind.trace"), trace("qemu.trace"));
        let Self { ropewalk, machine, .. } = self;
        let record = |recorder: &str, trace: &str| {
            let record =
                [ropewalk, "trace", "record", "--recorder", recorder, "--out", trace, "--"];
            [&record.map(str::to_owned)[..], &command].concat()
        };
        let simulate = |seeds: u32| -> Vec<String> {
            let seeds = seeds.to_string();
            let simulate = [ropewalk, "simulate", &valgrind, "--machine", machine, "--no-kernel"];
            [&simulate[..], &["--seeds", &seeds]].concat().into_iter().map(str::to_owned).collect()
        };
        let (alone, _) = timed(&command)?;
        let cachegrind: Vec<String> = words(CACHEGRIND).chain(command.clone()).collect();
        let (cachegrind, said) = timed(&cachegrind)?;
        let counted = ["I", "D"].map(|what| counted(&said, what));
        let [Some(code), Some(data)] = counted else {
            return Err(format!("Cachegrind does not say what it counted: {said}"));
        };
        let (recorded, _) = timed(&record("valgrind", &valgrind))?;
        let references = references(Path::new(&valgrind))?;
        let (once, _) = timed(&simulate(1))?;
        let (often, _) = timed(&simulate(SEEDS))?;
        let alone_simulated = (often - once) / f64::from(SEEDS - 1);
        let line =
            |name, references, seconds| Measured { name, references, seconds: vec![seconds] };
        let mut all = vec![
            line("the program alone", references, alone),
            line("Cachegrind", code + data, cachegrind),
            line("recorded by Valgrind, trace made", references, recorded),
            line("trace read and simulated", references, once),
            line("simulated only", references, alone_simulated),
        ];
        if with_qemu {
            let (recorded, _) = timed(&record("qemu", &qemu))?;
            let references = self::references(Path::new(&qemu))?;
            all.insert(3, line("recorded by QEMU, trace made", references, recorded));
        }
        Ok(all)
    }
}

/// Runs a command on one processor; returns its processor time with that of its children, and its
/// output.
fn timed(command: &[String]) -> Result<(f64, String), String> {
    let finished = Client::start(CPU, command)?.finish(WITHIN)?;
    let seconds = finished.cpu.as_secs_f64();
    Ok((seconds, finished.into_output()?))
}

/// The words of a command of the tables here.
fn words(command: &str) -> impl Iterator<Item = String> {
    command.split_whitespace().map(str::to_owned)
}

/// Parses `==7== I   refs:      570,157` or `==7== D   refs:   203,866  (144,273 rd   + ...`.
fn counted(said: &str, what: &str) -> Option<u64> {
    let mut lines = said.lines().map(|line| line.split_whitespace().skip(1));
    let mut words = lines.find(|words| words.clone().take(2).eq([what, "refs:"]))?;
    words.nth(2)?.replace(',', "").parse().ok()
}

/// The references of a trace, of all its processes.
fn references(trace: &Path) -> Result<u64, String> {
    let reader = Reader::open(trace).map_err(|why| format!("{}: {why}", trace.display()))?;
    Ok(reader.processes().iter().map(|process| reader.references(process.id)).sum())
}

/// Lines of words, some far more frequent than others.
fn text(lines: usize) -> String {
    let mut generator = Generator::new(1);
    let mut line = |number: usize| {
        let words = (0..4).map(|_| {
            let far = generator.unit();
            format!(" word{}", (far * far * far * 5000.0) as u32)
        });
        format!("{}{}\n", number * 7919 % 100_003, words.collect::<String>())
    };
    (0..lines).map(&mut line).collect()
}

fn show(all: &[Measured]) -> String {
    let mut table =
        "| | references | CPU s | least | most | M references/s |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for Measured { name, references, seconds } in all {
        let mut ordered = seconds.clone();
        ordered.sort_by(f64::total_cmp);
        let (median, least, most) =
            (ordered[ordered.len() / 2], ordered[0], ordered[ordered.len() - 1]);
        // With a clock of coarse ticks, a shorter time means nothing.
        let rate = match median > 0.02 {
            true => format!("{:.0}", *references as f64 / median / 1e6),
            false => "–".into(),
        };
        table +=
            &format!("| {name} | {references} | {median:.2} | {least:.2} | {most:.2} | {rate} |\n");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_what_is_printed() {
        let said = "==7== Cachegrind\n==7== I   refs:      570,157\n==7== I1  misses: 2\n\
                    ==7== D   refs:      203,866  (144,273 rd   + 59,593 wr)\n";
        assert_eq!([counted(said, "I"), counted(said, "D")], [Some(570_157), Some(203_866)]);
        assert_eq!(counted("nothing", "I"), None);
    }

    #[test]
    fn the_table_has_the_median_and_its_rate() {
        let line = Measured { name: "x", references: 100_000_000, seconds: vec![2.0, 0.5, 1.0] };
        let shown = show(&[line]);
        assert!(shown.contains("| 1.00 | 0.50 | 2.00 | 100 |"), "{shown}");
    }

    #[test]
    fn the_same_text_each_time() {
        assert_eq!(text(50), text(50));
        assert_eq!(text(50).lines().count(), 50);
    }
}
