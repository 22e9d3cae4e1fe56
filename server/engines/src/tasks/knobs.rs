//! The knobs of the engine.

use crate::knobs::Knob;
use crate::parts::accept::admission::ACCEPTS_PER_WAKE;
use crate::parts::loops::reactor;

pub(super) const WORKERS: Knob = Knob::number("workers", 0..=1024, 0)
    .about("threads that run tasks in a partition; 0 means one for each of its CPUs");

pub(super) const STEALING: Knob = Knob::switch("stealing", 0)
    .about("1: the threads of a partition share a listener and take tasks from each other");

pub(super) const BLOCKING_THREADS: Knob = Knob::number("blocking_threads", 0..=512, 8)
    .about("threads of a runtime for work that may block; 0 means that tasks do it on the spot");

pub(super) const KNOBS: &[Knob] =
    &[WORKERS, STEALING, BLOCKING_THREADS, ACCEPTS_PER_WAKE, reactor::FILE_CHUNK_KIB];
