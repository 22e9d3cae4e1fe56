//! Why a machine or a workload is refused, or a run of one on the other: each error is one line.

use std::fmt;

use memory_trace::TraceError;

/// What is wrong with the description of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MachineError {
    /// The text is not TOML, or its TOML does not describe a machine.
    Text {
        /// The number of the faulty line, counted from one, if it is known.
        line: Option<usize>,
        /// The message of the TOML parser.
        what: String,
    },
    /// A key has a value that it cannot have.
    Value {
        /// The key with its table: `cache.ways`.
        key: String,
        /// The value as a file would have it.
        value: String,
        /// What is wrong with it and which values are possible.
        advice: String,
    },
    /// The table `basis` gives the source of a value that the machine does not have.
    Basis {
        /// `basis.kernel.skew`, or the table alone.
        key: String,
        /// The key or table that the machine does not have.
        absent: String,
    },
}

/// Why a trace cannot become a [`Workload`](crate::Workload).
#[derive(Debug)]
pub enum WorkloadError {
    /// The trace cannot be read.
    Trace(TraceError),
    /// The trace touches more memory than frames can be numbered; this is the limit, in bytes.
    TooMuchMemory(u64),
    /// The trace has no references.
    NoReferences,
}

/// Why a workload cannot be simulated on a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SimulationError {
    /// The machine is impossible.
    Machine(MachineError),
    /// The workload has this many tasks, which is more than can be numbered.
    TooManyTasks(usize),
    /// The workload touches more memory than blocks can be numbered.
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

    /// This error without its line number, for a text that the user does not see and whose line
    /// numbers would mean nothing.
    #[must_use]
    pub fn without_line(self) -> Self {
        match self {
            Self::Text { what, .. } => Self::Text { line: None, what },
            other => other,
        }
    }
}

impl fmt::Display for MachineError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { line: Some(line), what } => write!(to, "line {line}: {what}"),
            Self::Text { line: None, what } => write!(to, "{what}"),
            Self::Value { key, value, advice } => write!(to, "{key} = {value}: {advice}"),
            Self::Basis { key, absent } => write!(to, "{key}: a machine has no {absent}"),
        }
    }
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace(why) => why.fmt(to),
            Self::TooMuchMemory(bytes) => {
                write!(to, "the trace touches over {} GiB: simulate a part of it", bytes >> 30)
            }
            Self::NoReferences => {
                write!(to, "the trace has no references: nothing to simulate")
            }
        }
    }
}

impl fmt::Display for SimulationError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine(why) => why.fmt(to),
            Self::TooManyTasks(tasks) => {
                write!(to, "{tasks} tasks: at most {} can be simulated", crate::TASKS_MAX)
            }
            Self::TooManyBlocks { touched_bytes, covered_bytes, block_bytes } => write!(
                to,
                "{} MiB are touched, but {} MiB fit blocks of {block_bytes} bytes: give larger \
                 blocks",
                touched_bytes >> 20,
                covered_bytes >> 20
            ),
        }
    }
}

impl From<TraceError> for WorkloadError {
    fn from(why: TraceError) -> Self {
        Self::Trace(why)
    }
}

impl From<MachineError> for SimulationError {
    fn from(why: MachineError) -> Self {
        Self::Machine(why)
    }
}

impl std::error::Error for MachineError {}

impl std::error::Error for WorkloadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Trace(why) => Some(why),
            Self::TooMuchMemory(_) | Self::NoReferences => None,
        }
    }
}

impl std::error::Error for SimulationError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Machine(why) => Some(why),
            Self::TooManyTasks(_) | Self::TooManyBlocks { .. } => None,
        }
    }
}
