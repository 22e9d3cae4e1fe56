//! What an engine is to the server: its row, its plan, what it is started with, and what it is told
//! while it runs.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::Arc;

use session::Worker;

use crate::jobs::Runner;
use crate::knobs::{Knob, KnobValues};
use crate::orders::Order;

/// The longest queue that a listener may have. Engines take everybody in it before they close it.
pub const BACKLOG_MAX: u16 = u16::MAX;

/// One row of [`crate::ENGINES`].
#[derive(Debug)]
pub struct EngineSpec {
    /// The name that is typed.
    pub name: &'static str,
    /// Events, pipeline, processes, kernel threads, user threads or completion.
    pub family: &'static str,
    /// The architecture in the literature, and where it is described.
    pub paper: &'static str,
    /// One line: its essential mechanism.
    pub about: &'static str,
    /// What can be set.
    pub knobs: &'static [Knob],
    /// The ways to send files that it can afford, its usual one first.
    pub sendfile: &'static [SendfileMode],
    /// Why it cannot run on this machine, in one line, if it cannot.
    pub obstacle: fn() -> Option<String>,
    /// How many workers a partition gets and whose listeners they are.
    pub plan: fn(&KnobValues, cpus: usize) -> Plan,
    /// Starts it.
    pub start: fn(Start) -> io::Result<Box<dyn Engine>>,
}

impl EngineSpec {
    /// The engine's knobs, each at its default.
    #[must_use]
    pub fn default_knobs(&self) -> KnobValues {
        KnobValues::defaults(self.knobs)
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
    /// larger pieces (Harji 2010; Genevès 2012, §IV). Only where a slow reader delays nobody else.
    Blocking,
    /// Non-blocking, but first the kernel is asked whether the file's next bytes are in memory. If
    /// not, the engine has them fetched where that delays nobody.
    Probe,
}

/// Processes of an engine, unless it runs in that of the server. The server's own process then
/// supervises: it starts these by exec of its own program, and [`EngineSpec::start`] is called in
/// each of them, for its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processes {
    /// How many for each partition.
    pub count: usize,
    /// Whether each has listeners of its own, or all share one set.
    pub listeners_per_process: bool,
    /// Whether the listeners of each have ports of their own, consecutive from the configured one;
    /// only for listeners per process.
    pub own_ports: bool,
    /// Whether a process has but one thread when `start` is called: for engines that fork. What a
    /// forked copy of a worker counts, logs and drops is counted in the same place as the
    /// original's.
    pub single_threaded: bool,
}

impl Processes {
    /// `count` processes for each partition, at one set of listeners; each may have threads.
    #[must_use]
    pub fn of(count: usize) -> Self {
        Self { count, listeners_per_process: false, own_ports: false, single_threaded: false }
    }
}

/// Which waiters an arrival wakes at a listener that several wait at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakeups {
    /// One of them or all, as [`Start::exclusive_wakeups`] says.
    AsAsked,
    /// One of them, whatever that says.
    One,
    /// All of them, whatever that says.
    All,
}

/// What a partition of an engine consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Processes that the architecture consists of; each is a whole copy of what follows.
    pub processes: Option<Processes>,
    /// How many workers.
    pub workers: usize,
    /// Whether each worker has listeners of its own (`SO_REUSEPORT`).
    pub listeners_per_worker: bool,
    /// Helper processes of each worker, which cost it a descriptor each.
    pub helpers_per_worker: usize,
    /// Which waiters an arrival wakes at listeners that several wait at.
    pub wakeups: Wakeups,
    /// Whether there is somebody to fetch what is not in memory, for [`SendfileMode::Probe`].
    pub fetches: bool,
}

impl Plan {
    /// One worker, in the process of the server, with listeners of its own.
    pub(crate) const ONE: Self = Self {
        processes: None,
        workers: 1,
        listeners_per_worker: true,
        helpers_per_worker: 0,
        wakeups: Wakeups::AsAsked,
        fetches: true,
    };
}

/// Everything an engine is started with.
pub struct Start {
    /// Sets of CPUs with their own workers, listeners and cache.
    pub partitions: Vec<PartitionStart>,
    /// Runs jobs.
    pub runner: Arc<Runner>,
    /// Bound on connections of the whole engine.
    pub connections_max: usize,
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

/// One partition.
pub struct PartitionStart {
    /// The CPUs it may use; none means any.
    pub cpus: Vec<usize>,
    /// The partition's workers, as many as the plan said.
    pub workers: Vec<WorkerStart>,
    /// Makes more workers: for engines that do not know at the start how many threads they will
    /// have. They share the partition's cache.
    pub more: MakeWorker,
}

/// Makes workers, from any thread. Each has counters of its own, which stay for ever: an engine
/// that ends threads keeps their workers for the next ones.
pub type MakeWorker = Arc<dyn Fn() -> Worker + Send + Sync>;

/// Starts a process that gives this socket to [`crate::help_by_process`]. It ends when the other
/// end of the socket is closed.
pub type StartHelper = Arc<dyn Fn(OwnedFd) -> io::Result<Child> + Send + Sync>;

/// A [`StartHelper`] that fails with `Unsupported`, for programs that have no helper program to
/// start.
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
    /// The CPUs that the worker may go to while others use its own; none means it stays.
    pub unpinned_cpus: Arc<[usize]>,
    /// Open, listening, non-blocking sockets: its own, or for a plan without them its partition's.
    pub listeners: Vec<OwnedFd>,
}

/// An engine that runs.
pub trait Engine: Send {
    /// Tells it what to do. It does not wait until that is done.
    fn tell(&mut self, order: Order);

    /// Has workers that sleep let go of what has left the cache meanwhile. A worker that is busy
    /// does so by itself.
    fn do_housekeeping(&self);

    /// How often at least [`Engine::failure`] is to be asked, in milliseconds. An engine without a
    /// thread of its own does its work then.
    fn look_ms(&self) -> u32 {
        1000
    }

    /// Which worker ended against its will, and why, in one line; none while all is well. The
    /// others run on until they are told to stop.
    fn failure(&self) -> Option<&str>;

    /// What has gone wrong and was mended since the last call, a line each.
    fn take_notices(&self) -> Vec<String> {
        Vec::new()
    }

    /// What goes on inside, in lines for people; none where there is nothing to tell.
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
