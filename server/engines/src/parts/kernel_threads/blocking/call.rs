//! A request that an application answers, in the thread of its client: the thread drives both
//! sockets, and poll(2) waits for either. Neither of them is waited for in a call that sends or
//! receives.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use os::socket::Awaited;
use session::{Job, JobId, Tick};
use site::resource::FileRef;

use super::super::registry::Registry;
use super::{Drive, remaining_ms};
use crate::parts::applications::client_end::{move_client, note_client};
use crate::parts::applications::driven_call::{DrivenCall, Progress, SessionClient, Unwatched};
use crate::parts::loops::clock::read_clock;
use crate::parts::loops::drive::Begun;
use crate::parts::loops::step::Ready;
use crate::parts::loops::transport::{Moved, Plain, Transport};

/// A wait without a deadline, in milliseconds: an hour.
const LONG_MS: u64 = 3_600_000;

/// How often a thread whose call waits for a place looks after its client, in milliseconds.
const LOOK_MS: u64 = 100;

/// How often a process looks whether there is a place, in milliseconds: no other process wakes it.
const SHARED_LOOK_MS: u64 = 20;

/// A call whose connection is parked until the call has a place.
pub(super) struct ParkedCall {
    id: JobId,
    driven: DrivenCall,
}

impl ParkedCall {
    pub(super) fn deadline(&self) -> Option<Tick> {
        self.driven.deadline()
    }

    pub(super) fn has_place(&self) -> bool {
        self.driven.has_place()
    }
}

impl Drive<'_, '_> {
    /// Begins the call that the connection wants, and drives it to its end.
    #[cold]
    #[inline(never)]
    pub(super) fn call(&mut self) -> Begun {
        let (id, job) = self.served.connection.take_job();
        let Job::Application(call) = job else { unreachable!("the caller has looked") };
        let (parking, now) = (self.waker, self.lease.worker().now());
        let waker = || match parking {
            Some(waker) => waker(),
            None => thread_waker(),
        };
        let driven = DrivenCall::begin(&self.registry.calls, call, waker, now);
        self.converse(ParkedCall { id, driven })
    }

    /// Goes on with a call whose connection was parked.
    pub(super) fn resume_call(&mut self, parked: ParkedCall) -> Begun {
        read_clock(self.lease.worker());
        self.converse(parked)
    }

    /// Moves bytes between client and application until the call is over, or is not wanted any
    /// more. Where connections are parked, a call that waits for a place is parked with its own.
    fn converse(&mut self, call: ParkedCall) -> Begun {
        let ParkedCall { id, mut driven } = call;
        // Most clients have sent all there is: an event or the wait tells if one has not.
        let mut ready = self.served.ready();
        while self.go_on(id, &mut driven) == Progress::Waits {
            if self.move_client(id, &mut ready) {
                continue;
            }
            if driven.is_waiting() && self.waker.is_some() {
                self.served.parked_call = Some(Box::new(ParkedCall { id, driven }));
                return Begun::Away;
            }
            match driven.is_waiting() {
                true => self.wait_for_place(&driven, &mut ready),
                false => self.wait(id, &mut driven, &mut ready),
            }
        }
        self.end_if_ordered();
        Begun::Done
    }

    fn go_on(&mut self, id: JobId, driven: &mut DrivenCall) -> Progress {
        self.end_if_ordered();
        let (registry, worker) = (self.registry, self.lease.worker());
        let (now, connection) = (worker.now(), &mut self.served.connection);
        let mut client = SessionClient { connection, worker, id, watch: Unwatched };
        let may_keep = !registry.is_ending();
        driven.go_on(&mut client, self.buffer, now, &registry.runner, may_keep)
    }

    fn move_client(&mut self, id: JobId, ready: &mut Ready) -> bool {
        let mut socket = Unwaiting(self.entry.socket());
        let (worker, connection) = (self.lease.worker(), &mut self.served.connection);
        move_client(&mut socket, connection, worker, self.buffer, ready, id)
    }

    /// Waits for a place, or for as long as the client may do without attention.
    fn wait_for_place(&mut self, driven: &DrivenCall, ready: &mut Ready) {
        let now = self.lease.worker().now();
        self.lease.release();
        wait_for_place(self.registry, driven, now);
        self.served.expire_if_due(self.lease.worker());
        (ready.is_drained, ready.is_full) = (false, true);
    }

    /// Waits for either socket, or until something is due.
    fn wait(&mut self, id: JobId, driven: &mut DrivenCall, ready: &mut Ready) {
        let connection = &self.served.connection;
        let client = Awaited {
            input: connection.wants_input() && ready.is_drained,
            room: ready.is_full,
            ..Awaited::default()
        };
        let (due, now) = (connection.deadline(), self.lease.worker().now());
        self.lease.release();
        let own = (self.entry.socket(), client);
        let [client, server] = wait_for_either(self.registry, own, driven, due, now);
        read_clock(self.lease.worker());
        let (worker, connection) = (self.lease.worker(), &mut self.served.connection);
        note_client(connection, worker, ready, client);
        connection.expire_if_due(worker);
        let now = worker.now();
        driven.expire_if_due(&mut SessionClient { connection, worker, id, watch: Unwatched }, now);
        driven.note(server, now);
    }
}

type Socket<'s> = (BorrowedFd<'s>, Awaited);

/// Waits for what a client and its call wait for at their sockets, until something is due: for the
/// client, or for the call. Returns what there is of each.
pub(crate) fn wait_for_either(
    registry: &Registry,
    client: Socket<'_>,
    driven: &DrivenCall,
    due: Option<Tick>,
    now: Tick,
) -> [Awaited; 2] {
    let due = [due, driven.deadline()].into_iter().flatten().min();
    let ms = due.map_or(LONG_MS, |due| remaining_ms(due, now));
    let summons = registry.summons.as_deref();
    let order = summons.map(|it| (it.descriptor(), Awaited { input: true, ..Awaited::default() }));
    let server = driven.awaited().map(|(socket, awaited)| (socket.as_fd(), awaited));
    let [client, server, order] = wait_for(client, server, order, ms);
    if order.input
        && let Some(summons) = summons
    {
        summons.heed(registry);
    }
    [client, server]
}

/// Waits until a call may have a place, or for as long as its client may do without attention.
pub(crate) fn wait_for_place(registry: &Registry, driven: &DrivenCall, now: Tick) {
    let look_ms = if registry.calls.has_shared_places() { SHARED_LOOK_MS } else { LOOK_MS };
    let ms = driven.deadline().map_or(look_ms, |due| remaining_ms(due, now).min(look_ms));
    thread::park_timeout(Duration::from_millis(ms));
    if let Some(summons) = &registry.summons {
        summons.heed(registry);
    }
}

/// Waits for what is awaited of a client, and of its application and of orders where there are any.
/// Returns what there is of each; nothing if the time is over.
fn wait_for(
    client: Socket<'_>,
    server: Option<Socket<'_>>,
    order: Option<Socket<'_>>,
    ms: u64,
) -> [Awaited; 3] {
    let none = Awaited::default();
    let found = match (server, order) {
        (None, None) => os::socket::wait_for_any([client], ms).map(|[it]| [it, none, none]),
        (Some(server), None) => {
            os::socket::wait_for_any([client, server], ms).map(|[it, server]| [it, server, none])
        }
        (None, Some(order)) => {
            os::socket::wait_for_any([client, order], ms).map(|[it, order]| [it, none, order])
        }
        (Some(server), Some(order)) => os::socket::wait_for_any([client, server, order], ms),
    };
    found.unwrap_or_default()
}

/// Wakes this thread out of [`wait_for_place`].
pub(crate) fn thread_waker() -> Waker {
    Waker::from(Arc::new(ThreadWaker(thread::current())))
}

/// Wakes a thread whose call has a place.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A socket whose calls do not wait, even if it is in blocking mode.
struct Unwaiting<'s>(BorrowedFd<'s>);

impl Transport for Unwaiting<'_> {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Moved> {
        os::send::recv_now(self.0, buffer).map(Moved::Now)
    }

    /// Sends the head; a body, which replies of applications do not have apart, in the next call.
    fn send(&mut self, head: &[u8], body: &[u8], more: bool, _: &mut [u8]) -> io::Result<Moved> {
        let (bytes, more) =
            if head.is_empty() { (body, more) } else { (head, more || !body.is_empty()) };
        os::send::send_now(self.0, bytes, more).map(Moved::Now)
    }

    fn send_file(&mut self, file: &FileRef, offset: u64, len: usize) -> io::Result<Moved> {
        Plain(self.0).send_file(file, offset, len)
    }

    fn shut_down(&mut self) -> io::Result<()> {
        Plain(self.0).shut_down()
    }

    fn reset_on_close(&mut self) {
        Plain(self.0).reset_on_close();
    }
}
