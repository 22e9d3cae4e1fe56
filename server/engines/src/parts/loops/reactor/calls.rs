//! Applications in an event loop: their sockets are watched beside those of the clients.
//!
//! A connection to an application is registered once: calls that use it one after another cost no
//! system call for that.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use os::epoll::{Event, Interest};

use super::Reactor;
use crate::parts::applications::call_loop::{CallLoop, CallParts, ends};
use crate::parts::applications::joint::{Joint, Line, join};
use crate::parts::applications::table::{MARK, Table};

/// A connection to an application, and the events that its socket is watched for.
pub(crate) struct WatchedLine {
    line: Line,
    watched: Interest,
}

impl From<OwnedFd> for WatchedLine {
    fn from(socket: OwnedFd) -> Self {
        Self { line: Line::new(socket), watched: Interest::NONE }
    }
}

impl CallLoop for Reactor {
    type Line = WatchedLine;

    fn call_parts(&mut self) -> CallParts<'_, WatchedLine, OwnedFd> {
        (&mut self.table, &mut self.connections, &mut self.worker)
    }

    fn move_bytes(&mut self, key: u64) -> Option<Joint> {
        let Self { table: Table { slots, buffer, .. }, connections, worker, .. } = self;
        let now = worker.now();
        let (WatchedLine { line, .. }, call, mut stream) = ends(slots, connections, worker, key)?;
        // What the stream has called for is asked again when there is a connection.
        let is_connecting = line.ready.is_connecting;
        Some(if is_connecting { Joint::Waits } else { join(line, call, &mut stream, buffer, now) })
    }

    fn watch_upstream(&mut self, key: u64) -> io::Result<()> {
        let Some(upstream) = self.table.slots.get(key) else { return Ok(()) };
        let WatchedLine { line, watched } = &mut upstream.line;
        let wanted = if upstream.out.is_some() { line.ready.wanted } else { Interest::READ };
        self.watch.follow_socket(line.socket.as_fd(), watched, wanted, key | MARK)
    }

    /// The event is the client's as much as one of its own socket: it is handled at once.
    fn resume(&mut self, client: u64) {
        if self.connections.get(client).is_some_and(|slot| !slot.is_queued) {
            self.drive(client);
        }
    }

    fn call_over(&mut self, client: u64) {
        self.note_over(client);
    }

    fn is_silent(&mut self, key: u64) -> bool {
        let upstream = self.table.slots.get(key);
        upstream.is_some_and(|it| os::socket::is_silent(it.line.line.socket.as_fd()))
    }

    fn take_socket(
        &mut self,
        WatchedLine { line, watched }: &mut WatchedLine,
    ) -> io::Result<OwnedFd> {
        self.watch.forget(line.socket.as_fd(), watched);
        line.socket.try_clone()
    }

    fn close_line(&mut self, line: WatchedLine) {
        let WatchedLine { line, mut watched } = line;
        self.watch.leave_socket(line.socket.as_fd(), &mut watched);
    }
}

impl Reactor {
    /// Handles an event of an application's socket.
    #[cold]
    pub(super) fn handle_upstream(&mut self, event: Event) {
        if event.key & MARK == 0 {
            return;
        }
        let key = event.key & !MARK;
        let Some(upstream) = self.table.slots.get(key) else { return };
        let line = &mut upstream.line.line;
        line.ready.is_drained &= !event.readable;
        line.ready.is_full &= !event.writable;
        line.ready.is_hung_up |= event.hangup || event.error;
        if upstream.out.is_none() {
            // Nothing was asked of it: it is closing, or is not to be trusted.
            if line.is_unsound() {
                self.close_upstream(key);
            }
        } else if !line.ready.is_connecting {
            self.go_on_with_call(key);
        } else if event.writable || event.error || event.hangup {
            line.ready.is_connecting = false;
            line.ready.is_hung_up = event.hangup;
            let is_made = matches!(os::socket::take_error(line.socket.as_fd()), Ok(None));
            self.connected(key, is_made);
        }
    }

    /// Has a connection wait whose request an application answers.
    #[cold]
    #[inline(never)]
    pub(super) fn wait_with_call(&mut self, client: u64) {
        self.end_if_unwanted(client);
        let Some(slot) = self.connections.get(client) else { return };
        if self.watch.follow(slot, client).is_err() {
            return self.close(client); // no memory for the watch
        }
        self.connections.schedule(client);
    }
}
