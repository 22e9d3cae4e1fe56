//! Which CPUs threads may run on. This module knows CPU numbers only, not cores, caches or nodes.

use crate::call::{check, error};
use std::io::{self, ErrorKind};
use std::process;
use std::thread;

/// More CPUs than any kernel supports; keeps a wrong number from making a huge mask.
const CPUS_MAX: usize = 1 << 16;

const BITS: usize = usize::BITS as usize;

/// The CPUs the process (its first thread) may run on, ascending and never empty.
pub fn allowed_cpus() -> Vec<usize> {
    let cpus = allowed_cpus_of(process::id()).unwrap_or_default();
    if !cpus.is_empty() {
        return cpus;
    }
    (0..thread::available_parallelism().map_or(1, Into::into)).collect()
}

/// The CPUs that a thread, of any process, may run on, ascending. A process's first thread has the
/// number of the process.
///
/// # Errors
/// ESRCH if the thread has ended.
pub fn allowed_cpus_of(thread: u32) -> io::Result<Vec<usize>> {
    // 0 stands for the calling thread, and no thread has a number beyond the type.
    let thread = libc::pid_t::try_from(thread).ok().filter(|&thread| thread > 0);
    mask_of(thread.ok_or_else(|| error(libc::ESRCH))?).map(|mask| members(&mask))
}

/// Restricts the calling thread to `cpus`. CPUs that the machine or the process's cpuset lacks
/// are ignored; when none is left the result is EINVAL.
pub fn pin_thread(cpus: &[usize]) -> io::Result<()> {
    pin(0, cpus)
}

/// Restricts the thread numbered `thread`, of any process, to `cpus`; a process's first thread has
/// the number of the process. CPUs that the machine or the process's cpuset lacks are ignored; when
/// none is left the result is EINVAL. A thread that has ended is ESRCH, another user's EPERM.
pub fn pin_other(thread: u32, cpus: &[usize]) -> io::Result<()> {
    // 0 stands for the calling thread, and no thread has a number beyond the type.
    let thread = libc::pid_t::try_from(thread).ok().filter(|&thread| thread > 0);
    pin(thread.ok_or_else(|| error(libc::ESRCH))?, cpus)
}

fn pin(thread: libc::pid_t, cpus: &[usize]) -> io::Result<()> {
    let highest = cpus.iter().copied().max().unwrap_or(0);
    if highest >= CPUS_MAX {
        return Err(error(libc::EINVAL));
    }
    let mut mask = vec![0_usize; highest / BITS + 1];
    for cpu in cpus {
        mask[cpu / BITS] |= 1 << (cpu % BITS);
    }
    // SAFETY: the pointer and the size describe `mask`, which lives through the call and which
    // the kernel only reads. The C type has a fixed size, but the call takes any size in bytes.
    check(unsafe {
        libc::sched_setaffinity(thread, size_of_val(&mask[..]), mask.as_ptr().cast())
    })?;
    Ok(())
}

/// The CPU that the calling thread runs on now; unless the thread is pinned the answer may be out
/// of date at once.
pub fn current_cpu() -> usize {
    rustix::thread::sched_getcpu()
}

/// The affinity mask as native words, from the smallest buffer the kernel accepts.
fn mask_of(thread: libc::pid_t) -> io::Result<Vec<usize>> {
    let mut mask = vec![0_usize; 1_024 / BITS];
    loop {
        let size = size_of_val(&mask[..]);
        // SAFETY: the pointer and the size describe `mask`, exclusively borrowed for the call.
        // The C type has a fixed size, but the call writes no more than the size it is given.
        match check(unsafe { libc::sched_getaffinity(thread, size, mask.as_mut_ptr().cast()) }) {
            Ok(_) => return Ok(mask),
            // The kernel's own mask is larger.
            Err(error)
                if error.kind() == ErrorKind::InvalidInput && mask.len() * BITS < CPUS_MAX =>
            {
                mask.resize(mask.len() * 2, 0);
            }
            Err(error) => return Err(error),
        }
    }
}

fn members(mask: &[usize]) -> Vec<usize> {
    let is_set = |&cpu: &usize| mask[cpu / BITS] >> (cpu % BITS) & 1 == 1;
    (0..mask.len() * BITS).filter(is_set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_list;
    use std::fs;

    #[test]
    fn allowed_cpus_are_those_of_proc() {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        assert_eq!(allowed_cpus(), cpu_list::numbers(list.unwrap()));
    }

    #[test]
    fn a_pinned_thread_runs_where_it_was_put() {
        for cpu in allowed_cpus() {
            let seen = thread::spawn(move || {
                pin_thread(&[cpu]).unwrap();
                current_cpu()
            });
            assert_eq!(seen.join().unwrap(), cpu);
        }
        assert!(!allowed_cpus().is_empty(), "other threads are not affected");
    }

    #[test]
    fn threads_of_others_are_put_too() {
        let cpu = *allowed_cpus().last().unwrap();
        let mut child = process::Command::new("sleep").arg("60").spawn().unwrap();
        let pinned = pin_other(child.id(), &[cpu]);
        let allowed = allowed_cpus_of(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        pinned.unwrap();
        assert_eq!(allowed.unwrap(), [cpu]);
        for absent in [0, child.id(), u32::MAX] {
            let refused = pin_other(absent, &[cpu]).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::ESRCH), "{absent}");
            let unknown = allowed_cpus_of(absent).unwrap_err();
            assert_eq!(unknown.raw_os_error(), Some(libc::ESRCH), "{absent}");
        }
    }

    #[test]
    fn masks_that_leave_no_cpu_are_refused() {
        for cpus in [&[][..], &[CPUS_MAX - 1], &[CPUS_MAX], &[usize::MAX]] {
            let refused = thread::spawn(move || pin_thread(cpus)).join().unwrap();
            assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EINVAL), "{cpus:?}");
        }
    }

    #[test]
    fn members_are_read_across_words() {
        assert_eq!(members(&[0b101, 0, 1 << (BITS - 1)]), [0, 2, 3 * BITS - 1]);
        assert_eq!(members(&[0, 0]), [0_usize; 0]);
    }
}
