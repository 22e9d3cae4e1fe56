//! `ropewalk serve` with worker processes: their fate when the server is stopped, or dies.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use os::accounting;
use os::control_groups::{hierarchy_with_controller, unified};
use os::guard::Guard;
use testkit::{NEEDS_ROOT, Temporary, comes_true, is_root, wait_until};

use crate::machine::skip;
use crate::server_process::{
    ROPEWALK, ServerProcess, TIME_TO_END, for_each_engine, request_status, serve, served,
    take_until,
};

fn server(directory: &Temporary, more: &[&str]) -> ServerProcess {
    directory.file("index.html", "<h1>Rope</h1>");
    let mut arguments = vec!["--engine", "event-loop-copies", "--set", "engine.processes=2"];
    arguments.extend(TIME_TO_END);
    arguments.extend(more);
    served(directory.path(), &arguments)
}

/// The children of a process.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let children = accounting::processes().filter(|process| process.parent == pid);
    children.map(|process| process.pid).collect()
}

/// Whether a process runs: false if it has ended, even if it is still listed.
pub(crate) fn is_running(pid: u32) -> bool {
    accounting::process(pid).is_some_and(|process| !process.has_ended)
}

fn signal(name: &str, pid: u32) {
    let kill = format!("kill -s {name} {pid}");
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

/// They have no more say than the worker process itself, which the server tells by the parents of a
/// process.
#[test]
fn what_a_process_of_a_worker_process_leaves_stays_below_the_worker_process() {
    let directory = Temporary::new();
    directory.file("index.html", "<h1>Rope</h1>");
    let arguments = ["--engine", "processes", "--set", "engine.processes=1"];
    let server = served(directory.path(), &arguments);
    assert_eq!(server.status("/"), 200);
    let worker = children(server.pid())[0];
    let master = children(worker)[0];
    let serving = children(master);
    assert!(!serving.is_empty());
    // So that it does not end for want of a master.
    signal("STOP", worker);
    let _guard = Guard::new("kill -s KILL \"$1\"", [worker.to_string()]).unwrap();
    signal("KILL", master);
    let is_below = |pid: &u32| accounting::process(*pid).is_some_and(|it| it.parent == worker);
    let outcome = comes_true(|| serving.iter().all(is_below));
    signal("CONT", worker);
    assert!(outcome, "they are killed with their parent, and their parent is then the worker");
}

#[test]
fn worker_processes_end_with_the_server() {
    let directory = Temporary::new();
    let server = server(&directory, &[]);
    let workers = children(server.pid());
    assert_eq!(workers.len(), 2);
    // Signals that a service manager or a terminal sends to all processes are for the supervisor
    // only.
    for worker in &workers {
        ["TERM", "INT", "HUP", "USR1"].into_iter().for_each(|name| signal(name, *worker));
    }
    assert_eq!((0..8).filter(|_| server.status("/") == 200).count(), 8);
    assert_eq!(children(server.pid()), workers, "none has ended");
    let lines = server.stop();
    assert_eq!(lines.last().unwrap(), "ropewalk: stopped after 8 requests on 8 connections");
    assert!(!workers.into_iter().any(is_running));
}

#[test]
fn worker_processes_end_when_the_supervisor_is_killed() {
    let directory = Temporary::new();
    let server = server(&directory, &[]);
    let workers = children(server.pid());
    let mut resting = server.connect();
    assert_eq!(request_status(&mut resting, "/"), Some(200));
    signal("KILL", server.pid());
    wait_until(|| !workers.iter().copied().any(is_running));
    assert_eq!(request_status(&mut resting, "/"), None, "its connection is closed");
}

/// A server that forks, with its processes: the worker processes, their masters, and the processes
/// of these.
fn forking_server(directory: &Temporary) -> (ServerProcess, [Vec<u32>; 3]) {
    directory.file("index.html", "<h1>Rope</h1>");
    // Starts the server so that a busy process does not make the pool grow.
    let settings = ["--engine", "processes", "--set", "engine.knobs.spare_min=1"];
    let server = served(directory.path(), &[&settings[..], &TIME_TO_END].concat());
    assert_eq!(server.status("/"), 200);
    let workers = children(server.pid());
    let masters: Vec<u32> = workers.iter().flat_map(|pid| children(*pid)).collect();
    let pool = || masters.iter().flat_map(|pid| children(*pid)).collect::<Vec<u32>>();
    wait_until(|| pool().len() == 5);
    let pool = pool();
    assert_eq!((workers.len(), masters.len()), (1, 1));
    (server, [workers, masters, pool])
}

#[test]
fn the_processes_of_a_server_end_with_it() {
    let directory = Temporary::new();
    let (server, all) = forking_server(&directory);
    let lines = server.stop();
    assert_eq!(lines.last().unwrap(), "ropewalk: stopped after 1 requests on 1 connections");
    assert!(!all.concat().into_iter().any(is_running));
    let (server, all) = forking_server(&directory);
    signal("KILL", server.pid());
    wait_until(|| !all.concat().into_iter().any(is_running));
}

#[test]
fn a_killed_process_takes_along_its_children_and_is_replaced() {
    for level in [0, 1] {
        let directory = Temporary::new();
        let (server, all) = forking_server(&directory);
        let mut resting = server.connect();
        assert_eq!(request_status(&mut resting, "/"), Some(200));
        signal("KILL", all[level][0]);
        wait_until(|| !all[1..].concat().into_iter().any(is_running));
        assert_eq!(request_status(&mut resting, "/"), None, "its connection is closed");
        assert_eq!(server.status("/"), 200, "others are there");
        let lines = server.stop();
        let expected = match level {
            0 => "ended by signal 9; another takes its place",
            _ => "the master of the processes: it was killed by signal 9; another takes its place",
        };
        assert!(lines.iter().any(|line| line.ends_with(expected)), "{lines:?}");
    }
}

/// A stop interrupts a wait with a timeout for another process, although no signal is handled.
#[test]
fn a_server_that_is_stopped_and_continued_while_it_starts_goes_on() {
    for engine in ["event-loop-copies", "event-loop-shared-cache", "event-loop-helpers"] {
        let directory = Temporary::new();
        directory.file("index.html", "<h1>Rope</h1>");
        let (begun, serves) = (directory.path().join("pid"), AtomicBool::new(false));
        let tell = format!("echo $$ > {}; exec \"$@\"", begun.display());
        let mut shell = Command::new("sh");
        shell.args(["-c", &tell, "sh", ROPEWALK]);
        serve(&mut shell, directory.path()).args(["--engine", engine]);
        if engine == "event-loop-helpers" {
            shell.args(["--set", "engine.knobs.kind=processes"]);
        }
        thread::scope(|scope| {
            let pausing = scope.spawn(|| {
                let pid = || fs::read_to_string(&begun).ok()?.trim().parse::<u32>().ok();
                wait_until(|| pid().is_some());
                while !serves.load(Ordering::Relaxed) {
                    signal("STOP", pid().unwrap());
                    signal("CONT", pid().unwrap());
                }
            });
            let server = ServerProcess::start(&mut shell);
            serves.store(true, Ordering::Relaxed);
            pausing.join().unwrap();
            assert_eq!(server.status("/"), 200, "{engine}");
        });
    }
}

/// Servers are stopped and continued while clients wait: one rests, one has sent part of a head,
/// and one does not yet read its response.
#[test]
fn a_server_that_is_stopped_and_continued_while_it_serves_loses_no_connection() {
    const LARGE: usize = 16 << 20;
    const PAUSE: Duration = Duration::from_millis(20);
    let directory = Temporary::new();
    directory.file("index.html", "<h1>Rope</h1>");
    directory.file("large", "r".repeat(LARGE));
    for_each_engine(|arguments| {
        // The time for a head is so long that no client reaches it.
        let head = ["--set", "timeouts.head_ms=600000"];
        let server = served(directory.path(), &[arguments, &head].concat());
        let [mut rests, mut begins, mut takes] = [(); 3].map(|()| server.connect());
        rests.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        take_until(&mut rests, b"</h1>");
        begins.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        takes.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        thread::sleep(PAUSE); // until all processes wait
        let all = descendants(server.pid());
        for _ in 0..3 {
            os::signals::send("STOP", &all);
            wait_until(|| all.iter().all(|pid| is_stopped(*pid)));
            os::signals::send("CONT", &all);
            thread::sleep(PAUSE);
        }
        rests.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        take_until(&mut rests, b"</h1>");
        begins.write_all(b"Host: h\r\n\r\n").unwrap();
        take_until(&mut begins, b"</h1>");
        let mut response = Vec::new();
        takes.read_to_end(&mut response).unwrap();
        assert!(response.len() > LARGE, "{arguments:?}: {} bytes", response.len());
    });
}

/// `kill -QUIT` ends the server as `kill -TERM` does: responses under way are sent whole, however
/// slowly a client reads.
#[test]
fn a_quit_signal_lets_downloads_finish() {
    /// More than the kernel's buffers of both ends hold.
    const LARGE: u64 = 16 << 20;
    let directory = Temporary::new();
    File::create(directory.path().join("large")).unwrap().set_len(LARGE).unwrap();
    for_each_engine(|arguments| {
        // The drain time is so long that no server reaches it.
        let drain = ["--set", "timeouts.drain_ms=3600000"];
        let server = served(directory.path(), &[arguments, &drain].concat());
        let (address, mut download) = (server.address(), server.connect());
        assert_eq!(request_status(&mut download, "/large"), Some(200), "{arguments:?}");
        os::signals::send("QUIT", &[server.pid()]);
        wait_until(|| TcpStream::connect(address).is_err());
        // Most of the file has not been sent yet: now the client reads the rest.
        let came = std::io::copy(&mut download, &mut std::io::sink()).unwrap();
        assert!(came >= LARGE, "{arguments:?}: {came} bytes came");
        let lines = server.wait_for_end();
        let last = lines.last().unwrap();
        assert!(last.starts_with("ropewalk: stopped after 1 requests on "), "{lines:?}");
    });
}

/// The process and all its descendants.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let theirs = children(pid).into_iter().flat_map(descendants);
    std::iter::once(pid).chain(theirs).collect()
}

/// The memory of a process that no file holds: its part of what it shares included.
fn own_bytes(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let own = text.lines().filter_map(|line| {
        let value = line.strip_prefix("Pss_Anon:").or_else(|| line.strip_prefix("Pss_Shmem:"))?;
        value.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    own.sum::<u64>() * 1024
}

pub(crate) fn is_stopped(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "))
}

/// A control group with a memory limit for its processes; none where the test may not create one.
pub(crate) struct MemoryGroup(PathBuf);

impl MemoryGroup {
    pub(crate) fn new(bytes_max: u64) -> Option<Self> {
        let hierarchy = hierarchy_with_controller("memory").or_else(unified)?;
        let file = if hierarchy.is_unified() { "memory.max" } else { "memory.limit_in_bytes" };
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let (pid, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = hierarchy.mount.join(format!("ropewalk-pinched-{pid}-{number}"));
        fs::create_dir(&folder).ok()?;
        let group = Self(folder);
        fs::write(group.0.join(file), bytes_max.to_string()).ok()?;
        Some(group)
    }

    /// Why the test cannot make one.
    pub(crate) fn obstacle() -> &'static str {
        if is_root() { "there is no memory controller" } else { NEEDS_ROOT }
    }

    /// A shell that joins the group and becomes the program that follows.
    pub(crate) fn shell(&self) -> Command {
        let enter = format!("echo 0 > {}/cgroup.procs; exec \"$@\"", self.0.display());
        let mut shell = Command::new("sh");
        shell.args(["-c", &enter, "sh"]);
        shell
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        wait_until(|| fs::remove_dir(&self.0).is_ok());
    }
}

/// Without measures of the server, the kernel would kill the supervisor first, which has the most
/// memory and frees nothing.
#[test]
fn when_memory_runs_out_a_connection_is_lost_and_not_the_server() {
    const BYTES_MAX: u64 = 24 << 20;
    let Some(group) = MemoryGroup::new(BYTES_MAX) else {
        return skip("a server that is short of memory", MemoryGroup::obstacle());
    };
    let directory = Temporary::new();
    directory.file("index.html", "<h1>Rope</h1>");
    let mut shell = group.shell();
    shell.arg(ROPEWALK);
    let server =
        ServerProcess::start(serve(&mut shell, directory.path()).args(["--engine", "processes"]));
    let before = children(server.pid());
    let mut clients: Vec<TcpStream> = Vec::new();
    let mut is_lost = || {
        clients.push(server.connect());
        request_status(clients.last_mut().unwrap(), "/") != Some(200)
    };
    // More clients than the pool may have processes.
    let lost = (0..300).filter(|_| is_lost()).count();
    drop(clients);
    wait_until(|| request_status(&mut server.connect(), "/") == Some(200));
    assert_eq!(children(server.pid()), before, "the worker process is the same");
    let lines = server.stop();
    let killed = lines.iter().filter(|line| line.contains("killed by signal 9")).count();
    assert!(killed > 0, "memory did not run out; {lost} lost: {lines:#?}");
}

/// Requests `files` files at once, and waits for the last of them.
fn request_all(stream: &mut TcpStream, files: usize) {
    let request = |file| format!("GET /{file} HTTP/1.1\r\nHost: h\r\n\r\n");
    let requests: String = (0..files).map(|file| request(file.to_string())).collect();
    stream.write_all((requests + &request("last".into())).as_bytes()).unwrap();
    take_until(stream, b"THE END");
}

/// Pages of its master's memory that a process of a pool writes become its own. So the master must
/// have little memory, however many processes it has forked before.
#[test]
fn the_last_of_a_pool_takes_no_more_memory_than_the_first() {
    const PROCESSES: usize = 80;
    const FILES: usize = 300;
    let directory = Temporary::new();
    (0..FILES).for_each(|file| drop(directory.file(&file.to_string(), "r".repeat(100))));
    directory.file("last", "THE END");
    let knobs = ["preforked", "processes_max", "spare_max"];
    let knobs = knobs.map(|name| format!("--set=engine.knobs.{name}={PROCESSES}"));
    let mut arguments = vec!["--engine", "processes", "--set", "cache.bytes_max=20MiB"];
    // The clients send requests one after the other, which takes long on a busy machine.
    arguments.extend(["--set", "timeouts.head_ms=600000", "--set", "timeouts.idle_ms=600000"]);
    arguments.extend(knobs.iter().map(String::as_str));
    let server = served(directory.path(), &arguments);
    let masters: Vec<u32> = children(server.pid()).into_iter().flat_map(children).collect();
    let pool = || children(masters[0]);
    wait_until(|| pool().len() == PROCESSES);
    let mut clients: Vec<TcpStream> = (0..PROCESSES).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| request_all(client, FILES));
    let mut pids = pool();
    pids.sort_unstable();
    let own =
        |pids: &[u32]| pids.iter().map(|pid| own_bytes(*pid)).sum::<u64>() / pids.len() as u64;
    let (first, last) = (own(&pids[..10]), own(&pids[PROCESSES - 10..]));
    assert!(last < first + first / 4, "{last} bytes each, the first {first}");
}

#[test]
fn one_of_a_pool_that_is_killed_is_reported_and_replaced() {
    let directory = Temporary::new();
    let (server, [_, masters, pool]) = forking_server(&directory);
    let mut resting = server.connect();
    assert_eq!(request_status(&mut resting, "/"), Some(200));
    pool.iter().for_each(|pid| signal("KILL", *pid));
    assert_eq!(request_status(&mut resting, "/"), None, "its connection is lost");
    assert_eq!(server.status("/"), 200, "others are there");
    assert!(masters.into_iter().all(is_running));
    for pid in pool {
        let expected = format!("ropewalk: processes: process {pid} was killed by signal 9: ");
        server.wait_for_line(|line| line.starts_with(&expected));
    }
    server.stop();
}

fn server_with_helpers(directory: &Temporary) -> ServerProcess {
    directory.file("index.html", "<h1>Rope</h1>");
    let knobs = ["kind=processes", "helpers=2", "workers=1"];
    let knobs = knobs.map(|knob| format!("engine.knobs.{knob}"));
    let mut arguments = vec!["--engine", "event-loop-helpers"];
    knobs.iter().for_each(|knob| arguments.extend(["--set", knob]));
    served(directory.path(), &arguments)
}

#[test]
fn a_helper_process_that_is_killed_is_reported_and_replaced() {
    let directory = Temporary::new();
    let server = server_with_helpers(&directory);
    let helpers = children(server.pid());
    assert_eq!(helpers.len(), 2);
    // Signals that a service manager or a terminal sends to all processes are for the server only.
    ["TERM", "INT", "HUP", "USR1"].into_iter().for_each(|name| signal(name, helpers[0]));
    signal("KILL", helpers[1]);
    wait_until(|| {
        let now = children(server.pid());
        now.len() == 2 && now.contains(&helpers[0]) && !now.contains(&helpers[1])
    });
    assert_eq!((0..8).filter(|_| server.status("/") == 200).count(), 8);
    let told = format!("(pid {}) ended by signal 9", helpers[1]);
    server.wait_for_line(|line| line.ends_with(&told));
    let lines = server.stop();
    assert_eq!(lines.iter().filter(|line| line.ends_with(&told)).count(), 1, "{lines:?}");
    assert!(!children(std::process::id()).contains(&helpers[0]) && !is_running(helpers[0]));
}

#[test]
fn helper_processes_end_when_the_server_is_killed() {
    let directory = Temporary::new();
    let server = server_with_helpers(&directory);
    let helpers = children(server.pid());
    signal("KILL", server.pid());
    wait_until(|| !helpers.iter().copied().any(is_running));
}

#[test]
fn a_worker_process_is_nothing_to_start_by_hand() {
    let (status, _, errors) = crate::run(&["worker", "0", "0/1/1024", "1000"]);
    assert_eq!(status, 2);
    let expected = "ropewalk: only a server that runs starts worker processes: descriptor 1000 is \
                    not open\n";
    assert_eq!(errors, expected);
    assert!(!crate::run(&["help"]).1.contains("worker"), "nor is it in the help");
}

/// Their arguments are right, and one descriptor is free, where they need two.
#[test]
fn a_process_that_the_system_refuses_a_descriptor_has_failed() {
    let refused = |script: &str| {
        let script = format!("exec 4</dev/null 5<&4 {script}");
        let (status, _, errors) =
            testkit::finished(Command::new("sh").args(["-c", &script, ROPEWALK]));
        (status, errors)
    };
    let helper = refused("; ulimit -n 6; exec \"$0\" worker helper 4 5");
    let why = "a process of the server cannot begin: Too many open files (os error 24)";
    assert_eq!(helper, (1, format!("ropewalk: {why}\n")));
    // Its reports go to the supervisor.
    let worker = refused("6<&4 7<&4 8<&4; ulimit -n 9; exec \"$0\" worker 0 0/1/1024 4 5 6 7 8");
    assert_eq!(worker, (1, String::new()));
}

#[test]
fn lines_of_several_processes_on_standard_output_are_whole() {
    let directory = Temporary::new();
    let out = directory.path().join("out.log");
    directory.file("index.html", "<h1>Rope</h1>");
    let script = "exec \"$0\" \"$@\" >\"$OUT\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, ROPEWALK]).env("OUT", &out);
    serve(&mut command, directory.path());
    command.args(["--engine", "event-loop-shared-listener", "--set", "engine.processes=2"]);
    command.args(["--log", "json", "--set", "log.buffer_bytes=1024"]).args(TIME_TO_END);
    let server = ServerProcess::start(&mut command);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100).for_each(|_| assert_eq!(server.status("/"), 200)));
        }
    });
    server.stop();
    let text = fs::read_to_string(out).unwrap();
    assert_eq!(text.lines().count(), 400);
    let whole = |line: &str| line.starts_with("{\"time\":") && line.ends_with('}');
    assert!(text.lines().all(whole));
}
