//! `staged`: WatPipe (Radhakrishnan 2019, §3.9; Pariag et al., EuroSys 2007; Harji 2010), the
//! pipeline of stages, which is SEDA (Welsh, Culler, Brewer, SOSP 2001) made short.
//!
//! Its essential mechanism: five stages, and connections that are handed from one to the next in
//! batches; each is in one stage at a time. Three stages wait in the kernel, with one thread each:
//! accept for arrivals, read-poll for requests, write-poll for room in sockets that were full. Two
//! do the work, each with a queue and as many threads as it is given: read receives, parses and
//! opens files; write sends. Both may wait for the disk, and write for a client if sends block. The
//! length of a queue says which of the two is the bottleneck, and threads can be given to it alone.
//! SEDA's controllers, if they are switched on, add threads where queues are long, make batches as
//! small as throughput allows, and accept only as many connections as can be answered in time. On a
//! CPU that stages share, one that is woken does not interrupt the one that wakes it
//! (`SCHED_BATCH`), so that batches become large by themselves (cohort scheduling: Larus and
//! Parkes, USENIX 2002).
//!
//! It differs from `thread-pool`, whose threads take connections from one queue and do all that
//! comes next, in that a thread does one kind of work for many connections in a row.
//!
//! What it leaves out: locality. The thread that notices a request does not answer it: each pays
//! for three hand-overs (to read, to write, and back to read-poll, which is not woken for it), dear
//! when there are few at a time and cheap when batches are large. A pipelined request pays for
//! less: the write stage, which sees the end of the response before it, parses it.
//!
//! Where to read: `client.rs` says which stage is next, `pipeline.rs` what the stages share, and
//! `queue.rs` how they hand over. The stages are `accept.rs`, `read_poll.rs` and `write_poll.rs`
//! (on `poller.rs` and `wait_set.rs`), and `stage_thread.rs` for read and write. The controllers'
//! rules are in `controllers.rs`; `governor.rs` measures and acts.

mod accept;
mod added_threads;
mod cache_padded;
mod client;
mod controllers;
mod governor;
mod pipeline;
mod poller;
mod queue;
mod read_poll;
mod stage_thread;
#[cfg(test)]
mod tests;
mod wait_set;
mod write_poll;

use std::io;
use std::sync::Arc;

use self::accept::Accept;
use self::pipeline::Pipeline;
use self::read_poll::ReadPoll;
use self::stage_thread::StageThread;
use self::write_poll::WritePoll;
use crate::engine::{Engine, EngineSpec, Plan, SendfileMode, Start, WorkerStart};
use crate::knobs::{Knob, KnobValues, Values};
use crate::orders::Order;
use crate::parts::loops::reactor::{ACCEPTS_PER_WAKE, EVENTS_PER_WAIT, FILE_CHUNK_KIB};
use crate::parts::loops::{Loop, Loops, Seat};

pub(crate) const SPEC: EngineSpec = EngineSpec {
    name: "staged",
    family: "pipeline",
    paper: "WatPipe (Radhakrishnan 2019, section 3.9) and SEDA (SOSP 2001)",
    about: "five stages with queues between them: accept, read-poll, read, write-poll, write",
    knobs: KNOBS,
    sendfile: &[SendfileMode::NonBlocking, SendfileMode::Blocking],
    obstacle: crate::engine::runs_everywhere,
    plan,
    start,
};

const READ_THREADS: Knob = Knob {
    name: "read_threads",
    about: "threads of the read stage, which opens files; 0 means one for each CPU",
    values: Values::Numbers { min: 0, max: 1024 },
    default: 0,
};

const WRITE_THREADS: Knob = Knob {
    name: "write_threads",
    about: "threads of the write stage, which wait for the disk; 0 means one for each CPU",
    values: Values::Numbers { min: 0, max: 1024 },
    default: 0,
};

const POOLS: Knob = Knob {
    name: "pools",
    about: "2: reading and writing have threads of their own; 1: all those threads do both",
    values: Values::Numbers { min: 1, max: 2 },
    default: 2,
};

const BATCH: Knob = Knob {
    name: "batch",
    about: "connections that a thread takes from its queue at once",
    values: Values::Numbers { min: 1, max: 4096 },
    default: 64,
};

const PART_MIN: Knob = Knob {
    name: "part_min",
    about: "a batch of fewer is not divided among threads of its stage that have nothing to do",
    values: Values::Numbers { min: 1, max: 4096 },
    default: 8,
};

const COHORTS: Knob = Knob {
    name: "cohorts",
    about: "1: a stage that wakes lets the one that runs fill its queue first; 0: it interrupts",
    values: Values::Numbers { min: 0, max: 1 },
    default: 1,
};

const SEND_WAIT_MS: Knob = Knob {
    name: "send_wait_ms",
    about: "how long a blocking send waits for a client before write-poll does",
    values: Values::Numbers { min: 1, max: 10_000 },
    default: 50,
};

const THREAD_CONTROLLER: Knob = Knob {
    name: "thread_controller",
    about: "1: SEDA's: a stage with a long queue gets one more thread, idle ones end; 0: off",
    values: Values::Numbers { min: 0, max: 1 },
    default: 0,
};

const THREAD_PERIOD_MS: Knob = Knob {
    name: "thread_period_ms",
    about: "how often the thread controller looks at the queues",
    values: Values::Numbers { min: 10, max: 3_600_000 },
    default: 8000,
};

const THREAD_QUEUE_LEN: Knob = Knob {
    name: "thread_queue_len",
    about: "the queue length at which a stage gets one more thread",
    values: Values::Numbers { min: 1, max: 1 << 20 },
    default: 1000,
};

const THREADS_MAX: Knob = Knob {
    name: "threads_max",
    about: "threads of a stage that the thread controller does not go beyond",
    values: Values::Numbers { min: 1, max: 1024 },
    default: 20,
};

const THREAD_IDLE_MS: Knob = Knob {
    name: "thread_idle_ms",
    about: "a thread that the thread controller added ends after so long without work",
    values: Values::Numbers { min: 1, max: 3_600_000 },
    default: 1000,
};

const BATCH_CONTROLLER: Knob = Knob {
    name: "batch_controller",
    about: "1: SEDA's: the smallest batches that keep throughput, at most `batch`; 0: off",
    values: Values::Numbers { min: 0, max: 1 },
    default: 0,
};

const BATCH_PERIOD_MS: Knob = Knob {
    name: "batch_period_ms",
    about: "how often the batching controller looks at throughput",
    values: Values::Numbers { min: 10, max: 3_600_000 },
    default: 5000,
};

const RESPONSE_TARGET_MS: Knob = Knob {
    name: "response_target_ms",
    about: "SEDA's admission controller accepts what meets this in 9 of 10 requests; 0: off",
    values: Values::Numbers { min: 0, max: 3_600_000 },
    default: 0,
};

const ADMISSION_PERIOD_MS: Knob = Knob {
    name: "admission_period_ms",
    about: "how long the admission controller waits for 100 response times before it acts on fewer",
    values: Values::Numbers { min: 10, max: 3_600_000 },
    default: 1000,
};

const KNOBS: &[Knob] = &[
    READ_THREADS,
    WRITE_THREADS,
    POOLS,
    BATCH,
    PART_MIN,
    COHORTS,
    SEND_WAIT_MS,
    THREAD_CONTROLLER,
    THREAD_PERIOD_MS,
    THREAD_QUEUE_LEN,
    THREADS_MAX,
    THREAD_IDLE_MS,
    BATCH_CONTROLLER,
    BATCH_PERIOD_MS,
    RESPONSE_TARGET_MS,
    ADMISSION_PERIOD_MS,
    EVENTS_PER_WAIT,
    ACCEPTS_PER_WAKE,
    FILE_CHUNK_KIB,
];

/// The stages that have one thread each: accept, read-poll and write-poll.
const SINGLE_THREADS: usize = 3;

fn plan(knobs: &KnobValues, cpus: usize) -> Plan {
    let [read, write] = [READ_THREADS, WRITE_THREADS].map(|knob| knobs.workers(knob.name, cpus));
    Plan { workers: SINGLE_THREADS + read + write, listeners_per_worker: false, ..Plan::ONE }
}

/// Threads of the read stage and of the write stage, of so many workers that were planned.
fn working_threads(knobs: &KnobValues, workers: usize) -> (usize, usize) {
    let both = workers - SINGLE_THREADS;
    match [READ_THREADS, WRITE_THREADS].map(|knob| knobs.get_usize(knob.name)) {
        [0, 0] => (both / 2, both / 2),
        [0, write] => (both - write, write),
        [read, _] => (read, both - read),
    }
}

fn start(mut start: Start) -> io::Result<Box<dyn Engine>> {
    let mut seats = Vec::new();
    for partition in &mut start.partitions {
        let pipeline = Arc::new(Pipeline::new(partition, &start.knobs)?);
        for (index, worker) in partition.workers.iter_mut().enumerate() {
            worker.cpu = None; // a stage goes where there is room among the partition's CPUs
            if index != pipeline::ACCEPT {
                worker.listeners.clear(); // nobody else accepts
            }
            seats.push((Arc::clone(&pipeline), index));
        }
    }
    let pipelines = seats.iter().filter(|(_, index)| *index == 0);
    let pipelines = pipelines.map(|(pipeline, _)| Arc::clone(pipeline)).collect();
    let made = seats.clone();
    let make = move |worker: WorkerStart, seat: Seat| {
        let (pipeline, index) = &made[seat.index];
        make(worker, &seat, pipeline, *index)
    };
    let failed = move |index: usize, is_replaced: bool| {
        let (pipeline, index) = &seats[index];
        pipeline.fail(*index, is_replaced);
    };
    let loops = Box::new(Loops::start_related(SPEC.name, start, make, failed)?);
    Ok(Box::new(Staged { loops, pipelines }))
}

/// The engine that runs.
struct Staged {
    loops: Box<Loops>,
    pipelines: Vec<Arc<Pipeline>>,
}

impl Engine for Staged {
    fn tell(&mut self, order: Order) {
        self.loops.tell(order);
    }

    fn keep_house(&self) {
        self.loops.keep_house();
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
        // Those that were added end with the queues they take from.
        self.pipelines.iter().for_each(|pipeline| pipeline.added_threads.join());
        joined
    }
}

/// The thread with this number in its partition.
fn make(
    start: WorkerStart,
    seat: &Seat,
    pipeline: &Arc<Pipeline>,
    index: usize,
) -> io::Result<Loop> {
    match index {
        pipeline::ACCEPT => Accept::make(start, seat, pipeline),
        pipeline::READ_POLL => ReadPoll::make(start, seat, pipeline),
        pipeline::WRITE_POLL => WritePoll::make(start, seat, pipeline),
        _ => {
            let stage = pipeline.stage_of(index);
            Ok(StageThread::new(start.worker, seat, pipeline, stage).into_loop())
        }
    }
}

/// What the queues are made of; for their model `tests/model.rs` has loom's in their place.
mod sync {
    pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
}
