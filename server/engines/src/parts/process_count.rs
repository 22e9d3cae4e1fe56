//! The number of processes: the knob of engines whose processes are an event loop each.

use crate::knobs::{Knob, KnobValues};

pub(crate) const PROCESSES: Knob = Knob::number("processes", 0..=1024, 0)
    .about("processes in a partition; 0 means one for each of its CPUs");

/// The number of processes in a partition of `cpus` CPUs.
pub(crate) fn from_knobs(knobs: &KnobValues, cpus: usize) -> usize {
    knobs.workers(PROCESSES.name, cpus)
}
