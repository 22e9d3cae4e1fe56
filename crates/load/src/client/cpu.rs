//! What a thread had of the processor within the window: the time that it ran, and the time that it
//! was ready to run while others did. Neither the warm-up nor the waiting for late replies belongs
//! to the requests that are measured.

use std::time::Duration;

/// What a thread, or several, had of the processors, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Processor {
    /// In user mode and in system mode.
    pub(crate) cpu_us: (u64, u64),
    /// Ready to run while others ran; none where the kernel does not count it.
    pub(crate) run_delay_us: Option<u64>,
    /// How often they waited for something, and were woken.
    pub(crate) wake_ups: u64,
}

impl Processor {
    /// What came after `begin` was read.
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

/// Reads the thread's times when it is first told that the window has begun, and that it has ended.
#[derive(Default)]
pub(super) struct Cpu {
    begin: Option<Processor>,
    end: Option<Processor>,
}

impl Cpu {
    /// The window has begun. Returns whether that is news.
    pub(super) fn begin(&mut self) -> bool {
        is_first(&mut self.begin)
    }

    /// The window has ended. Returns whether that is news.
    pub(super) fn end(&mut self) -> bool {
        is_first(&mut self.end)
    }

    /// What the thread had, up to now if the window has not ended.
    pub(super) fn spent(&self) -> Processor {
        let Some(begin) = self.begin else { return Processor::default() };
        self.end.unwrap_or_else(read).since(begin)
    }
}

/// Notes the times, unless they were noted before.
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
