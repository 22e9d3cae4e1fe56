//! Tests, by the order of events, of what a stalled job delays, with helpers and without; and of
//! jobs for which no helper has time, which panic, or whose client leaves.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};

use session::{Counters, Job, Limits};
use testkit::Temporary;

use super::*;
use crate::engine::{ConnectionLimit, MakeWorker, PartitionStart};
use crate::idle;
use crate::jobs::Runner;
use crate::orders::Order;

/// The served directory: this crate's.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// A path in it whose jobs wait at the gate, and one whose jobs do not.
const SLOW: &str = "/src/lib.rs";
const QUICK: &str = "/Cargo.toml";
/// A path whose jobs panic.
const PANIC: &str = "/panic";

/// The engine whose runtime runs jobs, and the knob with the number of its threads for them.
const TASKS: (&str, &str) = ("tasks", "blocking_threads");
/// The value of [`EVENTS`] that stands for select(2).
const SELECT: u64 = 3;
/// The connections that may be open at once.
const CONNECTIONS_MAX: usize = 100;

/// One loop under test, with a gate in the way of some of its jobs.
struct Bench {
    engine: Option<Box<dyn Engine>>,
    address: SocketAddr,
    counters: Arc<Counters>,
    /// The beginnings and ends of jobs, in their order.
    events: Receiver<String>,
    /// Lets one job pass.
    gate: Option<Sender<()>>,
    /// The ids of all helper processes so far.
    pids: Arc<Mutex<Vec<u32>>>,
    /// Whether the loop learns of a reset only when it receives: select(2) reports no other.
    cannot_hear_resets: bool,
}

impl Bench {
    fn new(spec: &'static EngineSpec, knobs: &[(&str, u64)]) -> Self {
        Self::with(spec, knobs, Path::new(ROOT), Limits::default())
    }

    fn with(spec: &'static EngineSpec, knobs: &[(&str, u64)], root: &Path, limits: Limits) -> Self {
        let site = idle::directory_site(root);
        let (open, gate) = mpsc::channel();
        let (report, events) = mpsc::channel();
        let mut runner = Runner::new(Arc::clone(&site), 0).unwrap();
        runner.before = Some(gatekeeper(gate, report));
        let counters = Arc::new(Counters::default());
        let worker = idle::maker(site, limits)(None, Arc::clone(&counters));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let workers = vec![WorkerStart {
            worker,
            cpu: None,
            unpinned_cpus: Arc::default(),
            listeners: vec![listener.into()],
        }];
        let more: MakeWorker = Arc::new(|| unreachable!("no loop fails here"));
        let mut values = spec.default_knobs();
        for (name, value) in knobs {
            let knob = spec.knobs.iter().find(|knob| knob.name == *name).unwrap();
            match knob.choices().get(*value as usize) {
                Some(choice) => values.choose(name, choice).unwrap(),
                None => values.set(name, *value).unwrap(),
            }
        }
        let pids = Arc::default();
        let start = Start {
            partitions: vec![PartitionStart { cpus: Vec::new(), workers, more }],
            runner: Arc::new(runner),
            open: Arc::default(),
            connections_max: ConnectionLimit::new(CONNECTIONS_MAX),
            sendfile: spec.sendfile[0],
            exclusive_wakeups: false,
            knobs: values,
            start_helper: helper_processes::tests::start_helper(&pids),
        };
        let mut engine = (spec.start)(start).unwrap();
        engine.issue(Order::Begin);
        let engine = Some(engine);
        let cannot_hear_resets = knobs.contains(&(EVENTS.name, SELECT));
        Self { engine, address, counters, events, gate: Some(open), pids, cannot_hear_resets }
    }

    /// A connection that has sent a request for a path.
    fn request(&self, path: &str) -> BufReader<TcpStream> {
        let mut client = TcpStream::connect(self.address).unwrap();
        send_request(&mut client, path);
        BufReader::new(client)
    }

    fn open_gate(&self) {
        self.gate.as_ref().unwrap().send(()).unwrap();
    }

    /// Waits until the loop has closed all connections, for a minute at most.
    fn await_no_connections(&self) {
        testkit::wait_until(|| self.counters.connections_open.get() == 0);
    }

    fn expect(&self, event: &str) {
        assert_eq!(self.events.recv().unwrap(), event);
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.gate = None; // jobs that still wait there go on
        let Some(mut engine) = self.engine.take() else { return };
        engine.issue(Order::StopAccepting);
        engine.issue(Order::Abort);
        if !std::thread::panicking() {
            engine.join().unwrap();
        }
    }
}

/// Reports each job, and holds those for [`SLOW`] until the gate is opened.
fn gatekeeper(gate: Receiver<()>, events: Sender<String>) -> crate::jobs::Before {
    let (gate, events) = (Mutex::new(gate), Mutex::new(events));
    Box::new(move |job| {
        let Job::Resolve { path, .. } = job else { return };
        let path = std::str::from_utf8(path).unwrap();
        let report = |what: &str| drop(events.lock().unwrap().send(format!("{path} {what}")));
        report("begins");
        match path {
            SLOW => drop(gate.lock().unwrap().recv()),
            PANIC => panic!("a job that panics, as a bug would"),
            _ => return,
        }
        report("goes on");
    })
}

fn send_request(client: &mut TcpStream, path: &str) {
    write!(client, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
}

/// Reads a whole response. Returns its status and the length of its body.
fn answer(client: &mut BufReader<TcpStream>) -> (u16, usize) {
    let (mut status, mut len, mut line) = (0, 0, String::new());
    while line != "\r\n" {
        line.clear();
        assert_ne!(client.read_line(&mut line).unwrap(), 0, "closed in the middle of a head");
        if line.starts_with("HTTP/1.1 ") {
            status = line[9..12].parse().unwrap();
        }
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            len = value.trim_end().parse().unwrap();
        }
    }
    client.read_exact(&mut vec![0; len]).unwrap();
    (status, len)
}

fn file_len(path: &str) -> usize {
    std::fs::metadata(format!("{ROOT}{path}")).unwrap().len() as usize
}

#[test]
fn a_stalled_job_delays_no_other_client() {
    let bench = Bench::new(&SPEC, &[]);
    let mut slow = bench.request(SLOW);
    bench.expect("/src/lib.rs begins");
    let mut quick = bench.request(QUICK);
    bench.expect("/Cargo.toml begins");
    assert_eq!(answer(&mut quick), (200, file_len(QUICK)));
    // The gate has been closed all the time.
    bench.open_gate();
    bench.expect("/src/lib.rs goes on");
    assert_eq!(answer(&mut slow), (200, file_len(SLOW)));
    assert_eq!(bench.counters.jobs_handed_out.get(), 2);
}

/// The control: without helpers the second client waits for the first one's disk.
#[test]
fn without_helpers_a_stalled_job_delays_all_clients() {
    let bench = Bench::new(crate::find("event-loop").unwrap(), &[]);
    let mut slow = bench.request(SLOW);
    bench.expect("/src/lib.rs begins");
    let mut quick = bench.request(QUICK);
    bench.open_gate();
    bench.expect("/src/lib.rs goes on");
    bench.expect("/Cargo.toml begins");
    assert_eq!(answer(&mut slow).0, 200);
    assert_eq!(answer(&mut quick).0, 200);
    assert_eq!(bench.counters.jobs_handed_out.get(), 0);
}

/// More clients than may wait for one helper, and fewer than there may be connections.
const MANY: usize = 90;

#[test]
fn without_room_jobs_wait_in_line() {
    let bench = Bench::new(&SPEC, &[("helpers", 1)]);
    let mut slow = bench.request(SLOW);
    bench.expect("/src/lib.rs begins");
    let mut others: Vec<_> = (0..MANY).map(|_| bench.request(QUICK)).collect();
    // The job that is being done, and those that may wait for the helper.
    let room = 1 + QUEUE_PER_HELPER as u64;
    while bench.counters.jobs_handed_out.get() < room {
        std::thread::yield_now();
    }
    bench.open_gate();
    assert_eq!(answer(&mut slow).0, 200);
    for other in &mut others {
        assert_eq!(answer(other).0, 200);
    }
}

#[test]
fn a_job_for_which_no_helper_has_time_is_refused() {
    check_refusal(&SPEC);
}

#[test]
fn a_job_for_which_no_helper_of_a_ring_has_time_is_refused() {
    let spec = crate::find("rings").unwrap();
    match (spec.obstacle)() {
        Some(why) => testkit::leave_out(spec.name, &why),
        None => check_refusal(spec),
    }
}

fn check_refusal(spec: &'static EngineSpec) {
    let limits = Limits { write_ms: 1000, ..Limits::default() };
    let bench = Bench::with(spec, &[("helpers", 1)], Path::new(ROOT), limits);
    let mut slow = bench.request(SLOW);
    bench.expect("/src/lib.rs begins");
    let mut others: Vec<_> = (0..MANY).map(|_| bench.request(QUICK)).collect();
    let has_answer = |client: &BufReader<TcpStream>| {
        client.get_ref().set_nonblocking(true).unwrap();
        let has_input = client.get_ref().peek(&mut [0]).is_ok();
        client.get_ref().set_nonblocking(false).unwrap();
        has_input
    };
    while !others.iter().any(has_answer) {
        std::thread::yield_now(); // until the deadline of a job that found no room to wait
    }
    bench.open_gate();
    let answers: Vec<u16> = others.iter_mut().map(|other| answer(other).0).collect();
    let count = |status| answers.iter().filter(|answer| **answer == status).count();
    assert!(count(503) > 0, "{answers:?}");
    assert_eq!(count(503) + count(200), MANY, "{answers:?}");
    assert_eq!(answer(&mut slow).0, 200);
    // The connections whose jobs were refused go on.
    for (other, _) in others.iter_mut().zip(&answers).filter(|(_, answer)| **answer == 503) {
        send_request(other.get_mut(), QUICK);
        assert_eq!(answer(other).0, 200);
    }
}

#[test]
fn a_job_that_panics_fails_alone() {
    let bench = Bench::new(&SPEC, &[("helpers", 1)]);
    let mut client = bench.request(PANIC);
    assert_eq!(answer(&mut client).0, 503);
    send_request(client.get_mut(), QUICK);
    assert_eq!(answer(&mut client).0, 200);
}

#[test]
fn a_client_that_goes_while_its_job_is_out_leaves_nothing() {
    for choice in 0..EVENTS.choices().len() as u64 {
        let bench = Bench::new(&SPEC, &[("helpers", 1), (EVENTS.name, choice)]);
        drop(bench.request(SLOW));
        bench.expect("/src/lib.rs begins");
        bench.open_gate();
        assert_eq!(answer(&mut bench.request(QUICK)).0, 200);
        bench.await_no_connections();
    }
}

/// Checks all engines that hand jobs out and go on with the connection, each with a single thread
/// for jobs.
fn for_each_that_hands_jobs_out(check: impl Fn(&Bench)) {
    for choice in 0..EVENTS.choices().len() as u64 {
        check(&Bench::new(&SPEC, &[("helpers", 1), (EVENTS.name, choice)]));
    }
    let (tasks, blocking_threads) = TASKS;
    let rings = [("helpers", 1), ("multishot", 0)];
    let others = [("rings", &rings[..1]), ("rings", &rings), (tasks, &[(blocking_threads, 1)])];
    for (name, knobs) in others {
        let spec = crate::find(name).unwrap();
        match (spec.obstacle)() {
            Some(why) => testkit::leave_out(name, &why),
            None => check(&Bench::new(spec, knobs)),
        }
    }
}

/// Goes away with a reset.
fn reset(client: BufReader<TcpStream>) {
    os::socket::set_linger_zero(client.get_ref().as_fd()).unwrap();
    drop(client);
}

/// After a reset no client is left to be answered; after an orderly end there may be one.
#[test]
fn a_client_that_resets_is_noticed_while_its_job_is_out() {
    for_each_that_hands_jobs_out(|bench| {
        let client = bench.request(SLOW);
        bench.expect("/src/lib.rs begins");
        reset(client);
        bench.await_no_connections();
        bench.open_gate();
        assert_eq!(answer(&mut bench.request(QUICK)).0, 200);
    });
}

/// Engines whose jobs wait in line where there is no room, with a single helper.
fn for_each_with_a_line(limits: &Limits, check: impl Fn(&Bench)) {
    let bench = |spec, knobs: &[_]| Bench::with(spec, knobs, Path::new(ROOT), limits.clone());
    for choice in 0..EVENTS.choices().len() as u64 {
        check(&bench(&SPEC, &[("helpers", 1), (EVENTS.name, choice)]));
    }
    let rings = crate::find("rings").unwrap();
    if let Some(why) = (rings.obstacle)() {
        return testkit::leave_out(rings.name, &why);
    }
    for multishot in [0, 1] {
        check(&bench(rings, &[("helpers", 1), ("multishot", multishot)]));
    }
}

/// Occupies the only helper, and all places of its queue.
fn occupy(bench: &Bench) -> Vec<BufReader<TcpStream>> {
    let mut clients = vec![bench.request(SLOW)];
    bench.expect("/src/lib.rs begins");
    clients.extend((0..QUEUE_PER_HELPER).map(|_| bench.request(QUICK)));
    testkit::wait_until(|| bench.counters.jobs_handed_out.get() == clients.len() as u64);
    clients
}

/// Waits until the loop has seen what was sent to it before: it answers other clients.
fn settle(bench: &Bench) {
    for _ in 0..3 {
        let mut client = TcpStream::connect(bench.address).unwrap();
        client.write_all(b"no request\r\n\r\n").unwrap();
        client.read_to_end(&mut Vec::new()).unwrap();
    }
    testkit::wait_until(|| bench.counters.connections_accepted.get() > 2);
}

#[test]
fn a_client_that_resets_is_noticed_while_its_job_waits_in_line() {
    for_each_with_a_line(&Limits::default(), |bench| {
        let mut clients = occupy(bench);
        let last = bench.request(QUICK);
        settle(bench);
        reset(last);
        testkit::wait_until(|| bench.counters.connections_open.get() == clients.len() as u64);
        bench.open_gate();
        clients.iter_mut().for_each(|client| assert_eq!(answer(client).0, 200));
    });
}

#[test]
fn a_refused_job_leaves_no_place_in_line() {
    let limits = Limits { write_ms: 1500, ..Limits::default() };
    for_each_with_a_line(&limits, |bench| {
        let _clients = occupy(bench);
        let mut refused = bench.request("/src/knobs.rs");
        assert_eq!(answer(&mut refused).0, 503);
        let mut next = bench.request("/src/engine.rs");
        settle(bench);
        send_request(refused.get_mut(), "/src/knobs.rs");
        settle(bench);
        bench.open_gate();
        assert_eq!((answer(&mut next).0, answer(&mut refused).0), (200, 200));
        let begun = bench.events.try_iter().filter(|event| event.ends_with("begins"));
        let begun: Vec<String> = begun.filter(|event| event.starts_with("/src/")).collect();
        assert_eq!(begun, ["/src/engine.rs begins", "/src/knobs.rs begins"]);
    });
}

/// So much that nothing more is received.
#[test]
fn a_client_that_resets_is_noticed_though_it_has_sent_far_ahead() {
    for_each_that_hands_jobs_out(|bench| {
        if bench.cannot_hear_resets {
            return;
        }
        let mut client = bench.request(SLOW);
        bench.expect("/src/lib.rs begins");
        let ahead = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1500);
        client.get_mut().write_all(&ahead).unwrap();
        settle(bench);
        testkit::wait_until(|| bench.counters.connections_open.get() == 1);
        reset(client);
        bench.await_no_connections();
        bench.open_gate();
        assert_eq!(answer(&mut bench.request(QUICK)).0, 200);
    });
}

#[test]
fn a_client_that_sends_no_more_is_answered_though_its_job_is_out() {
    for ahead in [0, 1500] {
        for_each_that_hands_jobs_out(|bench| {
            let mut client = bench.request(SLOW);
            bench.expect("/src/lib.rs begins");
            let ahead = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(ahead);
            client.get_mut().write_all(&ahead).unwrap();
            client.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
            settle(bench);
            bench.open_gate();
            assert_eq!(answer(&mut client).0, 200);
        });
    }
}

/// The loops' queues of jobs have a bound; the runtime's has none of its own.
#[test]
fn clients_that_reset_leave_no_more_jobs_than_there_may_be_connections() {
    let (name, knob) = TASKS;
    let mut bench = Bench::new(crate::find(name).unwrap(), &[(knob, 1)]);
    let room = CONNECTIONS_MAX as u64;
    let out = |bench: &Bench| bench.counters.jobs_handed_out.get();
    for number in 1..=room {
        let client = bench.request(SLOW);
        testkit::wait_until(|| out(&bench) == number);
        reset(client);
    }
    bench.await_no_connections();
    let mut last = bench.request(QUICK);
    testkit::wait_until(|| out(&bench) > room || bench.counters.accept_pauses.get() > 0);
    assert_eq!(out(&bench), room);
    bench.gate = None;
    assert_eq!(answer(&mut last).0, 200);
}

/// The only helper process waits, as for a disk, and then dies.
#[test]
fn a_helper_process_that_waits_delays_no_client_that_needs_none() {
    let bench = Bench::new(&SPEC, &[("helpers", 1), ("kind", PROCESSES)]);
    assert_eq!(answer(&mut bench.request(QUICK)).0, 200);
    let killed = bench.pids.lock().unwrap()[0];
    helper_processes::tests::stop(killed);
    let mut slow = bench.request("/src/knobs.rs");
    while bench.counters.jobs_handed_out.get() < 2 {
        std::thread::yield_now();
    }
    // The entry is in the cache: the loop needs no helper.
    assert_eq!(answer(&mut bench.request(QUICK)).0, 200);
    helper_processes::tests::signal("KILL", killed);
    assert_eq!(answer(&mut slow).0, 200);
    assert_eq!(bench.pids.lock().unwrap().len(), 2);
    let notices = bench.engine.as_ref().unwrap().take_notices();
    assert_eq!(notices.len(), 1, "{notices:?}");
}

/// Where the file system cannot tell what is in memory, each chunk is fetched once, however many
/// calls it takes to send it.
#[test]
fn unknown_residency_costs_one_fetch_for_each_chunk() {
    const LEN: usize = 3 << 20;
    const CHUNK_KIB: u64 = 256;
    let memory = Path::new("/dev/shm");
    if !memory.is_dir() {
        return testkit::leave_out("files of which nothing is known", "there is no /dev/shm");
    }
    let directory = Temporary::below(memory);
    let path = directory.file("file", vec![1; LEN]);
    let file = std::fs::File::open(&path).unwrap();
    let known = os::files::read_at_nowait(file.as_fd(), &mut [0], 0);
    let fetches = match known.unwrap() {
        os::files::NowaitRead::Unsupported => LEN as u64 / (CHUNK_KIB << 10),
        _ => 0, // a file in memory is never cold
    };
    let bench =
        Bench::with(&SPEC, &[("file_chunk_kib", CHUNK_KIB)], directory.path(), Limits::default());
    assert_eq!(answer(&mut bench.request("/file")), (200, LEN));
    assert_eq!(bench.counters.cold_sends.get(), fetches);
}
