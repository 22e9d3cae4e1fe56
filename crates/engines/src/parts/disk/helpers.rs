//! Helpers: who does what may block, for a loop that must not wait for it; here they are threads.
//!
//! A loop hands out work under a key, goes on, and is told through a descriptor that something has
//! come back. What to do while work is out is the loop's business, and so is who waits when all
//! places are taken. Each loop has helpers of its own, so that loops need not agree on anything; a
//! ring is a loop in this sense.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use os::event::Wake;
use session::{Connection, Counters, Done, Job, JobId, Op, Worker};
use site::resource::FileRef;

use crate::jobs::Runner;
use crate::lock::lock;
use crate::parts::accept::listeners::is_exhaustion;
use crate::parts::loops::clock::read_clock;

/// Bytes of a file that are fetched with one call.
pub(crate) const FETCH_BYTES: usize = 128 * 1024;

/// Work that may wait for helpers, for each of them.
pub(crate) const QUEUE_PER_HELPER: usize = 64;

/// How jobs are run: [`crate::jobs::Runner::run`], or what a test puts in its place.
pub(crate) type RunJob = Arc<dyn Fn(Job) -> Done + Send + Sync>;

/// What a helper is asked for.
#[derive(Debug)]
pub(crate) enum Work {
    /// A connection's job, as it gave it out.
    Job(JobId, Job),
    /// Have `len` bytes of a file from `offset` on in memory.
    Fetch { file: FileRef, offset: u64, len: u64 },
}

impl Work {
    /// Counts it, where it is handed out.
    pub(crate) fn count(&self, counters: &Counters) {
        match self {
            Self::Job(..) => counters.jobs_handed_out.add(1),
            Self::Fetch { .. } => counters.cold_sends.add(1),
        }
    }
}

/// What a connection wants done that may block: its job, or that bytes of its file be fetched, at
/// most so many.
pub(crate) fn next_work(connection: &mut Connection, fetched_bytes_max: u64) -> Work {
    if let Op::File { file, offset, len } = connection.next() {
        let len = len.min(fetched_bytes_max);
        return Work::Fetch { file: FileRef::clone(file), offset, len };
    }
    let (id, job) = connection.take_job();
    Work::Job(id, job)
}

/// Has the job run that a connection wants, while everybody in this thread waits. Returns whether
/// it lacked a descriptor: whoever can closes a connection that rests, so that the next finds one.
pub(crate) fn run_on_the_spot(
    connection: &mut Connection,
    worker: &mut Worker,
    runner: &Runner,
) -> bool {
    let (id, job) = connection.take_job();
    let done = runner.run(job);
    read_clock(worker);
    answer(connection, worker, id, done)
}

/// Gives a connection the answer to its job. Returns as [`run_on_the_spot`] does.
pub(crate) fn answer(
    connection: &mut Connection,
    worker: &mut Worker,
    id: JobId,
    done: Done,
) -> bool {
    let lacks_descriptor = lacks_descriptor(&done);
    connection.done(worker, id, done);
    lacks_descriptor
}

/// Whether a job found no descriptor or no memory. Its request is told to try again; whoever asks
/// closes a connection that rests, so that the next ones find one.
pub(crate) fn lacks_descriptor(done: &Done) -> bool {
    match done {
        Done::Resolved(Err(error)) | Done::Listed(Err(error)) => is_exhaustion(error),
        _ => false,
    }
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The answer to a job, for [`session::Connection::done`].
    Done(JobId, Done),
    /// Sending these bytes does not wait any more. An error of the file is for who sends to find.
    Fetched,
}

/// Something that came back.
#[derive(Debug)]
pub(crate) struct Returned {
    /// The key under which it was handed out.
    pub(crate) key: u64,
    pub(crate) outcome: Outcome,
}

/// Helpers, of whatever kind, that do what may block for one loop. Watch the descriptor for
/// reading; when it is readable, [`Help::take_back`].
pub(crate) trait Help: AsFd + Send {
    /// Whether [`Help::hand_out`] will accept something. It stays true until then.
    fn has_room(&self) -> bool;

    /// Hands out work, which comes back under this key. Ask for [`Help::has_room`] before a job is
    /// taken from its connection: a job cannot be put back.
    ///
    /// # Errors
    /// The work itself: too much is out.
    fn hand_out(&mut self, key: u64, work: Work) -> Result<(), Work>;

    /// Takes back what is done, in the order in which it was, and makes the descriptor unreadable.
    fn take_back(&mut self) -> Vec<Returned>;
}

/// Helper threads and the work that is out. Dropped, it waits for what is being done and forgets
/// the rest.
pub(crate) struct Helpers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Work that may be out at a time, 0 < `places_max`.
    places_max: usize,
    out: usize,
}

/// What a loop and its helpers share.
struct Shared {
    queue: Mutex<Queue>,
    has_work: Condvar,
    returned: Mutex<Vec<Returned>>,
    wake: Wake,
    run_job: RunJob,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(u64, Work)>,
    is_closed: bool,
}

impl Helpers {
    /// Starts `count` threads, for whom `queue_max` pieces of work may wait besides those that are
    /// being done.
    ///
    /// # Errors
    /// No descriptor or no thread; those that run already are ended.
    pub(crate) fn start(
        name: &str,
        count: usize,
        queue_max: usize,
        run_job: RunJob,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            has_work: Condvar::new(),
            returned: Mutex::default(),
            wake: Wake::new()?,
            run_job,
        });
        let places_max = (count + queue_max).max(1);
        let mut helpers = Self { shared, threads: Vec::new(), places_max, out: 0 };
        for index in 0..count.max(1) {
            let shared = Arc::clone(&helpers.shared);
            let builder = Builder::new().name(format!("{name}-{index}"));
            helpers.threads.push(builder.spawn(move || help(&shared))?);
        }
        Ok(helpers)
    }

    /// How much work is out: waiting, being done, or done and not taken back.
    #[cfg(test)]
    pub(crate) fn out(&self) -> usize {
        self.out
    }
}

impl Help for Helpers {
    fn has_room(&self) -> bool {
        self.out < self.places_max
    }

    fn hand_out(&mut self, key: u64, work: Work) -> Result<(), Work> {
        if !self.has_room() {
            return Err(work);
        }
        self.out += 1;
        lock(&self.shared.queue).waiting.push_back((key, work));
        self.shared.has_work.notify_one();
        Ok(())
    }

    fn take_back(&mut self) -> Vec<Returned> {
        self.shared.wake.clear(); // before the look: what comes after it is told again
        let returned = std::mem::take(&mut *lock(&self.shared.returned));
        self.out -= returned.len();
        returned
    }
}

impl AsFd for Helpers {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.wake.as_fd()
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        let forgotten = {
            let mut queue = lock(&self.shared.queue);
            queue.is_closed = true;
            std::mem::take(&mut queue.waiting)
        };
        drop(forgotten); // it may close files: not under the lock
        self.shared.has_work.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // a panic of a job was caught, and another has been printed
        }
    }
}

/// A helper's life.
fn help(shared: &Shared) {
    let mut buffer = vec![0; FETCH_BYTES];
    while let Some((key, work)) = shared.next() {
        let outcome = carry_out(&*shared.run_job, work, &mut buffer);
        lock(&shared.returned).push(Returned { key, outcome });
        shared.wake.notify();
    }
}

impl Shared {
    /// Waits for work. None is the end.
    fn next(&self) -> Option<(u64, Work)> {
        let mut queue = lock(&self.queue);
        while queue.waiting.is_empty() && !queue.is_closed {
            queue = self.has_work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.waiting.pop_front()
    }
}

/// Answers the job that a connection wants if nobody has to wait for that. Returns whether it did;
/// if not, the job is still to be handed out.
pub(crate) fn answer_at_once(connection: &mut Connection, w: &mut Worker, runner: &Runner) -> bool {
    let Some(done) = connection.job().and_then(|job| runner.run_at_once(job)) else { return false };
    let (id, _) = connection.take_job();
    connection.done(w, id, done);
    true
}

/// Does one piece of work. A panic is that job's failure, which its client is told as such.
pub(crate) fn carry_out(run_job: &dyn Fn(Job) -> Done, work: Work, buffer: &mut [u8]) -> Outcome {
    match work {
        Work::Job(id, job) => {
            let failed = failed(&job, "the job panicked"); // what it says has been printed
            let done = catch_unwind(AssertUnwindSafe(|| run_job(job)));
            Outcome::Done(id, done.unwrap_or(failed))
        }
        Work::Fetch { file, offset, len } => {
            fetch(&file, offset, len, buffer);
            Outcome::Fetched
        }
    }
}

/// The answer to a job that was not done: its client is told to try again.
pub(crate) fn failed(job: &Job, why: &'static str) -> Done {
    let why = io::Error::other(why);
    match job {
        Job::Resolve { .. } | Job::Hash(_) => Done::Resolved(Err(why)),
        Job::List { .. } | Job::ListMore(_) => Done::Listed(Err(why)),
    }
}

/// Answers the job that a connection wants, and that nobody has had time for: its client is told to
/// try again. Returns whether there was one.
pub(crate) fn refuse(connection: &mut Connection, w: &mut Worker) -> bool {
    if connection.job().is_none() {
        return false;
    }
    let (id, job) = connection.take_job();
    connection.done(w, id, failed(&job, "no helper had time for it"));
    true
}

/// Reads the bytes: the one way to have them in memory for certain when it returns. Advice to the
/// kernel would be cheaper, but only begins to fetch.
pub(crate) fn fetch(file: &FileRef, offset: u64, len: u64, buffer: &mut [u8]) {
    let (mut at, end) = (offset, offset.saturating_add(len));
    while at < end {
        let wanted = buffer.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
        match os::files::read_at(file.as_fd(), &mut buffer[..wanted], at) {
            Ok(0) | Err(_) => return,
            Ok(n) => at += n as u64,
        }
    }
}

#[cfg(test)]
mod tests;
