//! What can go wrong with a request, each kind counted apart.

use std::fmt;

/// Why a request has no good reply. Each failed request counts once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorKind {
    /// The target refused the connection (ECONNREFUSED).
    Refused,
    /// No route, host unreachable, and other failures of connect.
    Unreachable,
    /// The connection was reset or broke (ECONNRESET, EPIPE).
    Reset,
    /// The server closed before the first byte of the reply.
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
    /// A status other than 2xx (or than the one asked for).
    BadStatus,
    /// Not HTTP: the reply could not be parsed.
    BadReply,
    /// The generator had no local port left (EADDRNOTAVAIL).
    OutOfPorts,
    /// The generator had no descriptor left (EMFILE, ENFILE).
    OutOfDescriptors,
    /// Anything else the system said.
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

    /// Its name in JSON and CSV.
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

    /// Whether the client gave up waiting: what the papers' tables call a timeout.
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
    /// Counts one.
    pub fn add(&mut self, kind: ErrorKind) {
        self.counts[kind as usize] += 1;
    }

    /// Adds what another counted.
    pub fn merge(&mut self, other: &Self) {
        for (ours, theirs) in self.counts.iter_mut().zip(other.counts) {
            *ours += theirs;
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

    /// All together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Those that occurred, in the order of [`ErrorKind::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (ErrorKind, u64)> + '_ {
        ErrorKind::ALL.into_iter().map(|kind| (kind, self.get(kind))).filter(|(_, n)| *n > 0)
    }
}
