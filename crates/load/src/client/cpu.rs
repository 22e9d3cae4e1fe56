//! The processor time that a thread spends within the window: neither the warm-up nor the waiting
//! for late replies belongs to the requests that are measured.

use std::time::Duration;

/// Microseconds in user mode and in system mode.
pub(crate) type CpuUs = (u64, u64);

/// Reads the thread's times when it is first told that the window has begun, and that it has ended.
#[derive(Default)]
pub(super) struct Cpu {
    begin: Option<CpuUs>,
    end: Option<CpuUs>,
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

    /// What was spent, up to now if the window has not ended.
    pub(super) fn spent(&self) -> CpuUs {
        let Some(begin) = self.begin else { return (0, 0) };
        let end = self.end.unwrap_or_else(read);
        (end.0.saturating_sub(begin.0), end.1.saturating_sub(begin.1))
    }
}

/// Notes the times, unless they were noted before.
fn is_first(noted: &mut Option<CpuUs>) -> bool {
    let is_first = noted.is_none();
    if is_first {
        *noted = Some(read());
    }
    is_first
}

fn read() -> CpuUs {
    let micros = |time: Duration| time.as_micros() as u64;
    let (user, system) = os::process::cpu_times_of_thread();
    (micros(user), micros(system))
}
