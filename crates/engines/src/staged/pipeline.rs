//! What the stages of one partition share: their queues, the way from one to the next, and how
//! they end. It has no thread of its own.
//!
//! The read-poll stage is where a connection begins, rests and ends; it ends last, and the others
//! end with it. A stage that fails is replaced: the connections in its hands are lost, those in its
//! queue are not.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use os::event::Wake;
use session::{Spares, Worker};

use super::added_threads::AddedThreads;
use super::cache_padded::CachePadded;
use super::client::{BoxedClient, Stage};
use super::controller_counts::ControllerCounts;
use super::queue::{Figures, Helpers, Inbox, Queue};
use crate::engine::PartitionStart;
use crate::knobs::KnobValues;
use crate::lock::lock;
use crate::parts::loops::Shared;

/// The stages of one partition, as each of them sees the others. What they hand one another at each
/// batch is apart from what they only look at.
pub(super) struct Pipeline {
    read_poll: CachePadded<PollStage>,
    write_poll: CachePadded<PollStage>,
    /// The threads that read and those that write: the same, if they share one pool.
    read: Arc<Pool>,
    write: Arc<Pool>,
    pub(super) room: Room,
    /// Requests begin with one worker and end with another, and their buffers travel back.
    spares: CachePadded<Mutex<Spares>>,
    cpus: Vec<usize>,
    /// Threads that it has all the time and that read, of those that work.
    readers: usize,
    /// Connections that may be accepted a second, as the bits of a number; [`NO_RATE`] for any.
    rate: AtomicU64,
    /// What controllers have done.
    pub(super) controller_counts: ControllerCounts,
    /// Threads that controllers have started.
    pub(super) added_threads: AddedThreads,
    knobs: KnobValues,
    /// Whether it has been told that threads cannot be scheduled as they should be.
    has_told_refusal: AtomicBool,
    has_accepted_all: AtomicBool,
    is_closed: AtomicBool,
    is_broken: AtomicBool,
    /// How often a stage has failed.
    failures: AtomicU64,
}

/// The numbers of the stages that have one thread each, among those of the partition.
pub(super) const ACCEPT: usize = 0;
pub(super) const READ_POLL: usize = 1;
pub(super) const WRITE_POLL: usize = 2;

/// The bits that stand for no rate; they are not those of any rate.
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
    /// How many connections a thread takes at once.
    pub(super) batch: AtomicUsize,
    /// Threads that it has all the time.
    fixed: AtomicUsize,
    /// Threads that it has for a while.
    pub(super) added: AtomicUsize,
}

/// Where the accept stage asks for room for one more connection, and is answered.
pub(super) struct Room {
    /// Whether the accept stage waits for an answer.
    is_asked: AtomicBool,
    answer: AtomicU8,
    /// Descriptors that jobs were in want of.
    wanted: AtomicUsize,
    /// Wakes the accept stage.
    pub(super) wake: Wake,
}

const UNANSWERED: u8 = 0;
const GRANTED: u8 = 1;
const REFUSED: u8 = 2;

/// What a stage has for others when it has worked off a batch.
#[derive(Default)]
pub(super) struct Outgoing {
    read_poll: Vec<BoxedClient>,
    read: Vec<BoxedClient>,
    write_poll: Vec<BoxedClient>,
    write: Vec<BoxedClient>,
}

impl Pipeline {
    /// Empty stages on the CPUs of a partition.
    pub(super) fn new(partition: &PartitionStart, knobs: &KnobValues) -> io::Result<Self> {
        let (readers, writers) = super::knobs::working_threads(knobs, partition.workers.len());
        let part_min = knobs.get_usize(super::knobs::PART_MIN.name);
        let helpers = Helpers { max: width(partition) - 1, part_min };
        let pool = |name, fixed| {
            let batch = AtomicUsize::new(knobs.get_usize(super::knobs::BATCH.name));
            let (fixed, added) = (AtomicUsize::new(fixed), AtomicUsize::new(0));
            let queue = CachePadded(Queue::new(helpers));
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
            room: Room {
                is_asked: AtomicBool::new(false),
                answer: AtomicU8::new(UNANSWERED),
                wanted: AtomicUsize::new(0),
                wake: Wake::new()?,
            },
            spares: CachePadded::default(),
            cpus: partition.cpus.clone(),
            readers,
            rate: AtomicU64::new(NO_RATE),
            controller_counts: ControllerCounts::default(),
            added_threads: AddedThreads::new(Arc::clone(&partition.more)),
            knobs: knobs.clone(),
            has_told_refusal: AtomicBool::new(false),
            has_accepted_all: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            failures: AtomicU64::new(0),
        })
    }

    /// What the thread of a stage does first, and what it tells if that is refused: see
    /// [`super::knobs::COHORTS`].
    pub(super) fn enter(&self, shared: &Shared) -> io::Result<()> {
        self.stay_on_cpus()?;
        let has_cohorts = self.knobs.get(super::knobs::COHORTS.name) == 1;
        let Err(why) = has_cohorts.then(os::scheduling::wake_without_interrupting).transpose()
        else {
            return Ok(());
        };
        if !self.has_told_refusal.swap(true, Ordering::Relaxed) {
            shared.tell(format!("stages interrupt each other (cohorts = 0): {why}"));
        }
        Ok(())
    }

    /// Keeps the calling thread on the partition's CPUs. Not on one of them: which stage has most
    /// to do depends on what is asked for.
    fn stay_on_cpus(&self) -> io::Result<()> {
        if self.cpus.is_empty() {
            return Ok(());
        }
        let pinned = os::affinity::pin_thread(&self.cpus);
        let told = |why| io::Error::other(format!("cannot stay on CPUs {:?}: {why}", self.cpus));
        pinned.map_err(told)
    }

    pub(super) fn give_to_read_poll(&self, clients: &mut Vec<BoxedClient>) {
        self.read_poll.give(clients);
    }

    /// The stages that work: one of them stands for both if they share their threads.
    pub(super) fn working_stages(&self) -> &'static [Stage] {
        if self.has_shared_pool() { &[Stage::Read] } else { &[Stage::Read, Stage::Write] }
    }

    pub(super) fn has_shared_pool(&self) -> bool {
        Arc::ptr_eq(&self.read, &self.write)
    }

    /// The stage of a thread that works, by its number among those of the partition.
    pub(super) fn stage_of(&self, index: usize) -> Stage {
        if index < super::knobs::SINGLE_THREADS + self.readers { Stage::Read } else { Stage::Write }
    }

    /// The threads of a stage that works.
    pub(super) fn pool(&self, stage: Stage) -> &Arc<Pool> {
        if stage == Stage::Write { &self.write } else { &self.read }
    }

    /// How many connections may be accepted a second; none if nobody has said.
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
            show("read-poll", self.read_poll.inbox.figures()),
            show("write-poll", self.write_poll.inbox.figures()),
        ];
        lines.extend(self.working_stages().iter().map(|&stage| self.pool(stage).show()));
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

    /// Has the threads that sleep look after their caches.
    pub(super) fn do_housekeeping(&self) {
        self.read.queue.nudge();
        self.write.queue.nudge();
        self.added_threads.do_housekeeping();
    }

    /// Asks the read-poll stage to close a connection that rests; it answers at [`Room`].
    pub(super) fn ask_for_room(&self) {
        self.room.is_asked.store(true, Ordering::Release);
        self.read_poll.wake.notify();
    }

    /// Asks the read-poll stage to close one connection that rests, for a job that lacked a
    /// descriptor or for another pipeline. No answer is waited for.
    pub(super) fn ask_for_another(&self) {
        self.room.wanted.fetch_add(1, Ordering::Relaxed);
        self.read_poll.wake.notify();
    }

    /// Notes that no connection will be accepted any more, and that all accepted ones are in the
    /// read-poll stage's inbox.
    pub(super) fn end_accepting(&self) {
        self.has_accepted_all.store(true, Ordering::Release);
        self.read_poll.wake.notify();
    }

    /// The read-poll stage ends, and so do all. If it has failed for good connections are on their
    /// way still, and have nowhere to go.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        for queue in [&*self.read.queue, &*self.write.queue] {
            queue.close();
            queue.clear();
        }
        self.read_poll.inbox.close();
        self.write_poll.inbox.close();
        self.write_poll.wake.notify();
        self.room.wake.notify();
    }

    /// A thread of a stage has failed, and what was in its hands is gone: the accept stage, one of
    /// those that poll, or one that works. If no other goes on in its place everybody ends. `index`
    /// is the thread's among those of the partition.
    pub(super) fn fail(&self, index: usize, is_replaced: bool) {
        if !is_replaced {
            let is_last = match index {
                ACCEPT | READ_POLL | WRITE_POLL => true,
                _ => self.pool(self.stage_of(index)).fixed.fetch_sub(1, Ordering::Relaxed) == 1,
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

    /// Whether nobody will be accepted any more. All who were are in the read-poll stage's inbox
    /// by then.
    pub(super) fn has_accepted_all(&self) -> bool {
        self.has_accepted_all.load(Ordering::Acquire)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Whether a stage has nobody any more: then nobody can be served.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }

    /// How often a stage has failed.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Acquire)
    }
}

/// How many of its threads can run at the same time.
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

    fn give(&self, clients: &mut Vec<BoxedClient>) {
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
        let queue = show(self.name, self.queue.figures());
        format!("{queue}; {threads} threads take {batch} at once")
    }
}

impl Room {
    /// Whether room was granted; none until that is known. An answer is given once.
    pub(super) fn answer(&self) -> Option<bool> {
        match self.answer.swap(UNANSWERED, Ordering::AcqRel) {
            UNANSWERED => None,
            answer => Some(answer == GRANTED),
        }
    }

    /// Has `evict` make the room that was asked for, and answers.
    pub(super) fn serve(&self, mut evict: impl FnMut() -> bool) {
        if self.wanted.load(Ordering::Relaxed) > 0 {
            for _ in 0..self.wanted.swap(0, Ordering::Relaxed) {
                if !evict() {
                    break;
                }
            }
        }
        if self.is_asked.load(Ordering::Relaxed) && self.is_asked.swap(false, Ordering::AcqRel) {
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
        }
    }

    /// Hands everything over: what is nearest to its end first.
    #[inline]
    pub(super) fn flush(&mut self, pipeline: &Pipeline) {
        pipeline.read_poll.give(&mut self.read_poll);
        pipeline.write_poll.give(&mut self.write_poll);
        pipeline.write.queue.push(&mut self.write);
        pipeline.read.queue.push(&mut self.read);
    }
}

fn show(stage: &str, figures: Figures) -> String {
    let Figures { len, longest, batches, taken } = figures;
    let mean = taken as f64 / batches.max(1) as f64;
    format!(
        "{stage}: {len} in its queue (at most {longest}), {taken} taken in {batches} batches \
         of {mean:.1}"
    )
}
