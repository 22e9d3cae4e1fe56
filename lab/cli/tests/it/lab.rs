//! `ropewalk compare` and `ropewalk study` from the outside: real servers are started, loaded and
//! stopped, and the records read. No test here measures speed, so the bounds on the generator's own
//! lag, and on interference by other processes on the CPUs, are lifted.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use lab::Void;
use lab::record::{Absent, Folder, Header, Opened, Run};
use load::void::Void as LoadVoid;
use testkit::{Temporary, thread_folders};

use crate::machine::networks_can_be_made;
use crate::server_process::{ropewalk_server, served};
use crate::{ropewalk, run, start_until};

const STUDY: &str = r#"
title = "two engines at three rates"
servers = ["ropewalk:event-loop", "ropewalk:threads", "no-such-thing"]
repetitions = 2
window = "100ms"
lag_bound = "60s"
interference_bound = "100%"
[offered]
rates = [200, 400, 800]
[[workloads]]
name = "one file"
files = "--single 1000"
log = "--single 1000 --lengths 1 --requests 100"
load = "--connection keep"
"#;

/// With this option no run is void because other processes use the CPUs.
pub(crate) const LIFTED: &str = "--interference-bound=100%";
/// A window in which a server that gets hardly any CPU beside other tests gives a few answers.
pub(crate) const WINDOW: &str = "--window=1s";

/// A folder for all files of a command, and the means to run commands in it.
pub(crate) struct Lab(Temporary);

impl Lab {
    pub(crate) fn new() -> Self {
        Self(Temporary::new())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs a command with a scratch folder and a records folder of its own. A study spends no time
    /// on the path's ceiling.
    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        if arguments[0] == "study" && !arguments.contains(&"--servers") {
            let descriptions = self.without_floor();
            return self.run_with_floor(&[arguments, &["--servers", text(&descriptions)]].concat());
        }
        self.run_with_floor(arguments)
    }

    /// Runs a study that measures the path's ceiling before.
    pub(crate) fn run_with_floor(&self, arguments: &[&str]) -> (i32, String, String) {
        let (scratch, records) = (self.path("scratch"), self.path("records"));
        let places = ["--scratch", text(&scratch), "-o", text(&records)];
        run(&[arguments, &places].concat())
    }

    /// A study with a scratch folder and a records folder of its own, to be started. It spends no
    /// time on the path's ceiling.
    pub(crate) fn study_command(&self, options: &[&str]) -> Command {
        let places = ["scratch", "records"].map(|name| self.path(name));
        let places = ["--scratch", text(&places[0]), "-o", text(&places[1])];
        let descriptions = self.without_floor();
        ropewalk(&[&["study", "--servers", text(&descriptions)], options, &places].concat())
    }

    pub(crate) fn records(&self) -> Opened {
        Folder::read(&self.path("records")).unwrap()
    }

    /// A folder of further servers, of which the floor is not installed: without it no time is
    /// spent on the path's ceiling.
    pub(crate) fn without_floor(&self) -> PathBuf {
        let descriptions = self.path("servers");
        if !descriptions.exists() {
            fs::create_dir(&descriptions).unwrap();
            let floor =
                format!("{OWN_SERVER}command = [\"PROGRAM\"]\n").replace("\"own\"", "\"floor\"");
            let floor = floor.replace("PROGRAM", text(&self.path("no-program")));
            fs::write(descriptions.join("floor.toml"), floor).unwrap();
        }
        descriptions
    }

    /// Adds the description of a server called `own`, which is started by the lines `start`, to
    /// the folder of further servers.
    pub(crate) fn own_server(&self, start: &str) -> PathBuf {
        let descriptions = self.without_floor();
        let described =
            format!("{OWN_SERVER}{start}\n").replace("PROGRAM", text(&ropewalk_server()));
        fs::write(descriptions.join("own.toml"), described).unwrap();
        descriptions
    }

    /// Writes the file of an experiment, with `from` replaced by `to`.
    fn study(&self, from: &str, to: &str) -> PathBuf {
        let path = self.path("experiment.toml");
        let text = if from.is_empty() { STUDY.into() } else { STUDY.replace(from, to) };
        fs::write(&path, text).unwrap();
        path
    }
}

/// A list of records on a disk that has become full.
pub(crate) struct FullDisk {
    list: PathBuf,
    kept: PathBuf,
}

impl FullDisk {
    /// From now on nothing can be written to the end of the list.
    pub(crate) fn under(list: &Path) -> Self {
        let [kept, full] = ["kept", "full"].map(|name| list.with_extension(name));
        fs::hard_link(list, &kept).unwrap();
        symlink("/dev/full", &full).unwrap();
        fs::rename(&full, list).unwrap();
        Self { list: list.to_owned(), kept }
    }

    /// From now on something can.
    pub(crate) fn make_room(self) {
        fs::rename(self.kept, self.list).unwrap();
    }
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn two_engines_are_compared() {
    let lab = Lab::new();
    let servers = ["compare", "ropewalk:event-loop", "ropewalk:threads", "--workload", "1KB"];
    let short = ["--pairs", "2", WINDOW, "--lag-bound", "60s", LIFTED];
    let (status, out, err) = lab.run(&[&servers[..], &short].concat());
    assert_eq!(status, 3, "{out}{err}");
    assert!(out.contains("CPU us/request"), "{out}");
    assert!(out.contains("\nVerdict: cannot tell. It takes 6 good pairs"), "{out}");
    let opened = lab.records();
    let good = opened.runs.iter().filter(|run| run.void.is_empty()).count();
    assert_eq!(good, 8, "two pairs of two phases: {out}");
    assert!(opened.runs.iter().all(|run| run.observed["cpu_us"] > 0.0));
    assert_eq!(opened.environments.len(), 1, "the machine is known");
    let page = fs::read_to_string(lab.path("records/report.html")).unwrap();
    assert!(page.contains("ropewalk:threads") && page.ends_with("</html>\n"), "a page");
}

/// A comparison of a server with itself shows how different equals appear; each comparison has its
/// records in a new folder. A folder that already has records is refused before anything starts.
#[test]
fn a_server_is_compared_with_itself() {
    let lab = Lab::new();
    let scratch = lab.path("scratch");
    fs::create_dir_all(scratch.join("compare-1")).unwrap();
    let servers = ["compare", "ropewalk:event-loop", "ropewalk:event-loop/default"];
    let short = ["--workload=1KB", "--pairs=6", "--window=100ms", "--lag-bound=60s", LIFTED];
    let places = ["--scratch", text(&scratch)];
    let (status, out, err) = run(&[&servers[..], &short, &places].concat());
    let expected = if out.contains("\nVerdict: cannot tell") { 3 } else { 0 };
    assert_eq!(status, expected, "{out}{err}");
    assert!(out.contains("B  ropewalk:event-loop again/default "), "{out}");
    let records = scratch.join("compare-2");
    assert!(out.contains(&format!("More: {}", records.join("report.html").display())), "{out}");
    let runs = Folder::read(&records).unwrap().runs;
    let of = |name: &str| runs.iter().filter(|run| run.point.server == name).count();
    assert!(of("ropewalk:event-loop") >= 12 && of("ropewalk:event-loop again") >= 12, "{out}");
    let page = fs::read_to_string(records.join("report.html")).unwrap();
    assert!(!page.contains("only one took part"));
    let (status, out, err) =
        run(&[&servers[..], &short, &places, &["-o", text(&records)]].concat());
    let expected = ": there are records in it already: choose another directory (-o)\n";
    assert!(status == 2 && out.is_empty() && err.ends_with(expected), "{out}{err}");
    // A comparison that fails leaves no records.
    let mistaken = ["compare", "ropewalk:event-loop,more=speed=1", servers[1]];
    let (status, _, err) = run(&[&mistaken[..], &short, &places].concat());
    assert!(status == 1 && err.contains("it does not serve (it ended): ropewalk: "), "{err}");
    assert!(err.contains("speed") && err.lines().count() == 1, "{err}");
    assert!(!scratch.join("compare-3").exists());
}

/// Recorded traffic is replayed against a server that runs already.
#[test]
fn a_server_that_runs_is_compared_by_its_own_log() {
    let lab = Lab::new();
    let site = lab.path("site");
    fs::create_dir(&site).unwrap();
    fs::write(site.join("a.html"), "hello").unwrap();
    let log = lab.path("access.log");
    let line = "127.0.0.1 - - [22/Nov/2026:10:00:00 +0000] \"GET /a.html HTTP/1.1\" 200 5\n";
    fs::write(&log, line.repeat(20)).unwrap();
    let server = served(&site, &[]);
    let url = format!("http://{}", server.address());
    let servers = ["compare", &url, "ropewalk:event-loop"];
    let what = ["--log", text(&log), "--root", text(&site), "--pairs", "1"];
    let short = [WINDOW, "--lag-bound", "60s", LIFTED];
    let (status, out, err) = lab.run(&[&servers[..], &what, &short].concat());
    assert_eq!(status, 3, "{out}{err}");
    assert!(out.contains("20 requests for 1 files"), "{out}");
    assert!(out.contains("not measured"), "its processor time is not known: {out}");
    assert!(out.contains("A against B in requests/s"), "{out}");
}

/// Servers that run already have their files: no directory is needed.
#[test]
fn servers_that_run_are_compared_by_a_log_alone() {
    let lab = Lab::new();
    let site = lab.path("site");
    fs::create_dir(&site).unwrap();
    fs::write(site.join("a.html"), "hello").unwrap();
    let log = lab.path("access.log");
    // The file was compressed then: its logged length differs from the bytes that are sent now.
    let line = "127.0.0.1 - - [22/Nov/2026:10:00:00 +0000] \"GET /a.html HTTP/1.1\" 200 3\n";
    fs::write(&log, line.repeat(20)).unwrap();
    let servers = [served(&site, &[]), served(&site, &[])];
    let urls = servers.each_ref().map(|server| format!("http://{}", server.address()));
    let what = ["compare", &urls[0], &urls[1], "--log", text(&log), "--pairs", "1"];
    let short = [WINDOW, "--lag-bound=60s", LIFTED];
    let (status, out, err) = lab.run(&[&what[..], &short].concat());
    assert_eq!(status, 3, "{out}{err}");
    assert!(out.contains("20 requests for 1 files"), "{out}");
    // Servers that lack a file are not compared.
    fs::write(&log, line.replace("/a.html", "/b.html").repeat(20)).unwrap();
    let (scratch, others) = (lab.path("scratch"), lab.path("others"));
    let places = ["--scratch", text(&scratch), "-o", text(&others)];
    let (status, _, err) = run(&[&what[..], &places].concat());
    assert_eq!(status, 1, "{err}");
    assert!(err.contains("it does not serve everything"), "{err}");
    assert!(!others.exists(), "what comes to nothing leaves nothing");
}

#[test]
fn what_is_wrong_is_said_in_a_line() {
    let lab = Lab::new();
    let started = "ropewalk is started here: say with --root DIR which directory it shall serve";
    let running = "http://127.0.0.1:9";
    let (log, empty) = (lab.path("access.log"), lab.path("empty"));
    fs::write(&log, "::1 - - [22/Nov/2026:10:00:00 +0000] \"GET /a HTTP/1.1\" 200 5\n").unwrap();
    fs::create_dir(&empty).unwrap();
    let empty = ["compare", "ropewalk", "ropewalk", "--log", text(&log), "--root", text(&empty)];
    let cases: &[(&[&str], i32, &str)] = &[
        (&["compare", "nothing", "ropewalk"], 2, "there is no server \"nothing\": see `ropewalk s"),
        (&["compare", "ropewalk", "ropewlak"], 2, "\"ropewlak\" (did you mean \"ropewalk\"?): see"),
        (&["tune", "ropewlak"], 2, "\"ropewlak\" (did you mean \"ropewalk\"?): see `ropewalk serv"),
        (&["compare", "ropewalk/fast", "ropewalk"], 2, "ropewalk has no setting fast"),
        (&["compare", "ropewalk,x=1", "ropewalk"], 2, "ropewalk has no knob x"),
        (&["compare", "ropewalk,a=1,a=2", "ropewalk"], 2, "is no server: a is turned twice; "),
        (&["compare", "https://127.0.0.1", "ropewalk"], 2, "TLS is not supported; "),
        (&["compare", running, "ropewalk"], 1, "http://127.0.0.1:9 does not answer: "),
        (&["compare", "http://nowhere.invalid", "ropewalk"], 1, "http://nowhere.invalid: failed "),
        (&["tune", "http://nowhere.invalid"], 1, "http://nowhere.invalid: failed to lookup "),
        (&empty, 2, "workload access.log: no file that its log requests is in "),
        (
            &["compare", "ropewalk", "ropewalk", "--workload", "x"],
            2,
            "--workload x: it must be one of zipf, ",
        ),
        (&["compare", "ropewalk", "ropewalk", "--window", "1"], 2, "--window 1: "),
        (&["compare", running, "ropewalk", "--log", "/x"], 2, started),
        (&["tune", "ropewalk", "--log", "/x"], 2, started),
        (&["compare", running, running, "--log=/x", "--verify-bytes"], 2, "--verify-bytes: say"),
        (&["compare", "ropewalk", "ropewalk", "--workload=zipg"], 2, "(did you mean \"zipf\"?)"),
        (&["compare", running, running, "--log=/x"], 2, "/x: there is no such file: name a web s"),
        (
            &["compare", running, running, "--log", text(&log), "--root=sorce"],
            2,
            "--root: \"sorce\"",
        ),
        (
            &["compare", "ropewalk", "ropewalk", "--servers=severs"],
            2,
            "(did you mean \"servers\"?)",
        ),
        (
            &["tune", "ropewalk", "--knob=engin=x"],
            2,
            "no such knob (did you mean \"engine\"?); there",
        ),
        (&["study", "/nonexistent.toml"], 2, "/nonexistent.toml: there is no such file: name the"),
        (
            &["study", "experiments/ourselves-serves.toml"],
            2,
            "(did you mean \"experiments/ourselves-s",
        ),
        (&["study", "a\u{1b}[2J\n"], 2, "a\\u{1b}[2J\\n: there is no such file"),
    ];
    for (arguments, expected_status, expected) in cases {
        let (status, out, err) = lab.run(arguments);
        assert_eq!(status, *expected_status, "{arguments:?}: {out}{err}");
        assert!(err.contains(expected), "{arguments:?}: {err}");
        assert_eq!(err.trim_end().lines().count(), 1, "{err}");
    }
}

/// Studies are refused that would not measure what was meant, or would never end.
#[test]
fn a_study_says_in_a_line_what_it_cannot_do() {
    let lab = Lab::new();
    let testbed_cpus = "a study's testbeds assign the CPUs: put `cpus` and `client_cpus` ";
    let engines = r#""ropewalk:event-loop", "ropewalk:threads", "no-such-thing""#;
    let twice = "ropewalk:threads/default is the same as ropewalk:threads: leave one of them out";
    let cases: &[(&str, &str, &[&str], &str)] = &[
        ("", "", &["--server-cpus=0"], &format!("--server-cpus: {testbed_cpus}")),
        ("", "", &["--client-cpus=0"], &format!("--client-cpus: {testbed_cpus}")),
        (engines, r#""ropewalk:threads", "ropewalk:threads/default""#, &[], twice),
        ("[200, 400, 800]", "[200, 400, 200]", &[], "rates: 200 is listed twice"),
        ("repetitions", "floor = \"x\"\nrepetitions", &[], "floor: \"x\" is none of the servers"),
        ("repetitions", "conditions = \"p98=1ms\"\nrepetitions", &["--mat"], "p98: a run keeps"),
        ("", "", &["--lag-bound=20"], "--lag-bound 20: "),
        ("", "", &["--interference-bound=120%"], "--interference-bound 120%: give a share"),
        ("", "", &["--budget=1s"], "a budget of 1 s: a run of this study alone is estimated to "),
    ];
    for (from, to, options, expected) in cases {
        let experiment = lab.study(from, to);
        let (status, out, err) = lab.run(&[&["study", text(&experiment)], *options].concat());
        assert_eq!((status, err.trim_end().lines().count()), (2, 1), "{to}: {out}{err}");
        assert!(err.contains(expected), "{to}{options:?}: {err}");
    }
}

/// With a wrong option every run would be void.
#[test]
fn options_of_the_load_are_checked_first() {
    let lab = Lab::new();
    let cases = [
        (
            "--conection keep",
            "--conection: there is no such load option (did you mean \"--connection\"?)",
        ),
        ("--timeout 5", "--timeout 5: "),
        ("--seed 5", "--seed: each run gives it itself: leave it out"),
        ("--lag-bound 5s", "--lag-bound: each run gives it itself: leave it out"),
    ];
    for (load, expected) in cases {
        let experiment = lab.study("--connection keep", load);
        let definition = fs::read_to_string(&experiment).unwrap();
        fs::write(&experiment, definition.replace(", \"no-such-thing\"", "")).unwrap();
        let (status, _, err) = lab.run(&["study", text(&experiment)]);
        assert_eq!((status, err.trim_end().lines().count()), (2, 1), "{load}: {err}");
        assert!(err.contains(&format!("workload one file: `load`: {expected}")), "{load}: {err}");
    }
}

#[test]
fn a_study_from_its_file_to_its_records() {
    let lab = Lab::new();
    let experiment = lab.study(", \"no-such-thing\"", "");
    let (status, out, err) = lab.run(&["study", text(&experiment)]);
    assert_eq!(status, 0, "{out}{err}");
    assert!(out.contains("2 servers, 1 workload, 1 testbed, 2 repetitions: about "), "{out}");
    let opened = lab.records();
    assert_whole(&opened);
    assert_eq!(opened.environments.len(), 1);
    let run = &opened.runs[0];
    assert!(run.warm_up_s > 0.0, "{run:?}");
    assert!(lab.path("records").join(&run.outcome_file).exists());
    let configurations: Vec<&String> =
        opened.header.servers.iter().flat_map(|server| server.configurations.values()).collect();
    assert!(configurations.iter().all(|text| text.contains(" serve ")), "{configurations:?}");
    assert_eq!(configurations.len(), 2);
    let again = lab.run(&["study", text(&experiment)]);
    assert_eq!(again.0, 2, "there is a study in it: {again:?}");
    let (status, out, _) = lab.run(&["study", text(&experiment), "--resume"]);
    assert_eq!((status, lab.records().runs.len()), (0, opened.runs.len()), "{out}");
}

/// The wrong folder was named: status 2. Another process or the system is in the way: 1.
#[test]
fn what_is_wrong_with_a_folder_of_records_has_one_status_in_all_commands() {
    let lab = Lab::new();
    let experiment = lab.study(", \"ropewalk:threads\", \"no-such-thing\"", "");
    let records = lab.path("records");
    let list = records.join("runs.jsonl");
    let study = ["study", text(&experiment)];
    let resumed = ["study", text(&experiment), "--resume"];
    let tune = ["tune", "ropewalk:event-loop", "--workload=1KB", "--budget=9m", LIFTED];
    let check = |arguments: &[&str], expected: i32, why: &str| {
        let (status, out, err) = match arguments[0] {
            "report" => run(arguments),
            _ => lab.run(arguments),
        };
        assert!(status == expected && err.ends_with(why), "{arguments:?}: {status} {out}{err}");
    };
    let report = ["report", text(&records)];
    let absent = ": name the directory of a study, a tuning or a comparison\n";
    check(&report, 2, absent);
    check(&resumed, 2, absent);
    let folder = Folder::create(&records, &Header::default()).unwrap();
    let locked = ": another process works on this study\n";
    [&study[..], &resumed, &tune].into_iter().for_each(|command| check(command, 1, locked));
    drop(folder);
    let taken = ": there is a study in it already; resume it (--resume) or choose another \
                 directory\n";
    [&study[..], &tune].into_iter().for_each(|command| check(command, 2, taken));
    fs::create_dir(&list).unwrap();
    let refused = "runs.jsonl: Is a directory (os error 21)\n";
    [&report[..], &resumed].into_iter().for_each(|command| check(command, 1, refused));
    fs::remove_dir(&list).unwrap();
    fs::write(&list, "no JSON\n").unwrap();
    let damaged = "runs.jsonl: line 1: expected ident at line 1 column 2\n";
    [&report[..], &resumed].into_iter().for_each(|command| check(command, 1, damaged));
    fs::remove_file(records.join("study.json")).unwrap();
    check(&study, 2, ", of a study whose study.json is gone: choose another directory\n");
    fs::write(records.join("study.json"), "{\"format\": \"x\"}").unwrap();
    let foreign = ": not a study: its format is `x`\n";
    [&report[..], &resumed].into_iter().for_each(|command| check(command, 2, foreign));
}

/// A definition that is wrong ends with status 2, a system that does not give what it needs with 1.
#[test]
fn a_workload_that_cannot_be_made_has_the_status_of_whose_fault_it_is() {
    let lab = Lab::new();
    let files = "files = \"--single 1000\"";
    let experiment = lab.study(", \"no-such-thing\"", "");
    let right = fs::read_to_string(&experiment).unwrap();
    let check = |to: &str, expected: i32, why: &str| {
        fs::write(&experiment, right.replace(files, to)).unwrap();
        let (status, out, err) = lab.run(&["study", text(&experiment)]);
        assert!(status == expected && err.contains(why), "{to}: {status} {out}{err}");
    };
    let at = |line: usize| format!("{}: line {line}: workload one file: ", experiment.display());
    check(
        "files = \"--single many\"",
        2,
        &(at(12) + "`files`: --single many: \"many\" is no size"),
    );
    check("files = \"--threads 2\"", 2, &(at(12) + "`files`: "));
    let log = "\"--single 1000 --lengths 1 --requests 100\"";
    let wrong = "\"--single 1000 --length 1\"";
    let near = "`log`: --length: there is no such log option (did you mean \"--lengths\"?)";
    fs::write(&experiment, right.replace(log, wrong)).unwrap();
    let (status, _, err) = lab.run(&["study", text(&experiment)]);
    assert!(status == 2 && err.contains(&(at(13) + near)), "{err}");
    fs::write(&experiment, right.replace("--lengths 1", "--lengths many")).unwrap();
    let (status, _, err) = lab.run(&["study", text(&experiment)]);
    assert!(status == 2 && err.contains("one file: `log`: ropewalk: --lengths \"many\""), "{err}");
    check("root = \"/gone\"", 1, "workload one file: /gone: No such file");
    let tune = ["tune", "ropewalk:event-loop", "--workload=1KB", "--budget=9m", LIFTED];
    fs::remove_dir_all(lab.path("scratch")).unwrap();
    fs::create_dir(lab.path("scratch")).unwrap();
    fs::write(lab.path("scratch/files"), "").unwrap();
    check(files, 1, "workload one file: ");
    let (status, _, err) = lab.run(&tune);
    assert!(status == 1 && err.contains("workload 1KB: ") && err.contains("Not a dir"), "{err}");
}

/// They decide whether its claims can be judged, and the study says with how many they are.
#[test]
fn repetitions_that_are_typed_replace_those_of_the_file() {
    let lab = Lab::new();
    let experiment = lab.study(", \"no-such-thing\"", "");
    let study = fs::read_to_string(&experiment).unwrap().replace("[200, 400, 800]", "[200]");
    let claims = "[[claims]]\ntext = 'c'\nservers = ['ropewalk:threads']\n";
    fs::write(&experiment, study.clone() + claims).unwrap();
    let dry = |options: &[&str]| {
        let (status, out, err) =
            lab.run(&[&["study", text(&experiment), "--dry-run"], options].concat());
        assert_eq!(status, 0, "{err}");
        out
    };
    let (few, many) = (dry(&[]), dry(&["--repetitions=6"]));
    let hint = "\ntoo few repetitions for its claims to be decided: --repetitions 6: about ";
    let (before, after) = few.split_once(hint).unwrap();
    assert!(before.contains(", 2 repetitions: about "), "{few}");
    assert!(many.contains(&format!(", 6 repetitions: about {after}")), "{few}{many}");
    assert!(!many.contains("too few"), "{many}");
    fs::write(&experiment, study).unwrap();
    let run = |options: &[&str]| lab.run(&[&["study", text(&experiment)], options].concat());
    let (status, out, err) = run(&["--repetitions=1"]);
    assert_eq!(status, 0, "{out}{err}");
    let opened = lab.records();
    assert_eq!((opened.header.repetitions, opened.runs.len() % 2), (1, 0));
    assert!(opened.header.definition.contains("repetitions = 1\n"), "{:?}", opened.header);
    let (status, _, err) = run(&["--resume"]);
    assert!(status == 2 && err.contains("begun with another definition"), "{err}");
    let (status, out, err) = run(&["--resume", "--repetitions", "1"]);
    assert_eq!(status, 0, "{out}{err}");
    let (status, _, err) = run(&["--repetitions", "0"]);
    assert_eq!((status, err.trim_end().lines().count()), (2, 1), "{err}");
    assert!(err.contains("--repetitions 0: "), "{err}");
}

/// A generator that cannot keep up is not mistaken for a slow server.
#[test]
fn runs_whose_generator_was_late_are_void() {
    let lab = Lab::new();
    let experiment = lab.study(", \"ropewalk:threads\", \"no-such-thing\"", "");
    let definition = fs::read_to_string(&experiment).unwrap();
    let definition = definition.replace("[200, 400, 800]", "[400]").replace("= 2\n", "= 1\n");
    fs::write(&experiment, definition).unwrap();
    let (status, out, err) = lab.run(&["study", text(&experiment), "--lag-bound", "1us"]);
    assert_eq!(status, 1, "{out}{err}");
    assert!(err.contains("every run was void"), "{out}{err}");
    assert!(out.contains("Nothing could be measured: ropewalk report "), "{out}");
    let runs = lab.records().runs;
    let attempts: Vec<u32> = runs.iter().map(|run| run.attempt).collect();
    assert_eq!(attempts, [0, 1, 2], "it is made again");
    let late =
        |run: &Run| run.void.iter().any(|why| matches!(why, Void::Load(LoadVoid::Late { .. })));
    assert!(runs.iter().all(late), "{runs:?}");
    let (status, page, err) =
        run(&["report", text(&lab.path("records")), "--format=markdown", "-o", "-"]);
    assert_eq!(status, 0, "{err}");
    assert!(page.contains("3 of 3 runs were void and take no part: generator saturated"), "{page}");
}

/// Asserts that each point has both repetitions, each once.
fn assert_whole(opened: &Opened) {
    let mut blocks = BTreeMap::<String, Vec<u32>>::new();
    for run in opened.runs.iter().filter(|run| run.void.is_empty()) {
        let point = format!("{} {:?}", run.point.server, run.point.offered);
        blocks.entry(point).or_default().push(run.block);
    }
    assert_eq!(blocks.len(), 6, "{blocks:?}");
    assert!(blocks.values().all(|blocks| *blocks == [0, 1]), "{blocks:?}");
}

/// Starts the study, and returns it once there are `runs` runs.
fn under_way(lab: &Lab, options: &[&str], runs: usize) -> Child {
    let mut command = lab.study_command(options);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::null());
    start_until(command, &lab.path("records/runs.jsonl"), runs)
}

/// A study that is interrupted keeps its measurements, and so does one that is killed; either can
/// be resumed.
#[test]
fn a_study_that_is_interrupted_and_killed_goes_on() {
    let lab = Lab::new();
    let experiment = lab.study(", \"no-such-thing\"", "");
    let (scratch, experiment) = (lab.path("scratch"), text(&experiment));
    let child = under_way(&lab, &[experiment], 3);
    send_interrupt(&child.id().to_string());
    let output = child.wait_with_output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(out.contains("--resume"), "{out}");
    await_no_server(&scratch);
    let interrupted = lab.records().runs;
    let mut child = under_way(&lab, &[experiment, "--resume"], interrupted.len() + 2);
    child.kill().unwrap();
    child.wait().unwrap();
    let before = lab.records().runs;
    assert_eq!(before[..interrupted.len()], interrupted[..], "what was measured stays");
    await_no_server(&scratch);
    let (status, out, err) = lab.run(&["study", experiment, "--resume"]);
    assert_eq!(status, 0, "{out}{err}");
    assert!(out.contains("Going on after "), "{out}");
    let opened = lab.records();
    assert_whole(&opened);
    assert_eq!(opened.runs[..before.len()], before[..], "what was measured stays");
    assert_eq!(opened.environments.len(), 3, "the machine is looked at each time");
    // These options change what is measured, and were not given when the study was begun.
    for flag in ["--mat", "--lag-bound=50s", "--interference-bound=20%"] {
        let (status, _, err) = lab.run(&["study", experiment, "--resume", flag]);
        assert_eq!(status, 2, "{flag}: {err}");
        assert!(err.contains("it was begun with another definition"), "{err}");
    }
}

/// Waits until the servers of a killed study have ended by themselves.
pub(crate) fn await_no_server(scratch: &Path) {
    let is_alive = || {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok()).any(|line| {
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains(text(scratch)) && !line.contains("read -r nothing")
        })
    };
    for _ in 0..600 {
        if !is_alive() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("a server is left");
}

/// Two copies of a server run in a network of their own; each gets requests from two subnets, each
/// with its own generator, and the outcomes are combined.
#[test]
fn a_study_in_networks_with_replicas() {
    if !networks_can_be_made() {
        return;
    }
    let lab = Lab::new();
    let testbed = r#"
[[testbeds]]
name = "four subnets"
cpus = 2
client_cpus = 0
replicas = 2
network = { subnets = 4, sources = 2 }
"#;
    let experiment = lab.study(", \"ropewalk:threads\", \"no-such-thing\"", "");
    let definition = fs::read_to_string(&experiment).unwrap();
    let definition = definition.replace("[200, 400, 800]", "[400]").replace("= 2\n", "= 1\n");
    let definition = definition.replace("--connection keep", "--connection keep --idle 6");
    fs::write(&experiment, definition + testbed).unwrap();
    let (status, out, err) = lab.run_with_floor(&["study", text(&experiment)]);
    assert_eq!(status, 0, "{out}{err}");
    let opened = lab.records();
    let good: Vec<&Run> = opened.runs.iter().filter(|run| run.void.is_empty()).collect();
    assert_eq!(good.len(), 1, "{out}");
    assert!(!err.contains("its ceiling is not known"), "{err}");
    for run in good {
        let figures = run.figures.as_ref().unwrap();
        assert!(figures.requests_due > 4 && figures.errors.is_empty(), "{figures:?}");
        assert_eq!((figures.idle_connections, figures.idle_closed), (6, 0), "shared by the four");
        let outcome = fs::read_to_string(lab.path("records").join(&run.outcome_file)).unwrap();
        let subnets = (1..=4).filter(|subnet| outcome.contains(&format!("10.77.{subnet}.1:")));
        assert_eq!(subnets.count(), 4, "{outcome}");
    }
}

/// The description of a user's own server, without the lines that start it.
const OWN_SERVER: &str = r#"
name = "own"
description = "one of our own"
package = "no package"
detect = { command = ["PROGRAM", "--version"], version_after = "ropewalk " }
settings = [{ name = "usual", about = "all there is" }]
ready = { within_ms = 25000 }
stop = { signal = "TERM" }
[start]
"#;

/// A server that ends after twenty requests, unless it is the first copy.
const FRAGILE: &str = r#"
command = ["sh", "-c", """
    if mkdir MARK 2> /dev/null; then exec "$@"; fi
    "$@" &
    until [ "$(wc -l < access.log)" -gt 20 ]; do sleep 0.01; done
    kill -s KILL $!
""", "sh", "PROGRAM", "serve", "{root}", "--listen", "{listen}:{port}",
    "--set", "log.access=json", "--set", "log.path={work_dir}/access.log"]
"#;

/// When any of several copies ends the run is void.
#[test]
fn a_run_of_which_a_copy_ends_is_void() {
    let lab = Lab::new();
    let descriptions = lab.own_server(&FRAGILE.replace("MARK", text(&lab.path("mark"))));
    let testbed = "\n[[testbeds]]\nname = \"two\"\ncpus = 2\nclient_cpus = 0\nreplicas = 2\n";
    let servers = r#""ropewalk:event-loop", "ropewalk:threads", "no-such-thing""#;
    let experiment = lab.study(servers, "\"own\"");
    let definition = fs::read_to_string(&experiment).unwrap();
    let definition = definition.replace("[200, 400, 800]", "[400]").replace("= 2\n", "= 1\n");
    fs::write(&experiment, definition + testbed).unwrap();
    let (status, out, err) =
        lab.run(&["study", text(&experiment), "--servers", text(&descriptions)]);
    assert_eq!(status, 1, "{out}{err}");
    let runs = lab.records().runs;
    let first = runs[0].void.iter().map(Void::to_string).collect::<Vec<_>>().join("; ");
    assert!(first.contains("copy 2 of 2 of the server has ended"), "{first}{out}{err}");
    assert!(!first.contains("copy 1"), "{first}");
}

/// Ctrl-C in a terminal is sent to the whole process group. It does not cut short the window under
/// way; a window that is cut short by other means makes a void run.
#[test]
fn a_window_is_whole_or_void() {
    let lab = Lab::new();
    let experiment = lab.study(", \"no-such-thing\"", "");
    let definition = fs::read_to_string(&experiment).unwrap();
    fs::write(&experiment, definition.replace("\"100ms\"", "\"1500ms\"")).unwrap();
    let (scratch, records) = (lab.path("scratch"), lab.path("records"));
    let mut command = lab.study_command(&[text(&experiment)]);
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    let cut = await_window(&scratch, None);
    send_interrupt(&cut.to_string());
    // The next window is that of the same run again, or of the warm-up before it.
    await_window(&scratch, Some(cut));
    send_interrupt(&format!("-{}", child.id()));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    await_no_server(&scratch);
    let runs = lab.records().runs;
    assert_eq!(runs.len(), 2, "{runs:?}");
    let is_it = |why: &Void| why.to_string().contains("was interrupted");
    assert!(runs[0].void.iter().any(is_it), "{runs:?}");
    assert_eq!((runs[1].void.len(), runs[1].attempt), (0, 1), "{runs:?}");
    let outcome = fs::read_to_string(records.join(&runs[1].outcome_file)).unwrap();
    let outcome: serde_json::Value = serde_json::from_str(&outcome).unwrap();
    assert_eq!(outcome["interrupted"], false);
}

/// Waits until a generator other than the process `but` works on a window of 1.5 s at a rate.
/// Returns its process number.
fn await_window(scratch: &Path, but: Option<u32>) -> u32 {
    for _ in 0..4_000 {
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            let pid = entry.file_name().to_string_lossy().parse().ok();
            let words = [text(scratch), "\x001500000us\x00", "\x00--request-rate\x00"];
            let is_it = words.iter().all(|word| line.contains(word));
            // The generator handles signals before it starts the threads that send requests, which
            // it does when it knows the beginning of the window, a moment ahead.
            let begins = |&pid: &u32| Some(pid) != but && has_thread(pid, "load-");
            if let Some(pid) = pid.filter(|_| is_it).filter(begins) {
                thread::sleep(Duration::from_millis(300));
                return pid;
            }
        }
        thread::sleep(Duration::from_millis(25));
    }
    panic!("no window has begun");
}

/// Whether the process has a thread whose name begins so.
fn has_thread(pid: u32, name: &str) -> bool {
    let threads = thread_folders(pid).into_iter();
    let mut names = threads.filter_map(|one| fs::read_to_string(one.join("comm")).ok());
    names.any(|one| one.starts_with(name))
}

/// Sends SIGINT to a process or, with a minus sign before the number, to its process group.
fn send_interrupt(target: &str) {
    let kill = format!("kill -s INT -- {target}");
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

#[test]
fn a_study_tells_what_it_would_do() {
    let lab = Lab::new();
    let experiment = lab.study(", \"no-such-thing\"", "");
    let (status, out, err) = lab.run(&["study", text(&experiment), "--dry-run"]);
    assert_eq!(status, 0, "{out}{err}");
    assert!(out.starts_with("two engines at three rates\n"), "{out}");
    assert!(!lab.path("records").exists());
    let experiment = lab.study("nothing is replaced", "");
    let (status, _, err) = lab.run(&["study", text(&experiment), "--dry-run"]);
    assert_eq!(status, 2, "{err}");
    assert!(err.contains("there is no server \"no-such-thing\""), "{err}");
}

/// What comes before a study and is in no estimate is said before it is done.
#[test]
fn servers_that_are_built_from_source_are_named_first() {
    let lab = Lab::new();
    let experiment = lab.study("\"no-such-thing\"", "\"own\"");
    let descriptions = lab.own_server("command = [\"PROGRAM\", \"{root}\", \"{port}\"]");
    let options = ["--dry-run", "--servers", text(&descriptions)];
    let line = "built from source first, which the estimate of time does not include: own\n";
    for (build, expected) in [("", false), ("build = { command = ['true'], folder = '/' }", true)] {
        let file = descriptions.join("own.toml");
        fs::write(&file, format!("{build}\n{}", fs::read_to_string(&file).unwrap())).unwrap();
        let (status, out, err) = lab.run(&[&["study", text(&experiment)], &options[..]].concat());
        assert_eq!(status, 0, "{out}{err}");
        assert_eq!(out.starts_with(line), expected, "{out}");
    }
}

/// A key that is misspelt is named with its file, its line and the nearest right one.
#[test]
fn misspelt_keys_of_files_are_named_with_their_lines() {
    let lab = Lab::new();
    let check = |(from, to): (&str, &str), more: &[&str], expected: &str| {
        let experiment = lab.study(from, to);
        let (status, out, err) = lab.run(&[&["study", text(&experiment)], more].concat());
        assert_eq!((status, out.as_str()), (2, ""), "{err}");
        assert!(err.contains(expected) && err.trim_end().lines().count() == 1, "{err}");
    };
    let near =
        "experiment.toml: line 4: unknown key \"repetitons\" (did you mean \"repetitions\"?)";
    check(("repetitions", "repetitons"), &[], near);
    let descriptions = lab.own_server("command = [\"PROGRAM\", \"{root}\", \"{port}\"]");
    let file = descriptions.join("own.toml");
    let text_of = fs::read_to_string(&file).unwrap().replace("description", "descripton");
    fs::write(&file, text_of).unwrap();
    let near = "own.toml: line 3: unknown key \"descripton\" (did you mean \"description\"?)";
    check(("", ""), &["--servers", text(&descriptions)], near);
}

/// Testbeds that the machine cannot provide are found before anything is measured.
#[test]
fn testbeds_that_cannot_be_had_are_skipped() {
    let lab = Lab::new();
    let experiment = lab.study(", \"no-such-thing\"", "");
    let definition = fs::read_to_string(&experiment).unwrap();
    let huge = "\n[[testbeds]]\nname = \"huge\"\ncpus = 4096\n";
    let here = "\n[[testbeds]]\nname = \"here\"\nclient_cpus = 0\naffinity = \"workers\"\n";
    let text = |testbeds: &str| {
        let short = definition.replace("[200, 400, 800]", "[400]").replace("= 2\n", "= 1\n");
        fs::write(&experiment, short + testbeds).unwrap();
    };
    text(huge);
    let (status, out, err) = lab.run(&["study", self::text(&experiment)]);
    assert_eq!(status, 1, "{out}{err}");
    assert!(err.contains("none of the testbeds can be made here"), "{err}");
    text(&format!("{huge}{here}"));
    let (status, out, err) = lab.run(&["study", self::text(&experiment)]);
    assert_eq!(status, 0, "{out}{err}");
    assert!(out.contains("skipped testbed huge: 4096 CPUs are wanted"), "{out}");
    assert!(out.contains("1 testbed,"), "{out}");
    let opened = lab.records();
    assert_eq!(opened.header.skipped[0].what, Absent::Testbed { testbed: "huge".into() });
    assert!(opened.runs.iter().all(|run| run.point.testbed == "here"));
    let unbound = |run: &Run| run.not_available.iter().any(|line| line.starts_with("workers of "));
    assert!(!opened.runs.iter().any(unbound), "Ropewalk binds its workers itself");
}

/// A server whose workers cannot be bound takes no part in a testbed where each worker has a CPU of
/// its own; the others do.
#[test]
fn servers_that_cannot_be_bound_by_worker_are_skipped() {
    let lab = Lab::new();
    let descriptions = lab.own_server(
        r#"command = ["PROGRAM", "serve", "{root}", "--listen", "{listen}:{port}"]
        workers = { unbindable = "they wander" }"#,
    );
    let experiment = lab.study("ropewalk:threads\", \"no-such-thing", "own");
    let definition = fs::read_to_string(&experiment).unwrap();
    let testbed = |name: &str, affinity: &str| {
        format!("\n[[testbeds]]\nname = \"{name}\"\nclient_cpus = 0\naffinity = \"{affinity}\"\n")
    };
    let short = definition.replace("[200, 400, 800]", "[400]").replace("= 2\n", "= 1\n");
    fs::write(&experiment, short + &testbed("bound", "workers") + &testbed("free", "set")).unwrap();
    let (status, out, err) =
        lab.run(&["study", text(&experiment), "--servers", text(&descriptions)]);
    assert_eq!(status, 0, "{out}{err}");
    let expected = "own in testbed bound";
    assert!(out.contains(&format!("skipped {expected}: its workers cannot be bound")), "{out}");
    assert!(out.contains("to a CPU each: they wander\n"), "{out}");
    let opened = lab.records();
    let absent = Absent::ServerIn { server: "own".into(), testbed: "bound".into() };
    let skipped: Vec<&Absent> = opened.header.skipped.iter().map(|it| &it.what).collect();
    assert_eq!(skipped, [&absent]);
    let mut places: Vec<String> =
        opened.runs.iter().map(|run| run.point.server.clone() + " " + &run.point.testbed).collect();
    places.sort();
    places.dedup();
    assert_eq!(places, ["own free", "ropewalk:event-loop bound", "ropewalk:event-loop free"]);
}
