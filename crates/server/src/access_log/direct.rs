//! The log of a process that must not have a thread besides: workers write themselves, and wait
//! for the disk.
//!
//! It may be forked at any time between two calls, with or without its descriptor table shared.

use std::io::Write;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Tally;
use super::output::Output;
use crate::report;

/// An open log.
pub(super) struct Direct {
    state: Mutex<State>,
    path: String,
    tally: Tally,
    /// Changes when the file is to be opened anew: a message would reach one process only, and not
    /// those forked from it.
    generation: &'static AtomicU64,
}

struct State {
    output: Output,
    generation: u64,
    reported: bool,
}

impl Direct {
    pub(super) fn new(
        output: Output,
        path: String,
        tally: Tally,
        generation: &'static AtomicU64,
    ) -> Self {
        let state =
            State { output, generation: generation.load(Ordering::Relaxed), reported: false };
        Self { state: Mutex::new(state), path, tally, generation }
    }

    /// Writes the lines in `buffer` and empties it.
    pub(super) fn write(&self, buffer: &mut Vec<u8>, lines: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = self.generation.load(Ordering::Relaxed);
        if std::mem::replace(&mut state.generation, generation) != generation {
            self.reopen(&state.output);
        }
        let State { output, reported, .. } = &mut *state;
        let outcome = output.write_all(buffer);
        self.tally.count(lines, &outcome, reported);
        buffer.clear();
    }

    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Puts the new file in the place of the old: under its number, which other processes may use
    /// too.
    fn reopen(&self, output: &Output) {
        let Output::File(kept) = output else { return };
        let new = match Output::open(&self.path, None) {
            Ok(output) => output.into_file(),
            Err(why) => return report(&format!("{why}; the old file stays in use")),
        };
        let replaced = new.map(|new| os::inheritance::replace(kept.as_fd(), &new));
        if let Some(Err(why)) = replaced {
            report(&format!("cannot open the access log anew: {why}; the old file stays in use"));
        }
    }
}
