//! Why a machine or a workload is refused, or a run of one on the other: each error is one line.

use std::fmt;

use memory_trace::TraceError;

use crate::TASKS_MAX;

/// What is wrong with the description of a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// The text is not TOML, or its TOML does not describe a machine: the message of its reader.
    #[error("{0}")]
    Text(String),
    /// A key has a value that it cannot have.
    #[error("{key} = {value}: {advice}")]
    Value {
        /// The key with its table: `cache.ways`.
        key: String,
        /// The value as a file would have it.
        value: String,
        /// What is wrong with it and which values are possible.
        advice: String,
    },
    /// The table `basis` gives the source of a value that the machine does not have.
    #[error("{key}: a machine has no {absent}")]
    Basis {
        /// `basis.kernel.skew`, or the table alone.
        key: String,
        /// The key or table that the machine does not have.
        absent: String,
    },
}

/// Why a trace cannot become a [`Workload`](crate::Workload).
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The trace cannot be read.
    #[error("{0}")]
    Trace(#[from] TraceError),
    /// The trace touches more memory than frames can be numbered; this is the limit, in bytes.
    #[error("the trace touches over {} GiB: simulate a part of it", .0 >> 30)]
    TooMuchMemory(u64),
    /// The trace has no references.
    #[error("the trace has no references: nothing to simulate")]
    NoReferences,
}

/// Why a workload cannot be simulated on a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// The machine is impossible.
    #[error("{0}")]
    Machine(#[from] MachineError),
    /// The workload has this many tasks, which is more than can be numbered.
    #[error("{0} tasks: at most {TASKS_MAX} can be simulated")]
    TooManyTasks(usize),
    /// The workload touches more memory than blocks can be numbered.
    #[error(
        "{} MiB are touched, but {} MiB fit blocks of {block_bytes} bytes: give larger blocks",
        .touched_bytes >> 20,
        .covered_bytes >> 20
    )]
    TooManyBlocks {
        /// Bytes that are touched.
        touched_bytes: u64,
        /// Bytes that blocks of this size can cover.
        covered_bytes: u64,
        /// The size of a block.
        block_bytes: u64,
    },
}

impl MachineError {
    pub(crate) fn value(
        key: impl Into<String>,
        value: impl fmt::Display,
        advice: impl Into<String>,
    ) -> Self {
        Self::Value { key: key.into(), value: value.to_string(), advice: advice.into() }
    }
}
