//! The process's limits on descriptors (only the soft limit is ever set, never the hard one), and
//! whether the machine has room for more threads and processes.

use crate::call::error;
use crate::event::Wake;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::io;
use std::os::fd::AsFd;

/// Raises the soft limit on open descriptors to the hard limit and returns the limit then in
/// force.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    }
    descriptor_limit()
}

/// Lowers the soft limit on open descriptors to `most`, if it is higher: many programs that this
/// process starts take time for each descriptor that they might have.
pub fn lower_descriptor_limit(most: u64) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current > most) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit })?;
    }
    Ok(())
}

/// Makes room in the process's descriptor table for `count` descriptors, if the limit allows them,
/// at 8 bytes of the kernel's memory for each. Where threads share the table, the thread that opens
/// the 65th, 129th, 257th … descriptor otherwise waits in the kernel until all CPUs have switched
/// contexts (`expand_files`): some milliseconds, more where they are busy.
pub fn widen_descriptor_table(count: u64) -> io::Result<()> {
    let last = count.min(descriptor_limit()?).saturating_sub(1);
    let last = libc::c_int::try_from(last).unwrap_or(libc::c_int::MAX);
    fcntl_dupfd_cloexec(Wake::new()?.as_fd(), last)?; // at `last` or above, and closed at once
    Ok(())
}

/// The soft limit on open descriptors: opening one more is EMFILE.
pub fn descriptor_limit() -> io::Result<u64> {
    Ok(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
}

/// How many descriptors the process has open now; 0 when /proc is not mounted. Reads a directory
/// with an entry per descriptor, so it is for reports, not for every connection.
pub fn open_descriptors() -> usize {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return 0 };
    entries.count().saturating_sub(1) // the one that reads the directory
}

/// Checks whether there is room before a thread or process is started, for code that starts them in
/// unbounded numbers. It leaves the machine's last process numbers to other programs: an eighth of
/// `kernel.pid_max`, without which no user could even log in.
#[derive(Debug)]
pub struct ThreadRoom {
    asked: u64,
    is_full: bool,
    has_room: fn() -> bool,
}

/// The number of threads requested between two checks of the system's limits.
const THREADS_PER_LOOK: u64 = 16;

impl Default for ThreadRoom {
    fn default() -> Self {
        Self { asked: 0, is_full: false, has_room: has_room_for_threads }
    }
}

impl ThreadRoom {
    /// Checks whether one more thread or process may be started.
    ///
    /// # Errors
    /// EAGAIN, as from the kernel when there are no numbers at all.
    pub fn check(&mut self) -> io::Result<()> {
        if self.is_full || self.asked.is_multiple_of(THREADS_PER_LOOK) {
            self.is_full = !(self.has_room)();
        }
        if self.is_full {
            return Err(error(libc::EAGAIN));
        }
        self.asked += 1;
        Ok(())
    }
}

/// Whether the machine has room for more threads; true where /proc does not say. Reads two small
/// files, which takes some microseconds.
fn has_room_for_threads() -> bool {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    has_room(&read("/proc/loadavg"), &read("/proc/sys/kernel/pid_max")).unwrap_or(true)
}

/// Whether there is room by these two files' texts. The fourth field of the load is
/// `running/existing` threads (proc_loadavg(5)).
fn has_room(load: &str, pid_max: &str) -> Option<bool> {
    let (_, existing) = load.split_whitespace().nth(3)?.split_once('/')?;
    let (existing, max): (u64, u64) = (existing.parse().ok()?, pid_max.trim().parse().ok()?);
    Some(existing < max - max / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_raised_limit_is_the_hard_limit_and_stays() {
        let raised = raise_descriptor_limit().unwrap();
        assert_eq!(raised, descriptor_limit().unwrap());
        let text = fs::read_to_string("/proc/self/limits").unwrap();
        let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let numbers: Vec<&str> = line.split_whitespace().skip(3).take(2).collect();
        assert_eq!(numbers, [raised.to_string(), raised.to_string()]);
        assert_eq!(raise_descriptor_limit().unwrap(), raised);
    }

    #[test]
    fn room_for_threads_ends_before_the_numbers_do() {
        let load = |existing: u64| format!("0.70 1.83 2.58 1/{existing} 9401\n");
        let check = |existing, expected| {
            assert_eq!(has_room(&load(existing), "32768\n"), Some(expected), "{existing}");
        };
        check(787, true);
        check(28_671, true);
        check(28_672, false);
        check(32_768, false);
        assert_eq!(has_room("", "32768"), None);
        assert!(has_room_for_threads(), "this machine has some");
    }

    #[test]
    fn a_request_is_refused_until_there_is_room_again() {
        use std::sync::atomic::{AtomicU64, Ordering};
        static LOOKS: AtomicU64 = AtomicU64::new(0);
        // Room at the first check, none at the next two, then again.
        let has_room = || ![1, 2].contains(&LOOKS.fetch_add(1, Ordering::Relaxed));
        let mut room = ThreadRoom { has_room, ..ThreadRoom::default() };
        let mut asked = (0..THREADS_PER_LOOK + 3).map(|_| room.check().is_ok());
        assert!(asked.by_ref().take(THREADS_PER_LOOK as usize).all(|granted| granted));
        assert_eq!(asked.collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(LOOKS.load(Ordering::Relaxed), 4);
    }

    /// `FDSize` is how many the table has room for (proc_pid_status(5)). Other tests share it.
    #[test]
    fn a_widened_table_has_room_and_nothing_stays_open() {
        let room = || -> u64 {
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("FDSize:"));
            line.unwrap().trim().parse().unwrap()
        };
        let limit = raise_descriptor_limit().unwrap();
        let count = limit.min(4000);
        widen_descriptor_table(count).unwrap();
        assert!(room() >= count, "{}", room());
        let last = format!("/proc/self/fd/{}", count - 1);
        assert!(fs::symlink_metadata(&last).is_err(), "{last}");
        widen_descriptor_table(0).unwrap();
        // With a limit of a container, 2^30, a table to the limit would take 8 GiB.
        if limit < 1 << 20 {
            widen_descriptor_table(u64::MAX).unwrap();
            assert!(room() >= limit, "{}", room());
        }
    }

    #[test]
    fn open_descriptors_are_counted() {
        // Other tests open and close descriptors at the same time: only a large difference proves
        // something.
        let before = open_descriptors();
        let files: Vec<_> = (0..300).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        assert!(open_descriptors() >= before + 200, "{before} then {}", open_descriptors());
        drop(files);
    }
}
