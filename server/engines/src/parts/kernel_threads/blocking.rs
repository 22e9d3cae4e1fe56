//! One connection, driven by one thread with calls that wait: to its end, or, in an engine that has
//! a waiter for many connections at once, until the connection waits for its client.
//!
//! The socket blocks, with timeouts, so that a keep-alive request costs one receive and one send
//! and no call to learn of readiness. Where files are to be sent without blocking, the socket does
//! not block and poll(2) waits instead, at the cost of one more call. While a thread waits for a
//! client it holds no worker. `step.rs` decides how to send, as in every engine.

mod call;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use os::epoll::{Event, Interest};
use os::socket::Readiness;
use session::{Connection, Job, Op, Phase, Tick, Worker};
use site::resource::FileRef;

use self::call::ParkedCall;
pub(crate) use self::call::{thread_waker, wait_for_either, wait_for_place};
use super::registry::{Arrival, Entry, Registry};
use crate::engine::SendfileMode;
use crate::parts::loops::clock::read_clock;
use crate::parts::loops::drive::{Begun, Driven, Pause, drive_unguarded};
use crate::parts::loops::step::{Ready, Step, Turn, step};
use crate::parts::loops::transport::{Moved, Plain, Transport};

/// Bytes received at once, as in the loops. Each thread has a buffer for as long as it lives, of
/// which only those pages are in memory into which something was received: a connection at rest
/// takes 19 KB with this size and with 4 KiB.
pub(crate) use crate::parts::loops::step::RECEIVE_BYTES;

/// How long a call that sends waits for a client that takes nothing, in milliseconds. Then poll(2)
/// waits, which notices as well what the client sends. A client that takes something now and then
/// never makes a call wait for so long.
const SEND_MS_MAX: u64 = 1000;

/// Serves a connection to its end, or until it is to go to another engine: then it is returned.
pub(crate) fn serve(
    registry: &Registry,
    arrival: &mut Arrival,
    buffer: &mut [u8],
) -> Option<Connection> {
    let mut served = ServedConnection::new(registry, arrival, false);
    // A connection that does not park pauses for nothing else.
    served.drive(registry, &arrival.entry, buffer, None).map(|_| served.connection)
}

/// A connection under way.
pub(crate) struct ServedConnection {
    connection: Connection,
    waits: Waits,
    /// Whether it returns while another part of the engine waits for its socket.
    parks: bool,
    /// The heir that refused it, by its number; 0 if none has.
    refused_by: u32,
    /// Whether the socket has no room for what is to be sent.
    is_full: bool,
    /// Whether the socket, which is full, has input.
    has_input: bool,
    /// A call that waits for a place while the connection is parked.
    parked_call: Option<Box<ParkedCall>>,
}

/// Makes a waker for a connection that is parked.
pub(crate) type MakeWaker<'w> = &'w dyn Fn() -> Waker;

impl ServedConnection {
    /// A connection that waits by itself, or one that `parks`: it returns while another part of the
    /// engine waits for its socket and its deadline.
    pub(crate) fn new(registry: &Registry, arrival: &mut Arrival, parks: bool) -> Self {
        let begin = || Connection::new(WorkerLease::new(registry).worker(), arrival.peer);
        Self {
            connection: arrival.begun.take().map_or_else(begin, |begun| *begun),
            refused_by: arrival.refused_by,
            waits: Waits::new(registry.sendfile, parks),
            parks,
            is_full: false,
            has_input: false,
            parked_call: None,
        }
    }

    /// Takes note of an event of the socket, for which something else has waited.
    #[inline]
    pub(crate) fn note(&mut self, event: Event) {
        let has_ended = event.hangup || event.error;
        self.is_full &= !event.writable && !has_ended;
        self.has_input = event.readable || has_ended;
    }

    /// Takes note that bytes of the client have come.
    pub(crate) fn note_input(&mut self) {
        self.has_input = true;
    }

    /// Whether the connection rests between two requests.
    pub(crate) fn is_idle(&self) -> bool {
        self.connection.phase() == Phase::Idle
    }

    /// Whether the connection waits for bytes of its client, and nothing is left to be sent.
    pub(crate) fn receives(&self) -> bool {
        matches!(self.connection.next(), Op::Recv)
    }

    /// Whether the connection is to go to another engine now.
    pub(crate) fn leaves(&self, registry: &Registry, entry: &Entry) -> bool {
        registry.is_leaving()
            && self.refused_by != registry.shared.heir_number()
            && !entry.is_taken()
            && self.parked_call.is_none()
            && registry.shared.may_move(&self.connection)
    }

    /// The connection, for another engine.
    pub(crate) fn into_connection(self) -> Connection {
        self.connection
    }

    /// Whether a call that has waited for a place has one now.
    pub(crate) fn can_go_on(&self) -> bool {
        self.parked_call.as_ref().is_some_and(|call| call.has_place())
    }

    /// The moment at which [`ServedConnection::drive`] is to be called though the socket is not
    /// ready.
    pub(crate) fn deadline(&self) -> Option<Tick> {
        let of_call = self.parked_call.as_ref().and_then(|call| call.deadline());
        [self.connection.deadline(), of_call].into_iter().flatten().min()
    }

    /// Drives the connection until it ends, or until it parks: then the events that it waits for
    /// are returned. A connection that parks is first called when its socket is ready. If a call of
    /// an application has to wait, the connection is parked with it where there is a `waker`.
    pub(crate) fn drive(
        &mut self,
        registry: &Registry,
        entry: &Entry,
        buffer: &mut [u8],
        waker: Option<MakeWaker<'_>>,
    ) -> Option<Interest> {
        let mut lease = WorkerLease::new(registry);
        let is_called = self.parks;
        let mut drive =
            Drive { served: self, registry, entry, lease: &mut lease, buffer, waker, is_called };
        // A bug met by one connection ends that connection. The panic has been printed.
        let pause = catch_unwind(AssertUnwindSafe(|| drive.run())).unwrap_or(Pause::Closed);
        if matches!(pause, Pause::Wait | Pause::Away) {
            return Some(match self.connection.next() {
                _ if self.parked_call.is_some() && !self.connection.wants_input() => Interest::NONE,
                _ if self.parked_call.is_some() => Interest::READ,
                Op::Recv => Interest::READ,
                _ if self.connection.wants_input() => Interest::WRITE.with(Interest::READ),
                _ => Interest::WRITE,
            });
        }
        self.connection.close(lease.worker());
        None
    }

    /// What is known of the socket when something is to be sent.
    #[inline]
    fn ready(&self) -> Ready {
        let mut ready = Ready::default();
        (ready.is_full, ready.is_drained) = (self.is_full, !self.has_input);
        ready
    }

    fn remaining_ms(&self, now: Tick) -> u64 {
        remaining_ms(self.connection.deadline().unwrap_or(now), now)
    }

    /// The socket, whose calls wait until the connection's deadline.
    #[inline]
    fn socket<'a>(&'a mut self, entry: &'a Entry, now: Tick) -> WaitingSocket<'a> {
        WaitingSocket { entry, remaining_ms: self.remaining_ms(now), waits: &mut self.waits }
    }

    fn expire_if_due(&mut self, worker: &mut Worker) {
        read_clock(worker);
        self.connection.expire_if_due(worker);
    }

    /// Expires a connection whose deadline had passed at `began`, when its last receive began: with
    /// a client that always has another byte for the next receive, no receive ever times out. The
    /// bytes that had arrived by the deadline have been taken.
    #[inline]
    fn expire_if_was_due(&mut self, worker: &mut Worker, began: Tick) {
        let was_due = self.connection.deadline().is_some_and(|deadline| deadline <= began);
        if was_due && matches!(self.connection.next(), Op::Recv) {
            self.connection.expire(worker);
        }
    }
}

/// How long a call may wait until the deadline, in milliseconds; at least 1, as a timeout of 0
/// would be none.
#[inline]
pub(crate) fn remaining_ms(deadline: Tick, now: Tick) -> u64 {
    deadline.since(now).div_ceil(1000).max(1)
}

/// A worker that is held only while it is needed.
pub(crate) struct WorkerLease<'h> {
    registry: &'h Registry,
    worker: Option<Box<Worker>>,
}

impl<'h> WorkerLease<'h> {
    pub(crate) fn new(registry: &'h Registry) -> Self {
        Self { registry, worker: None }
    }

    /// The worker, with its clock set if it was not held.
    #[inline]
    pub(crate) fn worker(&mut self) -> &mut Worker {
        self.worker.get_or_insert_with(|| self.registry.take_worker())
    }

    #[inline]
    pub(crate) fn release(&mut self) {
        if let Some(worker) = self.worker.take() {
            self.registry.return_worker(worker);
        }
    }
}

impl Drop for WorkerLease<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

/// A connection that is being driven.
struct Drive<'a, 'r> {
    served: &'a mut ServedConnection,
    registry: &'r Registry,
    entry: &'a Entry,
    lease: &'a mut WorkerLease<'r>,
    buffer: &'a mut [u8],
    waker: Option<MakeWaker<'a>>,
    /// Whether it was called because its socket is ready or its deadline has passed.
    is_called: bool,
}

impl Drive<'_, '_> {
    fn run(&mut self) -> Pause {
        if self.is_called {
            if !self.entry.resume() {
                return Pause::Closed;
            }
            // What has arrived comes before the deadline: receiving checks that itself.
            if !matches!(self.served.connection.next(), Op::Recv) {
                self.served.expire_if_due(self.lease.worker());
            }
        }
        if self.served.waits.begin(self.entry).is_err() {
            return Pause::Closed;
        }
        if let Some(call) = self.served.parked_call.take()
            && self.resume_call(*call) == Begun::Away
        {
            return Pause::Away;
        }
        loop {
            let pause = drive_unguarded(self, &mut Turn::endless());
            if pause != Pause::Yield {
                return pause;
            }
        }
    }

    /// Waits for bytes. While the connection rests it may be closed from outside.
    #[inline]
    fn receive(&mut self) -> Step {
        if self.registry.is_ending() && self.served.leaves(self.registry, self.entry) {
            return Step::Wait;
        }
        let now = self.lease.worker().now();
        // Who is called to leave, and cannot, waits where it was.
        let is_due = self.served.has_input || self.served.deadline().is_some_and(|at| at <= now);
        let is_called = std::mem::take(&mut self.is_called) && is_due;
        let is_idle = self.served.connection.phase() == Phase::Idle;
        if !is_called {
            self.lease.release();
            if !self.served.parks {
                self.registry.yielding.yield_if_behind(now);
            }
            if is_idle {
                self.registry.rest(self.entry, now);
            }
            if self.served.parks {
                return Step::Wait;
            }
        }
        self.served.has_input = false;
        let received = self.served.socket(self.entry, now).receive(self.buffer);
        let is_taken = is_idle && !self.entry.resume();
        let worker = self.lease.worker();
        match received {
            Ok(n) => {
                // A request that came just when its connection was closed from outside, or while
                // all connections are to end, gets a last answer, which announces the close.
                if n > 0 && (is_taken || self.registry.are_last()) {
                    self.served.connection.end_with_next();
                }
                self.served.connection.ingest(worker, &self.buffer[..n]);
                self.served.expire_if_was_due(worker, now);
            }
            Err(_) if is_taken => return Step::Closed,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                self.served.expire_if_due(worker);
            }
            Err(_) => return Step::Closed,
        }
        self.end_if_ordered();
        Step::More
    }

    /// Sends, shuts down or closes.
    #[inline]
    fn send(&mut self, turn: &mut Turn) -> Step {
        self.is_called = false;
        let worker = self.lease.worker();
        let remaining_ms = self.served.remaining_ms(worker.now());
        let mut ready = self.served.ready();
        let ServedConnection { connection, waits, .. } = &mut *self.served;
        let mut socket = WaitingSocket { entry: self.entry, waits, remaining_ms };
        let taken = step(&mut socket, connection, worker, self.buffer, &mut ready, turn);
        match taken {
            Step::Closed => return Step::Closed,
            _ if ready.is_full => {
                if let step @ (Step::Wait | Step::Closed) = self.go_on_full(taken, ready) {
                    return step;
                }
            }
            // The call may have waited, and the next deadline counts from its end.
            _ => read_clock(worker),
        }
        if self.registry.is_ending() {
            self.end_if_ordered();
            if self.served.leaves(self.registry, self.entry) {
                return Step::Wait;
            }
        }
        Step::More
    }

    /// Goes on after a step that has found the socket full, or has received beside that. Waits for
    /// the client to take bytes or to send some, unless another part of the engine does.
    #[cold]
    #[inline(never)]
    fn go_on_full(&mut self, taken: Step, ready: Ready) -> Step {
        let served = &mut *self.served;
        (served.is_full, served.has_input) = (true, !ready.is_drained);
        self.entry.is_waited_for_here();
        if served.leaves(self.registry, self.entry) {
            return Step::Wait;
        }
        let waits_elsewhere = matches!(served.waits, Waits::Elsewhere);
        if taken != Step::Wait || waits_elsewhere {
            read_clock(self.lease.worker());
            return taken;
        }
        served.expire_if_due(self.lease.worker()); // the send itself may have waited
        if matches!(served.connection.next(), Op::Close { .. }) {
            return Step::More;
        }
        let wants_input = served.connection.wants_input();
        let remaining_ms = served.remaining_ms(self.lease.worker().now());
        self.lease.release();
        match os::socket::wait_full(self.entry.socket(), wants_input, remaining_ms) {
            Ok((has_room, has_input)) => {
                (served.is_full, served.has_input) = (!has_room, has_input);
            }
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Step::Closed,
        }
        served.expire_if_due(self.lease.worker());
        Step::More
    }

    /// Has the connection end if that was ordered. A connection that rests is left out: it reads
    /// first what has arrived.
    #[inline]
    fn end_if_ordered(&mut self) {
        if self.registry.are_last() {
            self.end_unless_idle();
        }
    }

    #[cold]
    fn end_unless_idle(&mut self) {
        let connection = &mut self.served.connection;
        match self.registry.is_draining() {
            _ if connection.phase() == Phase::Idle => {}
            true => connection.drain(),
            false => connection.end_with_next(),
        }
    }
}

impl Driven for Drive<'_, '_> {
    #[inline]
    fn step(&mut self, turn: &mut Turn) -> Step {
        if self.registry.is_aborting() {
            return Step::Closed;
        }
        match self.served.connection.next() {
            Op::Recv => self.receive(),
            Op::Job | Op::Stream(_) => Step::Job,
            _ => self.send(turn),
        }
    }

    fn job(&mut self) -> Begun {
        if let Some(Job::Application(_)) = self.served.connection.job() {
            return self.call();
        }
        let (id, job) = self.served.connection.take_job();
        let done = self.registry.run(job);
        self.end_if_ordered(); // before the answer is prepared: it announces the close
        let worker = self.lease.worker();
        read_clock(worker);
        self.served.connection.done(worker, id, done);
        Begun::Done
    }
}

/// A socket whose calls wait, for about `remaining_ms` milliseconds at most; then they fail with
/// `WouldBlock`. How they wait, if they do, is the connection's [`Waits`].
struct WaitingSocket<'a> {
    entry: &'a Entry,
    waits: &'a mut Waits,
    remaining_ms: u64,
}

impl WaitingSocket<'_> {
    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.waits.receive(self.entry, self.remaining_ms, buffer)
    }

    /// The socket, ready to send.
    #[inline]
    fn sending(&mut self) -> io::Result<Plain<'_>> {
        self.waits.before_send(self.entry, self.remaining_ms)?;
        Ok(Plain(self.entry.socket()))
    }
}

impl Transport for WaitingSocket<'_> {
    /// Receives what has arrived, beside a send that finds no room: that does not wait.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Moved> {
        os::send::recv_now(self.entry.socket(), buffer).map(Moved::Now)
    }

    #[inline]
    fn send(
        &mut self,
        head: &[u8],
        body: &[u8],
        more: bool,
        buffer: &mut [u8],
    ) -> io::Result<Moved> {
        self.sending()?.send(head, body, more, buffer)
    }

    #[inline]
    fn send_file(&mut self, file: &FileRef, offset: u64, len: usize) -> io::Result<Moved> {
        self.sending()?.send_file(file, offset, len)
    }

    fn shut_down(&mut self) -> io::Result<()> {
        Plain(self.entry.socket()).shut_down()
    }

    fn reset_on_close(&mut self) {
        Plain(self.entry.socket()).reset_on_close();
    }
}

/// How a connection waits for its socket.
pub(crate) enum Waits {
    /// In the calls themselves, with these timeouts. A timeout is set anew only when it must be: an
    /// idle connection wakes once or twice before its deadline, and a busy one costs no calls.
    InCalls { blocks: bool, receive_ms: u64, send_ms: u64 },
    /// In poll(2).
    InPoll,
    /// Not at all: another part of the engine waits for it.
    Elsewhere,
}

impl Waits {
    /// The way to wait that fits the way files are sent; a connection that `parks` waits elsewhere
    /// unless its calls block.
    pub(crate) fn new(sendfile: SendfileMode, parks: bool) -> Self {
        match sendfile {
            SendfileMode::Blocking | SendfileMode::Off => {
                Self::InCalls { blocks: false, receive_ms: 0, send_ms: 0 }
            }
            SendfileMode::NonBlocking | SendfileMode::Probe if parks => Self::Elsewhere,
            SendfileMode::NonBlocking | SendfileMode::Probe => Self::InPoll,
        }
    }

    /// Prepares the socket; to be called first, in the thread that is going to wait.
    #[inline]
    pub(crate) fn begin(&mut self, entry: &Entry) -> io::Result<()> {
        if let Self::InCalls { blocks, .. } = self
            && !std::mem::replace(blocks, true)
        {
            os::socket::set_blocking(entry.socket(), true)?;
        }
        Ok(())
    }

    /// Receives, waiting for about `ms` milliseconds at most; then the error is `WouldBlock`, and
    /// `Interrupted` if the thread was interrupted.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        entry: &Entry,
        ms: u64,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        let socket = entry.socket();
        match self {
            Self::InCalls { receive_ms, .. } => {
                if *receive_ms == 0 || ms < *receive_ms {
                    os::socket::set_receive_timeout(socket, ms)?;
                    *receive_ms = ms;
                }
                let received = os::send::recv_interruptible(socket, buffer);
                if received.is_err() && ms > *receive_ms {
                    // The timeout was set for a shorter deadline: the next wait sets it anew.
                    *receive_ms = 0;
                }
                received
            }
            Self::InPoll => {
                match os::socket::wait_ready_interruptible(socket, Readiness::Readable, ms)? {
                    true => os::send::recv(socket, buffer),
                    false => Err(io::ErrorKind::WouldBlock.into()),
                }
            }
            Self::Elsewhere => os::send::recv(socket, buffer),
        }
    }

    /// Makes sure that a send waits for at most `ms` milliseconds, and not longer than
    /// [`SEND_MS_MAX`].
    #[inline]
    pub(crate) fn before_send(&mut self, entry: &Entry, ms: u64) -> io::Result<()> {
        if let Self::InCalls { send_ms, .. } = self {
            // Half of the remaining time stays a valid bound for many sends.
            if *send_ms == 0 || ms < *send_ms {
                *send_ms = ms.div_ceil(2).min(SEND_MS_MAX);
                os::socket::set_send_timeout(entry.socket(), *send_ms)?;
            }
        }
        Ok(())
    }

    /// Waits for room in the send buffer, unless the send itself has done so.
    pub(crate) fn wait_for_room(&self, entry: &Entry, ms: u64) -> io::Result<()> {
        match self {
            Self::InCalls { .. } | Self::Elsewhere => Ok(()),
            Self::InPoll => {
                os::socket::wait_ready(entry.socket(), Readiness::Writable, ms).map(|_| ())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use super::super::registry::tests::{admit, registry};
    use super::*;

    /// It would wait for its client in the thread that has called it, which no other thread wakes.
    #[test]
    fn a_parked_connection_that_is_called_for_nothing_is_parked_again() {
        let registry = registry(1);
        let (mut arrival, mut client) = admit(&registry);
        let entry = Arc::clone(&arrival.entry);
        let mut served = ServedConnection::new(&registry, &mut arrival, true);
        let mut buffer = vec![0; RECEIVE_BYTES];
        assert_eq!(served.drive(&registry, &entry, &mut buffer, None), Some(Interest::READ));
        client.write_all(b"GET / HT").unwrap();
        served.note_input();
        assert_eq!(served.drive(&registry, &entry, &mut buffer, None), Some(Interest::READ));
        assert!(!os::socket::has_input(entry.socket()), "that was taken");
        registry.leave(arrival);
    }
}
