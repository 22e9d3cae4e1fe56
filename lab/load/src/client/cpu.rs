//! A thread's processor times within the window: how long it ran, and how long it was ready to run
//! while other threads ran. The warm-up and the wait for late replies are left out, because they do
//! not belong to the requests that are measured.

use std::time::Duration;

/// The processor times of one thread or several, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Processor {
    /// The time in user mode and in system mode.
    pub(crate) cpu_us: (u64, u64),
    /// The time ready to run while other threads ran; none where the kernel does not count it.
    pub(crate) run_delay_us: Option<u64>,
    /// How often the threads waited for an event, and were woken.
    pub(crate) wake_ups: u64,
}

impl Processor {
    /// The difference from the earlier reading `begin`.
    fn since(self, begin: Self) -> Self {
        let both = self.run_delay_us.zip(begin.run_delay_us);
        Self {
            cpu_us: (
                self.cpu_us.0.saturating_sub(begin.cpu_us.0),
                self.cpu_us.1.saturating_sub(begin.cpu_us.1),
            ),
            run_delay_us: both.map(|(end_us, begin_us)| end_us.saturating_sub(begin_us)),
            wake_ups: self.wake_ups.saturating_sub(begin.wake_ups),
        }
    }
}

/// Reads the thread's times at the first call of [`begin_window`](Self::begin_window) and of
/// [`end_window`](Self::end_window).
#[derive(Default)]
pub(super) struct Cpu {
    begin: Option<Processor>,
    end: Option<Processor>,
}

impl Cpu {
    /// Notes that the window has begun. Returns whether this is the first call.
    pub(super) fn begin_window(&mut self) -> bool {
        is_first(&mut self.begin)
    }

    /// Notes that the window has ended. Returns whether this is the first call.
    pub(super) fn end_window(&mut self) -> bool {
        is_first(&mut self.end)
    }

    /// The thread's times within the window, up to now if it has not ended.
    pub(super) fn spent(&self) -> Processor {
        let Some(begin) = self.begin else { return Processor::default() };
        self.end.unwrap_or_else(read).since(begin)
    }
}

/// Notes the times unless they were noted before, and returns whether it did.
fn is_first(noted: &mut Option<Processor>) -> bool {
    let is_first = noted.is_none();
    if is_first {
        *noted = Some(read());
    }
    is_first
}

fn read() -> Processor {
    let micros = |time: Duration| time.as_micros() as u64;
    let (user, system) = os::process::cpu_times_of_thread();
    let run_delay = os::process::run_delay_of_thread();
    Processor {
        cpu_us: (micros(user), micros(system)),
        run_delay_us: run_delay.map(micros),
        wake_ups: os::process::wake_ups_of_thread(),
    }
}
