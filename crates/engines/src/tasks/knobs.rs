//! What can be set.

use crate::knobs::{Knob, Values};
use crate::parts::accept::admission::ACCEPTS_PER_WAKE;
use crate::parts::loops::reactor;

pub(super) const WORKERS: Knob = Knob {
    name: "workers",
    about: "threads that run tasks in a partition; 0 means one for each of its CPUs",
    values: Values::Numbers { min: 0, max: 1024 },
    default: 0,
};

pub(super) const STEALING: Knob = Knob {
    name: "stealing",
    about: "1: the threads of a partition share a listener and take tasks from each other",
    values: Values::Numbers { min: 0, max: 1 },
    default: 0,
};

pub(super) const BLOCKING_THREADS: Knob = Knob {
    name: "blocking_threads",
    about: "threads of a runtime for what may block; 0 means that tasks do it on the spot",
    values: Values::Numbers { min: 0, max: 512 },
    default: 8,
};

pub(super) const KNOBS: &[Knob] =
    &[WORKERS, STEALING, BLOCKING_THREADS, ACCEPTS_PER_WAKE, reactor::FILE_CHUNK_KIB];
