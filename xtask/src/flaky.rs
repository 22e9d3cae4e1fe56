//! `cargo xtask flaky`: runs all test programs again and again beside a load that fills all CPUs.
//!
//! A test that passes on an idle machine and fails on a busy one waits on a clock where it should
//! wait for an event. Each run is a line of a tally, so that rounds may be made over many days.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use testkit::Busy;

use crate::programs::{self, Built, Program};
use crate::test::{AT_A_TIME, run_program};
use crate::tools;

const HELP: &str = "\
cargo xtask flaky [ROUNDS]

Builds the test programs and runs each of them ROUNDS times (20), two at a time as the test command
does, beside busy loops on all CPUs. Each run is a line in target/flaky.txt: a hash of the program
and of those that tests start, its name, seconds, and how it ended. Runs of the same build count, so
that a repeated command continues where it was interrupted.
";

const ROUNDS_DEFAULT: usize = 20;

/// Makes the rounds that are missing; the error says how many runs of this build have failed.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let rounds = match arguments {
        [] => Ok(ROUNDS_DEFAULT),
        [number] => number.parse().map_err(|_| HELP.to_owned()),
        _ => Err(HELP.to_owned()),
    };
    let rounds = rounds?;
    let built = programs::build()?;
    let path = tools::workspace_root().join("target/flaky.txt");
    let explain = |why| format!("{}: {why}", path.display());
    let hashes = built.hashes().map_err(|why| format!("a built program: {why}"))?;
    let tally = Tally::open(path.clone(), hashes).map_err(explain)?;
    make_rounds(rounds, &built, &tally).map_err(explain)?;
    let (mut counted, mut failed) = (String::new(), 0);
    for program in &built.programs {
        let (runs, failures) = tally.count(program);
        counted += &format!("{:<24} {runs:>4} runs, {failures} failed\n", program.name);
        failed += failures;
    }
    print!("\n{counted}");
    if failed == 0 { Ok(()) } else { Err(format!("{failed} runs failed")) }
}

/// Runs round by round, so that an interrupted command has run each program about as often as any
/// other.
fn make_rounds(rounds: usize, built: &Built, tally: &Tally) -> io::Result<()> {
    // The scheduler spreads the threads: they are not bound to CPUs.
    let _busy = Busy::after(os::affinity::allowed_cpus().into_iter().map(|_| || ()));
    let outcome = Mutex::new(Ok(()));
    for round in 1..=rounds {
        let is_due = |program: &&Program| tally.count(program).0 < round;
        let due: Vec<&Program> = built.programs.iter().filter(is_due).collect();
        testkit::at_a_time(AT_A_TIME, &due, |program| {
            if let Err(why) = tally.add_run(program) {
                *locked(&outcome) = Err(why);
            }
        });
    }
    outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// All runs so far: a file with a line each.
struct Tally {
    path: PathBuf,
    /// By name of a program what tells its builds apart.
    hashes: BTreeMap<String, u64>,
    /// The file's content.
    lines: Mutex<String>,
}

impl Tally {
    fn open(path: PathBuf, hashes: BTreeMap<String, u64>) -> io::Result<Self> {
        let lines = match fs::read_to_string(&path) {
            Err(why) if why.kind() == ErrorKind::NotFound => String::new(),
            text => text?,
        };
        Ok(Self { path, hashes, lines: Mutex::new(lines) })
    }

    /// How often this build of a program has run, and how often it has failed.
    fn count(&self, program: &Program) -> (usize, usize) {
        let prefix = self.prefix(program);
        let lines = locked(&self.lines);
        let runs = lines.lines().filter(|line| line.starts_with(&prefix));
        let failed = runs.clone().filter(|line| !line.ends_with(PASSED)).count();
        (runs.count(), failed)
    }

    /// How the lines of this build of a program begin.
    fn prefix(&self, program: &Program) -> String {
        format!("{:016x} {} ", self.hashes[&program.name], program.name)
    }

    /// Runs a program, prints its output if it fails, and adds the run to the file.
    fn add_run(&self, program: &Program) -> io::Result<()> {
        let begun_us = os::clock::now();
        let output = self.path.with_extension(program.name.replace('/', "-"));
        let (status, printed) = run_program(program, &output, Path::new("/dev/null"))?;
        let end = if status.success() { PASSED.to_owned() } else { status.to_string() };
        let seconds = (os::clock::now() - begun_us) as f64 / 1e6;
        let line = format!("{}{seconds:.1} {end}\n", self.prefix(program));
        print!("{line}");
        if !status.success() {
            print!("{}", String::from_utf8_lossy(&printed));
        }
        let mut lines = locked(&self.lines);
        lines.push_str(&line);
        File::options().create(true).append(true).open(&self.path)?.write_all(line.as_bytes())
    }
}

/// The end of a line of a run in which no test failed.
const PASSED: &str = "passed";

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_the_same_build_are_counted() {
        let folder = std::env::temp_dir().join(format!("ropewalk-flaky-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the folder for temporary files is writable");
        let made = |build| {
            let hashes = [("a/b".to_owned(), 1), ("a".to_owned(), build)].into();
            Tally::open(folder.join("tally"), hashes).expect("it is readable")
        };
        let program = |name: &str, path: &str| Program {
            name: name.to_owned(),
            path: path.into(),
            folder: folder.clone(),
        };
        let (good, bad) = (program("a/b", "/bin/true"), program("a", "/bin/false"));
        let tally = made(7);
        for program in [&good, &bad, &bad] {
            tally.add_run(program).expect("it can be run");
        }
        for tally in [tally, made(7)] {
            assert_eq!((tally.count(&good), tally.count(&bad)), ((1, 0), (2, 2)));
        }
        let rebuilt = made(8);
        assert_eq!((rebuilt.count(&good), rebuilt.count(&bad)), ((1, 0), (0, 0)));
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
