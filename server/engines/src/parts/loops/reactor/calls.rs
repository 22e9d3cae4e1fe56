//! Applications in an event loop: their sockets are watched beside those of the clients, so that no
//! request is handed to another thread.
//!
//! A connection to an application has a key of its own for its life, and is registered once: calls
//! that use it one after another cost no system call for that. Its slot knows the client whose call
//! it has, and the client's slot knows it; both must agree, so that an event which comes late finds
//! nothing.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use os::epoll::{Event, Interest};
use session::{Job, StreamRef, Tick};
use upstream::{Call, Failure};

use super::Reactor;
use crate::parts::applications::joint::{Joint, Line, join};
use crate::parts::applications::servers::{attempts_max, connect};
use crate::parts::applications::table::{Admitted, MARK, Out, Table, Upstream};
use crate::parts::loops::connections::NO_UPSTREAM;
use crate::parts::loops::drive::Begun;

/// The link of a client's slot whose call has no connection yet: it waits in a queue.
const QUEUED: u64 = u64::MAX - 1;

impl Reactor {
    /// Begins the call that a client's connection wants, or goes on with it; none if it wants
    /// another job.
    #[cold]
    #[inline(never)]
    pub(super) fn call(&mut self, client: u64) -> Option<Begun> {
        let slot = self.connections.get(client)?;
        match slot.connection.job() {
            Some(Job::Application(_)) => Some(self.begin_call(client)),
            None => Some(self.continue_call(client)),
            Some(_) => None,
        }
    }

    fn begin_call(&mut self, client: u64) -> Begun {
        let Some(slot) = self.connections.get(client) else { return Begun::Away };
        let (id, job) = slot.connection.take_job();
        let Job::Application(call) = job else { unreachable!("the caller has looked") };
        slot.upstream = QUEUED;
        match self
            .table
            .admit(Out { client, id, call, tried: 0, is_put_off: false }, self.worker.now())
        {
            Admitted::Now(out) => self.start_or_admit(out),
            Admitted::Queued => {}
            Admitted::Refused(out) => self.refuse_call(out, Failure::Full),
        }
        Begun::Out
    }

    /// Goes on with the call of a client: its stream has something for it.
    fn continue_call(&mut self, client: u64) -> Begun {
        let Some(slot) = self.connections.get(client) else { return Begun::Away };
        match slot.upstream {
            NO_UPSTREAM | QUEUED => unreachable!("a stream that calls for its application has one"),
            upstream => self.join(upstream),
        }
        Begun::Out
    }

    /// Begins a call that was admitted, or else the next one that waits.
    fn start_or_admit(&mut self, out: Out) {
        let application = out.call.application().number();
        if !self.start(out) {
            self.admit_next(application);
        }
    }

    /// Gets a connection for a call that was admitted, and goes on with it. Returns whether there
    /// is one; if not, the call has failed.
    fn start(&mut self, out: Out) -> bool {
        let application = out.call.application().number();
        match self.table.choose(application, self.worker.now()) {
            Some((server, Some(key))) => self.use_kept(key, server, out),
            Some((server, None)) => self.connect(out, server),
            None => self.give_up(out),
        }
    }

    fn use_kept(&mut self, key: u64, server: usize, mut out: Out) -> bool {
        if let Some(slot) = self.connections.get(out.client) {
            slot.upstream = key;
        }
        let Some(upstream) = self.table.slots.get(key) else { return self.connect(out, server) };
        out.call.connected(true, self.worker.now());
        upstream.out = Some(out);
        self.join(key);
        true
    }

    /// Makes a new connection for a call. A server that cannot be reached is noted, and another is
    /// tried.
    fn connect(&mut self, mut out: Out, mut server: usize) -> bool {
        let now = self.worker.now();
        let application = out.call.application().number();
        loop {
            if !out.is_put_off {
                out.call.connecting(now);
            }
            match connect(&out.call, server, out.tried) {
                Ok(socket) => {
                    self.watch_new(out, server, socket);
                    return true;
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return self.put_off(out),
                Err(_) => {
                    self.table.note_failure(application, server, now);
                    out.tried += 1;
                    if out.tried >= attempts_max(out.call.application()) {
                        return self.give_up(out);
                    }
                }
            }
            match self.table.choose(application, now) {
                Some((server, Some(key))) => return self.use_kept(key, server, out),
                Some((other, None)) => server = other,
                None => return self.give_up(out),
            }
        }
    }

    /// Has a call wait for room in the backlog of its server. Returns whether it does; if not, it
    /// has waited for long enough and has failed.
    fn put_off(&mut self, mut out: Out) -> bool {
        let now = self.worker.now();
        if out.is_put_off && out.call.deadline().is_none_or(|deadline| deadline <= now) {
            self.refuse_call(out, Failure::Backlog);
            return false;
        }
        out.is_put_off = true;
        if let Some(slot) = self.connections.get(out.client) {
            slot.upstream = QUEUED;
            // What the stream has called for is asked again when there is a connection.
            drop(slot.connection.stream(&mut self.worker, out.id));
        }
        self.table.put_off(out, now);
        true
    }

    /// Connects again for calls that were put off, as long as their clients are there.
    fn connect_put_off(&mut self, now: Tick) {
        while let Some(out) = self.table.take_put_off(now) {
            let (client, application) = (out.client, out.call.application().number());
            let slot = self.connections.get(client);
            let is_wanted = slot.is_some_and(|slot| slot.connection.wants_stream(out.id));
            if !(is_wanted && self.start(out)) {
                self.admit_next(application);
            }
            self.queue_client(client);
        }
    }

    fn watch_new(&mut self, out: Out, server: usize, socket: OwnedFd) {
        let client = out.client;
        let upstream = Upstream {
            line: Line::new(socket),
            application: out.call.application().number(),
            out: Some(out),
            server,
            idle_until: self.worker.now(),
            watched: Interest::NONE,
        };
        let key = self.table.slots.insert(upstream);
        if let Some(slot) = self.connections.get(client) {
            slot.upstream = key;
        }
        self.follow(key);
    }

    /// Watches the socket of an application for what its call waits for.
    fn follow(&mut self, key: u64) {
        let Some(Upstream { line, watched, .. }) = self.table.slots.get(key) else { return };
        let socket = line.socket.as_fd();
        if self.watch.follow_socket(socket, watched, line.wanted, key | MARK).is_err() {
            return self.fail_call(key, Failure::Unreachable); // no memory for the watch
        }
        self.table.slots.schedule(key);
    }

    /// Moves bytes between an application and its client's stream.
    fn join(&mut self, key: u64) {
        let now = self.worker.now();
        let Some(upstream) = self.table.slots.get(key) else { return };
        if upstream.out.is_none() {
            return;
        }
        let joint = self.with_stream(key, |line, call, stream, buffer| match line.is_connecting {
            // What the stream has called for is asked again when there is a connection.
            true => Joint::Waits,
            false => join(line, call, stream, buffer, now),
        });
        match joint {
            Some(Joint::Waits) => self.follow(key),
            Some(Joint::Over { keeps }) => self.end_call(key, keeps),
            Some(Joint::Anew) => self.connect_anew(key),
            None => self.close_upstream(key),
        }
    }

    /// Calls a function with both ends of a call; none if the client does not want it any more.
    fn with_stream<R>(
        &mut self,
        key: u64,
        work: impl FnOnce(&mut Line, &mut Call, &mut StreamRef<'_>, &mut [u8]) -> R,
    ) -> Option<R> {
        let Self { table: Table { slots, buffer, .. }, connections, worker, .. } = self;
        let Upstream { line, out: Some(out), .. } = slots.get(key)? else { return None };
        let slot = connections.get(out.client)?;
        let mut stream = slot.connection.stream(worker, out.id)?;
        Some(work(line, &mut out.call, &mut stream, buffer))
    }

    /// A call is over: its client goes on without it, and the connection is kept or closed.
    fn end_call(&mut self, key: u64, keeps: bool) {
        let now = self.worker.now();
        let Some(upstream) = self.table.slots.get(key) else { return };
        let Some(out) = upstream.out.take() else { return };
        let (application, server) = (upstream.application, upstream.server);
        match out.call.failure() {
            Some(failure) => {
                if failure.is_servers() {
                    self.table.note_failure(application, server, now);
                }
                self.report(&out, failure);
            }
            None => self.table.note_success(application, server),
        }
        self.unlink(out.client);
        match keeps && !self.table.is_draining {
            true => {
                self.table.keep(key, now);
                self.follow(key);
            }
            false => self.drop_upstream(key),
        }
        self.admit_next(application);
    }

    /// The connection had ended before it took the request: another is made.
    fn connect_anew(&mut self, key: u64) {
        let Some(upstream) = self.table.slots.get(key) else { return };
        let (server, out) = (upstream.server, upstream.out.take());
        self.drop_upstream(key);
        if let Some(out) = out {
            let application = out.call.application().number();
            if !self.connect(out, server) {
                self.admit_next(application);
            }
        }
    }

    /// Handles an event of an application's socket.
    #[cold]
    pub(super) fn handle_upstream(&mut self, event: Event) {
        if event.key & MARK == 0 {
            return;
        }
        let key = event.key & !MARK;
        let Some(upstream) = self.table.slots.get(key) else { return };
        let line = &mut upstream.line;
        line.is_drained &= !event.readable;
        line.is_full &= !event.writable;
        line.is_hung_up |= event.hangup || event.error;
        let Some(out) = &mut upstream.out else {
            // Nothing was asked of it: it is closing, or is not to be trusted.
            if line.is_unsound() {
                self.close_upstream(key);
            }
            return;
        };
        let client = out.client;
        if line.is_connecting {
            if !event.writable && !event.error && !event.hangup {
                return;
            }
            line.is_connecting = false;
            let failed = os::socket::take_error(line.socket.as_fd());
            if !matches!(failed, Ok(None)) {
                return self.connect_elsewhere(key);
            }
            line.is_hung_up = event.hangup;
            out.call.connected(false, self.worker.now());
        }
        self.join(key);
        self.queue_client(client);
    }

    /// A connection could not be made: another server is tried.
    fn connect_elsewhere(&mut self, key: u64) {
        let now = self.worker.now();
        let Some(upstream) = self.table.slots.get(key) else { return };
        let (application, server, out) =
            (upstream.application, upstream.server, upstream.out.take());
        self.drop_upstream(key);
        self.table.note_failure(application, server, now);
        let Some(mut out) = out else { return };
        let client = out.client;
        out.tried += 1;
        match out.tried < attempts_max(out.call.application()) {
            true => self.start_or_admit(out),
            false => {
                self.give_up(out);
                self.admit_next(application);
            }
        }
        self.queue_client(client);
    }

    /// Has a client go on in its turn, if it is still there.
    fn queue_client(&mut self, client: u64) {
        if self.connections.get(client).is_some() {
            self.connections.queue(client);
        }
    }

    /// Fails a call for which no connection can be made.
    fn give_up(&mut self, out: Out) -> bool {
        self.refuse_call(out, Failure::Unreachable);
        false
    }

    /// Fails a call without a connection. Its client goes on in its turn.
    fn refuse_call(&mut self, mut out: Out, failure: Failure) {
        self.report(&out, failure);
        let Some(slot) = self.connections.get(out.client) else { return };
        slot.upstream = NO_UPSTREAM;
        if let Some(mut stream) = slot.connection.stream(&mut self.worker, out.id) {
            out.call.fail(&mut stream, failure);
        }
        self.connections.queue(out.client);
    }

    /// Ends a call whose connection is there.
    fn fail_call(&mut self, key: u64, failure: Failure) {
        let Some(Upstream { out: Some(out), .. }) = self.table.slots.get(key) else { return };
        let client = out.client;
        self.with_stream(key, |_, call, stream, _| call.fail(stream, failure));
        self.end_call(key, false);
        self.queue_client(client);
    }

    /// Lets the calls begin that wait for one to be over, as many as have a client.
    fn admit_next(&mut self, application: usize) {
        while let Some(out) = self.table.leave(application) {
            let slot = self.connections.get(out.client);
            if slot.is_some_and(|slot| slot.connection.wants_stream(out.id)) {
                let client = out.client;
                let has_begun = self.start(out);
                self.queue_client(client);
                if has_begun {
                    return;
                }
            }
        }
    }

    fn report(&self, out: &Out, failure: Failure) {
        let name = out.call.application().name();
        self.work.report_application(name, failure);
    }

    fn unlink(&mut self, client: u64) {
        if let Some(slot) = self.connections.get(client) {
            slot.upstream = NO_UPSTREAM;
        }
    }

    /// Closes the connection of a call that no client wants any more, or of none.
    pub(super) fn close_upstream(&mut self, key: u64) {
        let Some(upstream) = self.table.slots.get(key) else { return };
        let application = upstream.application;
        let was_out = upstream.out.take();
        let server = upstream.server;
        if was_out.is_none() {
            self.table.forget(key, application, server);
        }
        self.drop_upstream(key);
        if let Some(out) = was_out {
            self.unlink(out.client);
            self.admit_next(application);
        }
    }

    fn drop_upstream(&mut self, key: u64) {
        if let Some(mut upstream) = self.table.slots.remove(key) {
            let socket = upstream.line.socket.as_fd();
            self.watch.leave_socket(socket, &mut upstream.watched);
        }
    }

    /// Ends the call of a client that does not want it any more, or that has gone.
    #[cold]
    pub(super) fn end_unwanted(&mut self, upstream: u64) {
        if upstream != NO_UPSTREAM && upstream != QUEUED {
            self.close_upstream(upstream);
        }
    }

    /// Has a connection wait whose request an application answers. The call ends if the stream has
    /// no use for it any more.
    #[cold]
    #[inline(never)]
    pub(super) fn wait_with_call(&mut self, client: u64) {
        let Some(slot) = self.connections.get(client) else { return };
        let key = slot.upstream;
        if let Some(Upstream { out: Some(out), .. }) = self.table.slots.get(key)
            && !slot.connection.wants_stream(out.id)
        {
            self.close_upstream(key);
        }
        let Some(slot) = self.connections.get(client) else { return };
        if self.watch.follow(slot, client).is_err() {
            return self.close(client); // no memory for the watch
        }
        self.connections.schedule(client);
    }

    /// Acts on the deadlines of calls and of connections that are kept. Returns when the next is
    /// due.
    #[cold]
    #[inline(never)]
    pub(super) fn expire_calls(&mut self) -> Option<Tick> {
        let now = self.worker.now();
        if self.table.next_check().is_some_and(|moment| moment <= now) {
            self.expire_calls_at(now);
        }
        self.table.next_check()
    }

    fn expire_calls_at(&mut self, now: Tick) {
        self.connect_put_off(now);
        while let Some(out) = self.table.take_late(now) {
            self.refuse_call(out, Failure::Queued);
        }
        for key in self.table.slots.take_expired(now) {
            let Some(upstream) = self.table.slots.get(key) else { continue };
            let Some(out) = &upstream.out else {
                self.close_upstream(key);
                continue;
            };
            let client = out.client;
            let failure = self.with_stream(key, |_, call, stream, _| {
                call.expire(stream);
                call.failure()
            });
            match failure {
                Some(Some(_)) => self.end_call(key, false),
                Some(None) => self.join(key),
                None => self.close_upstream(key),
            }
            self.queue_client(client);
        }
    }

    /// Closes the connections that are kept: the loop is about to end.
    pub(super) fn drain_calls(&mut self) {
        self.table.is_draining = true;
        self.table.idle().into_iter().for_each(|key| self.close_upstream(key));
    }
}
