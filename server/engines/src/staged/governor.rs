//! SEDA's controllers at work: measures at intervals, applies the rules of `controllers.rs`, and
//! acts. It runs in the read-poll stage, which every request leaves and returns to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use session::Tick;

use super::controller_counts::On;
use super::controllers::{
    AdmissionController, BatchController, RATE_MAX, SAMPLES_MAX, ThreadController,
};
use super::pipeline::Pipeline;
use super::stage_thread::StageThread;
use crate::parts::loops::LoopContext;

/// The controllers that are switched on.
pub(super) struct Governor {
    pipeline: Arc<Pipeline>,
    loop_context: LoopContext,
    threads: Option<Periodic<ThreadController>>,
    batches: Option<Periodic<Vec<BatchController>>>,
    admission: Option<Periodic<AdmissionController>>,
    response_times_us: Vec<u64>,
    /// The number of events that each working stage had taken at the last check, for its
    /// throughput.
    taken: Vec<u64>,
}

/// A controller and its interval.
struct Periodic<C> {
    rule: C,
    every_ms: u64,
    last: Tick,
}

impl<C> Periodic<C> {
    fn due(&self) -> Tick {
        self.last.plus_ms(self.every_ms)
    }

    /// The seconds since the last time, if the controller is due.
    fn take_due(&mut self, now: Tick) -> Option<f64> {
        (now >= self.due()).then(|| now.since(std::mem::replace(&mut self.last, now)) as f64 / 1e6)
    }
}

impl Governor {
    /// The controllers that the knobs switch on; none if they are all off.
    pub(super) fn new(
        loop_context: &LoopContext,
        pipeline: &Arc<Pipeline>,
        now: Tick,
    ) -> Option<Self> {
        let knobs = &loop_context.knobs;
        let On { threads, batches, admission } = On::from_knobs(knobs);
        if !(threads || batches || admission) {
            return None;
        }
        let every_ms = |name| knobs.get(name);
        let stages = pipeline.working_stages().len();
        let threads = threads.then(|| Periodic {
            rule: ThreadController {
                queue_len_min: knobs.get_usize(super::knobs::THREAD_QUEUE_LEN.name),
                threads_max: knobs.get_usize(super::knobs::THREADS_MAX.name),
            },
            every_ms: every_ms(super::knobs::THREAD_PERIOD_MS.name),
            last: now,
        });
        let batches = batches.then(|| Periodic {
            rule: vec![BatchController::new(knobs.get_usize(super::knobs::BATCH.name)); stages],
            every_ms: every_ms(super::knobs::BATCH_PERIOD_MS.name),
            last: now,
        });
        let admission = admission.then(|| Periodic {
            rule: AdmissionController::new(knobs.get(super::knobs::RESPONSE_TARGET_MS.name)),
            every_ms: every_ms(super::knobs::ADMISSION_PERIOD_MS.name),
            last: now,
        });
        if admission.is_some() {
            pipeline.set_rate(RATE_MAX);
        }
        Some(Self {
            pipeline: Arc::clone(pipeline),
            loop_context: loop_context.clone(),
            threads,
            batches,
            admission,
            response_times_us: Vec::with_capacity(SAMPLES_MAX),
            taken: vec![0; stages],
        })
    }

    /// Records the response time of a request, in microseconds.
    #[inline]
    pub(super) fn note(&mut self, response_time_us: u64) {
        if self.admission.is_some() && self.response_times_us.len() < SAMPLES_MAX {
            self.response_times_us.push(response_time_us);
        }
    }

    /// Runs the controllers that are due.
    pub(super) fn run_due(&mut self, now: Tick) {
        self.add_threads(now);
        self.size_batches(now);
        self.admit(now);
    }

    /// The moment at which [`Governor::run_due`] is worth calling again.
    pub(super) fn next_check(&self) -> Option<Tick> {
        let threads = self.threads.as_ref().map(Periodic::due);
        let batches = self.batches.as_ref().map(Periodic::due);
        let admission = self.admission.as_ref().map(Periodic::due);
        [threads, batches, admission].into_iter().flatten().min()
    }

    fn add_threads(&mut self, now: Tick) {
        let Some(periodic) = &mut self.threads else { return };
        if periodic.take_due(now).is_none() {
            return;
        }
        for &stage in self.pipeline.working_stages() {
            let pool = self.pipeline.pool(stage);
            if periodic.rule.wants_another(pool.queue.figures().len, pool.threads()) {
                let counts = &self.pipeline.controller_counts;
                match StageThread::add(&self.pipeline, &self.loop_context, stage) {
                    Ok(()) => count(&counts.threads_added),
                    Err(_) => count(&counts.threads_refused), // tried again when due next
                }
            }
        }
    }

    fn size_batches(&mut self, now: Tick) {
        let Some(periodic) = &mut self.batches else { return };
        let Some(seconds) = periodic.take_due(now) else { return };
        let stages = self.pipeline.working_stages().iter();
        for ((&stage, rule), before) in stages.zip(&mut periodic.rule).zip(&mut self.taken) {
            let pool = self.pipeline.pool(stage);
            let taken = pool.queue.figures().taken;
            let taken_since = taken - std::mem::replace(before, taken);
            if taken_since == 0 {
                continue; // without work there is nothing to learn
            }
            let batch = rule.observe(taken_since as f64 / seconds.max(1e-6));
            if pool.batch.swap(batch, Ordering::Relaxed) != batch {
                count(&self.pipeline.controller_counts.batches_changed);
            }
        }
    }

    fn admit(&mut self, now: Tick) {
        let Some(periodic) = &mut self.admission else { return };
        if self.response_times_us.len() >= SAMPLES_MAX {
            periodic.last = now;
        } else if periodic.take_due(now).is_none() {
            return;
        }
        let counts = &self.pipeline.controller_counts;
        let before = self.pipeline.rate();
        let rate = periodic.rule.observe(&mut self.response_times_us);
        self.response_times_us.clear();
        self.pipeline.set_rate(rate);
        counts.percentile_us.store(periodic.rule.percentile_us() as u64, Ordering::Relaxed);
        if before.is_some_and(|before| rate < before) {
            count(&counts.rate_lowered);
        } else if before.is_some_and(|before| rate > before) {
            count(&counts.rate_raised);
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
