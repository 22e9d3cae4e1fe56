//! `fibers`: user threads with stacks of their own. N:1 in a kernel thread (Capriccio: von Behren
//! et al., SOSP 2003), or M:N in a cluster of kernel threads that share a ready queue (uKnot:
//! Radhakrishnan 2019, sections 3.11 and 4.1).
//!
//! Its essential mechanism: each connection is a fiber with a small stack of its own
//! ([`os::fiber`]), in a cluster of one kernel thread (N:1, the default) or several (M:N,
//! `threads_per_cluster`). Where a thread would block the fiber is suspended, in the middle of its
//! loop, until there is an event for it. One kernel thread at a time, the nominated poller
//! (`ready.rs`), polls for events on behalf of the whole cluster. A fiber goes on in any kernel
//! thread that takes it, and uses that thread's worker meanwhile. With `blocking_threads` there are
//! further kernel threads beside the cluster, which may block: a fiber moves there for a job or for
//! a send from a file that is not in memory, and back (Radhakrishnan's future work, §5.2).
//!
//! It differs from `threads` in that only the fiber waits, while its kernel thread goes on with
//! another; from `tasks` in that a stack is suspended, and in its own scheduler.
//!
//! What it leaves out: a server in straight-line code, as `threads-direct` has one. A fiber takes
//! the steps of the state machine that all other engines drive, each on the stack of the kernel
//! thread, which is why its own stack can be small. Work does not move between clusters, and fibers
//! are never preempted. A file on a cold disk delays its kernel thread unless there are
//! `blocking_threads`. While a fiber is with these, it alone may use its socket: that its client
//! has gone is noticed when it is back, in other engines at once.
//!
//! Where to read: `routine.rs` is the code of a fiber, `turn.rs` its work in one turn,
//! `kernel_thread.rs` runs fibers, `state.rs` wakes them, `table.rs` stores them, `cluster.rs` is
//! shared by the kernel threads. Each imports only those before it in this order: state, lines,
//! routine, table, cluster, kernel thread, calls, turn. A fiber whose request an application
//! answers drives both sockets (`calls.rs`): the events of either reach it (`lines.rs`).
//! docs/serve/engines.md lists the names that uKnot's twelve knobs have here.

mod calls;
mod cluster;
mod kernel_thread;
mod knobs;
mod lines;
mod ready;
mod routine;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod timers;
mod turn;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use session::Worker;

use crate::engine::{
    Engine, EngineSpec, Moves, PartitionStart, Plan, SendfileMode, Start, WorkerStart,
};
use crate::knobs::KnobValues;
use crate::lock::lock;
use crate::parts::loops::{LoopContext, Loops};

use self::knobs::{BLOCKING_THREADS, CLUSTERS, KNOBS, THREADS_PER_CLUSTER};
use cluster::Cluster;
use kernel_thread::KernelThread;

pub(crate) const SPEC: EngineSpec = EngineSpec {
    name: "fibers",
    family: "user threads",
    paper: "Knot on Capriccio (N:1); uKnot (M:N; Radhakrishnan 2019, section 3.11)",
    about: "a user thread with a small stack for each connection, in clusters of kernel threads",
    knobs: KNOBS,
    sendfile: &[SendfileMode::Probe, SendfileMode::NonBlocking, SendfileMode::Off],
    applications: "the fiber of the client",
    moves: Moves::BetweenSteps,
    obstacle: crate::engine::runs_everywhere,
    plan,
    start,
};

fn plan(knobs: &KnobValues, cpus: usize) -> Plan {
    let threads = knobs.get_usize(THREADS_PER_CLUSTER.name);
    let clusters = match knobs.get_usize(CLUSTERS.name) {
        0 => cpus.div_ceil(threads).max(1),
        clusters => clusters,
    };
    let fetches = knobs.get(BLOCKING_THREADS.name) > 0;
    Plan { workers: clusters * threads, fetches, ..Plan::ONE }
}

fn start(mut start: Start) -> io::Result<Box<dyn Engine>> {
    let threads = start.knobs.get_usize(THREADS_PER_CLUSTER.name);
    start.partitions.iter_mut().for_each(|partition| gather_listeners(partition, threads));
    let workers: usize = start.partitions.iter().map(|partition| partition.workers.len()).sum();
    let places: Arc<[Place]> = (0..workers.div_ceil(threads)).map(|_| Place::default()).collect();
    let left = Arc::clone(&places);
    let make = move |worker: WorkerStart, loop_context: LoopContext| {
        // The threads of a cluster have consecutive indices.
        let place = &places[loop_context.index / threads];
        let cluster = match loop_context.index.is_multiple_of(threads) {
            true => place.fill(worker.listeners, &worker.worker, &loop_context)?,
            false => place.enter(&loop_context)?,
        };
        Ok(KernelThread::make(worker.worker, cluster, loop_context))
    };
    let failed = move |index: usize, is_replaced: bool| {
        // Only the first thread, which has the listeners, can make another cluster.
        if !is_replaced && index.is_multiple_of(threads) {
            left[index / threads].abandon();
        }
    };
    Ok(Box::new(Loops::start_related(SPEC.name, start, make, failed)?))
}

/// The place of a cluster, and of its replacement if it fails. The kernel threads of a cluster that
/// fails end with it and meet here again: the first makes the next cluster, the others enter it.
#[derive(Default)]
struct Place {
    state: Mutex<PlaceState>,
    changed: Condvar,
}

#[derive(Default)]
struct PlaceState {
    cluster: Weak<Cluster>,
    /// Whether the first thread was not replaced: there will be no other cluster.
    is_abandoned: bool,
}

impl Place {
    fn fill(
        &self,
        listeners: Vec<OwnedFd>,
        worker: &Worker,
        loop_context: &LoopContext,
    ) -> io::Result<Arc<Cluster>> {
        let cluster = Arc::new(Cluster::new(listeners, worker, loop_context)?);
        lock(&self.state).cluster = Arc::downgrade(&cluster);
        self.changed.notify_all();
        Ok(cluster)
    }

    /// Waits for a cluster that has not failed, which the first thread may still have to make.
    fn enter(&self, loop_context: &LoopContext) -> io::Result<Arc<Cluster>> {
        /// The interval of checks whether the engine is about to end: then none may be made.
        const CHECK: Duration = Duration::from_millis(100);
        let mut state = lock(&self.state);
        loop {
            let cluster = state.cluster.upgrade();
            if let Some(cluster) = cluster.filter(|cluster| cluster.failure().is_none()) {
                return Ok(cluster);
            }
            if state.is_abandoned || loop_context.shared.orders.is_any_issued() {
                return Err(io::Error::other("the first thread of its cluster is not replaced"));
            }
            let waited = self.changed.wait_timeout(state, CHECK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn abandon(&self) {
        lock(&self.state).is_abandoned = true;
        self.changed.notify_all();
    }
}

/// Moves the listeners of all workers of a cluster to its first worker: they are the cluster's.
fn gather_listeners(partition: &mut PartitionStart, threads: usize) {
    for cluster in partition.workers.chunks_mut(threads) {
        let Some((first, others)) = cluster.split_first_mut() else { continue };
        others.iter_mut().for_each(|worker| first.listeners.append(&mut worker.listeners));
    }
}
