//! `ropewalk compare` where a server ends that should run. The bounds on the generator's own lag
//! and on interference are lifted, because no test here measures speed.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use lab::Void;

use crate::lab::{LIFTED, Lab, await_no_server, text};
use crate::{ropewalk, run, start_until};

/// A server that prints a word and ends once the folder MARK exists.
const MORTAL: &str = r#"
command = ["sh", "-c", """
    "$@" &
    until [ -d MARK ]; do sleep 0.01; done
    echo farewell
    kill -s KILL $!
""", "sh", "PROGRAM", "serve", "{root}", "--listen", "{listen}:{port}"]
"#;

const SHORT: [&str; 4] = ["--workload=1KB", "--window=300ms", "--lag-bound=60s", LIFTED];

/// A server that has ended is not compared, however good its windows before were.
#[test]
fn a_server_that_ends_wins_nothing() {
    let lab = Lab::new();
    let mark = lab.path("mark");
    let descriptions = lab.own_server(&MORTAL.replace("MARK", text(&mark)));
    let (scratch, records) = (lab.path("scratch"), lab.path("records"));
    let places =
        ["--scratch", text(&scratch), "-o", text(&records), "--servers", text(&descriptions)];
    let servers = ["compare", "own", "ropewalk:event-loop", "--pairs=200"];
    let mut command = ropewalk(&[&servers[..], &SHORT, &places].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let made = || fs::read_to_string(records.join("runs.jsonl")).unwrap_or_default();
    for _ in 0..6_000 {
        if made().lines().count() >= 4 {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    fs::create_dir(&mark).unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(err.starts_with("ropewalk: own/usual has ended (saturation, pair "), "{err}");
    assert!(err.contains("of 200); try fewer clients (--connections) or another setting"), "{err}");
    assert!(err.contains("Its output ended: ") && err.contains("farewell"), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    let runs = lab.records().runs;
    let of_dead = runs.iter().filter(|run| run.void.contains(&Void::Ended { copy: 1, copies: 1 }));
    // There is none if the server has ended between two windows.
    assert!(of_dead.count() <= 1, "it is known after one window: {runs:?}");
}

/// The servers are stopped and their files are removed. The end of the terminal has the same
/// effect, but it is not tested: tests may be run with SIGHUP ignored (nohup).
#[test]
fn a_comparison_that_is_interrupted_stops_its_servers_and_says_so() {
    for signal in ["INT", "TERM"] {
        let lab = Lab::new();
        let (scratch, records) = (lab.path("scratch"), lab.path("records"));
        let servers = ["compare", "ropewalk:event-loop", "ropewalk:event-loop", "--pairs=200"];
        let places = ["--scratch", text(&scratch), "-o", text(&records)];
        let mut command = ropewalk(&[&servers[..], &SHORT, &places].concat());
        let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
        let child = start_until(command, &records.join("runs.jsonl"), 2);
        let kill = format!("kill -s {signal} {}", child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{signal}: {output:?}");
        assert_eq!(err, "ropewalk: interrupted: there is no verdict on what was measured\n");
        await_no_server(&scratch);
        let left = fs::read_dir(&scratch).unwrap().flatten().map(|entry| entry.file_name());
        let mut left: Vec<_> = left.collect();
        left.sort();
        assert_eq!(left, ["files", "logs"], "{signal}");
    }
}

/// A server that ends before its first window leaves no records.
#[test]
fn a_server_that_ends_while_it_is_warmed_up_is_not_compared() {
    let lab = Lab::new();
    let mortal = MORTAL.replace("[ -d MARK ]", r#"[ "$(wc -l < access.log)" -gt 20 ]"#);
    let logged = r#""--set", "log.access=json", "--set", "log.path={work_dir}/access.log"]"#;
    let descriptions =
        lab.own_server(&mortal.replace("{port}\"]", &format!("{{port}}\", {logged}")));
    let servers = ["compare", "ropewalk:event-loop", "own", "--servers", text(&descriptions)];
    let (status, out, err) = lab.run(&[&servers[..], &SHORT].concat());
    assert_eq!(status, 1, "{out}{err}");
    assert!(err.contains("own/usual has ended (while it was warmed up); try "), "{err}");
    assert!(!lab.path("records").exists());
}

/// The CPUs of a server that runs already are not known.
#[test]
fn the_cpus_are_shown_only_for_servers_that_are_started_here() {
    let lab = Lab::new();
    let server = crate::server_process::served(&site(&lab), &[]);
    let url = format!("http://{}", server.address());
    let check = |second: &str, number: u32, expected: &str, caveat: &str| {
        let (scratch, records) = (lab.path("scratch"), lab.path(&format!("records-{number}")));
        let (root, log) = (lab.path("site"), lab.path("access.log"));
        let what = ["compare", &url, second, "--log", text(&log), "--root", text(&root)];
        let places = ["--scratch", text(&scratch), "-o", text(&records), "--pairs=2"];
        let (status, out, err) = run(&[&what[..], &SHORT[1..], &places].concat());
        assert_eq!(status, 3, "{out}{err}");
        let line = out.lines().nth(2).unwrap();
        assert!(line.starts_with(expected) && line.contains("clients on CPU "), "{out}");
        assert!(!line.contains("servers"), "{out}");
        assert!(out.contains(caveat), "{out}");
    };
    check(&url, 1, "clients on CPU ", "\nMind: both run as they were started: their workers, ");
    let unlike = format!("\nMind: {url} runs as it was started: its workers and its log may ");
    check("ropewalk:event-loop", 2, "ropewalk:event-loop/default on CPU ", &unlike);
}

/// A server that runs already writes what the clients request into its log, which the next
/// comparison would then replay.
#[test]
fn a_log_that_grows_during_the_comparison_is_named() {
    let lab = Lab::new();
    let (root, log) = (site(&lab), lab.path("access.log"));
    let gets = fs::read_to_string(&log).unwrap();
    let lines = gets.replace("GET", "HEAD") + &gets;
    fs::write(&log, &lines).unwrap();
    let bytes = lines.len();
    let place = format!("log.path={}", text(&log));
    let logging = ["--set", "log.access=combined", "--set", &place];
    let servers = [&logging[..], &[]].map(|set| crate::server_process::served(&root, set));
    let urls = servers.each_ref().map(|server| format!("http://{}", server.address()));
    let what = ["compare", &urls[0], &urls[1], "--log", text(&log), "--pairs=1"];
    let (status, out, err) = lab.run(&[&what[..], &SHORT[1..]].concat());
    assert_eq!(status, 3, "{out}{err}");
    let advice = format!("give the next one a copy: head -c {bytes} {} > mine.log\n", text(&log));
    assert!(err.contains("access.log has grown by ") && err.ends_with(&advice), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    // It is read once, before.
    assert!(
        out.contains("\n40 requests (20 of them HEAD) for 1 files, 2 bytes on average"),
        "{out}"
    );
}

/// Its files are not those that it should have.
#[test]
fn a_server_that_lacks_the_workload_is_told_where_the_files_are() {
    let lab = Lab::new();
    let server = crate::server_process::served(&site(&lab), &[]);
    let url = format!("http://{}", server.address());
    let (status, _, err) = lab.run(&[&["compare", &url, &url][..], &SHORT].concat());
    assert_eq!(status, 1, "{err}");
    assert!(
        err.contains("; the files of 1KB are in /") && err.contains(": serve these, "),
        "{err}"
    );
    assert!(err.ends_with(" or measure with requests of your own (--log FILE)\n"), "{err}");
}

/// Users read a page for a minute, all users behind a proxy appear as one client, and some files no
/// longer exist. In windows of a second such pauses are left out, and only files that the server
/// has are requested.
#[test]
fn a_log_of_real_users_can_be_replayed() {
    let lab = Lab::new();
    let root = site(&lab);
    let line = |client: u32, minute: u32| {
        format!(
            "10.0.0.{client} - - [22/Nov/2026:10:{minute:02}:00 +0000] \"GET /a.html HTTP/1.1\" \
             200 5\n"
        )
    };
    let lines = (0..20).flat_map(|minute| (0..5).map(move |client| line(client, minute)));
    let of_people = lines.collect::<String>();
    let gone = line(9, 30).replace("/a.html", "/gone.html?x=1");
    let of_proxy = (30..60).map(|minute| line(99, minute).repeat(5)).collect::<String>();
    fs::write(lab.path("access.log"), of_people + &gone + &of_proxy).unwrap();
    let log = lab.path("access.log");
    let what = ["compare", "ropewalk:event-loop", "ropewalk:event-loop", "--pairs=2"];
    let traffic = ["--log", text(&log), "--root", text(&root), "--connections=4"];
    let (status, out, err) = lab.run(&[&what[..], &traffic, &SHORT[1..]].concat());
    assert_eq!(status, 3, "{out}{err}");
    let gone = "; 250 of 251 requests are used: 1 for no file, such as /gone.html?x=1; \
                sessions of more than 100 requests are cut; the pauses in sessions are left out\n";
    assert!(out.contains(gone), "{out}");
    let runs = lab.records().runs;
    let served = runs.iter().filter_map(|run| run.figures.as_ref()).map(|f| f.throughput_per_s);
    let most = served.fold(0.0, f64::max);
    // With the pauses a window would have 4 requests: the first of each client.
    assert!(most > 100.0, "{most}");
}

/// Makes a directory and the access log of its files.
fn site(lab: &Lab) -> std::path::PathBuf {
    let site = lab.path("site");
    fs::create_dir(&site).unwrap();
    fs::write(site.join("a.html"), "hello").unwrap();
    let line = "127.0.0.1 - - [22/Nov/2026:10:00:00 +0000] \"GET /a.html HTTP/1.1\" 200 5\n";
    fs::write(lab.path("access.log"), line.repeat(20)).unwrap();
    site
}
