//! The listeners of one loop, or of a thread that accepts for others: how they are watched,
//! accepted from and paused, and what happens when descriptors run out.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use os::epoll::{Epoll, Interest};
use os::errors::Cause;
use os::event::Wake;
use os::socket::Readiness;
use session::Tick;

/// Keys of listeners: above those of all connections.
pub(crate) const LISTENER_KEYS: u64 = (u32::MAX as u64) << 32;

/// The key of the acceptor's wake-up call: above those of all listeners.
pub(crate) const WAKE_KEY: u64 = u64::MAX;

/// Connections taken from a listener's queue before it is closed: one more than the backlog, as
/// the kernel admits one more.
pub(crate) const BACKLOG_MAX: usize = crate::engine::BACKLOG_MAX as usize + 1;

/// How long accepting pauses after the kernel had no descriptor or no memory for a connection, in
/// milliseconds.
pub(crate) const PAUSE_MS: u64 = 100;

/// A set of descriptors that listeners are watched in.
pub(crate) trait WatchListeners {
    /// Starts to watch a descriptor; its events carry the key.
    fn begin(&self, socket: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()>;

    /// Stops watching a descriptor, if it is watched.
    fn end(&self, socket: BorrowedFd<'_>);
}

impl WatchListeners for Epoll {
    fn begin(&self, socket: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()> {
        self.add(socket, interest, key)
    }

    fn end(&self, socket: BorrowedFd<'_>) {
        let _ = self.remove(socket); // it fails only if it is not in the set
    }
}

impl<T: WatchListeners> WatchListeners for Arc<T> {
    fn begin(&self, socket: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()> {
        (**self).begin(socket, interest, key)
    }

    fn end(&self, socket: BorrowedFd<'_>) {
        (**self).end(socket);
    }
}

/// The listeners of one loop.
pub(crate) struct Listeners {
    sockets: Vec<OwnedFd>,
    /// The events watched for: where other workers wait at the same sockets, an arrival wakes one
    /// waiter and not all.
    interest: Interest,
    /// A descriptor that is closed for a moment when descriptors run out, so that a connection can
    /// be turned away instead of waiting for ever.
    reserve: Option<Wake>,
    /// The moment until which no connection is accepted.
    paused_until: Option<Tick>,
}

/// The outcome of an attempt to accept.
pub(crate) enum Accepted {
    /// A connection.
    Connection(OwnedFd, SocketAddr),
    /// No connection waits.
    Nothing,
    /// The client has gone already: try the next.
    Gone,
    /// There is no descriptor or no memory.
    Exhausted,
}

impl Listeners {
    pub(crate) fn new(sockets: Vec<OwnedFd>, exclusive_wakeups: bool) -> Self {
        let interest = match exclusive_wakeups {
            true => Interest::READ.with(Interest::EXCLUSIVE),
            false => Interest::READ,
        };
        Self { sockets, interest, reserve: Wake::new().ok(), paused_until: None }
    }

    pub(crate) fn count(&self) -> usize {
        self.sockets.len()
    }

    /// Whether a connection waits at one of the listeners. The socket itself is queried: another
    /// event set may report an arrival a moment later.
    pub(crate) fn has_arrival(&self, index: usize) -> bool {
        let is_ready = |socket: &OwnedFd| {
            os::socket::wait_ready(socket.as_fd(), Readiness::Readable, 0).unwrap_or(true)
        };
        self.sockets.get(index).is_some_and(is_ready)
    }

    /// Duplicates the descriptors of all listeners.
    pub(crate) fn copies(&self) -> io::Result<Vec<OwnedFd>> {
        self.sockets.iter().map(OwnedFd::try_clone).collect()
    }

    /// Watches all listeners.
    pub(crate) fn watch(&self, set: &impl WatchListeners) -> io::Result<()> {
        for (index, socket) in self.sockets.iter().enumerate() {
            set.begin(socket.as_fd(), self.interest, LISTENER_KEYS + index as u64)?;
        }
        Ok(())
    }

    /// Stops watching the listeners. An exclusive watch cannot be modified, only removed.
    pub(crate) fn unwatch(&self, set: &impl WatchListeners) {
        self.sockets.iter().for_each(|socket| set.end(socket.as_fd()));
    }

    /// Takes the sockets out.
    pub(crate) fn take_sockets(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.sockets)
    }

    /// Accepts one connection.
    pub(crate) fn accept(&self, index: usize) -> Accepted {
        self.sockets.get(index).map_or(Accepted::Nothing, |socket| accept(socket.as_fd()))
    }

    /// Pauses accepting for [`PAUSE_MS`], for lack of descriptors or memory.
    pub(crate) fn pause(&mut self, set: &impl WatchListeners, now: Tick) {
        self.rest(set, now.plus_ms(PAUSE_MS));
    }

    /// Pauses accepting until then, or until the end of an earlier pause if that is later. The
    /// kernel's queue holds the connections that come meanwhile.
    pub(crate) fn rest(&mut self, set: &impl WatchListeners, until: Tick) {
        if self.paused_until.is_none() {
            self.unwatch(set);
        }
        self.paused_until = self.paused_until.max(Some(until));
    }

    /// Moves to the end of the kernel's queue of waiters at the listeners.
    pub(crate) fn requeue(&mut self, set: &impl WatchListeners) -> io::Result<()> {
        if self.paused_until.is_some() {
            return Ok(()); // paused, it waits in no queue
        }
        self.unwatch(set);
        self.watch(set)
    }

    /// Accepts again if the pause is over.
    pub(crate) fn resume(&mut self, set: &impl WatchListeners, now: Tick) -> io::Result<()> {
        if self.paused_until.is_some_and(|until| until <= now) {
            self.paused_until = None;
            self.watch(set)?;
        }
        Ok(())
    }

    /// Accepts again at once: there is room.
    pub(crate) fn resume_now(&mut self, set: &impl WatchListeners) -> io::Result<()> {
        if self.paused_until.take().is_some() {
            self.watch(set)?;
        }
        Ok(())
    }

    /// The moment at which [`Listeners::resume`] is worth calling; none if accepting is not paused.
    pub(crate) fn next_check(&self) -> Option<Tick> {
        self.paused_until
    }

    /// Closes all listeners. They are taken out of the set first: a socket that was inherited is
    /// still open elsewhere, and would be reported for ever.
    pub(crate) fn close(&mut self, set: &impl WatchListeners) {
        self.unwatch(set);
        self.sockets.clear();
        self.paused_until = None;
    }

    /// Gives the reserve descriptor to the client at the head of the queue, so that the client
    /// learns at once that it is not served, and then takes the reserve back.
    pub(crate) fn turn_one_away(&mut self, index: usize) {
        let Some(listener) = self.sockets.get(index) else { return };
        self.reserve = None;
        if let Ok((socket, _)) = os::socket::accept(listener.as_fd()) {
            refuse(socket.as_fd());
        }
        self.reserve = Wake::new().ok();
    }
}

/// Accepts one connection at a listener.
pub(crate) fn accept(listener: BorrowedFd<'_>) -> Accepted {
    match os::socket::accept(listener) {
        Ok((socket, peer)) => Accepted::Connection(socket, peer),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Accepted::Nothing,
        Err(error) if is_exhaustion(&error) => Accepted::Exhausted,
        // Errors of the connection, not of the listener: accept(2) lists them.
        Err(_) => Accepted::Gone,
    }
}

/// Sends a client the answer that it is not served. A courtesy, so it may fail.
pub(crate) fn refuse(socket: BorrowedFd<'_>) {
    const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n\
                          Content-Length: 0\r\nConnection: close\r\n\r\n";
    let _ = os::send::send(socket, BUSY, false);
}

/// Whether the process or the system is out of descriptors or memory.
pub(crate) fn is_exhaustion(error: &io::Error) -> bool {
    Cause::from_error(error).is_exhaustion()
}
