//! The task of one connection: it takes a turn, awaits what is missing, and repeats until the end.

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use os::socket::Awaited;
use session::{Connection, Op, Phase, Tick};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::{JoinHandle, spawn_blocking, yield_now};
use tokio::time::{Sleep, sleep};

use super::calls::{TaskLine, lent, poll_call};
use super::runtime_state::{ABORT, Control, DRAIN, LEAVE, MAKE_ROOM, RuntimeState, ThreadContext};
use crate::engine::Handed;
use crate::jobs::Runner;
use crate::parts::applications::client_call::ClientCall;
use crate::parts::disk::helpers::{
    FETCH_BYTES, Outcome, Work, answer_at_once, carry_out, lacks_descriptor, next_work,
};
use crate::parts::loops::clock::read_clock;
use crate::parts::loops::drive::{Begun, Driven, Pause, drive_unguarded};
use crate::parts::loops::step::{Ready, Step, Turn, step};
use crate::parts::loops::transport::Plain;

/// One connection.
pub(super) struct Client {
    state: Arc<RuntimeState>,
    connection: Connection,
    /// None when it is closed.
    socket: Option<Socket>,
    ready: Ready,
    control: Arc<Control>,
    /// The client's slot in the registry.
    slot: Option<usize>,
    /// Work that a blocking thread does. It does not touch the socket: if the connection ends
    /// before, the outcome is dropped.
    out: Option<JoinHandle<Outcome>>,
    call: ClientCall<TaskLine>,
    /// Whether the connection is to go to another engine.
    is_leaving: bool,
    has_moved: bool,
    is_closed: bool,
}

/// A connection that can be answered at once after it is accepted is never watched.
enum Socket {
    Fresh(OwnedFd),
    Watched(AsyncFd<OwnedFd>),
}

/// The event that has ended a wait.
enum Woken {
    Ready,
    /// Boxed, because most waits end otherwise.
    Back(Box<Outcome>),
    /// This is at the socket of the application.
    Call(Awaited),
    Alarm,
    Ordered,
}

/// A timer that is set again only when the deadline has come closer: a timer that fires too early
/// costs less than moving it with every request.
struct Alarm<'s> {
    sleep: Pin<&'s mut Sleep>,
    set_for: Tick,
    /// Whether the timer was polled since it was set: it wakes the task only then.
    is_polled: bool,
}

/// Serves one connection. It keeps its place until the work that is out is back, so that there is
/// never more of it than there may be connections.
pub(super) async fn serve(mut client: Client) {
    client.enter().await;
    converse(&mut client).await;
    client.close();
    client.await_work().await;
}

/// Serves one connection until it is to be closed.
async fn converse(client: &mut Client) {
    let sleep = pin!(sleep(Duration::MAX));
    let mut alarm = Alarm { sleep, set_for: Tick(u64::MAX), is_polled: true };
    let mut is_fetched = false;
    loop {
        let (pause, work) = client.turn(std::mem::take(&mut is_fetched));
        if let Some(work) = work {
            is_fetched = client.block(work);
            yield_now().await; // all other tasks of this thread have waited meanwhile
        } else {
            match pause {
                Pause::Closed => return,
                Pause::Yield => yield_now().await,
                // It may have come to rest since it was last looked whether it can move.
                Pause::Wait | Pause::Away if client.is_leaving && client.moves() => return,
                Pause::Wait | Pause::Away => match client.wait(&mut alarm).await {
                    Ok(woken) => is_fetched = client.wake(woken),
                    Err(_) => return,
                },
            }
        }
        if client.obey() {
            return;
        }
    }
}

impl Client {
    pub(super) fn new(state: Arc<RuntimeState>, connection: Connection, socket: OwnedFd) -> Self {
        let (ready, control) = (Ready::default(), Arc::default());
        let socket = Some(Socket::Fresh(socket));
        Self {
            state,
            connection,
            socket,
            ready,
            control,
            slot: None,
            out: None,
            call: ClientCall::NONE,
            is_leaving: false,
            has_moved: false,
            is_closed: false,
        }
    }

    /// Enters the registry: from now on the task can be sent orders.
    async fn enter(&mut self) {
        poll_fn(|context| {
            self.slot = Some(self.state.enter(&self.control, context.waker()));
            Poll::Ready(())
        })
        .await;
    }

    /// Takes steps until the connection pauses. Returns the work that may block and is to be done
    /// then, if any: where there are no threads for it.
    fn turn(&mut self, is_fetched: bool) -> (Pause, Option<Work>) {
        let Some(socket) = &self.socket else { return (Pause::Closed, None) };
        let mut turn = Turn::new(self.state.file_chunk_bytes, self.state.sendfile);
        turn.is_fetched = is_fetched;
        let mut thread = self.state.this_thread();
        let mut driven = Turning {
            socket: socket.as_fd(),
            connection: &mut self.connection,
            ready: &mut self.ready,
            thread: &mut thread,
            state: &self.state,
            slot: self.slot,
            call: &mut self.call,
            out: self.state.has_blocking_threads.then_some(&mut self.out),
            work: None,
        };
        let pause = drive_unguarded(&mut driven, &mut turn);
        let work = driven.work;
        if pause == Pause::Wait && self.connection.phase() == Phase::Idle {
            self.control.rests_since.store(thread.worker.now().0, Ordering::Relaxed);
        }
        (pause, work)
    }

    /// Does work that may block, while all tasks of this thread wait. Returns whether bytes of the
    /// connection's file were fetched.
    fn block(&mut self, work: Work) -> bool {
        let outcome = run(&self.state.loop_context.runner, work);
        self.take_back(outcome)
    }

    /// Takes in the outcome of work. Returns whether bytes of the connection's file were fetched.
    fn take_back(&mut self, outcome: Outcome) -> bool {
        match outcome {
            Outcome::Fetched => {
                self.ready.is_fetching = false;
                true
            }
            Outcome::Done(id, done) => {
                if lacks_descriptor(&done) {
                    self.state.evict();
                }
                let mut thread = self.state.this_thread();
                read_clock(&mut thread.worker); // the job may have waited for a disk
                self.connection.done(&mut thread.worker, id, done);
                false
            }
        }
    }

    /// Waits for the socket, for work that is out, the deadline, or an order.
    async fn wait(&mut self, alarm: &mut Alarm<'_>) -> io::Result<Woken> {
        if self.call.is_out() {
            self.call.end_unwanted(&self.connection);
        }
        let deadline = self.call.deadline(self.connection.deadline());
        alarm.set(deadline);
        let wanted = match self.connection.next() {
            Op::Recv => Wanted { input: true, room: false },
            _ => Wanted {
                input: self.connection.wants_input(),
                room: self.connection.phase() == Phase::Writing && !self.ready.is_fetching,
            },
        };
        let socket = watch(&mut self.socket)?;
        let (control, ready, out) = (&*self.control, &mut self.ready, &mut self.out);
        let call = &mut self.call;
        poll_fn(|context| {
            if control.orders.load(Ordering::Acquire) != 0 {
                return Poll::Ready(Ok(Woken::Ordered));
            }
            if let Some(work) = out
                && let Poll::Ready(outcome) = Pin::new(work).poll(context)
            {
                *out = None;
                return Poll::Ready(
                    outcome.map(Box::new).map(Woken::Back).map_err(io::Error::other),
                );
            }
            if poll_ready(socket, wanted, ready, context)?.is_ready() {
                return Poll::Ready(Ok(Woken::Ready));
            }
            if call.is_out()
                && let Poll::Ready(found) = poll_call(call, context)?
            {
                return Poll::Ready(Ok(Woken::Call(found)));
            }
            let is_over = deadline.is_some() && alarm.is_over(context);
            if is_over { Poll::Ready(Ok(Woken::Alarm)) } else { Poll::Pending }
        })
        .await
    }

    /// Acts on the end of a wait. Returns whether bytes of the connection's file were fetched.
    fn wake(&mut self, woken: Woken) -> bool {
        self.control.rests_since.store(0, Ordering::Relaxed);
        match woken {
            Woken::Back(outcome) => return self.take_back(*outcome),
            Woken::Ready | Woken::Ordered => return false,
            Woken::Call(found) => {
                self.go_on_with_call(Some(found));
                return false;
            }
            Woken::Alarm => {}
        }
        // What has arrived comes before the deadline, though the runtime has not seen its event.
        if matches!(self.connection.next(), Op::Recv) && self.has_input() {
            self.ready.is_drained = false;
        } else {
            let mut thread = self.state.this_thread();
            read_clock(&mut thread.worker);
            self.connection.expire_if_due(&mut thread.worker);
        }
        // Only now: what a call asks of its client anew gives that more time.
        if self.call.is_out() {
            self.go_on_with_call(None);
        }
        false
    }

    /// Goes on with the call: with what there is at its socket, or after its deadline.
    #[cold]
    #[inline(never)]
    fn go_on_with_call(&mut self, found: Option<Awaited>) {
        let mut thread = self.state.this_thread();
        read_clock(&mut thread.worker);
        if let (Some(found), Some(driven)) = (found, self.call.driven()) {
            driven.note(found, thread.worker.now());
        }
        self.call.go_on(lent(&self.state, &mut self.connection, &mut thread), found.is_none());
    }

    fn has_input(&self) -> bool {
        self.socket.as_ref().is_some_and(|socket| os::socket::has_input(socket.as_fd()))
    }

    /// Carries out the task's orders. Returns whether the task is to end. This is not the trait of
    /// the loops (`parts/loops/obey.rs`): a task has no listener to close, and an order of its own,
    /// to make room if it rests.
    fn obey(&mut self) -> bool {
        if self.control.orders.load(Ordering::Relaxed) == 0 && !self.is_leaving {
            return false;
        }
        let orders = self.control.orders.swap(0, Ordering::AcqRel);
        if orders & LEAVE != 0 {
            self.is_leaving = !self.state.loop_context.shared.is_finishing();
            if !self.is_leaving {
                self.connection.end_with_next();
            }
        }
        if self.is_leaving && self.moves() {
            return true;
        }
        if orders & DRAIN != 0 {
            self.connection.drain();
        }
        if orders & MAKE_ROOM != 0 {
            let rests = self.connection.phase() == Phase::Idle;
            if rests && !self.has_input() {
                self.state.this_thread().worker.counters.connections_evicted.add(1);
                return true;
            }
            self.state.call_for_room(); // still without room: acceptors choose another connection
        }
        orders & ABORT != 0
    }

    /// Gives the connection to another engine, if it can be moved. Returns whether it has gone.
    #[cold]
    fn moves(&mut self) -> bool {
        let Some(heir) = self.state.loop_context.shared.heir() else { return false };
        if self.call.is_out() || self.out.is_some() || !heir.may_take(&self.connection) {
            return false;
        }
        let (place, connection) = (&mut self.socket, &mut self.connection);
        if place.is_none() {
            return false;
        }
        self.has_moved = heir.take(&mut || {
            let socket = match place.take().expect("it was just looked at") {
                Socket::Fresh(socket) => socket,
                Socket::Watched(socket) => socket.into_inner(),
            };
            Handed { connection: connection.release(), socket }
        });
        self.has_moved
    }

    /// Closes the connection, if that was not done yet.
    fn close(&mut self) {
        if std::mem::replace(&mut self.is_closed, true) {
            return;
        }
        self.call.end();
        {
            let mut thread = self.state.this_thread();
            self.connection.close(&mut thread.worker);
            thread.worker.counters.connections_open.subtract(1);
        }
        self.socket = None;
        self.control.rests_since.store(0, Ordering::Relaxed);
    }

    /// Waits until the work that is out is back, or the engine is to end, for which orders wake the
    /// task.
    async fn await_work(&mut self) {
        let Some(out) = &mut self.out else { return };
        poll_fn(|context| match self.state.is_ending() {
            true => Poll::Ready(()),
            false => Pin::new(&mut *out).poll(context).map(drop),
        })
        .await;
    }
}

impl Drop for Client {
    /// Closes the connection, however the task ends: by itself, by a panic, or with the runtime.
    fn drop(&mut self) {
        self.close();
        self.state.leave(self.slot, self.has_moved);
    }
}

impl Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Fresh(socket) => socket.as_fd(),
            Self::Watched(socket) => socket.get_ref().as_fd(),
        }
    }
}

/// The socket in the runtime's epoll set, where it is put at the first wait.
fn watch(place: &mut Option<Socket>) -> io::Result<&AsyncFd<OwnedFd>> {
    if let Some(Socket::Fresh(_)) = place
        && let Some(Socket::Fresh(socket)) = place.take()
    {
        let interest = Interest::READABLE.add(Interest::WRITABLE);
        *place = Some(Socket::Watched(super::watch::watch(socket, interest)?));
    }
    match place {
        Some(Socket::Watched(socket)) => Ok(socket),
        _ => Err(io::ErrorKind::NotConnected.into()),
    }
}

/// The news of a socket that its task waits for.
#[derive(Clone, Copy)]
struct Wanted {
    input: bool,
    room: bool,
}

/// Polls the readiness of the socket. It is cleared before it is used, so that later events are
/// reported again.
fn poll_ready(
    socket: &AsyncFd<OwnedFd>,
    wanted: Wanted,
    ready: &mut Ready,
    context: &mut Context<'_>,
) -> io::Result<Poll<()>> {
    let mut is_ready = false;
    if wanted.room
        && let Poll::Ready(mut guard) = socket.poll_write_ready(context)?
    {
        guard.clear_ready();
        (ready.is_full, is_ready) = (false, true);
    }
    if wanted.input
        && let Poll::Ready(mut guard) = socket.poll_read_ready(context)?
    {
        ready.is_hung_up |= guard.ready().is_read_closed() || guard.ready().is_error();
        guard.clear_ready();
        (ready.is_drained, is_ready) = (false, true);
    }
    if !wanted.room && !wanted.input {
        return poll_end(socket, context);
    }
    Ok(if is_ready { Poll::Ready(()) } else { Poll::Pending })
}

/// Polls for the end of a connection of which nothing is wanted now: after a reset it fails.
fn poll_end(socket: &AsyncFd<OwnedFd>, context: &mut Context<'_>) -> io::Result<Poll<()>> {
    while let Poll::Ready(mut guard) = socket.poll_write_ready(context)? {
        if guard.ready().is_write_closed() {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        guard.clear_ready();
    }
    Ok(Poll::Pending)
}

/// Does a piece of work that may block.
fn run(runner: &Runner, work: Work) -> Outcome {
    let mut buffer = match work {
        Work::Fetch { .. } => vec![0; FETCH_BYTES],
        Work::Job(..) => Vec::new(),
    };
    carry_out(&|job| runner.run(job), work, &mut buffer)
}

impl Alarm<'_> {
    /// Makes sure that the alarm comes no later than the deadline.
    fn set(&mut self, deadline: Option<Tick>) {
        if self.sleep.is_elapsed() {
            self.set_for = Tick(u64::MAX);
        }
        if let Some(deadline) = deadline.filter(|deadline| *deadline < self.set_for) {
            let left = Duration::from_micros(deadline.since(Tick(os::clock::now())));
            self.sleep.set(sleep(left));
            (self.set_for, self.is_polled) = (deadline, false);
        }
    }

    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        match std::mem::replace(&mut self.is_polled, true) {
            true => self.sleep.is_elapsed(),
            false => self.sleep.as_mut().poll(context).is_ready(),
        }
    }
}

/// A connection in its turn.
struct Turning<'a> {
    socket: BorrowedFd<'a>,
    connection: &'a mut Connection,
    ready: &'a mut Ready,
    thread: &'a mut ThreadContext,
    state: &'a RuntimeState,
    slot: Option<usize>,
    call: &'a mut ClientCall<TaskLine>,
    /// The place for work that a blocking thread does, where there are such threads.
    out: Option<&'a mut Option<JoinHandle<Outcome>>>,
    /// The work that may block and has ended the turn, where there are none.
    work: Option<Work>,
}

impl Turning<'_> {
    /// Hands work that may block to a blocking thread, or has it end the turn.
    fn begin(&mut self, work: Work) -> Begun {
        let Some(out) = &mut self.out else {
            self.work = Some(work);
            return Begun::Away;
        };
        work.count(&self.thread.worker.counters);
        self.ready.is_fetching = matches!(work, Work::Fetch { .. });
        let runner = Arc::clone(&self.state.loop_context.runner);
        **out = Some(spawn_blocking(move || run(&runner, work)));
        Begun::Out
    }
}

impl Turning<'_> {
    /// Begins the call that the connection wants, or goes on with it. Returns false if the
    /// connection wants another job.
    #[cold]
    #[inline(never)]
    fn call(&mut self) -> bool {
        let (state, slot) = (self.state, self.slot);
        let lent = lent(state, self.connection, self.thread);
        self.call.call(lent, &state.calls, || state.waker(slot))
    }
}

impl Driven for Turning<'_> {
    #[inline]
    fn step(&mut self, turn: &mut Turn) -> Step {
        let ThreadContext { worker, buffer } = &mut *self.thread;
        step(&mut Plain(self.socket), self.connection, worker, buffer, self.ready, turn)
    }

    fn job(&mut self) -> Begun {
        if self.call.is_wanted(self.connection) && self.call() {
            return Begun::Out;
        }
        let runner = &self.state.loop_context.runner;
        match answer_at_once(self.connection, &mut self.thread.worker, runner) {
            true => Begun::Done,
            false => {
                let work = next_work(self.connection, 0);
                self.begin(work)
            }
        }
    }

    fn fetch(&mut self, turn: &Turn) -> Begun {
        let work = next_work(self.connection, turn.file_bytes);
        self.begin(work)
    }
}
