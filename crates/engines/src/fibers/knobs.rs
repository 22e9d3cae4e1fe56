//! What can be set.

use crate::knobs::{Knob, Values};
use crate::parts::accept::admission::ACCEPTS_PER_WAKE;
use crate::parts::loops::reactor::FILE_CHUNK_KIB;

pub(super) const CLUSTERS: Knob = Knob {
    name: "clusters",
    about: "clusters in a partition; 0 means as many as give each of its CPUs a kernel thread",
    values: Values::Numbers { min: 0, max: 1024 },
    default: 0,
};

pub(super) const THREADS_PER_CLUSTER: Knob = Knob {
    name: "threads_per_cluster",
    about: "kernel threads that share the fibers of a cluster; 1 is N:1, more is M:N",
    values: Values::Numbers { min: 1, max: 1024 },
    default: 1,
};

pub(super) const SPAWN_ON_DEMAND: Knob = Knob {
    name: "spawn_on_demand",
    about: "1: a fiber for every connection; 0: only `prespawned` (at least one), others must wait",
    values: Values::Numbers { min: 0, max: 1 },
    default: 1,
};

pub(super) const PRESPAWNED: Knob = Knob {
    name: "prespawned",
    about: "fibers of a cluster whose stacks are made ready at the start",
    values: Values::Numbers { min: 0, max: 1 << 20 },
    default: 64,
};

pub(super) const STACK_KIB: Knob = Knob {
    name: "stack_kib",
    about: "KiB of address space for a fiber's stack; what is not touched costs no memory",
    values: Values::Numbers { min: 16, max: 1024 },
    default: 16,
};

pub(super) const PARK_IDLE: Knob = Knob {
    name: "park_idle",
    about: "1: a fiber between two requests gives its stack up, and gets another one for the next",
    values: Values::Numbers { min: 0, max: 1 },
    default: 0,
};

pub(super) const ACCEPTORS: Knob = Knob {
    name: "acceptors",
    about: "fibers that accept connections, for each listener of a cluster",
    values: Values::Numbers { min: 1, max: 64 },
    default: 1,
};

pub(super) const BLOCKING_THREADS: Knob = Knob {
    name: "blocking_threads",
    about: "kernel threads beside a cluster to which a fiber moves where it may block; 0: none",
    values: Values::Numbers { min: 0, max: 1024 },
    default: 0,
};

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
