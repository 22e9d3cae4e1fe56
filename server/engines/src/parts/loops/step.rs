//! One step of one connection: at most one operation of its [`Transport`]. What is sent, how much
//! of it, and what is received in between is decided here, once for all engines. What is beside it:
//! an engine whose threads wait in their receives makes them itself (`kernel_threads/blocking.rs`),
//! and one whose operations end later passes on what they brought (`rings/ring_loop.rs`).
//! [`in_memory`] finds out whether a send of a file would wait for the disk, and explains how and
//! why so.

use std::io;

use session::{Connection, Op, Worker};

use super::transport::{Moved, Transport};
use crate::engine::SendfileMode;
use crate::parts::disk::in_memory::{self, Sendable};

/// Bytes received at once: a head of usual size many times over, or several pipelined ones, or a
/// whole record of TLS, header and expansion included (RFC 8446 §5.2).
pub(crate) const RECEIVE_BYTES: usize = 5 + (16 * 1024) + 256;

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
    /// A job of the connection, or the rest of one, is to be taken.
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
        Op::Send { .. } | Op::File { .. } | Op::Read { .. }
            if ready.is_full || ready.is_fetching =>
        {
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
            let read = transport.read_file(file, offset, &mut buffer[..len]);
            turn.file_bytes -= read as u64;
            connection.read(w, &buffer[..read]);
            Step::More
        }
        Op::Job | Op::Stream(_) => Step::Job,
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
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            ready.is_drained = true;
            Step::Wait
        }
        Err(_) => Step::Closed,
    }
}

/// Receives beside work of the connection that waits for its turn, so that a client that has gone
/// is noticed.
#[cold]
#[inline(never)]
pub(crate) fn receive_beside(
    transport: &mut impl Transport,
    connection: &mut Connection,
    w: &mut Worker,
    buffer: &mut [u8],
    ready: &mut Ready,
) -> Step {
    let is_beside = !matches!(connection.next(), Op::Recv) && connection.wants_input();
    if is_beside { receive(transport, connection, w, buffer, ready) } else { Step::Wait }
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
                return meanwhile(connection, ready);
            }
            Step::More
        }
        Ok(Moved::Later) => after_begin(ready),
        Err(error) => after_failure(&error, connection, ready),
    }
}

/// The step after a send that has filled the socket; the kernel reports when it has space. What
/// comes next may be prepared meanwhile. Input that has arrived is received: its event has been
/// seen, and does not come again.
#[cold]
#[inline(never)]
fn meanwhile(connection: &Connection, ready: &mut Ready) -> Step {
    ready.is_full = true;
    let has_input = !ready.is_drained || ready.is_hung_up;
    match connection.next() {
        Op::Stream(_) => Step::More,
        _ if has_input && connection.wants_input() => Step::More,
        _ => Step::Wait,
    }
}

/// The step after a send that is under way: no other is begun, as if the socket were full.
fn after_begin(ready: &mut Ready) -> Step {
    ready.is_full = true;
    Step::Away
}

/// The step after a send that has sent nothing.
#[cold]
fn after_failure(error: &io::Error, connection: &Connection, ready: &mut Ready) -> Step {
    match error.kind() {
        io::ErrorKind::WouldBlock => meanwhile(connection, ready),
        _ => Step::Closed,
    }
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
        Err(error) => after_failure(&error, connection, ready),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use session::{Counters, Done, Limits, Tick};
    use site::host::HostSettings;
    use site::resource::FileRef;
    use testkit::Temporary;

    use super::*;
    use crate::idle;
    use crate::jobs::Runner;

    /// A socket in memory whose client takes `room` bytes, and then no more.
    struct Narrow {
        input: Vec<u8>,
        room: usize,
        /// How often something was to be sent.
        sends: usize,
    }

    impl Transport for Narrow {
        fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Moved> {
            if self.input.is_empty() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let len = self.input.len().min(buffer.len());
            buffer[..len].copy_from_slice(&self.input[..len]);
            self.input.drain(..len);
            Ok(Moved::Now(len))
        }

        fn send(&mut self, head: &[u8], body: &[u8], _: bool, _: &mut [u8]) -> io::Result<Moved> {
            let n = (head.len() + body.len()).min(self.room);
            self.room -= n;
            self.sends += 1;
            if n == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(Moved::Now(n)) }
        }

        fn send_file(&mut self, _: &FileRef, _: u64, _: usize) -> io::Result<Moved> {
            unreachable!("no file is asked for")
        }

        fn shut_down(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn reset_on_close(&mut self) {}
    }

    /// A connection of a narrow socket, and what runs its jobs.
    struct Bench {
        runner: Runner,
        worker: Worker,
        connection: Connection,
        ready: Ready,
        socket: Narrow,
    }

    impl Bench {
        /// A client has asked for the listing of a directory.
        fn new(root: &std::path::Path) -> Self {
            let settings = HostSettings { listing: true, ..HostSettings::new(root.into()) };
            let site = Arc::new(site::Site::new(vec![settings]).unwrap());
            let runner = Runner::new(Arc::clone(&site), 0).unwrap();
            let mut worker =
                idle::maker(site, Limits::default())(None, Arc::new(Counters::default()));
            worker.set_time(Tick(1), 1);
            let connection = Connection::new(&worker, "192.0.2.7:4711".parse().unwrap());
            let input = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
            let socket = Narrow { input, room: 0, sends: 0 };
            Self { runner, worker, connection, ready: Ready::default(), socket }
        }

        /// The listing is there, and its first piece has found no room.
        fn full(root: &std::path::Path) -> Self {
            let mut bench = Self::new(root);
            for _ in 0..2 {
                assert_eq!(bench.run(), Step::Job);
                bench.answer();
            }
            assert_eq!(bench.run(), Step::Wait);
            bench
        }

        /// Takes steps until one makes no progress.
        fn run(&mut self) -> Step {
            let mut turn = Turn::new(u64::MAX, SendfileMode::NonBlocking);
            let mut buffer = [0; RECEIVE_BYTES];
            loop {
                let (socket, connection) = (&mut self.socket, &mut self.connection);
                let (worker, ready) = (&mut self.worker, &mut self.ready);
                match step(socket, connection, worker, &mut buffer, ready, &mut turn) {
                    Step::More => {}
                    other => return other,
                }
            }
        }

        /// Runs the job that the connection wants. Returns the length of what it lists.
        fn answer(&mut self) -> usize {
            let (id, job) = self.connection.take_job();
            let done = self.runner.run(job);
            let len = if let Done::Listed(Ok((bytes, _))) = &done { bytes.len() } else { 0 };
            self.connection.done(&mut self.worker, id, done);
            len
        }

        /// Lets the client take `n` bytes more, of which the loop gets an event.
        fn open(&mut self, n: usize) -> Step {
            self.socket.room = n;
            self.ready.is_full = false;
            self.run()
        }
    }

    /// A directory whose listing is longer than a client takes at once.
    fn directory() -> Temporary {
        let directory = Temporary::new();
        for number in 0..1000 {
            directory.file(&format!("{number:0200}"), "");
        }
        directory
    }

    /// One event may report both, and comes once.
    #[test]
    fn input_is_received_though_the_room_that_came_with_it_is_used_up() {
        let directory = directory();
        let mut bench = Bench::full(directory.path());
        for room in [0, 1] {
            bench.socket.input = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
            bench.ready.is_drained = false;
            assert_eq!(bench.open(room), Step::Wait);
            assert_eq!(bench.socket.input, b"");
        }
    }

    /// A socket that is known to be full is not tried again because something is received.
    #[test]
    fn input_does_not_make_a_full_socket_be_tried_again() {
        let directory = directory();
        let mut bench = Bench::full(directory.path());
        assert_eq!((bench.ready.is_full, bench.socket.sends), (true, 1));
        for _ in 0..3 {
            bench.socket.input = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
            bench.ready.is_drained = false;
            assert_eq!(bench.run(), Step::Wait);
            assert_eq!((bench.socket.input.len(), bench.socket.sends), (0, 1));
        }
        assert_eq!(bench.open(1), Step::Wait);
        assert_eq!(
            bench.socket.sends, 2,
            "one that is taken in part tells that there is no more room"
        );
    }

    #[test]
    fn what_comes_next_is_prepared_while_the_socket_is_full() {
        let directory = directory();
        let mut bench = Bench::new(directory.path());
        assert_eq!(bench.run(), Step::Job);
        assert_eq!(bench.answer(), 0, "the path is resolved");
        assert_eq!(bench.run(), Step::Job);
        let len = bench.answer();
        assert!(len > 64 * 1024, "{len} bytes are several sends");
        assert_eq!(bench.run(), Step::Wait);
        // Less than half of it is taken: more would be kept for too long.
        assert_eq!(bench.open(len / 4), Step::Wait);
        assert!(bench.ready.is_full);
        assert_eq!(bench.open(len / 2), Step::Job);
        assert!(bench.ready.is_full, "the rest of the first piece has no room");
        assert!(bench.answer() > 64 * 1024);
        assert_eq!(bench.run(), Step::Wait, "one piece ahead is enough");
        assert_eq!(bench.open(len / 2), Step::Wait);
    }
}
