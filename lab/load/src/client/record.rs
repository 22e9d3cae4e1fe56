//! Records the measurements of one thread. The callers pass every event with its time; only this
//! module leaves out events outside the window.

use hdrhistogram::Histogram;
use workload::request_log::Request;

use super::cpu::{Cpu, Processor};
use super::slot::Slot;
use crate::backlog::STEPS;
use crate::error_kind::ErrorKind;
use crate::measures::{Interval, Measures, SESSION_LENGTH_MAX, class_of_kind};
use crate::plan::{Expected, Model, Plan};

/// The measured window, by the clock of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The first microsecond of the window.
    pub(crate) from_us: u64,
    /// The first microsecond behind the window.
    pub(crate) to_us: u64,
}

impl Window {
    pub(crate) fn contains(&self, at_us: u64) -> bool {
        (self.from_us..self.to_us).contains(&at_us)
    }
}

/// Counts events, and cuts time into intervals.
pub(super) struct Recorder<'p> {
    plan: &'p Plan,
    pub(super) measures: Measures,
    pub(super) window: Window,
    interval: Interval,
    interval_end_us: u64,
    cpu: Cpu,
}

/// The position of a time relative to the window.
enum Step {
    Before,
    Within(usize),
    Beyond,
}

impl<'p> Recorder<'p> {
    pub(super) fn new(plan: &'p Plan, window: Window) -> Self {
        let interval_end_us = (window.from_us + plan.interval_us).min(window.to_us);
        let mut measures = Measures::default();
        if matches!(plan.model, Model::Open(_)) && plan.duration_us.is_some() {
            measures.backlog.asked = vec![0; STEPS];
            measures.backlog.settled = vec![0; STEPS];
        }
        Self {
            plan,
            measures,
            window,
            interval: Interval::default(),
            interval_end_us,
            cpu: Cpu::default(),
        }
    }

    /// The thread's processor times in the window, up to now if it has not ended.
    pub(super) fn processor(&self) -> Processor {
        self.cpu.spent()
    }

    /// Notes how many sessions are under way when the window begins and when it ends.
    pub(super) fn edges(&mut self, now_us: u64, sessions: u64) {
        let counts = &mut self.measures.counts;
        if now_us >= self.window.from_us && self.cpu.begin_window() {
            counts.sessions_under_way_begin = sessions;
        }
        if now_us >= self.window.to_us && self.cpu.end_window() {
            counts.sessions_under_way_end = sessions;
        }
    }

    /// Records the requests of a session of an open run that was due at `intended_us` and is begun,
    /// or given up, now. A session that was due in the window and begins after it was not under way
    /// at the window's end only because the generator was late.
    pub(super) fn requests_asked(&mut self, now_us: u64, intended_us: u64, requests: &[Request]) {
        if intended_us < self.window.to_us && self.window.to_us <= now_us {
            self.measures.counts.sessions_under_way_end += 1;
        }
        for at_us in due_times(intended_us, requests) {
            match self.step(at_us) {
                Step::Before => self.measures.backlog.begin += 1,
                Step::Within(step) => self.measures.backlog.asked[step] += 1,
                Step::Beyond => break,
            }
        }
    }

    /// Records that a request of an open run is answered at `at_us`, or never will be.
    pub(super) fn settled(&mut self, at_us: u64) {
        match self.step(at_us) {
            Step::Before => self.measures.backlog.begin -= 1,
            Step::Within(step) => self.measures.backlog.settled[step] += 1,
            Step::Beyond => (),
        }
    }

    /// Records that the requests of a session from number `first` on will never be answered: a
    /// request that is not due yet is settled when it would be.
    pub(super) fn settled_from(
        &mut self,
        first: usize,
        slot: &Slot,
        requests: &[Request],
        now_us: u64,
    ) {
        for at_us in due_times(slot.session_us, requests).skip(first) {
            self.settled(at_us.max(now_us));
        }
    }

    fn step(&self, at_us: u64) -> Step {
        let Window { from_us, to_us } = self.window;
        // Only a window with a set length is cut into steps.
        if at_us >= to_us || self.measures.backlog.asked.is_empty() {
            Step::Beyond
        } else if at_us < from_us {
            Step::Before
        } else {
            let step = (at_us - from_us).saturating_mul(STEPS as u64) / (to_us - from_us);
            Step::Within((step as usize).min(STEPS - 1))
        }
    }

    /// Ends the interval if its time is over and returns it. An interval ends with the window, and
    /// others begin there.
    pub(super) fn turn(&mut self, now_us: u64, in_flight: u64, open: u64) -> Option<&Interval> {
        if now_us < self.interval_end_us {
            return None;
        }
        let next_us = self.interval_end_us + self.plan.interval_us;
        let is_within = self.interval_end_us < self.window.to_us;
        self.interval_end_us = if is_within { next_us.min(self.window.to_us) } else { next_us };
        self.interval.in_flight = in_flight;
        self.interval.connections = open;
        self.measures.series.push(std::mem::take(&mut self.interval));
        self.measures.series.last()
    }

    /// When the current interval ends.
    pub(super) fn next_turn_us(&self) -> u64 {
        self.interval_end_us
    }

    /// Ends the last interval, whole or not, unless no event fell into it.
    pub(super) fn finish(mut self, in_flight: u64, open: u64) -> Measures {
        let seen = self.interval.requests + self.interval.replies + self.interval.errors;
        if seen > 0 {
            self.interval.in_flight = in_flight;
            self.interval.connections = open;
            self.measures.series.push(self.interval);
        }
        self.measures
    }

    pub(super) fn session_due(&mut self, now_us: u64, measured: bool) {
        if measured {
            self.measures.counts.sessions_due += 1;
        }
        if now_us >= self.window.from_us {
            self.interval.sessions_due += 1;
        }
    }

    pub(super) fn session_started(&mut self, requests: usize) {
        self.measures.counts.sessions_started += 1;
        self.measures.lengths[requests.min(SESSION_LENGTH_MAX)].sessions += 1;
    }

    /// Counts a measured session that is over at `now_us`.
    pub(super) fn session_ended(&mut self, slot: &Slot, requests: usize, now_us: u64) {
        let counts = &mut self.measures.counts;
        let lifetime_us = now_us.saturating_sub(slot.session_us);
        if slot.session_failed {
            counts.sessions_failed += 1;
            self.measures.times.session_failed.saturating_record(lifetime_us);
        } else {
            counts.sessions_completed += 1;
            self.interval.sessions_completed += 1;
            self.measures.times.session.saturating_record(lifetime_us);
            self.measures.lengths[requests.min(SESSION_LENGTH_MAX)].completed += 1;
        }
        self.measures.replies_per_session[(slot.replies as usize).min(SESSION_LENGTH_MAX)] += 1;
    }

    pub(super) fn session_unfinished(&mut self) {
        self.measures.counts.sessions_unfinished += 1;
    }

    /// Records how late an event with an intended time was.
    pub(super) fn lag(&mut self, intended_us: u64, now_us: u64) {
        self.measures.times.lag.saturating_record(now_us.saturating_sub(intended_us));
    }

    pub(super) fn issued(&mut self, now_us: u64, requests: &[Request], length: usize) {
        for request in requests {
            let expected = &self.plan.expected[request.template()];
            let row = &mut self.measures.files[usize::from(expected.kind)];
            row.requests += 1;
            row.bytes_asked += expected.bytes.unwrap_or(0);
        }
        let count = requests.len() as u64;
        self.measures.counts.requests += count;
        self.measures.lengths[length.min(SESSION_LENGTH_MAX)].requests += count;
        if now_us >= self.window.from_us {
            self.interval.requests += count;
        }
    }

    pub(super) fn sent(&mut self, bytes: usize) {
        self.measures.counts.bytes_sent += bytes as u64;
    }

    pub(super) fn connection_tried(&mut self) {
        self.measures.counts.connections_tried += 1;
    }

    pub(super) fn connection_made(&mut self, took_us: u64) {
        self.measures.counts.connections += 1;
        self.measures.times.connect.saturating_record(took_us);
    }

    /// Records a connection that is closed, or still open at the end. Its lifetime counts if it
    /// carried a good reply.
    pub(super) fn connection_closed(&mut self, slot: &Slot, now_us: u64) {
        if slot.connection_replies == 0 || now_us < self.window.from_us {
            return;
        }
        let lifetime_us = now_us.saturating_sub(slot.connected_us);
        self.measures.counts.connection_time_us += lifetime_us;
        self.measures.times.connection.saturating_record(lifetime_us);
    }

    /// Counts bytes of heads and framing, of measured requests or not, when they are read.
    pub(super) fn overhead(&mut self, head: usize, framing: usize) {
        self.measures.counts.head_bytes += head as u64;
        self.measures.counts.framing_bytes += framing as u64;
    }

    /// Counts the status of a measured reply that is complete, whether good or not.
    pub(super) fn status(&mut self, status: u16) {
        let digit = usize::from(status / 100);
        self.measures.counts.status[if digit <= 5 { digit } else { 0 }] += 1;
    }

    /// Counts a complete and good reply, measured or not, with `body_bytes` bytes of body.
    pub(super) fn completed(&mut self, body_bytes: u64, now_us: u64) {
        if self.window.contains(now_us) {
            self.measures.counts.replies_in_window += 1;
            self.measures.counts.body_bytes_in_window += body_bytes;
        }
    }

    /// Counts a wrong byte in a reply that does not belong to the measures: it is reported all the
    /// same.
    pub(super) fn bad_bytes_outside(&mut self) {
        self.measures.errors.add(ErrorKind::BadBytes);
    }

    /// Counts an arrival of unrequested bytes.
    pub(super) fn surplus(&mut self, now_us: u64) {
        self.measures.counts.surplus_replies += u64::from(now_us >= self.window.from_us);
    }

    /// Notes that `open` connections are open now.
    pub(super) fn open(&mut self, open: u64) {
        let most = &mut self.measures.counts.connections_open_max;
        *most = open.max(*most);
    }

    /// Records a measured reply that is complete and good.
    pub(super) fn reply(&mut self, slot: &Slot, expected: &Expected, length: usize, now_us: u64) {
        let corrected_us = now_us.saturating_sub(slot.intended_us);
        let uncorrected_us = now_us.saturating_sub(slot.issued_us);
        let times = &mut self.measures.times;
        record(&mut times.corrected, corrected_us);
        record(&mut times.uncorrected, uncorrected_us);
        record(&mut times.first_byte, slot.first_byte_us.saturating_sub(slot.issued_us));
        record(&mut self.interval.times, corrected_us);
        self.interval.replies += 1;
        self.interval.body_bytes += slot.body_bytes;
        let counts = &mut self.measures.counts;
        counts.replies += 1;
        counts.body_bytes += slot.body_bytes;
        let in_time = self.plan.latency_target_us.is_none_or(|target| corrected_us <= target);
        counts.replies_in_time += u64::from(in_time);
        let row = &mut self.measures.files[usize::from(expected.kind)];
        row.replies += 1;
        row.bytes_got += slot.body_bytes;
        row.time_us += uncorrected_us;
        record(&mut self.measures.classes[class_of_kind(expected.kind.into())], corrected_us);
        let row = &mut self.measures.lengths[length.min(SESSION_LENGTH_MAX)];
        row.replies += 1;
        row.bytes_got += slot.body_bytes;
    }

    /// Records a measured request that failed after `got` bytes of the body of its reply.
    pub(super) fn failed(&mut self, kind: ErrorKind, expected: &Expected, got: u64, now_us: u64) {
        self.measures.errors.add(kind);
        self.measures.counts.body_bytes += got;
        let row = &mut self.measures.files[usize::from(expected.kind)];
        row.timeouts += u64::from(kind.is_timeout());
        let short = matches!(kind, ErrorKind::ShortBody | ErrorKind::TimeoutReceiving)
            || kind == ErrorKind::BadLength && expected.bytes.is_some_and(|bytes| got < bytes);
        row.truncated += u64::from(short);
        row.bytes_got += got;
        if now_us >= self.window.from_us {
            self.interval.errors += 1;
            self.interval.body_bytes += got;
        }
    }

    /// Counts a measured session of `length` requests that a timeout ended.
    pub(super) fn session_timed_out(&mut self, length: usize) {
        self.measures.lengths[length.min(SESSION_LENGTH_MAX)].timeouts += 1;
    }

    /// Counts requests of a failed session that will never be issued.
    pub(super) fn abandoned(&mut self, requests: u64) {
        self.measures.counts.requests_abandoned += requests;
    }

    /// Counts requests that the generator had not issued when it was so late that the run had to
    /// end.
    pub(super) fn overdue(&mut self, requests: u64) {
        self.abandoned(requests);
        self.measures.counts.requests_overdue += requests;
    }
}

/// When the requests of a session due at `session_us` would be due, had every reply come at once.
pub(super) fn due_times(session_us: u64, requests: &[Request]) -> impl Iterator<Item = u64> {
    let pauses = requests.windows(2).scan(session_us, |at_us, pair| {
        let pause_us = if pair[1].joins() { 0 } else { pair[0].pause_us() };
        *at_us = at_us.saturating_add(pause_us);
        Some(*at_us)
    });
    std::iter::once(session_us).chain(pauses)
}

fn record(histogram: &mut Histogram<u64>, value_us: u64) {
    histogram.saturating_record(value_us);
}
