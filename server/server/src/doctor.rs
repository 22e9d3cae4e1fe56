//! Checks of the machine that only the server can make: which system calls it may make, and what it
//! does without. They are a part of `ropewalk doctor`; its other checks, of files of the kernel,
//! are in the crate `doctor`.
//!
//! The checks report and change nothing. For everything that is missing the server has a fallback.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use doctor::{Check, Finding, Reading, Rule, Section};
use os::files::NowaitRead;
use os::socket::{self, ListenOptions};

use os::cpu_list;

/// The part that all checks have in common.
const TRIED: Check = Check {
    section: Section::Serving,
    subject: "",
    source: "Ropewalk itself: tried, not read",
    good: "",
    cost: "",
    mend: "",
    rule: Rule::Tried,
};

/// All checks.
pub const CHECKS: &[Check] =
    &[KERNEL, OPENAT2, NOWAIT_READS, IO_URING, DESCRIPTORS, PROCESSORS, REUSE_PORT, MEMORY, USER];

const KERNEL: Check = Check {
    subject: "kernel",
    good: "5.6 or newer",
    cost: "5.6 or newer resolves paths in one call",
    mend: "install a newer kernel",
    ..TRIED
};

const OPENAT2: Check = Check {
    subject: "openat2",
    good: "available",
    cost: "paths are opened step by step, some microseconds more for each new file",
    mend: "a kernel since 5.6; in a container: let its filter allow openat2",
    ..TRIED
};

const NOWAIT_READS: Check = Check {
    subject: "non-blocking reads",
    good: "supported (RWF_NOWAIT)",
    cost: "whether a file is in memory cannot be asked; a cold one may delay others",
    mend: "serve from ext4, xfs, btrfs or tmpfs; in a container: let its filter allow preadv2",
    ..TRIED
};

const IO_URING: Check = Check {
    subject: "io_uring",
    good: "available, with all that --engine rings needs",
    cost: "--engine rings cannot start; event-loop-per-core does without",
    mend: "sysctl -w kernel.io_uring_disabled=0; in a container: let its filter allow io_uring_*",
    ..TRIED
};

const DESCRIPTORS: Check = Check {
    subject: "descriptors",
    good: "at least 8192: 4,000 connections and as many open files",
    cost: "half are for cached files, the rest bounds the connections",
    mend: "raise the hard limit: prlimit --pid $$ --nofile=1048576 (as root), LimitNOFILE=",
    ..TRIED
};

const PROCESSORS: Check = Check {
    subject: "CPUs",
    good: "time for all that may be used",
    cost: "a quota is in force: workers are not pinned",
    mend: "start it without one: no docker run --cpus, no CPUQuota=",
    ..TRIED
};

const REUSE_PORT: Check = Check {
    subject: "SO_REUSEPORT",
    good: "available",
    cost: "only engines with one listener can run: --engine event-loop",
    mend: "a kernel since 3.9; in a container: let its filter allow the option",
    ..TRIED
};

const MEMORY: Check = Check {
    subject: "memory",
    good: "at least 1 GiB that may be used",
    cost: "small bodies are cached in up to `cache.bytes_max`: keep it well below this",
    mend: "--set cache.bytes_max=64MiB, or a larger machine or limit of its control group",
    ..TRIED
};

const USER: Check = Check {
    subject: "user",
    good: "an ordinary one; root is for measuring only",
    cost: "nothing",
    mend: "nothing to fix",
    ..TRIED
};

/// Makes all checks, for a server of the directory `root`.
#[must_use]
pub fn examine(root: &Path) -> Vec<Finding> {
    vec![
        KERNEL.finding(kernel(&os::process::kernel_release())),
        OPENAT2.finding(openat2(os::files::openat2_available())),
        NOWAIT_READS.finding(nowait_reads(root)),
        IO_URING.finding(io_uring()),
        DESCRIPTORS.finding(descriptors(os::limits::raise_descriptor_limit())),
        PROCESSORS.finding(processors()),
        REUSE_PORT.finding(reuse_port()),
        MEMORY.finding(memory(os::memory::usable_memory_bytes())),
        USER.finding(user(os::process::is_root())),
    ]
}

fn kernel(release: &str) -> Reading {
    Reading::fine_if(!is_older(release, (5, 6)), release)
}

/// Whether a release like `6.1.0-18-amd64` is older than `than`; a release that cannot be parsed is
/// not.
fn is_older(release: &str, than: (u32, u32)) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < than,
        _ => false,
    }
}

fn openat2(is_available: bool) -> Reading {
    match is_available {
        true => Reading::fine("available"),
        false => Reading::wrong("not available (old kernel or container filter)"),
    }
}

/// Checks whether the file system of the root can report that a read would have to wait for the
/// disk.
fn nowait_reads(root: &Path) -> Reading {
    match try_nowait_read(root) {
        None => Reading::unreadable(format!("not tried: no readable file in {root:?}")),
        Some(Ok(NowaitRead::Unsupported)) => Reading::wrong("not supported by this file system"),
        Some(Ok(_)) => Reading::fine("supported (RWF_NOWAIT)"),
        Some(Err(why)) => Reading::wrong(format!("not available: {why}")),
    }
}

/// Whether the file system of `root` reports whether files are in memory. Without a file to try,
/// yes.
pub(crate) fn supports_nowait_reads(root: &Path) -> bool {
    matches!(try_nowait_read(root), None | Some(Ok(NowaitRead::Read(_) | NowaitRead::WouldBlock)))
}

/// Tries a read that must not wait on some file in the root; none if there is no file.
fn try_nowait_read(root: &Path) -> Option<std::io::Result<NowaitRead>> {
    let file = some_file(root)?;
    Some(os::files::read_at_nowait(file.as_fd(), &mut [0; 1], 0))
}

/// Opens any regular file directly in the root: the file system decides the result, not the file.
fn some_file(root: &Path) -> Option<OwnedFd> {
    let files = fs::read_dir(root).ok()?.flatten();
    let regular = files.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    regular.filter_map(|entry| fs::File::open(entry.path()).ok()).map(Into::into).next()
}

fn io_uring() -> Reading {
    match os::ring::check(os::ring::Sizes::LEAST) {
        Ok(()) => Reading::fine("available, with all that --engine rings needs"),
        Err(why) => Reading::wrong(format!("not available: {why}")),
    }
}

fn descriptors(limit: std::io::Result<u64>) -> Reading {
    /// With fewer descriptors a busy site runs out: 4,000 connections and as many open files.
    const ENOUGH: u64 = 8192;
    match limit {
        Ok(limit) => Reading::fine_if(limit >= ENOUGH, limit.to_string()),
        Err(why) => Reading::unreadable(why.to_string()),
    }
}

fn processors() -> Reading {
    let allowed = os::affinity::allowed_cpus();
    let share = std::thread::available_parallelism().map_or(allowed.len(), Into::into);
    let found = format!("{} ({})", allowed.len(), cpu_list::show(&allowed));
    match share < allowed.len() {
        false => Reading::fine(found),
        true => Reading::wrong(format!("{found}, time for {share}")),
    }
}

fn reuse_port() -> Reading {
    let options = ListenOptions { reuse_port: true, ..ListenOptions::default() };
    match socket::listen(([127, 0, 0, 1], 0).into(), &options) {
        Ok(_) => Reading::fine("available"),
        Err(why) => Reading::wrong(format!("not available: {why}")),
    }
}

fn memory(bytes: std::io::Result<u64>) -> Reading {
    match bytes {
        Ok(bytes) => Reading::fine_if(bytes >= 1 << 30, format!("{} MiB", bytes >> 20)),
        Err(why) => Reading::unreadable(why.to_string()),
    }
}

fn user(is_root: bool) -> Reading {
    Reading::fine(if is_root { "root: not needed for serving" } else { "not root" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use doctor::Verdict;

    #[test]
    fn releases() {
        let check =
            |release, expected| assert_eq!(is_older(release, (5, 6)), expected, "{release}");
        check("6.1.0-18-amd64", false);
        check("5.6.0", false);
        check("5.5.19", true);
        check("4.18.0-553.el8", true);
        check("", false);
        assert_eq!(kernel("5.5.19").verdict, Verdict::Wrong);
    }

    #[test]
    fn good_and_bad() {
        let check =
            |reading: Reading, expected| assert_eq!(reading.verdict, expected, "{reading:?}");
        check(openat2(true), Verdict::Fine);
        check(openat2(false), Verdict::Wrong);
        check(descriptors(Ok(8192)), Verdict::Fine);
        check(descriptors(Ok(8191)), Verdict::Wrong);
        check(descriptors(Err(std::io::ErrorKind::Other.into())), Verdict::Unreadable);
        check(memory(Ok(1 << 30)), Verdict::Fine);
        check(memory(Ok(1 << 29)), Verdict::Wrong);
        check(memory(Err(std::io::ErrorKind::Other.into())), Verdict::Unreadable);
        check(user(true), Verdict::Fine);
    }

    /// Each check is made once, in the order of the table, and has a result of one line.
    #[test]
    fn every_check_is_made() {
        let all = examine(Path::new("/proc/self/no-such"));
        let asked: Vec<&str> = all.iter().map(|finding| finding.subject.as_str()).collect();
        let expected: Vec<&str> = CHECKS.iter().map(|check| check.subject).collect();
        assert_eq!(asked, expected);
        assert!(all.iter().all(|finding| !finding.found.contains('\n')));
    }
}
