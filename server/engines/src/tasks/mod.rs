//! `tasks`: a stackless task per connection, on Tokio. None of the papers has it; it is the user
//! thread of Radhakrishnan 2019 (chapter 2) whose stack the compiler has turned into a state
//! machine, as most servers in Rust, C# and JavaScript are written today.
//!
//! Its essential mechanism: every connection is a task that is written as if it were a thread
//! (`client.rs`: take a turn, await what is missing), and a runtime resumes those whose sockets are
//! ready. Either each CPU has a runtime and a listener of its own, between which no task moves, or,
//! with `stealing`, a partition has one runtime whose threads take tasks from each other. Work that
//! may block runs on the runtime's blocking threads and is awaited like anything else.
//!
//! It differs from `fibers` in that it uses Tokio's scheduler, not its own, and suspends a value,
//! not a stack.
//!
//! What it leaves out: straight-line code, as `fibers` does. A task drives the state machine that
//! other engines drive, and uses readiness, timers and threads of Tokio, but not its streams.
//! Preemption: a task yields by itself. And exclusive wake-ups: where several runtimes wait at one
//! listener an arrival wakes them all, and one finds the connection, because Tokio's epoll set has
//! no exclusive watches.
//!
//! Where to read: `client.rs` is the task of a connection, `acceptor.rs` that of a listener,
//! `runtime_state.rs` the state that the tasks of a runtime share. A task whose request an
//! application answers awaits both sockets (`calls.rs`).

mod acceptor;
mod calls;
mod client;
mod knobs;
mod runtime_state;
mod watch;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use session::{HOUSEKEEPING_MS, Worker};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, Runtime};

use self::knobs::{BLOCKING_THREADS, KNOBS, STEALING, WORKERS};
use crate::engine::{
    Engine, EngineSpec, MakeWorker, Moves, Plan, SendfileMode, Start, Wakeups, WorkerStart,
};
use crate::knobs::KnobValues;
use crate::lock::lock;
use crate::parts::loops::reactor;
use crate::parts::loops::{Loop, LoopContext, Loops, Shared};
use runtime_state::{RuntimeState, orders_to_tasks};
use watch::watch;

pub(crate) const SPEC: EngineSpec = EngineSpec {
    name: "tasks",
    family: "user threads",
    paper: "async tasks (Tokio); user threads without stacks, after the papers",
    about: "one stackless task per connection, on a runtime per CPU or one that steals work",
    knobs: KNOBS,
    sendfile: &[SendfileMode::Probe, SendfileMode::NonBlocking, SendfileMode::Off],
    applications: "the task of the client",
    moves: Moves::BetweenSteps,
    obstacle: crate::engine::runs_everywhere,
    plan,
    start,
};

fn plan(knobs: &KnobValues, cpus: usize) -> Plan {
    let workers = knobs.workers(WORKERS.name, cpus);
    Plan {
        workers,
        listeners_per_worker: knobs.get(STEALING.name) == 0,
        wakeups: Wakeups::All,
        fetches: knobs.get(BLOCKING_THREADS.name) > 0,
        ..Plan::ONE
    }
}

fn start(start: Start) -> io::Result<Box<dyn Engine>> {
    if start.knobs.get(STEALING.name) == 0 {
        let make = |start: WorkerStart, loop_context| {
            let parts_of_runtime =
                RuntimeParts { workers: vec![start.worker], listeners: start.listeners };
            // Made now, so that a missing resource is reported before anything runs.
            let runtime = build(Builder::new_current_thread(), &loop_context)?;
            Ok(Box::new(move || serve(runtime, parts_of_runtime, loop_context)) as Loop)
        };
        let loops = Loops::start_replaceable(SPEC.name, start, make)?;
        return Ok(Box::new(loops));
    }
    start_stealing(start)
}

/// The parts of one runtime: a worker for each of its threads, and the listeners.
struct RuntimeParts {
    workers: Vec<Worker>,
    listeners: Vec<OwnedFd>,
}

/// The parts of a partition's runtime besides its first worker.
struct Others {
    /// The CPUs on which its threads may run; none means any.
    cpus: Vec<usize>,
    count: usize,
    /// The workers of the first runtime. For a runtime that replaces it, new ones are made.
    workers: Mutex<Vec<Worker>>,
    more: MakeWorker,
}

/// Starts one thread for each partition, which starts and oversees the threads of its runtime.
fn start_stealing(mut start: Start) -> io::Result<Box<dyn Engine>> {
    let mut others = Vec::new();
    for partition in &mut start.partitions {
        let is_pinned = partition.workers.iter().any(|worker| worker.cpu.is_some());
        let cpus = if is_pinned { partition.cpus.clone() } else { Vec::new() };
        let workers = partition.workers.split_off(1.min(partition.workers.len()));
        let workers: Vec<_> = workers.into_iter().map(|other| other.worker).collect();
        // The threads of a runtime may run on any CPU of their partition.
        partition.workers.iter_mut().for_each(|first| first.cpu = None);
        let (count, workers) = (workers.len(), Mutex::new(workers));
        others.push(Others { cpus, count, workers, more: Arc::clone(&partition.more) });
    }
    let make = move |first: WorkerStart, loop_context: LoopContext| {
        let others = &others[loop_context.index]; // a loop for each partition
        let mut begun = lock(&others.workers);
        let mut workers = std::mem::take(&mut *begun);
        workers.resize_with(others.count, &*others.more);
        workers.push(first.worker);
        let (cpus, parts_of_runtime) =
            (others.cpus.clone(), RuntimeParts { workers, listeners: first.listeners });
        Ok(Box::new(move || serve_stealing(&cpus, parts_of_runtime, loop_context)) as Loop)
    };
    Ok(Box::new(Loops::start_replaceable(SPEC.name, start, make)?))
}

fn serve_stealing(
    cpus: &[usize],
    parts_of_runtime: RuntimeParts,
    loop_context: LoopContext,
) -> io::Result<()> {
    if !cpus.is_empty() {
        os::affinity::pin_thread(cpus)?; // the threads that it starts inherit the CPUs
    }
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(parts_of_runtime.workers.len());
    let runtime = build(builder, &loop_context)?;
    serve(runtime, parts_of_runtime, loop_context)
}

fn build(mut builder: Builder, loop_context: &LoopContext) -> io::Result<Runtime> {
    builder
        .enable_io()
        .enable_time()
        .max_io_events_per_tick(reactor::EVENTS_PER_WAIT)
        .max_blocking_threads(loop_context.knobs.get_usize(BLOCKING_THREADS.name).max(1))
        .thread_name(format!("{}-{}", SPEC.name, loop_context.index))
        .on_thread_unpark(runtime_state::forget_time)
        .build()
}

/// Serves until everything has ended, or a part has failed. Then the runtime waits for its threads
/// and drops all tasks, each of which closes its connection and counts it off: another runtime may
/// take its place.
fn serve(
    runtime: Runtime,
    parts_of_runtime: RuntimeParts,
    loop_context: LoopContext,
) -> io::Result<()> {
    let (index, shared) = (loop_context.index, Arc::clone(&loop_context.shared));
    let state = Arc::new(RuntimeState::new(
        parts_of_runtime.workers,
        parts_of_runtime.listeners.len(),
        loop_context,
    ));
    let serving = async {
        for listener in parts_of_runtime.listeners {
            tokio::spawn(acceptor::run(Arc::clone(&state), listener));
        }
        oversee(&state, LoopWake { shared, index }).await
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| runtime.block_on(serving)));
    drop(runtime); // not in the middle of a panic
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Passes on the orders of the engine to the tasks, until none is left.
async fn oversee(state: &Arc<RuntimeState>, wake: LoopWake) -> io::Result<()> {
    let wake = watch(wake, Interest::READABLE)?;
    let flags = Arc::clone(&wake.get_ref().shared);
    let mut sent = 0;
    loop {
        let handed = flags.inboxes.take(wake.get_ref().index);
        handed.into_iter().for_each(|it| acceptor::adopt(state, it));
        if flags.orders.is_any_issued() {
            state.call_acceptors();
        }
        let orders = orders_to_tasks(&flags.orders);
        // The engine that is to have connections may be another than at the last order to leave.
        if sent != orders || state.is_leaving() {
            sent = orders;
            state.notify_all(sent);
        }
        if let Some(error) = state.failure() {
            return Err(error);
        }
        if state.is_over() {
            return Ok(());
        }
        let housekeeping = state.is_logging().then_some(Duration::from_millis(HOUSEKEEPING_MS));
        match housekeeping.into_iter().chain(state.close_kept()).min() {
            Some(limit) => drop(tokio::time::timeout(limit, wait_for_wake(&wake)).await),
            None => wait_for_wake(&wake).await?,
        }
        wake.get_ref().as_wake().clear();
        state.do_housekeeping();
        state.make_room_for_others();
    }
}

/// Waits for the wake-up call.
async fn wait_for_wake(wake: &AsyncFd<LoopWake>) -> io::Result<()> {
    wake.readable().await?.clear_ready();
    Ok(())
}

/// The wake-up call of one loop.
struct LoopWake {
    shared: Arc<Shared>,
    index: usize,
}

impl LoopWake {
    fn as_wake(&self) -> &os::event::Wake {
        &self.shared.wakes[self.index]
    }
}

impl AsFd for LoopWake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.as_wake().as_fd()
    }
}

impl AsRawFd for LoopWake {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
