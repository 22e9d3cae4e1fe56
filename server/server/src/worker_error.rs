//! Why a process that a server has started does not begin its work: a worker process, a helper, the
//! spawner of CGI programs.

use std::io;
use std::os::fd::OwnedFd;

use command::Failure;

/// Why a process of a server does not begin its work.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// Its arguments are not those that a server gives.
    #[error("only a server that runs starts worker processes: {0}")]
    Arguments(String),
    /// The system refuses what it needs.
    #[error("a process of the server cannot begin: {0}")]
    System(#[from] io::Error),
}

/// Takes the descriptor whose number is an argument.
pub(crate) fn take(number: &str) -> Result<OwnedFd, WorkerError> {
    let number = number.parse().map_err(|_| format!("{number:?} is no descriptor"));
    let taken = number.and_then(|it| os::inheritance::take(it).map_err(|why| why.to_string()));
    taken.map_err(WorkerError::Arguments)
}

impl From<WorkerError> for Failure {
    fn from(error: WorkerError) -> Self {
        match error {
            WorkerError::Arguments(_) => Self::Usage(error.to_string()),
            WorkerError::System(_) => Self::Operation(error.to_string()),
        }
    }
}
