//! `ropewalk doctor`: what this machine lacks, and what that costs. A line for each thing asked.
//!
//! It reports and changes nothing. Everything missing here has a fallback in the server.

use std::fmt;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use os::files::NowaitRead;
use os::socket::{self, ListenOptions};

use crate::config::cpus;
use crate::interrupts::{self, Interface};

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub subject: &'static str,
    /// What was found.
    pub found: String,
    /// What its lack costs; nothing if all is well.
    pub cost: Option<&'static str>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.cost.is_none() { "ok  " } else { "note" };
        write!(f, "{mark} {:<18} {}", self.subject, self.found)?;
        self.cost.map_or(Ok(()), |cost| write!(f, ": {cost}"))
    }
}

/// Looks at everything, for a server of the directory `root`.
#[must_use]
pub fn examine(root: &Path) -> Vec<Finding> {
    let mut findings = vec![
        kernel(),
        openat2(),
        nowait_reads(root),
        io_uring(),
        descriptors(),
        processors(),
        reuse_port(),
        memory(),
        backlog(),
        user(),
    ];
    findings.extend(interrupts::interfaces().iter().map(network));
    findings
}

fn finding(subject: &'static str, found: impl Into<String>, cost: Option<&'static str>) -> Finding {
    Finding { subject, found: found.into(), cost }
}

fn kernel() -> Finding {
    let release = os::process::kernel_release();
    let cost = is_older(&release, (5, 6)).then_some("5.6 or newer resolves paths in one call");
    finding("kernel", release, cost)
}

/// Whether a release like `6.1.0-18-amd64` is older; one that cannot be read is not.
fn is_older(release: &str, than: (u32, u32)) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < than,
        _ => false,
    }
}

fn openat2() -> Finding {
    match os::files::openat2_available() {
        true => finding("openat2", "available", None),
        false => finding(
            "openat2",
            "not available (old kernel or container filter)",
            Some("paths are opened step by step, some microseconds more for each new file"),
        ),
    }
}

/// Whether the file system of the root can say that a read would have to wait for the disk.
fn nowait_reads(root: &Path) -> Finding {
    const SUBJECT: &str = "non-blocking reads";
    let cost = "whether a file is in memory cannot be asked; a cold one may delay others";
    match ask_nowait(root) {
        None => finding(SUBJECT, format!("not tried: no readable file in {root:?}"), None),
        Some(Ok(NowaitRead::Unsupported)) => {
            finding(SUBJECT, "not supported by this file system", Some(cost))
        }
        Some(Ok(_)) => finding(SUBJECT, "supported (RWF_NOWAIT)", None),
        Some(Err(why)) => finding(SUBJECT, format!("not available: {why}"), Some(cost)),
    }
}

/// Whether it can be asked of the files of a site whether they are in memory. Of none it can.
pub(crate) fn tells_what_is_in_memory(root: &Path) -> bool {
    matches!(ask_nowait(root), None | Some(Ok(NowaitRead::Read(_) | NowaitRead::WouldBlock)))
}

/// Asks it of some file; none if there is none.
fn ask_nowait(root: &Path) -> Option<std::io::Result<NowaitRead>> {
    let file = some_file(root)?;
    Some(os::files::read_at_nowait(file.as_fd(), &mut [0; 1], 0))
}

/// Any regular file directly in the root: the file system decides, not the file.
fn some_file(root: &Path) -> Option<OwnedFd> {
    let files = fs::read_dir(root).ok()?.flatten();
    let regular = files.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    regular.filter_map(|entry| fs::File::open(entry.path()).ok()).map(Into::into).next()
}

fn io_uring() -> Finding {
    match os::ring::check(os::ring::Sizes::LEAST) {
        Ok(()) => finding("io_uring", "available, with all that --engine rings needs", None),
        Err(why) => finding(
            "io_uring",
            format!("not available: {why}"),
            Some("--engine rings cannot start; event-loop-per-core does without"),
        ),
    }
}

fn descriptors() -> Finding {
    /// Below this a busy site runs out: 4,000 connections and as many open files.
    const ENOUGH: u64 = 8192;
    match os::limits::raise_descriptor_limit() {
        Ok(limit) => finding(
            "descriptors",
            limit.to_string(),
            (limit < ENOUGH).then_some(
                "half are for cached files, the rest bounds the connections; raise the hard limit \
                 (ulimit -Hn, LimitNOFILE=)",
            ),
        ),
        Err(why) => finding("descriptors", why.to_string(), Some("the limit cannot be read")),
    }
}

fn processors() -> Finding {
    let allowed = os::affinity::allowed_cpus();
    let share = std::thread::available_parallelism().map_or(allowed.len(), Into::into);
    let found = format!("{} ({})", allowed.len(), cpus::show(&allowed));
    match share < allowed.len() {
        false => finding("CPUs", found, None),
        true => finding(
            "CPUs",
            format!("{found}, time for {share}"),
            Some("a quota is in force: workers are not pinned"),
        ),
    }
}

fn reuse_port() -> Finding {
    let options = ListenOptions { reuse_port: true, ..ListenOptions::default() };
    match socket::listen(([127, 0, 0, 1], 0).into(), &options) {
        Ok(_) => finding("SO_REUSEPORT", "available", None),
        Err(why) => finding(
            "SO_REUSEPORT",
            format!("not available: {why}"),
            Some("only engines with one listener can run: --engine event-loop"),
        ),
    }
}

fn memory() -> Finding {
    let cost = "small bodies are cached in up to `cache.bytes_max`: keep it well below this";
    match os::memory::physical_memory_bytes() {
        Ok(bytes) => {
            finding("memory", format!("{} MiB", bytes >> 20), (bytes < 1 << 30).then_some(cost))
        }
        Err(why) => finding("memory", format!("unknown: {why}"), None),
    }
}

fn backlog() -> Finding {
    const ENOUGH: u64 = 4096;
    let limit = fs::read_to_string("/proc/sys/net/core/somaxconn").ok();
    match limit.and_then(|text| text.trim().parse::<u64>().ok()) {
        Some(limit) => finding(
            "somaxconn",
            limit.to_string(),
            (limit < ENOUGH)
                .then_some("bursts of connections are turned away: sysctl net.core.somaxconn=4096"),
        ),
        None => finding("somaxconn", "unknown: /proc is not readable", None),
    }
}

fn network(interface: &Interface) -> Finding {
    let cost = "its packets arrive at one CPU at a time: neither reuseport-cpu nor addresses for \
                each partition gain anything";
    let has_others = os::affinity::allowed_cpus().len() > 1;
    let cost = (interface.is_single() && has_others).then_some(cost);
    finding("network", interface.describe(), cost)
}

fn user() -> Finding {
    match os::process::is_root() {
        false => finding("user", "not root", None),
        true => finding("user", "root", Some("not needed: run as an ordinary user")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases() {
        let check =
            |release, expected| assert_eq!(is_older(release, (5, 6)), expected, "{release}");
        check("6.1.0-18-amd64", false);
        check("5.6.0", false);
        check("5.5.19", true);
        check("4.18.0-553.el8", true);
        check("", false);
    }

    #[test]
    fn lines() {
        let all = examine(Path::new("/proc/self/no-such"));
        assert!(all.len() >= 10);
        assert!(all.iter().all(|finding| !finding.to_string().contains('\n')));
        let line = finding("thing", "absent", Some("it costs")).to_string();
        assert_eq!(line, "note thing              absent: it costs");
    }
}
