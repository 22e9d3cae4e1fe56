//! The shared state of the stages of one partition: their queues, the way from one to the next, and
//! how they end. It has no thread of its own.
//!
//! A connection begins, rests and ends in the read-poll stage; that stage ends last, and the others
//! end with it. A stage that fails is replaced: the connections that it holds are lost, those in
//! its queue are not.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use os::epoll::Epoll;
use os::event::Wake;
use session::{Spares, Worker};

use super::added_threads::AddedThreads;
use super::applications::Applications;
use super::cache_padded::CachePadded;
use super::client::{BoxedClient, Stage};
use super::controller_counts::ControllerCounts;
use super::queue::{Division, Inbox, Queue};
use crate::engine::{ConnectionLimit, PartitionStart};
use crate::knobs::KnobValues;
use crate::lock::lock;
use crate::parts::loops::Shared;

/// The stages of one partition, as each of them accesses the others. The parts that are written at
/// each batch are on cache lines apart from those that are only read.
pub(super) struct Pipeline {
    read_poll: CachePadded<PollStage>,
    write_poll: CachePadded<PollStage>,
    /// The threads that read and those that write: one pool, if they are shared.
    read: Arc<Pool>,
    write: Arc<Pool>,
    pub(super) applications: Applications,
    pub(super) room: RoomRequests,
    /// Requests begin with one worker and end with another, and their buffers travel back.
    spares: CachePadded<Mutex<Spares>>,
    cpus: Vec<usize>,
    /// The number of working threads from the start that read.
    readers: usize,
    /// The index of the first thread of the application stage, whose threads are the last.
    first_caller: usize,
    /// Connections that may be accepted a second, as the bits of a number; [`NO_RATE`] for any.
    rate: AtomicU64,
    /// Counts of the controllers' actions.
    pub(super) controller_counts: ControllerCounts,
    /// Threads that controllers have started.
    pub(super) added_threads: AddedThreads,
    knobs: KnobValues,
    /// Whether it has been reported that threads cannot be scheduled as they should be.
    has_reported_refusal: AtomicBool,
    /// The set in which the write-poll stage watches sockets.
    write_watch: Mutex<Weak<Epoll>>,
    has_accepted_all: AtomicBool,
    is_closed: AtomicBool,
    is_broken: AtomicBool,
    /// The number of failures of stages.
    failures: AtomicU64,
}

/// The indices of the stages that have one thread each, among the threads of the partition.
pub(super) const ACCEPT: usize = 0;
pub(super) const READ_POLL: usize = 1;
pub(super) const WRITE_POLL: usize = 2;

/// The bits that stand for no rate: no rate has them.
const NO_RATE: u64 = u64::MAX;

/// A stage that waits in the kernel.
struct PollStage {
    inbox: Inbox<BoxedClient>,
    wake: Wake,
}

/// A stage that works, or two that share their threads.
pub(super) struct Pool {
    pub(super) name: &'static str,
    pub(super) queue: CachePadded<Queue<BoxedClient>>,
    /// The number of connections that a thread takes at once.
    pub(super) batch: AtomicUsize,
    /// The number of threads from the start.
    fixed: AtomicUsize,
    /// The number of threads that were added for a while.
    pub(super) added: AtomicUsize,
}

/// Requests for room for one more connection, and the answers to the accept stage.
pub(super) struct RoomRequests {
    /// Whether the accept stage waits for an answer.
    is_requested: AtomicBool,
    answer: AtomicU8,
    /// The number of connections to close for jobs that lacked a descriptor.
    wanted: AtomicUsize,
    /// Wakes the accept stage.
    pub(super) wake: Wake,
}

const UNANSWERED: u8 = 0;
const GRANTED: u8 = 1;
const REFUSED: u8 = 2;

/// The connections that a stage hands to others when it has worked off a batch.
#[derive(Default)]
pub(super) struct Outgoing {
    read_poll: Vec<BoxedClient>,
    read: Vec<BoxedClient>,
    write_poll: Vec<BoxedClient>,
    write: Vec<BoxedClient>,
    application: Vec<BoxedClient>,
}

impl Pipeline {
    /// Empty stages on the CPUs of a partition, of an engine with at most `connections_max`
    /// connections.
    pub(super) fn new(
        partition: &PartitionStart,
        knobs: &KnobValues,
        connections_max: &ConnectionLimit,
    ) -> io::Result<Self> {
        let (readers, writers) = super::knobs::working_threads(knobs, partition.workers.len());
        let part_min = knobs.get_usize(super::knobs::PART_MIN.name);
        let division = Division { max: width(partition) - 1, part_min };
        let pool = |name, fixed| {
            let batch = AtomicUsize::new(knobs.get_usize(super::knobs::BATCH.name));
            let (fixed, added) = (AtomicUsize::new(fixed), AtomicUsize::new(0));
            let queue = CachePadded(Queue::new(division));
            Arc::new(Pool { name, queue, batch, fixed, added })
        };
        let (read, write) = if knobs.get(super::knobs::POOLS.name) == 1 {
            let both = pool("read and write", readers + writers);
            (Arc::clone(&both), both)
        } else {
            (pool("read", readers), pool("write", writers))
        };
        Ok(Self {
            read_poll: CachePadded(PollStage::new()?),
            write_poll: CachePadded(PollStage::new()?),
            read,
            write,
            applications: Applications::new(
                partition.workers.first().map(|start| &start.worker),
                knobs.workers(super::knobs::APPLICATION_THREADS.name, width(partition)),
                connections_max,
            )?,
            room: RoomRequests {
                is_requested: AtomicBool::new(false),
                answer: AtomicU8::new(UNANSWERED),
                wanted: AtomicUsize::new(0),
                wake: Wake::new()?,
            },
            spares: CachePadded::default(),
            cpus: partition.cpus.clone(),
            readers,
            first_caller: partition.workers.len(),
            rate: AtomicU64::new(NO_RATE),
            controller_counts: ControllerCounts::default(),
            added_threads: AddedThreads::new(Arc::clone(&partition.more)),
            knobs: knobs.clone(),
            has_reported_refusal: AtomicBool::new(false),
            write_watch: Mutex::default(),
            has_accepted_all: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            failures: AtomicU64::new(0),
        })
    }

    /// Prepares the calling thread, which is that of a stage: binds it to the partition's CPUs and
    /// sets its scheduling (see [`super::knobs::COHORTS`]), or reports that this was refused.
    pub(super) fn enter(&self, shared: &Shared) -> io::Result<()> {
        self.stay_on_cpus()?;
        let has_cohorts = self.knobs.get(super::knobs::COHORTS.name) == 1;
        let Err(why) = has_cohorts.then(os::scheduling::wake_without_interrupting).transpose()
        else {
            return Ok(());
        };
        if !self.has_reported_refusal.swap(true, Ordering::Relaxed) {
            shared.add_notice(format!("stages interrupt each other (cohorts = 0): {why}"));
        }
        Ok(())
    }

    /// Keeps the calling thread on the partition's CPUs. Not on a single one: which stage has most
    /// work depends on the requests.
    fn stay_on_cpus(&self) -> io::Result<()> {
        if self.cpus.is_empty() {
            return Ok(());
        }
        let pinned = os::affinity::pin_thread(&self.cpus);
        let failed = |why| io::Error::other(format!("cannot stay on CPUs {:?}: {why}", self.cpus));
        pinned.map_err(failed)
    }

    pub(super) fn push_to_read_poll(&self, clients: &mut Vec<BoxedClient>) {
        self.read_poll.push(clients);
    }

    /// Sets the set in which the write-poll stage, which begins, watches sockets.
    pub(super) fn set_write_watch(&self, epoll: &Arc<Epoll>) {
        *lock(&self.write_watch) = Arc::downgrade(epoll);
    }

    /// Has the write-poll stage watch this socket no more; what it knows of it ends with the stage.
    pub(super) fn end_write_watch(&self, socket: BorrowedFd<'_>) {
        if let Some(epoll) = lock(&self.write_watch).upgrade() {
            let _ = epoll.remove(socket); // it fails if it was not watched
        }
    }

    /// The stages that work: one of them stands for both if they share their threads.
    pub(super) fn working_stages(&self) -> &'static [Stage] {
        if self.has_shared_pool() { &[Stage::Read] } else { &[Stage::Read, Stage::Write] }
    }

    pub(super) fn has_shared_pool(&self) -> bool {
        Arc::ptr_eq(&self.read, &self.write)
    }

    /// The number of a thread among those of the application stage, by its index among the threads
    /// of the partition; none if its stage is another.
    pub(super) fn caller(&self, index: usize) -> Option<usize> {
        index.checked_sub(self.first_caller)
    }

    /// The stage of a working thread, by its index among the threads of the partition.
    pub(super) fn working_stage(&self, index: usize) -> Stage {
        if index < super::knobs::SINGLE_THREADS + self.readers { Stage::Read } else { Stage::Write }
    }

    /// The pool of threads of a working stage.
    pub(super) fn pool(&self, stage: Stage) -> &Arc<Pool> {
        if stage == Stage::Write { &self.write } else { &self.read }
    }

    /// The number of connections that may be accepted a second; none if no rate was set.
    pub(super) fn rate(&self) -> Option<f64> {
        let bits = self.rate.load(Ordering::Relaxed);
        (bits != NO_RATE).then_some(f64::from_bits(bits))
    }

    pub(super) fn set_rate(&self, per_second: f64) {
        self.rate.store(per_second.to_bits(), Ordering::Relaxed);
    }

    /// One line for each queue and one for each controller.
    pub(super) fn status(&self) -> Vec<String> {
        let mut lines = vec![
            self.read_poll.inbox.figures().show("read-poll"),
            self.write_poll.inbox.figures().show("write-poll"),
        ];
        lines.extend(self.working_stages().iter().map(|&stage| self.pool(stage).show()));
        lines.extend(self.applications.show());
        let ended = self.added_threads.ended();
        lines.extend(self.controller_counts.lines(&self.knobs, self.rate(), ended));
        lines
    }

    pub(super) fn inbox(&self, stage: Stage) -> &Inbox<BoxedClient> {
        &self.poll_stage(stage).inbox
    }

    pub(super) fn wake(&self, stage: Stage) -> &Wake {
        &self.poll_stage(stage).wake
    }

    fn poll_stage(&self, stage: Stage) -> &PollStage {
        if stage == Stage::WritePoll { &self.write_poll } else { &self.read_poll }
    }

    /// Has a worker keep `count` spare buffers.
    pub(super) fn share_spares(&self, worker: &mut Worker, count: usize) {
        let mut spares = lock(&self.spares);
        worker.share_spares(&mut spares, count);
    }

    /// Has the threads that sleep do their housekeeping.
    pub(super) fn do_housekeeping(&self) {
        self.read.queue.nudge();
        self.write.queue.nudge();
        self.added_threads.do_housekeeping();
    }

    /// Requests the read-poll stage to close an idle connection; the answer comes in
    /// [`RoomRequests`].
    pub(super) fn request_room(&self) {
        self.room.is_requested.store(true, Ordering::Release);
        self.read_poll.wake.notify();
    }

    /// Requests the read-poll stage to close one idle connection, for a job that lacked a
    /// descriptor or for another pipeline. There is no answer.
    pub(super) fn request_eviction(&self) {
        self.room.wanted.fetch_add(1, Ordering::Relaxed);
        self.read_poll.wake.notify();
    }

    /// Notes that no connection will be accepted any more, and that all accepted ones are in the
    /// read-poll stage's inbox.
    pub(super) fn end_accepting(&self) {
        self.has_accepted_all.store(true, Ordering::Release);
        self.read_poll.wake.notify();
    }

    /// Ends all stages, when the read-poll stage ends. If that has failed for good, connections may
    /// still be on their way to it: they are dropped.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        for queue in [&*self.read.queue, &*self.write.queue] {
            queue.close();
            queue.clear();
        }
        self.read_poll.inbox.close();
        self.write_poll.inbox.close();
        self.write_poll.wake.notify();
        self.applications.close();
        self.room.wake.notify();
    }

    /// Handles the failure of a stage's thread, whose connections are lost: of the accept stage, a
    /// stage that polls, or a working stage. If its stage has no thread left, all stages end.
    /// `index` is the thread's among those of the partition.
    pub(super) fn fail(&self, index: usize, is_replaced: bool) {
        if !is_replaced {
            let is_last = match index {
                ACCEPT | READ_POLL | WRITE_POLL => true,
                // Its connections are its own: no other thread would serve them.
                _ if self.caller(index).is_some() => true,
                _ => {
                    let pool = self.pool(self.working_stage(index));
                    pool.fixed.fetch_sub(1, Ordering::Relaxed) == 1
                }
            };
            self.is_broken.fetch_or(is_last, Ordering::Release);
            match index {
                ACCEPT => self.end_accepting(),
                READ_POLL => self.close(),
                _ => {}
            }
        }
        self.lose();
        self.room.wake.notify();
    }

    /// Has the stages that poll end the registrations of connections that are gone.
    pub(super) fn lose(&self) {
        self.failures.fetch_add(1, Ordering::Release);
        self.read_poll.wake.notify();
        self.write_poll.wake.notify();
    }

    /// Whether no connection will be accepted any more. All accepted connections are in the
    /// read-poll stage's inbox by then.
    pub(super) fn has_accepted_all(&self) -> bool {
        self.has_accepted_all.load(Ordering::Acquire)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Whether a stage has no thread any more: then no connection can be served.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }

    /// The number of failures of stages.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Acquire)
    }
}

/// The number of a partition's threads that can run at the same time.
fn width(partition: &PartitionStart) -> usize {
    match partition.cpus.len() {
        0 => os::affinity::allowed_cpus().len(),
        count => count,
    }
}

impl PollStage {
    fn new() -> io::Result<Self> {
        Ok(Self { inbox: Inbox::new(), wake: Wake::new()? })
    }

    fn push(&self, clients: &mut Vec<BoxedClient>) {
        let is_urgent = clients.iter().any(|client| client.is_urgent());
        if self.inbox.push(clients, is_urgent) {
            self.wake.notify();
        }
    }
}

impl Pool {
    pub(super) fn threads(&self) -> usize {
        self.fixed.load(Ordering::Relaxed) + self.added.load(Ordering::Relaxed)
    }

    fn show(&self) -> String {
        let (threads, batch) = (self.threads(), self.batch.load(Ordering::Relaxed));
        let queue = self.queue.figures().show(self.name);
        format!("{queue}; {threads} threads take {batch} at once")
    }
}

impl RoomRequests {
    /// Takes the answer whether room was granted; none until there is one.
    pub(super) fn take_answer(&self) -> Option<bool> {
        match self.answer.swap(UNANSWERED, Ordering::AcqRel) {
            UNANSWERED => None,
            answer => Some(answer == GRANTED),
        }
    }

    /// Has `evict` make the room that was requested, and answers the accept stage.
    pub(super) fn serve(&self, mut evict: impl FnMut() -> bool) {
        if self.wanted.load(Ordering::Relaxed) > 0 {
            for _ in 0..self.wanted.swap(0, Ordering::Relaxed) {
                if !evict() {
                    break;
                }
            }
        }
        if self.is_requested.load(Ordering::Relaxed)
            && self.is_requested.swap(false, Ordering::AcqRel)
        {
            let answer = if evict() { GRANTED } else { REFUSED };
            self.answer.store(answer, Ordering::Release);
            self.wake.notify();
        }
    }
}

impl Outgoing {
    #[inline]
    pub(super) fn add(&mut self, client: BoxedClient, stage: Stage) {
        match stage {
            Stage::ReadPoll => self.read_poll.push(client),
            Stage::Read => self.read.push(client),
            Stage::WritePoll => self.write_poll.push(client),
            Stage::Write => self.write.push(client),
            Stage::Application => self.application.push(client),
        }
    }

    /// Hands all connections over: those nearest to the end of their requests first.
    #[inline]
    pub(super) fn flush(&mut self, pipeline: &Pipeline) {
        pipeline.read_poll.push(&mut self.read_poll);
        pipeline.write_poll.push(&mut self.write_poll);
        pipeline.write.queue.push(&mut self.write);
        pipeline.read.queue.push(&mut self.read);
        if !self.application.is_empty() {
            pipeline.applications.push(&mut self.application);
        }
    }
}
