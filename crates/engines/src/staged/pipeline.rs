//! What the stages of one partition share: their queues, the way from one to the next, and how
//! they end. It has no thread of its own.
//!
//! The read-poll stage is where a connection begins, rests and ends; it ends last, and the others
//! end with it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use os::event::Wake;
use session::{Spares, Worker};

use super::client::{BoxedClient, Place};
use super::queue::{Figures, Inbox, Queue};

/// The stages of one partition, as each of them sees the others.
pub(super) struct Pipeline {
    read_poll: PollStage,
    write_poll: PollStage,
    /// The threads that read and those that write: the same, if they share one pool.
    pub(super) read: Arc<Pool>,
    pub(super) write: Arc<Pool>,
    pub(super) room: Room,
    /// Requests begin with one worker and end with another, and their buffers travel back.
    spares: Mutex<Spares>,
    cpus: Vec<usize>,
    has_accepted_all: AtomicBool,
    is_closed: AtomicBool,
    is_broken: AtomicBool,
}

/// A stage that waits in the kernel.
struct PollStage {
    inbox: Inbox<BoxedClient>,
    wake: Wake,
}

/// A stage that works, or two that share their threads.
pub(super) struct Pool {
    pub(super) queue: Queue<BoxedClient>,
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

/// Calls its function when it is dropped: however a stage ends, others learn of it.
pub(super) struct Ending<F: FnMut()>(F);

impl<F: FnMut()> Drop for Ending<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl Pipeline {
    /// Empty stages on those CPUs.
    pub(super) fn new(cpus: Vec<usize>, has_shared_pool: bool) -> io::Result<Self> {
        let pool = || Arc::new(Pool { queue: Queue::new() });
        let read = pool();
        let write = if has_shared_pool { Arc::clone(&read) } else { pool() };
        Ok(Self {
            read_poll: PollStage::new()?,
            write_poll: PollStage::new()?,
            read,
            write,
            room: Room {
                is_asked: AtomicBool::new(false),
                answer: AtomicU8::new(UNANSWERED),
                wanted: AtomicUsize::new(0),
                wake: Wake::new()?,
            },
            spares: Mutex::default(),
            cpus,
            has_accepted_all: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
        })
    }

    /// Keeps the calling thread on the partition's CPUs. Not on one of them: which stage has most
    /// to do depends on what is asked for.
    pub(super) fn stay_on_cpus(&self) -> io::Result<()> {
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

    /// One line for each queue.
    pub(super) fn status(&self) -> Vec<String> {
        let is_shared = Arc::ptr_eq(&self.read, &self.write);
        let mut lines = vec![
            show("read-poll", self.read_poll.inbox.figures()),
            show(if is_shared { "read and write" } else { "read" }, self.read.queue.figures()),
            show("write-poll", self.write_poll.inbox.figures()),
        ];
        if !is_shared {
            lines.push(show("write", self.write.queue.figures()));
        }
        lines
    }

    pub(super) fn inbox(&self, place: Place) -> &Inbox<BoxedClient> {
        &self.poll_stage(place).inbox
    }

    pub(super) fn wake(&self, place: Place) -> &Wake {
        &self.poll_stage(place).wake
    }

    fn poll_stage(&self, place: Place) -> &PollStage {
        if place == Place::WritePoll { &self.write_poll } else { &self.read_poll }
    }

    /// Has a worker keep `count` spare buffers.
    pub(super) fn share_spares(&self, worker: &mut Worker, count: usize) {
        let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
        worker.share_spares(&mut spares, count);
    }

    /// Has the threads that sleep look after their caches.
    pub(super) fn keep_house(&self) {
        self.read.queue.nudge();
        self.write.queue.nudge();
    }

    /// Asks the read-poll stage to close a connection that rests; it answers at [`Room`].
    pub(super) fn ask_for_room(&self) {
        self.room.is_asked.store(true, Ordering::Release);
        self.read_poll.wake.notify();
    }

    /// The same for a descriptor that a job lacked. Nobody waits for an answer.
    pub(super) fn ask_for_descriptor(&self) {
        self.room.wanted.fetch_add(1, Ordering::Relaxed);
        self.read_poll.wake.notify();
    }

    /// To be held by the accept stage.
    pub(super) fn accepting(&self) -> Ending<impl FnMut() + '_> {
        Ending(|| {
            self.has_accepted_all.store(true, Ordering::Release);
            self.read_poll.wake.notify();
        })
    }

    /// To be held by a stage between the first and the last. If it ends before its time, what was
    /// in its hands is lost.
    pub(super) fn working(&self) -> Ending<impl FnMut() + '_> {
        Ending(|| {
            if !self.is_closed() {
                self.is_broken.store(true, Ordering::Release);
                self.read_poll.wake.notify();
            }
        })
    }

    /// To be held by the read-poll stage: when it ends, all do.
    pub(super) fn closing(&self) -> Ending<impl FnMut() + '_> {
        Ending(|| {
            self.is_closed.store(true, Ordering::Release);
            self.read.queue.close();
            self.write.queue.close();
            self.write_poll.wake.notify();
            self.room.wake.notify();
        })
    }

    /// Whether nobody will be accepted any more. All who were are in the read-poll stage's inbox
    /// by then.
    pub(super) fn has_accepted_all(&self) -> bool {
        self.has_accepted_all.load(Ordering::Acquire)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Whether a stage has ended before its time: then some connections will not come back.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }
}

impl PollStage {
    fn new() -> io::Result<Self> {
        Ok(Self { inbox: Inbox::new(), wake: Wake::new()? })
    }

    fn give(&self, clients: &mut Vec<BoxedClient>) {
        if self.inbox.push(clients) {
            self.wake.notify();
        }
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
    pub(super) fn add(&mut self, client: BoxedClient, place: Place) {
        match place {
            Place::ReadPoll => self.read_poll.push(client),
            Place::Read => self.read.push(client),
            Place::WritePoll => self.write_poll.push(client),
            Place::Write => self.write.push(client),
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
