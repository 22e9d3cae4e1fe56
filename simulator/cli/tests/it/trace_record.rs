//! `ropewalk trace record` from the outside: its endings, and the files that remain.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use memory_trace::{Event, Reader};
use testkit::tools::{self, CURL, QEMU, VALGRIND, has};
use testkit::{ENDINGS, Temporary, heeded};

use crate::{ropewalk_sim, run};

/// The recorders that are available on this machine. Missing ones are reported as skipped.
fn recorders() -> impl Iterator<Item = &'static str> {
    let all = [("valgrind", &VALGRIND), ("qemu", &QEMU)];
    all.into_iter().filter(|(_, tool)| has(tool)).map(|(recorder, _)| recorder)
}

/// Starts to record a command that does not end by itself.
fn started(folder: &Temporary, recorder: &str) -> Child {
    let out = folder.path().join("trace");
    let mut command = ropewalk_sim(&["trace", "record", "--out", out.to_str().unwrap()]);
    command.arg("--scratch").arg(folder.path());
    command.args(["--recorder", recorder, "--", "sleep", "600"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for the first file in the folder of records; returns that folder and the file's name.
fn first_chunk(folder: &Path) -> (PathBuf, String) {
    let look = || {
        let entries = std::fs::read_dir(folder).ok()?;
        let paths = entries.map(|entry| entry.unwrap().path());
        let records = paths.filter(|path| path.to_string_lossy().contains("ropewalk-trace-"));
        let records = records.last()?;
        let names = std::fs::read_dir(&records).ok()?;
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        Some((records, names.filter(|name| name.ends_with("-0.0")).last()?))
    };
    (0..2400).find_map(|_| look().or_else(|| rest(25))).expect("something is recorded")
}

fn rest<T>(ms: u64) -> Option<T> {
    thread::sleep(Duration::from_millis(ms));
    None
}

fn signal(name: &str, pid: u32) {
    let status = std::process::Command::new("sh")
        .args(["-c", "kill -s \"$1\" \"$2\"", "sh", name, &pid.to_string()])
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn an_interrupt_ends_the_command_and_the_trace_is_whole() {
    recorders().for_each(check_interrupt);
}

fn check_interrupt(recorder: &str) {
    let folder = Temporary::new();
    let child = started(&folder, recorder);
    first_chunk(folder.path());
    signal("INT", child.id());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("\n1 processes, "), "{said}");
    assert!(said.contains("the command ended with signal: 15"), "{said}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "the trace only: {left:?}");
}

#[test]
fn a_recorder_that_is_killed_leaves_nothing_behind() {
    recorders().for_each(check_kill);
}

fn check_kill(recorder: &str) {
    let folder = Temporary::new();
    let mut child = started(&folder, recorder);
    let (records, chunk) = first_chunk(folder.path());
    let pid = chunk.split('-').next().unwrap().to_owned();
    signal("KILL", child.id());
    child.wait().unwrap();
    // Processes have 20 seconds to end before they are killed.
    let until = |done: &dyn Fn() -> bool| (0..2400).any(|_| done() || rest::<()>(25).is_some());
    assert!(until(&|| !records.exists()), "{}", records.display());
    // A process that has ended has no arguments, even while its parent has not waited for it.
    let arguments = Path::new("/proc").join(pid).join("cmdline");
    assert!(until(&|| std::fs::read(&arguments).unwrap_or_default().is_empty()));
}

#[test]
fn mistakes_are_reported_in_a_line() {
    let (status, _, said) = run(&["trace", "record", "--out", "x", "--recipe", "nonsense"]);
    assert_eq!((status, said.lines().count()), (2, 1), "{said}");
    assert!(said.contains("no recipe nonsense: there are nginx, "), "{said}");
    let (_, _, said) = run(&["trace", "record", "--out", "x", "--recipe", "ngnix"]);
    assert!(said.ends_with(" or name a .toml file (did you mean \"nginx\"?)\n"), "{said}");
    let (status, _, said) = run(&["trace", "record", "--out", "x"]);
    assert_eq!(status, 2, "{said}");

    let lacking = |recorder: &str, expected: &str| {
        let folder = Temporary::new();
        let mut command = ropewalk_sim(&["trace", "record", "--recorder", recorder, "--out", "x"]);
        command.args(["--", "true"]).current_dir(folder.path());
        let output = command.env("PATH", folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
        assert!(said.contains(expected), "{said}");
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    };
    let valgrind = "recording needs valgrind: apt-get install valgrind gcc libc6-dev";
    lacking("valgrind", valgrind);
    let qemu = "recording with QEMU needs qemu-x86_64: apt-get install qemu-user gcc libc6-dev";
    lacking("qemu", qemu);
}

/// Records a recipe of these steps; returns the status, the output, and the log.
fn recorded_recipe(
    folder: &Temporary,
    recorder: &str,
    steps: &str,
) -> (i32, String, String, String) {
    let recipe = folder.file("some.toml", format!("description = \"some\"\n{steps}"));
    let path = |path: &Path| path.display().to_string();
    let (recipe, scratch) = (path(&recipe), path(folder.path()));
    let out = path(&folder.path().join("some.trace"));
    let what = ["trace", "record", "--recipe", &recipe, "--recorder", recorder];
    let (status, printed, said) =
        run(&[&what[..], &["--scratch", &scratch, "--out", &out]].concat());
    let log = std::fs::read_to_string(format!("{out}.log")).unwrap();
    (status, printed, said, log)
}

#[test]
fn the_output_of_a_recipe_s_commands_is_in_a_log() {
    if !has(&VALGRIND) {
        return;
    }
    let folder = Temporary::new();
    // Apache's prefork, too, ends by a signal to its whole process group. A shell would miss the
    // signal while it forks, so the last of its processes reports that it runs.
    let steps = r#"
        [[step]]
        run = ["sh", "-c", "mkfifo rest && echo made"]
        [[step]]
        trace = ["sh", "-c", """
            echo served; echo badly >&2
            trap 'trap - TERM; kill -s TERM 0' TERM
            (: >done; : <rest) & wait # for ever
        """]
        until = "{folder}/done"
    "#;
    let (status, printed, said, log) = recorded_recipe(&folder, "valgrind", steps);
    assert_eq!(status, 0, "{said}");
    assert!(log.starts_with("$ sh -c mkfifo rest && echo made\nmade\n$ sh -c"), "{log}");
    assert!(log.ends_with("\nserved\nbadly\n"), "{log}");
    assert!(!printed.contains("served\n") && !said.contains("badly"), "{printed}{said}");
    assert!(printed.contains("ended with signal: 15"), "{printed}");
    assert!(!printed.contains("outlived"), "{printed}");
    assert!(printed.contains("note: what the commands printed is in "), "{printed}");
}

#[test]
fn a_recipe_s_command_that_fails_is_quoted() {
    if !has(&VALGRIND) {
        return;
    }
    let folder = Temporary::new();
    let failing = "[\"sh\", \"-c\", \"echo much; echo no such luck >&2; exit 3\"]";
    let check = |steps: &str, expected: &str| {
        let (status, printed, said, log) = recorded_recipe(&folder, "valgrind", steps);
        assert_eq!((status, printed.as_str(), said.lines().count()), (1, "", 2), "{said}");
        assert!(said.contains(expected), "{said}");
        assert!(said.contains("(all that was printed: "), "{said}");
        assert!(log.contains("\nmuch\nno such luck\n"), "{log}");
    };
    check(&format!("[[step]]\nrun = {failing}\n"), "exit status: 3: no such luck ");
    check(
        &format!("[[step]]\ntrace = {failing}\nuntil = \"/nowhere\"\n"),
        "it ended before it was ready: exit status: 3: no such luck ",
    );
}

/// A command with a file outside of its folder, as PostgreSQL has in /dev/shm: it removes the file
/// when it is asked to end, and leaves it behind when it is killed. Its end takes longer than the
/// time between two signals.
const UNTIDY: &str = "trap 'sleep 0.3; rm \"$1\"; exit' TERM; : >\"$1\"; \
                      while :; do sleep 0.1; done";

/// Ends the recording of a recipe at its last step; returns the status and the output.
fn ended(folder: &Temporary, steps: &str, last: &str, end: &dyn Fn(u32)) -> (Option<i32>, String) {
    let recipe = folder.file("some.toml", format!("description = \"some\"\n{steps}"));
    let mut command = ropewalk_sim(&["trace", "record", "--recipe"]);
    command.arg(recipe).arg("--scratch").arg(folder.path());
    command.arg("--out").arg(folder.path().join("some.trace"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let there = folder.path().join(last);
    let began = (0..2400).any(|_| there.exists() || rest::<()>(25).is_some());
    assert!(began, "{last}");
    end(child.id());
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_recipe_that_is_interrupted_is_ended_gently_and_leaves_nothing() {
    if !has(&VALGRIND) {
        return;
    }
    let gentle = heeded(&ENDINGS).into_iter().filter(|name| *name != "KILL");
    // timeout(1) sends the signal twice: to the process, and to its group.
    let ends = gentle.map(|name| (name, 1)).chain([("TERM", 2)]);
    for (name, times) in ends {
        let end = |pid| (0..times).for_each(|_| signal(name, pid));
        let folder = Temporary::new();
        let place = |file: &str| folder.path().join(file).display().to_string();
        let script = format!("{UNTIDY:?}");
        let background = format!("sh -c {UNTIDY:?} sh \"$1\" </dev/null >/dev/null 2>&1 &");
        let steps = format!(
            "[[step]]\nrun = [\"sh\", \"-c\", {background:?}, \"sh\", {:?}]\n\
             [[step]]\ntrace = [\"sh\", \"-c\", {script}, \"sh\", {:?}]\nuntil = {:?}\n\
             [[step]]\nrun = [\"sh\", \"-c\", {script}, \"sh\", {:?}]\n",
            place("of-daemon"),
            place("of-traced"),
            place("of-traced"),
            place("of-run")
        );
        let (status, said) = ended(&folder, &steps, "of-run", &end);
        assert_eq!(status, Some(1), "{name}: {said}");
        assert!(said.contains("interrupted (all that was printed: "), "{name}: {said}");
        let left =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<String> = left.map(|name| name.into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, ["some.toml", "some.trace.log"], "{name}");
    }
}

/// A server that forks its workers, becomes another user, and answers a request for a file while it
/// is recorded.
const NGINX: &str = r#"
    [files]
    "index.html" = "hello from all of us\n"
    "nginx.conf" = """
        daemon off;
        worker_processes 2;
        pid {folder}/nginx.pid;
        events { worker_connections 64; }
        http {
            access_log off;
            client_body_temp_path {folder}/body;
            proxy_temp_path {folder}/proxy;
            fastcgi_temp_path {folder}/fastcgi;
            uwsgi_temp_path {folder}/uwsgi;
            scgi_temp_path {folder}/scgi;
            sendfile on;
            server { listen 127.0.0.1:{port}; root {folder}; }
        }
    """
    [[step]]
    trace = ["nginx", "-c", "{folder}/nginx.conf", "-e", "{folder}/error.log"]
    until = "127.0.0.1:{port}"
    [[step]]
    run = ["curl", "-sS", "--fail", "http://127.0.0.1:{port}/index.html"]
    [[step]]
    stop = true
"#;

#[test]
fn all_processes_of_a_server_are_recorded_while_it_serves() {
    if !has(&tools::NGINX) || !has(&CURL) {
        return;
    }
    recorders().for_each(check_server);
}

fn check_server(recorder: &str) {
    let folder = Temporary::new();
    let (status, printed, said, log) = recorded_recipe(&folder, recorder, NGINX);
    assert_eq!(status, 0, "{recorder}: {said}{log}");
    assert!(log.contains("\nhello from all of us\n"), "{recorder}: {log}");
    let reader = Reader::open(&folder.path().join("some.trace")).unwrap();
    let [master, workers @ ..] = reader.processes() else { panic!("{recorder}: {printed}") };
    assert_eq!((master.parent, workers.len()), (None, 2), "{recorder}: {printed}");
    assert!(workers.iter().all(|worker| worker.parent == Some(master.id)), "{recorder}");
    let numbers = [master, &workers[0], &workers[1]].map(|process| calls(&reader, process.id));
    let count = |number| numbers.each_ref().map(|calls: &Vec<u32>| calls.contains(&number));
    let (sendfile, epoll_wait) = (count(40), count(232));
    assert_eq!(epoll_wait, [false, true, true], "{recorder}: only workers wait for clients");
    assert_eq!(sendfile.iter().filter(|&&it| it).count(), 1, "{recorder}: one has answered");
    assert!(!sendfile[0], "{recorder}: not the master");
}

/// The system calls of a process, by their numbers on x86-64.
fn calls(reader: &Reader, process: u32) -> Vec<u32> {
    let mut stream = reader.stream(process).unwrap();
    let (mut calls, mut block) = (Vec::new(), Vec::new());
    while stream.next_block(&mut block).unwrap() {
        calls.extend(block.drain(..).filter_map(|event| match event {
            Event::SystemCall { number } => Some(number),
            _ => None,
        }));
    }
    calls
}
