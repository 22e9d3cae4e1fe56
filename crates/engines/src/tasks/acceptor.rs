//! The task of one listener: accepts connections and makes a task of each.

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, ready};
use std::time::Duration;

use os::socket::{Readiness, wait_ready};
use session::Connection;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::client::{self, Client};
use super::runtime_state::RuntimeState;
use crate::parts::accept::listeners::{Accepted, BACKLOG_MAX, Listeners};

/// How long to wait for room before looking again.
const PAUSE: Duration = Duration::from_millis(100);

/// What an attempt to accept some connections came to.
enum Outcome {
    /// Nobody waits.
    Empty,
    /// Somebody may wait still.
    More,
    /// There is no room for who waits, until somebody leaves.
    Full,
    /// Nor is there anybody who could be asked to.
    Busy,
}

/// Accepts until the engine is told to stop.
pub(super) async fn run(state: Arc<RuntimeState>, listener: OwnedFd) {
    // Left on a panic, too.
    let mut acceptor = Acceptor { state, failure: None };
    let failure = acceptor.accept(listener).await;
    acceptor.failure = failure.err();
}

struct Acceptor {
    state: Arc<RuntimeState>,
    failure: Option<io::Error>,
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        let panic = || std::thread::panicking().then(|| io::Error::other("accepting panicked"));
        self.state.leave_acceptor(self.failure.take().or_else(panic));
    }
}

/// A listener, watched by the runtime, which tells of an arrival only once.
struct Queue {
    arrivals: AsyncFd<OwnedFd>,
    listeners: Listeners,
}

impl Acceptor {
    async fn accept(&self, listener: OwnedFd) -> io::Result<()> {
        let state = &*self.state;
        let mut queue = Queue::new(listener)?;
        poll_fn(|context| {
            state.enter_acceptor(context.waker());
            Poll::Ready(())
        })
        .await;
        while state.is_accepting() {
            match self.accept_some(&mut queue, state.accepts_per_wake)? {
                Outcome::Empty => self.arrival(&queue).await?,
                Outcome::More => tokio::task::yield_now().await,
                Outcome::Full => nap().await,
                Outcome::Busy => {
                    state.this_thread().worker.counters.accept_pauses.add(1);
                    nap().await;
                }
            }
            state.is_room_wanted.store(false, Ordering::Release);
        }
        // Who waits in the queue would be reset by the close. It holds so many at most; more have
        // come since.
        for _ in 0..BACKLOG_MAX {
            match self.accept_some(&mut queue, BACKLOG_MAX)? {
                Outcome::Full => nap().await,
                Outcome::Empty | Outcome::More | Outcome::Busy => break,
            }
        }
        Ok(())
    }

    /// Waits for somebody to come, or for the end.
    async fn arrival(&self, queue: &Queue) -> io::Result<()> {
        poll_fn(|context| {
            if !self.state.is_accepting() {
                return Poll::Ready(Ok(()));
            }
            let mut guard = ready!(queue.arrivals.poll_read_ready(context))?;
            guard.clear_ready(); // before the look: who comes after it is told again
            Poll::Ready(Ok(()))
        })
        .await
    }

    fn accept_some(&self, queue: &mut Queue, count: usize) -> io::Result<Outcome> {
        let state = &self.state;
        for _ in 0..count {
            if state.is_full() {
                // Nobody is asked to leave to make room for nobody.
                if queue.is_empty()? {
                    return Ok(Outcome::Empty);
                }
                let outcome = self.make_room();
                if matches!(outcome, Outcome::Busy) {
                    state.ask_for_room();
                }
                return Ok(outcome);
            }
            match queue.listeners.accept(0)? {
                Accepted::Connection(socket, peer) => {
                    let connection = {
                        let thread = state.this_thread();
                        thread.worker.counters.connections_accepted.add(1);
                        thread.worker.counters.connections_open.add(1);
                        Connection::new(&thread.worker, peer)
                    };
                    state.admit();
                    let client = Client::new(Arc::clone(state), connection, socket);
                    tokio::spawn(client::serve(client));
                }
                Accepted::Nothing => return Ok(Outcome::Empty),
                Accepted::Gone => {}
                Accepted::Exhausted => {
                    let outcome = self.make_room();
                    if matches!(outcome, Outcome::Busy) {
                        queue.listeners.turn_one_away(0);
                    }
                    return Ok(outcome);
                }
            }
        }
        Ok(Outcome::More)
    }

    /// Who rests makes room for who comes.
    fn make_room(&self) -> Outcome {
        self.state.is_room_wanted.store(true, Ordering::Release);
        if self.state.evict() { Outcome::Full } else { Outcome::Busy }
    }
}

impl Queue {
    fn new(listener: OwnedFd) -> io::Result<Self> {
        let arrivals = super::watch(listener.try_clone()?, Interest::READABLE)?;
        Ok(Self { arrivals, listeners: Listeners::new(vec![listener], false) })
    }

    /// Whether nobody waits. The socket itself is asked: another epoll set may hear of an arrival a
    /// moment after the runtime's did, and to sleep on its word would be to sleep for ever.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(!wait_ready(self.arrivals.get_ref().as_fd(), Readiness::Readable, 0)?)
    }
}

/// Waits for a while, or until woken: there may be room then.
async fn nap() {
    let mut end = pin!(tokio::time::sleep(PAUSE));
    let mut has_slept = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_slept, true) {
            return Poll::Ready(());
        }
        end.as_mut().poll(context)
    })
    .await;
}
