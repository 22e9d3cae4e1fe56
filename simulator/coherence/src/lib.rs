//! A trace-driven simulator of shared-bus multiprocessors: which caches, blocks, scheduler and
//! coherence protocol let a workload scale, and to how many processors.
//!
//! After Foglia, Giorgi and Prete (2001) and their Trace Factory. A [`Workload`] is made once from
//! a trace; a [`Machine`] describes the simulated machine; [`simulate`] runs the workload on it,
//! with a seed, and returns an [`Outcome`]. `docs/simulator/simulate.md` describes what is
//! modelled and what is not.
//!
//! The crate does not read files and uses neither threads nor clocks. Only what moves blocks is
//! simulated: there is no pipeline, no address translation, no prefetching.

#![forbid(unsafe_code)]

mod bus;
mod cache;
mod classify;
mod error;
mod kernel;
mod machine;
mod order;
mod outcome;
pub mod protocol;
mod ranking;
mod record;
mod scheduler;
mod shadow;
mod simulation;
mod workload;

pub use classify::{Miss, Sharing};
pub use error::{MachineError, SimulationError, WorkloadError};
pub use machine::{
    Basis, Blocking, Bus, CacheShape, CleanSupplier, Cpu, Kernel, LastLevel, Machine,
    MemoryLatency, NodePlacement, Numa, Placement, Policy, Scheduler, Until,
};
pub use outcome::{BusUse, Counts, Outcome, Processor, scalable_to};
pub use ranking::{Ranked, Ranking};
pub use record::{Kind, Record};
pub use simulation::{Done, Observer, Options, Reference, simulate, simulate_observed};
pub use workload::{Builder, Workload};

/// The number of tasks is limited by their numbers of 16 bits, three of which mean other things.
pub(crate) const TASKS_MAX: usize = u16::MAX as usize - 3;
