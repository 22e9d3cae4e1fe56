//! Where workers hand full buffers to the writer and get empty ones back.
//!
//! A bounded queue. A worker never waits for the disk: when the queue is full, what it brings is
//! dropped and counted. Buffers go round, so a request allocates nothing. The lock is held for a
//! few instructions, once per buffer and not per line.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::Tally;

/// The meeting point of workers and the writer.
pub(super) struct Exchange {
    state: Mutex<State>,
    changed: Condvar,
    buffer_bytes: usize,
    queue_buffers_max: usize,
    tally: Tally,
}

struct State {
    full: VecDeque<Vec<u8>>,
    empty: Vec<Vec<u8>>,
    /// How many queued buffers are still to be written before the file is opened anew.
    reopen_after: Option<usize>,
    closed: bool,
}

/// What the writer has to do next.
pub(super) enum Task {
    /// Write these lines, then give the buffer back.
    Write(Vec<u8>),
    /// Close the file and open its path anew.
    Reopen,
    /// Everything is written and nothing will come.
    End,
}

impl Exchange {
    pub(super) fn new(buffer_bytes: usize, queue_buffers_max: usize, tally: Tally) -> Self {
        let state = State {
            full: VecDeque::with_capacity(queue_buffers_max),
            empty: Vec::with_capacity(queue_buffers_max + 1),
            reopen_after: None,
            closed: false,
        };
        let state = Mutex::new(state);
        Self { state, changed: Condvar::new(), buffer_bytes, queue_buffers_max, tally }
    }

    /// Queues the lines in `buffer` and leaves an empty buffer in its place.
    pub(super) fn hand_over(&self, buffer: &mut Vec<u8>, lines: u64) {
        let mut state = self.lock();
        if state.full.len() >= self.queue_buffers_max || state.closed {
            drop(state);
            self.tally.dropped.add_together(lines);
            return buffer.clear();
        }
        let empty = state.empty.pop().unwrap_or_else(|| self.empty_buffer());
        state.full.push_back(std::mem::replace(buffer, empty));
        drop(state);
        self.changed.notify_one();
    }

    fn empty_buffer(&self) -> Vec<u8> {
        empty_buffer(self.buffer_bytes)
    }

    /// Takes a written buffer back.
    pub(super) fn give_back(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut state = self.lock();
        if state.empty.len() < self.queue_buffers_max {
            state.empty.push(buffer);
        }
    }

    /// What has become of lines.
    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Lines queued before this call belong to the old file, all later ones to the new.
    pub(super) fn reopen(&self) {
        let mut state = self.lock();
        state.reopen_after = Some(state.full.len());
        drop(state);
        self.changed.notify_one();
    }

    /// No more lines are taken; what is queued is still written.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    /// Waits for something to do.
    pub(super) fn next(&self) -> Task {
        let mut state = self.lock();
        loop {
            if state.reopen_after == Some(0) {
                state.reopen_after = None;
                return Task::Reopen;
            }
            if let Some(lines) = state.full.pop_front() {
                state.reopen_after = state.reopen_after.map(|buffers| buffers - 1);
                return Task::Write(lines);
            }
            if state.closed {
                return Task::End;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A panic elsewhere leaves the state whole: every change to it is a single step.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A buffer with room for a last line that begins just before it is full.
pub(super) fn empty_buffer(buffer_bytes: usize) -> Vec<u8> {
    const LAST_LINE_BYTES: usize = 2048;
    Vec::with_capacity(buffer_bytes + LAST_LINE_BYTES)
}
