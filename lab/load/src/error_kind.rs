//! The kinds of errors of requests, each of which is counted separately.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a request has no good reply. Each failed request counts once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")] // as `name` has it
pub enum ErrorKind {
    /// The target refused the connection (ECONNREFUSED).
    Refused,
    /// No route to the target, or its host is unreachable (ENETUNREACH, EHOSTUNREACH).
    Unreachable,
    /// The connection was reset or broke (ECONNRESET, EPIPE).
    Reset,
    /// The server closed before the head of the reply was complete.
    ClosedEarly,
    /// Not connected within the connect timeout.
    TimeoutConnecting,
    /// The request could not be handed over within the reply timeout.
    TimeoutSending,
    /// No byte of the reply within the reply timeout.
    TimeoutWaiting,
    /// The reply began but was not complete within the reply timeout.
    TimeoutReceiving,
    /// The connection ended before the body was complete.
    ShortBody,
    /// The body's length is not what the file's should be.
    BadLength,
    /// A byte of the body is wrong.
    BadBytes,
    /// A status other than 2xx and 3xx.
    BadStatus,
    /// Not HTTP: the reply could not be parsed.
    BadReply,
    /// The generator had no local port left (EADDRNOTAVAIL).
    OutOfPorts,
    /// The generator had no descriptor left (EMFILE, ENFILE).
    OutOfDescriptors,
    /// Any other error of the system, also while connecting.
    Other,
}

impl ErrorKind {
    /// All kinds, in the order in which they are reported.
    pub const ALL: [Self; 16] = [
        Self::Refused,
        Self::Unreachable,
        Self::Reset,
        Self::ClosedEarly,
        Self::TimeoutConnecting,
        Self::TimeoutSending,
        Self::TimeoutWaiting,
        Self::TimeoutReceiving,
        Self::ShortBody,
        Self::BadLength,
        Self::BadBytes,
        Self::BadStatus,
        Self::BadReply,
        Self::OutOfPorts,
        Self::OutOfDescriptors,
        Self::Other,
    ];

    /// The kind's name in JSON and CSV.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Reset => "reset",
            Self::ClosedEarly => "closed_early",
            Self::TimeoutConnecting => "timeout_connecting",
            Self::TimeoutSending => "timeout_sending",
            Self::TimeoutWaiting => "timeout_waiting",
            Self::TimeoutReceiving => "timeout_receiving",
            Self::ShortBody => "short_body",
            Self::BadLength => "bad_length",
            Self::BadBytes => "bad_bytes",
            Self::BadStatus => "bad_status",
            Self::BadReply => "bad_reply",
            Self::OutOfPorts => "out_of_ports",
            Self::OutOfDescriptors => "out_of_descriptors",
            Self::Other => "other",
        }
    }

    /// Finds the kind with that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// What happened, and what the user can do about it where the cause is on the user's side.
    #[must_use]
    pub fn hint(self) -> &'static str {
        match self {
            Self::Refused => "nothing listens there, or its backlog was full: is the server up?",
            Self::Unreachable => "no way to the target: check address, route and firewall",
            Self::Reset => "the connection was reset: the server broke off, or was overwhelmed",
            Self::ClosedEarly => {
                "the server closed before it answered: its idle timeout, or its \
                limit of requests on a connection"
            }
            Self::TimeoutConnecting => {
                "not connected in time: an overloaded server, a full \
                backlog, a firewall that drops"
            }
            Self::TimeoutSending => "the server did not read the request in time",
            Self::TimeoutWaiting => "no byte of the reply in time",
            Self::TimeoutReceiving => "the reply began and was not complete in time",
            Self::ShortBody => "the connection ended within a body",
            Self::BadLength => {
                "a body of the wrong length: does the log belong to this file set? \
                An imported log may tell lengths of compressed replies: --verify none"
            }
            Self::BadBytes => "a body with wrong bytes: does the server serve the right files?",
            Self::BadStatus => "not the status that was expected: see the counts of status",
            Self::BadReply => "what came is not HTTP/1",
            Self::OutOfPorts => {
                "no local port was left: give more source addresses, keep \
                connections alive, or widen net.ipv4.ip_local_port_range"
            }
            Self::OutOfDescriptors => "no descriptor was left: raise the limit with `ulimit -n`",
            Self::Other => "the system refused something else",
        }
    }

    /// Whether the client gave up waiting, which the papers' tables call a timeout.
    #[must_use]
    pub fn is_timeout(self) -> bool {
        matches!(
            self,
            Self::TimeoutConnecting
                | Self::TimeoutSending
                | Self::TimeoutWaiting
                | Self::TimeoutReceiving
        )
    }

    /// Whether the fault is the generator's own, so that the run says nothing about the server.
    #[must_use]
    pub fn is_own(self) -> bool {
        matches!(self, Self::OutOfPorts | Self::OutOfDescriptors)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// How often each kind occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorCounts {
    counts: [u64; ErrorKind::ALL.len()],
}

impl ErrorCounts {
    /// Counts one error.
    pub fn add(&mut self, kind: ErrorKind) {
        self.counts[kind as usize] += 1;
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Self) {
        for (ours, theirs) in self.counts.iter_mut().zip(other.counts) {
            *ours = ours.saturating_add(theirs);
        }
    }

    /// How often `kind` occurred.
    #[must_use]
    pub fn get(&self, kind: ErrorKind) -> u64 {
        self.counts[kind as usize]
    }

    /// Sets a count, when reading a result back.
    pub fn set(&mut self, kind: ErrorKind, count: u64) {
        self.counts[kind as usize] = count;
    }

    /// The errors of all kinds together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The kinds that occurred, with their counts, in the order of [`ErrorKind::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (ErrorKind, u64)> + '_ {
        ErrorKind::ALL.into_iter().map(|kind| (kind, self.get(kind))).filter(|(_, n)| *n > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_read_back() {
        for (index, kind) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index, "the order of ALL is that of the variants");
            assert_eq!(ErrorKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(ErrorKind::from_name("refused "), None);
    }

    #[test]
    fn merged_counts_are_sums() {
        let mut ours = ErrorCounts::default();
        ours.add(ErrorKind::Reset);
        let mut theirs = ErrorCounts::default();
        theirs.set(ErrorKind::Reset, 2);
        theirs.set(ErrorKind::Other, 5);
        ours.merge(&theirs);
        let all: Vec<_> = ours.iter().collect();
        assert_eq!(all, [(ErrorKind::Reset, 3), (ErrorKind::Other, 5)]);
        assert_eq!(ours.total(), 8);
    }
}
