//! The order in which threads run that want the same CPU. Which CPUs they may run on is set in
//! `affinity`.

use crate::call::check;
use std::io;

/// Has the calling thread, when it wakes, wait until the running thread sleeps or has used up its
/// slice; by default the kernel lets a thread that wakes interrupt. The calling thread gets no less
/// time for that. Threads that it starts inherit the policy. A thread without the default policy
/// (SCHED_OTHER) keeps its own.
///
/// # Errors
/// When this process may not do so.
pub fn wake_without_interrupting() -> io::Result<()> {
    if policy()? == libc::SCHED_OTHER {
        set_policy(libc::SCHED_BATCH)?;
    }
    Ok(())
}

// The C library's functions are used for neither call: musl has none that work.

fn policy() -> io::Result<libc::c_int> {
    // SAFETY: the call takes no pointers.
    let returned = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    check(returned as libc::c_int)
}

fn set_policy(policy: libc::c_int) -> io::Result<()> {
    let priority: libc::c_int = 0;
    // SAFETY: the kernel's sched_param is one int, which lives through the call and is only read.
    let returned =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) };
    check(returned as libc::c_int).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_thread_changes_for_itself_and_those_that_it_starts() {
        let seen = thread::spawn(|| {
            wake_without_interrupting().unwrap();
            (policy().unwrap(), thread::spawn(|| policy().unwrap()).join().unwrap())
        });
        assert_eq!(seen.join().unwrap(), (libc::SCHED_BATCH, libc::SCHED_BATCH));
        assert_ne!(policy().unwrap(), libc::SCHED_BATCH, "other threads are not affected");
    }

    #[test]
    fn another_policy_is_left_as_it_is() {
        let seen = thread::spawn(|| {
            set_policy(libc::SCHED_IDLE).unwrap();
            wake_without_interrupting().unwrap();
            policy().unwrap()
        });
        assert_eq!(seen.join().unwrap(), libc::SCHED_IDLE);
    }
}
