//! The files of `/proc` and `/sys` that the checks need, read once. Nothing is judged here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fast_glob::glob_match;

use super::interrupts::{self, Interface};
use super::rule::Check;

/// What the kernel says of this process, such as its user and the CPUs on which it may run.
pub const STATUS: &str = "/proc/self/status";

/// What is known of a machine.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    pub(super) files: BTreeMap<String, String>,
    /// Network interfaces and the CPUs that take their interrupts.
    pub(super) interfaces: Vec<Interface>,
    /// The directory that files are served from, without links.
    pub(super) directory: PathBuf,
    /// Why what was tried beside reading cannot be done, by what it is.
    pub(super) failures: BTreeMap<&'static str, String>,
}

impl Machine {
    /// Reads what `checks` need of this machine; files are served from `directory`.
    #[must_use]
    pub fn read(directory: &Path, checks: &[&Check]) -> Self {
        let patterns = checks.iter().flat_map(|check| check.files().iter().copied());
        let paths = patterns.flat_map(expand).chain(group_files());
        let read = |path: String| fs::read_to_string(&path).ok().map(|text| (path, text));
        Self {
            files: paths.filter_map(read).collect(),
            interfaces: interrupts::interfaces(),
            directory: fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned()),
            failures: BTreeMap::new(),
        }
    }

    /// A machine that has these files and no others.
    #[must_use]
    pub fn with_files(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        Self { files: files.collect(), ..Self::default() }
    }

    /// The machine with the knowledge that something was tried and cannot be done, and why.
    #[must_use]
    pub fn with_failure(mut self, tried: &'static str, why: String) -> Self {
        self.failures.insert(tried, why);
        self
    }

    /// Why what was tried cannot be done; none if it can, or was not tried.
    pub fn failure(&self, tried: &str) -> Option<&str> {
        self.failures.get(tried).map(String::as_str)
    }

    /// What is in a file, without the white space around it. An empty one tells nothing.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(|text| text.trim()).filter(|text| !text.is_empty())
    }

    /// The number that a file holds.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// What [`STATUS`] says under this name.
    pub fn status(&self, name: &str) -> Option<&str> {
        let mut lines = self.text(STATUS)?.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    /// Whether this process runs as root; `false` if that is not known.
    pub fn is_root(&self) -> bool {
        // Real, effective, saved, file system.
        self.status("Uid").is_some_and(|ids| ids.split_whitespace().nth(1) == Some("0"))
    }

    /// The path and contents of all files that fit, in order.
    pub fn all<'m>(&'m self, pattern: &'m str) -> impl Iterator<Item = (&'m str, &'m str)> {
        let files = self.files.iter().filter(move |(path, _)| glob_match(pattern, path));
        files.map(|(path, text)| (path.as_str(), text.trim()))
    }

    /// The limits called `name` of the control groups we are in, the outer ones included.
    pub fn of_groups<'m>(&'m self, name: &'m str) -> impl Iterator<Item = (&'m str, &'m str)> {
        self.files.iter().filter_map(move |(path, text)| {
            let folder = path.strip_suffix(name)?.strip_suffix('/')?;
            Some((folder, text.trim()))
        })
    }
}

/// The limits of control groups, and what groups made in one would have; of both versions.
const GROUP_FILES: &[&str] = &[
    "cgroup.controllers",
    "cgroup.subtree_control",
    "cpu.max",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "cpuset.cpus.effective",
    "cpuset.effective_cpus",
    "cpuset.mems.effective",
    "cpuset.effective_mems",
    "memory.max",
    "memory.high",
    "memory.limit_in_bytes",
    "io.max",
    "blkio.throttle.read_bps_device",
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_bps_device",
    "blkio.throttle.write_iops_device",
    "pids.max",
];

/// The files that may hold a limit of ours: those of our own groups, and of those around them.
fn group_files() -> Vec<String> {
    let folders = os::control_groups::folders();
    let files = folders.iter().flat_map(|folder| {
        GROUP_FILES.iter().map(move |name| folder.join(name).display().to_string())
    });
    files.collect()
}

/// The files that fit a path in which a `*` may stand for anything within a name.
fn expand(pattern: &str) -> Vec<String> {
    let mut paths = vec![String::new()];
    for part in pattern.split('/').skip(1) {
        paths = paths.iter().flat_map(|path| below(path, part)).collect();
    }
    paths
}

fn below(folder: &str, part: &str) -> Vec<String> {
    if !part.contains('*') {
        return vec![format!("{folder}/{part}")];
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| glob_match(part, name)).map(|name| format!("{folder}/{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Temporary;

    #[test]
    fn patterns_stay_within_a_name() {
        let check =
            |pattern, path, expected| assert_eq!(glob_match(pattern, path), expected, "{path}");
        check("/sys/cpu*/online", "/sys/cpu12/online", true);
        check("/sys/cpu*/online", "/sys/cpu/online", true);
        check("/sys/cpu*/online", "/sys/cp/online", false);
        check("/sys/cpu*/online", "/sys/cpu1/cpu2/online", false);
        check("/sys/online", "/sys/online", true);
    }

    #[test]
    fn patterns_find_files() {
        let root = Temporary::new();
        for name in ["cpu0/governor", "cpu1/governor", "idle/governor"] {
            root.file(name, "x");
        }
        let root = root.path().display().to_string();
        let mut found = expand(&format!("{root}/cpu*/governor"));
        found.sort_unstable();
        assert_eq!(found, ["cpu0", "cpu1"].map(|cpu| format!("{root}/{cpu}/governor")));
        assert!(expand("/no/such/*/file").is_empty());
    }

    #[test]
    fn the_status_is_found_by_its_whole_name() {
        let status = "Name:\tx\nUid:\t1000\t0\t1000\t1000\nCpus_allowed:\t3\n";
        let machine = Machine::with_files(&[(STATUS, status)]);
        assert_eq!(machine.status("Cpus_allowed"), Some("3"));
        assert_eq!(machine.status("Cpus"), None);
        assert!(machine.is_root(), "the effective one counts");
        assert!(!Machine::with_files(&[]).is_root());
    }

    #[test]
    fn limits_are_found_with_their_groups() {
        let machine =
            Machine::with_files(&[("/g/cpu.max", "max 100000\n"), ("/g/xcpu.max", "1 1")]);
        assert_eq!(machine.of_groups("cpu.max").collect::<Vec<_>>(), [("/g", "max 100000")]);
    }
}
