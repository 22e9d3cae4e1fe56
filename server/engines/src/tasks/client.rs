//! The task of one connection: it takes a turn, awaits what is missing, and repeats until the end.

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use session::{Connection, Op, Phase, Tick};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::{Sleep, sleep};

use super::runtime_state::{ABORT, Control, DRAIN, LEAVE, RuntimeState, ThreadContext};
use crate::jobs::Runner;
use crate::parts::disk::helpers::{
    FETCH_BYTES, Outcome, Work, answer_at_once, carry_out, lacks_descriptor, next_work,
};
use crate::parts::loops::clock::read_clock;
use crate::parts::loops::drive::{Driven, Pause, drive_unguarded};
use crate::parts::loops::step::{Ready, Step, Turn, step};

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
}

/// A connection that can be answered at once after it is accepted is never watched.
enum Socket {
    Fresh(OwnedFd),
    Watched(AsyncFd<OwnedFd>),
}

/// The event that has ended a wait.
enum Woken {
    Ready,
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

/// Serves one connection.
pub(super) async fn serve(mut client: Client) {
    client.enter().await;
    let sleep = pin!(sleep(Duration::MAX));
    let mut alarm = Alarm { sleep, set_for: Tick(u64::MAX), is_polled: true };
    let mut is_fetched = false;
    loop {
        let (pause, work) = client.turn(std::mem::take(&mut is_fetched));
        let outcome = match (pause, work) {
            (Pause::Closed | Pause::Away, None) => return,
            (Pause::Yield, None) => {
                yield_now().await;
                Ok(())
            }
            (Pause::Wait, None) => client.wait(&mut alarm).await.map(|woken| client.wake(&woken)),
            (_, Some(work)) => client.block(work).await.map(|outcome| match outcome {
                Outcome::Fetched => is_fetched = true,
                Outcome::Done(id, done) => {
                    let mut thread = client.state.this_thread();
                    read_clock(&mut thread.worker); // the job may have waited for a disk
                    client.connection.done(&mut thread.worker, id, done);
                }
            }),
        };
        if outcome.is_err() || client.obey() {
            return;
        }
    }
}

impl Client {
    pub(super) fn new(state: Arc<RuntimeState>, connection: Connection, socket: OwnedFd) -> Self {
        let (ready, control) = (Ready::default(), Arc::default());
        let socket = Some(Socket::Fresh(socket));
        Self { state, connection, socket, ready, control, slot: None }
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
    /// then, if any.
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
            runner: &self.state.loop_context.runner,
            work: None,
        };
        let pause = drive_unguarded(&mut driven, &mut turn);
        let work = driven.work;
        if pause == Pause::Wait && self.connection.phase() == Phase::Idle {
            self.control.rests_since.store(thread.worker.now().0, Ordering::Relaxed);
        }
        (pause, work)
    }

    /// Does work that may block, on a blocking thread if there are some.
    async fn block(&self, work: Work) -> io::Result<Outcome> {
        if self.state.has_blocking_threads {
            work.count(&self.state.this_thread().worker.counters);
        }
        let runner = Arc::clone(&self.state.loop_context.runner);
        let run = move || {
            let mut buffer = match work {
                Work::Fetch { .. } => vec![0; FETCH_BYTES],
                Work::Job(..) => Vec::new(),
            };
            carry_out(&|job| runner.run(job), work, &mut buffer)
        };
        let outcome = match self.state.has_blocking_threads {
            true => self.unless_aborted(spawn_blocking(run)).await?.map_err(io::Error::other)?,
            false => {
                let outcome = run();
                yield_now().await; // all other tasks of this thread have waited meanwhile
                outcome
            }
        };
        if let Outcome::Done(_, done) = &outcome
            && lacks_descriptor(done)
        {
            self.state.evict();
        }
        Ok(outcome)
    }

    /// Awaits a future that may take for ever, or the order to abort. The outcome of work for a
    /// connection that is gone is dropped; such work does not touch the socket.
    async fn unless_aborted<F: Future>(&self, future: F) -> io::Result<F::Output> {
        let mut future = pin!(future);
        poll_fn(|context| match self.control.orders.load(Ordering::Acquire) & ABORT {
            0 => future.as_mut().poll(context).map(Ok),
            _ => Poll::Ready(Err(io::ErrorKind::Interrupted.into())),
        })
        .await
    }

    /// Waits for the socket, the deadline, or an order.
    async fn wait(&mut self, alarm: &mut Alarm<'_>) -> io::Result<Woken> {
        alarm.set(self.connection.deadline());
        let is_writing = self.connection.phase() == Phase::Writing;
        let socket = watch(&mut self.socket)?;
        let (control, ready) = (&*self.control, &mut self.ready);
        poll_fn(|context| {
            if control.orders.load(Ordering::Acquire) != 0 {
                return Poll::Ready(Ok(Woken::Ordered));
            }
            if poll_ready(socket, is_writing, ready, context)?.is_ready() {
                return Poll::Ready(Ok(Woken::Ready));
            }
            if alarm.is_over(context) { Poll::Ready(Ok(Woken::Alarm)) } else { Poll::Pending }
        })
        .await
    }

    fn wake(&mut self, woken: &Woken) {
        self.control.rests_since.store(0, Ordering::Relaxed);
        if !matches!(woken, Woken::Alarm) {
            return;
        }
        // What has arrived comes before the deadline, though the runtime has not seen its event.
        if matches!(self.connection.next(), Op::Recv) && self.has_input() {
            self.ready.is_drained = false;
        } else {
            let mut thread = self.state.this_thread();
            read_clock(&mut thread.worker);
            self.connection.expire_if_due(&mut thread.worker);
        }
    }

    fn has_input(&self) -> bool {
        self.socket.as_ref().is_some_and(|socket| os::socket::has_input(socket.as_fd()))
    }

    /// Carries out the task's orders. Returns whether the task is to end. This is not the trait of
    /// the loops (`parts/loops/obey.rs`): a task has no listener to close, and an order of its own,
    /// to leave if it rests.
    fn obey(&mut self) -> bool {
        if self.control.orders.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let orders = self.control.orders.swap(0, Ordering::AcqRel);
        if orders & DRAIN != 0 {
            self.connection.drain();
        }
        if orders & LEAVE != 0 {
            let rests = self.connection.phase() == Phase::Idle;
            if rests && !self.has_input() {
                self.state.this_thread().worker.counters.connections_evicted.add(1);
                return true;
            }
            self.state.call_for_room(); // still without room: acceptors choose another connection
        }
        orders & ABORT != 0
    }
}

impl Drop for Client {
    /// Closes the connection, however the task ends: by itself, by a panic, or with the runtime.
    fn drop(&mut self) {
        {
            let mut thread = self.state.this_thread();
            self.connection.close(&mut thread.worker);
            thread.worker.counters.connections_open.subtract(1);
        }
        self.socket = None;
        self.control.rests_since.store(0, Ordering::Relaxed);
        self.state.leave(self.slot);
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

/// Polls the readiness of the socket. It is cleared before it is used, so that later events are
/// reported again.
fn poll_ready(
    socket: &AsyncFd<OwnedFd>,
    is_writing: bool,
    ready: &mut Ready,
    context: &mut Context<'_>,
) -> io::Result<Poll<()>> {
    let polled = match is_writing {
        true => socket.poll_write_ready(context)?,
        false => socket.poll_read_ready(context)?,
    };
    let Poll::Ready(mut guard) = polled else { return Ok(Poll::Pending) };
    if !is_writing {
        ready.is_drained = false;
        ready.is_hung_up |= guard.ready().is_read_closed() || guard.ready().is_error();
    }
    guard.clear_ready();
    Ok(Poll::Ready(()))
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
    runner: &'a Runner,
    /// The work that may block and has ended the turn.
    work: Option<Work>,
}

impl Driven for Turning<'_> {
    #[inline]
    fn step(&mut self, turn: &mut Turn) -> Step {
        let ThreadContext { worker, buffer } = &mut *self.thread;
        step(self.socket, self.connection, worker, buffer, self.ready, turn)
    }

    fn job(&mut self) -> bool {
        let is_answered = answer_at_once(self.connection, &mut self.thread.worker, self.runner);
        if !is_answered {
            self.work = Some(next_work(self.connection, 0));
        }
        is_answered
    }

    fn fetch(&mut self, turn: &Turn) -> bool {
        self.work = Some(next_work(self.connection, turn.file_bytes));
        true
    }
}
