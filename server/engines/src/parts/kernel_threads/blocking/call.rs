//! A request that an application answers, in the thread of its client: the thread drives both
//! sockets, and poll(2) waits for either. Neither of them is waited for in a call that sends or
//! receives.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use os::epoll::Interest;
use os::socket::Awaited;
use session::{Job, JobId, Tick};
use site::resource::FileRef;
use upstream::{Call, Failure};

use super::{Drive, remaining_ms};
use crate::parts::applications::joint::{Joint, Line, join};
use crate::parts::applications::servers::{attempts_max, connect};
use crate::parts::applications::table::BACKLOG_MS;
use crate::parts::loops::clock::read_clock;
use crate::parts::loops::drive::Begun;
use crate::parts::loops::step::{Ready, Step, Turn, step};
use crate::parts::loops::transport::{Moved, Plain, Transport};

/// A wait without a deadline, in milliseconds: an hour.
const LONG_MS: u64 = 3_600_000;

/// A call under way.
struct Errand<'c> {
    id: JobId,
    call: &'c mut Call,
    /// The number of the application.
    application: usize,
    /// The servers that were tried and cannot be reached.
    tried: u32,
}

/// A connection to a server of the application.
struct Upstream {
    line: Line,
    server: usize,
}

impl Drive<'_, '_> {
    /// Begins the call that the connection wants, and drives it to its end.
    #[cold]
    #[inline(never)]
    pub(super) fn call(&mut self) -> Begun {
        let (id, job) = self.served.connection.take_job();
        let Job::Application(mut call) = job else { unreachable!("the caller has looked") };
        let application = call.application().number();
        let mut errand = Errand { id, call: &mut call, application, tried: 0 };
        let registry = self.registry;
        self.lease.release();
        match registry.calls.admit(application, || self.is_wanted(id)) {
            Ok(_place) => self.converse(&mut errand),
            Err(failure) => self.fail_call(&mut errand, failure),
        }
        self.drain_if_ordered();
        Begun::Done
    }

    /// Takes note of what the client has sent meanwhile, and returns whether it still waits.
    fn is_wanted(&mut self, id: JobId) -> bool {
        let mut ready = Ready::default();
        ready.is_full = true;
        self.move_client(id, &mut ready);
        self.lease.release();
        self.served.connection.wants_stream(id)
    }

    /// Moves bytes between client and application until the call is over, or is not wanted any
    /// more.
    fn converse(&mut self, errand: &mut Errand<'_>) {
        let Some(mut upstream) = self.connect_call(errand) else { return };
        let mut ready = Ready::default();
        ready.is_drained = true;
        while self.served.connection.wants_stream(errand.id) {
            self.drain_if_ordered();
            match self.join(errand, &mut upstream) {
                Joint::Over { keeps } => return self.end_call(errand, upstream, keeps),
                Joint::Anew => match self.connect_call(errand) {
                    Some(another) => upstream = another,
                    None => return,
                },
                Joint::Waits if self.move_client(errand.id, &mut ready) => {}
                Joint::Waits => match self.wait(errand, &mut upstream, &mut ready) {
                    Ok(()) => {}
                    Err(Unconnected) => {
                        self.note_failure(errand, upstream.server);
                        match self.connect_call(errand) {
                            Some(another) => upstream = another,
                            None => return,
                        }
                    }
                },
            }
        }
    }

    fn join(&mut self, errand: &mut Errand<'_>, upstream: &mut Upstream) -> Joint {
        let worker = self.lease.worker();
        let now = worker.now();
        if upstream.line.is_connecting && errand.call.failure().is_none() {
            return Joint::Waits;
        }
        match self.served.connection.stream(worker, errand.id) {
            Some(mut stream) => {
                join(&mut upstream.line, errand.call, &mut stream, self.buffer, now)
            }
            None => Joint::Waits,
        }
    }

    /// Gets a connection for a call, kept or new; if there is none, the call has failed.
    fn connect_call(&mut self, errand: &mut Errand<'_>) -> Option<Upstream> {
        let calls = &self.registry.calls;
        let mut is_put_off = false;
        while errand.tried < attempts_max(errand.call.application()) {
            let now = self.lease.worker().now();
            let Some((server, kept)) = calls.choose(errand.application, now) else { break };
            if let Some(line) = kept {
                errand.call.connected(true, now);
                return Some(Upstream { line, server });
            }
            if !is_put_off {
                errand.call.connecting(now);
            }
            match connect(errand.call, server, errand.tried) {
                Ok(socket) => return Some(Upstream { line: Line::new(socket), server }),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                    if is_put_off && errand.call.deadline().is_none_or(|due| due <= now) {
                        self.fail_call(errand, Failure::Backlog);
                        return None;
                    }
                    is_put_off = true;
                    if !self.waits_for_backlog(errand.id) {
                        return None;
                    }
                }
                Err(_) => self.note_failure(errand, server),
            }
        }
        self.fail_call(errand, Failure::Unreachable);
        None
    }

    /// Waits a moment for room in the backlog of a server. Returns whether the client still waits.
    fn waits_for_backlog(&mut self, id: JobId) -> bool {
        let awaited = Awaited { input: self.served.connection.wants_input(), ..Awaited::default() };
        self.lease.release();
        let client = (self.entry.socket(), awaited);
        let _ = os::socket::wait_for_any([client], BACKLOG_MS);
        let is_wanted = self.is_wanted(id);
        read_clock(self.lease.worker());
        is_wanted
    }

    /// Sends to the client what there is, and receives what has come. Returns whether the call can
    /// go on.
    fn move_client(&mut self, id: JobId, ready: &mut Ready) -> bool {
        let mut socket = Unwaiting(self.entry.socket());
        loop {
            let (worker, connection) = (self.lease.worker(), &mut self.served.connection);
            if !connection.wants_stream(id) {
                return true;
            }
            let mut turn = Turn::endless();
            match step(&mut socket, connection, worker, self.buffer, ready, &mut turn) {
                Step::More | Step::Yield => {}
                Step::Job => return true,
                Step::Wait | Step::Away | Step::Cold => return false,
                // The client has gone: what it was sent is for nobody.
                Step::Closed => connection.ingest(worker, &[]),
            }
        }
    }

    /// Waits for either socket, or until something is due.
    fn wait(
        &mut self,
        errand: &mut Errand<'_>,
        upstream: &mut Upstream,
        ready: &mut Ready,
    ) -> Result<(), Unconnected> {
        let connection = &self.served.connection;
        let wants_input = connection.wants_input();
        let client = Awaited {
            input: wants_input && ready.is_drained,
            room: ready.is_full,
            ..Awaited::default()
        };
        let wanted = upstream.line.wanted;
        let server = Awaited {
            input: wanted.contains(Interest::READ),
            room: wanted.contains(Interest::WRITE),
            ..Awaited::default()
        };
        let now = self.lease.worker().now();
        let due = [connection.deadline(), errand.call.deadline()].into_iter().flatten().min();
        let ms = due.map_or(LONG_MS, |due| remaining_ms(due, now));
        self.lease.release();
        let sockets = (self.entry.socket(), upstream.line.socket.as_fd());
        let found = match wanted == Interest::NONE {
            // The end of its connection is noticed when there is room for more of it.
            true => os::socket::wait_for_any([(sockets.0, client)], ms)
                .map(|[client]| [client, Awaited::default()]),
            false => os::socket::wait_for_any([(sockets.0, client), (sockets.1, server)], ms),
        };
        let [client, server] = found.unwrap_or_default();
        ready.is_drained &= !client.input;
        ready.is_full &= !client.room && !client.is_over;
        ready.is_hung_up |= client.is_over;
        read_clock(self.lease.worker());
        if client.is_over && !wants_input {
            self.served.connection.ingest(self.lease.worker(), &[]);
        }
        self.expire(errand);
        note(&mut upstream.line, errand.call, server, self.lease.worker().now())
    }

    /// Acts on deadlines that have passed.
    fn expire(&mut self, errand: &mut Errand<'_>) {
        let worker = self.lease.worker();
        self.served.connection.expire_if_due(worker);
        if errand.call.deadline().is_some_and(|due| due <= worker.now())
            && let Some(mut stream) = self.served.connection.stream(worker, errand.id)
        {
            errand.call.expire(&mut stream);
        }
    }

    /// The call is over: the connection is kept or closed.
    fn end_call(&mut self, errand: &Errand<'_>, upstream: Upstream, keeps: bool) {
        let Upstream { line, server } = upstream;
        let now = self.lease.worker().now();
        let calls = &self.registry.calls;
        match errand.call.failure() {
            Some(failure) => {
                if failure.is_servers() {
                    calls.note_failure(errand.application, server, now);
                }
                self.registry.report_application(errand.call.application().name(), failure);
            }
            None => calls.note_success(errand.application, server),
        }
        let keeps = keeps && !self.registry.is_draining();
        if keeps && calls.keep(errand.application, server, line, now) {
            self.registry.wake();
        }
    }

    /// Fails a call without a connection.
    fn fail_call(&mut self, errand: &mut Errand<'_>, failure: Failure) {
        let worker = self.lease.worker();
        if let Some(mut stream) = self.served.connection.stream(worker, errand.id) {
            errand.call.fail(&mut stream, failure);
            self.registry.report_application(errand.call.application().name(), failure);
        }
    }

    /// Notes that a server cannot be reached.
    fn note_failure(&mut self, errand: &mut Errand<'_>, server: usize) {
        errand.tried += 1;
        let now = self.lease.worker().now();
        self.registry.calls.note_failure(errand.application, server, now);
    }
}

/// A connection could not be made.
struct Unconnected;

/// Takes note of what there is at the socket of an application.
fn note(line: &mut Line, call: &mut Call, found: Awaited, now: Tick) -> Result<(), Unconnected> {
    line.is_drained &= !found.input;
    line.is_full &= !found.room && !found.is_over;
    line.is_hung_up |= found.is_over;
    if line.is_connecting && (found.room || found.is_over) {
        line.is_connecting = false;
        if !matches!(os::socket::take_error(line.socket.as_fd()), Ok(None)) {
            return Err(Unconnected);
        }
        line.is_hung_up = false;
        call.connected(false, now);
    }
    Ok(())
}

/// A socket whose calls do not wait, even if it is in blocking mode.
struct Unwaiting<'s>(BorrowedFd<'s>);

impl Transport for Unwaiting<'_> {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Moved> {
        os::send::recv_now(self.0, buffer).map(Moved::Now)
    }

    /// Sends the head; a body, which replies of applications do not have apart, in the next call.
    fn send(&mut self, head: &[u8], body: &[u8], more: bool, _: &mut [u8]) -> io::Result<Moved> {
        let (bytes, more) =
            if head.is_empty() { (body, more) } else { (head, more || !body.is_empty()) };
        os::send::send_now(self.0, bytes, more).map(Moved::Now)
    }

    fn send_file(&mut self, file: &FileRef, offset: u64, len: usize) -> io::Result<Moved> {
        Plain(self.0).send_file(file, offset, len)
    }

    fn shut_down(&mut self) -> io::Result<()> {
        Plain(self.0).shut_down()
    }

    fn reset_on_close(&mut self) {
        Plain(self.0).reset_on_close();
    }
}
