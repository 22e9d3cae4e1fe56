//! The server's view of an engine: its row, its plan, the parts that it is started with, and the
//! interface of a running engine.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use session::{Connection, Worker};

use crate::jobs::Runner;
use crate::knobs::{Knob, KnobValues};
use crate::orders::Order;

/// The longest queue that a listener may have. Engines accept all connections in the queue before
/// they close the listener.
pub const BACKLOG_MAX: u16 = u16::MAX;

/// One row of [`crate::ENGINES`].
#[derive(Debug)]
pub struct EngineSpec {
    /// The name in a configuration and on the command line.
    pub name: &'static str,
    /// Events, pipeline, processes, kernel threads, user threads or completion.
    pub family: &'static str,
    /// The architecture in the literature, and where it is described.
    pub paper: &'static str,
    /// Its essential mechanism, in one line.
    pub about: &'static str,
    /// Its settings.
    pub knobs: &'static [Knob],
    /// The ways to send files that it can afford, its usual one first.
    pub sendfile: &'static [SendfileMode],
    /// What drives the sockets of applications, in words.
    pub applications: &'static str,
    /// Whether its connections go to another engine when the server changes, and come from others.
    pub moves: Moves,
    /// Why it cannot run on this machine, in one line, if it cannot.
    pub obstacle: fn() -> Option<String>,
    /// How many workers a partition gets and whose listeners they use.
    pub plan: fn(&KnobValues, cpus: usize) -> Plan,
    /// Starts the engine, which accepts after [`Order::Begin`].
    pub start: fn(Start) -> io::Result<Box<dyn Engine>>,
}

impl EngineSpec {
    /// The engine's knobs, each at its default.
    #[must_use]
    pub fn default_knobs(&self) -> KnobValues {
        KnobValues::defaults(self.knobs)
    }
}

/// When connections go from an engine to another, and come to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moves {
    /// Between any two steps in one process, at rest from one process to another.
    BetweenSteps,
    /// At rest: the engine works in processes of its own.
    AtRest,
    /// Never, and why: they are finished where they are.
    Never(&'static str),
}

impl Moves {
    /// Whether the engine goes on with connections of others.
    #[must_use]
    pub fn are_taken(self) -> bool {
        !matches!(self, Self::Never(_))
    }
}

impl Display for Moves {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::BetweenSteps => f.write_str("move between any two steps"),
            Self::AtRest => f.write_str("move at rest"),
            Self::Never(why) => write!(f, "stay where they are: {why}"),
        }
    }
}

/// The [`EngineSpec::obstacle`] of engines that any Linux can run.
pub(crate) fn runs_everywhere() -> Option<String> {
    None
}

/// How the bytes of files that are not in the cache's memory are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendfileMode {
    /// The socket never blocks: a slow reader costs no thread. The disk may still block.
    NonBlocking,
    /// The socket blocks too, with a timeout: one call sends a whole file, and the disk is read in
    /// larger pieces (Harji 2010; Genevès 2012, §IV). Only where a slow reader delays no other
    /// client.
    Blocking,
    /// Non-blocking, but first the kernel is asked whether the file's next bytes are in memory. If
    /// not, the engine has them fetched where that delays no other client.
    Probe,
    /// Without sendfile: bytes are read into memory, 16 KiB at most, and sent from there. For file
    /// systems whose sendfile is slow or wrong. The disk may block.
    Off,
}

/// The processes of an engine that does not run in the server's own process. The server's process
/// then supervises: it starts them by exec of its own program, and [`EngineSpec::start`] is called
/// in each of them, for its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processes {
    /// The number of processes for each partition.
    pub count: usize,
    /// Whether each has listeners of its own, or all share one set.
    pub listeners_per_process: bool,
    /// Whether the listeners of each have ports of their own, consecutive from the configured one;
    /// only for listeners per process.
    pub own_ports: bool,
    /// Whether a process has only one thread when `start` is called: for engines that fork. A
    /// forked copy of a worker counts, logs and drops in the same place as the original.
    pub single_threaded: bool,
}

impl Processes {
    /// `count` processes for each partition, at one set of listeners; each may have threads.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self { count, listeners_per_process: false, own_ports: false, single_threaded: false }
    }
}

/// Which waiters an arrival wakes at a listener with several waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakeups {
    /// One of them or all, as [`Start::exclusive_wakeups`] says.
    AsConfigured,
    /// One of them, whatever [`Start::exclusive_wakeups`] says.
    One,
    /// All of them, whatever [`Start::exclusive_wakeups`] says.
    All,
}

/// The composition of a partition of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The processes that the architecture consists of, if it has several; each has all that the
    /// other fields describe.
    pub processes: Option<Processes>,
    /// The number of workers.
    pub workers: usize,
    /// Whether each worker has listeners of its own (`SO_REUSEPORT`).
    pub listeners_per_worker: bool,
    /// The number of helper processes of each worker, which cost it a descriptor each.
    pub helpers_per_worker: usize,
    /// Which waiters an arrival wakes at listeners with several waiters.
    pub wakeups: Wakeups,
    /// Whether the engine can fetch bytes that are not in memory, for [`SendfileMode::Probe`].
    pub fetches: bool,
    /// Whether the bounds of applications hold for all workers together, and not for each.
    pub shares_calls: bool,
}

impl Plan {
    /// One worker, in the process of the server, with listeners of its own.
    pub(crate) const ONE: Self = Self {
        processes: None,
        workers: 1,
        listeners_per_worker: true,
        helpers_per_worker: 0,
        wakeups: Wakeups::AsConfigured,
        fetches: true,
        shares_calls: false,
    };
}

/// Everything an engine is started with.
pub struct Start {
    /// Sets of CPUs with their own workers, listeners and cache.
    pub partitions: Vec<PartitionStart>,
    /// Runs jobs.
    pub runner: Arc<Runner>,
    /// The number of connections that are open, in all engines of this process.
    pub open: Arc<AtomicUsize>,
    /// The limit on them.
    pub connections_max: ConnectionLimit,
    /// How files are sent: one of the ways in the engine's row.
    pub sendfile: SendfileMode,
    /// Whether listeners are shared with other workers or processes, and an arrival is to wake one
    /// of them instead of all.
    pub exclusive_wakeups: bool,
    /// The engine's knobs.
    pub knobs: KnobValues,
    /// Starts helper processes, for engines that have some.
    pub start_helper: StartHelper,
}

/// How many connections may be open.
#[derive(Clone, Debug)]
pub struct ConnectionLimit {
    most: usize,
    now: Arc<AtomicUsize>,
}

impl ConnectionLimit {
    /// A limit of `most`, for which an engine has room.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, now: Arc::new(AtomicUsize::new(most)) }
    }

    /// What it may be set to.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    /// How many may be open now.
    #[must_use]
    pub fn now(&self) -> usize {
        self.now.load(Ordering::Relaxed)
    }

    /// Sets another limit, as far as there is room. Connections that are open already stay.
    pub fn set(&self, limit: usize) {
        self.now.store(limit.min(self.most), Ordering::Relaxed);
    }
}

/// One partition.
pub struct PartitionStart {
    /// The CPUs it may use; none means any.
    pub cpus: Vec<usize>,
    /// The partition's workers, as many as planned.
    pub workers: Vec<WorkerStart>,
    /// Makes more workers, which share the partition's cache: for engines that do not know at the
    /// start how many threads they will have.
    pub more: MakeWorker,
}

/// Makes workers, on any thread. Each worker has counters of its own, which are never freed: an
/// engine that ends threads keeps their workers for the next ones.
pub type MakeWorker = Arc<dyn Fn() -> Worker + Send + Sync>;

/// Starts a process that passes this socket to [`crate::run_helper_process`]. The process ends when
/// the other end of the socket is closed.
pub type StartHelper = Arc<dyn Fn(OwnedFd) -> io::Result<Child> + Send + Sync>;

/// A [`StartHelper`] that fails with `Unsupported`, for callers that have no helper program.
#[must_use]
pub fn no_helper_processes() -> StartHelper {
    Arc::new(|_| Err(io::Error::new(io::ErrorKind::Unsupported, "there is no helper program")))
}

/// One worker.
pub struct WorkerStart {
    /// The worker's clock, cache, log and counters.
    pub worker: Worker,
    /// The CPU it is pinned to, if any.
    pub cpu: Option<usize>,
    /// The CPUs that the worker may move to while other programs use its own; none means it stays.
    pub unpinned_cpus: Arc<[usize]>,
    /// Open, listening, non-blocking sockets: the worker's own, or those of its partition if the
    /// plan gives workers none.
    pub listeners: Vec<OwnedFd>,
}

/// A connection on its way from one driver to another, and its socket, which no driver watches.
pub struct Handed {
    /// The connection, of which no job is out.
    pub connection: Connection,
    /// Its socket.
    pub socket: OwnedFd,
}

/// Takes the connections of an engine that leaves, on any thread.
pub trait Heir: Send + Sync {
    /// Whether it can take a connection in this state.
    fn may_take(&self, connection: &Connection) -> bool {
        connection.is_movable()
    }

    /// Whether fewer are on their way to it than it takes in a moment. Others are better watched
    /// where they are, for so long.
    fn has_room(&self) -> bool {
        true
    }

    /// Whether as many connections are open there as may be: one of another process is to wait.
    fn is_full(&self) -> bool {
        false
    }

    /// Takes such a connection, which `release` gives away, without waiting. Returns false, and
    /// does not call `release`, if it takes no more: its giver keeps the connection.
    fn take(&self, release: &mut dyn FnMut() -> Handed) -> bool;
}

/// An engine that runs.
pub trait Engine: Send {
    /// Issues an order. Does not wait until it is carried out.
    fn issue(&mut self, order: Order);

    /// Who takes connections for this engine; none if it cannot go on with those of others.
    fn heir(&self) -> Option<Arc<dyn Heir>> {
        None
    }

    /// Has the engine accept no more, give its connections to `heir`, each as soon as it can be
    /// moved, and end when it has none. Others accept from its listeners already. Without an heir,
    /// and where connections cannot be moved, each ends here with its next response, which says so.
    /// It may be called again, when the heir leaves as well.
    fn leave(&mut self, heir: Option<Arc<dyn Heir>>);

    /// Whether the last order to leave is carried out as far as it can be at once: no worker
    /// accepts any more.
    fn has_left(&self) -> bool;

    /// Has workers that sleep go by the newest revision, and release what has left the cache and
    /// what is kept for applications that no route leads to any more. A worker that is busy does so
    /// by itself.
    fn do_housekeeping(&self);

    /// The longest time between two calls of [`Engine::failure`], in milliseconds. An engine
    /// without a thread of its own does its work in these calls, and in those of
    /// [`Engine::is_finished`].
    fn check_interval_ms(&self) -> u32 {
        1000
    }

    /// Which worker failed, and why, in one line; none while all is well. The other workers run on
    /// until they are stopped.
    fn failure(&self) -> Option<&str>;

    /// Takes the reports of failures that were handled since the last call, a line each.
    fn take_notices(&self) -> Vec<String> {
        Vec::new()
    }

    /// The engine's internal state, in lines for people; none where there is nothing to report.
    fn status(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether all workers have ended.
    fn is_finished(&self) -> bool;

    /// Waits for all workers to end.
    ///
    /// # Errors
    /// [`Engine::failure`].
    fn join(self: Box<Self>) -> io::Result<()>;
}
