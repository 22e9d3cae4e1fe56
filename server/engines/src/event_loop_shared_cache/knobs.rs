//! The knobs of the engine.

use crate::knobs::Knob;
use crate::parts::accept::admission::ACCEPTS_PER_WAKE;
use crate::parts::accept::gate;
use crate::parts::loops::reactor;
use crate::parts::loops::watch::EVENTS;
use crate::parts::process_count;

pub(super) const SHARED_PERCENT: Knob = Knob::number("shared_percent", 1..=99, 50)
    .about("how much of the cache's memory the processes share; the rest is their own");

pub(super) const KNOBS: &[Knob] = &[
    process_count::PROCESSES,
    SHARED_PERCENT,
    gate::ACCEPT_GATE_EIGHTHS,
    gate::REQUEUE_EVERY,
    EVENTS,
    ACCEPTS_PER_WAKE,
    reactor::FILE_CHUNK_KIB,
];
