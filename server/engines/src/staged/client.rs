//! The object that travels through the stages: a connection with all that belongs to it, in one box
//! that changes owners. Only the owner of the box can use the connection.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use session::{Connection, Job, Op, Phase, Tick};

use crate::parts::loops::Shared;
use crate::parts::loops::step::Ready;

/// A connection on its way.
pub(super) struct Client {
    pub(super) connection: Connection,
    /// Known to the connection's registrations, so that it can be shut down wherever the connection
    /// is. Dropping the box closes it.
    pub(super) socket: Arc<OwnedFd>,
    /// Counts the connection as open, until it is closed, or lost with a stage that fails.
    pub(super) counted: Option<Counted>,
    pub(super) ready: Ready,
    /// The keys of the connection's registrations in the wait sets of the two stages that poll,
    /// once it has been there.
    pub(super) registrations: [Option<u64>; 2],
    /// Whether the read-poll stage gets an event for new input, wherever the connection is.
    pub(super) is_watched: bool,
    /// When the request under way was found; for its response time.
    pub(super) since: Tick,
    /// Whether the write stage has had the connection since then.
    pub(super) is_answered: bool,
    /// Whether the connection is to finish and close.
    pub(super) is_draining: bool,
    /// Whether the connection only remains to be closed.
    pub(super) is_over: bool,
    /// Whether the socket is in blocking mode.
    pub(super) is_blocking: bool,
    /// Whether the peer once took longer than a thread waits: no thread waits for it again.
    pub(super) is_slow: bool,
    /// The heir that refused it, by its number; 0 if none has.
    pub(super) refused_by: u32,
}

/// One of the connections that are open.
pub(super) struct Counted(Option<Arc<Shared>>);

impl Counted {
    /// Counts a connection that was accepted.
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        shared.open.fetch_add(1, Ordering::Relaxed);
        Self::already(shared)
    }

    /// A connection that was counted by another engine.
    pub(super) fn already(shared: &Arc<Shared>) -> Self {
        Self(Some(Arc::clone(shared)))
    }

    /// Leaves the connection counted, for another engine.
    pub(super) fn give_away(mut self) {
        self.0 = None;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A client in a queue: handing it over moves a pointer, not 300 bytes.
pub(super) type BoxedClient = Box<Client>;

/// The stages that a connection passes, after it was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The connection waits until something arrives, or is at its end.
    ReadPoll,
    Read,
    /// The connection waits until there is space to send.
    WritePoll,
    Write,
    /// The connection waits for the application that answers its request.
    Application,
}

impl Client {
    pub(super) fn new(connection: Connection, socket: OwnedFd, counted: Counted) -> Self {
        Self {
            connection,
            socket: Arc::new(socket),
            counted: Some(counted),
            ready: Ready::default(),
            registrations: [None; 2],
            is_watched: false,
            since: Tick(0),
            is_answered: false,
            is_draining: false,
            is_over: false,
            is_blocking: false,
            is_slow: false,
            refused_by: 0,
        }
    }

    /// The stage whose work is next. The boundaries between stages are defined here.
    #[inline]
    pub(super) fn next_stage(&self) -> Stage {
        if self.is_over {
            return Stage::ReadPoll;
        }
        match self.connection.next() {
            Op::Recv if self.ready.is_drained && !self.ready.is_hung_up => Stage::ReadPoll,
            Op::Recv | Op::Shutdown => Stage::Read,
            Op::Job | Op::Stream(_) => self.stage_of_job(),
            Op::Send { .. } | Op::File { .. } | Op::Read { .. } => Stage::Write,
            // Other jobs are run on the spot, so that none is ever out.
            Op::Wait | Op::Close { .. } => Stage::ReadPoll,
        }
    }

    #[cold]
    #[inline(never)]
    fn stage_of_job(&self) -> Stage {
        match self.connection.job() {
            Some(Job::Application(_)) => Stage::Application,
            _ => Stage::Read,
        }
    }

    /// Whether the read-poll stage should take the connection in at once. A connection that only
    /// comes back to rest has time: new input for it wakes that stage anyway.
    #[inline]
    pub(super) fn is_urgent(&self) -> bool {
        let rests = matches!(self.connection.next(), Op::Recv);
        self.is_over || !self.is_watched || !rests
    }

    /// Has the connection finish the response under way and then close, if that was not done yet.
    #[inline]
    pub(super) fn drain(&mut self) {
        if !std::mem::replace(&mut self.is_draining, true) {
            self.connection.drain();
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.connection.phase() == Phase::Idle
    }
}
