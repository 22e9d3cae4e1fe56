//! The task of one listener: accepts connections and makes a task of each.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::ops::DerefMut;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, ready};
use std::time::Duration;

use session::Connection;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::client::{self, Client};
use super::runtime_state::RuntimeState;
use crate::engine::Handed;
use crate::parts::accept::admission::{
    Admission, LastRows, Room, RowOutcome, Shortage, accept_all, accept_row,
};
use crate::parts::accept::listeners::Listeners;

/// How long to wait for room before trying again.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts until the engine is to stop accepting.
pub(super) async fn run(state: Arc<RuntimeState>, listener: OwnedFd) {
    // Dropping it counts the acceptor off, on a panic, too.
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

/// Goes on with a connection of another engine.
pub(super) fn adopt(state: &Arc<RuntimeState>, Handed { connection, socket }: Handed) {
    state.this_thread().worker.counters.connections_open.add(1);
    state.adopt();
    tokio::spawn(client::serve(Client::new(Arc::clone(state), connection, socket)));
}

/// A listener, watched by the runtime, which reports an arrival only once.
struct Queue {
    state: Arc<RuntimeState>,
    arrivals: AsyncFd<OwnedFd>,
    listeners: Listeners,
}

impl Acceptor {
    async fn accept(&self, listener: OwnedFd) -> io::Result<()> {
        let state = &*self.state;
        let mut queue = Queue::new(&self.state, listener)?;
        poll_fn(|context| {
            state.enter_acceptor(context.waker());
            Poll::Ready(())
        })
        .await;
        while state.is_accepting() {
            match accept_row(&mut queue, 0, state.accepts_per_wake) {
                RowOutcome::Empty => self.arrival(&queue).await?,
                RowOutcome::Enough => tokio::task::yield_now().await,
                RowOutcome::Waits | RowOutcome::NoRoom => nap().await,
            }
            state.is_room_wanted.store(false, Ordering::Release);
        }
        let mut last = LastRows::default();
        let mut is_over = || match state.is_leaving() {
            true => accept_all(&mut queue),
            false => last.take(&mut queue),
        };
        while !is_over() {
            nap().await;
        }
        Ok(())
    }

    /// Waits for a connection to come, or for the end.
    async fn arrival(&self, queue: &Queue) -> io::Result<()> {
        poll_fn(|context| {
            if !self.state.is_accepting() {
                return Poll::Ready(Ok(()));
            }
            let mut guard = ready!(queue.arrivals.poll_read_ready(context))?;
            guard.clear_ready(); // before accepting: a later arrival is reported again
            Poll::Ready(Ok(()))
        })
        .await
    }
}

impl Queue {
    fn new(state: &Arc<RuntimeState>, listener: OwnedFd) -> io::Result<Self> {
        let arrivals = super::watch::watch(listener.try_clone()?, Interest::READABLE)?;
        let listeners = Listeners::new(vec![listener], false);
        Ok(Self { state: Arc::clone(state), arrivals, listeners })
    }
}

impl Admission for Queue {
    fn is_full(&self) -> bool {
        self.state.is_full()
    }

    fn listeners(&mut self) -> impl DerefMut<Target = Listeners> {
        &mut self.listeners
    }

    fn admit(&mut self, socket: OwnedFd, peer: SocketAddr) -> bool {
        let connection = {
            let thread = self.state.this_thread();
            thread.worker.counters.connections_accepted.add(1);
            thread.worker.counters.connections_open.add(1);
            Connection::new(&thread.worker, peer)
        };
        self.state.admit();
        tokio::spawn(client::serve(Client::new(Arc::clone(&self.state), connection, socket)));
        true
    }

    /// Requests the connection that has rested longest to leave, which its task does in its turn.
    fn make_room(&mut self, _: Shortage) -> Room {
        self.state.is_room_wanted.store(true, Ordering::Release);
        if self.state.evict() { Room::Begun } else { Room::None }
    }

    fn request_room_from_others(&mut self) {
        self.state.request_room();
    }

    /// Counts the pause and does nothing else: the task naps when its row of accepts has ended.
    fn pause(&mut self) {
        self.state.this_thread().worker.counters.accept_pauses.add(1);
    }
}

/// Waits for [`PAUSE`], or until woken: there may be room then.
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
