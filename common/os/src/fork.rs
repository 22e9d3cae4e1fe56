//! Copies of this process that continue from the call. Not for starting programs, for which there
//! is `std::process`.
//!
//! Only a process with one thread may be copied: a copy would have the locks that other threads
//! held, but not the threads that could release them.

use crate::accounting::threads;
use crate::call::{check, error, uninterrupted};
use crate::errors::Cause;
use crate::process::end_with_parent;
use crate::signals::Signal;
use rustix::io::retry_on_intr;
use rustix::process::{Pid, WaitOptions, kill_process, waitpid};
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

/// A copy of this process that was started. Dropping this does not end it, but it is killed when
/// the process that made it ends.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    ended: Option<Ended>,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The child ended by itself, with this status.
    Exit(i32),
    /// The child was ended by this signal.
    Signal(i32),
}

/// The status of a child whose work panicked.
pub const STATUS_OF_PANIC: i32 = 101;

/// How often, and how long each time, [`fork`] waits for threads that are ending.
const WAITS: u32 = 2000;
const WAIT: Duration = Duration::from_millis(1);

/// The number of a child that has ended and has not been waited for, if there is one.
///
/// # Errors
/// None that a caller can correct.
pub fn next_ended() -> io::Result<Option<u32>> {
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    let mut information = MaybeUninit::<libc::siginfo_t>::zeroed();
    let call = || {
        // SAFETY: the pointer is to a live, writable siginfo_t of this frame.
        check(unsafe { libc::waitid(libc::P_ALL, 0, information.as_mut_ptr(), flags) })
    };
    match uninterrupted(call) {
        Err(why) if Cause::from_error(&why) == Cause::NoChild => return Ok(None),
        returned => returned?,
    };
    // SAFETY: the struct was zeroed, and zeroes are a valid value of each of its fields; the kernel
    // writes it only for a child that has ended, and leaves the number 0 if there is none.
    let pid = unsafe { information.assume_init().si_pid() };
    Ok((pid != 0).then_some(pid.cast_unsigned()))
}

/// Makes a copy of this process, which does `work` and exits with the status that `work` returns.
/// It exits at once then: nothing is dropped, and nothing flushed except by `work` itself. The copy
/// is killed when this process ends, and is the first to be killed when memory runs out.
///
/// # Errors
/// The process has had more than one thread for two seconds; no memory or no room for a process.
pub fn fork(work: impl FnOnce() -> i32) -> io::Result<Child> {
    if !becomes_single_threaded()? {
        let why = "a process with more than one thread cannot be copied";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let parent = std::process::id();
    // SAFETY: there is no other thread, so the copy's memory is consistent: no lock in it is held
    // by a thread that the copy lacks.
    if let Some(pid) = Pid::from_raw(check(unsafe { libc::fork() })?) {
        return Ok(Child { pid, ended: None });
    }
    let status = || {
        if !end_with_parent(parent) {
            return STATUS_OF_PANIC;
        }
        // Where the preference cannot be set, the kernel chooses by its own rules.
        let _ = crate::oom::end_before_parent();
        work()
    };
    let status = catch_unwind(AssertUnwindSafe(status)).unwrap_or(STATUS_OF_PANIC);
    // SAFETY: _exit takes a number and does not return.
    unsafe { libc::_exit(status) }
}

/// Whether this process has one thread only, or soon will: a thread that has been joined exists for
/// a moment more.
fn becomes_single_threaded() -> io::Result<bool> {
    for _ in 0..WAITS {
        match threads(std::process::id()).len() {
            0 => return Err(io::Error::other("/proc/self/task cannot be read")),
            1 => return Ok(true),
            _ => thread::sleep(WAIT),
        }
    }
    Ok(false)
}

impl Child {
    /// The process's number, which no other process has until this child has been waited for.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.pid.as_raw_pid().cast_unsigned()
    }

    /// How the child ended, if it has.
    pub fn try_wait(&mut self) -> io::Result<Option<Ended>> {
        self.wait_with(WaitOptions::NOHANG)
    }

    /// Waits for the child to end.
    pub fn wait(&mut self) -> io::Result<Ended> {
        self.wait_with(WaitOptions::empty())?.ok_or_else(|| error(libc::ECHILD))
    }

    /// Kills the child, unless it has been waited for.
    pub fn kill(&self) {
        self.send(rustix::process::Signal::KILL);
    }

    /// Sends the child a signal, unless it has been waited for.
    pub fn signal(&self, signal: Signal) {
        self.send(signal.raw());
    }

    fn send(&self, signal: rustix::process::Signal) {
        if self.ended.is_none() {
            // The number is still this child's: it is given to another process only after the
            // child has been waited for. So it cannot fail.
            let _ = kill_process(self.pid, signal);
        }
    }

    fn wait_with(&mut self, options: WaitOptions) -> io::Result<Option<Ended>> {
        if self.ended.is_some() {
            return Ok(self.ended);
        }
        let waited = retry_on_intr(|| waitpid(Some(self.pid), options))?;
        self.ended = waited.and_then(|(_, status)| {
            let signal = status.terminating_signal().map(Ended::Signal);
            signal.or(status.exit_status().map(Ended::Exit))
        });
        Ok(self.ended)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(STATUS_OF_PANIC) => f.write_str("it panicked"),
            Self::Exit(status) => write!(f, "it ended with status {status}"),
            Self::Signal(signal) => write!(f, "it was killed by signal {signal}"),
        }
    }
}
