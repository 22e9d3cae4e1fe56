//! Applications in a loop: their sockets are driven beside those of the clients, so that no request
//! is handed to another thread. What all such loops do is here; how one waits for a socket, and
//! moves its bytes, is the loop's own.
//!
//! A connection to an application has a key of its own for its life. Its slot knows the client
//! whose call it has, and the client's slot knows it; both must agree, so that an event which comes
//! late finds nothing.

use std::io;
use std::os::fd::OwnedFd;

use session::{Job, StreamRef, Tick, Worker};
use upstream::{Application, Call, Failure, Tried};

use super::finishing::finish;
use super::joint::Joint;
use super::servers::connect;
use super::table::{Admitted, Out, Table, Upstream};
use crate::parts::disk::blocking_work::Offload;
use crate::parts::loops::connections::{Connections, NO_UPSTREAM, Slot};
use crate::parts::loops::drive::Begun;

/// The link of a client's slot whose call has no connection yet: it waits in a queue.
const QUEUED: u64 = u64::MAX - 1;

/// The applications of a loop, its clients, and the worker that answers them.
pub(crate) type CallParts<'l, L, S> =
    (&'l mut Table<L>, &'l mut Connections<Slot<S>>, &'l mut Worker);

/// Both ends of a call: the connection to the application, and the stream of the client. None if
/// the client does not want the call any more.
pub(crate) fn ends<'l, L, S>(
    upstreams: &'l mut Connections<Upstream<L>>,
    connections: &'l mut Connections<Slot<S>>,
    worker: &'l mut Worker,
    key: u64,
) -> Option<(&'l mut L, &'l mut Call, StreamRef<'l>)> {
    let Upstream { line, out: Some(out), .. } = upstreams.get(key)? else { return None };
    let stream = connections.get(out.client)?.connection.stream(worker, out.id)?;
    Some((line, &mut out.call, stream))
}

/// A loop that calls applications.
pub(crate) trait CallLoop: Offload {
    /// A connection to an application, which is being made when the loop gets it.
    type Line: From<OwnedFd>;

    fn call_parts(&mut self) -> CallParts<'_, Self::Line, Self::Socket>;

    /// Moves bytes between an application and its client's stream until neither end can go on; none
    /// if the client does not want the call any more.
    fn move_bytes(&mut self, key: u64) -> Option<Joint>;

    /// Has the loop learn what its call waits for at the socket of an application; or the end of a
    /// connection that no call uses.
    ///
    /// # Errors
    /// No memory for it.
    fn watch_upstream(&mut self, key: u64) -> io::Result<()>;

    /// Whether nothing has come on a connection that is kept.
    fn is_silent(&mut self, key: u64) -> bool;

    /// A copy of the descriptor of a connection to an application, which is no longer watched.
    ///
    /// # Errors
    /// There is no other descriptor.
    fn take_socket(&mut self, line: &mut Self::Line) -> io::Result<OwnedFd>;

    /// Closes a connection to an application.
    fn close_line(&mut self, line: Self::Line);

    /// Goes on with a client after an event of its application: at once, or in its turn.
    fn resume(&mut self, client: u64) {
        self.queue_client(client);
    }

    /// Takes note that the call of a client is over.
    fn call_over(&mut self, _client: u64) {}

    fn table(&mut self) -> &mut Table<Self::Line> {
        self.call_parts().0
    }

    fn client(&mut self, key: u64) -> Option<&mut Slot<Self::Socket>> {
        self.call_parts().1.get(key)
    }

    fn now(&mut self) -> Tick {
        self.call_parts().2.now()
    }

    /// Both ends of a call; see [`ends`].
    fn ends(&mut self, key: u64) -> Option<(&mut Self::Line, &mut Call, StreamRef<'_>)> {
        let (table, connections, worker) = self.call_parts();
        ends(&mut table.slots, connections, worker, key)
    }

    /// Begins the call that a client's connection wants, or goes on with it; none if it wants
    /// another job.
    #[cold]
    #[inline(never)]
    fn call(&mut self, client: u64) -> Option<Begun> {
        match self.client(client)?.connection.job() {
            Some(Job::Application(_)) => Some(self.begin_call(client)),
            None => Some(self.continue_call(client)),
            Some(_) => None,
        }
    }

    fn begin_call(&mut self, client: u64) -> Begun {
        self.end_if_unwanted(client); // the last one may have been left before its end
        let Some(slot) = self.client(client) else { return Begun::Away };
        let (id, job) = slot.connection.take_job();
        let Job::Application(call) = job else { unreachable!("the caller has looked") };
        slot.upstream = QUEUED;
        let out = Out { client, id, call, tried: Tried::default(), is_put_off: false };
        let now = self.now();
        if !self.table().knows(out.call.application()) {
            self.leave_retired();
            self.table().learn(out.call.application());
        }
        match self.table().admit(out, now) {
            Admitted::Now(out) => self.start_or_admit(out),
            Admitted::Queued => {}
            Admitted::Refused(out) => self.refuse_call(out, Failure::Full),
        }
        Begun::Out
    }

    /// Goes on with the call of a client: its stream has something for it.
    fn continue_call(&mut self, client: u64) -> Begun {
        let Some(slot) = self.client(client) else { return Begun::Away };
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
    fn start(&mut self, mut out: Out) -> bool {
        let now = self.now();
        match self.choose(&mut out, now) {
            Some((server, Some(key))) => self.use_kept(key, server, out),
            Some((server, None)) => self.connect(out, server),
            None => self.give_up(out),
        }
    }

    /// Chooses a server, and takes a connection to it that was kept, if there is one.
    fn choose(&mut self, out: &mut Out, now: Tick) -> Option<(usize, Option<u64>)> {
        let chosen = self.table().choose(out, now)?;
        self.parts().0.runner().report_passed_over(out.call.application(), &mut out.tried);
        Some(chosen)
    }

    fn use_kept(&mut self, key: u64, server: usize, mut out: Out) -> bool {
        // Its end may have come, and its event not: the request could not be sent again.
        if !out.call.is_repeatable() && !self.is_silent(key) {
            self.drop_upstream(key);
            return self.start(out);
        }
        self.link(out.client, key);
        let now = self.now();
        out.call.connected(true, now);
        match self.table().use_kept(key, out) {
            Ok(()) => {
                let joint = self.move_bytes(key);
                self.joined(key, joint);
                true
            }
            Err(out) => self.connect(out, server),
        }
    }

    /// Makes a new connection for a call. A server that cannot be reached is noted, and another is
    /// tried.
    fn connect(&mut self, mut out: Out, mut server: usize) -> bool {
        let now = self.now();
        let application = out.call.application().number();
        loop {
            if !out.is_put_off {
                out.call.connecting(now);
            }
            match connect(&out.call, server, &out.tried) {
                Ok(socket) => {
                    self.watch_new(out, server, socket);
                    return true;
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return self.put_off(out),
                Err(_) => {
                    self.table().note_failure(application, server, now);
                    out.tried.note(server, false);
                }
            }
            match self.choose(&mut out, now) {
                Some((server, Some(key))) => return self.use_kept(key, server, out),
                Some((other, None)) => server = other,
                None => return self.give_up(out),
            }
        }
    }

    /// Has a call wait for room in the backlog of its server. Returns whether it does; if not, it
    /// has waited for long enough and has failed.
    fn put_off(&mut self, mut out: Out) -> bool {
        let now = self.now();
        if out.is_put_off && out.call.deadline().is_none_or(|deadline| deadline <= now) {
            self.refuse_call(out, Failure::Backlog);
            return false;
        }
        out.is_put_off = true;
        let (_, connections, worker) = self.call_parts();
        if let Some(slot) = connections.get(out.client) {
            slot.upstream = QUEUED;
            // What the stream has called for is asked again when there is a connection.
            drop(slot.connection.stream(worker, out.id));
        }
        self.table().put_off(out, now);
        true
    }

    /// Connects again for calls that were put off, as long as their clients are there.
    fn connect_put_off(&mut self, now: Tick) {
        while let Some(out) = self.table().take_put_off(now) {
            let (client, application) = (out.client, out.call.application().number());
            let slot = self.client(client);
            let is_wanted = slot.is_some_and(|slot| slot.connection.wants_stream(out.id));
            if !(is_wanted && self.start(out)) {
                self.admit_next(application);
            }
            self.queue_client(client);
        }
    }

    fn watch_new(&mut self, out: Out, server: usize, socket: OwnedFd) {
        let (client, now) = (out.client, self.now());
        let key = self.table().add(Self::Line::from(socket), server, out, now);
        self.link(client, key);
        self.follow(key);
    }

    /// Has a connection to an application wait, with a call or without.
    fn follow(&mut self, key: u64) {
        if self.watch_upstream(key).is_err() {
            return self.fail_call(key, Failure::Unreachable);
        }
        self.table().slots.schedule(key);
    }

    /// Moves bytes between an application and its client's stream.
    fn join(&mut self, key: u64) {
        let upstream = self.table().slots.get(key);
        if upstream.is_none_or(|upstream| upstream.out.is_none()) {
            return;
        }
        let joint = self.move_bytes(key);
        self.joined(key, joint);
    }

    fn joined(&mut self, key: u64, joint: Option<Joint>) {
        match joint {
            Some(Joint::Waits) => self.follow(key),
            Some(Joint::Over { keeps }) => self.end_call(key, keeps),
            Some(Joint::Anew) => self.connect_anew(key),
            None => self.close_upstream(key),
        }
    }

    /// A call is over: its client goes on without it, and the connection is kept or closed.
    fn end_call(&mut self, key: u64, keeps: bool) {
        let now = self.now();
        let Some(out) = self.table().take_out(key) else { return };
        let Some(upstream) = self.table().slots.get(key) else { return };
        let (application, server) = (upstream.application, upstream.server);
        self.table().note_end(application, server, out.call.failure(), now);
        if let Some(failure) = out.call.failure() {
            self.report(&out, Some(server), failure);
        }
        self.link(out.client, NO_UPSTREAM);
        match keeps && self.table().keeps(application) {
            true => {
                self.table().keep(key, now);
                self.follow(key);
            }
            false => self.drop_upstream(key),
        }
        self.admit_next(application);
    }

    /// The connection had ended before it took the request: another is made.
    fn connect_anew(&mut self, key: u64) {
        let out = self.table().take_out(key);
        let Some(upstream) = self.table().slots.get(key) else { return };
        let server = upstream.server;
        self.drop_upstream(key);
        if let Some(out) = out {
            let application = out.call.application().number();
            if !self.connect(out, server) {
                self.admit_next(application);
            }
        }
    }

    /// Goes on with a call whose connection is made, or could not be.
    fn connected(&mut self, key: u64, is_made: bool) {
        let now = self.now();
        let Some(Upstream { out: Some(out), .. }) = self.table().slots.get(key) else { return };
        if !is_made {
            return self.connect_elsewhere(key, false);
        }
        out.call.connected(false, now);
        self.go_on_with_call(key);
    }

    /// Goes on with a call after something has happened at its application's end.
    fn go_on_with_call(&mut self, key: u64) {
        let joint = self.move_bytes(key);
        self.moved(key, joint);
    }

    /// Has a call wait or end after bytes were moved at its application's end. Its client goes on.
    fn moved(&mut self, key: u64, joint: Option<Joint>) {
        let Some(Upstream { out: Some(out), .. }) = self.table().slots.get(key) else { return };
        let client = out.client;
        self.joined(key, joint);
        self.resume(client);
    }

    /// A connection could not be made, or is late: another server is tried.
    fn connect_elsewhere(&mut self, key: u64, is_late: bool) {
        let now = self.now();
        let out = self.table().take_out(key);
        let Some(upstream) = self.table().slots.get(key) else { return };
        let (application, server) = (upstream.application, upstream.server);
        self.drop_upstream(key);
        self.table().note_failure(application, server, now);
        let Some(mut out) = out else { return };
        let client = out.client;
        out.tried.note(server, is_late);
        out.is_put_off &= !is_late;
        self.start_or_admit(out);
        self.queue_client(client);
    }

    /// Has a client go on in its turn, if it is still there.
    fn queue_client(&mut self, client: u64) {
        self.call_parts().1.queue(client);
    }

    /// Fails a call for which no connection can be made.
    fn give_up(&mut self, out: Out) -> bool {
        let failure = out.tried.failure();
        self.refuse_call(out, failure);
        false
    }

    /// Fails a call without a connection. Its client goes on in its turn.
    fn refuse_call(&mut self, mut out: Out, failure: Failure) {
        self.report(&out, None, failure);
        let (_, connections, worker) = self.call_parts();
        let Some(slot) = connections.get(out.client) else { return };
        slot.upstream = NO_UPSTREAM;
        if let Some(mut stream) = slot.connection.stream(worker, out.id) {
            out.call.fail(&mut stream, failure);
        }
        connections.queue(out.client);
        self.call_over(out.client);
    }

    /// Ends a call whose connection is there.
    fn fail_call(&mut self, key: u64, failure: Failure) {
        let Some(Upstream { out: Some(out), .. }) = self.table().slots.get(key) else { return };
        let client = out.client;
        if let Some((_, call, mut stream)) = self.ends(key) {
            call.fail(&mut stream, failure);
        }
        self.end_call(key, false);
        self.queue_client(client);
    }

    /// Lets the calls begin that wait for one to be over, as many as have a client.
    fn admit_next(&mut self, application: usize) {
        while let Some(out) = self.table().leave(application) {
            let slot = self.client(out.client);
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

    fn report(&mut self, out: &Out, server: Option<usize>, failure: Failure) {
        self.parts().0.runner().report_application(out.call.application(), server, failure);
    }

    /// Notes which connection to an application the call of a client uses.
    fn link(&mut self, client: u64, upstream: u64) {
        if let Some(slot) = self.client(client) {
            slot.upstream = upstream;
        }
        if upstream == NO_UPSTREAM {
            self.call_over(client);
        }
    }

    /// Closes the connection of a call that no client wants any more, or of none.
    fn close_upstream(&mut self, key: u64) {
        let was_out = self.table().take_out(key);
        let Some(upstream) = self.table().slots.get(key) else { return };
        let (application, server) = (upstream.application, upstream.server);
        let Some(Out { client, call, .. }) = was_out else {
            self.table().forget(key, application, server);
            return self.drop_upstream(key);
        };
        match call.ignores_client() {
            true => self.finish_without_client(key, call),
            false => self.drop_upstream(key),
        }
        self.link(client, NO_UPSTREAM);
        self.admit_next(application);
    }

    /// Has a call finished apart from the loop.
    #[cold]
    fn finish_without_client(&mut self, key: u64, call: Box<Call>) {
        let Some(mut upstream) = self.table().slots.remove(key) else { return };
        if let Ok(socket) = self.take_socket(&mut upstream.line) {
            finish(call, socket);
        }
        self.close_line(upstream.line);
    }

    fn drop_upstream(&mut self, key: u64) {
        if let Some(upstream) = self.table().slots.remove(key) {
            self.close_line(upstream.line);
        }
    }

    /// Ends the call of a client that does not want it any more, or that has gone.
    #[cold]
    fn end_unwanted(&mut self, upstream: u64) {
        if upstream != NO_UPSTREAM && upstream != QUEUED {
            self.close_upstream(upstream);
        }
    }

    /// Ends the call of a client if its stream has no use for it any more.
    #[cold]
    #[inline(never)]
    fn end_if_unwanted(&mut self, client: u64) {
        let (table, connections, _) = self.call_parts();
        let Some(slot) = connections.get(client) else { return };
        let key = slot.upstream;
        if let Some(Upstream { out: Some(out), .. }) = table.slots.get(key)
            && !slot.connection.wants_stream(out.id)
        {
            self.close_upstream(key);
        }
    }

    /// Acts on the deadlines of calls and of connections that are kept. Returns when the next is
    /// due.
    #[cold]
    #[inline(never)]
    fn expire_calls(&mut self) -> Option<Tick> {
        let now = self.now();
        match self.table().next_check() {
            Some(moment) if moment <= now => {}
            next => return next,
        }
        self.expire_calls_at(now);
        self.table().next_check()
    }

    fn expire_calls_at(&mut self, now: Tick) {
        self.connect_put_off(now);
        while let Some(out) = self.table().take_late(now) {
            self.refuse_call(out, Failure::Queued);
        }
        for key in self.table().slots.take_expired(now) {
            let Some(upstream) = self.table().slots.get(key) else { continue };
            let Some(out) = &upstream.out else {
                self.close_upstream(key);
                continue;
            };
            if out.call.is_unconnected() {
                self.connect_elsewhere(key, true);
                continue;
            }
            let client = out.client;
            let failure = self.ends(key).map(|(_, call, mut stream)| {
                call.expire(&mut stream);
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

    /// Closes what is kept for applications that no route leads to any more: in the place of one
    /// another may have come, whose server may have as many connections as it has processes.
    #[cold]
    fn leave_retired(&mut self) {
        let kept = self.table().kept_for(Application::is_retired);
        kept.into_iter().for_each(|key| self.close_upstream(key));
        self.table().forget_retired();
    }

    /// Closes the connections that are kept: the loop is about to end.
    fn drain_calls(&mut self) {
        self.table().is_draining = true;
        let kept = self.table().kept_for(|_| true);
        kept.into_iter().for_each(|key| self.close_upstream(key));
    }
}
