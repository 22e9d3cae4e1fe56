//! What was measured: by one thread, one generator, or many. Merging is exact: counts are added,
//! histograms are added bucket by bucket.
//!
//! A request belongs to the measures if its intended time lies in the measured window; its reply
//! is awaited even when the window has ended.

use hdrhistogram::Histogram;

use crate::error_kind::ErrorCounts;

/// Rows of the fairness table: the 36 file types of SPECweb99, single files, everything else.
pub const FILE_KINDS: usize = 38;
/// The row of single files.
pub const SINGLE: usize = 36;
/// The row of URIs that are no file of a file set.
pub const OTHER: usize = 37;
/// Session lengths above this share the last row.
pub const SESSION_LENGTH_MAX: usize = 64;

/// An empty histogram of microseconds: 1 us to 1 hour at three digits, about 170 KiB.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("the bounds are constants")
}

/// Everything that was measured.
#[derive(Clone, Debug)]
pub struct Measures {
    /// Totals.
    pub counts: Counts,
    /// Failed requests by kind.
    pub errors: ErrorCounts,
    /// Times.
    pub times: Times,
    /// By kind of file: class * 9 + number, then [`SINGLE`] and [`OTHER`].
    pub files: Vec<FileRow>,
    /// By number of requests in a session; row 0 is unused, the last holds longer ones too.
    pub lengths: Vec<LengthRow>,
    /// Sessions by the number of replies they got, failed ones too: httperf's histogram. The last
    /// row holds longer ones too.
    pub replies_per_session: Vec<u64>,
    /// By interval, from the start of the window.
    pub series: Vec<Interval>,
}

/// Totals over the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sessions whose intended start lay in the window.
    pub sessions_due: u64,
    /// Of these, those that were started.
    pub sessions_started: u64,
    /// Those that got all their replies.
    pub sessions_completed: u64,
    /// Those that a failed request ended.
    pub sessions_failed: u64,
    /// Those under way when the run ended.
    pub sessions_unfinished: u64,
    /// Requests issued.
    pub requests: u64,
    /// Complete, correct replies.
    pub replies: u64,
    /// Of these, those within the latency target; all of them if there is none.
    pub replies_in_time: u64,
    /// Requests never issued because an earlier one of their session failed.
    pub requests_abandoned: u64,
    /// Replies by the first digit of the status, index 0 for any other; wrong ones too.
    pub status: [u64; 6],
    /// Bytes handed to the system.
    pub bytes_sent: u64,
    /// Bytes of heads of replies.
    pub head_bytes: u64,
    /// Bytes of bodies of replies.
    pub body_bytes: u64,
    /// Bytes of chunk framing and trailers.
    pub framing_bytes: u64,
    /// Connections tried.
    pub connections_tried: u64,
    /// Connections established.
    pub connections: u64,
    /// Most connections open at a time; merged generators add theirs, an upper bound.
    pub connections_open_max: u64,
    /// Sum of the lifetimes of connections with at least one reply, in microseconds.
    pub connection_time_us: u64,
    /// Replies sent again by the server on a kept connection that it closed while a request was
    /// under way; never retried unless asked.
    pub retries: u64,
}

/// Distributions, in microseconds.
#[derive(Clone, Debug)]
pub struct Times {
    /// Whole reply, from the time at which the request should have been sent: the intended
    /// arrival of a session's first request, for later ones completion plus think time.
    pub corrected: Histogram<u64>,
    /// Whole reply, from the time at which it was sent.
    pub uncorrected: Histogram<u64>,
    /// First byte of the reply, from the time at which the request was sent.
    pub first_byte: Histogram<u64>,
    /// Establishing a connection.
    pub connect: Histogram<u64>,
    /// Lifetimes of connections with at least one reply.
    pub connection: Histogram<u64>,
    /// How late the generator itself was: from the intended time to the attempt to send or connect.
    pub lag: Histogram<u64>,
    /// Lifetimes of completed sessions.
    pub session: Histogram<u64>,
    /// Lifetimes of failed sessions.
    pub session_failed: Histogram<u64>,
}

/// One kind of file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileRow {
    /// Requests issued.
    pub requests: u64,
    /// Complete, correct replies.
    pub replies: u64,
    /// Requests that the client gave up.
    pub timeouts: u64,
    /// Replies that ended short, for whatever reason.
    pub truncated: u64,
    /// Bytes of bodies that should have come.
    pub bytes_asked: u64,
    /// Bytes of bodies that came.
    pub bytes_got: u64,
    /// Sum of the response times of `replies`.
    pub time_us: u64,
}

/// Sessions of one length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LengthRow {
    /// Sessions started.
    pub sessions: u64,
    /// Those that got all their replies.
    pub completed: u64,
    /// Those that a timeout ended.
    pub timeouts: u64,
    /// Requests issued.
    pub requests: u64,
    /// Complete, correct replies.
    pub replies: u64,
    /// Bytes of bodies that came.
    pub bytes_got: u64,
}

/// One interval (a second, unless asked otherwise) of the time series. Events are put into the
/// interval in which they occur.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Sessions that were to start in it.
    pub sessions_due: u64,
    /// Requests issued in it.
    pub requests: u64,
    /// Good replies that were completed in it.
    pub replies: u64,
    /// Requests that failed in it.
    pub errors: u64,
    /// Bytes of bodies that came in it.
    pub body_bytes: u64,
    /// Requests under way at its end.
    pub in_flight: u64,
    /// Connections open at its end.
    pub connections: u64,
    /// Corrected times of the replies completed in it, in microseconds.
    pub times: Histogram<u64>,
}

impl Default for Measures {
    fn default() -> Self {
        Self {
            counts: Counts::default(),
            errors: ErrorCounts::default(),
            times: Times::default(),
            files: vec![FileRow::default(); FILE_KINDS],
            lengths: vec![LengthRow::default(); SESSION_LENGTH_MAX + 1],
            replies_per_session: vec![0; SESSION_LENGTH_MAX + 1],
            series: Vec::new(),
        }
    }
}

impl Default for Times {
    fn default() -> Self {
        Self {
            corrected: histogram(),
            uncorrected: histogram(),
            first_byte: histogram(),
            connect: histogram(),
            connection: histogram(),
            lag: histogram(),
            session: histogram(),
            session_failed: histogram(),
        }
    }
}

impl Default for Interval {
    fn default() -> Self {
        Self {
            sessions_due: 0,
            requests: 0,
            replies: 0,
            errors: 0,
            body_bytes: 0,
            in_flight: 0,
            connections: 0,
            times: histogram(),
        }
    }
}
