//! The queue in which full buffers are handed to the writer and empty ones come back.
//!
//! The queue is bounded. No thread that hands over lines waits for the disk: when the queue is
//! full, lines are dropped and counted. Buffers that are nearly empty, such as those of many
//! workers that hand over at intervals, are joined, so that the queue is bounded by bytes rather
//! than by buffers. Buffers are reused, so a request allocates nothing. The lock is held for a few
//! instructions, once per buffer and not per line.

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use session::Counter;

use super::{Purpose, count_lines};

/// How many lines may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueLimits {
    /// The size of a buffer.
    pub(crate) buffer_bytes: usize,
    /// Buffers that may wait for the writer. The lines of two consecutive buffers do not fit into
    /// one: the queue is only full when it holds more than half of the bytes that all its buffers
    /// have room for.
    pub(crate) buffers_max: usize,
}

/// The queue between the threads that have lines and the writer.
pub(crate) struct Queue {
    purpose: Purpose,
    limits: QueueLimits,
    state: Mutex<State>,
    changed: Condvar,
    ended: Condvar,
    dropped: Counter,
}

#[derive(Default)]
struct State {
    full: VecDeque<Vec<u8>>,
    empty: Vec<Vec<u8>>,
    /// Lines that the writer is writing now.
    lines_in_writing: u64,
    /// How many queued buffers are still to be written before the file is opened anew.
    reopen_after: Option<usize>,
    /// Whether the loss of lines has been reported.
    has_reported: bool,
    is_closed: bool,
    /// Whether the wait for the writer was given up: the lines that it is writing are counted as
    /// dropped.
    is_abandoned: bool,
    has_ended: bool,
}

/// The next task of the writer.
pub(super) enum Task {
    /// Write these lines, then [`Queue::written`].
    Write(Vec<u8>),
    /// Close the file and open its path anew.
    Reopen,
    /// Stop: everything is written and no more lines will come.
    End,
}

impl Queue {
    pub(super) fn new(purpose: Purpose, limits: QueueLimits) -> Self {
        Self {
            purpose,
            limits,
            state: Mutex::default(),
            changed: Condvar::new(),
            ended: Condvar::new(),
            dropped: Counter::default(),
        }
    }

    pub(super) fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// The number of lines that have been dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    /// Queues the `lines` in `buffer` and leaves an empty buffer in its place. If there is no room,
    /// the lines are dropped and counted. Returns whether there was room.
    pub(crate) fn hand_over(&self, buffer: &mut Vec<u8>, lines: u64) -> bool {
        let mut state = self.lock();
        if state.join_to_last(buffer, self.limits.buffer_bytes) {
            return true;
        }
        if state.full.len() >= self.limits.buffers_max || state.is_closed {
            let is_first = !std::mem::replace(&mut state.has_reported, true);
            drop(state);
            buffer.clear();
            self.dropped.add_together(lines);
            if is_first {
                let what = self.purpose.what;
                (self.purpose.report)(&format!("{what} cannot keep up: lines are dropped"));
            }
            return false;
        }
        let empty = state.empty.pop().unwrap_or_else(|| empty_buffer(self.limits.buffer_bytes));
        state.full.push_back(std::mem::replace(buffer, empty));
        drop(state);
        self.changed.notify_one();
        true
    }

    /// Takes back a buffer, and counts and reports its lines if they could not be written.
    pub(super) fn written(&self, mut buffer: Vec<u8>, outcome: &io::Result<()>) {
        let mut state = self.lock();
        let lines = std::mem::take(&mut state.lines_in_writing);
        let mut failure = None;
        if let Err(why) = outcome
            && !state.is_abandoned
        {
            self.dropped.add_together(lines);
            let is_first = !std::mem::replace(&mut state.has_reported, true);
            failure = is_first.then(|| format!("cannot write {}: {why}", self.purpose.what));
        }
        if state.empty.len() < self.limits.buffers_max {
            buffer.clear();
            state.empty.push(buffer);
        }
        drop(state);
        failure.iter().for_each(|failure| (self.purpose.report)(failure));
    }

    /// Notes that the file was opened anew: the next loss of lines is reported again.
    pub(super) fn begin_anew(&self) {
        self.lock().has_reported = false;
    }

    /// Reopens the file: lines queued before this call belong to the old file, all later ones to
    /// the new.
    pub(crate) fn reopen(&self) {
        let mut state = self.lock();
        state.reopen_after = Some(state.full.len());
        drop(state);
        self.changed.notify_one();
    }

    /// Has what is queued written, and waits for that for so long.
    pub(crate) fn finish(&self, within_us: u64) {
        self.close();
        self.has_ended_within(Duration::from_micros(within_us));
    }

    /// Closes the queue: no more lines are taken; what is queued is still written.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Gives the writer up: it is not waited for any more, and all that it has not written is
    /// dropped.
    pub(super) fn abandon(&self) {
        let mut state = self.lock();
        state.is_abandoned = true;
        self.drop_all(&mut state);
    }

    /// Notes that the writer has ended. After a panic some lines are left; they are dropped.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        self.drop_all(&mut state);
        self.ended.notify_all();
    }

    fn drop_all(&self, state: &mut State) {
        let queued: u64 = state.full.drain(..).map(|lines| count_lines(&lines)).sum();
        self.dropped.add_together(queued + std::mem::take(&mut state.lines_in_writing));
    }

    /// Waits for the end of the writer, for at most `time`. Returns whether it has ended.
    pub(super) fn has_ended_within(&self, time: Duration) -> bool {
        let waited = self.ended.wait_timeout_while(self.lock(), time, |state| !state.has_ended);
        waited.unwrap_or_else(PoisonError::into_inner).0.has_ended
    }

    /// Waits for the next task.
    pub(super) fn next(&self) -> Task {
        let mut state = self.lock();
        loop {
            if state.reopen_after == Some(0) {
                state.reopen_after = None;
                return Task::Reopen;
            }
            if let Some(lines) = state.full.pop_front() {
                state.reopen_after = state.reopen_after.map(|buffers| buffers - 1);
                state.lines_in_writing = count_lines(&lines);
                return Task::Write(lines);
            }
            if state.is_closed {
                return Task::End;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Locks the state, even after a panic of another thread: each change is a single step, so the
    /// state is whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Moves the lines in `buffer` into the last buffer that waits, if they fit and belong to the
    /// same file.
    fn join_to_last(&mut self, buffer: &mut Vec<u8>, bytes_max: usize) -> bool {
        let begins_file = self.reopen_after == Some(self.full.len());
        let Some(last) = self.full.back_mut().filter(|_| !begins_file && !self.is_closed) else {
            return false;
        };
        let fits = last.len() + buffer.len() <= bytes_max;
        if fits {
            last.append(buffer);
        }
        fits
    }
}

/// Returns a buffer with room for a last line that begins just before it is full.
pub(crate) fn empty_buffer(buffer_bytes: usize) -> Vec<u8> {
    const LAST_LINE_BYTES: usize = 2048;
    Vec::with_capacity(buffer_bytes + LAST_LINE_BYTES)
}
