//! Ordinary users, containers that refuse system calls, file systems in memory: the server does
//! without what is missing there, and gives equal answers.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use testkit::tools::{IPROUTE2, PYTHON, SETPRIV, UNSHARE};
use testkit::{DocumentRoot, NEEDS_ROOT, Temporary, comes_true};

use crate::REPOSITORY;
use crate::machine::{has, run, skip};
use crate::processes::MemoryGroup;
use crate::server_process::{ROPEWALK, ServerProcess, conforms, request_status, serve};

/// The user and group `nobody`, which own no files.
const NOBODY: &str = "65534";

/// The command as an ordinary user, copied to `directory`, because that user may not be able to
/// reach the folder in which the command was built.
pub(crate) fn as_ordinary_user(directory: &Temporary) -> Option<Command> {
    let copy = directory.path().join("ropewalk");
    if !copy.exists() {
        testkit::install(ROPEWALK.as_ref(), &copy);
    }
    if !os::process::is_root() {
        return Some(Command::new(copy));
    }
    has(&SETPRIV).then(|| {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]).arg(copy);
        setpriv
    })
}

#[test]
fn an_ordinary_user_is_enough() {
    let directory = Temporary::new();
    let Some(command) = as_ordinary_user(&directory) else { return };
    conforms(command, &DocumentRoot::temporary().unwrap(), true);
}

#[test]
fn files_that_this_user_may_not_read_are_403_and_the_rest_is_served() {
    let directory = Temporary::new();
    let Some(mut command) = as_ordinary_user(&directory) else { return };
    let modes = [
        ("open.txt", 0o644),
        ("closed.txt", 0o000),
        ("shut/inside.txt", 0o644),
        ("hall/index.html", 0o644),
        ("empty/inside.txt", 0o644),
    ];
    for (name, mode) in modes {
        let file = directory.file(&format!("site/{name}"), name);
        std::fs::set_permissions(file, PermissionsExt::from_mode(mode)).unwrap();
    }
    let site = directory.path().join("site");
    let modes = [("shut", 0o000), ("hall", 0o311), ("empty", 0o311)];
    for (name, mode) in modes {
        std::fs::set_permissions(site.join(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    let rule = "host.header=[{ path = \"/**\", name = \"X-Frame-Options\", value = \"DENY\" }]";
    let settings = ["--set", "host.listing=true", "--set", rule];
    let server = ServerProcess::start(serve(&mut command, &site).args(settings));
    assert_eq!(server.status("/open.txt"), 200);
    let refused = server.fetch("/closed.txt");
    assert_eq!((refused.status, refused.field("X-Frame-Options").as_deref()), (403, Some("DENY")));
    for path in ["/shut", "/shut/", "/shut/inside.txt", "/empty", "/empty/"] {
        assert_eq!(server.status(path), 403, "{path}");
    }
    // A directory must be readable only to be listed.
    for (path, status) in [("/hall", 301), ("/hall/", 200), ("/empty/inside.txt", 200)] {
        assert_eq!(server.status(path), status, "{path}");
    }
    server.stop();
}

/// Makes files in `directory`, and gives each of these paths its mode.
fn files_with_modes(directory: &Temporary, files: &[&str], modes: &[(&str, u32)]) {
    for name in files {
        directory.file(name, name);
    }
    for (name, mode) in modes {
        let path = directory.path().join(name);
        std::fs::set_permissions(path, PermissionsExt::from_mode(*mode)).unwrap();
    }
}

#[test]
fn a_root_that_this_user_may_not_enter_is_one_line() {
    let directory = Temporary::new();
    let files = ["closed/index.html", "way/site/index.html"];
    files_with_modes(&directory, &files, &[("closed", 0), ("way", 0)]);
    for (root, closed, permissions) in [("closed", "closed", "rx"), ("way/site", "way", "x")] {
        let Some(mut command) = as_ordinary_user(&directory) else { return };
        let output = command.current_dir(directory.path()).args(["check", root]).output().unwrap();
        let expected = format!(
            "ropewalk: DIR: {root:?} cannot be served by this user (permission denied): run chmod \
             a+{permissions} {:?}, or name another directory\n",
            directory.path().join(closed)
        );
        assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
        assert_eq!(output.status.code(), Some(2), "{root}");
    }
}

/// Whether a log can be written is known before the server starts, and nothing is made or emptied
/// to find out.
#[test]
fn a_log_that_this_user_may_not_write_is_one_line() {
    let directory = Temporary::new();
    let files = ["site/index.html", "kept/a.log", "shut/b.log", "hidden/c.log"];
    let modes = [("kept/a.log", 0o444), ("shut", 0o555), ("hidden", 0)];
    files_with_modes(&directory, &files, &modes);
    std::os::unix::fs::symlink("shut/none.log", directory.path().join("link.log")).unwrap();
    let logs = [
        ("kept/a.log", "kept/a.log"),
        ("shut/new.log", "shut"),
        ("link.log", "shut"),
        ("hidden/c.log", "hidden"),
        ("hidden/in/d.log", "hidden"),
    ];
    for (log, refused) in logs {
        for subcommand in ["check", "serve"] {
            let Some(mut command) = as_ordinary_user(&directory) else { return };
            let set = format!("log.path={log}");
            let arguments = [subcommand, "site", "--log", "combined", "--set", &set];
            let command = command.current_dir(directory.path()).args(arguments);
            let output = command.output().unwrap();
            let refused = directory.path().join(refused);
            let expected = format!(
                "ropewalk: --set {set}: the access log {log:?} cannot be written (permission \
                 denied): let this user write to {refused:?}, or name another file\n"
            );
            assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
            assert_eq!(output.status.code(), Some(2), "{subcommand} {log}");
        }
    }
    let names = |name: &str| std::fs::read_dir(directory.path().join(name)).unwrap().count();
    assert_eq!(["kept", "shut"].map(names), [1, 1], "nothing was made");
    let kept = std::fs::read_to_string(directory.path().join("kept/a.log")).unwrap();
    assert_eq!(kept, "kept/a.log", "nothing was emptied");
}

/// The current directory is open, however it was entered.
#[test]
fn a_root_is_served_from_within_though_the_way_to_it_is_closed() {
    if !os::process::is_root() {
        return testkit::leave_out("a root with no way to it", "it takes root");
    }
    let directory = Temporary::new();
    files_with_modes(&directory, &["way/site/index.html"], &[("way", 0)]);
    let Some(mut command) = as_ordinary_user(&directory) else { return };
    let site = directory.path().join("way/site");
    let output = command.current_dir(site).args(["check", "."]).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{errors}");
}

/// It is there, so the start must not say that it is absent.
#[test]
fn a_start_page_that_this_user_may_not_read_is_named_at_the_start() {
    let directory = Temporary::new();
    let modes = [("page/index.html", 0), ("list", 0o311)];
    files_with_modes(&directory, &["page/index.html", "list/a.txt"], &modes);
    for (root, refused) in [("page", "page/index.html"), ("list", "list")] {
        let Some(mut command) = as_ordinary_user(&directory) else { return };
        let [root, refused] = [root, refused].map(|name| directory.path().join(name));
        let server = ServerProcess::start(serve(&mut command, &root).arg("--listing"));
        assert_eq!(server.status("/"), 403, "{root:?}");
        let expected = format!(
            "ropewalk: nothing at /: {refused:?} is refused: permission denied: let this user read \
             it (chmod a+r)"
        );
        let lines = server.stop();
        assert!(lines.contains(&expected), "{lines:?}");
    }
}

/// The refused system calls, with the error, and the items of `ropewalk doctor` that report it.
const REFUSALS: [(&str, &str, &[&str]); 3] = [
    ("EPERM", "openat2", &["openat2"]),
    ("ENOSYS", "openat2,preadv2,io_uring_setup", &["openat2", "non-blocking reads", "io_uring"]),
    ("EPERM", "preadv2,io_uring_setup", &["non-blocking reads", "io_uring"]),
];

/// The command under a filter that refuses these system calls.
fn refused(error: &str, calls: &str) -> Option<Command> {
    has(&PYTHON).then(|| {
        let mut python = Command::new("python3");
        python.args(["-c", include_str!("seccomp.py"), error, calls, ROPEWALK]);
        python
    })
}

#[test]
fn refused_system_calls_change_no_answer() {
    let root = DocumentRoot::temporary().unwrap();
    for (error, calls, _) in REFUSALS {
        let Some(command) = refused(error, calls) else { return };
        conforms(command, &root, root.permissions_hold());
    }
}

/// The limit is reached while the server serves: resting connections make room for new ones.
#[test]
fn a_server_that_may_not_fork_any_more_serves_with_those_it_has() {
    if !os::process::is_root() {
        return skip("a limit on processes", NEEDS_ROOT);
    }
    let directory = Temporary::new();
    if as_ordinary_user(&directory).is_none() {
        return;
    }
    // A user without other processes, because the limit counts all of a user's processes and
    // threads.
    let user = ["setpriv", "--reuid", "64999", "--regid", "64999", "--clear-groups"];
    let mut limited = Command::new("prlimit");
    limited.arg("--nproc=10").args(user).arg(directory.path().join("ropewalk"));
    directory.file("site/index.html", "<h1>Rope</h1>");
    let site = directory.path().join("site");
    // Clients that have sent nothing yet are not accepted, however long they take: they would make
    // room for others.
    let settings = ["--engine", "processes", "--set", "socket.defer_accept_s=60"];
    let server = ServerProcess::start(serve(&mut limited, &site).args(settings));
    let mut streams: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for stream in &mut streams {
        assert_eq!(request_status(stream, "/"), Some(200));
    }
    let lines = server.stop();
    let expected = "ropewalk: processes: cannot fork another (Resource temporarily unavailable";
    assert!(lines.iter().any(|line| line.starts_with(expected)), "{lines:?}");
}

/// If the server went on, it would listen without answering.
#[test]
fn a_worker_that_fails_is_one_line_and_status_1() {
    let Some(mut command) = refused("EPERM", "sched_setaffinity") else { return };
    let directory = Temporary::new();
    let pinned = ["--set", "engine.name=event-loop", "--set", "partitions.cpus=[\"0\"]"];
    let (ok, _, lines) = run(serve(command.current_dir(REPOSITORY), directory.path()).args(pinned));
    let why = "a worker failed: event-loop-0: cannot stay on CPU 0: ";
    assert!(!ok && lines.contains(&format!("\nropewalk: {why}")), "{lines}");
    assert!(lines.contains("\nropewalk: stopping: "), "{lines}");
    assert!(lines.lines().last().unwrap().starts_with(&format!("ropewalk: {why}")), "{lines}");
}

/// Stages of `staged` that wait have one thread each; stages that compute have one for each CPU,
/// here one.
#[test]
fn stages_interrupt_each_other_only_if_told_or_if_they_must() {
    let directory = Temporary::new();
    let staged = |command: &mut Command, cohorts: &str, patient: usize| {
        let cohorts = format!("engine.knobs.cohorts={cohorts}");
        let one_cpu = "partitions.cpus=[\"0\"]";
        let arguments = ["--engine", "staged", "--set", one_cpu, "--set", &cohorts];
        let server = ServerProcess::start(serve(command, directory.path()).args(arguments));
        assert_eq!(server.status("/"), 404);
        let are_so_many = comes_true(|| server.patient_threads() == patient);
        assert!(are_so_many, "{cohorts}: {} threads are patient", server.patient_threads());
        server.stop()
    };
    staged(&mut Command::new(ROPEWALK), "1", 5);
    staged(&mut Command::new(ROPEWALK), "0", 0);
    let Some(mut command) = refused("EPERM", "sched_setscheduler") else { return };
    let lines = staged(&mut command, "1", 0);
    let told = lines.iter().filter(|line| line.contains("stages interrupt each other"));
    assert_eq!(told.count(), 1, "{lines:?}");
}

#[test]
fn rings_say_why_they_cannot_run_and_what_serves_instead() {
    let directory = Temporary::new();
    for (error, calls, why) in [
        ("EPERM", "io_uring_setup", "io_uring is not permitted here"),
        ("ENOSYS", "io_uring_setup", "this kernel has no io_uring"),
        ("EPERM", "io_uring_enter", "io_uring is not permitted here"),
        ("EINVAL", "io_uring_register", "no ring of buffers"),
    ] {
        let Some(mut command) = refused(error, calls) else { return };
        let command = command.current_dir(REPOSITORY);
        let (ok, _, lines) = run(serve(command, directory.path()).args(["--engine", "rings"]));
        let expected = format!("ropewalk: cannot start rings: {why}");
        assert!(!ok && lines.contains(&expected), "{lines}");
        assert!(lines.trim_end().ends_with("--engine event-loop-per-core"), "{lines}");
    }
}

#[test]
fn the_doctor_names_what_is_refused() {
    let (_, plain, _) = run(doctor(&mut Command::new(ROPEWALK)));
    let plain: Vec<&str> = tried_items(&plain).collect();
    for (error, calls, subjects) in REFUSALS {
        let Some(mut command) = refused(error, calls) else { return };
        let (ok, out, why) = run(doctor(&mut command));
        assert!(ok && why.is_empty(), "{why}");
        assert_eq!(tried_items(&out).count(), plain.len(), "a line for each item: {out}");
        for line in tried_items(&out) {
            let is_refused = subjects.iter().any(|subject| line[5..].starts_with(subject));
            let says_so = line.starts_with("note ") && line.contains("not ");
            assert!(says_so || !is_refused, "{error} for {calls}: {line}");
            assert!(is_refused || plain.contains(&line), "{error} for {calls}: {line}");
        }
    }
}

/// The doctor judges the memory of the container, which is less than the machine's.
#[test]
fn the_doctor_judges_the_memory_that_may_be_used() {
    let Some(group) = MemoryGroup::new(512 << 20) else {
        return skip("the memory of a control group", MemoryGroup::obstacle());
    };
    let mut command = group.shell();
    command.arg(ROPEWALK);
    let (ok, out, why) = run(doctor(&mut command));
    assert!(ok && why.is_empty(), "{why}");
    let line = tried_items(&out).find(|line| line[5..].starts_with("memory ")).unwrap();
    assert!(line.starts_with("note ") && line.ends_with(" 512 MiB"), "{line}");
}

/// The lines of the items that the server tries, which follow the items that are only read.
fn tried_items(report: &str) -> impl Iterator<Item = &str> {
    let is_before =
        |line: &&str| line.get(5..).is_none_or(|subject| !subject.starts_with("kernel "));
    let lines = report.lines().skip_while(is_before).take_while(|line| !line.is_empty());
    lines.filter(|line| !line.starts_with("     "))
}

fn doctor(command: &mut Command) -> &mut Command {
    command.args(["doctor", "examples/site"]).current_dir(REPOSITORY)
}

#[test]
fn a_root_in_memory_is_served_alike() {
    let memory = Path::new("/dev/shm");
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    if !mounts
        .lines()
        .any(|line| line.starts_with("tmpfs /dev/shm ") || line.contains(" /dev/shm tmpfs "))
    {
        return skip("a root on tmpfs", "there is no tmpfs at /dev/shm");
    }
    let directory = Temporary::below(memory);
    let root = DocumentRoot::build(directory.path()).unwrap();
    conforms(Command::new(ROPEWALK), &root, root.permissions_hold());
}

/// Runs a server that is to handle packets from one end of a virtual cable on CPU 0. Returns the
/// CPUs over which that end's queue is spread before, while it runs, while another process serves
/// in its place, and after; none if this user may not create such a cable. The messages of both are
/// written to `messages`.
fn beside_a_cable(site: &Path, messages: &Path) -> Option<String> {
    const SCRIPT: &str = r#"
        ip link add cable type veth peer name other && ip address add 192.0.2.1/24 dev cable &&
            ip link set cable up && mount -t sysfs none /sys || exit 77
        queue=/sys/class/net/cable/queues/rx-0/rps_cpus
        cat $queue
        "$0" serve "$1" -v --listen 192.0.2.1:8080 --set partitions.set_irq_affinity=true \
            --set 'partitions.cpus=["0"]' --set engine.name=event-loop 2>"$2" &
        until grep -q interrupts: "$2" || ! kill -0 $!; do sleep 0.02; done
        cat $queue
        "$0" ctl upgrade >&2
        wait $!
        cat $queue
        "$0" ctl drain >&2
        until [ "$(grep -c 'stopped after' "$2")" = 2 ] || [ $((tries += 1)) = 1000 ]; do
            sleep 0.02
        done
        cat $queue"#;
    let mut command = Command::new("unshare");
    command.env("RUNTIME_DIRECTORY", messages.parent().unwrap().join("run"));
    command.args(["--net", "--mount", "sh", "-c", SCRIPT, ROPEWALK]).args([site, messages]);
    let (succeeded, stdout, stderr) = run(&mut command);
    assert!(succeeded || stdout.is_empty(), "{stderr}");
    succeeded.then_some(stdout)
}

#[test]
fn packets_go_to_the_cpus_of_the_partition_while_it_serves() {
    let directory = Temporary::new();
    directory.file("site/index.html", "x");
    let (site, messages) = (directory.path().join("site"), directory.path().join("messages"));
    if !has(&UNSHARE) || !has(&IPROUTE2) {
        return;
    }
    let Some(masks) = beside_a_cable(&site, &messages) else {
        let why = "no network namespace can be made, or no cable in one";
        return skip("interrupt affinity", if testkit::is_root() { why } else { NEEDS_ROOT });
    };
    let masks: Vec<&str> = masks.lines().map(|mask| mask.trim_start_matches(['0', ','])).collect();
    let messages = std::fs::read_to_string(messages).unwrap();
    assert_eq!(masks, ["", "1", "1", ""], "{messages}");
    let line = "cable: /sys/class/net/cable/queues/rx-0/rps_cpus is 1, was ";
    assert!(messages.contains(line) && messages.contains("put back: 1 of 1"), "{messages}");
}
