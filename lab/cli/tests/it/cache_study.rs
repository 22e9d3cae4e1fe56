//! A study of the cache by itself, from its file to its report: it is killed, resumed, and rendered
//! in every form.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use lab::record::Folder;
use serde_json::json;
use testkit::{Browser, Temporary, comes_true, finished, layout, succeeded};

use crate::lab::FullDisk;
use crate::server_process::ROPEWALK_LAB;
use crate::{ropewalk, run};

const STUDY: &str = r#"
title = "a small cache"
source = "nobody"
repetitions = 6
interference_bound = "100%"
[cache]
keys = 4096
requests = 4000
alpha = 1.0
alphas = [0.5, 1.0]
cached = 10
cached_percents = [10, 100]
threads = [1, 2]
"#;

/// The number of cells of the study: lists 16, locks 18, copies 18, levels 10, policies 12, crawler
/// 6.
const CELLS: usize = 80;

struct Scratch {
    folder: Temporary,
    experiment: PathBuf,
    records: PathBuf,
}

impl Scratch {
    fn new() -> Self {
        let folder = Temporary::new();
        let [experiment, records] =
            ["experiment.toml", "records"].map(|name| folder.path().join(name));
        fs::write(&experiment, STUDY).unwrap();
        Self { folder, experiment, records }
    }

    fn study(&self, options: &[&str]) -> (i32, String, String) {
        let own = ["study", text(&self.experiment), "-o", text(&self.records)];
        run(&[&own, options].concat())
    }

    /// Begins a study with more measurements than a test waits for, and returns it once it has made
    /// some.
    fn under_way(&self) -> Child {
        let own = ["study", text(&self.experiment), "-o", text(&self.records)];
        let mut command = ropewalk(&own);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = || fs::read_to_string(self.list()).unwrap_or_default();
        while lines().lines().count() < 20 {
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
            thread::sleep(Duration::from_millis(5));
        }
        child
    }

    fn list(&self) -> PathBuf {
        self.records.join("cache.jsonl")
    }

    fn report(&self, form: &str) -> String {
        let (status, out, err) = run(&["report", text(&self.records), "--format", form, "-o", "-"]);
        assert_eq!(status, 0, "{err}");
        out
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The process that measures.
fn program_of(study: &Child) -> u32 {
    let mut started = os::accounting::processes().filter(|one| one.parent == study.id());
    started.next().unwrap().pid
}

#[test]
fn a_study_of_the_cache_is_killed_and_goes_on_to_its_report() {
    let scratch = Scratch::new();
    let mut child = scratch.under_way();
    let program = program_of(&child);
    child.kill().unwrap();
    child.wait().unwrap();
    let is_running = || os::accounting::process(program).is_some_and(|one| !one.has_ended);
    assert!(comes_true(|| !is_running()), "the program that measures ends with the lab");
    let (status, out, err) = scratch.study(&["--resume"]);
    assert_eq!(status, 0, "{out}{err}");
    assert!(out.contains(&format!("{CELLS} cells, 6 repetitions: about ")), "{out}");
    assert!(out.contains("Going on after "), "{out}");
    let opened = Folder::read(&scratch.records).unwrap();
    assert_eq!((opened.cache.len(), opened.environments.len()), (6 * CELLS, 2));
    for block in opened.cache.chunks(CELLS) {
        let first = block[0].block;
        assert!(block.iter().all(|run| run.block == first), "a block is every cell once");
    }
    let page = scratch.report("markdown");
    for part in [
        "# a small cache",
        "480 measurements of 80 cells, 6 asked for of each",
        "- Lists, CPU, ns/request: standard LinkedList against file-cache, LRU, 4 cells: it takes ",
        "- Policies: hits against those of file-cache, LRU, in percentage points: file-cache, CLOCK ",
        "## Lists: get (A.3 a)",
        "| alpha |",
        "The study was resumed 1 time; the machine was the same each time.",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    assert!(!page.contains("fewer measurements"), "{page}");
    let lines = scratch.report("csv");
    assert_eq!(lines.lines().count(), 1 + 6 * CELLS, "a line for each measurement");
    assert!(lines.starts_with("part,store,keys,cached_percent,alpha,threads,value_bytes,block,"));
    assert_eq!(scratch.report("csv-points").lines().count(), 1 + CELLS);
    assert!(scratch.report("svg").contains("Policies: hits by alpha"));
}

/// The measurements until then are kept: once the cause is mended the study goes on.
#[test]
fn where_nothing_can_be_measured_or_written_any_more_it_can_be_resumed() {
    let scratch = Scratch::new();
    let stopped = |child: Child, expected: &str| {
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        let last = err.lines().last().unwrap();
        assert_eq!(output.status.code(), Some(4), "{err}");
        assert!(last.contains(expected) && last.contains("--resume"), "{err}");
    };
    let child = scratch.under_way();
    let kill = format!("kill -s KILL {}", program_of(&child));
    succeeded(Command::new("sh").args(["-c", &kill]));
    stopped(child, "cache-bench has ended: signal: 9 (SIGKILL)");
    fs::remove_dir_all(&scratch.records).unwrap();
    let child = scratch.under_way();
    let kept = FullDisk::under(&scratch.list());
    stopped(child, "cache.jsonl: No space left on device");
    kept.make_room();
    let (status, out, err) = scratch.study(&["--resume"]);
    assert_eq!(status, 0, "{out}{err}");
    assert_eq!(Folder::read(&scratch.records).unwrap().cache.len(), 6 * CELLS);
}

#[test]
fn a_budget_ends_it_and_missing_measurements_are_reported() {
    let scratch = Scratch::new();
    let (status, out, err) = scratch.study(&["--budget", "200ms"]);
    assert_eq!(status, 4, "{out}{err}");
    assert!(out.contains("The budget is spent"), "{out}");
    let page = scratch.report("markdown");
    assert!(page.contains("have fewer measurements than the 6 that were asked for"), "{page}");
    assert!(page.contains("no difference of times is called certain"), "{page}");
}

#[test]
fn what_makes_no_sense_without_servers_is_refused() {
    let scratch = Scratch::new();
    for (options, option) in [(&["--mat"][..], "--mat"), (&["--server-cpus", "0"], "--server-cpus")]
    {
        let (status, _, err) = scratch.study(options);
        assert_eq!((status, err.trim_end().lines().count()), (2, 1), "{err}");
        let expected = format!("{option}: {} has no servers", scratch.experiment.display());
        assert!(err.contains(&expected), "{err}");
    }
    // Not one measurement fits into the budget: the study could be resumed for ever.
    let (status, _, err) = scratch.study(&["--budget", "10us"]);
    assert_eq!((status, err.trim_end().lines().count()), (2, 1), "{err}");
    assert!(err.contains("a budget of 0.010 ms: a run of this study alone"), "{err}");
    let (status, out, _) = scratch.study(&["--dry-run"]);
    assert_eq!((status, scratch.records.exists()), (0, false), "{out}");
}

#[test]
fn its_repetitions_can_be_typed_too() {
    let scratch = Scratch::new();
    let claim = "[[claims]]\ntext = 'c'\npart = 'locks'\nstores = ['lock-free']\n\
                 than = 'bucket-mutexes'\nmeasure = 'cpu'\nat_least = 1\n";
    fs::write(&scratch.experiment, format!("{STUDY}{claim}")).unwrap();
    let (_, out, err) = scratch.study(&["--dry-run", "--repetitions=2"]);
    let expected = format!("{CELLS} cells, 2 repetitions: about ");
    assert!(out.contains(&expected) && out.contains("--repetitions 6: about "), "{out}{err}");
    let (_, out, err) = scratch.study(&["--dry-run"]);
    assert!(out.contains(" cells, 6 ") && !out.contains("too few"), "{out}{err}");
}

/// Without the source of the program that measures there must be that program.
#[test]
fn an_absent_program_is_a_line() {
    let scratch = Scratch::new();
    let program = scratch.folder.path().join("ropewalk-lab");
    // Not by this process: a file that it writes may be busy when it is to be executed.
    succeeded(Command::new("cp").arg(ROPEWALK_LAB).arg(&program));
    let mut command = Command::new(program);
    command.args(["study", text(&scratch.experiment), "-o", text(&scratch.records)]);
    command.current_dir(scratch.folder.path()).env("PATH", "/nonexistent");
    let (status, _, err) = finished(&mut command);
    let expected = "cache-bench is neither beside this program nor in PATH: install it: cargo \
                    install --profile dist --path servers/cache-bench in Ropewalk's sources\n";
    assert_eq!((status, err), (1, format!("ropewalk: {expected}")));
    assert!(!scratch.records.exists());
}

#[test]
fn its_page_in_a_browser() {
    let scratch = Scratch::new();
    fs::write(&scratch.experiment, STUDY.replace("repetitions = 6", "repetitions = 1")).unwrap();
    let (status, out, err) = scratch.study(&[]);
    assert_eq!(status, 0, "{out}{err}");
    let page = scratch.folder.path().join("page.html");
    fs::write(&page, scratch.report("html")).unwrap();
    let Some(mut browser) = Browser::start() else { return };
    layout::check_page(&mut browser, &page);
    let canvases = browser.evaluate("document.querySelectorAll('.live .u-wrap canvas').length");
    assert_eq!(canvases, json!(12), "evictions with all keys cached are no curve");
}
