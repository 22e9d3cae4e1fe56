//! The only place that asks the kernel for the time. All other code is given the time.
//!
//! The time is not cached here: an engine asks once per loop and passes the answer on.

use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::time::Duration;

/// Microseconds since the first call in this process; never goes back. The first call returns 0.
pub fn now() -> u64 {
    static ORIGIN: OnceLock<Duration> = OnceLock::new();
    let now = read(libc::CLOCK_MONOTONIC);
    let elapsed = now.saturating_sub(*ORIGIN.get_or_init(|| now));
    // 2^64 microseconds are 584,000 years.
    elapsed.as_micros() as u64
}

/// Nanoseconds of the monotonic clock of [`now`], for what takes less than a microsecond. Its
/// origin is the machine's start: only differences mean something.
pub fn now_ns() -> u64 {
    // 2^64 nanoseconds are 584 years.
    read(libc::CLOCK_MONOTONIC).as_nanos() as u64
}

/// Seconds since 1970-01-01 00:00:00 UTC, and the nanoseconds (below 1,000,000,000) on top.
pub fn unix_time() -> (i64, u32) {
    let time = read_raw(libc::CLOCK_REALTIME);
    (time.tv_sec as _, time.tv_nsec as u32)
}

/// The processor time the calling thread has used, in user and system mode.
pub fn cpu_time_thread() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The processor time all threads of the process have used, those that ended included.
pub fn cpu_time_process() -> Duration {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// The processor time all threads of the process `pid` have used, those that ended included; none
/// if there is no such process (clock_getcpuclockid(3)).
pub fn cpu_time_of(pid: u32) -> Option<Duration> {
    /// No process has a higher number (proc_sys_kernel(5)), and the C library mistakes a much
    /// higher one for another process.
    const PID_MAX: u32 = 1 << 22;
    let pid = pid.try_into().ok().filter(|_| pid <= PID_MAX)?;
    let mut clock = 0;
    // SAFETY: the pointer is to a live, writable integer of this frame.
    let refused = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    // The process may end between the two calls.
    let time = (refused == 0).then(|| try_read(clock)).flatten()?;
    Some(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

fn read(clock: libc::clockid_t) -> Duration {
    let time = read_raw(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn read_raw(clock: libc::clockid_t) -> libc::timespec {
    try_read(clock).expect("clock_gettime fails only for clocks that do not exist")
}

fn try_read(clock: libc::clockid_t) -> Option<libc::timespec> {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the pointer is to a live, writable timespec of this frame, and the kernel writes
    // at most that one struct. The struct is all integers, so zeroes are a valid value and
    // `assume_init` would be sound even if nothing had been written.
    let (returned, time) = unsafe {
        let returned = libc::clock_gettime(clock, time.as_mut_ptr());
        (returned, time.assume_init())
    };
    (returned == 0).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn the_monotonic_clock_advances_with_sleep() {
        let before = now();
        thread::sleep(Duration::from_millis(20));
        let elapsed_us = now() - before;
        assert!((20_000..10_000_000).contains(&elapsed_us), "{elapsed_us} microseconds");
    }

    #[test]
    fn unix_time_is_this_century() {
        let (seconds, nanoseconds) = unix_time();
        assert!((1_735_689_600..4_102_444_800).contains(&seconds), "{seconds}");
        assert!(nanoseconds < 1_000_000_000);
    }

    #[test]
    fn processor_time_counts_work_but_not_sleep() {
        let before = cpu_time_thread();
        thread::sleep(Duration::from_millis(50));
        let asleep = cpu_time_thread() - before;
        assert!(asleep < Duration::from_millis(40), "sleeping used {asleep:?}");

        let before = (cpu_time_thread(), cpu_time_process());
        while cpu_time_thread() - before.0 < Duration::from_millis(5) {}
        // The two clocks are read one after the other, hence not quite 5.
        assert!(cpu_time_process() - before.1 >= Duration::from_millis(4));
    }

    #[test]
    fn processor_time_of_any_process_has_that_of_threads_that_ended() {
        let own = std::process::id();
        let before = cpu_time_of(own).unwrap();
        let work = || while cpu_time_thread() < Duration::from_millis(3) {};
        thread::spawn(work).join().unwrap();
        let after = cpu_time_of(own).unwrap();
        assert!(after - before >= Duration::from_millis(3), "{before:?} {after:?}");
        assert!(cpu_time_process() >= after);
        assert!(cpu_time_of(1).is_some(), "it need not be ours");
        for absent in [u32::MAX, i32::MAX as u32, (1 << 22) + 1] {
            assert_eq!(cpu_time_of(absent), None, "{absent}");
        }
    }
}
