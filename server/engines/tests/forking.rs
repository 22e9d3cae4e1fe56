//! Tests of the engines that fork from the outside: of `processes` the number of processes, and the
//! effect of a killed process on the others; of both what becomes of processes that fail again and
//! again. Without the usual harness: that runs tests in threads, and a process with threads cannot
//! fork.

#[path = "../src/idle.rs"]
mod idle;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use engines::jobs::Runner;
use engines::{
    ConnectionLimit, Engine, MakeWorker, Order, PartitionStart, Start, WorkerStart, find,
};
use os::accounting::{self, Process};
use session::{AccessLog, Limits, Record};
use testkit::wait_until;

testkit::one_by_one![
    spare_processes_are_as_many_as_they_should_be,
    a_killed_process_takes_only_its_connection,
    a_killed_process_that_waited_is_replaced,
    a_process_serves_as_many_connections_as_it_may,
    after_the_order_to_abort_processes_break_off,
    each_connection_has_a_process_of_its_own,
    an_idle_connection_makes_room_when_all_processes_are_taken,
    a_master_that_is_killed_is_a_failure,
    after_the_order_to_drain_processes_finish,
    processes_that_share_a_cache_and_fail_again_and_again_are_a_failure,
];

/// An engine that runs.
struct Running {
    engine: Box<dyn Engine>,
    address: SocketAddr,
}

/// A log whose flush panics in the thread of a loop, as a bug would.
struct Faulty;

impl AccessLog for Faulty {
    fn record(&mut self, _: &Record<'_>) -> bool {
        true
    }

    fn flush(&mut self) {
        // A worker is dropped in the main thread of each process in which it does not serve, and
        // flushes then; and once more when it is dropped during a panic.
        let is_main = std::thread::current().name() == Some("main");
        assert!(is_main || std::thread::panicking(), "the log is faulty");
    }
}

fn start(knobs: &[(&str, u64)]) -> Running {
    start_with("processes", knobs, || None)
}

fn start_with(
    engine: &str,
    knobs: &[(&str, u64)],
    log: fn() -> Option<Box<dyn AccessLog>>,
) -> Running {
    let spec = find(engine).unwrap();
    let site = idle::directory_site("/");
    let runner = Arc::new(Runner::new(Arc::clone(&site), 0).unwrap());
    let make = idle::maker(site, Limits::default());
    let more: MakeWorker = Arc::new(move || make(log(), Arc::default()));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let worker = WorkerStart {
        worker: more(),
        cpu: None,
        unpinned_cpus: Arc::default(),
        listeners: vec![listener.into()],
    };
    let mut values = spec.default_knobs();
    for (name, value) in knobs {
        values.set(name, *value).unwrap();
    }
    let start = Start {
        partitions: vec![PartitionStart { cpus: Vec::new(), workers: vec![worker], more }],
        runner,
        open: Arc::default(),
        connections_max: ConnectionLimit::new(100),
        sendfile: spec.sendfile[0],
        exclusive_wakeups: false,
        knobs: values,
        start_helper: engines::no_helper_processes(),
    };
    let mut engine = (spec.start)(start).unwrap();
    engine.issue(Order::Begin);
    Running { engine, address }
}

impl Running {
    fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client
    }

    fn stop(mut self) {
        self.engine.issue(Order::StopAccepting);
        self.engine.issue(Order::Drain);
        wait_until(|| self.engine.is_finished());
        assert_eq!(self.engine.failure(), None);
        self.engine.join().unwrap();
        assert_eq!(children(std::process::id()), [0_u32; 0], "no process is left behind");
    }
}

/// The ids of the processes that serve.
fn serving() -> Vec<u32> {
    children(master())
}

fn master() -> u32 {
    let masters = children(std::process::id());
    assert_eq!(masters.len(), 1, "{masters:?}");
    masters[0]
}

fn children(parent: u32) -> Vec<u32> {
    let is_child = |process: &Process| process.parent == parent && !process.has_ended;
    accounting::processes().filter(is_child).map(|process| process.pid).collect()
}

fn is_asleep(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, state)| state.starts_with(" S "))
}

fn kill(pid: u32) {
    os::signals::send("KILL", &[pid]);
}

fn is_answered(client: &mut TcpStream) -> bool {
    client.write_all(b"GET /none HTTP/1.1\r\nHost: h\r\n\r\n").is_ok()
        && os::uninterrupted(|| client.read(&mut [0; 4096])).is_ok_and(|n| n > 0)
}

fn spare_processes_are_as_many_as_they_should_be() {
    let running = start(&[("preforked", 2), ("spare_min", 3), ("spare_max", 4)]);
    wait_until(|| serving().len() == 3);
    let mut clients: Vec<TcpStream> = (0..6).map(|_| running.connect()).collect();
    assert!(clients.iter_mut().all(is_answered));
    wait_until(|| serving().len() >= 9);
    clients.clear();
    wait_until(|| (3..=4).contains(&serving().len()));
    assert!(is_answered(&mut running.connect()));
    running.stop();
}

fn a_killed_process_takes_only_its_connection() {
    // No process is spare: each serves one of the clients.
    let pool: &[(&str, u64)] = &[("preforked", 3), ("processes_max", 3)];
    for knobs in [pool, &[("preforked", 0)]] {
        let running = start(knobs);
        let mut clients: Vec<TcpStream> = (0..3).map(|_| running.connect()).collect();
        assert!(clients.iter_mut().all(is_answered));
        let killed = serving()[0];
        kill(killed);
        let expected =
            format!("processes: process {killed} was killed by signal 9: its connection is lost");
        wait_until(|| running.engine.take_notices() == [expected.as_str()]);
        let answered: Vec<bool> = clients.iter_mut().map(is_answered).collect();
        assert_eq!(answered.iter().filter(|answered| **answered).count(), 2, "{answered:?}");
        assert!(is_answered(&mut running.connect()), "another takes its place");
        assert_eq!(running.engine.failure(), None);
        assert_eq!(running.engine.take_notices(), [""; 0], "a notice is given once");
        running.stop();
    }
}

fn a_killed_process_that_waited_is_replaced() {
    let running = start(&[("preforked", 2), ("spare_min", 2)]);
    wait_until(|| serving().len() == 2);
    let before = serving();
    before.iter().for_each(|pid| kill(*pid));
    wait_until(|| serving().len() == 2 && serving().iter().all(|pid| !before.contains(pid)));
    let notices = running.engine.take_notices();
    assert_eq!(notices.len(), 2, "{notices:?}");
    assert!(notices.iter().all(|line| line.ends_with("signal 9: it had no connection")));
    assert!(is_answered(&mut running.connect()));
    running.stop();
}

fn a_process_serves_as_many_connections_as_it_may() {
    let one = [("preforked", 1), ("spare_min", 1), ("processes_max", 1)];
    for (each, expected) in [(0, 1), (1, 6), (2, 3)] {
        let running = start(&[&one[..], &[("connections_per_process", each)]].concat());
        let mut seen = BTreeSet::new();
        for _ in 0..6 {
            let mut client = running.connect();
            assert!(is_answered(&mut client));
            seen.extend(serving());
        }
        assert_eq!(seen.len(), expected, "{each} connections each");
        assert_eq!(running.engine.take_notices(), [""; 0], "they end as they should");
        running.stop();
    }
}

fn after_the_order_to_abort_processes_break_off() {
    for preforked in [0, 1] {
        let mut running = start(&[("preforked", preforked)]);
        let mut client = running.connect();
        assert!(is_answered(&mut client));
        let pid = serving()[0];
        // A process that does not react is killed.
        os::signals::send("STOP", &[pid]);
        running.engine.issue(Order::Abort);
        wait_until(|| running.engine.is_finished());
        assert_eq!(os::uninterrupted(|| client.read(&mut [0])).unwrap_or(0), 0);
        assert_eq!((running.engine.failure(), running.engine.take_notices().len()), (None, 0));
        running.engine.join().unwrap();
    }
}

fn each_connection_has_a_process_of_its_own() {
    let running = start(&[("preforked", 0)]);
    assert!(serving().is_empty());
    let mut clients: Vec<TcpStream> = (0..5).map(|_| running.connect()).collect();
    assert!(clients.iter_mut().all(is_answered));
    assert_eq!(serving().len(), 5);
    clients.clear();
    wait_until(|| serving().is_empty());
    running.stop();
}

fn an_idle_connection_makes_room_when_all_processes_are_taken() {
    for preforked in [0, 2] {
        let running = start(&[("preforked", preforked), ("processes_max", 2)]);
        let (mut first, mut second) = (running.connect(), running.connect());
        assert!(is_answered(&mut first) && is_answered(&mut second));
        // A process reports that its client rests when it is next on a CPU, and then sleeps.
        wait_until(|| serving().into_iter().all(is_asleep));
        assert!(is_answered(&mut first), "the second has rested longest now");
        assert!(is_answered(&mut running.connect()));
        assert_eq!(os::uninterrupted(|| second.read(&mut [0])).unwrap(), 0);
        assert!(is_answered(&mut first));
        assert!(serving().len() <= 2);
        drop((first, second));
        running.stop();
    }
}

fn a_master_that_is_killed_is_a_failure() {
    let running = start(&[]);
    assert!(is_answered(&mut running.connect()));
    let children = serving();
    kill(master());
    wait_until(|| running.engine.failure().is_some());
    let failure = running.engine.failure().unwrap();
    assert_eq!(failure, "the master of the processes: it was killed by signal 9");
    let is_gone = |pid: &u32| accounting::process(*pid).is_none_or(|process| process.has_ended);
    wait_until(|| children.iter().all(is_gone));
    assert!(running.engine.join().is_err());
}

/// Each process ends when its worker has failed, and is replaced unless it is the fifth of the
/// last ten seconds.
fn processes_that_share_a_cache_and_fail_again_and_again_are_a_failure() {
    let knobs = [("processes", 1)];
    let running = start_with("event-loop-shared-cache", &knobs, || Some(Box::new(Faulty)));
    let mut notices = Vec::new();
    wait_until(|| {
        notices.append(&mut running.engine.take_notices());
        running.engine.failure().is_some()
    });
    // On a busy machine the first ones may have failed more than ten seconds ago.
    assert!(notices.len() >= 4, "{notices:?}");
    let expected = "panicked: the log is faulty; another takes its place";
    assert!(notices.iter().all(|notice| notice.ends_with(expected)), "{notices:?}");
    let failure = running.engine.failure().unwrap().to_owned();
    let expected = "panicked: the log is faulty; 5 times within 10 s: not replaced any more";
    assert!(failure.ends_with(expected), "{failure}");
    assert!(running.engine.is_finished(), "the last process is not replaced");
    assert_eq!(running.engine.join().unwrap_err().to_string(), failure);
}

fn after_the_order_to_drain_processes_finish() {
    let mut running = start(&[("preforked", 1), ("spare_min", 1)]);
    let (mut idle, mut silent) = (running.connect(), running.connect());
    assert!(is_answered(&mut idle));
    running.engine.issue(Order::StopAccepting);
    running.engine.issue(Order::Drain);
    assert_eq!(os::uninterrupted(|| idle.read(&mut [0])).unwrap(), 0);
    assert_eq!(os::uninterrupted(|| silent.read(&mut [0])).unwrap_or(0), 0);
    wait_until(|| running.engine.is_finished());
    assert!(TcpStream::connect(running.address).is_err());
    running.engine.join().unwrap();
}
