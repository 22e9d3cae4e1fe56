//! Ctrl-C and SIGTERM end a run, and what it has measured is shown.

use os::signals::{Signal, SignalDescriptor};

/// Listens to both.
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
        let signals = SignalDescriptor::new(&[Signal::Interrupt, Signal::Terminate])
            .map_err(|why| format!("cannot receive signals: {why}"))?;
        Ok(Self { signals, came: false })
    }

    /// Whether one of them has come.
    pub fn came(&mut self) -> bool {
        self.came |= self.signals.read().is_some();
        self.came
    }
}
