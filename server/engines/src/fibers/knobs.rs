//! The knobs of the engine.

use crate::knobs::Knob;
use crate::parts::accept::admission::ACCEPTS_PER_WAKE;
use crate::parts::loops::reactor::FILE_CHUNK_KIB;

pub(super) const CLUSTERS: Knob = Knob::number("clusters", 0..=1024, 0)
    .about("clusters in a partition; 0 means as many as give each of its CPUs a kernel thread");

pub(super) const THREADS_PER_CLUSTER: Knob = Knob::number("threads_per_cluster", 1..=1024, 1)
    .about("kernel threads that share the fibers of a cluster; 1 is N:1, more is M:N");

pub(super) const SPAWN_ON_DEMAND: Knob = Knob::switch("spawn_on_demand", 1).about(
    "1: a fiber for every connection; 0: only `prespawned` (at least one), others must wait",
);

pub(super) const PRESPAWNED: Knob = Knob::number("prespawned", 0..=1 << 20, 64)
    .about("fibers of a cluster whose stacks are made ready at the start");

pub(super) const STACK_KIB: Knob = Knob::number("stack_kib", 16..=1024, 16)
    .about("KiB of address space for a fiber's stack; what is not touched costs no memory");

pub(super) const PARK_IDLE: Knob = Knob::switch("park_idle", 0)
    .about("1: a fiber between two requests gives its stack up, and gets another one for the next");

pub(super) const ACCEPTORS: Knob = Knob::number("acceptors", 1..=64, 1)
    .about("fibers that accept connections, for each listener of a cluster");

pub(super) const BLOCKING_THREADS: Knob = Knob::number("blocking_threads", 0..=1024, 0)
    .about("kernel threads beside a cluster to which a fiber moves where it may block; 0: none");

pub(super) const KNOBS: &[Knob] = &[
    CLUSTERS,
    THREADS_PER_CLUSTER,
    SPAWN_ON_DEMAND,
    PRESPAWNED,
    STACK_KIB,
    PARK_IDLE,
    ACCEPTORS,
    BLOCKING_THREADS,
    ACCEPTS_PER_WAKE,
    FILE_CHUNK_KIB,
];
