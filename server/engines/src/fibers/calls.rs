//! A request that an application answers, in the fiber of its client: the fiber drives both sockets
//! and rests until there is an event at either.

use std::os::fd::AsFd;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use os::socket::Awaited;
use session::{Connection, Tick};

use super::cluster::Cluster;
use super::kernel_thread::KernelThread;
use super::lines::{FiberLine, FiberWatch};
use super::routine::ConnectionFiber;
use super::state::FiberEvents;
use crate::parts::applications::client_call::Lent;
use crate::parts::applications::driven_call::DrivenCall;

impl ConnectionFiber {
    /// Begins the call that the connection wants, or goes on with it. Returns false if the
    /// connection wants another job.
    #[cold]
    #[inline(never)]
    pub(super) fn call(&mut self, thread: &mut KernelThread) -> bool {
        let cluster = Arc::clone(&thread.cluster);
        let waker = || FiberWaker::make(&cluster, self.key);
        self.call.call(lent(&mut self.connection, self.key, thread), &cluster.calls, waker)
    }

    /// Applies events to the call.
    #[cold]
    #[inline(never)]
    pub(super) fn apply_to_call(&mut self, events: FiberEvents, thread: &mut KernelThread) {
        if events.has(FiberEvents::HUNG_UP) && self.has_lost_client() {
            self.connection.ingest(&mut thread.worker, &[]);
        }
        if events.has(FiberEvents::OF_CALL) {
            if let Some(driven) = self.call.driven() {
                note(driven, events, thread.worker.now());
            }
            self.call.go_on(lent(&mut self.connection, self.key, thread), false);
        }
        if events.has(FiberEvents::EXPIRED) {
            self.call.go_on(lent(&mut self.connection, self.key, thread), true);
        }
    }

    /// Whether the client has gone and nothing that is received would tell.
    fn has_lost_client(&self) -> bool {
        let socket = (self.socket.as_fd(), Awaited::default());
        let is_over = || os::socket::wait_for_any([socket], 0).is_ok_and(|[found]| found.is_over);
        !self.connection.wants_input() && is_over()
    }
}

fn lent<'l>(
    connection: &'l mut Connection,
    fiber: u64,
    thread: &'l mut KernelThread,
) -> Lent<'l, FiberWatch<'l>> {
    let may_keep = !thread.cluster.shared.orders.is_ending();
    let KernelThread { cluster, worker, runner, buffer, .. } = thread;
    let watch = FiberWatch { callers: &cluster.callers, epoll: &cluster.epoll, fiber };
    Lent { connection, worker, buffer, runner, watch, may_keep }
}

/// Takes note of events of the application's socket.
fn note(driven: &mut DrivenCall<FiberLine>, events: FiberEvents, now: Tick) {
    let mut found = Awaited {
        input: events.has(FiberEvents::CALL_READABLE),
        room: events.has(FiberEvents::CALL_WRITABLE),
        is_over: events.has(FiberEvents::CALL_HUNG_UP),
    };
    if driven.is_connecting() {
        // The events may be of a connection that the fiber had before.
        let socket = driven.awaited().map(|(line, awaited)| (line.as_fd(), awaited));
        let there = socket.map(|socket| os::socket::wait_for_any([socket], 0));
        let Some(Ok([there])) = there else { return };
        found.is_over = there.is_over || (there.room && found.is_over);
        found.room = there.room;
    }
    driven.note(found, now);
}

/// Wakes a fiber whose call has a place.
struct FiberWaker {
    cluster: Weak<Cluster>,
    fiber: u64,
}

impl FiberWaker {
    fn make(cluster: &Arc<Cluster>, fiber: u64) -> Waker {
        Waker::from(Arc::new(Self { cluster: Arc::downgrade(cluster), fiber }))
    }
}

impl Wake for FiberWaker {
    fn wake(self: Arc<Self>) {
        if let Some(cluster) = self.cluster.upgrade()
            && cluster.table.notify(self.fiber, FiberEvents::PLACE)
        {
            cluster.run_later(self.fiber as u32);
        }
    }
}
