//! A request that an application answers, in the task of its client, which awaits both sockets. A
//! connection to an application stays in the runtime's epoll set while it is kept for the next
//! request.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll};

use os::socket::Awaited;
use session::Connection;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::runtime_state::{RuntimeState, ThreadContext};
use super::watch::watch;
use crate::parts::applications::client_call::{ClientCall, Lent};
use crate::parts::applications::driven_call::WatchLine;

/// The socket of a connection to an application.
pub(super) struct TaskLine {
    /// None before its first use.
    watched: Option<AsyncFd<Arc<OwnedFd>>>,
    socket: Arc<OwnedFd>,
}

impl AsFd for TaskLine {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl From<OwnedFd> for TaskLine {
    fn from(socket: OwnedFd) -> Self {
        Self { watched: None, socket: Arc::new(socket) }
    }
}

/// Puts connections to applications into the epoll set of the runtime.
pub(super) struct TaskWatch;

impl WatchLine for TaskWatch {
    type Socket = TaskLine;

    fn watch(&self, line: &mut TaskLine) -> io::Result<()> {
        if line.watched.is_none() {
            let interest = Interest::READABLE.add(Interest::WRITABLE);
            line.watched = Some(watch(Arc::clone(&line.socket), interest)?);
        }
        Ok(())
    }
}

/// What a call needs to go on in a thread of the runtime.
pub(super) fn lent<'l>(
    state: &'l RuntimeState,
    connection: &'l mut Connection,
    thread: &'l mut ThreadContext,
) -> Lent<'l, TaskWatch> {
    let ThreadContext { worker, buffer } = thread;
    let may_keep = !state.loop_context.shared.orders.is_ending();
    let runner = &state.loop_context.runner;
    Lent { connection, worker, buffer, runner, watch: TaskWatch, may_keep }
}

/// Polls for what a call waits for: events of its socket, or its place.
#[cold]
#[inline(never)]
pub(super) fn poll_call(
    call: &mut ClientCall<TaskLine>,
    context: &mut Context<'_>,
) -> io::Result<Poll<Awaited>> {
    let Some(driven) = call.driven() else { return Ok(Poll::Pending) };
    if driven.has_place() {
        return Ok(Poll::Ready(Awaited::default()));
    }
    let Some((TaskLine { watched: Some(socket), .. }, awaited)) = driven.awaited() else {
        return Ok(Poll::Pending);
    };
    let mut found = Awaited::default();
    if awaited.room
        && let Poll::Ready(mut guard) = socket.poll_write_ready(context)?
    {
        found.is_over |= guard.ready().is_write_closed();
        found.room = true;
        guard.clear_ready();
    }
    if awaited.input
        && let Poll::Ready(mut guard) = socket.poll_read_ready(context)?
    {
        found.is_over |= guard.ready().is_read_closed();
        found.input = true;
        guard.clear_ready();
    }
    let is_found = found != Awaited::default();
    Ok(if is_found { Poll::Ready(found) } else { Poll::Pending })
}
