//! The signals that control a server, one at a time and with a timeout; and the wake-up call of
//! other threads that have something for it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use os::epoll::{Epoll, EventBuffer, Interest};
use os::event::Wake;
use os::signals::{Signal, SignalDescriptor};

/// Waits for the signals that stop a server, and for SIGHUP, SIGUSR1 and SIGUSR2.
pub(crate) struct Signals {
    descriptor: SignalDescriptor,
    wake: Arc<Wake>,
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
        let (epoll, wake) = (Epoll::new()?, Arc::new(Wake::new()?));
        epoll.add(descriptor.as_fd(), Interest::READ, 0)?;
        epoll.add(wake.as_fd(), Interest::READ, 1)?;
        let (events, put_back) = (EventBuffer::with_capacity(2), Vec::new());
        Ok(Self { descriptor, wake, epoll, events, put_back })
    }

    /// Has waits end when there is something new at this descriptor, too. What cannot be taken now,
    /// for want of a descriptor, ends no other wait.
    pub(crate) fn watch(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        self.epoll.add(descriptor, Interest::READ.with(Interest::EDGE), 2)
    }

    /// The wake-up call that ends a wait.
    pub(crate) fn wake(&self) -> Arc<Wake> {
        Arc::clone(&self.wake)
    }

    /// Returns the next signal; none after `timeout_ms`, or after a wake-up call.
    pub(crate) fn next(&mut self, timeout_ms: u32) -> io::Result<Option<Signal>> {
        if let Some(signal) = self.put_back.pop().or_else(|| self.descriptor.read()) {
            return Ok(Some(signal));
        }
        self.epoll.wait(&mut self.events, Some(timeout_ms))?;
        self.wake.clear();
        Ok(self.descriptor.read())
    }

    /// Has `next` return a signal again, after those that were put back.
    pub(crate) fn put_back_last(&mut self, signal: Signal) {
        self.put_back.insert(0, signal);
    }

    /// Has `next` return signals again, in this order, before others.
    pub(crate) fn put_back(&mut self, mut signals: Vec<Signal>) {
        signals.reverse();
        self.put_back.extend(signals);
    }
}
