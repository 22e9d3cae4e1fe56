//! How many processes there are: the knob of engines whose processes are an event loop each.

use crate::knobs::{Knob, KnobValues};

pub(crate) const PROCESSES: Knob = Knob::number("processes", 0..=1024, 0)
    .about("processes in a partition; 0 means one for each of its CPUs");

/// How many that is in a partition of so many CPUs.
pub(crate) fn of(knobs: &KnobValues, cpus: usize) -> usize {
    knobs.workers(PROCESSES.name, cpus)
}
