//! Measurements of a server against itself while other programs use the CPUs at times: a
//! comparison, a study and a tuning of two equal servers must never find a difference, whatever was
//! measured.
//!
//! The tests take minutes and use the whole machine, so they are run on request only: `cargo test
//! --release -p ropewalk-lab --test it -- --ignored --nocapture --test-threads 1 beside_others`.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lab::record::{Folder, RaceOutcome};
use statistics::Generator;
use testkit::Temporary;

use crate::run;

/// The number of rounds of the three commands beside a load, and without one.
const ROUNDS: u64 = 3;

/// The shortest and longest time that a load is present, or absent, in milliseconds: from less than
/// a run to more than several.
const SPELL_MS: (u64, u64) = (1_000, 12_000);

/// Knobs that make no difference where one file is requested.
const SAME: [&str; 2] = [
    "ropewalk:event-loop,more=timeouts.head_ms=9000",
    "ropewalk:event-loop,more=timeouts.head_ms=9001",
];

/// Busy loops on every CPU, which come and go.
struct Others {
    ends: &'static AtomicBool,
    coming_and_going: Option<thread::JoinHandle<()>>,
}

impl Others {
    fn come_and_go(seed: u64) -> Self {
        let ends: &'static AtomicBool = Box::leak(Box::default());
        let coming_and_going = thread::spawn(move || {
            let mut generator = Generator::new(seed);
            let mut spell = || {
                let (least, most) = SPELL_MS;
                let ms = least + generator.below((most - least) as usize) as u64;
                for _ in 0..ms / 50 {
                    if !ends.load(Ordering::Relaxed) {
                        thread::sleep(Duration::from_millis(50));
                    }
                }
            };
            while !ends.load(Ordering::Relaxed) {
                let busy: Vec<Child> =
                    os::affinity::allowed_cpus().into_iter().map(loop_on).collect();
                spell();
                for mut one in busy {
                    one.kill().and_then(|()| one.wait()).expect("it is ours, and runs");
                }
                spell();
            }
        });
        Self { ends, coming_and_going: Some(coming_and_going) }
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let ended = self.coming_and_going.take().map(thread::JoinHandle::join);
        assert!(thread::panicking() || matches!(ended, Some(Ok(()))), "they could not be ended");
    }
}

/// A busy loop on one CPU.
fn loop_on(cpu: usize) -> Child {
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu.to_string(), "sh", "-c", "while :; do :; done"]);
    command.stdin(Stdio::null()).spawn().expect("util-linux has taskset")
}

/// The output of a command, and its numbers of runs and void runs.
struct CommandOutput {
    status: i32,
    words: String,
    void: usize,
    runs: usize,
}

/// Runs a command with a folder for its records, which is removed when the returned value is
/// dropped.
fn run_command(arguments: &[&str]) -> (CommandOutput, Folder, Temporary) {
    let own = Temporary::new();
    let path = |name: &str| own.path().join(name).display().to_string();
    let (scratch, records) = (path("scratch"), path("records"));
    let (status, out, err) = run(&[arguments, &["--scratch", &scratch, "-o", &records]].concat());
    let (folder, opened) = Folder::resume(records.as_ref()).expect("it wrote records");
    let runs = opened.runs;
    let void = runs.iter().filter(|run| !run.void.is_empty()).count();
    let said = CommandOutput { status, words: format!("{out}{err}"), void, runs: runs.len() };
    (said, folder, own)
}

/// Compares a server with itself; returns also whether the verdict calls one of the two better.
fn compare(seed: &str) -> (CommandOutput, bool) {
    let servers = ["compare", "ropewalk:event-loop", "ropewalk:event-loop"];
    let short = ["--workload=1KB", "--pairs=8", "--window=500ms", "--seed", seed];
    let (said, ..) = run_command(&[&servers[..], &short].concat());
    let is_decided = said.status == 0;
    let is_wrong = is_decided && !said.words.contains("Verdict: a tie");
    (said, is_wrong)
}

/// Studies two equal servers; `rows` says how they are loaded. Returns also whether the report says
/// that one serves more, or needs more processor time.
fn study_of(rows: &str, seed: &str) -> (CommandOutput, bool) {
    let own = Temporary::new();
    let text = format!(
        "title = 'the same twice'\nservers = {SAME:?}\nrepetitions = 7\nwindow = '500ms'\n\
         seed = {seed}\n{rows}\n[offered]\nconnections = [32]\n"
    );
    let file = own.file("same.toml", text);
    let (said, folder, _own) = run_command(&["study", &file.display().to_string()]);
    let report = lab::report::Report::read(folder.path()).expect("it has records").markdown();
    let is_difference = |line: &str| {
        let is_pair = line.starts_with("| ropewalk") && line.ends_with("| differ |");
        is_pair || line.contains(" times as much.")
    };
    let is_wrong = report.lines().any(is_difference);
    (said, is_wrong)
}

/// One after the other, loaded by our own generator.
fn study(seed: &str) -> (CommandOutput, bool) {
    study_of("workloads = ['1KB']", seed)
}

/// Both at once.
fn together(seed: &str) -> (CommandOutput, bool) {
    study_of("workloads = ['1KB']\ntogether = true", seed)
}

/// One after the other, loaded by wrk.
fn wrk(seed: &str) -> (CommandOutput, bool) {
    let row = "workloads = [{ name = '1k', about = 'one file', files = '--single 1024', load = \
               '--connection keep', client = 'wrk', \
               log = '--single 1024 --lengths 1 --requests 1000' }]";
    study_of(row, seed)
}

/// Tunes a knob without effect; returns also whether one value was found better.
fn tune(seed: &str) -> (CommandOutput, bool) {
    let what = ["tune", "ropewalk:event-loop", "--knob=cache.policy=lru,s3-fifo"];
    let short = ["--workload=1KB", "--window=500ms", "--budget=4m", "--seed", seed];
    let (said, folder, _own) = run_command(&[&what[..], &short].concat());
    let tuning = Folder::read(folder.path()).expect("it has records").tuning;
    let is_better = |tuning: &lab::record::Tuning| {
        tuning.rivals.iter().any(|rival| rival.outcome == RaceOutcome::Better)
    };
    (said, tuning.as_ref().is_some_and(is_better))
}

type Kind = (&'static str, fn(&str) -> (CommandOutput, bool));
const KINDS: [Kind; 5] = [
    ("compare", compare),
    ("study", study),
    ("study together", together),
    ("study by wrk", wrk),
    ("tune", tune),
];

/// Runs all commands in some rounds; returns how many found a difference.
fn rounds(is_alone: bool) -> u32 {
    let mut wrong = 0;
    for round in 1..=ROUNDS {
        for (name, kind) in KINDS {
            let others = (!is_alone).then(|| Others::come_and_go(round));
            let (said, is_wrong) = kind(&round.to_string());
            drop(others);
            let CommandOutput { status, words, void, runs } = said;
            let beside = if is_alone { "alone" } else { "beside others" };
            println!("{name} {round}, {beside}: status {status}, {void} of {runs} runs void");
            let telling = ["Verdict:", "Best:", "Not decided", "measured", "because others"];
            let lines = words.lines().filter(|line| telling.iter().any(|word| line.contains(word)));
            lines.for_each(|line| println!("    {line}"));
            wrong += u32::from(is_wrong);
        }
    }
    wrong
}

#[test]
#[ignore = "takes twenty minutes, fills the machine, needs wrk"]
fn beside_a_load_that_comes_and_goes_nothing_differs_from_itself() {
    assert_eq!(rounds(false), 0);
}

/// One of fifteen may find a difference by chance.
#[test]
#[ignore = "takes twenty minutes on a machine that is quiet, needs wrk"]
fn on_a_quiet_machine_nothing_differs_from_itself() {
    assert!(rounds(true) <= 1);
}
