//! Helpers do work that may block, for a loop that must not wait for it; here they are threads.
//!
//! A loop hands out work under a key, goes on, and learns through a descriptor that work has come
//! back. What to do while work is out is the loop's business, and so is which connection waits when
//! all places are taken. Each loop has helpers of its own, so that loops share no state; a ring is
//! a loop in this sense.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

use os::event::Wake;
use session::{Connection, Counters, Done, Job, JobId, Op, Worker};
use site::resource::FileRef;

use super::work_queue::WorkQueue;
use crate::jobs::Runner;
use crate::lock::lock;
use crate::parts::accept::listeners::is_exhaustion;
use crate::parts::loops::clock::read_clock;

/// Bytes of a file that are fetched with one call.
pub(crate) const FETCH_BYTES: usize = 128 * 1024;

/// The number of pieces of work that may wait, for each helper.
pub(crate) const QUEUE_PER_HELPER: usize = 64;

/// Runs a job: [`crate::jobs::Runner::run`], or a test's substitute.
pub(crate) type RunJob = Arc<dyn Fn(Job) -> Done + Send + Sync>;

/// A piece of work for a helper.
#[derive(Debug)]
pub(crate) enum Work {
    /// A connection's job, as taken from it.
    Job(JobId, Job),
    /// Reads `len` bytes of a file from `offset` on into memory.
    Fetch { file: FileRef, offset: u64, len: u64 },
}

impl Work {
    /// Counts the work; to be called where it is handed out.
    pub(crate) fn count(&self, counters: &Counters) {
        match self {
            Self::Job(..) => counters.jobs_handed_out.add(1),
            Self::Fetch { .. } => counters.cold_sends.add(1),
        }
    }
}

/// Takes the work that a connection wants done and that may block: its job, or the fetch of the
/// next bytes of its file, at most `fetched_bytes_max`.
pub(crate) fn next_work(connection: &mut Connection, fetched_bytes_max: u64) -> Work {
    let (file, offset, len) = match connection.next() {
        Op::File { file, offset, len } => (file, offset, len),
        Op::Read { file, offset, len } => (file, offset, len as u64),
        _ => {
            let (id, job) = connection.take_job();
            return Work::Job(id, job);
        }
    };
    Work::Fetch { file: FileRef::clone(file), offset, len: len.min(fetched_bytes_max) }
}

/// Runs the job that a connection wants, while all connections of this thread wait. Returns whether
/// the job lacked a descriptor: the caller then closes an idle connection, if it can, so that the
/// next job finds one.
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

/// Hands a connection the answer to its job. Returns whether the job lacked a descriptor, as
/// [`run_on_the_spot`] does.
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

/// Whether a job found no descriptor or no memory. Its client is told to try again; the caller
/// closes an idle connection, so that the next jobs find one.
pub(crate) fn lacks_descriptor(done: &Done) -> bool {
    match done {
        Done::Resolved(Err(error)) | Done::Listed(Err(error)) => is_exhaustion(error),
        _ => false,
    }
}

/// The outcome of a piece of work.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The answer to a job, for [`session::Connection::done`].
    Done(JobId, Done),
    /// Sending these bytes does not wait any more. An error of the file shows when they are sent.
    Fetched,
}

/// A piece of work that came back.
#[derive(Debug)]
pub(crate) struct Returned {
    /// The key under which it was handed out.
    pub(crate) key: u64,
    pub(crate) outcome: Outcome,
}

/// Helpers, of whatever kind, that do work that may block for one loop. Watch the descriptor for
/// reading; when it is readable, call [`Help::take_back`].
pub(crate) trait Help: AsFd + Send {
    /// Whether [`Help::hand_out`] will accept work. It stays true until the next call of that.
    fn has_room(&self) -> bool;

    /// Hands out work, which comes back under this key. Check [`Help::has_room`] before a job is
    /// taken from its connection: a job cannot be put back.
    ///
    /// # Errors
    /// The work itself: too much is out.
    fn hand_out(&mut self, key: u64, work: Work) -> Result<(), Work>;

    /// Takes back the work that is done, in the order in which it was done, and makes the
    /// descriptor unreadable.
    fn take_back(&mut self) -> Vec<Returned>;
}

/// Helper threads and the work that is out. Dropping it waits for the work that is being done and
/// discards the work that waits.
pub(crate) struct Helpers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The number of pieces of work that may be out at a time, 0 < `places_max`.
    places_max: usize,
    out: usize,
}

/// The state that a loop and its helpers share.
struct Shared {
    queue: WorkQueue<(u64, Work)>,
    returned: Mutex<Vec<Returned>>,
    wake: Wake,
    run_job: RunJob,
}

impl Helpers {
    /// Starts `count` threads, for which `queue_max` pieces of work may wait besides those that are
    /// being done.
    ///
    /// # Errors
    /// No descriptor or no thread; threads that run already are ended.
    pub(crate) fn start(
        name: &str,
        count: usize,
        queue_max: usize,
        run_job: RunJob,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: WorkQueue::new(),
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

    /// The number of pieces of work that are out: waiting, being done, or done and not taken back.
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
        self.shared.queue.push((key, work));
        Ok(())
    }

    fn take_back(&mut self) -> Vec<Returned> {
        self.shared.wake.clear(); // before the take: work that is done later notifies again
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
        self.shared.queue.clear();
        self.shared.queue.close();
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // panics of jobs were caught, and others have been printed
        }
    }
}

/// Does work until there is no more, for the whole life of a helper.
fn help(shared: &Shared) {
    let mut buffer = vec![0; FETCH_BYTES];
    while let Some((key, work)) = shared.queue.next() {
        let outcome = carry_out(&*shared.run_job, work, &mut buffer);
        lock(&shared.returned).push(Returned { key, outcome });
        shared.wake.notify();
    }
}

/// Answers the job that a connection wants if that needs no waiting. Returns whether it did; if
/// not, the job is still to be handed out.
pub(crate) fn answer_at_once(connection: &mut Connection, w: &mut Worker, runner: &Runner) -> bool {
    let Some(done) = connection.job().and_then(|job| runner.run_at_once(job)) else { return false };
    let (id, _) = connection.take_job();
    connection.done(w, id, done);
    true
}

/// Does one piece of work. A panic is the failure of its job, which the job's client gets as an
/// answer.
pub(crate) fn carry_out(run_job: &dyn Fn(Job) -> Done, work: Work, buffer: &mut [u8]) -> Outcome {
    match work {
        Work::Job(id, job) => {
            let failed = failed(&job, "the job panicked"); // the panic has been printed
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
        Job::Resolve { .. } | Job::Hash(_) | Job::Application(_) => Done::Resolved(Err(why)),
        Job::List { .. } | Job::ListMore(_) => Done::Listed(Err(why)),
    }
}

/// Answers a job that a connection wants and that no helper has had time for: its client is told to
/// try again. Returns whether there was such a job.
pub(crate) fn refuse(connection: &mut Connection, w: &mut Worker) -> bool {
    if connection.job().is_none() {
        return false;
    }
    let (id, job) = connection.take_job();
    connection.done(w, id, failed(&job, "no helper had time for it"));
    true
}

/// Fetches bytes of a file by reading them: the only way to be certain that they are in memory on
/// return. Advice to the kernel would be cheaper, but only begins to fetch.
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
