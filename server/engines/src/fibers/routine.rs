//! The routine of a fiber: accepting at a listener, or serving one connection from its first byte
//! to its close. Here is the state that a fiber carries with it; its code is in `turn.rs`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use session::{Connection, Done, Job, JobId, Tick};
use site::resource::FileRef;

use super::lines::FiberLine;
use super::state::{FiberEvents, NEVER};
use crate::jobs::Runner;
use crate::parts::applications::client_call::ClientCall;
use crate::parts::loops::Shared;
use crate::parts::loops::step::Ready;
use crate::parts::loops::transport::{Moved, Plain, Transport};

/// The routine of one fiber.
#[allow(clippy::large_enum_variant, reason = "few fibers accept: most serve connections")]
pub(super) enum Routine {
    Acceptor { listener: usize },
    Connection(ConnectionFiber),
}

/// A connection being served.
pub(super) struct ConnectionFiber {
    pub(super) connection: Connection,
    pub(super) socket: OwnedFd,
    pub(super) ready: Ready,
    pub(super) key: u64,
    pub(super) blocking_work: BlockingWork,
    pub(super) call: ClientCall<FiberLine>,
    pub(super) is_new: bool,
    /// Whether the socket is in the epoll set.
    pub(super) is_watched: bool,
    /// Whether the connection is to go to another engine, as soon as it can be moved.
    pub(super) is_leaving: bool,
    /// Whether it goes now.
    pub(super) is_moving: bool,
    pub(super) has_left: bool,
}

/// The work that takes a fiber to the blocking cluster, and the outcome that it brings back.
pub(super) enum BlockingWork {
    None,
    Job(JobId, Job, Arc<Runner>),
    Done(JobId, Done),
    File {
        file: FileRef,
        offset: u64,
        len: usize,
    },
    Sent(io::Result<Moved>),
    /// The work panicked.
    Failed,
}

/// How a fiber is suspended: until it is run again, or until there is an event for it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Suspension {
    /// The fiber has more work already: others have a turn first.
    Yield { deadline: Tick },
    /// The fiber has no work until there is an event.
    Wait { deadline: Tick, is_idle: bool },
}

impl Routine {
    pub(super) fn connection(connection: Connection, socket: OwnedFd, key: u64) -> Self {
        Self::Connection(ConnectionFiber {
            connection,
            socket,
            ready: Ready::default(),
            key,
            blocking_work: BlockingWork::None,
            call: ClientCall::NONE,
            is_new: true,
            is_watched: false,
            is_leaving: false,
            is_moving: false,
            has_left: false,
        })
    }

    /// Whether the routine is to go on later, with another stack.
    pub(super) fn is_parked(&self) -> bool {
        matches!(self, Self::Connection(fiber) if !fiber.has_left)
    }

    /// Whether the routine's connection goes to another engine now.
    pub(super) fn is_moving(&self) -> bool {
        matches!(self, Self::Connection(fiber) if fiber.is_moving)
    }

    /// The moment until which the routine may rest.
    pub(super) fn deadline(&self) -> Tick {
        match self {
            Self::Connection(fiber) => fiber.deadline(),
            Self::Acceptor { .. } => NEVER,
        }
    }
}

impl ConnectionFiber {
    /// Whether the connection can be moved to another engine now.
    pub(super) fn is_movable(&self, shared: &Shared) -> bool {
        let is_away = !matches!(self.blocking_work, BlockingWork::None) || self.call.is_out();
        !is_away && shared.may_move(&self.connection)
    }

    pub(super) fn deadline(&self) -> Tick {
        self.call.deadline(self.connection.deadline()).unwrap_or(NEVER)
    }
}

impl BlockingWork {
    /// Does the work, in a thread that may block.
    pub(super) fn run(self, socket: &OwnedFd) -> Self {
        match self {
            Self::Job(id, job, runner) => Self::Done(id, runner.run(job)),
            Self::File { file, offset, len } => {
                Self::Sent(Plain(socket.as_fd()).send_file(&file, offset, len))
            }
            other => other,
        }
    }

    /// Drops an outcome that an event has overtaken: a blocking thread has filled the socket, and
    /// the event for new room, which comes only once, came before the fiber went on. One try too
    /// many beats waiting for ever.
    pub(super) fn apply(&mut self, events: FiberEvents) {
        if events.has(FiberEvents::WRITABLE) && self.found_no_room() {
            *self = Self::None;
        }
    }

    /// Whether the work was a send, and the socket was full.
    fn found_no_room(&self) -> bool {
        matches!(self, Self::Sent(Err(why)) if why.kind() == io::ErrorKind::WouldBlock)
    }
}
