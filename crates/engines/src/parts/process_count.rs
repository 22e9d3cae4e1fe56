//! How many processes there are: the knob of engines whose processes are an event loop each.

use crate::knobs::{Knob, KnobValues, Values};

pub(crate) const PROCESSES: Knob = Knob {
    name: "processes",
    about: "processes in a partition; 0 means one for each of its CPUs",
    values: Values::Numbers { min: 0, max: 1024 },
    default: 0,
};

/// How many that is in a partition of so many CPUs.
pub(crate) fn of(knobs: &KnobValues, cpus: usize) -> usize {
    knobs.workers(PROCESSES.name, cpus)
}
