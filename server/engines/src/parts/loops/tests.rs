//! Tests of loops that fail: at their start, in the middle, again and again, or for lack of a
//! thread.

mod model;

use std::cell::RefCell;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};

use session::{AccessLog, Counters, Limits, Record};
use testkit::wait_until;

use super::reactor::Reactor;
use super::*;
use crate::engine::{ConnectionLimit, MakeWorker, PartitionStart, SendfileMode};
use crate::idle;
use crate::orders::Order;

/// The number of a CPU that no machine lets this process use.
const NO_CPU: usize = 1023;

/// A log whose next flush panics, as a bug would, if the flag is set.
struct Faulty(Arc<AtomicBool>);

impl AccessLog for Faulty {
    fn record(&mut self, _: &Record<'_>) -> bool {
        true
    }

    fn flush(&mut self) {
        assert!(!self.0.swap(false, Ordering::Relaxed), "the log is faulty");
    }
}

/// One worker, as a test observes it.
struct Observed {
    address: SocketAddr,
    counters: Arc<Counters>,
    /// Makes the loop fail the next time that it does its housekeeping.
    fault: Arc<AtomicBool>,
}

impl Observed {
    /// Makes the loop fail once it is at work: a new loop would fail before it has a thread.
    fn fail(&self, loops: &Loops) {
        connect(self);
        self.fault.store(true, Ordering::Relaxed);
        loops.do_housekeeping();
    }

    /// Whether the worker and its listener are gone.
    fn is_gone(&self) -> bool {
        Arc::strong_count(&self.counters) == 1 && TcpStream::connect(self.address).is_err()
    }
}

/// Workers for these CPUs, each with a listener of its own. Workers that are made later have the
/// log and the counters of the first.
fn start_on(cpus: impl IntoIterator<Item = Option<usize>>) -> (Start, Vec<Observed>) {
    let site = idle::directory_site("/");
    let runner = Arc::new(Runner::new(Arc::clone(&site), 0).unwrap());
    let make = idle::maker(site, Limits::default());
    let make = move |fault: &Arc<AtomicBool>, counters: &Arc<Counters>| {
        make(Some(Box::new(Faulty(Arc::clone(fault)))), Arc::clone(counters))
    };
    let (mut starts, mut seen) = (Vec::new(), Vec::new());
    for cpu in cpus {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let (fault, counters) = (Arc::default(), Arc::default());
        let worker = make(&fault, &counters);
        seen.push(Observed { address: listener.local_addr().unwrap(), counters, fault });
        starts.push(WorkerStart {
            worker,
            cpu,
            unpinned_cpus: Arc::default(),
            listeners: vec![listener.into()],
        });
    }
    let later = (Arc::clone(&seen[0].fault), Arc::downgrade(&seen[0].counters));
    let more: MakeWorker = Arc::new(move || make(&later.0, &later.1.upgrade().unwrap()));
    let partitions = vec![PartitionStart { cpus: Vec::new(), workers: starts, more }];
    let knobs = crate::ENGINES[0].default_knobs();
    let start = Start {
        partitions,
        runner,
        open: Arc::default(),
        connections_max: ConnectionLimit::new(8),
        sendfile: SendfileMode::NonBlocking,
        exclusive_wakeups: false,
        knobs,
        start_helper: crate::engine::no_helper_processes(),
    };
    (start, seen)
}

/// Checks that the second of three workers fails with the expected message, and that the others
/// serve until they are stopped.
fn check_failure(cpu: Option<usize>, expected: &str) {
    let (start, seen) = start_on([None, cpu, None]);
    let mut loops = Box::new(Loops::start("test", start, make_loop).unwrap());
    loops.issue(Order::Begin);
    if cpu.is_none() {
        seen[1].fail(&loops);
    }
    wait_until(|| loops.failure().is_some());
    let failure = loops.failure().unwrap().to_string();
    assert!(failure.starts_with(expected), "{failure}");
    assert!(seen[1].is_gone());
    assert!(!loops.is_finished());
    for other in [&seen[0], &seen[2]] {
        TcpStream::connect(other.address).unwrap();
    }
    loops.issue(Order::StopAccepting);
    loops.issue(Order::Drain);
    assert_eq!(loops.join().unwrap_err().to_string(), failure);
    assert!(seen.iter().all(Observed::is_gone));
}

fn make_loop(start: WorkerStart, loop_context: LoopContext) -> io::Result<Loop> {
    Ok(Reactor::plain(start, loop_context)?.into_loop())
}

#[test]
fn an_error_of_one_loop_is_reported_while_the_others_serve() {
    check_failure(Some(NO_CPU), "test-1: cannot stay on CPU 1023: ");
}

/// The loop itself panics here: a panic over one connection ends only that connection.
#[test]
fn a_panic_of_one_loop_is_reported_while_the_others_serve() {
    check_failure(None, "test-1: panicked: the log is faulty");
}

/// A connection that a loop has accepted, open until the loop closes it.
fn connect(seen: &Observed) -> TcpStream {
    let open = seen.counters.connections_open.get();
    let client = TcpStream::connect(seen.address).unwrap();
    wait_until(|| seen.counters.connections_open.get() > open);
    client
}

fn is_closed(mut client: &TcpStream) -> bool {
    matches!(client.read(&mut [0]), Ok(0) | Err(_))
}

#[test]
fn a_loop_that_fails_is_replaced_at_its_listener() {
    let (start, seen) = start_on([None, None]);
    let mut loops = Box::new(Loops::start_replaceable("test", start, make_loop).unwrap());
    loops.issue(Order::Begin);
    let (lost, kept) = (connect(&seen[0]), connect(&seen[1]));
    seen[0].fail(&loops);
    assert!(is_closed(&lost));
    let notices = RefCell::new(Vec::new());
    wait_until(|| {
        notices.borrow_mut().append(&mut loops.take_notices());
        !notices.borrow().is_empty()
    });
    assert_eq!(*notices.borrow(), ["test-0 failed and was replaced: panicked: the log is faulty"]);
    assert_eq!(loops.failure(), None);
    // The connections of the failed loop are counted off, those of the other loop are not, and the
    // replacement accepts.
    assert_eq!(seen[0].counters.connections_open.get(), 0);
    assert_eq!(loops.shared.open.load(Ordering::Relaxed), 1);
    let another = connect(&seen[0]);
    loops.issue(Order::StopAccepting);
    loops.issue(Order::Drain);
    assert!(is_closed(&another) && is_closed(&kept));
    loops.join().unwrap();
    assert!(seen.iter().all(Observed::is_gone));
}

#[test]
fn a_client_that_comes_while_a_loop_is_replaced_waits_for_the_next() {
    let (start, seen) = start_on([None]);
    let (address, made) = (seen[0].address, AtomicUsize::new(0));
    let late = Arc::new(OnceLock::new());
    let came = Arc::clone(&late);
    let make = move |start, loop_context| {
        if made.fetch_add(1, Ordering::Relaxed) == 1 {
            came.get_or_init(|| TcpStream::connect(address).unwrap());
        }
        make_loop(start, loop_context)
    };
    let mut loops = Box::new(Loops::start_replaceable("test", start, make).unwrap());
    loops.issue(Order::Begin);
    seen[0].fail(&loops);
    wait_until(|| !loops.take_notices().is_empty());
    wait_until(|| seen[0].counters.connections_open.get() == 1);
    loops.issue(Order::StopAccepting);
    loops.issue(Order::Drain);
    assert!(is_closed(late.get().unwrap()));
    loops.join().unwrap();
}

#[test]
fn a_loop_that_fails_again_and_again_is_given_up() {
    let (start, seen) = start_on([Some(NO_CPU), None]);
    let mut loops = Box::new(Loops::start_replaceable("test", start, make_loop).unwrap());
    loops.issue(Order::Begin);
    wait_until(|| loops.failure().is_some());
    assert!(loops.failure().unwrap().starts_with("test-0: cannot stay on CPU 1023: "));
    assert_eq!(loops.take_notices().len(), Failures::MAX - 1);
    assert!(TcpStream::connect(seen[0].address).is_err(), "its listener is open");
    TcpStream::connect(seen[1].address).unwrap();
    loops.issue(Order::StopAccepting);
    loops.issue(Order::Drain);
    loops.join().unwrap_err();
    assert!(seen.iter().all(Observed::is_gone));
}

#[test]
fn without_a_thread_for_the_last_the_first_do_not_run_on() {
    let (start, seen) = start_on([None; 3]);
    let clients: Vec<_> = seen.iter().map(|it| TcpStream::connect(it.address).unwrap()).collect();
    let mut threads_left = 2;
    let outcome = Loops::start_with("test", start, make_loop, None, |name, task| {
        if threads_left == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        threads_left -= 1;
        Builder::new().name(name).spawn(task)
    });
    assert_eq!(outcome.err().unwrap().kind(), io::ErrorKind::WouldBlock);
    assert!(seen.iter().all(Observed::is_gone));
    assert!(seen.iter().all(|it| it.counters.connections_accepted.get() == 0), "none has begun");
    drop(clients);
}

#[test]
fn loops_that_are_stopped_have_not_failed() {
    let (start, seen) = start_on([None; 2]);
    let mut loops = Box::new(Loops::start("test", start, make_loop).unwrap());
    loops.issue(Order::Begin);
    loops.do_housekeeping();
    loops.issue(Order::StopAccepting);
    loops.issue(Order::Drain);
    wait_until(|| loops.is_finished());
    assert_eq!(loops.failure(), None);
    loops.join().unwrap();
    assert!(seen.iter().all(Observed::is_gone));
}
