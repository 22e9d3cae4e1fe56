//! Ctrl-C, SIGTERM and the end of the terminal end a run, and its measurements so far are shown.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use os::epoll::Interest;
use os::poll::PollSet;
use os::signals::{self, SignalDescriptor};

/// Receives the signals that end a run.
#[derive(Debug)]
pub struct Interrupt {
    signals: SignalDescriptor,
    came: bool,
}

impl Interrupt {
    /// Blocks the signals and receives them from then on. Must be called before any thread is
    /// started, because threads inherit the set of blocked signals.
    ///
    /// # Errors
    /// One line: why signals cannot be received.
    pub fn new() -> Result<Self, String> {
        let signals = SignalDescriptor::new(&signals::endings().collect::<Vec<_>>())
            .map_err(|why| format!("cannot receive signals: {why}"))?;
        Ok(Self { signals, came: false })
    }

    /// Whether one of the signals has come.
    pub fn came(&mut self) -> bool {
        self.came |= self.signals.read().is_some();
        self.came
    }

    /// Waits until `input` has bytes to read or has ended, or one of the signals comes. Returns
    /// whether a signal has come.
    ///
    /// # Errors
    /// If the system cannot wait for `input`.
    pub fn comes_before_input(&mut self, input: BorrowedFd<'_>) -> io::Result<bool> {
        let mut both = PollSet::new();
        both.add(input, Interest::READ, 0)?;
        both.add(self.signals.as_fd(), Interest::READ, 1)?;
        let mut events = Vec::new();
        while events.is_empty() {
            both.wait(&mut events, 2, None)?;
        }
        Ok(self.came())
    }
}
