//! The measurements of one thread, one generator, or many. Merging is exact: counts are added,
//! histograms are added bucket by bucket. `outcome` and `report` interpret the numbers for a
//! reader.
//!
//! A request belongs to the measures if its intended time lies in the measured window; its reply is
//! awaited even after the window has ended.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::backlog::Backlog;
use crate::error_kind::ErrorCounts;
use crate::report::json;

/// Rows of the fairness table: the 36 file types of SPECweb99, single files, everything else.
pub const FILE_KINDS: usize = 38;
/// The row of single files.
pub const SINGLE: usize = 36;
/// The row of URIs that are no file of a file set.
pub const OTHER: usize = 37;
/// Session lengths above this share the last row.
pub const SESSION_LENGTH_MAX: usize = 64;

/// Classes of files with separate times: the four of SPECweb99, single files, everything else.
pub const FILE_CLASSES: usize = 6;

/// The class of a kind of file.
#[must_use]
pub fn class_of_kind(kind: usize) -> usize {
    match kind {
        SINGLE => 4,
        OTHER => 5,
        _ => kind / 9,
    }
}

/// An empty histogram of microseconds: 1 us to 1 hour at three digits, about 170 KiB.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("the bounds are constants")
}

/// An empty histogram for an interval of the series, or a class of files: the same bounds at two
/// digits, so that a run of an hour needs 26 KiB for each second and not 170.
#[must_use]
pub fn interval_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000, 2).expect("the bounds are constants")
}

/// All measurements of a run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Measures {
    /// Totals.
    pub counts: Counts,
    /// Failed requests by kind.
    #[serde(deserialize_with = "json::errors")]
    pub errors: ErrorCounts,
    /// The requests asked and not answered yet, over the window. Absent in documents written before
    /// it was counted.
    #[serde(default)]
    pub backlog: Backlog,
    /// Times.
    pub times: Times,
    /// By kind of file: class * 9 + number, then [`SINGLE`] and [`OTHER`].
    #[serde(skip)] // a part of `fairness` in a document: `report::json` reads it
    pub files: Vec<FileRow>,
    /// Corrected times by class of file, in microseconds, at two digits. Absent in documents
    /// written before classes had separate times.
    #[serde(default = "no_classes", deserialize_with = "json::classes")]
    pub classes: Vec<Histogram<u64>>,
    /// By number of requests in a session; row 0 is unused, the last holds longer ones too.
    #[serde(skip)] // as `files`
    pub lengths: Vec<LengthRow>,
    /// Sessions, failed ones included, by the number of replies that they got: httperf's histogram.
    /// The last row holds longer ones too.
    #[serde(deserialize_with = "json::replies")]
    pub replies_per_session: Vec<u64>,
    /// By interval, from the start of the window.
    pub series: Vec<Interval>,
}

/// Totals over the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Sessions whose intended start lay in the window.
    pub sessions_due: u64,
    /// Sessions due that were started.
    pub sessions_started: u64,
    /// Sessions that got all their replies.
    pub sessions_completed: u64,
    /// Sessions that a failed request ended.
    pub sessions_failed: u64,
    /// Sessions under way when the run ended.
    pub sessions_unfinished: u64,
    /// Requests issued.
    pub requests: u64,
    /// Complete, correct replies.
    pub replies: u64,
    /// Good replies completed within the window, whenever their requests were due: throughput is
    /// computed from them.
    pub replies_in_window: u64,
    /// Bytes of the bodies of `replies_in_window`.
    pub body_bytes_in_window: u64,
    /// Sessions under way when the window began.
    pub sessions_under_way_begin: u64,
    /// Sessions under way when the window ended, and sessions that would have been, had the
    /// generator not been late; 0 if the run ended before the window.
    pub sessions_under_way_end: u64,
    /// How many of `replies` came within the latency target; all of them if there is no target.
    pub replies_in_time: u64,
    /// Requests due in the window, but never issued because an earlier one of their session failed.
    pub requests_abandoned: u64,
    /// How many of `requests_abandoned` the generator had not issued when it was so late that the
    /// run had to end; a lower bound.
    pub requests_overdue: u64,
    /// Replies, wrong ones included, by the first digit of the status; index 0 for any other
    /// status.
    pub status: [u64; 6],
    /// How often unrequested bytes came: behind a reply, or without a request.
    pub surplus_replies: u64,
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
    /// The most connections open at a time; an upper bound after a merge, which adds the
    /// generators' numbers.
    pub connections_open_max: u64,
    /// Sum of the lifetimes of connections with at least one reply, in microseconds.
    pub connection_time_us: u64,
    /// Connections that rested beside the load, all of them open before it began.
    pub idle_connections: u64,
    /// Connections that rested beside the load and that the server had closed when the load was
    /// over.
    pub idle_closed: u64,
}

/// Distributions, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Whole reply, from the time at which the request should have been sent: the intended arrival
    /// for a session's first request, the completion of the reply before plus think time for later
    /// ones.
    #[serde(serialize_with = "json::distribution", deserialize_with = "json::fine")]
    pub corrected: Histogram<u64>,
    /// Whole reply, from the time at which the request was sent.
    #[serde(serialize_with = "json::distribution", deserialize_with = "json::fine")]
    pub uncorrected: Histogram<u64>,
    /// First byte of the reply, from the time at which the request was sent.
    #[serde(serialize_with = "json::distribution", deserialize_with = "json::fine")]
    pub first_byte: Histogram<u64>,
    /// Establishing a connection.
    #[serde(serialize_with = "json::distribution", deserialize_with = "json::fine")]
    pub connect: Histogram<u64>,
    /// Lifetimes of connections with at least one reply.
    #[serde(serialize_with = "json::distribution", deserialize_with = "json::fine")]
    pub connection: Histogram<u64>,
    /// How late the generator itself was: from the intended time to the attempt to send or connect.
    #[serde(serialize_with = "json::distribution", deserialize_with = "json::fine")]
    pub lag: Histogram<u64>,
    /// Lifetimes of completed sessions.
    #[serde(serialize_with = "json::distribution", deserialize_with = "json::fine")]
    pub session: Histogram<u64>,
    /// Lifetimes of failed sessions.
    #[serde(serialize_with = "json::distribution", deserialize_with = "json::fine")]
    pub session_failed: Histogram<u64>,
}

/// One kind of file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileRow {
    /// Requests issued.
    pub requests: u64,
    /// Complete, correct replies.
    pub replies: u64,
    /// Requests that timed out.
    pub timeouts: u64,
    /// Replies that ended before they were complete, for any reason.
    pub truncated: u64,
    /// Bytes that the bodies should have had.
    pub bytes_asked: u64,
    /// Bytes of bodies that came.
    pub bytes_got: u64,
    /// Sum of the response times of `replies`.
    pub time_us: u64,
}

/// Sessions of one length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LengthRow {
    /// Sessions started.
    pub sessions: u64,
    /// Sessions that got all their replies.
    pub completed: u64,
    /// Sessions that a timeout ended.
    pub timeouts: u64,
    /// Requests issued.
    pub requests: u64,
    /// Complete, correct replies.
    pub replies: u64,
    /// Bytes of bodies that came.
    pub bytes_got: u64,
}

/// One interval (a second by default) of the time series. Each event counts in the interval in
/// which it occurs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Sessions that were to start in it.
    pub sessions_due: u64,
    /// Sessions that got the last of their replies in it.
    pub sessions_completed: u64,
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
    #[serde(flatten, serialize_with = "json::interval_times", deserialize_with = "json::coarse")]
    pub times: Histogram<u64>,
}

impl Measures {
    /// Adds the measurements of another thread or generator over the same window.
    pub fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
        self.errors.merge(&other.errors);
        self.backlog.merge(&other.backlog);
        self.times.merge(&other.times);
        merge_rows(&mut self.files, &other.files, FileRow::merge);
        merge_rows(&mut self.classes, &other.classes, add_histogram);
        merge_rows(&mut self.lengths, &other.lengths, LengthRow::merge);
        merge_rows(&mut self.replies_per_session, &other.replies_per_session, add);
        merge_rows(&mut self.series, &other.series, Interval::merge);
    }
}

/// Merges row by row; a row that only `other` has is copied.
fn merge_rows<T: Clone>(rows: &mut Vec<T>, other: &[T], merge: fn(&mut T, &T)) {
    rows.iter_mut().zip(other).for_each(|(row, other)| merge(row, other));
    rows.extend_from_slice(other.get(rows.len()..).unwrap_or_default());
}

/// Adds with saturation, because counts that were read from a file may have any value.
fn add(sum: &mut u64, other: &u64) {
    *sum = sum.saturating_add(*other);
}

/// Adds bucket by bucket. A value beyond the bounds cannot come from [`histogram`]; if there is one
/// all the same, it is counted at the upper bound.
fn add_histogram(sum: &mut Histogram<u64>, other: &Histogram<u64>) {
    if sum.add(other).is_err() {
        for bucket in other.iter_recorded() {
            sum.saturating_record_n(bucket.value_iterated_to(), bucket.count_at_value());
        }
    }
}

/// Calls `add` for each of the named fields.
macro_rules! add_fields {
    ($add:ident, $sum:ident, $other:ident: $($field:ident),* $(,)?) => {
        $( $add(&mut $sum.$field, &$other.$field); )*
    };
}

impl Counts {
    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Self) {
        add_fields!(add, self, other: sessions_due, sessions_started, sessions_completed,
            sessions_failed, sessions_unfinished, requests, replies, replies_in_window,
            body_bytes_in_window, sessions_under_way_begin, sessions_under_way_end,
            replies_in_time, requests_abandoned, requests_overdue, surplus_replies, bytes_sent,
            head_bytes, body_bytes, framing_bytes,
            connections_tried, connections, connections_open_max, connection_time_us,
            idle_connections, idle_closed);
        self.status.iter_mut().zip(&other.status).for_each(|(sum, other)| add(sum, other));
    }

    /// Replies with a status, whether good or not.
    #[must_use]
    pub fn replies_of_any_status(&self) -> u64 {
        self.status.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

impl Times {
    /// Adds the times that another recorded.
    pub fn merge(&mut self, other: &Self) {
        add_fields!(add_histogram, self, other: corrected, uncorrected, first_byte, connect,
            connection, lag, session, session_failed);
    }

    /// Each distribution with its name in JSON, in the order in which they are reported.
    #[must_use]
    pub fn named(&self) -> [(&'static str, &Histogram<u64>); 8] {
        [
            ("corrected", &self.corrected),
            ("uncorrected", &self.uncorrected),
            ("first_byte", &self.first_byte),
            ("connect", &self.connect),
            ("connection", &self.connection),
            ("lag", &self.lag),
            ("session", &self.session),
            ("session_failed", &self.session_failed),
        ]
    }
}

impl FileRow {
    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Self) {
        add_fields!(add, self, other: requests, replies, timeouts, truncated, bytes_asked,
            bytes_got, time_us);
    }

    /// Timeouts in percent of the requests; 0 if there was no request.
    #[must_use]
    pub fn timeout_percent(&self) -> f64 {
        percent(self.timeouts, self.requests)
    }

    /// Mean response time in milliseconds; 0 if there was no reply.
    #[must_use]
    pub fn mean_ms(&self) -> f64 {
        if self.replies == 0 { 0.0 } else { self.time_us as f64 / self.replies as f64 / 1e3 }
    }
}

impl LengthRow {
    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Self) {
        add_fields!(add, self, other: sessions, completed, timeouts, requests, replies,
            bytes_got);
    }

    /// Sessions ended by a timeout, in percent; 0 if there was no session.
    #[must_use]
    pub fn timeout_percent(&self) -> f64 {
        percent(self.timeouts, self.sessions)
    }
}

impl Interval {
    /// Adds the counts and times of another over the same interval.
    pub fn merge(&mut self, other: &Self) {
        add_fields!(add, self, other: sessions_due, sessions_completed, requests, replies, errors,
            body_bytes, in_flight, connections);
        add_histogram(&mut self.times, &other.times);
    }
}

fn no_classes() -> Vec<Histogram<u64>> {
    vec![interval_histogram(); FILE_CLASSES]
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

impl Default for Measures {
    fn default() -> Self {
        Self {
            counts: Counts::default(),
            errors: ErrorCounts::default(),
            backlog: Backlog::default(),
            times: Times::default(),
            files: vec![FileRow::default(); FILE_KINDS],
            classes: no_classes(),
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
            sessions_completed: 0,
            requests: 0,
            replies: 0,
            errors: 0,
            body_bytes: 0,
            in_flight: 0,
            connections: 0,
            times: interval_histogram(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error_kind::ErrorKind;

    fn one_reply(value_us: u64) -> Measures {
        let mut measures = Measures::default();
        measures.counts.requests = 1;
        measures.counts.status[2] = 1;
        measures.errors.add(ErrorKind::Reset);
        measures.times.corrected.record(value_us).unwrap();
        measures.files[3].time_us = value_us;
        measures.classes[1].record(value_us).unwrap();
        measures.lengths[7].sessions = 1;
        measures.replies_per_session[7] = 1;
        measures
    }

    #[test]
    fn sums_are_exact() {
        let mut sum = one_reply(1_000);
        sum.merge(&one_reply(2_000_000));
        assert_eq!((sum.counts.requests, sum.counts.status), (2, [0, 0, 2, 0, 0, 0]));
        assert_eq!(sum.errors.get(ErrorKind::Reset), 2);
        assert_eq!(sum.files[3].time_us, 2_001_000);
        assert_eq!((sum.lengths[7].sessions, sum.replies_per_session[7]), (2, 2));
        let mut together = histogram();
        together.record(1_000).unwrap();
        together.record(2_000_000).unwrap();
        assert_eq!(sum.times.corrected, together);
        assert_eq!((sum.classes[1].len(), sum.classes[0].len()), (2, 0));
    }

    #[test]
    fn series_are_aligned_by_index() {
        let interval = |replies| Interval { replies, in_flight: 1, ..Interval::default() };
        let (mut short, mut long) = (Measures::default(), Measures::default());
        short.series = vec![interval(1)];
        long.series = vec![interval(10), interval(20)];
        let mut swapped = long.clone();
        swapped.merge(&short);
        short.merge(&long);
        let replies: Vec<_> = short.series.iter().map(|interval| interval.replies).collect();
        assert_eq!(replies, [11, 20]);
        assert_eq!(short.series[0].in_flight, 2);
        assert_eq!(short, swapped);
    }

    #[test]
    fn every_count_is_merged() {
        // A field that the list in `merge` lacks would keep its 1 instead of becoming 2.
        fn twice<T: Serialize>(one: &T, two: &T) {
            let numbers = |value: &T| serde_json::to_string(value).unwrap();
            assert_eq!(numbers(one).replace('1', "2"), numbers(two));
        }
        fn ones<T: Serialize + for<'de> Deserialize<'de>>(empty: &T) -> T {
            let text = serde_json::to_string(empty).unwrap().replace('0', "1");
            serde_json::from_str(&text).unwrap()
        }
        let (counts, file) = (ones(&Counts::default()), ones(&FileRow::default()));
        let length = ones(&LengthRow::default());
        let (mut counts_2, mut file_2, mut length_2) = (counts, file, length);
        counts_2.merge(&counts);
        file_2.merge(&file);
        length_2.merge(&length);
        twice(&counts, &counts_2);
        twice(&file, &file_2);
        twice(&length, &length_2);
    }

    #[test]
    fn a_value_beyond_the_bounds_is_counted() {
        let mut far = Histogram::new_with_bounds(1, 36_000_000_000, 3).unwrap();
        far.record(20_000_000_000).unwrap();
        let mut sum = histogram();
        add_histogram(&mut sum, &far);
        assert_eq!(sum.len(), 1);
    }
}
