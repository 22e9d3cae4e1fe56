//! An engine on the bench: a small site, clients, and a log by which workers can be made to fail.

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engines::jobs::Runner;
use engines::{
    ConnectionLimit, Engine, EngineSpec, MakeWorker, Order, PartitionStart, Start, WorkerStart,
};
use session::{AccessLog, Counters, Limits, Record};
use site::Site;
use site::host::{HostSettings, RouteSettings};
use testkit::wait_until;
use upstream::{Address, ApplicationSettings, ServerSettings};

use crate::idle;

/// The size of a sparse file, which is more than sockets hold.
pub(crate) const LARGE_BYTES: u64 = 64 << 20;

/// The reason of a failure by the faulty log.
pub(crate) const WHY: &str = "panicked: the log is faulty";

/// A log whose flush panics, as a bug would, as many times as the counter says.
struct Faulty(Arc<AtomicUsize>);

impl AccessLog for Faulty {
    fn record(&mut self, _: &Record<'_>) -> bool {
        true
    }

    fn flush(&mut self) {
        // A worker flushes once more when it is dropped, which may happen during a panic.
        let one_less = |faults: usize| faults.checked_sub(1);
        if !std::thread::panicking() {
            let fault = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
            assert!(fault.is_err(), "the log is faulty");
        }
    }
}

/// How an engine is started.
pub(crate) struct Setup {
    pub(crate) connections_max: usize,
    /// The CPU of the first worker, if it is pinned.
    pub(crate) first_cpu: Option<usize>,
    /// The index of the worker that can be made to fail; none for any.
    pub(crate) faulty: Option<usize>,
    /// The address of the application that answers requests below `/app/`.
    pub(crate) application: Option<SocketAddr>,
}

/// The site of a directory, with an application.
fn site_with_application(directory: &Path, at: SocketAddr) -> Arc<Site> {
    let address = Address::Tcp { host: at.ip().to_string(), port: at.port() };
    let servers = vec![ServerSettings { address, weight: 1 }];
    let application = ApplicationSettings { servers, ..ApplicationSettings::default() };
    let route = RouteSettings { path: "/app/**".into(), application, ..RouteSettings::default() };
    let host = HostSettings { routes: vec![route], ..HostSettings::new(directory.into()) };
    let site = Site::new(vec![host]).unwrap();
    site.applications()[0].set_addresses(0, &[at]);
    Arc::new(site)
}

pub(crate) struct Bench {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) address: SocketAddr,
    /// The number of failures that are still to come.
    pub(crate) faults: Arc<AtomicUsize>,
    counters: Arc<Mutex<Vec<Arc<Counters>>>>,
    notices: RefCell<Vec<String>>,
    directory: PathBuf,
}

impl Bench {
    pub(crate) fn new(spec: &EngineSpec, set: &[(&str, u64)], setup: &Setup) -> Self {
        let directory = new_directory();
        let site = match setup.application {
            None => idle::directory_site(&directory),
            Some(at) => site_with_application(&directory, at),
        };
        let runner = Arc::new(Runner::new(Arc::clone(&site), 0).unwrap());
        let faults: Arc<AtomicUsize> = Arc::default();
        let counters: Arc<Mutex<Vec<Arc<Counters>>>> = Arc::default();
        let (make, all) = (idle::maker(site, Limits::default()), Arc::clone(&counters));
        let make = move |faults| {
            let own = Arc::new(Counters::default());
            all.lock().unwrap().push(Arc::clone(&own));
            make(Some(Box::new(Faulty(faults))), own)
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let mut listeners = vec![listener.into()];
        let mut knobs = spec.default_knobs();
        set.iter().for_each(|(name, value)| knobs.set(name, *value).unwrap());
        let workers = (0..(spec.plan)(&knobs, 1).workers).map(|index| {
            let is_faulty = setup.faulty.is_none_or(|faulty| faulty == index);
            WorkerStart {
                worker: make(if is_faulty { Arc::clone(&faults) } else { Arc::default() }),
                cpu: setup.first_cpu.filter(|_| index == 0),
                unpinned_cpus: Arc::default(),
                listeners: std::mem::take(&mut listeners),
            }
        });
        let workers = workers.collect();
        let later = Arc::clone(&faults);
        let more: MakeWorker = Arc::new(move || make(Arc::clone(&later)));
        let engine = (spec.start)(Start {
            partitions: vec![PartitionStart { cpus: Vec::new(), workers, more }],
            runner,
            open: Arc::default(),
            connections_max: ConnectionLimit::new(setup.connections_max),
            sendfile: spec.sendfile[0],
            exclusive_wakeups: false,
            knobs,
            start_helper: engines::no_helper_processes(),
        });
        let mut engine = engine.unwrap();
        engine.issue(Order::Begin);
        Self { engine, address, faults, counters, notices: RefCell::default(), directory }
    }

    /// Has workers that can fail do so `times` times: the first that do their housekeeping.
    pub(crate) fn fail(&self, times: usize) {
        self.faults.store(times, Ordering::Relaxed);
        self.engine.do_housekeeping();
    }

    pub(crate) fn connect(&self) -> BufReader<TcpStream> {
        let client = TcpStream::connect(self.address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        BufReader::new(client)
    }

    /// A connection that rests.
    pub(crate) fn resting(&self) -> BufReader<TcpStream> {
        let mut client = self.connect();
        assert!(is_answered(&mut client));
        client
    }

    pub(crate) fn open(&self) -> u64 {
        let counters = self.counters.lock().unwrap();
        let open = counters.iter().map(|counters| counters.connections_open.get());
        open.fold(0, u64::wrapping_add)
    }

    pub(crate) fn evicted(&self) -> u64 {
        let counters = self.counters.lock().unwrap();
        counters.iter().map(|counters| counters.connections_evicted.get()).sum()
    }

    /// The number of notices so far for which `is_such` holds.
    pub(crate) fn notices(&self, is_such: impl Fn(&str) -> bool) -> usize {
        self.notices.borrow_mut().append(&mut self.engine.take_notices());
        self.notices.borrow().iter().filter(|notice| is_such(notice)).count()
    }

    /// Lets responses finish, and returns the outcome of the engine.
    pub(crate) fn stop(mut self) -> std::io::Result<()> {
        self.engine.issue(Order::StopAccepting);
        self.engine.issue(Order::Drain);
        wait_until(|| self.engine.is_finished());
        std::fs::remove_dir_all(&self.directory).unwrap();
        self.engine.join()
    }
}

/// A directory with a small file and a large one.
fn new_directory() -> PathBuf {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("ropewalk-replacements-{}-{number}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("small"), "small").unwrap();
    File::create(directory.join("large")).unwrap().set_len(LARGE_BYTES).unwrap();
    directory
}

/// Requests a file, reads the head of the response, and returns the length of its body.
pub(crate) fn request(client: &mut BufReader<TcpStream>, path: &str) -> u64 {
    write!(client.get_mut(), "GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(client.read_line(&mut head).unwrap(), 0, "closed in the middle of a head");
    }
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let (_, len) = head.split_once("Content-Length: ").unwrap();
    len.split_once('\r').unwrap().0.parse().unwrap()
}

pub(crate) fn is_answered(client: &mut BufReader<TcpStream>) -> bool {
    request(client, "small") == 5 && client.read_exact(&mut [0; 5]).is_ok()
}

/// Whether the server has closed a connection before the whole body came.
pub(crate) fn is_closed(client: &mut BufReader<TcpStream>) -> bool {
    match std::io::copy(&mut client.take(LARGE_BYTES), &mut std::io::sink()) {
        Ok(len) => len < LARGE_BYTES,
        Err(why) => why.kind() == std::io::ErrorKind::ConnectionReset,
    }
}
