//! The servers that a call has tried to reach in vain: whatever the policy says, the next is
//! another one.

/// The servers that a call could not reach.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tried {
    /// A bit for each server that was tried in this round. Of more than 64 servers some have the
    /// same bit, so that a round may pass over some.
    servers: u64,
    /// How often all servers were tried.
    rounds: usize,
    count: usize,
}

impl Tried {
    /// Notes that a server could not be reached.
    pub fn note(&mut self, server: usize) {
        self.servers |= 1 << (server % 64);
        self.count += 1;
    }

    /// How often a server could not be reached.
    #[must_use]
    #[inline]
    pub fn count(&self) -> usize {
        self.count
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
