//! Ctrl-C, SIGTERM and the end of the terminal end a run, and what it has measured is shown.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use os::epoll::Interest;
use os::poll::PollSet;
use os::signals::{self, SignalDescriptor};

/// Listens to them.
#[derive(Debug)]
pub struct Interrupt {
    signals: SignalDescriptor,
    came: bool,
}

impl Interrupt {
    /// Must be made before any thread is: threads inherit which signals they leave alone.
    ///
    /// # Errors
    /// One line: why signals cannot be received.
    pub fn new() -> Result<Self, String> {
        let signals = SignalDescriptor::new(&signals::endings().collect::<Vec<_>>())
            .map_err(|why| format!("cannot receive signals: {why}"))?;
        Ok(Self { signals, came: false })
    }

    /// Whether one of them has come.
    pub fn came(&mut self) -> bool {
        self.came |= self.signals.read().is_some();
        self.came
    }

    /// Waits until there is something to read from `input`, its end too, or one of them comes.
    /// Whether one has.
    ///
    /// # Errors
    /// If the system cannot wait for `input`.
    pub fn comes_before(&mut self, input: BorrowedFd<'_>) -> io::Result<bool> {
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
