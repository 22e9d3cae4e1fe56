//! The signals that control a server, one at a time and with a timeout.

use std::io;
use std::os::fd::AsFd;

use os::epoll::{Epoll, EventBuffer, Interest};
use os::signals::{Signal, SignalDescriptor};

/// Waits for the signals that stop a server, and for SIGHUP, SIGUSR1 and SIGUSR2.
pub(crate) struct Signals {
    descriptor: SignalDescriptor,
    epoll: Epoll,
    events: EventBuffer,
    /// Signals that were received and are to be returned again, the next one last.
    put_back: Vec<Signal>,
}

impl Signals {
    /// Blocks the signals. This must happen before any thread is started: threads inherit blocked
    /// signals.
    pub(crate) fn new() -> io::Result<Self> {
        let signals = [
            Signal::Terminate,
            Signal::Interrupt,
            Signal::Quit,
            Signal::Hangup,
            Signal::User1,
            Signal::User2,
        ];
        let descriptor = SignalDescriptor::new(&signals)?;
        let epoll = Epoll::new()?;
        epoll.add(descriptor.as_fd(), Interest::READ, 0)?;
        Ok(Self { descriptor, epoll, events: EventBuffer::with_capacity(1), put_back: Vec::new() })
    }

    /// Returns the next signal, or none after `timeout_ms`.
    pub(crate) fn next(&mut self, timeout_ms: u32) -> io::Result<Option<Signal>> {
        if let Some(signal) = self.put_back.pop().or_else(|| self.descriptor.read()) {
            return Ok(Some(signal));
        }
        self.epoll.wait(&mut self.events, Some(timeout_ms))?;
        Ok(self.descriptor.read())
    }

    /// Has `next` return signals again, in this order, before others.
    pub(crate) fn put_back(&mut self, mut signals: Vec<Signal>) {
        signals.reverse();
        self.put_back.extend(signals);
    }
}
