//! The access log: one line a request, written by a thread of the server's own process.
//!
//! Each worker formats into its own buffer ([`WorkerLog`]) and hands it over when it is full, and
//! four times a second in any case: to the queue of that thread, or in a worker process to the
//! supervisor, which runs the thread. A disk that does not keep up, or a pipe without a reader,
//! costs log lines, which are counted and reported, and never response time. This is not an error
//! log: the few messages that a server has about itself go to standard error.

mod format;
mod routes;
mod style;

pub(crate) use routes::Routes;
pub(crate) use style::{Style, StyleCell};

use std::fs;
use std::io;
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;

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
    writer: LineWriter,
    /// The file, if there was none before.
    created: Option<PathBuf>,
}

/// Reopens the log at its path; for the code that waits for SIGUSR1.
#[derive(Clone)]
pub struct Reopener(Arc<Queue>);

/// How lines get from workers to the thread that writes them, and what is to be written.
#[derive(Clone)]
pub(crate) enum LogTarget {
    /// The writing thread is in the workers' process.
    Writer(Arc<Routes>),
    /// The writing thread is in the supervisor's process. Lines are counted where the counts
    /// outlive this process.
    Supervisor { uplink: Arc<Uplink>, ledger: PlaceLedger, style: StyleCell<'static> },
}

/// A worker's end of the log.
pub struct WorkerLog {
    target: LogTarget,
    /// What is to be written.
    wanted: Style,
    /// The style of what is in the buffer.
    style: Style,
    buffer: Vec<u8>,
    lines: u64,
    /// How long the buffer gets before it is handed on.
    hand_on_at: usize,
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
        let limits = QueueLimits {
            buffer_bytes: settings.buffer_bytes as usize,
            buffers_max: settings.queue_buffers_max as usize,
        };
        let file = (settings.path != "-").then(|| PathBuf::from(&settings.path));
        // A link to a file that is not there yet is the operator's.
        let created = file.filter(|path| path.symlink_metadata().is_err());
        let output = open().map_err(StartError::AccessLog)?;
        let writer = LineWriter::start(PURPOSE, limits, output, move || {
            open().map_err(|why| why.to_string())
        })
        .map_err(StartError::system("start the writer of the access log"))?;
        Ok(Some(Self { writer, created }))
    }

    /// The queue of the writer.
    pub(crate) fn queue(&self) -> Arc<Queue> {
        Arc::clone(self.writer.queue())
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

    /// Ends a log that no worker has written to, and takes its file away if there was none before.
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

impl LogTarget {
    /// What is to be written.
    fn style(&self) -> Style {
        match self {
            Self::Writer(routes) => routes.style(),
            Self::Supervisor { style, .. } => style.get(),
        }
    }

    /// Has workers write so. In worker processes the server has done that already, for all.
    pub(crate) fn set_style(&self, style: Style) {
        if let Self::Writer(routes) = self {
            routes.set_style(style);
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
    fn renew(&mut self) -> bool {
        self.wanted = self.target.style();
        self.restyle();
        self.wanted.form != AccessForm::Off
    }

    fn record(&mut self, record: &Record<'_>) -> bool {
        if self.style != self.wanted {
            self.restyle();
        }
        match self.style.form {
            AccessForm::Off => return false,
            AccessForm::Combined => format::combined(&mut self.buffer, record),
            AccessForm::Json => format::json(&mut self.buffer, record),
        }
        self.lines += 1;
        if self.buffer.len() >= self.hand_on_at {
            self.flush();
        }
        true
    }

    fn flush(&mut self) {
        if self.lines == 0 {
            return;
        }
        match &self.target {
            LogTarget::Writer(routes) => {
                let lines = mem::take(&mut self.lines);
                routes.hand_over(self.style.form, &mut self.buffer, lines);
            }
            LogTarget::Supervisor { uplink, ledger, .. } => {
                let (uplink, ledger) = (Arc::clone(uplink), *ledger);
                self.send(&uplink, ledger);
            }
        }
    }
}

impl WorkerLog {
    /// Creates a worker's end.
    pub(crate) fn new(target: LogTarget) -> Self {
        let (wanted, style, buffer) = (Style::default(), Style::default(), Vec::new());
        Self { target, wanted, style, buffer, lines: 0, hand_on_at: 0 }
    }

    /// Writes what is wanted from now on. While a supervisor is busy that waits until it has taken
    /// the lines that there are.
    #[cold]
    fn restyle(&mut self) {
        self.flush();
        let style = self.wanted;
        if self.lines == 0 && style != self.style {
            self.buffer = match style.form {
                AccessForm::Off => Vec::new(),
                AccessForm::Combined | AccessForm::Json => empty_buffer(style.buffer_bytes),
            };
            (self.style, self.hand_on_at) = (style, style.buffer_bytes);
        }
    }

    /// Sends lines to the supervisor. While the supervisor is busy, lines are kept and sent with
    /// later ones: up to a few times the buffer, then they are dropped and counted.
    fn send(&mut self, uplink: &Uplink, ledger: PlaceLedger) {
        /// In buffers. The supervisor never blocks, so it is away for no longer than they last.
        const KEPT_MAX: usize = 8;
        let mut sent = 0;
        while sent < self.buffer.len() {
            let piece = first_lines(&self.buffer[sent..], uplink.message_bytes_max());
            let lines = count_lines(piece);
            match uplink.send_access_lines(self.style.form, piece) {
                Ok(()) => ledger.lines_written().add_together(lines),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => break,
                // The supervisor has ended, or the line is longer than any message.
                Err(_) => ledger.lines_dropped().add_together(lines),
            }
            sent += piece.len();
            self.lines -= lines;
        }
        self.buffer.drain(..sent);
        let buffer_bytes = self.style.buffer_bytes;
        if self.buffer.len() >= KEPT_MAX * buffer_bytes {
            self.drop_lines(ledger);
        }
        self.hand_on_at = self.buffer.len() + buffer_bytes;
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
