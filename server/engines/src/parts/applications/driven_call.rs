//! A call in the hands of the thread, fiber or task that serves its client: from the wait for a
//! place to the connection that is kept for the next call. It makes no wait itself. Its driver
//! waits for what [`DrivenCall::awaited`] says, reports what came, and asks again.
//!
//! Loops have calls of their own (`call_loop.rs`): they act on events of kept connections, and
//! share nothing.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::Waker;

use os::epoll::Interest;
use os::socket::Awaited;
use session::{Connection, JobId, StreamRef, Tick, Worker};
use upstream::{Call, Downstream, Failure, Tried};

use super::call_pool::{CallPool, Entered, Place, Ticket};
use super::finishing::finish;
use super::joint::{Joint, Line, join};
use super::servers::connect;
use crate::jobs::Runner;

/// How long a call waits before it tries again to connect to a server without room in its backlog,
/// in milliseconds. Only sockets in the file system say so.
pub(crate) const BACKLOG_MS: u64 = 10;

/// How an engine learns what there is at the sockets of applications.
pub(crate) trait WatchLine {
    /// A socket, with what has to be known to watch it.
    type Socket: AsFd + From<OwnedFd>;

    /// Has events of the socket reach the call that uses it from now on. Of a connection that was
    /// kept, they may have reached another one. No byte was moved for this call yet.
    ///
    /// # Errors
    /// No memory for it.
    fn watch(&self, socket: &mut Self::Socket) -> io::Result<()>;
}

/// Of threads, which wait for both sockets themselves.
pub(crate) struct Unwatched;

impl WatchLine for Unwatched {
    type Socket = OwnedFd;

    fn watch(&self, _: &mut OwnedFd) -> io::Result<()> {
        Ok(())
    }
}

/// The client of a call.
pub(crate) trait CallClient {
    type Watch: WatchLine;
    type Stream<'s>: Downstream
    where
        Self: 's;

    fn watch(&self) -> &Self::Watch;

    /// The stream of the call; none if the client does not want it any more.
    fn stream(&mut self) -> Option<Self::Stream<'_>>;
}

/// The client of a call whose connection is a session's.
pub(crate) struct SessionClient<'c, W> {
    pub(crate) connection: &'c mut Connection,
    pub(crate) worker: &'c mut Worker,
    pub(crate) id: JobId,
    pub(crate) watch: W,
}

impl<W: WatchLine> CallClient for SessionClient<'_, W> {
    type Watch = W;
    type Stream<'s>
        = StreamRef<'s>
    where
        Self: 's;

    fn watch(&self) -> &W {
        &self.watch
    }

    fn stream(&mut self) -> Option<StreamRef<'_>> {
        self.connection.stream(self.worker, self.id)
    }
}

/// A call under way.
pub(crate) struct DrivenCall<S: AsFd + From<OwnedFd> = OwnedFd> {
    call: Box<Call>,
    pool: Arc<CallPool<S>>,
    /// The number of the application.
    application: usize,
    stage: Stage<S>,
    place: Option<Place<S>>,
    /// The servers that were tried and cannot be reached.
    tried: Tried,
    /// Whether a server had no room in its backlog.
    is_put_off: bool,
    /// Whether a connection that was kept had ended: the request is sent again on a new one.
    is_sent_again: bool,
}

enum Stage<S> {
    /// It waits until another call is over.
    Waiting(Ticket<S>),
    /// It needs a connection.
    Unconnected,
    /// It waits for room in the backlog of a server.
    PutOff {
        due: Tick,
    },
    Joined(Upstream<S>),
    /// It fails as soon as it is asked.
    Failing(Failure),
    Over,
}

/// A connection to a server of the application.
struct Upstream<S> {
    line: Line<S>,
    server: usize,
}

/// Whether a call goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// When there is something of what it waits for, or at its client's end.
    Waits,
    /// Not any more: its client goes on without it.
    Over,
}

impl<S: AsFd + From<OwnedFd>> DrivenCall<S> {
    /// Begins a call. If it has to wait for a place it is woken when it has one.
    pub(crate) fn begin(
        pool: &Arc<CallPool<S>>,
        call: Box<Call>,
        waker: impl FnOnce() -> Waker,
        now: Tick,
    ) -> Self {
        let application = call.application().number();
        let (stage, place) = match pool.enter(call.application(), waker, now) {
            Entered::Now(place) => (Stage::Unconnected, Some(place)),
            Entered::Waits(ticket) => (Stage::Waiting(ticket), None),
            Entered::Full => (Stage::Failing(Failure::Full), None),
        };
        let pool = Arc::clone(pool);
        let tried = Tried::default();
        let (is_put_off, is_sent_again) = (false, false);
        Self { call, pool, application, stage, place, tried, is_put_off, is_sent_again }
    }

    /// Goes on with the call as far as that is possible. A connection is kept for the next call
    /// only if it `may_keep` it.
    pub(crate) fn go_on<C: CallClient<Watch: WatchLine<Socket = S>>>(
        &mut self,
        client: &mut C,
        buffer: &mut [u8],
        now: Tick,
        runner: &Runner,
        may_keep: bool,
    ) -> Progress {
        loop {
            // What the stream has called for is asked again when there is a connection.
            let Some(mut stream) = client.stream() else { return self.give_up() };
            match &mut self.stage {
                Stage::Waiting(ticket) => match ticket.take() {
                    Some(place) => {
                        self.place = Some(place);
                        self.stage = Stage::Unconnected;
                    }
                    None if ticket.until <= now => self.stage = Stage::Failing(Failure::Queued),
                    None => return Progress::Waits,
                },
                Stage::PutOff { due } if *due > now => return Progress::Waits,
                Stage::PutOff { .. } | Stage::Unconnected => {
                    drop(stream);
                    self.connect(client.watch(), now, runner);
                }
                Stage::Failing(failure) => {
                    let failure = *failure;
                    self.call.fail(&mut stream, failure);
                    runner.report_application(self.call.application(), None, failure);
                    return self.end();
                }
                Stage::Joined(Upstream { line, .. })
                    if line.ready.is_connecting && self.call.failure().is_none() =>
                {
                    return Progress::Waits;
                }
                Stage::Joined(Upstream { line, .. }) => {
                    match join(line, &mut self.call, &mut stream, buffer, now) {
                        Joint::Waits => return Progress::Waits,
                        Joint::Anew => {
                            self.stage = Stage::Unconnected;
                            self.is_sent_again = true;
                        }
                        Joint::Over { keeps } => {
                            drop(stream);
                            return self.leave(keeps && may_keep, now, runner);
                        }
                    }
                }
                Stage::Over => return Progress::Over,
            }
        }
    }

    /// Gets a connection, kept or new, and has it watched.
    fn connect(&mut self, watch: &impl WatchLine<Socket = S>, now: Tick, runner: &Runner) {
        self.get_connection(now, runner);
        if let Stage::Joined(Upstream { line, .. }) = &mut self.stage
            && watch.watch(&mut line.socket).is_err()
        {
            self.stage = Stage::Failing(Failure::Unreachable);
        }
    }

    fn get_connection(&mut self, now: Tick, runner: &Runner) {
        while let Some(place) = &mut self.place {
            let chosen = self.pool.choose(place, &self.call, &mut self.tried, now);
            let Some((server, kept)) = chosen else { break };
            runner.report_passed_over(self.call.application(), &mut self.tried);
            if let Some(line) = kept.filter(|_| !self.is_sent_again) {
                self.call.connected(true, now);
                self.stage = Stage::Joined(Upstream { line, server });
                return;
            }
            if !self.is_put_off {
                self.call.connecting(now);
            }
            match connect(&self.call, server, &self.tried) {
                Ok(socket) => {
                    self.stage = Stage::Joined(Upstream { line: Line::new(socket.into()), server });
                    return;
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return self.put_off(now),
                Err(_) => self.note_failure(server, false, now),
            }
        }
        self.stage = Stage::Failing(self.tried.failure());
    }

    /// Waits for room in the backlog of a server, unless it has waited for as long as it may.
    fn put_off(&mut self, now: Tick) {
        let is_late = self.is_put_off && self.call.deadline().is_none_or(|due| due <= now);
        self.is_put_off = true;
        self.stage = match is_late {
            true => Stage::Failing(Failure::Backlog),
            false => Stage::PutOff { due: now.plus_ms(BACKLOG_MS) },
        };
    }

    /// Notes that a server cannot be reached, or `is_late`: another is tried.
    fn note_failure(&mut self, server: usize, is_late: bool, now: Tick) {
        self.stage = Stage::Unconnected;
        self.tried.note(server, is_late);
        self.pool.note_failure(self.application, server, now);
    }

    /// The call is over: its connection is kept or closed.
    fn leave(&mut self, keeps: bool, now: Tick, runner: &Runner) -> Progress {
        if let Stage::Joined(upstream) = std::mem::replace(&mut self.stage, Stage::Over) {
            let (application, failure) = (self.application, self.call.failure());
            self.pool.note_end(application, upstream.server, failure, now);
            if let Some(failure) = failure {
                let server = Some(upstream.server);
                runner.report_application(self.call.application(), server, failure);
            }
            if keeps {
                self.pool.keep(application, upstream.server, upstream.line, now);
            }
        }
        self.end()
    }

    /// The client does not want the call any more: it may have left, and the application be to
    /// finish all the same.
    #[cold]
    fn give_up(&mut self) -> Progress {
        if let Stage::Joined(Upstream { line, .. }) = &self.stage
            && self.call.ignores_client()
            && let Ok(socket) = line.socket.as_fd().try_clone_to_owned()
        {
            finish(self.call.clone(), socket);
        }
        self.end()
    }

    fn end(&mut self) -> Progress {
        self.stage = Stage::Over;
        self.place = None;
        Progress::Over
    }

    /// The socket of the application and what the call waits for there, if it does.
    pub(crate) fn awaited(&self) -> Option<(&S, Awaited)> {
        let Stage::Joined(Upstream { line, .. }) = &self.stage else { return None };
        let awaited = Awaited {
            input: line.ready.wanted.contains(Interest::READ),
            room: line.ready.wanted.contains(Interest::WRITE),
            ..Awaited::default()
        };
        // The end of its connection is noticed when there is room for more of it.
        (line.ready.wanted != Interest::NONE).then_some((&line.socket, awaited))
    }

    /// Whether its connection is still being made.
    pub(crate) fn is_connecting(&self) -> bool {
        matches!(&self.stage, Stage::Joined(Upstream { line, .. }) if line.ready.is_connecting)
    }

    /// Whether it waits until another call is over.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Waiting(_))
    }

    /// Whether it has waited for a place and has one now.
    pub(crate) fn has_place(&self) -> bool {
        matches!(&self.stage, Stage::Waiting(ticket) if ticket.is_admitted())
    }

    /// When the call is to go on though nothing has come.
    pub(crate) fn deadline(&self) -> Option<Tick> {
        match &self.stage {
            Stage::Waiting(ticket) => Some(ticket.until),
            Stage::PutOff { due } => Some(*due),
            _ => self.call.deadline(),
        }
    }

    /// Takes note of what there is at the socket of the application.
    pub(crate) fn note(&mut self, found: Awaited, now: Tick) {
        let Stage::Joined(Upstream { line, server }) = &mut self.stage else { return };
        line.ready.is_drained &= !found.input;
        line.ready.is_full &= !found.room && !found.is_over;
        line.ready.is_hung_up |= found.is_over;
        if !line.ready.is_connecting || !(found.room || found.is_over) {
            return;
        }
        line.ready.is_connecting = false;
        if matches!(os::socket::take_error(line.socket.as_fd()), Ok(None)) {
            line.ready.is_hung_up = found.is_over;
            return self.call.connected(false, now);
        }
        let server = *server;
        self.note_failure(server, false, now);
    }

    /// Acts on a deadline that has passed.
    pub(crate) fn expire_if_due<C: CallClient>(&mut self, client: &mut C, now: Tick) {
        let Stage::Joined(Upstream { line, server }) = &self.stage else { return };
        if self.call.deadline().is_none_or(|due| due > now) {
            return;
        }
        if line.ready.is_connecting {
            let server = *server;
            self.is_put_off = false;
            self.note_failure(server, true, now);
        } else if let Some(mut stream) = client.stream() {
            self.call.expire(&mut stream);
        }
    }
}

/// A call that is dropped before it is over has lost its client.
impl<S: AsFd + From<OwnedFd>> Drop for DrivenCall<S> {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Joined(_)) {
            self.give_up();
        }
    }
}
