//! The application stage as the other stages have it: the inboxes of its threads, and the bounds
//! and kept connections that the threads share. What a thread does is in `caller.rs`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{self, Waker};

use os::event::Wake;
use session::Worker;

use super::client::BoxedClient;
use super::queue::{Figures, Inbox};
use crate::engine::ConnectionLimit;
use crate::parts::applications::call_pool::{Bounds, CallPool};

/// The stage.
pub(super) struct Applications {
    /// The inbox of each thread; none where no route leads to an application.
    inboxes: Vec<Arc<CallerInbox>>,
    /// The number of batches that were handed over: the threads get them in turn.
    batches: AtomicUsize,
    pub(super) pool: Arc<CallPool>,
}

/// What a thread of the stage is handed.
pub(super) struct CallerInbox {
    pub(super) clients: Inbox<BoxedClient>,
    /// The keys of calls that have waited for a place and have one now.
    pub(super) admitted: Inbox<u64>,
    pub(super) wake: Wake,
}

impl Applications {
    /// A stage of so many threads, of an engine with at most `connections_max` connections. A call
    /// holds no thread, and half of the connections are left to requests for files.
    pub(super) fn new(
        worker: Option<&Worker>,
        threads: usize,
        connections_max: &ConnectionLimit,
    ) -> io::Result<Self> {
        let applications = worker.map_or(&[][..], Worker::applications);
        let numbers_max = worker.map_or(0, Worker::application_numbers_max);
        let threads = if applications.is_empty() { 0 } else { threads };
        let inboxes = (0..threads).map(|_| CallerInbox::new().map(Arc::new));
        let inboxes = inboxes.collect::<io::Result<Vec<_>>>()?;
        let closer = inboxes.first().map(|first| Waker::from(Arc::new(Closer(Arc::clone(first)))));
        let bounds = Bounds::of_threads(connections_max.most(), connections_max, true);
        let pool = CallPool::new(applications, numbers_max, bounds, closer);
        Ok(Self { inboxes, batches: AtomicUsize::new(0), pool })
    }

    pub(super) fn threads(&self) -> usize {
        self.inboxes.len()
    }

    pub(super) fn inbox(&self, thread: usize) -> &Arc<CallerInbox> {
        &self.inboxes[thread]
    }

    /// Hands all clients to the thread whose turn it is.
    #[cold]
    #[inline(never)]
    pub(super) fn push(&self, clients: &mut Vec<BoxedClient>) {
        let thread = self.batches.fetch_add(1, Ordering::Relaxed) % self.inboxes.len();
        let CallerInbox { clients: inbox, wake, .. } = &*self.inboxes[thread];
        if inbox.push(clients, true) {
            wake.notify();
        }
    }

    /// The line of the stage in the status; none if it has no threads.
    pub(super) fn show(&self) -> Option<String> {
        let all = self.inboxes.iter().map(|inbox| inbox.clients.figures());
        let figures = all.reduce(|a, b| Figures {
            len: a.len + b.len,
            longest: a.longest.max(b.longest),
            batches: a.batches + b.batches,
            taken: a.taken + b.taken,
        })?;
        Some(format!("{}; {} threads", figures.show("application"), self.threads()))
    }

    /// Ends the threads.
    pub(super) fn close(&self) {
        for inbox in &self.inboxes {
            inbox.clients.close();
            inbox.admitted.close();
            inbox.wake.notify();
        }
    }
}

impl CallerInbox {
    fn new() -> io::Result<Self> {
        Ok(Self { clients: Inbox::new(), admitted: Inbox::new(), wake: Wake::new()? })
    }

    /// What wakes the thread for a call that has waited for a place.
    pub(super) fn waker(self: &Arc<Self>, key: u64) -> Waker {
        Waker::from(Arc::new(CallWaker { inbox: Arc::clone(self), key }))
    }
}

/// Wakes the thread that has a call.
struct CallWaker {
    inbox: Arc<CallerInbox>,
    key: u64,
}

impl task::Wake for CallWaker {
    fn wake(self: Arc<Self>) {
        if self.inbox.admitted.push(&mut vec![self.key], true) {
            self.inbox.wake.notify();
        }
    }
}

/// Wakes the thread that closes kept connections in time.
struct Closer(Arc<CallerInbox>);

impl task::Wake for Closer {
    fn wake(self: Arc<Self>) {
        self.0.wake.notify();
    }
}
