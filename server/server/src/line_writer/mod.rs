//! Lines on their way to a file whose writer may have to wait: for a full disk, or for the reader
//! of a pipe, which may never read.
//!
//! A thread of its own writes. Other threads hand lines over and never wait: lines without room are
//! dropped and counted. At the end the writer has a bounded time for the rest; a writer that hangs
//! in a system call is left to the end of the process.

mod output;
mod queue;

use std::io::{self, Write};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub(crate) use output::Output;
pub use output::OutputError;
use queue::Task;

use crate::stop_deadline::StopDeadline;
pub(crate) use queue::{Queue, QueueLimits, empty_buffer};

/// A thread that writes lines.
pub(crate) struct LineWriter {
    queue: Arc<Queue>,
    thread: JoinHandle<()>,
}

/// What lines are written for, and where trouble with them is reported.
#[derive(Clone, Copy)]
pub(crate) struct Purpose {
    /// The thread's name.
    pub(crate) thread: &'static str,
    /// What is written, as in "cannot write the access log".
    pub(crate) what: &'static str,
    /// Called with a line when trouble begins, and not for each line that is lost: a full disk must
    /// not fill the next one with complaints.
    pub(crate) report: fn(&str),
}

/// How a writer was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed {
    /// Lines that were dropped since the start, including those that were left.
    pub(crate) dropped: u64,
    /// Whether the writer is still writing, and the wait for it was given up.
    pub(crate) hangs: bool,
}

impl LineWriter {
    /// Starts the thread. `reopen` creates the output again when a reopening is requested.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn start<W: Write + Send + 'static>(
        purpose: Purpose,
        limits: QueueLimits,
        output: W,
        reopen: impl Fn() -> Result<W, String> + Send + 'static,
    ) -> io::Result<Self> {
        let queue = Arc::new(Queue::new(purpose, limits));
        let writer = End(Arc::clone(&queue));
        let thread = thread::Builder::new().name(purpose.thread.into());
        let thread = thread.spawn(move || write_lines(&writer.0, output, reopen))?;
        Ok(Self { queue, thread })
    }

    /// The queue to which lines are handed over.
    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Takes no more lines. Returns whether the writer has written all and ended.
    pub(crate) fn begin_to_close(&self) -> bool {
        self.queue.close();
        self.queue.has_ended_within(Duration::ZERO)
    }

    /// Writes what is queued and ends the writer, if that is done before the deadline; `since_us`
    /// is when the wait began for all that is to be written.
    pub(crate) fn close(self, since_us: u64, deadline: &mut StopDeadline<'_>) -> Closed {
        /// The longest time that a writer takes that does not hang and has hardly anything to do.
        const MOMENT: Duration = Duration::from_millis(5);
        self.queue.close();
        while !self.queue.has_ended_within(MOMENT) {
            if deadline.has_passed_for_final_write(since_us) {
                self.queue.abandon();
                return Closed { dropped: self.queue.dropped(), hangs: true };
            }
        }
        if self.thread.join().is_err() {
            let Purpose { what, report, .. } = self.queue.purpose();
            report(&format!("the writer of {what} panicked: lines are missing"));
        }
        Closed { dropped: self.queue.dropped(), hangs: false }
    }
}

/// When dropped, marks the writer as ended, even after a panic.
struct End(Arc<Queue>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn write_lines<W: Write>(queue: &Queue, mut output: W, reopen: impl Fn() -> Result<W, String>) {
    loop {
        match queue.next() {
            Task::Write(lines) => {
                let outcome = output.write_all(&lines);
                queue.written(lines, &outcome);
            }
            Task::Reopen => match reopen() {
                Ok(new) => {
                    output = new;
                    queue.begin_anew();
                }
                Err(why) => (queue.purpose().report)(&format!("{why}; the old file stays in use")),
            },
            Task::End => return,
        }
    }
}

/// The number of lines in a buffer.
pub(crate) fn count_lines(lines: &[u8]) -> u64 {
    lines.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests;
