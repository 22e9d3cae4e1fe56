//! Reports of a server about itself: lines on standard error, which no thread ever waits for.
//!
//! While a server runs ([`begin`]), a thread writes them; a worker process hands its own to the
//! supervisor ([`hand_to_supervisor`]). Lines without room, because standard error is not read, are
//! counted, and the number is reported as soon as there is room. Before that, and in other
//! commands, lines are written by the thread that reports them.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, Write};
use std::panic::{self, PanicHookInfo};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::line_writer::{LineWriter, Output, Purpose, QueueLimits};
use crate::processes::Uplink;
use crate::stop_deadline::StopDeadline;

/// How lines get to standard error now.
static TARGET: Mutex<ReportTarget> = Mutex::new(ReportTarget::OnTheSpot);

#[derive(Clone)]
enum ReportTarget {
    /// The thread that has a line writes it itself, and waits.
    OnTheSpot,
    /// The line is handed to a receiver that does not wait.
    HandedOn(Arc<HandOver>),
    /// The line goes nowhere: standard error is not read, and the process is about to end.
    Nowhere,
}

/// A receiver that takes lines or refuses them, and never waits.
struct HandOver {
    take: Box<dyn Fn(&str) -> bool + Send + Sync>,
    /// The number of refused lines that has not been reported yet.
    unreported: AtomicU64,
}

/// The thread that writes reports, until [`Reporter::end`], or until this is dropped, as by a panic
/// of the thread that holds it.
pub(crate) struct Reporter(Option<LineWriter>);

/// An error that has been reported completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported;

/// Reports one line about the server itself, on standard error. A closed or full standard error is
/// no reason to stop serving: while a server runs, no thread waits for it.
pub fn report(message: &str) {
    let target = target().clone();
    match target {
        ReportTarget::OnTheSpot => {
            let _ = io::stderr().write_all(format_line(message).as_bytes());
        }
        ReportTarget::HandedOn(hand_over) => hand_over.send(message),
        ReportTarget::Nowhere => {}
    }
}

/// Starts a thread that writes reports from now on.
///
/// # Errors
/// There is no thread or no descriptor to be had.
pub(crate) fn begin() -> io::Result<Reporter> {
    /// More than a reader can be behind by; a line is some hundred bytes.
    const LIMITS: QueueLimits = QueueLimits { buffer_bytes: 256, buffers_max: 256 };
    // Trouble with standard error cannot be reported on standard error.
    let purpose = Purpose { thread: "standard-error", what: "standard error", report: |_| () };
    let reopen = || Err("it cannot be opened anew".into());
    let writer = LineWriter::start(purpose, LIMITS, Output::standard(&io::stderr())?, reopen)?;
    let queue = Arc::clone(writer.queue());
    hand_on(move |message| queue.hand_over(&mut format_line(message).into_bytes(), 1));
    panic::set_hook(Box::new(report_panic));
    Ok(Reporter(Some(writer)))
}

/// Hands reports to the supervisor from now on.
pub(crate) fn hand_to_supervisor(uplink: Arc<Uplink>) {
    hand_on(move |message| uplink.report(message).is_ok());
    panic::set_hook(Box::new(report_panic));
}

impl Reporter {
    /// Writes what is left, if that is done before the deadline. If not, later reports are
    /// discarded.
    pub(crate) fn end(mut self, deadline: &mut StopDeadline<'_>) {
        self.close(deadline);
    }

    fn close(&mut self, deadline: &mut StopDeadline<'_>) {
        let Some(writer) = self.0.take() else { return };
        let closed = writer.close(os::clock::now(), deadline);
        *target() = if closed.hangs { ReportTarget::Nowhere } else { ReportTarget::OnTheSpot };
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.close(&mut StopDeadline::passed());
    }
}

impl HandOver {
    fn send(&self, message: &str) {
        let unreported = self.unreported.swap(0, Ordering::Relaxed);
        let lost = format!("{unreported} messages were lost: standard error was not read");
        if unreported > 0 && !(self.take)(&lost) {
            self.unreported.fetch_add(unreported, Ordering::Relaxed);
        }
        if !(self.take)(message) {
            self.unreported.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn hand_on(take: impl Fn(&str) -> bool + Send + Sync + 'static) {
    let hand_over = HandOver { take: Box::new(take), unreported: AtomicU64::new(0) };
    *target() = ReportTarget::HandedOn(Arc::new(hand_over));
}

/// Reports a panic through the reporter: a bug met by one connection ends that connection, and
/// printing it must not delay the others.
fn report_panic(panic: &PanicHookInfo<'_>) {
    let thread = thread::current();
    let name = thread.name().unwrap_or("without a name");
    let backtrace = Backtrace::capture();
    match backtrace.status() {
        BacktraceStatus::Captured => report(&format!("thread {name:?} {panic}\n{backtrace}")),
        _ => report(&format!("thread {name:?} {panic}")),
    }
}

fn format_line(message: &str) -> String {
    format!("ropewalk: {message}\n")
}

fn target() -> MutexGuard<'static, ReportTarget> {
    TARGET.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_reported_before_a_panic_is_written() {
        // A writer that gets no CPU for half a second counts as one that hangs.
        testkit::undisturbed(|| match written_when_a_reporter_has_panicked() {
            Some(line) if line == b"its last words\n" => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }

    /// Has a thread report a line and panic. Returns what was written when it had ended.
    fn written_when_a_reporter_has_panicked() -> Option<Vec<u8>> {
        struct Slow(mpsc::Sender<Vec<u8>>);
        impl Write for Slow {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                thread::sleep(Duration::from_millis(50)); // as if its thread got no CPU
                self.0.send(bytes.to_vec()).map_err(io::Error::other).map(|()| bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let purpose = Purpose { thread: "test", what: "the test's lines", report: |_| () };
        let limits = QueueLimits { buffer_bytes: 64, buffers_max: 4 };
        let (sender, written) = mpsc::channel();
        let writer = LineWriter::start(purpose, limits, Slow(sender), || Err("not here".into()));
        let reporter = Reporter(Some(writer.unwrap()));
        let panicked = thread::spawn(move || {
            let queue = reporter.0.as_ref().unwrap().queue();
            assert!(queue.hand_over(&mut b"its last words\n".to_vec(), 1));
            panic!("(this message is expected)");
        });
        panicked.join().unwrap_err();
        written.try_recv().ok()
    }

    #[test]
    fn messages_without_room_are_counted_and_reported() {
        static HAS_ROOM: AtomicBool = AtomicBool::new(true);
        let messages = Arc::new(Mutex::new(Vec::new()));
        let there = Arc::clone(&messages);
        let take = move |line: &str| {
            let has_room = HAS_ROOM.load(Ordering::Relaxed);
            if has_room {
                there.lock().unwrap().push(line.to_owned());
            }
            has_room
        };
        let hand_over = HandOver { take: Box::new(take), unreported: AtomicU64::new(0) };
        hand_over.send("first");
        HAS_ROOM.store(false, Ordering::Relaxed);
        hand_over.send("second");
        hand_over.send("third");
        HAS_ROOM.store(true, Ordering::Relaxed);
        hand_over.send("fourth");
        hand_over.send("fifth");
        let lost = "2 messages were lost: standard error was not read";
        assert_eq!(*messages.lock().unwrap(), ["first", lost, "fourth", "fifth"]);
    }
}
