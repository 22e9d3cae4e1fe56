//! Connections to applications in the epoll set of a cluster. Each is registered once, under a key
//! of its own, and stays so while it is kept for the next request. A table has the fiber that its
//! events reach: the one whose call used it last.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use os::epoll::{Epoll, Event, Interest};

use crate::lock::lock;
use crate::parts::applications::driven_call::WatchLine;
use crate::parts::applications::table::MARK;

/// The socket of a connection to an application.
pub(super) struct FiberLine {
    socket: OwnedFd,
    /// The key of the fiber that its events reach; none while it is not in the epoll set.
    fiber: Option<u64>,
}

impl AsFd for FiberLine {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl From<OwnedFd> for FiberLine {
    fn from(socket: OwnedFd) -> Self {
        Self { socket, fiber: None }
    }
}

/// The key of the fiber that the events of a connection reach, for each descriptor of one.
#[derive(Default)]
pub(super) struct Callers(Mutex<Vec<Option<u64>>>);

impl Callers {
    /// The key of the fiber that an event is for; none if the event is no application's. The fiber
    /// may have gone, or have another connection by now.
    pub(super) fn find(&self, event: Event) -> Option<u64> {
        let is_marked = event.key & MARK != 0;
        let descriptor = usize::try_from(event.key & !MARK).ok().filter(|_| is_marked)?;
        lock(&self.0).get(descriptor).copied().flatten()
    }

    fn set(&self, socket: BorrowedFd<'_>, fiber: u64) -> u64 {
        let descriptor = socket.as_raw_fd() as usize; // not negative while it is borrowed
        let mut fibers = lock(&self.0);
        if fibers.len() <= descriptor {
            fibers.resize(descriptor + 1, None);
        }
        fibers[descriptor] = Some(fiber);
        descriptor as u64 | MARK
    }
}

/// Has events of connections reach one fiber.
pub(super) struct FiberWatch<'c> {
    pub(super) callers: &'c Callers,
    pub(super) epoll: &'c Epoll,
    pub(super) fiber: u64,
}

impl WatchLine for FiberWatch<'_> {
    type Socket = FiberLine;

    fn watch(&self, line: &mut FiberLine) -> io::Result<()> {
        let former = line.fiber.replace(self.fiber);
        if former == Some(self.fiber) {
            return Ok(());
        }
        let key = self.callers.set(line.socket.as_fd(), self.fiber);
        if former.is_some() {
            return Ok(());
        }
        let interest =
            Interest::READ.with(Interest::WRITE).with(Interest::RDHUP).with(Interest::EDGE);
        self.epoll.add(line.socket.as_fd(), interest, key)
    }
}
