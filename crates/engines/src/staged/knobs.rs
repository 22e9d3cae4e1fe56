//! What can be set, and how many threads that makes.

use crate::knobs::{Knob, KnobValues, Values};
use crate::parts::accept::admission::ACCEPTS_PER_WAKE;
use crate::parts::loops::reactor::FILE_CHUNK_KIB;

pub(super) const READ_THREADS: Knob = Knob {
    name: "read_threads",
    about: "threads of the read stage, which opens files; 0 means one for each CPU",
    values: Values::Numbers { min: 0, max: 1024 },
    default: 0,
};

pub(super) const WRITE_THREADS: Knob = Knob {
    name: "write_threads",
    about: "threads of the write stage, which wait for the disk; 0 means one for each CPU",
    values: Values::Numbers { min: 0, max: 1024 },
    default: 0,
};

pub(super) const POOLS: Knob = Knob {
    name: "pools",
    about: "2: reading and writing have threads of their own; 1: all those threads do both",
    values: Values::Numbers { min: 1, max: 2 },
    default: 2,
};

pub(super) const BATCH: Knob = Knob {
    name: "batch",
    about: "connections that a thread takes from its queue at once",
    values: Values::Numbers { min: 1, max: 4096 },
    default: 64,
};

pub(super) const PART_MIN: Knob = Knob {
    name: "part_min",
    about: "a batch of fewer is not divided among threads of its stage that have nothing to do",
    values: Values::Numbers { min: 1, max: 4096 },
    default: 8,
};

pub(super) const COHORTS: Knob = Knob {
    name: "cohorts",
    about: "1: a stage that wakes lets the one that runs fill its queue first; 0: it interrupts",
    values: Values::Numbers { min: 0, max: 1 },
    default: 1,
};

pub(super) const THREAD_CONTROLLER: Knob = Knob {
    name: "thread_controller",
    about: "1: SEDA's: a stage with a long queue gets one more thread, idle ones end; 0: off",
    values: Values::Numbers { min: 0, max: 1 },
    default: 0,
};

pub(super) const THREAD_PERIOD_MS: Knob = Knob {
    name: "thread_period_ms",
    about: "how often the thread controller looks at the queues",
    values: Values::Numbers { min: 10, max: 3_600_000 },
    default: 8000,
};

pub(super) const THREAD_QUEUE_LEN: Knob = Knob {
    name: "thread_queue_len",
    about: "the queue length at which a stage gets one more thread",
    values: Values::Numbers { min: 1, max: 1 << 20 },
    default: 1000,
};

pub(super) const THREADS_MAX: Knob = Knob {
    name: "threads_max",
    about: "threads of a stage that the thread controller does not go beyond",
    values: Values::Numbers { min: 1, max: 1024 },
    default: 20,
};

pub(super) const THREAD_IDLE_MS: Knob = Knob {
    name: "thread_idle_ms",
    about: "a thread that the thread controller added ends after so long without work",
    values: Values::Numbers { min: 1, max: 3_600_000 },
    default: 1000,
};

pub(super) const BATCH_CONTROLLER: Knob = Knob {
    name: "batch_controller",
    about: "1: SEDA's: the smallest batches that keep throughput, at most `batch`; 0: off",
    values: Values::Numbers { min: 0, max: 1 },
    default: 0,
};

pub(super) const BATCH_PERIOD_MS: Knob = Knob {
    name: "batch_period_ms",
    about: "how often the batching controller looks at throughput",
    values: Values::Numbers { min: 10, max: 3_600_000 },
    default: 5000,
};

pub(super) const RESPONSE_TARGET_MS: Knob = Knob {
    name: "response_target_ms",
    about: "SEDA's admission controller accepts what meets this in 9 of 10 requests; 0: off",
    values: Values::Numbers { min: 0, max: 3_600_000 },
    default: 0,
};

pub(super) const ADMISSION_PERIOD_MS: Knob = Knob {
    name: "admission_period_ms",
    about: "how long the admission controller waits for 100 response times before it acts on fewer",
    values: Values::Numbers { min: 10, max: 3_600_000 },
    default: 1000,
};

pub(super) const KNOBS: &[Knob] = &[
    READ_THREADS,
    WRITE_THREADS,
    POOLS,
    BATCH,
    PART_MIN,
    COHORTS,
    THREAD_CONTROLLER,
    THREAD_PERIOD_MS,
    THREAD_QUEUE_LEN,
    THREADS_MAX,
    THREAD_IDLE_MS,
    BATCH_CONTROLLER,
    BATCH_PERIOD_MS,
    RESPONSE_TARGET_MS,
    ADMISSION_PERIOD_MS,
    ACCEPTS_PER_WAKE,
    FILE_CHUNK_KIB,
];

/// The stages that have one thread each: accept, read-poll and write-poll.
pub(super) const SINGLE_THREADS: usize = 3;

/// Threads of the read stage and of the write stage, of so many workers that were planned.
pub(super) fn working_threads(knobs: &KnobValues, workers: usize) -> (usize, usize) {
    let both = workers - SINGLE_THREADS;
    match [READ_THREADS, WRITE_THREADS].map(|knob| knobs.get_usize(knob.name)) {
        [0, 0] => (both / 2, both / 2),
        [0, write] => (both - write, write),
        [read, _] => (read, both - read),
    }
}
