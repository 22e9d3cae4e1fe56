//! The processor time that a thread spends within the window: neither the warm-up nor the waiting
//! for late replies belongs to the requests that are measured.

use std::time::Duration;

/// Microseconds in user mode and in system mode.
pub(crate) type CpuUs = (u64, u64);

/// Reads the thread's times when it is told that the window begins and that it ends.
#[derive(Default)]
pub(super) struct Cpu {
    begin: Option<CpuUs>,
    end: Option<CpuUs>,
}

impl Cpu {
    pub(super) fn begin(&mut self) {
        self.begin = Some(read());
    }

    pub(super) fn end(&mut self) {
        self.end = Some(read());
    }

    /// What was spent, up to now if the window has not ended.
    pub(super) fn spent(&self) -> CpuUs {
        let Some(begin) = self.begin else { return (0, 0) };
        let end = self.end.unwrap_or_else(read);
        (end.0.saturating_sub(begin.0), end.1.saturating_sub(begin.1))
    }
}

fn read() -> CpuUs {
    let micros = |time: Duration| time.as_micros() as u64;
    let (user, system) = os::process::cpu_times_of_thread();
    (micros(user), micros(system))
}
