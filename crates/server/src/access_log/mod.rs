//! The access log: one line a request, written by a thread of its own.
//!
//! Each worker formats into its own buffer ([`WorkerLog`]) and hands it over when it is full, and
//! four times a second in any case. A disk that does not keep up costs log lines, which are counted
//! and reported, and never response time. Not an error log: the few things a server says about
//! itself go to standard error.

mod calendar;
mod exchange;
mod format;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use session::{AccessLog, Record};

use crate::config::{AccessForm, LogSettings};
use crate::report;
use calendar::Moment;
use exchange::{Exchange, Task};

/// An open log with its writer thread.
pub struct Log {
    exchange: Arc<Exchange>,
    form: AccessForm,
    buffer_bytes: usize,
    writer: JoinHandle<()>,
}

/// Makes workers' ends of a log, from any thread.
pub struct LogEnds {
    exchange: Arc<Exchange>,
    form: AccessForm,
    buffer_bytes: usize,
}

/// Opens the log anew at its path; for whoever waits for SIGUSR1.
#[derive(Clone)]
pub struct Reopener(Arc<Exchange>);

/// A worker's end of the log.
pub struct WorkerLog {
    exchange: Arc<Exchange>,
    form: AccessForm,
    buffer: Vec<u8>,
    buffer_bytes: usize,
    lines: u64,
}

impl Log {
    /// Opens the file and starts the writer, unless the log is off.
    ///
    /// # Errors
    /// One line: the file cannot be opened, or the thread cannot be started.
    pub fn open(settings: &LogSettings) -> Result<Option<Self>, String> {
        if settings.access == AccessForm::Off {
            return Ok(None);
        }
        let output = Output::open(&settings.path)?;
        let path = settings.path.clone();
        let reopen = move || Output::open(&path);
        Self::start(settings, output, reopen).map(Some)
    }

    /// Makes workers' ends.
    #[must_use]
    pub fn ends(&self) -> LogEnds {
        let exchange = Arc::clone(&self.exchange);
        LogEnds { exchange, form: self.form, buffer_bytes: self.buffer_bytes }
    }

    /// Something that reopens this log.
    #[must_use]
    pub fn reopener(&self) -> Reopener {
        Reopener(Arc::clone(&self.exchange))
    }

    /// Writes what is queued and ends the writer. The workers must have flushed. Returns how many
    /// lines were dropped.
    #[must_use]
    pub fn close(self) -> u64 {
        self.exchange.close();
        if self.writer.join().is_err() {
            report("the writer of the access log panicked: lines are missing");
        }
        self.exchange.lines_dropped()
    }

    fn start<W: Write + Send + 'static>(
        settings: &LogSettings,
        output: W,
        reopen: impl Fn() -> Result<W, String> + Send + 'static,
    ) -> Result<Self, String> {
        let buffer_bytes = settings.buffer_bytes as usize;
        let exchange = Arc::new(Exchange::new(buffer_bytes, settings.queue_buffers_max as usize));
        let (form, writer_exchange) = (settings.access, Arc::clone(&exchange));
        let writer = thread::Builder::new()
            .name("access-log".into())
            .spawn(move || write_lines(&writer_exchange, output, reopen))
            .map_err(|why| format!("cannot start the writer of the access log: {why}"))?;
        Ok(Self { exchange, form, buffer_bytes, writer })
    }
}

impl LogEnds {
    /// A worker's end.
    #[must_use]
    pub fn worker(&self) -> WorkerLog {
        WorkerLog {
            exchange: Arc::clone(&self.exchange),
            form: self.form,
            buffer: self.exchange.empty_buffer(),
            buffer_bytes: self.buffer_bytes,
            lines: 0,
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
        let moment = Moment::new(record.unix_us);
        match self.form {
            AccessForm::Json => format::json(&mut self.buffer, record, &moment),
            _ => format::combined(&mut self.buffer, record, &moment),
        }
        self.lines += 1;
        if self.buffer.len() >= self.buffer_bytes {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.lines > 0 {
            self.exchange.hand_over(&mut self.buffer, self.lines);
            self.lines = 0;
        }
    }
}

/// The writer thread. Lost lines are reported when they begin and at the end, not one by one: a
/// full disk must not fill the next one with complaints.
fn write_lines<W: Write>(
    exchange: &Exchange,
    mut output: W,
    reopen: impl Fn() -> Result<W, String>,
) {
    let mut reported = false;
    loop {
        match exchange.next() {
            Task::Write(lines) => {
                if let Err(why) = output.write_all(&lines) {
                    exchange.count_dropped(count_lines(&lines));
                    report_once(&mut reported, &format!("cannot write the access log: {why}"));
                }
                exchange.give_back(lines);
                if exchange.lines_dropped() > 0 {
                    report_once(&mut reported, "the access log cannot keep up: lines are dropped");
                }
            }
            Task::Reopen => match reopen() {
                Ok(new) => (output, reported) = (new, false),
                Err(why) => report(&format!("{why}; the old file stays in use")),
            },
            Task::End => return,
        }
    }
}

fn report_once(reported: &mut bool, message: &str) {
    if !std::mem::replace(reported, true) {
        report(message);
    }
}

fn count_lines(lines: &[u8]) -> u64 {
    lines.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Where lines go. Written without a buffer in between: they come in buffers.
enum Output {
    File(File),
    Standard,
}

impl Output {
    fn open(path: &str) -> Result<Self, String> {
        if path == "-" {
            return Ok(Self::Standard);
        }
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.map(Self::File).map_err(|why| format!("cannot open the access log {path:?}: {why}"))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Standard => {
                // The standard library's buffer ends at the last newline, and so does ours.
                let mut out = io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush()).map(|()| bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // nothing is held back
    }
}

#[cfg(test)]
mod tests;
