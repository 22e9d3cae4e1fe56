//! Failures of stages: what is lost with each, how it is replaced, and how all stages end when it
//! is not.

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use session::{AccessLog, Counters, Limits, Record, Worker};
use site::Site;
use testkit::wait_until;

use crate::engine::{Engine, MakeWorker, PartitionStart, Start, WorkerStart};
use crate::idle;
use crate::jobs::Runner;
use crate::orders::Order;
use crate::staged::SPEC;

/// The indices of the threads of the five stages, with one thread each.
const READ_POLL: usize = 1;
const WRITE_POLL: usize = 2;
const WRITE: usize = 4;
const STAGES: usize = 5;

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

/// The engine, with one thread that can be made to fail.
struct Bench {
    engine: Box<dyn Engine>,
    address: SocketAddr,
    counters: Arc<Mutex<Vec<Arc<Counters>>>>,
    faults: Arc<AtomicUsize>,
    notices: RefCell<Vec<String>>,
    directory: PathBuf,
}

impl Bench {
    fn new(faulty: usize, set: &[(&str, u64)]) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("ropewalk-staged-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("small"), "small").unwrap();
        File::create(directory.join("large")).unwrap().set_len(LARGE_BYTES).unwrap();

        let site = idle::directory_site(&directory);
        let runner = Arc::new(Runner::new(Arc::clone(&site), 0).unwrap());
        let (faults, counters) = (Arc::default(), Arc::default());
        let make = worker_maker(site, Arc::clone(&counters));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let mut listeners = vec![listener.into()];
        let mut knobs = SPEC.default_knobs();
        set.iter().for_each(|(name, value)| knobs.set(name, *value).unwrap());
        let workers = (0..(SPEC.plan)(&knobs, 1).workers).map(|index| {
            let fault = if index == faulty { Arc::clone(&faults) } else { Arc::default() };
            let listeners = std::mem::take(&mut listeners);
            WorkerStart { worker: make(fault), cpu: None, unpinned_cpus: Arc::default(), listeners }
        });
        let workers = workers.collect();
        let later = Arc::clone(&faults);
        let more: MakeWorker = Arc::new(move || make(Arc::clone(&later)));
        let engine = (SPEC.start)(Start {
            partitions: vec![PartitionStart { cpus: Vec::new(), workers, more }],
            runner,
            connections_max: 100,
            sendfile: SPEC.sendfile[0],
            exclusive_wakeups: false,
            knobs,
            start_helper: crate::engine::no_helper_processes(),
        });
        let engine = engine.unwrap();
        Self { engine, address, counters, faults, notices: RefCell::default(), directory }
    }

    /// Has the thread fail `times` times.
    fn fail(&self, times: usize) {
        self.faults.store(times, Ordering::Relaxed);
        self.engine.do_housekeeping();
    }

    fn connect(&self) -> BufReader<TcpStream> {
        let client = TcpStream::connect(self.address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        BufReader::new(client)
    }

    /// A connection that rests, and one whose client takes no more bytes for the moment.
    fn clients(&self) -> (BufReader<TcpStream>, BufReader<TcpStream>) {
        let (mut resting, mut blocked) = (self.connect(), self.connect());
        assert!(is_answered(&mut resting));
        send_request(&mut blocked, "large");
        assert_eq!(read_head(&mut blocked), LARGE_BYTES);
        // The connection moves between stages until the sockets on both sides are full. On a
        // busy machine it may rest between two moves.
        let (mut before, mut looks_alike) = (None, 0);
        wait_until(|| {
            std::thread::sleep(Duration::from_millis(120));
            let line = self.engine.status().into_iter().find(|l| l.starts_with("write-poll: "));
            let is_alike = line == before && !line.as_ref().unwrap().contains(" 0 taken");
            looks_alike = if is_alike { looks_alike + 1 } else { 0 };
            before = line;
            looks_alike == 3
        });
        (resting, blocked)
    }

    fn open(&self) -> u64 {
        let counters = self.counters.lock().unwrap();
        let open = counters.iter().map(|counters| counters.connections_open.get());
        open.fold(0, u64::wrapping_add)
    }

    fn has_noticed(&self, notice: &str) -> bool {
        self.notices.borrow_mut().append(&mut self.engine.take_notices());
        self.notices.borrow().iter().any(|taken| taken == notice)
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

/// Makes workers that share a cache and nothing else, for a site.
fn worker_maker(
    site: Arc<Site>,
    counters: Arc<Mutex<Vec<Arc<Counters>>>>,
) -> impl Fn(Arc<AtomicUsize>) -> Worker + Send + Sync {
    let make = idle::maker(site, Limits::default());
    move |faults| {
        let own = Arc::new(Counters::default());
        counters.lock().unwrap().push(Arc::clone(&own));
        make(Some(Box::new(Faulty(faults))), own)
    }
}

fn send_request(client: &mut BufReader<TcpStream>, path: &str) {
    write!(client.get_mut(), "GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
}

/// Reads the head of a response with status 200, and returns the length of its body.
fn read_head(client: &mut BufReader<TcpStream>) -> u64 {
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

fn is_answered(client: &mut BufReader<TcpStream>) -> bool {
    send_request(client, "small");
    read_head(client) == 5 && client.read_exact(&mut [0; 5]).is_ok()
}

#[test]
fn a_stage_that_fails_is_replaced_and_only_what_was_in_its_hands_is_lost() {
    for stage in 0..STAGES {
        let bench = Bench::new(stage, &[]);
        let (mut resting, mut blocked) = bench.clients();
        bench.fail(1);
        wait_until(|| bench.has_noticed(&format!("staged-{stage} failed and was replaced: {WHY}")));
        match stage {
            READ_POLL => {
                wait_until(|| bench.has_noticed("1 connections ended with the read-poll stage"));
            }
            WRITE_POLL => {
                wait_until(|| bench.has_noticed("1 connections ended with a stage that failed"));
            }
            _ => {}
        }
        if stage == READ_POLL {
            assert!(is_closed(&mut resting), "{stage}");
        } else {
            assert!(is_answered(&mut resting), "{stage}");
        }
        assert_eq!(is_closed(&mut blocked), stage == WRITE_POLL, "{stage}");
        if stage != WRITE_POLL {
            assert!(is_answered(&mut blocked), "{stage}: it rests now");
        }
        assert!(is_answered(&mut bench.connect()), "{stage}: a new client");
        drop((resting, blocked));
        wait_until(|| bench.open() == 0);
        assert_eq!(bench.engine.failure(), None, "{stage}");
        bench.stop().unwrap();
    }
}

#[test]
fn a_stage_that_fails_again_and_again_ends_everything_at_once() {
    for stage in 0..STAGES {
        let bench = Bench::new(stage, &[]);
        let (mut resting, mut blocked) = bench.clients();
        bench.fail(5);
        // The engine ends without an order.
        wait_until(|| bench.engine.is_finished());
        let failure = format!("staged-{stage}: {WHY}");
        assert_eq!(bench.engine.failure(), Some(&*failure));
        assert!(is_closed(&mut resting) && is_closed(&mut blocked), "{stage}");
        assert!(TcpStream::connect(bench.address).is_err(), "{stage}: its listener is open");
        assert_eq!(bench.open(), 0, "{stage}");
        assert_eq!(bench.stop().unwrap_err().to_string(), failure);
    }
}

#[test]
fn where_a_stage_has_other_threads_they_serve_on() {
    let bench = Bench::new(WRITE, &[("write_threads", 2)]);
    let (mut resting, mut blocked) = bench.clients();
    bench.fail(5);
    wait_until(|| bench.engine.failure().is_some());
    assert!(is_answered(&mut resting));
    assert!(!is_closed(&mut blocked));
    assert!(is_answered(&mut bench.connect()));
    assert!(!bench.engine.is_finished());
    drop((resting, blocked));
    assert_eq!(bench.stop().unwrap_err().to_string(), format!("staged-{WRITE}: {WHY}"));
}

/// The thread controller adds another if the queue is still long.
#[test]
fn an_added_thread_that_fails_is_reported_and_not_missed() {
    let batches = [("batch", 1), ("file_chunk_kib", 16)];
    let controller = [("thread_controller", 1), ("thread_period_ms", 10), ("thread_queue_len", 1)];
    let bench = Bench::new(usize::MAX, &[&batches[..], &controller].concat());
    let is_over = AtomicBool::new(false);
    bench.faults.store(1, Ordering::Relaxed); // the first added thread fails
    std::thread::scope(|scope| {
        for _ in 0..6 {
            let (mut client, is_over) = (bench.connect(), &is_over);
            scope.spawn(move || {
                for _ in 0..100 {
                    send_request(&mut client, "large");
                    assert_eq!(read_head(&mut client), LARGE_BYTES);
                    if is_closed(&mut client) || is_over.load(Ordering::Relaxed) {
                        return; // a lost connection is not used again
                    }
                }
            });
        }
        let failed = |name: &str| format!("a thread that was added to {name} failed: {WHY}");
        wait_until(|| bench.has_noticed(&failed("write")) || bench.has_noticed(&failed("read")));
        let is_second = |line: &String| {
            let added = line.strip_prefix("thread controller: ").and_then(|l| l.split_once(' '));
            added.is_some_and(|(added, _)| added.parse::<u64>().unwrap() > 1)
        };
        wait_until(|| bench.engine.status().iter().any(is_second));
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(bench.engine.failure(), None);
    bench.stop().unwrap();
}
