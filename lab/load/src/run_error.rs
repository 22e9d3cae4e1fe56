//! Why a run has no outcome: by whose fault, for callers that decide what becomes of the server.
//! Not why an outcome says nothing about the server: `void`.

use serde::{Deserialize, Serialize};

use crate::outcome::{EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_TARGET_ERRORS, EXIT_VOID};

/// Why there was no run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum RunError {
    /// The generator could not do its part: a thread, a CPU or a descriptor was refused.
    #[error("{0}")]
    Generator(String),
    /// The system did not give what the options name: the address of a host, the content of a file.
    #[error("{0}")]
    System(String),
    /// The server did not do its part before the load began: it refused a connection that was to
    /// rest, or closed it, or its reply was wrong.
    #[error("{0}")]
    Server(String),
    /// The start time was over when the generator was ready.
    #[error(
        "--start-at: that was {:.3} s ago: start all generators earlier",
        *.late_us as f64 / 1e6
    )]
    TooLate {
        /// For how long it was over, in microseconds.
        late_us: u64,
    },
    /// No start time was given where one was expected, or one that cannot be read.
    #[error("{0}")]
    NoStart(String),
    /// The user ended it before it began.
    #[error("{0}")]
    Interrupted(Before),
}

impl RunError {
    /// The exit status: 1 for a server that did not do its part, for a start time that did not come
    /// and for what the system did not give, 3 for a generator that did not do its part, which says
    /// nothing about the server, 4 for a user who ended it.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Generator(_) | Self::TooLate { .. } => EXIT_VOID,
            Self::Server(_) => EXIT_TARGET_ERRORS,
            Self::NoStart(_) | Self::System(_) => EXIT_FAILURE,
            Self::Interrupted(_) => EXIT_INTERRUPTED,
        }
    }
}

/// What an interrupted run was waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Before {
    /// A start time.
    #[error("--start-at -: interrupted before a start time came")]
    Start,
    /// Connections that are to rest beside the load.
    #[error("--idle: interrupted before all connections were open")]
    Idle,
}
