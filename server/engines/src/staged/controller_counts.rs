//! Counts of the controllers' actions, for the engine's status.

use std::sync::atomic::{AtomicU64, Ordering};

use super::controllers::RATE_MAX;
use super::knobs::{BATCH_CONTROLLER, RESPONSE_TARGET_MS, THREAD_CONTROLLER};
use crate::knobs::KnobValues;

/// Which controllers the knobs switch on.
pub(super) struct On {
    pub(super) threads: bool,
    pub(super) batches: bool,
    pub(super) admission: bool,
}

impl On {
    pub(super) fn from_knobs(knobs: &KnobValues) -> Self {
        Self {
            threads: knobs.get(THREAD_CONTROLLER.name) == 1,
            batches: knobs.get(BATCH_CONTROLLER.name) == 1,
            admission: knobs.get(RESPONSE_TARGET_MS.name) > 0,
        }
    }
}

/// Counts of the controllers' actions.
#[derive(Default)]
pub(super) struct ControllerCounts {
    pub(super) threads_added: AtomicU64,
    pub(super) threads_refused: AtomicU64,
    pub(super) batches_changed: AtomicU64,
    pub(super) rate_raised: AtomicU64,
    pub(super) rate_lowered: AtomicU64,
    pub(super) percentile_us: AtomicU64,
    /// How often a connection had to wait at a listener for lack of a token.
    pub(super) rests: AtomicU64,
}

impl ControllerCounts {
    /// A line for each controller that is on, with the `rate` at which connections are accepted and
    /// the number of threads that have `ended`. The lines of the queues have the batch sizes.
    pub(super) fn lines(&self, knobs: &KnobValues, rate: Option<f64>, ended: u64) -> Vec<String> {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let On { threads, batches, admission } = On::from_knobs(knobs);
        let threads = threads.then(|| {
            let (added, refused) = (load(&self.threads_added), load(&self.threads_refused));
            format!("thread controller: {added} added, {ended} ended, {refused} not started")
        });
        let batches = batches
            .then(|| format!("batching controller: {} changes", load(&self.batches_changed)));
        let admission = admission.then(|| {
            let rate = rate.unwrap_or(RATE_MAX);
            let (raised, lowered) = (load(&self.rate_raised), load(&self.rate_lowered));
            let rests = load(&self.rests);
            let percentile_ms = load(&self.percentile_us) as f64 / 1e3;
            format!(
                "admission controller: {rate:.1} connections a second ({raised} raised, {lowered} \
                 lowered), {rests} rests; 9 of 10 responses within {percentile_ms:.1} ms"
            )
        });
        [threads, batches, admission].into_iter().flatten().collect()
    }
}
