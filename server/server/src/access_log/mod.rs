//! The access log: one line a request, written by a thread of the server's own process.
//!
//! Each worker formats into its own buffer ([`WorkerLog`]) and hands it over when it is full, and
//! four times a second in any case: to the queue of that thread, or in a worker process to the
//! supervisor, which runs the thread. A disk that does not keep up, or a pipe without a reader,
//! costs log lines, which are counted and reported, and never response time. This is not an error
//! log: the few messages that a server has about itself go to standard error.

mod format;

use std::fs;
use std::io;
use std::mem;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use session::{AccessLog, Record};

use crate::config::{AccessForm, LogSettings};
use crate::line_writer::{
    Closed, LineWriter, Output, Purpose, Queue, QueueLimits, count_lines, empty_buffer,
};
use crate::processes::{PlaceLedger, Uplink};
use crate::report;
use crate::start_error::StartError;
use crate::stop_deadline::StopDeadline;

/// An open log.
pub struct Log {
    form: AccessForm,
    limits: QueueLimits,
    writer: LineWriter,
    route: Arc<Route>,
    /// The file, if there was none before.
    created: Option<PathBuf>,
}

/// The way of lines to the writer of the log that is in use, which may be another from one buffer
/// to the next.
pub(crate) struct Route(Mutex<Arc<Queue>>);

/// Creates workers' ends of a log, from any thread.
#[derive(Clone)]
pub struct LogEnds {
    form: AccessForm,
    buffer_bytes: usize,
    target: LogTarget,
}

/// Reopens the log at its path; for the code that waits for SIGUSR1.
#[derive(Clone)]
pub struct Reopener(Arc<Queue>);

/// A worker's end of the log.
pub struct WorkerLog {
    form: AccessForm,
    target: LogTarget,
    buffer: Vec<u8>,
    buffer_bytes: usize,
    lines: u64,
    /// How long the buffer gets before it is handed on.
    hand_on_at: usize,
}

/// How lines get from a worker to the thread that writes them.
#[derive(Clone)]
enum LogTarget {
    /// The writing thread is in the worker's process.
    Writer(Arc<Route>),
    /// The writing thread is in the supervisor's process. Lines are counted where the counts
    /// outlive this process.
    Supervisor { uplink: Arc<Uplink>, ledger: PlaceLedger },
}

const PURPOSE: Purpose = Purpose { thread: "access-log", what: "the access log", report };

impl Log {
    /// Opens the file and starts the writer, unless the log is off.
    ///
    /// # Errors
    /// The file cannot be opened, or the thread cannot be started.
    pub(crate) fn open(settings: &LogSettings) -> Result<Option<Self>, StartError> {
        if settings.access == AccessForm::Off {
            return Ok(None);
        }
        let path = settings.path.clone();
        let open = move || Output::open(PURPOSE.what, &path);
        let limits = limits(settings);
        let file = (settings.path != "-").then(|| PathBuf::from(&settings.path));
        // A link to a file that is not there yet is somebody's.
        let created = file.filter(|path| path.symlink_metadata().is_err());
        let output = open().map_err(StartError::AccessLog)?;
        let writer = LineWriter::start(PURPOSE, limits, output, move || {
            open().map_err(|why| why.to_string())
        })
        .map_err(StartError::system("start the writer of the access log"))?;
        let route = Arc::new(Route(Mutex::new(Arc::clone(writer.queue()))));
        Ok(Some(Self { form: settings.access, limits, writer, route, created }))
    }

    /// Returns a maker of workers' ends.
    #[must_use]
    pub fn ends(&self) -> LogEnds {
        let target = LogTarget::Writer(self.route());
        LogEnds { form: self.form, buffer_bytes: self.limits.buffer_bytes, target }
    }

    /// The way of lines of worker processes.
    pub(crate) fn route(&self) -> Arc<Route> {
        Arc::clone(&self.route)
    }

    /// The queue of the writer.
    pub(crate) fn queue(&self) -> Arc<Queue> {
        Arc::clone(self.writer.queue())
    }

    /// Has the lines of workers come here that have ends of another log, of the same form.
    pub(crate) fn follow(&mut self, other: &Self) {
        self.route = other.route();
        *self.route.queue() = self.queue();
    }

    /// Returns a handle that reopens this log.
    #[must_use]
    pub fn reopener(&self) -> Reopener {
        Reopener(self.queue())
    }

    /// Takes no more lines. Returns whether all are written. The workers must have flushed.
    pub(crate) fn begin_to_close(&self) -> bool {
        self.writer.begin_to_close()
    }

    /// Ends a log that nobody has written to, and takes its file away if there was none before.
    pub(crate) fn discard(self) {
        self.writer.close(os::clock::now(), &mut StopDeadline::passed());
        let is_empty = |path: &PathBuf| fs::metadata(path).is_ok_and(|file| file.len() == 0);
        if let Some(path) = self.created.filter(is_empty) {
            let _ = fs::remove_file(path); // else it stays, and is empty
        }
    }

    /// Writes what is queued and ends the writer, if that is done before the deadline; `since_us`
    /// is when the wait began. The workers must have flushed.
    pub(crate) fn close(self, since_us: u64, deadline: &mut StopDeadline<'_>) -> Closed {
        self.writer.close(since_us, deadline)
    }
}

fn limits(settings: &LogSettings) -> QueueLimits {
    QueueLimits {
        buffer_bytes: settings.buffer_bytes as usize,
        buffers_max: settings.queue_buffers_max as usize,
    }
}

impl Route {
    /// Hands the lines in a buffer over ([`Queue::hand_over`]). They are in the queue before
    /// another can take its place.
    pub(crate) fn hand_over(&self, buffer: &mut Vec<u8>, lines: u64) -> bool {
        self.queue().hand_over(buffer, lines)
    }

    fn queue(&self) -> MutexGuard<'_, Arc<Queue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogEnds {
    /// The log ends of a worker process; none if the log is off.
    pub(crate) fn for_worker_process(
        settings: &LogSettings,
        uplink: &Arc<Uplink>,
        ledger: PlaceLedger,
    ) -> Option<Self> {
        let target = LogTarget::Supervisor { uplink: Arc::clone(uplink), ledger };
        let (form, buffer_bytes) = (settings.access, settings.buffer_bytes as usize);
        (form != AccessForm::Off).then_some(Self { form, buffer_bytes, target })
    }

    /// Creates a worker's end.
    #[must_use]
    pub fn worker(&self) -> WorkerLog {
        WorkerLog {
            form: self.form,
            target: self.target.clone(),
            buffer: empty_buffer(self.buffer_bytes),
            buffer_bytes: self.buffer_bytes,
            lines: 0,
            hand_on_at: self.buffer_bytes,
        }
    }
}

impl Reopener {
    /// Lines queued until now go to the old file, all later ones to the new.
    pub fn reopen(&self) {
        self.0.reopen();
    }
}

impl AccessLog for WorkerLog {
    fn record(&mut self, record: &Record<'_>) {
        match self.form {
            AccessForm::Json => format::json(&mut self.buffer, record),
            _ => format::combined(&mut self.buffer, record),
        }
        self.lines += 1;
        if self.buffer.len() >= self.hand_on_at {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.lines == 0 {
            return;
        }
        match &self.target {
            LogTarget::Writer(route) => {
                route.hand_over(&mut self.buffer, mem::take(&mut self.lines));
            }
            LogTarget::Supervisor { uplink, ledger } => {
                let (uplink, ledger) = (Arc::clone(uplink), *ledger);
                self.send(&uplink, ledger);
            }
        }
    }
}

impl WorkerLog {
    /// Sends lines to the supervisor. While the supervisor is busy, lines are kept and sent with
    /// later ones: up to a few times the buffer, then they are dropped and counted.
    fn send(&mut self, uplink: &Uplink, ledger: PlaceLedger) {
        /// In buffers. The supervisor never blocks, so it is away for no longer than they last.
        const KEPT_MAX: usize = 8;
        let mut sent = 0;
        while sent < self.buffer.len() {
            let piece = first_lines(&self.buffer[sent..], uplink.message_bytes_max());
            let lines = count_lines(piece);
            match uplink.send_access_lines(piece) {
                Ok(()) => ledger.lines_written().add_together(lines),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => break,
                // The supervisor has ended, or the line is longer than any message.
                Err(_) => ledger.lines_dropped().add_together(lines),
            }
            sent += piece.len();
            self.lines -= lines;
        }
        self.buffer.drain(..sent);
        if self.buffer.len() >= KEPT_MAX * self.buffer_bytes {
            self.drop_lines(ledger);
        }
        self.hand_on_at = self.buffer.len() + self.buffer_bytes;
    }

    fn drop_lines(&mut self, ledger: PlaceLedger) {
        ledger.lines_dropped().add_together(mem::take(&mut self.lines));
        self.buffer.clear();
    }
}

impl Drop for WorkerLog {
    /// Counts the lines that could not be flushed.
    fn drop(&mut self) {
        if let LogTarget::Supervisor { ledger, .. } = self.target {
            self.drop_lines(ledger);
        }
    }
}

/// Returns the whole lines at the beginning of `lines` that fit into `bytes_max` bytes; at least
/// one line.
fn first_lines(lines: &[u8], bytes_max: usize) -> &[u8] {
    if lines.len() <= bytes_max {
        return lines;
    }
    let is_end = |byte: &u8| *byte == b'\n';
    let last = lines[..bytes_max].iter().rposition(is_end);
    let end = last.or_else(|| lines.iter().position(is_end)).map_or(lines.len(), |at| at + 1);
    &lines[..end]
}

#[cfg(test)]
mod tests;
