//! A control group of a server's own: which processes are its, and what processor time they used.
//!
//! The group is made below our own in the `cpuacct` hierarchy (version 1), or in the unified one
//! (version 2), where the kernel counts processor time without any controller. Where neither may
//! be written, [`Accounting::ProcessTree`] sums `/proc/PID/stat` over the first process and its
//! descendants, which misses short-lived children that nobody waited for and has a resolution of
//! 10 ms. The one limit that can be set is that of memory, in a second group where the hierarchies
//! are separate (version 1).

use crate::domain::Enclosing;
use crate::process;
use os::control_groups::{self, Hierarchy};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// Where the numbers of a group come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accounting {
    /// A control group, version 1: `cpuacct.usage`, in nanoseconds.
    Cpuacct,
    /// A control group, version 2: `cpu.stat`, in microseconds.
    Unified,
    /// No control group: the first process and its descendants.
    ProcessTree,
}

impl Accounting {
    /// What a reader of the results must know, if anything.
    pub fn caveat(self) -> Option<&'static str> {
        match self {
            Self::Cpuacct | Self::Unified => None,
            Self::ProcessTree => Some(
                "no control group could be made (try as root): processor time is summed over \
                 processes in steps of 10 ms, and short-lived children may be missing",
            ),
        }
    }
}

/// The processes of one server.
#[derive(Debug)]
pub struct Group {
    accounting: Accounting,
    /// The group's folder; none for a process tree.
    folder: Option<PathBuf>,
    /// The folder in the hierarchy that bounds memory, if it is bounded and another one.
    memory_folder: Option<PathBuf>,
    /// Folders of an enclosure that its processes enter too, and that are not its own.
    enclosing: Vec<PathBuf>,
    name: String,
    /// The first process, once it is known.
    root: Option<u32>,
}

impl Group {
    /// An empty group, of the best kind that this user may make.
    pub fn create() -> Self {
        Self::create_in(&Enclosing::default())
    }

    /// The same, in an enclosure: what bounds that bounds this group too.
    pub fn create_in(enclosing: &Enclosing) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ropewalk-lab-{}-{number}", std::process::id());
        let mut around: Vec<PathBuf> =
            enclosing.separate.iter().chain(&enclosing.unified).cloned().collect();
        for (accounting, parent) in parents(enclosing) {
            let folder = parent.join(&name);
            if fs::create_dir(&folder).is_ok() {
                // Who is in a folder is in those above it.
                around.retain(|above| !folder.starts_with(above));
                return Self::new(accounting, Some(folder), name, around);
            }
        }
        Self::new(Accounting::ProcessTree, None, name, around)
    }

    fn new(
        accounting: Accounting,
        folder: Option<PathBuf>,
        name: String,
        enclosing: Vec<PathBuf>,
    ) -> Self {
        Self { accounting, folder, memory_folder: None, enclosing, name, root: None }
    }

    /// Bounds the memory of the group: that of its processes, and the pages of files that they are
    /// the first to read. To be called before the first process enters.
    ///
    /// # Errors
    /// Where no such group may be made; root may, on most machines.
    pub fn limit_memory(&mut self, bytes: u64) -> Result<(), String> {
        if let Some(folder) = &self.folder
            && fs::write(folder.join("memory.max"), bytes.to_string()).is_ok()
        {
            return Ok(());
        }
        let memory = control_groups::of_controller("memory")
            .ok_or("no control group can bound memory here: there is no memory controller")?;
        let folder = memory.mount.join(&self.name);
        let explain = |why| format!("no control group can bound memory here (try as root): {why}");
        fs::create_dir(&folder).map_err(explain)?;
        self.memory_folder = Some(folder.clone());
        fs::write(folder.join("memory.limit_in_bytes"), bytes.to_string()).map_err(explain)
    }

    /// The folder that bounds memory, if it is one of its own.
    pub(crate) fn memory_folder(&self) -> Option<&Path> {
        self.memory_folder.as_deref()
    }

    /// Where the numbers come from.
    pub fn accounting(&self) -> Accounting {
        self.accounting
    }

    /// The group's folder, if it has one.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The files to which a process writes 0 to enter the group, with spaces between them. A
    /// process does so itself before it becomes the server, so that nothing it ever does is missed.
    pub(crate) fn entrances(&self) -> String {
        let folders = self.folder.iter().chain(&self.memory_folder).chain(&self.enclosing);
        let files = folders.map(|folder| folder.join("cgroup.procs").display().to_string());
        files.collect::<Vec<_>>().join(" ")
    }

    /// Says which process is the first one.
    pub(crate) fn set_root(&mut self, pid: u32) {
        self.root = Some(pid);
    }

    /// The processes in the group now.
    pub fn processes(&self) -> Vec<u32> {
        match &self.folder {
            Some(folder) => fs::read_to_string(folder.join("cgroup.procs"))
                .unwrap_or_default()
                .lines()
                .filter_map(|line| line.parse().ok())
                .collect(),
            None => self.root.map(process::descendants).unwrap_or_default(),
        }
    }

    /// Whether none of its processes runs any more. One that has ended and that nobody has waited
    /// for runs no more.
    pub fn has_ended(&self) -> bool {
        !self.processes().into_iter().any(process::is_running)
    }

    /// The processor time used by the group so far, in nanoseconds; 0 when it cannot be read.
    pub fn cpu_ns(&self) -> u64 {
        let read = |file: &str| {
            let folder = self.folder.as_ref()?;
            fs::read_to_string(folder.join(file)).ok()
        };
        match self.accounting {
            Accounting::Cpuacct => read("cpuacct.usage").and_then(|text| text.trim().parse().ok()),
            Accounting::Unified => read("cpu.stat").as_deref().and_then(usage_of_cpu_stat),
            Accounting::ProcessTree => {
                Some(self.processes().into_iter().map(process::cpu_ns).sum::<u64>())
            }
        }
        .unwrap_or(0)
    }

    /// Bytes that its processes, as far as they are there, had the disk read.
    pub fn disk_bytes_read(&self) -> u64 {
        self.processes().into_iter().map(process::disk_bytes_read).sum()
    }

    /// Kills what is in the group until it is empty.
    pub(crate) fn kill(&self) {
        // A process that forks while it is being killed leaves a child for the next turn.
        for _ in 0..200 {
            let alive = self.processes();
            if alive.is_empty() {
                return;
            }
            os::signals::send("KILL", &alive);
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        for folder in self.folder.iter().chain(&self.memory_folder) {
            // The kernel lets go of the last process a moment after it is gone.
            for _ in 0..100 {
                if fs::remove_dir(folder).is_ok() {
                    break;
                }
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// Folders in which a group might be made, the best first.
fn parents(enclosing: &Enclosing) -> Vec<(Accounting, PathBuf)> {
    let separate = control_groups::of_controller("cpuacct");
    let around = enclosing.unified.clone().map(|folder| (Accounting::Unified, folder));
    let below = |accounting| {
        // In a container our own group's path may be one that is not visible here.
        move |found: Hierarchy| [(accounting, found.own()), (accounting, found.mount)]
    };
    let separate = separate.map(below(Accounting::Cpuacct)).into_iter().flatten();
    let unified = control_groups::unified().map(below(Accounting::Unified)).into_iter().flatten();
    separate.chain(around).chain(unified).collect()
}

fn usage_of_cpu_stat(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    Some(line.parse::<u64>().ok()? * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unified_usage_is_in_microseconds() {
        let text = "usage_usec 1234\nuser_usec 1000\nsystem_usec 234\n";
        assert_eq!(usage_of_cpu_stat(text), Some(1_234_000));
        assert_eq!(usage_of_cpu_stat("nr_periods 0\n"), None);
    }
}
