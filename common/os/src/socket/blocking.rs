//! Sockets whose calls wait: for how long they wait, and how another thread ends the wait.

use crate::call::uninterrupted;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{ioctl_fionbio, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// What [`wait_ready`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Bytes have arrived, or the peer sends no more.
    Readable,
    /// There is room in the socket's send buffer.
    Writable,
}

/// Has the calls on a socket wait until they can do something, or fail with `WouldBlock` instead.
pub fn set_blocking(socket: BorrowedFd<'_>, is_blocking: bool) -> io::Result<()> {
    Ok(ioctl_fionbio(socket, !is_blocking)?)
}

/// Limits how long a receive waits: then it fails with `WouldBlock`. 0 means that it waits for
/// ever.
pub fn set_receive_timeout(socket: BorrowedFd<'_>, timeout_ms: u64) -> io::Result<()> {
    Ok(set_socket_timeout(socket, Timeout::Recv, time_of(timeout_ms))?)
}

/// Limits how long a send waits in all: then it returns the number of bytes sent so far, or fails
/// with `WouldBlock` if there are none. 0 means that it waits for ever.
pub fn set_send_timeout(socket: BorrowedFd<'_>, timeout_ms: u64) -> io::Result<()> {
    Ok(set_socket_timeout(socket, Timeout::Send, time_of(timeout_ms))?)
}

/// Ends receiving: a thread that waits for bytes gets the end, after what has arrived already.
pub fn shutdown_read(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(shutdown(socket, Shutdown::Read)?)
}

/// Ends both directions: a thread that waits in a call on the socket returns from it.
pub fn shutdown_both(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(shutdown(socket, Shutdown::Both)?)
}

/// Waits until the socket is ready, for at most `timeout_ms`, and returns whether it is. An error
/// of the connection counts as ready: the next call reports it.
pub fn wait_ready(
    socket: BorrowedFd<'_>,
    readiness: Readiness,
    timeout_ms: u64,
) -> io::Result<bool> {
    uninterrupted(|| wait_ready_interruptible(socket, readiness, timeout_ms))
}

/// Waits as [`wait_ready`] does, but returns if the thread is interrupted ([`crate::interrupt`]):
/// the error is `Interrupted`.
pub fn wait_ready_interruptible(
    socket: BorrowedFd<'_>,
    readiness: Readiness,
    timeout_ms: u64,
) -> io::Result<bool> {
    let events = match readiness {
        Readiness::Readable => PollFlags::IN,
        Readiness::Writable => PollFlags::OUT,
    };
    let mut entry = [PollFd::from_borrowed_fd(socket, events)];
    // Longer times than the kernel knows are for ever.
    let timeout = Timespec::try_from(Duration::from_millis(timeout_ms)).ok();
    Ok(poll(&mut entry, timeout.as_ref())? > 0)
}

/// Waits until the socket, whose send buffer is full, has room, or something to receive if
/// `wants_input`, for at most `timeout_ms`. Returns whether it has room, and whether it has input.
/// An error of the connection counts as both. If the thread is interrupted ([`crate::interrupt`])
/// the error is `Interrupted`.
pub fn wait_full(
    socket: BorrowedFd<'_>,
    wants_input: bool,
    timeout_ms: u64,
) -> io::Result<(bool, bool)> {
    let input = if wants_input { PollFlags::IN } else { PollFlags::empty() };
    let mut entry = [PollFd::from_borrowed_fd(socket, PollFlags::OUT | input)];
    let timeout = Timespec::try_from(Duration::from_millis(timeout_ms)).ok();
    poll(&mut entry, timeout.as_ref())?;
    let has = |one| entry[0].revents().intersects(one | PollFlags::ERR | PollFlags::HUP);
    Ok((has(PollFlags::OUT), has(PollFlags::IN)))
}

/// What to wait for at one of several sockets, and what there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Awaited {
    /// Something to receive, or the end of what the peer sends.
    pub input: bool,
    /// Room in the send buffer.
    pub room: bool,
    /// The connection is over in both directions. This is always waited for.
    pub is_over: bool,
}

/// Waits until there is at one of these sockets what is awaited of it, for at most `timeout_ms`.
/// Returns what there is at each; nothing if the time is over.
pub fn wait_for_any<const N: usize>(
    sockets: [(BorrowedFd<'_>, Awaited); N],
    timeout_ms: u64,
) -> io::Result<[Awaited; N]> {
    let flag = |is_set, flag| if is_set { flag } else { PollFlags::empty() };
    let mut entries = sockets.map(|(socket, awaited)| {
        let events = flag(awaited.input, PollFlags::IN) | flag(awaited.room, PollFlags::OUT);
        PollFd::from_borrowed_fd(socket, events)
    });
    let timeout = Timespec::try_from(Duration::from_millis(timeout_ms)).ok();
    retry_on_intr(|| poll(&mut entries, timeout.as_ref()))?;
    Ok(entries.map(|entry| Awaited {
        input: entry.revents().contains(PollFlags::IN),
        room: entry.revents().contains(PollFlags::OUT),
        is_over: entry.revents().intersects(PollFlags::ERR | PollFlags::HUP),
    }))
}

/// Whether the socket has bytes that have not been received yet. An end or an error does not count.
pub fn has_input(socket: BorrowedFd<'_>) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    recv(socket, &mut [0], flags).is_ok_and(|(count, _)| count > 0)
}

/// Whether nothing has come on the socket: no bytes, nor its end, nor an error.
pub fn is_silent(socket: BorrowedFd<'_>) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let received = recv(socket, &mut [0], flags);
    received.is_err_and(|why| io::Error::from(why).kind() == io::ErrorKind::WouldBlock)
}

fn time_of(ms: u64) -> Option<Duration> {
    (ms > 0).then(|| Duration::from_millis(ms))
}
