//! The knobs of the engine, and the numbers of threads that follow from them.

use crate::knobs::{Knob, KnobValues};
use crate::parts::accept::admission::ACCEPTS_PER_WAKE;
use crate::parts::loops::reactor::FILE_CHUNK_KIB;

pub(super) const READ_THREADS: Knob = Knob::number("read_threads", 0..=1024, 0)
    .about("threads of the read stage, which opens files; 0 means one for each CPU");

pub(super) const WRITE_THREADS: Knob = Knob::number("write_threads", 0..=1024, 0)
    .about("threads of the write stage, which wait for the disk; 0 means one for each CPU");

pub(super) const APPLICATION_THREADS: Knob = Knob::number("application_threads", 0..=1024, 0)
    .about("threads of the application stage, if routes need it; 0 means one for each CPU");

pub(super) const POOLS: Knob = Knob::number("pools", 1..=2, 2)
    .about("2: reading and writing have threads of their own; 1: all those threads do both");

pub(super) const BATCH: Knob = Knob::number("batch", 1..=4096, 64)
    .about("connections that a thread takes from its queue at once");

pub(super) const PART_MIN: Knob = Knob::number("part_min", 1..=4096, 8)
    .about("a smaller batch is not divided among idle threads of its stage");

pub(super) const COHORTS: Knob = Knob::switch("cohorts", 1)
    .about("1: a stage that is woken lets the running one fill its queue first; 0: it interrupts");

pub(super) const THREAD_CONTROLLER: Knob = Knob::switch("thread_controller", 0)
    .about("1: SEDA's: a stage with a long queue gets one more thread, idle ones end; 0: off");

pub(super) const THREAD_PERIOD_MS: Knob = Knob::number("thread_period_ms", 10..=3_600_000, 8000)
    .about("how often the thread controller checks the queues");

pub(super) const THREAD_QUEUE_LEN: Knob = Knob::number("thread_queue_len", 1..=1 << 20, 1000)
    .about("the queue length at which a stage gets one more thread");

pub(super) const THREADS_MAX: Knob = Knob::number("threads_max", 1..=1024, 20)
    .about("threads of a stage that the thread controller does not go beyond");

pub(super) const THREAD_IDLE_MS: Knob = Knob::number("thread_idle_ms", 1..=3_600_000, 1000)
    .about("a thread that the thread controller added ends after this time without work");

pub(super) const BATCH_CONTROLLER: Knob = Knob::switch("batch_controller", 0)
    .about("1: SEDA's: the smallest batches that keep throughput, at most `batch`; 0: off");

pub(super) const BATCH_PERIOD_MS: Knob = Knob::number("batch_period_ms", 10..=3_600_000, 5000)
    .about("how often the batching controller checks throughput");

pub(super) const RESPONSE_TARGET_MS: Knob = Knob::number("response_target_ms", 0..=3_600_000, 0)
    .about("SEDA's admission controller accepts so that 9 of 10 requests meet this; 0: off");

pub(super) const ADMISSION_PERIOD_MS: Knob =
    Knob::number("admission_period_ms", 10..=3_600_000, 1000).about(
        "how long the admission controller waits for 100 response times before it acts on fewer",
    );

pub(super) const KNOBS: &[Knob] = &[
    READ_THREADS,
    WRITE_THREADS,
    APPLICATION_THREADS,
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

/// The numbers of threads of the read stage and of the write stage, of `workers` planned workers.
pub(super) fn working_threads(knobs: &KnobValues, workers: usize) -> (usize, usize) {
    let both = workers - SINGLE_THREADS;
    match [READ_THREADS, WRITE_THREADS].map(|knob| knobs.get_usize(knob.name)) {
        [0, 0] => (both / 2, both / 2),
        [0, write] => (both - write, write),
        [read, _] => (read, both - read),
    }
}
