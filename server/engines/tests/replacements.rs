//! Tests of every engine whose workers are threads: the connections of a thread that fails are
//! closed and counted off, and it is replaced at its listeners; one that fails again and again is
//! not. `src/parts/loops/tests.rs` tests the thread that replaces loops,
//! `src/staged/tests/failures.rs` the stages, which lose fewer connections.

#[path = "../src/idle.rs"]
mod idle;

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engines::jobs::Runner;
use engines::{Engine, EngineSpec, MakeWorker, Order, PartitionStart, Start, WorkerStart, find};
use session::{AccessLog, Counters, Limits, Record, Worker};
use testkit::{undisturbed, wait_until};

/// The size of a sparse file, which is more than sockets hold.
const LARGE_BYTES: u64 = 64 << 20;

/// The reason of a failure by the faulty log.
const WHY: &str = "panicked: the log is faulty";

/// A log whose flush panics, as a bug would, as many times as the counter says.
struct Faulty(Arc<AtomicUsize>);

impl AccessLog for Faulty {
    fn record(&mut self, _: &Record<'_>) {}

    fn flush(&mut self) {
        // A worker flushes once more when it is dropped, which may happen during a panic.
        let one_less = |faults: usize| faults.checked_sub(1);
        if !std::thread::panicking() {
            let fault = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
            assert!(fault.is_err(), "the log is faulty");
        }
    }
}

/// An engine with places for two connections.
struct Bench {
    engine: Box<dyn Engine>,
    address: SocketAddr,
    counters: Arc<Mutex<Vec<Arc<Counters>>>>,
    faults: Arc<AtomicUsize>,
    notices: RefCell<Vec<String>>,
    directory: PathBuf,
}

impl Bench {
    /// Starts an engine whose first worker is pinned to `first_cpu`, if any.
    fn new(spec: &EngineSpec, set: &[(&str, u64)], first_cpu: Option<usize>) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("ropewalk-replacements-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("small"), "small").unwrap();
        File::create(directory.join("large")).unwrap().set_len(LARGE_BYTES).unwrap();

        let site = idle::directory_site(&directory);
        let runner = Arc::new(Runner::new(Arc::clone(&site), 0).unwrap());
        let faults: Arc<AtomicUsize> = Arc::default();
        let counters: Arc<Mutex<Vec<Arc<Counters>>>> = Arc::default();
        let make = idle::maker(site, Limits::default());
        let (fault, book) = (Arc::clone(&faults), Arc::clone(&counters));
        let more: MakeWorker = Arc::new(move || -> Worker {
            let own = Arc::new(Counters::default());
            book.lock().unwrap().push(Arc::clone(&own));
            make(Some(Box::new(Faulty(Arc::clone(&fault)))), own)
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let mut listeners = vec![listener.into()];
        let mut knobs = spec.default_knobs();
        set.iter().for_each(|(name, value)| knobs.set(name, *value).unwrap());
        let workers = (0..(spec.plan)(&knobs, 1).workers).map(|index| {
            let listeners = std::mem::take(&mut listeners);
            let cpu = first_cpu.filter(|_| index == 0);
            WorkerStart { worker: more(), cpu, unpinned_cpus: Arc::default(), listeners }
        });
        let workers = workers.collect();
        let engine = (spec.start)(Start {
            partitions: vec![PartitionStart { cpus: Vec::new(), workers, more }],
            runner,
            connections_max: 2,
            sendfile: spec.sendfile[0],
            exclusive_wakeups: false,
            knobs,
            start_helper: engines::no_helper_processes(),
        });
        let engine = engine.unwrap();
        Self { engine, address, counters, faults, notices: RefCell::default(), directory }
    }

    /// Has a worker fail: the next one that does its housekeeping.
    fn fail(&self) {
        self.faults.store(1, Ordering::Relaxed);
        self.engine.do_housekeeping();
    }

    fn connect(&self) -> BufReader<TcpStream> {
        let client = TcpStream::connect(self.address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        BufReader::new(client)
    }

    /// A connection that rests.
    fn resting(&self) -> BufReader<TcpStream> {
        let mut client = self.connect();
        assert_eq!(request(&mut client, "small"), 5);
        client.read_exact(&mut [0; 5]).unwrap();
        client
    }

    fn open(&self) -> u64 {
        let counters = self.counters.lock().unwrap();
        let open = counters.iter().map(|counters| counters.connections_open.get());
        open.fold(0, u64::wrapping_add)
    }

    fn evicted(&self) -> u64 {
        let counters = self.counters.lock().unwrap();
        counters.iter().map(|counters| counters.connections_evicted.get()).sum()
    }

    /// The number of replacements of workers that failed for such a reason.
    fn replaced(&self, is_such: impl Fn(&str) -> bool) -> usize {
        self.notices.borrow_mut().append(&mut self.engine.take_notices());
        let notices = self.notices.borrow();
        let reasons =
            notices.iter().filter_map(|notice| notice.split_once(" failed and was replaced: "));
        reasons.filter(|(_, why)| is_such(why)).count()
    }

    /// The number of replacements of workers that failed by the faulty log.
    fn replacements(&self) -> usize {
        self.replaced(|why| why == WHY)
    }

    /// Whether every thread of a cluster has been replaced `times` times: a thread that is late
    /// would fail in the old cluster.
    fn all_replaced(&self, set: &[(&str, u64)], times: usize) -> bool {
        let threads = set.iter().find(|(knob, _)| *knob == "threads_per_cluster");
        let threads = threads.map_or(1, |(_, count)| *count as usize);
        self.replaced(|_| true) >= times * threads
    }

    /// Lets responses finish, and returns the outcome of the engine.
    fn stop(mut self) -> std::io::Result<()> {
        self.engine.issue(Order::StopAccepting);
        self.engine.issue(Order::Drain);
        wait_until(|| self.engine.is_finished());
        std::fs::remove_dir_all(&self.directory).unwrap();
        self.engine.join()
    }
}

/// Requests a file, reads the head of the response, and returns the length of its body.
fn request(client: &mut BufReader<TcpStream>, path: &str) -> u64 {
    write!(client.get_mut(), "GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(client.read_line(&mut head).unwrap(), 0, "closed in the middle of a head");
    }
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let (_, len) = head.split_once("Content-Length: ").unwrap();
    len.split_once('\r').unwrap().0.parse().unwrap()
}

/// Whether the server has closed a connection before the whole body came.
fn is_closed(client: &mut BufReader<TcpStream>) -> bool {
    match std::io::copy(&mut client.take(LARGE_BYTES), &mut std::io::sink()) {
        Ok(len) => len < LARGE_BYTES,
        Err(why) => why.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

fn check(name: &str, set: &[(&str, u64)]) {
    let spec = find(name).unwrap();
    if (spec.obstacle)().is_some() {
        return check_refusal(spec);
    }
    check_replacement(spec, set);
    // On a busy machine five failures may take longer than the time in which they are too many.
    undisturbed(|| check_the_end(spec, set));
}

/// Checks the obstacle where the kernel has no rings: nothing can be replaced there.
fn check_refusal(spec: &EngineSpec) {
    assert!((spec.obstacle)().unwrap().contains("io_uring"));
}

fn check_replacement(spec: &EngineSpec, set: &[(&str, u64)]) {
    let bench = Bench::new(spec, set, None);
    for round in 1..=2 {
        let (mut resting, mut busy) = (bench.resting(), bench.connect());
        assert_eq!(request(&mut busy, "large"), LARGE_BYTES);
        bench.fail();
        wait_until(|| bench.replacements() == round);
        wait_until(|| bench.all_replaced(set, round));
        assert!(is_closed(&mut resting) && is_closed(&mut busy), "{} {round}", spec.name);
        wait_until(|| bench.open() == 0);
    }
    // There would be no place if the lost connections were still counted as open.
    let (first, second) = (bench.resting(), bench.resting());
    assert_eq!((bench.open(), bench.evicted()), (2, 0), "{}", spec.name);
    assert_eq!(bench.engine.failure(), None, "{}", spec.name);
    drop((first, second));
    bench.stop().unwrap();
}

/// Has a worker fail five times. An error if it was replaced every time.
fn check_the_end(spec: &EngineSpec, set: &[(&str, u64)]) -> Result<(), String> {
    let bench = Bench::new(spec, set, None);
    for round in 1..=5 {
        let mut resting = bench.resting();
        bench.fail();
        wait_until(|| bench.replacements() == round || bench.engine.failure().is_some());
        let has_failed = bench.engine.failure().is_some();
        if round == 5 && !has_failed {
            bench.stop().unwrap();
            return Err(format!("{}: it was replaced after five failures", spec.name));
        }
        assert_eq!((has_failed, bench.replacements()), (round == 5, round.min(4)));
        assert!(is_closed(&mut resting), "{} {round}", spec.name);
        wait_until(|| bench.all_replaced(set, round.min(4)));
    }
    assert!(bench.engine.failure().unwrap().ends_with(WHY), "{:?}", bench.engine.failure());
    wait_until(|| bench.open() == 0);
    wait_until(|| TcpStream::connect(bench.address).is_err());
    assert!(bench.stop().unwrap_err().to_string().ends_with(WHY));
    Ok(())
}

#[test]
fn event_loop() {
    check("event-loop", &[]);
}

#[test]
fn event_loop_per_core() {
    check("event-loop-per-core", &[]);
}

#[test]
fn event_loop_helpers() {
    check("event-loop-helpers", &[]);
}

#[test]
fn threads() {
    check("threads", &[]);
    check("threads", &[("spawn", 0)]);
}

#[test]
fn threads_direct() {
    check("threads-direct", &[]);
}

#[test]
fn thread_pool() {
    check("thread-pool", &[("park_idle", 1)]);
    check("thread-pool", &[("park_idle", 0)]);
}

#[test]
fn fibers() {
    check("fibers", &[]);
    check("fibers", &[("park_idle", 1)]);
    check("fibers", &[("blocking_threads", 2)]);
}

#[test]
fn fibers_of_several_threads() {
    check("fibers", &[("threads_per_cluster", 3)]);
    check("fibers", &[("threads_per_cluster", 2), ("blocking_threads", 2)]);
}

/// A cluster does not serve on without its first thread, at whose listeners another is made.
#[test]
fn a_cluster_with_a_thread_that_cannot_begin_ends() {
    /// The number of a CPU that no machine lets this process use.
    const NO_CPU: usize = 1023;
    let spec = find("fibers").unwrap();
    let bench = Bench::new(spec, &[("threads_per_cluster", 2)], Some(NO_CPU));
    // The engine ends without an order.
    wait_until(|| bench.engine.is_finished());
    let failure = bench.engine.failure().unwrap();
    assert!(failure.contains("cannot stay on CPU 1023: ") || failure.contains("could not begin"));
    assert!(TcpStream::connect(bench.address).is_err(), "its listener is open");
    bench.stop().unwrap_err();
}

#[test]
fn tasks() {
    check("tasks", &[]);
    check("tasks", &[("blocking_threads", 0)]);
}

#[test]
fn tasks_that_are_stolen() {
    check("tasks", &[("stealing", 1), ("workers", 3)]);
}

#[test]
fn rings() {
    check("rings", &[]);
    check("rings", &[("helpers", 2)]);
}
