//! The servers that a call has tried to reach in vain: whatever the policy says, the next is
//! another one.

use crate::failure::Failure;

/// The servers that a call could not reach.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tried {
    /// A bit for each server that was tried in this round. Of more than 64 servers some have the
    /// same bit, so that a round may pass over some.
    servers: u64,
    /// How often all servers were tried.
    rounds: usize,
    /// Whether the last one did not answer in time.
    is_late: bool,
    /// The last one, until it is taken.
    last: Option<usize>,
}

impl Tried {
    /// Notes that a server could not be reached: it `is_late`, or accepts no connections.
    pub fn note(&mut self, server: usize, is_late: bool) {
        self.servers |= 1 << (server % 64);
        self.is_late = is_late;
        self.last = Some(server);
    }

    /// Takes the last server, and whether it was late: another is tried. Once for each.
    #[inline]
    pub fn take_last(&mut self) -> Option<(usize, bool)> {
        self.last.take().map(|server| (server, self.is_late))
    }

    /// Why the call fails when there is no other server.
    #[must_use]
    pub fn failure(&self) -> Failure {
        if self.is_late { Failure::ConnectTimeout } else { Failure::Unreachable }
    }

    /// Whether a server was not tried in this round.
    #[must_use]
    #[inline]
    pub fn wants(&self, server: usize) -> bool {
        self.servers & 1 << (server % 64) == 0
    }

    /// Begins another round: all servers were tried.
    pub fn begin_round(&mut self) {
        self.servers = 0;
        self.rounds += 1;
    }

    /// How often all servers were tried: with each round another of a server's addresses is next.
    #[must_use]
    pub fn rounds(&self) -> usize {
        self.rounds
    }
}
