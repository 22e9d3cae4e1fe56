//! Tests of helper processes alone: each piece of work comes back, whichever process is killed.

use std::env;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use session::{JobId, Known};
use site::resource::FileRef;

use super::*;
use crate::engine::{ConnectionLimit, SendfileMode, no_helper_processes};
use crate::parts::loops::cpu_placement::CpuPlacement;

/// The descriptor of the socket, in the environment of a helper process of these tests.
const SOCKET: &str = "ENGINES_TEST_HELPER";

/// A path at which a helper process of these tests aborts, as a bug would have it.
const DEADLY: &str = "/deadly";

/// A directory that is served: this crate's.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn runner() -> Runner {
    Runner::new(crate::idle::directory_site(ROOT), 0).unwrap()
}

/// The program of the tests' helper processes; without the variable it does nothing.
#[test]
fn helper_program() {
    let Ok(number) = env::var(SOCKET) else { return };
    let socket = os::inheritance::take(number.parse().unwrap()).unwrap();
    let mut runner = runner();
    runner.before = Some(Box::new(|job| match job {
        Job::Resolve { path, .. } if **path == *DEADLY.as_bytes() => std::process::abort(),
        _ => {}
    }));
    run_helper_process(socket, || Ok(runner)).unwrap();
}

/// Starts this program so that only [`helper_program`] runs in it. Adds the process's id to `pids`.
pub(in super::super) fn start_helper(pids: &Arc<Mutex<Vec<u32>>>) -> StartHelper {
    let pids = Arc::clone(pids);
    Arc::new(move |socket| {
        let mut command = Command::new("/proc/self/exe");
        let test = "event_loop_helpers::helper_processes::tests::helper_program";
        command.args(["--exact", test, "--nocapture"]).stdout(Stdio::null());
        command.env(SOCKET, socket.as_raw_fd().to_string());
        os::inheritance::pass_on(&mut command, vec![socket]);
        let child = command.spawn()?;
        pids.lock().unwrap().push(child.id());
        Ok(child)
    })
}

pub(in super::super) fn signal(name: &str, pid: u32) {
    let kill = format!("kill -s {name} {pid}");
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

/// Stops all threads of a process, as a disk that does not answer would.
pub(in super::super) fn stop(pid: u32) {
    signal("STOP", pid);
    let has_stopped = |thread: PathBuf| {
        // One that has ended meanwhile does nothing any more.
        let stat = std::fs::read_to_string(thread.join("stat")).ok();
        stat.is_none_or(|stat| stat.rsplit_once(") ").unwrap().1.starts_with('T'))
    };
    while !testkit::thread_folders(pid).into_iter().all(has_stopped) {
        std::thread::yield_now();
    }
}

fn loop_context(start_helper: StartHelper) -> LoopContext {
    LoopContext {
        runner: Arc::new(runner()),
        shared: Arc::new(Shared::new(1, ConnectionLimit::new(1)).unwrap()),
        index: 0,
        placement: CpuPlacement::default(),
        sendfile: SendfileMode::Probe,
        exclusive_wakeups: false,
        knobs: super::super::SPEC.default_knobs(),
        start_helper,
    }
}

fn start(
    count: usize,
    waiting_max: usize,
    start_helper: StartHelper,
) -> io::Result<HelperProcesses> {
    let run_job = Arc::new(|job| runner().run(job));
    HelperProcesses::start(&loop_context(start_helper), count, waiting_max, run_job)
}

fn helpers(count: usize, waiting_max: usize) -> HelperProcesses {
    start(count, waiting_max, start_helper(&Arc::default())).unwrap()
}

impl HelperProcesses {
    fn pid(&self, place: usize) -> u32 {
        self.places[place].as_ref().unwrap().child.id()
    }

    /// Waits for an event. Returns the keys and outcomes of the work that has come back.
    fn take(&mut self) -> Vec<(u64, String)> {
        let epoll = Epoll::new().unwrap();
        epoll.add(self.as_fd(), Interest::READ, 0).unwrap();
        epoll.wait(&mut EventBuffer::with_capacity(1), None).unwrap();
        let describe = |outcome| match outcome {
            Outcome::Fetched => "fetched".to_string(),
            Outcome::Done(_, Done::Resolved(Ok((path, _)))) => {
                String::from_utf8(path.into()).unwrap()
            }
            Outcome::Done(_, Done::Resolved(Err(why)) | Done::Listed(Err(why))) => why.to_string(),
            Outcome::Done(_, Done::Listed(Ok((bytes, _)))) => String::from_utf8(bytes).unwrap(),
            other => panic!("{other:?}"),
        };
        self.take_back().into_iter().map(|back| (back.key, describe(back.outcome))).collect()
    }

    /// Waits for the next `count` pieces of work to come back.
    fn take_all(&mut self, count: usize) -> Vec<(u64, String)> {
        let mut taken = Vec::new();
        while taken.len() < count {
            taken.extend(self.take());
        }
        taken
    }

    /// Waits for the only piece of work that is to come back.
    fn take_one(&mut self) -> (u64, String) {
        self.take_all(1).pop().unwrap()
    }
}

fn resolve(path: &str) -> Work {
    let path = path.as_bytes().into();
    Work::Job(JobId { number: 0, stream: 0 }, Job::Resolve { host: 0, path, known: Known::Nothing })
}

#[test]
fn work_that_is_handed_out_comes_back() {
    let mut helpers = helpers(2, 8);
    helpers.hand_out(1, resolve("/Cargo.toml")).unwrap();
    assert_eq!(helpers.take_one(), (1, "/Cargo.toml".into()));
    let file = FileRef::new(
        File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap().into(),
    );
    helpers.hand_out(2, Work::Fetch { file, offset: 0, len: 100 }).unwrap();
    assert_eq!(helpers.take_one(), (2, "fetched".into()));
    let permit = Listings::new(1).begin_without_worker().unwrap();
    let format = session::ListFormat::Json;
    let list = Job::List { host: 0, path: (*b"/src/").into(), format, permit };
    helpers.hand_out(3, Work::Job(JobId { number: 0, stream: 0 }, list)).unwrap();
    let (key, listing) = helpers.take_one();
    assert!(key == 3 && listing.contains("knobs.rs"), "{listing}");
    // Many at once, in any order.
    (0..10).for_each(|key| helpers.hand_out(key, resolve("/Cargo.toml")).unwrap());
    assert!(helpers.hand_out(10, resolve("/Cargo.toml")).is_err() && !helpers.has_room());
    let mut keys: Vec<u64> = helpers.take_all(10).into_iter().map(|(key, _)| key).collect();
    keys.sort_unstable();
    assert!(keys.into_iter().eq(0..10) && helpers.has_room());
}

#[test]
fn the_work_of_a_killed_helper_is_done_by_another() {
    let mut helpers = helpers(1, 8);
    let killed = helpers.pid(0);
    stop(killed);
    helpers.hand_out(1, resolve("/Cargo.toml")).unwrap();
    helpers.hand_out(2, resolve("/src/lib.rs")).unwrap();
    assert!(helpers.take_back().is_empty());
    signal("KILL", killed);
    let expected = [(1, "/Cargo.toml".into()), (2, "/src/lib.rs".into())];
    assert_eq!(helpers.take_all(2), expected);
    assert_ne!(helpers.pid(0), killed);
    let notices = helpers.shared.take_notices();
    let line = format!("helper process 0 of loop 0 (pid {killed}) ended by signal 9");
    assert_eq!(notices, [line]);
}

#[test]
fn an_idle_helper_that_is_killed_is_replaced() {
    let mut helpers = helpers(2, 8);
    let (killed, other) = (helpers.pid(1), helpers.pid(0));
    signal("KILL", killed);
    while helpers.pid(1) == killed {
        assert_eq!(helpers.take(), []); // it takes a moment to end
    }
    assert_eq!(helpers.pid(0), other);
    assert_eq!(helpers.shared.take_notices().len(), 1);
}

#[test]
fn work_that_kills_its_helpers_fails_alone() {
    let mut helpers = helpers(1, 8);
    helpers.hand_out(1, resolve(DEADLY)).unwrap();
    helpers.hand_out(2, resolve("/Cargo.toml")).unwrap();
    let expected = [(1, "it killed its helpers".into()), (2, "/Cargo.toml".into())];
    assert_eq!(helpers.take_all(2), expected);
    assert_eq!(helpers.shared.take_notices().len() as u32, KILLED_MAX);
}

/// Without helpers the loop waits for the disk itself, and no request is lost.
#[test]
fn without_helpers_the_loop_does_the_work() {
    let can_start = Arc::new(AtomicBool::new(true));
    let (start_one, is_allowed) = (start_helper(&Arc::default()), Arc::clone(&can_start));
    let start_helper: StartHelper =
        Arc::new(move |socket| match is_allowed.load(Ordering::Relaxed) {
            true => start_one(socket),
            false => Err(io::Error::other("not now")),
        });
    let mut helpers = start(1, 8, start_helper).unwrap();
    can_start.store(false, Ordering::Relaxed);
    signal("KILL", helpers.pid(0));
    assert_eq!(helpers.take(), []);
    helpers.hand_out(1, resolve("/Cargo.toml")).unwrap();
    assert_eq!(helpers.take_one(), (1, "/Cargo.toml".into()));
    let notices = helpers.shared.take_notices();
    assert!(notices.len() > 1 && notices.len() <= Failures::MAX, "{notices:?}");
    assert_eq!(notices[1], "helper process 0 of loop 0 cannot be started: not now");
}

#[test]
fn helpers_that_cannot_help_are_reported_at_the_start() {
    let check = |start_helper: StartHelper, expected: &str| {
        let why = start(2, 8, start_helper).err().unwrap();
        assert_eq!(why.to_string(), expected);
    };
    check(no_helper_processes(), "helper process 0: there is no helper program");
    let program = |path: &'static str| -> StartHelper {
        Arc::new(move |socket| {
            let mut command = Command::new(path);
            os::inheritance::pass_on(&mut command, vec![socket]);
            command.spawn()
        })
    };
    check(program("/bin/false"), "helper process 0: ended with status 1");
    let complaining: StartHelper = Arc::new(|socket| {
        let mut command = Command::new("sh");
        command.args(["-c", "printf '!no root' >&0"]).stdin(Stdio::from(socket)).spawn()
    });
    check(complaining, "helper process 0: ended: no root");
    check(program("/no/such/program"), "helper process 0: No such file or directory (os error 2)");
}

#[test]
fn a_helper_without_a_runner_reports_why() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    run_helper_process(theirs.into(), || Err("there is no root".into())).unwrap();
    let mut output = Vec::new();
    ours.read_to_end(&mut output).unwrap();
    assert_eq!(output, b"!there is no root");
}
