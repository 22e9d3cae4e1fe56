//! One step of one connection: at most one operation of its [`Transport`]. All policy of input and
//! output is here, once for all engines. [`in_memory`] finds out whether a send of a file would
//! wait for the disk, and explains how and why so.

use std::io;
use std::os::fd::AsFd;

use session::{Connection, Op, Worker};

use super::transport::{Moved, Transport};
use crate::engine::SendfileMode;
use crate::parts::disk::in_memory::{self, Sendable};

/// Bytes received at once: a head of usual size many times over, or several pipelined ones. Threads
/// that serve one connection each have less ([`crate::parts::kernel_threads::blocking`]).
pub(crate) const RECEIVE_BYTES: usize = 16 * 1024;

/// Steps that one connection may take before others get a turn: some hundred requests if it
/// pipelines them, and always enough for one.
pub(crate) const STEPS_PER_TURN: u32 = 256;

/// The number of steps that a job counts for: it may have waited for a disk.
pub(crate) const STEPS_PER_JOB: u32 = 64;

/// The known readiness of a socket and of the file that is sent on it. Events of the socket make it
/// ready; steps find out that it is not any more.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ready {
    /// Whether the receive queue was empty after the last receive and no event has come since:
    /// another receive would find nothing.
    pub(crate) is_drained: bool,
    /// Whether the peer has shut its side down: the step receives until the end of input, even from
    /// an empty queue.
    pub(crate) is_hung_up: bool,
    /// Whether the last send found no room, and no event has come since: another send would find
    /// none either.
    pub(crate) is_full: bool,
    /// Whether the next bytes of the file are being fetched elsewhere: nothing is sent until then.
    pub(crate) is_fetching: bool,
    /// The offset up to which the file under way was fetched. Where a file system cannot tell what
    /// is in memory, the file is sent up to here without a question: each chunk is fetched once and
    /// not once for each call that sends a part of it.
    fetched_until: u64,
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Progress: take another step.
    More,
    /// Progress in a long file: let others have a turn, then take another step.
    Yield,
    /// The next bytes of the file, which [`Connection::next`] gives, are not in memory. Only in a
    /// turn that probes; once the bytes have been fetched, `Turn::is_fetched` is set.
    Cold,
    /// Wait: the socket is not ready, or bytes that are to be sent are being fetched.
    Wait,
    /// A job of the connection is to be taken.
    Job,
    /// Something is under way elsewhere, and the socket is of no interest until it is back.
    Away,
    /// Close the socket.
    Closed,
}

/// The limits of what a connection may do before others get a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// The bytes of files that may still be sent.
    pub(crate) file_bytes: u64,
    /// Whether to ask the kernel, before bytes of a file are sent, whether they are in memory.
    pub(crate) is_probing: bool,
    /// Whether the next bytes were just fetched: they are sent without another question.
    pub(crate) is_fetched: bool,
    /// The number of steps that may still be taken.
    pub(crate) steps: u32,
}

impl Turn {
    /// A turn with `file_bytes` of files.
    pub(crate) fn new(file_bytes: u64, sendfile: SendfileMode) -> Self {
        let is_probing = sendfile == SendfileMode::Probe;
        Self { file_bytes, is_probing, is_fetched: false, steps: STEPS_PER_TURN }
    }

    /// A turn without end, for a thread that serves a single connection.
    pub(crate) fn endless() -> Self {
        Self { steps: u32::MAX, ..Self::new(u64::MAX, SendfileMode::NonBlocking) }
    }
}

/// Takes one step. `buffer` is lent to receive into and to gather a response in.
#[inline]
pub(crate) fn step(
    transport: &mut impl Transport,
    connection: &mut Connection,
    w: &mut Worker,
    buffer: &mut [u8],
    ready: &mut Ready,
    turn: &mut Turn,
) -> Step {
    match connection.next() {
        Op::Recv => receive(transport, connection, w, buffer, ready),
        Op::Send { .. } | Op::File { .. } if ready.is_full || ready.is_fetching => {
            // Received beside that, so that a client that has gone is noticed.
            match connection.wants_input() {
                true => receive(transport, connection, w, buffer, ready),
                false => Step::Wait,
            }
        }
        Op::Send { head, body, more } => {
            let outcome = transport.send(head, body, more, buffer);
            ready.fetched_until = 0; // what follows a head is another file or another part
            let len = head.len() + body.len();
            after_send(connection, w, outcome, len, ready)
        }
        Op::File { .. } | Op::Read { .. } if turn.file_bytes == 0 => Step::Yield,
        Op::File { file, offset, len } => {
            let mut chunk = len.min(turn.file_bytes);
            if std::mem::take(&mut turn.is_fetched) {
                // Sent without a question: if the kernel evicted each chunk right after it was
                // fetched, a question before each send would fetch for ever.
                ready.fetched_until = offset + chunk;
            } else if turn.is_probing {
                match in_memory::sendable(file, offset, chunk, w.now(), buffer) {
                    Sendable::Now(len) => chunk = len,
                    Sendable::Unknown if ready.fetched_until > offset => {
                        chunk = chunk.min(ready.fetched_until - offset);
                    }
                    Sendable::Cold | Sendable::Unknown => return Step::Cold,
                }
            }
            // A chunk is bounded far below the size of memory.
            let outcome = transport.send_file(file, offset, chunk as usize);
            after_send_file(connection, w, outcome, &mut turn.file_bytes, ready)
        }
        Op::Read { file, offset, len } => {
            let len = len.min(buffer.len()).min(usize::try_from(turn.file_bytes).unwrap_or(len));
            let read = os::files::read_at(file.as_fd(), &mut buffer[..len], offset).unwrap_or(0);
            turn.file_bytes -= read as u64;
            connection.read(w, &buffer[..read]);
            Step::More
        }
        Op::Job => Step::Job,
        Op::Wait => Step::Away,
        Op::Shutdown => {
            if transport.shut_down().is_err() {
                return Step::Closed;
            }
            connection.sent(w, 0);
            // Input in the receive queue is to be dropped: receive even if the queue was empty.
            ready.is_drained = false;
            Step::More
        }
        Op::Close { reset } => {
            if reset {
                transport.reset_on_close();
            }
            Step::Closed
        }
    }
}

#[inline]
fn receive(
    transport: &mut impl Transport,
    connection: &mut Connection,
    w: &mut Worker,
    buffer: &mut [u8],
    ready: &mut Ready,
) -> Step {
    if ready.is_drained && !ready.is_hung_up {
        return Step::Wait;
    }
    match transport.receive(buffer) {
        Ok(Moved::Now(n)) => {
            ready.is_drained = n < buffer.len();
            connection.ingest(w, &buffer[..n]);
            Step::More
        }
        Ok(Moved::Later) => Step::Away,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Step::Wait,
        Err(_) => Step::Closed,
    }
}

#[inline]
fn after_send(
    connection: &mut Connection,
    w: &mut Worker,
    outcome: io::Result<Moved>,
    len: usize,
    ready: &mut Ready,
) -> Step {
    match outcome {
        Ok(Moved::Now(n)) => {
            connection.sent(w, n);
            if n < len {
                // The socket's buffer is full; the kernel reports when it has space.
                ready.is_full = true;
                return Step::Wait;
            }
            Step::More
        }
        Ok(Moved::Later) => after_begin(ready),
        Err(error) => after_failure(&error, ready),
    }
}

/// The step after a send that is under way: no other is begun, as if the socket were full.
fn after_begin(ready: &mut Ready) -> Step {
    ready.is_full = true;
    Step::Away
}

/// The step after a send that has sent nothing.
#[cold]
fn after_failure(error: &io::Error, ready: &mut Ready) -> Step {
    if error.kind() != io::ErrorKind::WouldBlock {
        return Step::Closed;
    }
    ready.is_full = true;
    Step::Wait
}

/// The step after bytes of a file were sent. Sending goes on until the turn is used up or the
/// socket returns `WouldBlock`: only then an event comes when there is space again. A short count
/// alone may have other reasons.
pub(crate) fn after_send_file(
    connection: &mut Connection,
    w: &mut Worker,
    outcome: io::Result<Moved>,
    file_bytes: &mut u64,
    ready: &mut Ready,
) -> Step {
    match outcome {
        Ok(Moved::Now(n)) => {
            connection.sent(w, n);
            *file_bytes -= n as u64;
            Step::More
        }
        Ok(Moved::Later) => after_begin(ready),
        Err(error) => after_failure(&error, ready),
    }
}
