//! `cargo xtask flaky`: runs built test programs again and again beside a load that fills all CPUs.
//!
//! A test that passes on an idle machine and fails on a busy one waits on a clock where it should
//! wait for an event. Each run is a line of a tally, so that rounds may be made over many days: an
//! interrupted command continues where it was, and a program that is rebuilt starts again at zero.

mod tally;

use std::fs::{self, File};
use std::path::Path;
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use testkit::Busy;

use self::tally::{Run, Tally};
use crate::programs::{self, Program};
use crate::test::AT_A_TIME;
use crate::tools;

const HELP: &str = "\
cargo xtask flaky [--rounds N] [--idle] [PROGRAM...]

Builds the test programs and runs each of them N times, two at a time as the test command does,
beside busy loops on all CPUs. Each run is a line in target/flaky/tally.jsonl; runs of the same
build count, so that a repeated command continues where it was interrupted. The output of a failed
run is beside the tally.

  --rounds N   the number of runs of each program (20)
  --idle       without the busy loops
  PROGRAM      a package (lab) or one of its test programs (server/it); all when none is named
";

const ROUNDS_DEFAULT: u32 = 20;

/// The folder of the tally and of the output of failed runs, from the workspace root.
const FOLDER: &str = "target/flaky";

/// The time after which a run counts as hanging: the longest takes a fifth of it beside a load.
const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// The interval at which a program is checked for its end.
const LOOK: Duration = Duration::from_millis(50);

/// The number of lines of a failed run's output that are printed.
const TAIL_LINES: usize = 30;

#[derive(Debug, PartialEq, Eq)]
struct Wish {
    rounds: u32,
    is_busy: bool,
    programs: Vec<String>,
}

/// Runs the programs that `arguments` select; the error says how many runs failed.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    if arguments.iter().any(|argument| argument == "--help") {
        print!("{HELP}");
        return Ok(());
    }
    let wish = parse(arguments)?;
    let folder = tools::workspace_root().join(FOLDER);
    let explain = |why| format!("{}: {why}", folder.display());
    fs::create_dir_all(&folder).map_err(explain)?;
    let built = programs::build()?;
    let chosen = chosen(&wish, &built)?;
    let tally = Mutex::new(Tally::open(&folder.join("tally.jsonl"))?);
    make_rounds(&wish, &chosen, &folder, &tally)?;
    report(&wish, &chosen, &locked(&tally))
}

fn parse(arguments: &[String]) -> Result<Wish, String> {
    let mut wish = Wish { rounds: ROUNDS_DEFAULT, is_busy: true, programs: Vec::new() };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--rounds" => {
                let number = rest.next().and_then(|number| number.parse().ok());
                wish.rounds = number.ok_or("--rounds needs a whole number")?;
            }
            "--idle" => wish.is_busy = false,
            option if option.starts_with('-') => {
                return Err(format!("flaky knows no option {option}\n\n{HELP}"));
            }
            program => wish.programs.push(program.to_owned()),
        }
    }
    Ok(wish)
}

fn chosen<'p>(wish: &Wish, built: &'p [Program]) -> Result<Vec<&'p Program>, String> {
    let is_meant =
        |program: &Program, wished: &str| program.name == wished || program.package() == wished;
    for wished in &wish.programs {
        if !built.iter().any(|program| is_meant(program, wished)) {
            let names: Vec<&str> = built.iter().map(|program| &*program.name).collect();
            return Err(format!("no test program {wished:?}; there are: {}", names.join(", ")));
        }
    }
    let is_due = |program: &&Program| {
        wish.programs.is_empty() || wish.programs.iter().any(|wished| is_meant(program, wished))
    };
    Ok(built.iter().filter(is_due).collect())
}

/// Runs round by round, so that an interrupted command has run each program about as often as any
/// other.
fn make_rounds(
    wish: &Wish,
    chosen: &[&Program],
    folder: &Path,
    tally: &Mutex<Tally>,
) -> Result<(), String> {
    // The scheduler spreads the threads: they are not bound to CPUs.
    let on_all_cpus = || Busy::after(os::affinity::allowed_cpus().into_iter().map(|_| || ()));
    let _busy = wish.is_busy.then(on_all_cpus);
    let failed = Mutex::new(None);
    for round in 1..=wish.rounds {
        let is_due = |program: &&&Program| {
            locked(tally).runs_of_build(program, wish.is_busy).count() < round as usize
                && locked(&failed).is_none()
        };
        let due: Vec<_> = chosen.iter().filter(is_due).collect();
        testkit::at_a_time(AT_A_TIME, &due, |program| {
            let added = run_once(program, wish.is_busy, round, folder).and_then(|run| {
                println!("flaky: round {round} of {}: {}", wish.rounds, run.line());
                locked(tally).add(run)
            });
            if let Err(why) = added {
                *locked(&failed) = Some(why);
            }
        });
    }
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run_once(program: &Program, is_busy: bool, round: u32, folder: &Path) -> Result<Run, String> {
    let name = format!("{}.{}.{round}.txt", program.name.replace('/', "-"), program.built_ns);
    let path = folder.join(name);
    let explain = |why| format!("{}: {why}", path.display());
    let output = File::create(&path).map_err(explain)?;
    let begun_us = os::clock::now();
    let status = wait(program, output)?;
    let seconds = (os::clock::now() - begun_us) as f64 / 1e6;
    let text = fs::read(&path).map_err(explain)?;
    let text = String::from_utf8_lossy(&text);
    let passed = status.is_some_and(|status| status.success());
    let mut failed = failed_tests(&text);
    if passed {
        fs::remove_file(&path).map_err(explain)?;
    } else {
        print!("{}", tail(&text));
        println!("flaky: the whole output: {}", path.display());
        if failed.is_empty() {
            failed.push(status.map_or_else(
                || format!("it had not ended after {} minutes", PATIENCE.as_secs() / 60),
                |status| status.to_string(),
            ));
        }
    }
    let (program, built_ns) = (program.name.clone(), program.built_ns);
    Ok(Run { program, built_ns, at_unix_us: lab::unix_us(), is_busy, seconds, passed, failed })
}

/// Runs a program to its end as cargo would; none if it had to be killed.
fn wait(program: &Program, output: File) -> Result<Option<ExitStatus>, String> {
    let explain = |why| format!("{}: {why}", program.path.display());
    let errors = output.try_clone().map_err(explain)?;
    let mut command = program.command();
    let mut child = command.stdout(output).stderr(errors).spawn().map_err(explain)?;
    let begun_us = os::clock::now();
    while u128::from(os::clock::now() - begun_us) < PATIENCE.as_micros() {
        if let Some(status) = child.try_wait().map_err(explain)? {
            return Ok(Some(status));
        }
        thread::sleep(LOOK);
    }
    child.kill().and_then(|()| child.wait()).map_err(explain)?;
    Ok(None)
}

/// The names of failed tests that the test harness lists at its end.
fn failed_tests(output: &str) -> Vec<String> {
    let list = output.rsplit_once("\nfailures:\n").map_or("", |(_, list)| list);
    let names = list.lines().map_while(|line| line.strip_prefix("    "));
    names.map(str::to_owned).collect()
}

fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    let from = lines.len().saturating_sub(TAIL_LINES);
    lines[from..].iter().map(|line| format!("  | {line}\n")).collect()
}

/// Prints a line for each program and each failed test.
fn report(wish: &Wish, chosen: &[&Program], tally: &Tally) -> Result<(), String> {
    let mut failures = 0;
    println!();
    for program in chosen {
        let runs: Vec<&Run> = tally.runs_of_build(program, wish.is_busy).collect();
        let failed = runs.iter().filter(|run| !run.passed).count();
        failures += failed;
        println!("{:<24} {:>4} runs, {failed} failed", program.name, runs.len());
        for (name, times) in tally::count_failed(&runs) {
            println!("{:<24} {times:>4} times: {name}", "");
        }
    }
    match failures {
        0 => Ok(()),
        _ => Err(format!("{failures} runs failed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn program(name: &str) -> Program {
        Program { name: name.into(), path: PathBuf::new(), folder: PathBuf::new(), built_ns: 1 }
    }

    #[test]
    fn arguments() {
        let wish = parse(&words("--rounds 3 --idle lab server/it")).expect("a good line");
        let programs = words("lab server/it");
        assert_eq!(wish, Wish { rounds: 3, is_busy: false, programs });
        assert_eq!(parse(&[]).expect("nothing to ask for").rounds, ROUNDS_DEFAULT);
        for bad in ["--rounds", "--rounds x", "--round 3"] {
            assert!(parse(&words(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_crate_or_one_of_its_programs_is_chosen() {
        let built = ["lab", "server", "server/it", "server/storm"].map(program);
        let check = |line: &str, expected: &str| {
            let wish = parse(&words(line)).expect("a good line");
            let names = chosen(&wish, &built)
                .map(|all| all.iter().map(|one| one.name.clone()).collect::<Vec<_>>());
            assert_eq!(names, Ok(words(expected)), "{line}");
        };
        check("", "lab server server/it server/storm");
        check("server", "server server/it server/storm");
        check("server/it lab", "lab server/it");
        let wish = parse(&words("labs")).expect("a good line");
        let why = chosen(&wish, &built).map(|_| ()).expect_err("there is none");
        assert!(why.contains("\"labs\"; there are: lab, server, "), "{why}");
    }

    #[test]
    fn the_names_of_failed_tests_are_found() {
        let output = "running 3 tests\ntest a ... ok\n\nfailures:\n\n---- b::c stdout ----\nno\n\n\
                      \nfailures:\n    b::c\n    d\n\ntest result: FAILED. 1 passed\n";
        assert_eq!(failed_tests(output), ["b::c", "d"]);
        assert!(failed_tests("test a ... ok\nSegmentation fault\n").is_empty());
    }

    #[test]
    fn a_program_that_fails_is_named_with_its_status() {
        let folder = std::env::temp_dir().join(format!("ropewalk-flaky-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the folder for temporary files is writable");
        let made = |path: &str| {
            let program = Program { path: path.into(), folder: folder.clone(), ..program("a/b") };
            let run = run_once(&program, true, 1, &folder).expect("it can be run");
            (run.passed, run.failed, fs::read_dir(&folder).expect("it is there").count())
        };
        assert_eq!(made("/bin/true"), (true, Vec::new(), 0));
        assert_eq!(made("/bin/false"), (false, vec!["exit status: 1".to_owned()], 1));
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}
