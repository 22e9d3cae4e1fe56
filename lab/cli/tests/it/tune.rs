//! `ropewalk tune` from the outside: a real server is tuned over a tiny grid, with windows and a
//! budget that are much too short to measure speed; so the bounds on the generator's own lag and on
//! interference are lifted, and any setting may win.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use lab::record::{Folder, Kind, Opened, Run};
use lab::{Installed, Values};
use testkit::{Busy, Temporary, finished};

use crate::lab::LIFTED;
use crate::server_process::ropewalk_server;
use crate::servers::{Stage, engines};
use crate::{REPOSITORY, ropewalk, run, start_until};

const SERVER: [&str; 5] = [
    "tune",
    "ropewalk:event-loop,more=timeouts.head_ms=9000",
    "--knob",
    "cache.policy=lru",
    "--workload=1KB",
];
const SHORT: [&str; 6] =
    ["--window=100ms", "--lag-bound=60s", LIFTED, "--seed=7", "--margin=90", "--confidence=50"];
/// A budget that is not used up: the search ends by itself long before. Beside other tests a run
/// takes several times as long, and a budget too short for a first look is an error.
const AMPLE: &str = "--budget=10m";
const AMPLE_S: f64 = 600.0;
const TIGHT: &str = "--budget=36s";

/// A folder for all files of the command.
struct Tuning(Temporary);

impl Tuning {
    fn new() -> Self {
        Self(Temporary::new())
    }

    fn records(&self) -> PathBuf {
        self.0.path().join("records")
    }

    /// The arguments, with a scratch folder and a folder for records of its own.
    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let scratch = self.0.path().join("scratch");
        let places = [
            format!("--scratch={}", scratch.display()),
            format!("--output={}", self.records().display()),
        ];
        let words = [&SERVER[..], &SHORT, more].concat();
        words.into_iter().map(str::to_owned).chain(places).collect()
    }

    fn run(&self, more: &[&str]) -> (i32, String, String) {
        let arguments = self.arguments(more);
        run(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn opened(&self) -> Opened {
        Folder::read(&self.records()).unwrap()
    }

    /// Has the records say that the last run took so long that of the budget `left_s` seconds are
    /// left. Returns the number of runs.
    fn spend_budget(&self, left_s: f64) -> usize {
        let path = self.records().join("runs.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        let mut made: Vec<serde_json::Value> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let Some((last, others)) = made.split_last_mut() else { panic!("no run was made") };
        let taken_s: f64 = others.iter().map(|run| run["took_s"].as_f64().unwrap()).sum();
        last["took_s"] = (AMPLE_S - left_s - taken_s).into();
        fs::write(&path, made.iter().map(|run| format!("{run}\n")).collect::<String>()).unwrap();
        made.len()
    }

    /// Begins the command, and returns it once `lines` lines are in a list of its records.
    fn under_way(&self, (list, lines): (&str, usize), mut command: Command) -> Child {
        start_until(&mut command, &self.records().join(list), lines)
    }

    /// Runs the command and signals it once there are so many lines in a list of its records: its
    /// whole process group, as a terminal does, or the process alone, as `kill` does. Returns its
    /// status, if it ended by itself.
    fn run_until(
        &self,
        lines: (&str, usize),
        signal: &str,
        whole_group: bool,
        more: &[&str],
    ) -> Option<i32> {
        let arguments = self.arguments(&[&[AMPLE][..], more].concat());
        let mut command = ropewalk(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = self.under_way(lines, command);
        let target = if whole_group { format!("-{}", child.id()) } else { child.id().to_string() };
        let kill = format!("kill -s {signal} -- {target}");
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        child.wait().unwrap().code()
    }
}

/// The beginning of the result for a status. Beside other tests the budget may end before anything
/// is decided.
fn result_head(status: i32, err: &str) -> &'static str {
    match status {
        0 => "\nBest: ",
        3 => "\nNot decided. Ahead: ",
        _ => panic!("status {status}: {err}"),
    }
}

/// Without `--knob` all knobs are varied: those of an engine have too many combinations to
/// enumerate.
#[test]
fn all_knobs_of_every_engine_can_be_varied() {
    let scratch = Temporary::new();
    let place = format!("--scratch={}", scratch.path().display());
    for engine in engines() {
        let server = format!("ropewalk:{}", engine["name"].as_str().unwrap());
        let (status, out, err) = run(&["tune", &server, "--workload=1KB", "--dry-run", &place]);
        if let Some(why) = engine["unavailable"].as_str() {
            assert!(status != 0 && err.contains(why), "{server}: {out}{err}");
            continue;
        }
        assert_eq!((status, &*err), (0, ""), "{server}: {out}");
        assert!(out.contains(" configurations, ") && out.contains(" to begin with"), "{out}");
    }
}

/// Ctrl-C is sent to the terminal's whole process group: the measurements until then are whole. The
/// search can be resumed then, and after its process was killed.
#[test]
fn a_search_that_is_interrupted_and_killed_goes_on_to_its_results() {
    let tuning = Tuning::new();
    assert_eq!(tuning.run_until(("runs.jsonl", 3), "INT", true, &[]), Some(4));
    let interrupted = tuning.opened().runs;
    for run in &interrupted {
        let outcome = fs::read_to_string(tuning.records().join(&run.outcome_file)).unwrap();
        let outcome: serde_json::Value = serde_json::from_str(&outcome).unwrap();
        assert_eq!(outcome["interrupted"], false, "{run:?}");
    }
    let (status, out, err) = tuning.run(&[AMPLE]);
    assert_eq!(status, 2, "there is one in it: {out}");
    assert!(err.contains("resume it (--resume) or choose another directory"), "{err}");
    let (status, _, err) = tuning.run(&[AMPLE, "--resume", "--condition=errors=1%"]);
    assert_eq!(status, 2);
    assert!(err.contains("it was begun with another definition"), "{err}");
    // The level, and two blocks of two.
    let measured = ("searches.jsonl", 5);
    assert_eq!(tuning.run_until(measured, "KILL", false, &["--resume"]), None);
    tuning.spend_budget(20.0); // it may end by itself before that
    let before = tuning.opened().runs;
    assert_eq!(before[..interrupted.len()], interrupted[..], "what was measured stays");
    let (status, out, err) = tuning.run(&[AMPLE, "--resume"]);
    let told = result_head(status, &err);
    assert!(out.contains("\nGoing on after ") && out.contains(told), "{out}{err}");
    let opened = tuning.opened();
    assert_eq!(opened.header.kind, Kind::Tune);
    assert_eq!(opened.runs[..before.len()], before[..], "what was measured stays");
    assert_eq!(opened.environments.len(), 3, "the machine is looked at each time");
    assert!(opened.searches.len() >= 3, "the level, and a block of two: {opened:?}");
    assert!(opened.runs.iter().any(|run| run.observed.contains_key("cpu_us_per_request")));
    assert_results(&tuning);
    let winner = opened.tuning.expect("it came to its end").winner;
    assert!(out.contains(&format!("{told}{winner}\n")), "{winner}: {out}");
    let records = tuning.records();
    let (status, page, err) =
        run(&["report", records.to_str().unwrap(), "--format=markdown", "-o", "-"]);
    assert_eq!(status, 0, "{err}");
    // Markdown escapes underscores; the base setting has the name that was given on the command
    // line.
    let page = page.replace("\\_", "_");
    assert!(page.contains(&format!("settings is ropewalk:event-loop {winner} (")), "{page}");
}

/// Others that come while it measures leave nothing to decide by, whatever was measured before.
#[test]
fn beside_busy_loops_nothing_is_decided() {
    let tuning = Tuning::new();
    let tune = |more: &[&str]| {
        let mut arguments = tuning.arguments(&[&[AMPLE][..], more].concat());
        arguments.retain(|argument| argument != LIFTED);
        ropewalk(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let mut command = tune(&[]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = tuning.under_way(("runs.jsonl", 1), command);
    let bound_to = |cpu| move || os::affinity::pin_thread(&[cpu]).unwrap();
    let _loops = Busy::after(os::affinity::allowed_cpus().into_iter().map(bound_to));
    let is_void = |run: &Run| run.void.iter().any(lab::Void::is_interference);
    while !tuning.opened().runs.last().is_some_and(is_void) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before a run was void");
        thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let made = tuning.spend_budget(0.0);
    let (status, out, err) = finished(&mut tune(&["--resume"]));
    let runs = tuning.opened().runs;
    assert_eq!(runs.len(), made, "no run is made any more");
    assert!(runs.last().is_some_and(is_void), "{runs:?}");
    let told = match status {
        3 => out.contains("\nNot decided. Ahead: "),
        1 => err.contains("other processes disturbed"),
        _ => false,
    };
    assert!(told && !out.contains("\nBest: "), "{status}: {out}{err}");
}

/// The budget is spent once each of two has been measured in a block, as their records have it, and
/// a block is too little for the confidence: whatever the machine does, that decides nothing.
#[test]
fn a_budget_that_is_spent_too_early_decides_nothing() {
    let tuning = Tuning::new();
    let tune = |more: &[&str]| {
        let mut arguments = tuning.arguments(&[&[AMPLE][..], more].concat());
        arguments.retain(|one| !one.starts_with("--margin") && !one.starts_with("--confidence"));
        arguments.extend(["--margin=1", "--confidence=99.9"].map(str::to_owned));
        ropewalk(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let mut command = tune(&[]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    // The level, and a block of two.
    let mut child = tuning.under_way(("searches.jsonl", 3), command);
    child.kill().unwrap();
    child.wait().unwrap();
    let made = tuning.spend_budget(0.0);
    let (status, out, err) = finished(&mut tune(&["--resume"]));
    assert_eq!(status, 3, "{out}{err}");
    assert!(out.contains("\nNot decided. Ahead: ") && !out.contains("\nBest: "), "{out}{err}");
    assert_eq!(tuning.opened().runs.len(), made, "no run is made any more");
}

/// A server that is installed and has a version, but does not start: so a search ends at once.
const ABSENT: &str = r#"
    name = "absent"
    description = "nothing at all"
    package = "make absent"
    detect = { command = ["echo", "absent/1"], version_after = "absent/" }
    settings = [{ name = "usual", about = "as it is" }]
    knobs = { threads = { about = "threads", default = "1", from = 1, to = 2, step = 1 } }
    start = { command = ["/absent", "{port}", "{threads}"], environment = { SPEED = "high" } }
    stop = { signal = "TERM" }
    files = [{ path = "absent.conf", text = "threads {threads}" }]
"#;

/// After an upgrade, or with another configuration, a server counts as another server.
#[test]
fn a_search_goes_on_with_the_same_server_only() {
    let own = Temporary::new();
    let path = |name: &str| own.path().join(name).display().to_string();
    own.file("servers/absent.toml", ABSENT);
    let tune = |more: &[&str]| {
        let places =
            ["--servers", &path("servers"), "--scratch", &path("s"), "-o", &path("records")];
        run(&[&["tune", "absent", "--workload=1KB", "--budget=1m"][..], &places, more].concat())
    };
    let goes_on = |more: &[&str]| {
        let (status, out, err) = tune(more);
        assert!(status == 1 && err.contains("no configuration keeps"), "{status} {out}{err}");
    };
    goes_on(&["--window=100ms"]);
    for (is, becomes) in [
        ("absent/1\"", "absent/2\""),
        ("threads {threads}", "threads {threads}; slowly"),
        ("{port}", "{port}0"),
        ("SPEED = \"high\"", "SPEED = \"low\""),
        ("default = \"1\"", "default = \"2\""),
    ] {
        own.file("servers/absent.toml", ABSENT.replace(is, becomes));
        let (status, out, err) = tune(&["--window=100ms", "--resume"]);
        assert_eq!(status, 2, "{becomes}: {out}{err}");
        assert!(err.contains("it was begun with another definition"), "{becomes}: {err}");
    }
    own.file("servers/absent.toml", ABSENT);
    goes_on(&["--window=100ms", "--resume"]);
}

/// Asserts that the results are a surface with two configurations, and a configuration that
/// Ropewalk accepts.
fn assert_results(tuning: &Tuning) {
    let surface = fs::read_to_string(tuning.records().join("surface.csv")).unwrap();
    assert!(surface.starts_with("configuration,cache.policy,requests_per_s,"), "{surface}");
    for policy in ["s3-fifo", "lru"] {
        assert!(surface.contains(&format!(",{policy},")), "{surface}");
    }
    let winner = tuning.records().join("winner/ropewalk.toml");
    let (status, out, err) = checked(&["--config", winner.to_str().unwrap()]);
    assert_eq!(status, 0, "{err}");
    for said in ["name = \"event-loop\"", "head_ms = 9000", "idle_ms = 600000"] {
        let line = out.lines().find(|line| line.starts_with(said));
        assert!(line.is_some_and(|line| line.contains("ropewalk.toml")), "{said}: {out}");
    }
    let command = fs::read_to_string(tuning.records().join("winner/command.txt")).unwrap();
    assert!(command.contains(" --set engine.name=event-loop "), "{command}");
}

/// The winner's file configures the server as the command did under which it was measured, even if
/// the description has further lines.
#[test]
fn a_configuration_file_says_what_was_measured() {
    let stage = Stage::create();
    let descriptions = lab::catalogue(Ok(&ropewalk_server()), None).unwrap();
    let description =
        descriptions.into_iter().find(|description| description.name == "ropewalk:staged").unwrap();
    let installed = Installed { description, version: String::new() };
    for more in [
        "",
        "partitions.count=2",
        "[partitions]\ncount = 2\n[log]\naccess = 'json'",
        "cache.policy = 'lru'\n[engine]\nname = 'threads'",
        "listen = ['127.0.0.1:1']\n[[host]]\nroot = '/'\nindex = ['a.html']",
    ] {
        let folder = Temporary::new();
        let mut setting = installed.description.settings[0].clone();
        setting.knobs.insert("more".into(), more.into());
        let place = (8080, folder.path());
        let launch = stage.launch();
        let (files, command) = lab::configuration(&installed, &setting, &launch, place).unwrap();
        folder.file("ropewalk.toml", &files["ropewalk.toml"]);
        let written = lab::configuration_file(&installed, &setting, &launch, place).unwrap();
        let (name, text) = written.expect("it is Ropewalk");
        assert_eq!(name, "ropewalk.toml");
        folder.file("written.toml", text);
        let written = folder.path().join("written.toml").display().to_string();
        let words: Vec<&str> = command[2..].iter().map(String::as_str).collect();
        assert_eq!(effective(&["--config", &written]), effective(&words), "{more}");
    }
}

/// A description of before has all but the engine's knobs in its command, from which no file is
/// made: the winner's files are left as they were filled in.
#[test]
fn a_description_with_its_keys_in_the_command_keeps_its_file() {
    let stage = Stage::create();
    let descriptions = lab::catalogue(Ok(&ropewalk_server()), None).unwrap();
    let mut description =
        descriptions.into_iter().find(|description| description.name == "ropewalk:staged").unwrap();
    let set = std::mem::take(&mut description.start.set);
    let (knobs, set): (Values, Values) =
        set.into_iter().partition(|(key, _)| key.starts_with("engine.knobs."));
    description.start.set = knobs;
    let words = set.iter().flat_map(|(key, value)| ["--set".into(), format!("{key}={value}")]);
    description.start.command.extend(words);
    let setting = description.settings[0].clone();
    let installed = Installed { description, version: String::new() };
    let place = (8080, Path::new("/its/place"));
    let (_, command) = lab::configuration(&installed, &setting, &stage.launch(), place).unwrap();
    assert!(command.contains(&"timeouts.idle_ms=600000".to_owned()), "{command:?}");
    let written = lab::configuration_file(&installed, &setting, &stage.launch(), place);
    assert_eq!(written, Ok(None));
}

/// Go's runtime is configured by the environment; without it the command would start a server other
/// than the one that was measured.
#[test]
fn a_command_sets_the_environment_that_was_measured() {
    let stage = Stage::create();
    for name in ["goserver", "gofasthttp", "caddy"] {
        let descriptions = lab::catalogue(Ok(&ropewalk_server()), None).unwrap();
        let description =
            descriptions.into_iter().find(|description| description.name == name).unwrap();
        let installed = Installed { description, version: String::new() };
        let mut setting = installed.description.settings[0].clone();
        for (knob, value) in [("gomaxprocs", "3"), ("gc_percent", "400")] {
            setting.knobs.insert(knob.into(), value.into());
        }
        let launch = stage.launch();
        let place = (8080, Path::new("/its/place"));
        let (_, command) = lab::configuration(&installed, &setting, &launch, place).unwrap();
        assert_eq!(command[..3], ["env", "GOGC=400", "GOMAXPROCS=3"], "{name}");
        assert!(name != "caddy" || command[3] == "HOME=/its/place", "{command:?}");
        let text = lab::configuration_text(&installed, &setting, &launch);
        assert!(text.starts_with("env GOGC=400 GOMAXPROCS=3 "), "{text}");
    }
}

/// What the server says of a configuration.
fn checked(arguments: &[&str]) -> (i32, String, String) {
    let mut check = Command::new(ropewalk_server());
    finished(check.arg("check").args(arguments).current_dir(REPOSITORY))
}

/// The effective configuration of the server for these arguments, without the sources of its
/// values.
fn effective(arguments: &[&str]) -> Vec<String> {
    let (status, out, err) = checked(arguments);
    assert_eq!(status, 0, "{arguments:?}: {err}");
    let line = |line: &str| line.split('#').next().unwrap_or_default().trim().to_owned();
    out.lines().map(line).collect()
}

#[test]
fn a_search_says_first_what_it_would_do() {
    let (status, out, err) = Tuning::new().run(&[TIGHT, "--dry-run"]);
    assert_eq!(status, 0, "{err}");
    assert!(out.ends_with("at most 36 s\n"), "{out}");
    let scratch = Temporary::new();
    let place = format!("--scratch={}", scratch.path().display());
    let grid = ["--window=100ms", "--budget=4m", "--method=grid", "--dry-run", &place];
    let (status, out, err) = run(&[&SERVER[..], &grid].concat());
    assert_eq!(status, 0, "{err}");
    assert!(out.contains("Knobs: cache.policy (1)\n"), "{out}");
    assert!(out.contains("2 configurations, 2 of them to begin with; all of them"), "{out}");
    assert!(out.ends_with("at most 4 min\n"), "{out}");
}

#[test]
fn what_is_wrong_is_said_in_a_line() {
    let check = |more: &[&str], expected: &str| {
        let (status, out, err) = Tuning::new().run(more);
        assert_eq!(status, 2, "{more:?}: {out}{err}");
        assert!(err.contains(expected) && err.trim_end().lines().count() == 1, "{more:?}: {err}");
    };
    check(&["--knob=speed"], "--knob speed: there is no such knob; there are ");
    check(&["--knob=cache.policy"], "--knob cache.policy: it was named before");
    check(&["--knob=socket.listeners=none"], "=none: it cannot be \"none\": auto, shared, ");
    check(&["--knob=socket.listeners=auto,auto"], "=auto,auto: \"auto\" is named twice");
    check(&["--condition=p98=1ms"], "--condition: p98: a run keeps only the percentiles p50, p90");
    check(&["--condition=speed=1"], "--condition: \"speed=1\": a condition is ");
    check(
        &[TIGHT, "--method=grid"],
        "2 configurations take longer than --budget 36s: name fewer knobs ",
    );
    check(&[TIGHT, "--method=grid"], ", or take --method halving or --budget ");
    let scratch = Temporary::new();
    let scratch = format!("--scratch={}", scratch.path().display());
    let check_alone = |option: &str, expected: &str| {
        let (status, out, err) = run(&["tune", "ropewalk:event-loop", option, &scratch]);
        assert_eq!(status, 2, "{option}: {out}{err}");
        assert!(err.contains(expected) && err.trim_end().lines().count() == 1, "{err}");
    };
    check_alone("--confidence=100", "--confidence 100: write a percentage from 50, and below 100");
    check_alone("--budget=1s", "--budget 1s: a first look at 4 configurations takes longer: take ");
    check_alone("--budget=30s", ": take a shorter --window, or --budget 3m\n");
    check_alone("--knob=cache.policy=s3-fifo", ": there is nothing to choose from; name several");
}
