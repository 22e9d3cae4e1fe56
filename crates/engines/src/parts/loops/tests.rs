//! Loops that fail: at their start, in the middle, and for want of a thread.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use file_cache::{Budget, Cache, PolicyKind};
use session::{AccessLog, Counters, Limits, Listings, Record, Worker, WorkerParts};
use site::Site;
use site::host::HostSettings;

use super::super::reactor::Reactor;
use super::*;
use crate::{KnobValues, MakeWorker, PartitionStart, SendfileMode};

/// No machine has a CPU of that number that this process may use.
const NO_CPU: usize = 1023;

/// A log whose second flush fails as only a bug does. The first may come before there is a thread:
/// when the process's clock has run for a while.
struct Faulty(AtomicUsize);

impl AccessLog for Faulty {
    fn record(&mut self, _: &Record<'_>) {}

    fn flush(&mut self) {
        assert!(self.0.fetch_add(1, Ordering::Relaxed) != 1, "the log is faulty");
    }
}

/// What a test sees of one worker.
struct Seen {
    address: SocketAddr,
    counters: Arc<Counters>,
}

impl Seen {
    /// Whether the worker and its listener are gone.
    fn is_gone(&self) -> bool {
        Arc::strong_count(&self.counters) == 1 && TcpStream::connect(self.address).is_err()
    }
}

/// Workers in this order, each with a listener of its own.
fn start_of(workers: impl IntoIterator<Item = (Option<usize>, bool)>) -> (Start, Vec<Seen>) {
    let site = Arc::new(Site::new(vec![HostSettings::new("/".into())]).unwrap());
    let runner = Arc::new(Runner::new(Arc::clone(&site), 0).unwrap());
    let budget = Budget { bytes: 1 << 20, descriptors: 8, entries: 8 };
    let cache = Arc::new(Cache::new(PolicyKind::Lru, budget, 1));
    let (mut starts, mut seen) = (Vec::new(), Vec::new());
    for (cpu, is_faulty) in workers {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let counters = Arc::new(Counters::default());
        let address = listener.local_addr().unwrap();
        seen.push(Seen { address, counters: Arc::clone(&counters) });
        let log = || Box::new(Faulty(AtomicUsize::new(0))) as Box<dyn AccessLog>;
        let worker = Worker::new(WorkerParts {
            site: Arc::clone(&site),
            limits: Arc::new(Limits::default()),
            listings: Listings::new(1),
            cache: Arc::clone(&cache),
            first_level_slots_max: 4,
            revalidate_us: u64::MAX,
            log: is_faulty.then(log),
            counters,
        });
        starts.push(WorkerStart { worker, cpu, listeners: vec![listener.into()] });
    }
    let more: MakeWorker = Arc::new(|| unreachable!("loops need no more workers"));
    let partitions = vec![PartitionStart { cpus: Vec::new(), workers: starts, more }];
    let knobs = KnobValues::defaults(&crate::ENGINES[0]);
    let start = Start {
        partitions,
        runner,
        connections_max: 8,
        sendfile: SendfileMode::NonBlocking,
        exclusive_wakeups: false,
        knobs,
    };
    (start, seen)
}

fn wait_until(condition: impl Fn() -> bool) {
    for _ in 0..2000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("it has not come true in ten seconds");
}

/// The second of three workers fails with this; the others serve until they are told to stop.
fn check_failure(worker: (Option<usize>, bool), expected: &str) {
    let (start, seen) = start_of([(None, false), worker, (None, false)]);
    let mut loops = Box::new(Loops::start("test", start, Reactor::make).unwrap());
    wait_until(|| loops.failure().is_some());
    let failure = loops.failure().unwrap().to_string();
    assert!(failure.starts_with(expected), "{failure}");
    assert!(seen[1].is_gone());
    assert!(!loops.is_finished());
    for other in [&seen[0], &seen[2]] {
        TcpStream::connect(other.address).unwrap();
    }
    loops.stop_accepting();
    loops.drain();
    assert_eq!(loops.join().unwrap_err().to_string(), failure);
    assert!(seen.iter().all(Seen::is_gone));
}

#[test]
fn an_error_of_one_loop_is_told_while_the_others_serve() {
    check_failure((Some(NO_CPU), false), "test-1: cannot stay on CPU 1023: ");
}

/// What panics here is the loop itself: a panic over one connection ends only that.
#[test]
fn so_is_a_panic_of_one_loop() {
    check_failure((None, true), "test-1: panicked: the log is faulty");
}

#[test]
fn without_a_thread_for_the_last_the_first_do_not_run_on() {
    let (start, seen) = start_of([(None, false); 3]);
    let mut threads_left = 2;
    let outcome = Loops::start_with("test", start, Reactor::make, |name, task| {
        if threads_left == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        threads_left -= 1;
        Builder::new().name(name).spawn(task)
    });
    assert_eq!(outcome.err().unwrap().kind(), io::ErrorKind::WouldBlock);
    assert!(seen.iter().all(Seen::is_gone));
}

#[test]
fn loops_that_are_stopped_have_not_failed() {
    let (start, seen) = start_of([(None, false); 2]);
    let mut loops = Box::new(Loops::start("test", start, Reactor::make).unwrap());
    loops.keep_house();
    loops.stop_accepting();
    loops.drain();
    wait_until(|| loops.is_finished());
    assert_eq!(loops.failure(), None);
    loops.join().unwrap();
    assert!(seen.iter().all(Seen::is_gone));
}
