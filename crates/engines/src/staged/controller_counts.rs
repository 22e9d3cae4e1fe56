//! What the controllers have done, for whoever watches.

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
    pub(super) fn of(knobs: &KnobValues) -> Self {
        Self {
            threads: knobs.get(THREAD_CONTROLLER.name) == 1,
            batches: knobs.get(BATCH_CONTROLLER.name) == 1,
            admission: knobs.get(RESPONSE_TARGET_MS.name) > 0,
        }
    }
}

/// What the controllers have done, for whoever watches.
#[derive(Default)]
pub(super) struct ControllerCounts {
    pub(super) threads_added: AtomicU64,
    pub(super) threads_refused: AtomicU64,
    pub(super) batches_changed: AtomicU64,
    pub(super) rate_raised: AtomicU64,
    pub(super) rate_lowered: AtomicU64,
    pub(super) percentile_us: AtomicU64,
    /// How often somebody had to wait at a listener for want of a token.
    pub(super) rests: AtomicU64,
}

impl ControllerCounts {
    /// A line for each controller that is on, with the `rate` at which connections are accepted and
    /// how many threads have `ended`. What batches are now is in the lines of the queues.
    pub(super) fn lines(&self, knobs: &KnobValues, rate: Option<f64>, ended: u64) -> Vec<String> {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let On { threads, batches, admission } = On::of(knobs);
        let threads = threads.then(|| {
            let (added, refused) = (of(&self.threads_added), of(&self.threads_refused));
            format!("thread controller: {added} added, {ended} ended, {refused} not to be had")
        });
        let batches =
            batches.then(|| format!("batching controller: {} changes", of(&self.batches_changed)));
        let admission = admission.then(|| {
            let rate = rate.unwrap_or(RATE_MAX);
            let (raised, lowered) = (of(&self.rate_raised), of(&self.rate_lowered));
            let (rests, percentile_ms) = (of(&self.rests), of(&self.percentile_us) as f64 / 1e3);
            format!(
                "admission controller: {rate:.1} connections a second ({raised} raised, {lowered} \
                 lowered), {rests} rests; 9 of 10 responses within {percentile_ms:.1} ms"
            )
        });
        [threads, batches, admission].into_iter().flatten().collect()
    }
}
