//! The process's limits on descriptors. It sets the soft limit only, never the hard one.

use crate::call::check;
use std::fs;
use std::io;

/// Raises the soft limit on open descriptors to the hard limit and returns the limit then in
/// force.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let mut limit = read()?;
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: the pointer is to a live rlimit of this frame that the kernel only reads.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    }
    descriptor_limit()
}

/// The soft limit on open descriptors: opening one more is EMFILE.
pub fn descriptor_limit() -> io::Result<u64> {
    Ok(read()?.rlim_cur as _)
}

/// How many descriptors the process has open now; 0 when /proc is not mounted. Reads a directory
/// with an entry per descriptor, so it is for reports, not for every connection.
pub fn open_descriptors() -> usize {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return 0 };
    entries.count().saturating_sub(1) // the one that reads the directory
}

fn read() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live, writable rlimit of this frame.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    Ok(limit)
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
    fn open_descriptors_are_counted() {
        // Other tests open and close descriptors at the same time: only a large step is certain.
        let before = open_descriptors();
        let files: Vec<_> = (0..300).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        assert!(open_descriptors() >= before + 200, "{before} then {}", open_descriptors());
        drop(files);
    }
}
