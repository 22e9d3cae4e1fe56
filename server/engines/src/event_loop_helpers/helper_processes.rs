//! Helper processes, as Flash had them: each does one thing at a time and reports over its socket
//! only that it is done. Its result is not an answer, but data in the kernel's memory: the loop
//! then does the work again, and finds everything there. A process shares nothing with the loop, so
//! that a fault of a file system that kills it (or an operator's `kill`) costs nothing: it is
//! replaced, and another process gets its request.
//!
//! Where there are no helpers left and none can be started, the loop waits for the disk itself.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use os::epoll::{Epoll, EventBuffer, Interest};
use os::event::Wake;
use session::{Done, Job, Known, Listings};

use super::request::{Request, encode, receive};
use crate::engine::StartHelper;
use crate::jobs::Runner;
use crate::parts::disk::helpers::{FETCH_BYTES, Help, Outcome, Returned, RunJob, Work};
use crate::parts::disk::helpers::{carry_out, failed, fetch};
use crate::parts::failures::Failures;
use crate::parts::loops::{LoopContext, Shared};

/// The bytes that a helper writes when it is ready for requests, and when it has done one.
const READY: u8 = b'r';
const DONE: u8 = b'd';
/// The byte that a helper writes before the reason why it ends.
const FAILED: u8 = b'!';

/// How long helpers may take at the start until they are ready for requests.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a helper may take to end when its socket has closed, before it is killed, in
/// milliseconds. The loop waits meanwhile.
const END_TIMEOUT_MS: u64 = 100;

/// How long after the last of too many deaths a helper is replaced, in microseconds, instead of at
/// once.
const RECOVERY_US: u64 = 1_000_000;

/// The number of helpers that a piece of work may kill before it is refused.
const KILLED_MAX: u32 = 2;

/// The key of the wake-up call among those of places.
const WAKE_KEY: u64 = u64::MAX;

/// The helper processes of one loop, and the work that is out. Dropping it kills them: they have
/// nothing that could be lost.
pub(super) struct HelperProcesses {
    start: StartHelper,
    run_job: RunJob,
    /// The state of the loops, where deaths are reported.
    shared: Arc<Shared>,
    /// The index of the loop.
    index: usize,
    epoll: Epoll,
    /// Wakes the loop for work that came back without a helper.
    wake: Wake,
    places: Vec<Option<Helper>>,
    waiting: VecDeque<Task>,
    returned: Vec<Returned>,
    /// The number of pieces of work that may be out at a time.
    out_max: usize,
    out: usize,
    /// The recent deaths of helpers, and failures to start one.
    deaths: Failures,
}

/// A piece of work.
struct Task {
    key: u64,
    work: Work,
    /// The number of helpers that it has killed.
    killed: u32,
}

/// A process.
struct Helper {
    child: Child,
    socket: UnixStream,
    task: Option<Task>,
    /// What it has written after [`FAILED`].
    failure_reason: Option<Vec<u8>>,
}

impl HelperProcesses {
    /// Starts `count` processes, for which `waiting_max` pieces of work may wait, and waits until
    /// all are ready for requests.
    ///
    /// # Errors
    /// A process cannot be started, or reports why it cannot help; the others are ended.
    pub(super) fn start(
        loop_context: &LoopContext,
        count: usize,
        waiting_max: usize,
        run_job: RunJob,
    ) -> io::Result<Self> {
        let mut helpers = Self {
            start: Arc::clone(&loop_context.start_helper),
            run_job,
            shared: Arc::clone(&loop_context.shared),
            index: loop_context.index,
            epoll: Epoll::new()?,
            wake: Wake::new()?,
            places: (0..count.max(1)).map(|_| None).collect(),
            waiting: VecDeque::new(),
            returned: Vec::new(),
            out_max: count.max(1) + waiting_max,
            out: 0,
            deaths: Failures::default(),
        };
        helpers.epoll.add(helpers.wake.as_fd(), Interest::READ, WAKE_KEY)?;
        for place in 0..helpers.places.len() {
            let failed = |why| io::Error::other(format!("helper process {place}: {why}"));
            helpers.fill(place).map_err(failed)?;
        }
        for (place, helper) in helpers.places.iter_mut().enumerate() {
            let ready = helper.as_mut().map_or(Ok(()), Helper::wait_ready);
            ready.map_err(|why| io::Error::other(format!("helper process {place}: {why}")))?;
        }
        Ok(helpers)
    }

    /// Starts the helper of a place.
    fn fill(&mut self, place: usize) -> io::Result<()> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        self.epoll.add(ours.as_fd(), Interest::READ, place as u64)?;
        let child = (self.start)(OwnedFd::from(theirs))?;
        self.places[place] = Some(Helper { child, socket: ours, task: None, failure_reason: None });
        Ok(())
    }

    /// Starts helpers in the places of those that died, if that is allowed now.
    fn refill(&mut self) {
        for place in 0..self.places.len() {
            if self.places[place].is_none()
                && self.may_start()
                && let Err(why) = self.fill(place)
            {
                self.note_death(place, &format!("cannot be started: {why}"));
            }
        }
    }

    /// Sends waiting work to idle helpers, or does it in the loop's thread if no helper is left.
    fn dispatch(&mut self) {
        self.refill();
        while !self.waiting.is_empty() {
            let is_idle =
                |helper: &Option<Helper>| helper.as_ref().is_some_and(|one| one.task.is_none());
            let place = self.places.iter().position(is_idle);
            if place.is_none() && self.places.iter().any(Option::is_some) {
                return; // all helpers are busy
            }
            let Some(task) = self.waiting.pop_front() else { return };
            match place {
                Some(place) => self.send(place, task),
                None => self.run_here(task),
            }
        }
    }

    /// Sends a task to a helper, unless the task is one that needs no helper.
    fn send(&mut self, place: usize, task: Task) {
        let Some(helper) = &mut self.places[place] else { return self.waiting.push_front(task) };
        let Some((bytes, descriptor)) = encode(&task.work) else { return self.run_here(task) };
        // The helper has no request, so that its socket is empty and the bytes fit.
        let sent = os::passing::send_with(helper.socket.as_fd(), &bytes, descriptor);
        let is_sent = sent.is_ok_and(|count| count == bytes.len());
        helper.task = Some(task);
        if !is_sent {
            self.remove_dead(place);
        }
    }

    /// Does a task in the loop's own thread, and wakes the loop for it.
    fn run_here(&mut self, task: Task) {
        let mut buffer = match task.work {
            Work::Fetch { .. } => vec![0; FETCH_BYTES],
            Work::Job(..) => Vec::new(),
        };
        let outcome = carry_out(&*self.run_job, task.work, &mut buffer);
        self.push_returned(task.key, outcome);
    }

    fn push_returned(&mut self, key: u64, outcome: Outcome) {
        self.returned.push(Returned { key, outcome });
        self.wake.notify();
    }

    /// Reads and handles the output of a helper.
    fn read_output(&mut self, place: usize) {
        let Some(helper) = &mut self.places[place] else { return };
        let mut bytes = [0; 512];
        match helper.socket.read(&mut bytes) {
            Ok(count) if count > 0 => {
                let output = &bytes[..count];
                helper.note_failure(output);
                if output.contains(&DONE) && helper.failure_reason.is_none() {
                    let task = helper.task.take();
                    task.into_iter().for_each(|task| self.finish(task));
                }
            }
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            _ => self.remove_dead(place),
        }
    }

    /// Finishes a task of which a helper has done its part: the data it needs are in memory.
    fn finish(&mut self, task: Task) {
        let outcome = match task.work {
            Work::Fetch { .. } => Outcome::Fetched,
            work @ Work::Job(..) => carry_out(&*self.run_job, work, &mut []),
        };
        self.push_returned(task.key, outcome);
    }

    /// Removes a helper that is dead or unusable: another is to do its work.
    fn remove_dead(&mut self, place: usize) {
        let Some(mut helper) = self.places[place].take() else { return };
        let _ = self.epoll.remove(helper.socket.as_fd()); // it is in the set
        let pid = helper.child.id();
        self.note_death(place, &format!("(pid {pid}) {}", helper.end()));
        let Some(mut task) = helper.task else { return };
        task.killed += 1;
        match task.work {
            _ if task.killed < KILLED_MAX => self.waiting.push_front(task),
            Work::Job(id, job) => {
                let done = failed(&job, "it killed its helpers");
                self.push_returned(task.key, Outcome::Done(id, done));
            }
            // Sending the bytes will show what is wrong with the file.
            Work::Fetch { .. } => self.push_returned(task.key, Outcome::Fetched),
        }
    }

    /// Records and reports that a helper has died, or could not be started.
    fn note_death(&mut self, place: usize, what: &str) {
        self.deaths.note(os::clock::now());
        let index = self.index;
        self.shared.add_notice(format!("helper process {place} of loop {index} {what}"));
    }

    /// Whether a helper that died is replaced now.
    fn may_start(&self) -> bool {
        let now = os::clock::now();
        !self.deaths.are_too_many(now) || self.deaths.pause_end_us(now, RECOVERY_US).is_none()
    }
}

impl Help for HelperProcesses {
    fn has_room(&self) -> bool {
        self.out < self.out_max
    }

    fn hand_out(&mut self, key: u64, work: Work) -> Result<(), Work> {
        if !self.has_room() {
            return Err(work);
        }
        self.out += 1;
        self.waiting.push_back(Task { key, work, killed: 0 });
        self.dispatch();
        Ok(())
    }

    fn take_back(&mut self) -> Vec<Returned> {
        self.wake.clear();
        let mut events = EventBuffer::with_capacity(self.places.len() + 1);
        // Until there are no more events: a loop that watches with edge triggering is not notified
        // of old ones again.
        while self.epoll.wait(&mut events, Some(0)).is_ok() && !events.is_empty() {
            for event in (0..events.len()).filter_map(|index| events.get(index)) {
                match event.key {
                    WAKE_KEY => self.wake.clear(),
                    place => self.read_output(place as usize),
                }
            }
            self.dispatch();
        }
        let returned = std::mem::take(&mut self.returned);
        self.out -= returned.len();
        returned
    }
}

impl AsFd for HelperProcesses {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Drop for HelperProcesses {
    fn drop(&mut self) {
        for helper in self.places.iter_mut().flatten() {
            let _ = helper.child.kill(); // fails if it has ended already
        }
        for helper in self.places.iter_mut().flatten() {
            let _ = helper.child.wait(); // cannot fail: it is a child of this process
        }
    }
}

impl Helper {
    fn wait_ready(&mut self) -> Result<(), String> {
        let failed = |why: io::Error| format!("does not report that it is ready: {why}");
        self.socket.set_nonblocking(false).map_err(failed)?;
        self.socket.set_read_timeout(Some(START_TIMEOUT)).map_err(failed)?;
        let mut output = Vec::new();
        // `read` would give up if this process is stopped and continued meanwhile (signal(7)).
        (&mut self.socket).take(1).read_to_end(&mut output).map_err(failed)?;
        if output != [READY] {
            self.note_failure(&output);
            return Err(self.end());
        }
        self.socket.set_nonblocking(true).map_err(failed)
    }

    fn note_failure(&mut self, output: &[u8]) {
        if let Some(reason) = &mut self.failure_reason {
            reason.extend(output);
        } else if let Some(start) = output.iter().position(|byte| *byte == FAILED) {
            self.failure_reason = Some(output[start + 1..].to_vec());
        }
    }

    /// Waits for the end of the helper, and returns the reason.
    fn end(&mut self) -> String {
        let _ = self.socket.set_nonblocking(true);
        let mut rest = Vec::new();
        let _ = self.socket.read_to_end(&mut rest); // its last output, if any
        self.note_failure(&rest);
        let status = os::process::end_within(&mut self.child, END_TIMEOUT_MS);
        if let Some(reason) = &self.failure_reason {
            return format!("ended: {}", String::from_utf8_lossy(reason));
        }
        match status {
            Ok(status) => match status.signal() {
                Some(signal) => format!("ended by signal {signal}"),
                None => format!("ended with status {}", status.code().unwrap_or_default()),
            },
            Err(why) => format!("ended: {why}"),
        }
    }
}

/// Runs a helper process until the other end of the socket is closed. The runner is made in the
/// process; if it cannot be made, the reason is sent over the socket.
///
/// # Errors
/// The socket fails, or a request that comes over it is broken.
pub fn run_helper_process(
    socket: OwnedFd,
    make_runner: impl FnOnce() -> Result<Runner, String>,
) -> io::Result<()> {
    let mut socket = UnixStream::from(socket);
    let helped = match make_runner() {
        Ok(runner) => help(&mut socket, &runner),
        Err(why) => socket.write_all(&[&[FAILED], why.as_bytes()].concat()),
    };
    match helped {
        // The loop has gone, and needs no help any more.
        Err(why) if matches!(why.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
            Ok(())
        }
        helped => helped,
    }
}

fn help(socket: &mut UnixStream, runner: &Runner) -> io::Result<()> {
    let mut buffer = vec![0; FETCH_BYTES];
    socket.write_all(&[READY])?;
    while let Some(request) = receive(socket)? {
        prepare(runner, request, &mut buffer);
        socket.write_all(&[DONE])?;
    }
    Ok(())
}

/// Does the work of a request, for the data that the kernel then has in memory.
fn prepare(runner: &Runner, request: Request, buffer: &mut [u8]) {
    let run = |job| runner.run(job);
    match request {
        Request::Fetch { file, offset, len } => fetch(&file, offset, len, buffer),
        Request::Resolve { host, path } => {
            drop(run(Job::Resolve { host, path, known: Known::Nothing }));
        }
        Request::List { host, path } => {
            let permit = Listings::new(1).begin_without_worker().expect("the first of one listing");
            let format = session::ListFormat::Json;
            let mut done = run(Job::List { host, path, format, permit });
            while let Done::Listed(Ok((_, Some(cursor)))) = done {
                done = run(Job::ListMore(cursor));
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
