//! The access log: one line a request, written by a thread of its own.
//!
//! Each worker formats into its own buffer ([`WorkerLog`]) and hands it over when it is full, and
//! four times a second in any case. A disk that does not keep up costs log lines, which are counted
//! and reported, and never response time. Processes that must not have threads write themselves
//! (`direct.rs`): there a slow disk does cost time. Several processes append to one file, whole
//! buffers at a time. Not an error log: the few things a server says about itself go to standard
//! error.

mod calendar;
mod direct;
mod exchange;
mod format;
mod output;

use std::io::{self, Write};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use session::{AccessLog, Counter, Record};

use crate::config::{AccessForm, LogSettings};
use crate::report;
use calendar::Moment;
use direct::Direct;
use exchange::{Exchange, Task, empty_buffer};
use output::Output;

pub(crate) use output::Sharing;

/// An open log.
pub struct Log {
    form: AccessForm,
    buffer_bytes: usize,
    way: Way,
    writer: Option<JoinHandle<()>>,
}

/// Makes workers' ends of a log, from any thread.
pub struct LogEnds {
    form: AccessForm,
    buffer_bytes: usize,
    way: Way,
}

/// Opens the log anew at its path; for whoever waits for SIGUSR1.
#[derive(Clone)]
pub struct Reopener(Arc<dyn Fn() + Send + Sync>);

/// A worker's end of the log.
pub struct WorkerLog {
    form: AccessForm,
    way: Way,
    buffer: Vec<u8>,
    buffer_bytes: usize,
    lines: u64,
}

/// How lines get from a worker to the file.
#[derive(Clone)]
enum Way {
    /// By the thread that writes.
    Queue(Arc<Exchange>),
    /// The worker writes itself.
    Direct(Arc<Direct>),
}

/// What has become of lines.
#[derive(Debug, Default)]
struct Tally {
    written: Counter,
    dropped: Counter,
}

impl Log {
    /// Opens the file and starts the writer, unless the log is off. `sharing` says how, where
    /// several processes write the same log.
    ///
    /// # Errors
    /// One line: the file cannot be opened, or the thread cannot be started.
    pub(crate) fn open(
        settings: &LogSettings,
        sharing: Option<Sharing>,
    ) -> Result<Option<Self>, String> {
        if settings.access == AccessForm::Off {
            return Ok(None);
        }
        let output = Output::open(&settings.path, sharing.as_ref())?;
        let tally = sharing.as_ref().map_or_else(Tally::default, Sharing::tally);
        let path = settings.path.clone();
        if let Some(sharing) = sharing.as_ref().filter(|sharing| sharing.is_single_threaded) {
            let direct = Direct::new(output, path, tally, sharing.ledger.log_generation());
            let (form, buffer_bytes) = (settings.access, settings.buffer_bytes as usize);
            let way = Way::Direct(Arc::new(direct));
            return Ok(Some(Self { form, buffer_bytes, way, writer: None }));
        }
        let reopen = move || Output::open(&path, sharing.as_ref());
        Self::start(settings, output, reopen, tally).map(Some)
    }

    /// Finds out whether the log can be opened, for those that will.
    ///
    /// # Errors
    /// One line: the file cannot be opened.
    pub(crate) fn check(settings: &LogSettings) -> Result<(), String> {
        match settings.access {
            AccessForm::Off => Ok(()),
            _ => Output::open(&settings.path, None).map(drop),
        }
    }

    /// Makes workers' ends.
    #[must_use]
    pub fn ends(&self) -> LogEnds {
        LogEnds { form: self.form, buffer_bytes: self.buffer_bytes, way: self.way.clone() }
    }

    /// Something that reopens this log.
    #[must_use]
    pub fn reopener(&self) -> Reopener {
        match &self.way {
            Way::Queue(exchange) => {
                let exchange = Arc::clone(exchange);
                Reopener::new(move || exchange.reopen())
            }
            // Its processes look at a number that the supervisor has changed already.
            Way::Direct(_) => Reopener::new(|| ()),
        }
    }

    /// Writes what is queued and ends the writer. The workers must have flushed. Returns how many
    /// lines were dropped.
    #[must_use]
    pub fn close(self) -> u64 {
        let exchange = match self.way {
            Way::Queue(exchange) => exchange,
            Way::Direct(direct) => return direct.tally().dropped.get(),
        };
        exchange.close();
        if self.writer.is_some_and(|writer| writer.join().is_err()) {
            report("the writer of the access log panicked: lines are missing");
        }
        exchange.tally().dropped.get()
    }

    fn start<W: Write + Send + 'static>(
        settings: &LogSettings,
        output: W,
        reopen: impl Fn() -> Result<W, String> + Send + 'static,
        tally: Tally,
    ) -> Result<Self, String> {
        let buffer_bytes = settings.buffer_bytes as usize;
        let queue_buffers_max = settings.queue_buffers_max as usize;
        let exchange = Arc::new(Exchange::new(buffer_bytes, queue_buffers_max, tally));
        let (form, writer_exchange) = (settings.access, Arc::clone(&exchange));
        let writer = thread::Builder::new()
            .name("access-log".into())
            .spawn(move || write_lines(&writer_exchange, output, reopen))
            .map_err(|why| format!("cannot start the writer of the access log: {why}"))?;
        Ok(Self { form, buffer_bytes, way: Way::Queue(exchange), writer: Some(writer) })
    }
}

impl LogEnds {
    /// A worker's end.
    #[must_use]
    pub fn worker(&self) -> WorkerLog {
        WorkerLog {
            form: self.form,
            way: self.way.clone(),
            buffer: empty_buffer(self.buffer_bytes),
            buffer_bytes: self.buffer_bytes,
            lines: 0,
        }
    }
}

impl Reopener {
    pub(crate) fn new(reopen: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(reopen))
    }

    /// Lines queued until now go to the old file, all later ones to the new.
    pub fn reopen(&self) {
        (self.0)();
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
            match &self.way {
                Way::Queue(exchange) => exchange.hand_over(&mut self.buffer, self.lines),
                Way::Direct(direct) => direct.write(&mut self.buffer, self.lines),
            }
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
                let outcome = output.write_all(&lines);
                exchange.tally().count(count_lines(&lines), &outcome, &mut reported);
                exchange.give_back(lines);
                if exchange.tally().dropped.get() > 0 {
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

impl Tally {
    /// Counts lines by what came of writing them, and reports the first failure.
    fn count(&self, lines: u64, outcome: &io::Result<()>, reported: &mut bool) {
        match outcome {
            Ok(()) => self.written.add_together(lines),
            Err(why) => {
                self.dropped.add_together(lines);
                report_once(reported, &format!("cannot write the access log: {why}"));
            }
        }
    }
}

#[cfg(test)]
mod tests;
