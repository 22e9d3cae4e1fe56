//! A request that an application answers, in the fiber of its client: the fiber drives both sockets
//! and rests until there is an event at either. The call stays with the fiber, also in the blocking
//! cluster; nothing here blocks.

use std::os::fd::AsFd;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use os::socket::Awaited;
use session::{Job, Tick};

use super::cluster::Cluster;
use super::kernel_thread::KernelThread;
use super::lines::{FiberCall, FiberWatch};
use super::routine::ConnectionFiber;
use super::state::FiberEvents;
use crate::parts::applications::driven_call::{DrivenCall, Progress, SessionClient};

impl ConnectionFiber {
    /// Whether the job that the connection wants may be a call.
    pub(super) fn may_call(&self) -> bool {
        self.call.is_some() || matches!(self.connection.job(), Some(Job::Application(_)))
    }

    /// Begins the call that the connection wants, or goes on with it. Returns false if the
    /// connection wants another job.
    #[cold]
    #[inline(never)]
    pub(super) fn call(&mut self, thread: &mut KernelThread) -> bool {
        match self.connection.job() {
            Some(Job::Application(_)) => self.begin_call(thread),
            None => {} // its stream has something for the application
            Some(_) => {
                self.call = None; // its client goes on without it
                return false;
            }
        }
        self.go_on_with_call(thread, false);
        true
    }

    fn begin_call(&mut self, thread: &mut KernelThread) {
        let (id, job) = self.connection.take_job();
        let Job::Application(call) = job else { unreachable!("the caller has looked") };
        let cluster = &thread.cluster;
        let (pool, now) = (&cluster.calls, thread.worker.now());
        let waker = || FiberWaker::make(cluster, self.key);
        let driven = DrivenCall::begin(pool, call, waker, now);
        self.call = Some(Box::new(FiberCall { id, driven }));
    }

    /// Goes on with the call as far as that is possible, after its deadline if that `is_due`.
    fn go_on_with_call(&mut self, thread: &mut KernelThread, is_due: bool) {
        let may_keep = !thread.is_draining();
        let KernelThread { cluster, worker, runner, buffer, .. } = thread;
        let Some(FiberCall { id, driven }) = self.call.as_deref_mut() else { return };
        let now = worker.now();
        let Cluster { callers, epoll, .. } = &**cluster;
        let watch = FiberWatch { callers, epoll, fiber: self.key };
        let connection = &mut self.connection;
        let mut client = SessionClient { connection, worker, id: *id, watch };
        if is_due {
            driven.expire_if_due(&mut client, now);
        }
        if driven.go_on(&mut client, buffer, now, runner, may_keep) == Progress::Over {
            self.call = None;
        }
    }

    /// Applies events to the call.
    #[cold]
    #[inline(never)]
    pub(super) fn apply_to_call(&mut self, events: FiberEvents, thread: &mut KernelThread) {
        if events.has(FiberEvents::HUNG_UP) && self.has_lost_client() {
            self.connection.ingest(&mut thread.worker, &[]);
        }
        if events.has(FiberEvents::OF_CALL) {
            if let Some(call) = self.call.as_deref_mut() {
                call.note(events, thread.worker.now());
            }
            self.go_on_with_call(thread, false);
        }
        if events.has(FiberEvents::EXPIRED) {
            self.go_on_with_call(thread, true);
        }
    }

    /// Whether the client has gone and nothing that is received would tell.
    fn has_lost_client(&self) -> bool {
        let socket = (self.socket.as_fd(), Awaited::default());
        let is_over = || os::socket::wait_for_any([socket], 0).is_ok_and(|[found]| found.is_over);
        !self.connection.wants_input() && is_over()
    }

    /// Ends the call if the client does not want it any more.
    #[cold]
    #[inline(never)]
    pub(super) fn end_unwanted_call(&mut self) {
        self.call.take_if(|call| !self.connection.wants_stream(call.id));
    }
}

impl FiberCall {
    /// The moment at which the call or its client is to go on though nothing has come.
    #[cold]
    pub(super) fn deadline(&self, of_client: Tick) -> Tick {
        self.driven.deadline().map_or(of_client, |due| due.min(of_client))
    }

    /// Takes note of events of the application's socket.
    fn note(&mut self, events: FiberEvents, now: Tick) {
        let mut found = Awaited {
            input: events.has(FiberEvents::CALL_READABLE),
            room: events.has(FiberEvents::CALL_WRITABLE),
            is_over: events.has(FiberEvents::CALL_HUNG_UP),
        };
        if self.driven.is_connecting() {
            // They may be of a connection that the fiber had before.
            let there = self.driven.awaited().map(|socket| os::socket::wait_for_any([socket], 0));
            let Some(Ok([there])) = there else { return };
            found.is_over &= there.room || there.is_over;
            found.room = there.room;
            found.is_over |= there.is_over;
        }
        self.driven.note(found, now);
    }
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
