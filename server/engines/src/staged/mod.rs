//! `staged`: WatPipe (Radhakrishnan 2019, §3.9; Pariag et al., EuroSys 2007; Harji 2010), the
//! pipeline of stages, a shortened SEDA (Welsh, Culler, Brewer, SOSP 2001).
//!
//! Its essential mechanism: five stages, and connections that are handed from one to the next in
//! batches; each is in one stage at a time. Three stages wait in the kernel, with one thread each:
//! accept for arrivals, read-poll for requests, write-poll for room in sockets that were full. Two
//! do the work, each with a queue and a configured number of threads: read receives, parses and
//! opens files; write sends. Both may wait for the disk, and write for a client if sends block. The
//! length of a queue shows which of the two is the bottleneck, and threads can be added to it
//! alone. SEDA's controllers, if they are switched on, add threads where queues are long, make
//! batches as small as throughput allows, and accept only as many connections as can be answered in
//! time. On a CPU that stages share, a stage that is woken does not interrupt the one that wakes it
//! (`SCHED_BATCH`), so that batches become large by themselves (cohort scheduling: Larus and
//! Parkes, USENIX 2002).
//!
//! Where routes lead to applications there is a sixth stage, whose threads are small event loops:
//! one has a connection as long as its call is out. A connection that was handed over with each
//! piece of a reply would have two owners, the sockets of its client and of its application.
//!
//! It differs from `thread-pool`, whose threads take connections from one queue and do all the
//! work on each, in that a thread does one kind of work for many connections in a row.
//!
//! What it leaves out: locality. The thread that notices a request does not answer it: each request
//! costs three hand-overs (to read, to write, and back to read-poll, which is not woken for it),
//! expensive in small batches and cheap in large ones. A pipelined request costs fewer: the write
//! stage, which sees the end of the response before it, parses it.
//!
//! It is the largest engine, because its mechanism has the most parts: three stages that wait, each
//! for something else, two whose threads work in batches, one that does both, the queues between
//! them, the replacement of a stage without the connections that other stages have, and three
//! controllers, each with measures of its own.
//!
//! Its stages do not obey by the trait of the loops (`parts/loops/obey.rs`), because an order means
//! something else to each: the accept stage closes listeners and has no connections to drain, the
//! polling stages have no listeners, read-poll alone closes connections, and the others abort by
//! handing theirs to read-poll. Each stage would have methods that do nothing.
//!
//! Where to read: `client.rs` determines the next stage, `pipeline.rs` holds the shared state of
//! the stages, and `queue.rs` hands connections over. The stages are `accept.rs`, `read_poll.rs`
//! and `write_poll.rs` (on `poller.rs` and `wait_set.rs`), `stage_thread.rs` for read and write,
//! and `caller.rs` for applications. The controllers' rules are in `controllers.rs`; `governor.rs`
//! measures and acts.

mod accept;
mod added_threads;
mod applications;
mod cache_padded;
mod caller;
mod client;
mod controller_counts;
mod controllers;
mod governor;
mod knobs;
mod pipeline;
mod poller;
mod queue;
mod read_poll;
mod stage_thread;
mod sync;
#[cfg(test)]
mod tests;
mod wait_set;
mod write_poll;

use std::io;
use std::sync::Arc;

use self::accept::Accept;
use self::caller::Caller;
use self::knobs::{KNOBS, READ_THREADS, SINGLE_THREADS, WRITE_THREADS};
use self::pipeline::Pipeline;
use self::read_poll::ReadPoll;
use self::stage_thread::StageThread;
use self::write_poll::WritePoll;
use crate::engine::{Engine, EngineSpec, Heir, Moves, Plan, SendfileMode, Start, WorkerStart};
use crate::knobs::KnobValues;
use crate::orders::Order;
use crate::parts::loops::{Loop, LoopContext, Loops};

pub(crate) const SPEC: EngineSpec = EngineSpec {
    name: "staged",
    family: "pipeline",
    paper: "WatPipe (Radhakrishnan 2019, section 3.9) and SEDA (SOSP 2001)",
    about: "five stages with queues between them: accept, read-poll, read, write-poll, write",
    knobs: KNOBS,
    sendfile: &[SendfileMode::NonBlocking, SendfileMode::Blocking, SendfileMode::Off],
    applications: "a stage of its own",
    moves: Moves::BetweenSteps,
    obstacle: crate::engine::runs_everywhere,
    plan,
    start,
};

fn plan(knobs: &KnobValues, cpus: usize) -> Plan {
    let [read, write] = [READ_THREADS, WRITE_THREADS].map(|knob| knobs.workers(knob.name, cpus));
    Plan {
        workers: SINGLE_THREADS + read + write,
        listeners_per_worker: false,
        shares_calls: true,
        ..Plan::ONE
    }
}

fn start(mut start: Start) -> io::Result<Box<dyn Engine>> {
    let mut loop_contexts = Vec::new();
    for partition in &mut start.partitions {
        let pipeline = Pipeline::new(partition, &start.knobs, &start.connections_max)?;
        let pipeline = Arc::new(pipeline);
        // Sites without applications have none of these threads.
        let callers = (0..pipeline.applications.threads()).map(|_| WorkerStart {
            worker: (partition.more)(),
            cpu: None,
            unpinned_cpus: Arc::default(),
            listeners: Vec::new(),
        });
        partition.workers.extend(callers);
        for (index, worker) in partition.workers.iter_mut().enumerate() {
            worker.cpu = None; // a stage runs on any CPU of the partition
            if index != pipeline::ACCEPT {
                worker.listeners.clear(); // only the accept stage accepts
            }
            loop_contexts.push((Arc::clone(&pipeline), index));
        }
    }
    let pipelines = loop_contexts.iter().filter(|(_, index)| *index == 0);
    let pipelines = pipelines.map(|(pipeline, _)| Arc::clone(pipeline)).collect();
    let made = loop_contexts.clone();
    let make = move |worker: WorkerStart, loop_context: LoopContext| {
        let (pipeline, index) = &made[loop_context.index];
        make(worker, &loop_context, pipeline, *index)
    };
    let failed = move |index: usize, is_replaced: bool| {
        let (pipeline, index) = &loop_contexts[index];
        pipeline.fail(*index, is_replaced);
    };
    let loops = Loops::start_related(SPEC.name, start, make, failed)?;
    let loops = Box::new(loops);
    Ok(Box::new(Staged { loops, pipelines }))
}

/// The engine that runs.
struct Staged {
    loops: Box<Loops>,
    pipelines: Vec<Arc<Pipeline>>,
}

impl Engine for Staged {
    fn issue(&mut self, order: Order) {
        self.loops.issue(order);
    }

    fn heir(&self) -> Option<Arc<dyn Heir>> {
        self.loops.heir()
    }

    fn leave(&mut self, heir: Option<Arc<dyn Heir>>) {
        self.loops.leave(heir);
    }

    fn has_left(&self) -> bool {
        self.loops.has_left()
    }

    fn do_housekeeping(&self) {
        self.loops.do_housekeeping();
    }

    fn failure(&self) -> Option<&str> {
        self.loops.failure()
    }

    fn take_notices(&self) -> Vec<String> {
        self.loops.take_notices()
    }

    fn is_finished(&self) -> bool {
        self.loops.is_finished() && self.pipelines.iter().all(|p| p.added_threads.is_finished())
    }

    fn status(&self) -> Vec<String> {
        self.pipelines.iter().flat_map(|pipeline| pipeline.status()).collect()
    }

    fn join(self: Box<Self>) -> io::Result<()> {
        let joined = self.loops.join();
        // Threads that were added end with the queues they take from.
        self.pipelines.iter().for_each(|pipeline| pipeline.added_threads.join());
        joined
    }
}

/// Makes the loop of the thread with this index in its partition.
fn make(
    start: WorkerStart,
    loop_context: &LoopContext,
    pipeline: &Arc<Pipeline>,
    index: usize,
) -> io::Result<Loop> {
    match index {
        pipeline::ACCEPT => Accept::make(start, loop_context, pipeline),
        pipeline::READ_POLL => ReadPoll::make(start, loop_context, pipeline),
        pipeline::WRITE_POLL => WritePoll::make(start, loop_context, pipeline),
        _ => match pipeline.caller(index) {
            Some(number) => Caller::make(start, loop_context, pipeline, number),
            None => {
                let stage = pipeline.working_stage(index);
                Ok(StageThread::new(start.worker, loop_context, pipeline, stage).into_loop())
            }
        },
    }
}
