//! A control group for each server: which processes belong to it, and what processor time they
//! used.
//!
//! The group is made below our own in the `cpuacct` hierarchy (version 1), or in the unified one
//! (version 2), where the kernel counts processor time without any controller. Where neither may be
//! written, [`Accounting::ProcessTree`] sums `/proc/PID/stat` over the first process and its
//! process group and their descendants, which misses short-lived children that their parent never
//! waited for; the time of children that were waited for, and of threads that ended, is known in
//! steps of 10 ms. The one limit that can be set is that of memory, in a second group where the
//! hierarchies are separate (version 1).
//!
//! A group is removed when it is dropped; a [`Guard`](os::guard::Guard) removes the group of a lab
//! that is killed, and where both are killed, the next lab does, if the group is empty by then.

use crate::process;
use crate::testbed::{Enclosing, names, no_controller};
use os::control_groups::{self, Hierarchy};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::thread;
use std::time::Duration;

/// Where the numbers of a group come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accounting {
    /// A control group, version 1: `cpuacct.usage`, in nanoseconds.
    Cpuacct,
    /// A control group, version 2: `cpu.stat`, in microseconds.
    Unified,
    /// No control group: the first process, its process group and their descendants.
    ProcessTree,
}

impl Accounting {
    /// What a reader of the results must know, if anything.
    pub fn caveat(self) -> Option<&'static str> {
        match self {
            Self::Cpuacct | Self::Unified => None,
            Self::ProcessTree => Some(if os::process::is_root() { NO_GROUP } else { NO_GROUP_YET }),
        }
    }
}

const NO_GROUP: &str = "no control group could be made: processor time is summed over processes, \
                        and that of short-lived children and threads may be missing";

/// The caveat of a process tree where no control group could be made and the user, who is not root,
/// has a way to change that.
const NO_GROUP_YET: &str = "no control group could be made (try as root): processor time is summed \
                            over processes, and that of short-lived children and threads may be \
                            missing";

/// A hint where something is refused: try as root. Empty if this process has all rights.
pub(crate) fn as_root() -> &'static str {
    if os::process::is_root() { "" } else { " (try as root)" }
}

/// The processes of one server.
#[derive(Debug)]
pub struct Group {
    accounting: Accounting,
    /// The group's folder; none for a process tree.
    folder: Option<PathBuf>,
    /// The folder in the hierarchy that bounds memory, if memory is bounded in another folder.
    memory_folder: Option<PathBuf>,
    /// Folders of an enclosure that the group's processes enter too, and that do not belong to it.
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

    /// An empty group, of the best kind that this user may make, in an enclosure: what bounds the
    /// enclosure bounds this group too.
    pub fn create_in(enclosing: &Enclosing) -> Self {
        static SWEPT: Once = Once::new();
        SWEPT.call_once(remove_leftovers);
        let name = names::unique_for_server();
        let mut around: Vec<PathBuf> =
            enclosing.separate.iter().chain(&enclosing.unified).cloned().collect();
        for (accounting, parent) in parents(enclosing) {
            let folder = parent.join(&name);
            if fs::create_dir(&folder).is_ok() {
                // A process in a folder is also in the folders above it.
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
    /// the first to read. Must be called before the first process enters.
    ///
    /// # Errors
    /// Where no such group may be made; root may make one on most machines.
    pub fn limit_memory(&mut self, bytes: u64) -> Result<(), String> {
        let bound = |folder: &Path| fs::write(folder.join("memory.max"), bytes.to_string());
        if self.folder.as_deref().is_some_and(|folder| bound(folder).is_ok()) {
            return Ok(());
        }
        let explain = |why: &dyn std::fmt::Display| {
            format!("no control group can bound memory here{}: {why}", as_root())
        };
        if let Some(memory) = control_groups::hierarchy_with_controller("memory") {
            let folder = memory.mount.join(&self.name);
            fs::create_dir(&folder).map_err(|why| explain(&why))?;
            self.memory_folder = Some(folder.clone());
            let file = folder.join("memory.limit_in_bytes");
            return fs::write(file, bytes.to_string()).map_err(|why| explain(&why));
        }
        // Our own group may have no controllers to pass on, as a session's scope has none; the root
        // group usually has.
        let unified = control_groups::unified();
        let places = unified.iter().flat_map(|unified| self.places_in(unified));
        let found = first_bounded(places, &self.name, bound);
        self.set_memory_folder(
            found.ok_or_else(|| explain(&no_controller("memory", unified.as_ref())))?,
        );
        Ok(())
    }

    /// Where in the unified hierarchy the group's processes might be instead; nowhere, if they are
    /// in an enclosure there, which they would leave.
    fn places_in(&self, unified: &Hierarchy) -> Vec<PathBuf> {
        let places = vec![unified.own(), unified.mount.clone()];
        let is_there = |folder: &PathBuf| folder.starts_with(&unified.mount);
        let is_own = |folder: &PathBuf| places.iter().any(|place| folder.parent() == Some(place));
        let is_enclosed = self.enclosing.iter().any(is_there)
            || self.folder.iter().any(|folder| is_there(folder) && !is_own(folder));
        if is_enclosed { Vec::new() } else { places }
    }

    /// Makes a folder of the unified hierarchy bound the group's memory. It becomes the group's own
    /// folder, if that was in the unified hierarchy: a process can be in one group of a hierarchy
    /// only.
    fn set_memory_folder(&mut self, bounding: PathBuf) {
        if self.accounting == Accounting::Unified {
            // No process has entered it yet.
            self.folder.take().map(fs::remove_dir);
            self.folder = Some(bounding);
        } else {
            self.memory_folder = Some(bounding);
        }
    }

    /// The folder that bounds memory, if it is not the group's own folder.
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
    /// process does so itself before it becomes the server, so that all its work is counted.
    pub(crate) fn entrances(&self) -> String {
        let folders = self.folder.iter().chain(&self.memory_folder).chain(&self.enclosing);
        let files = folders.map(|folder| folder.join("cgroup.procs").display().to_string());
        files.collect::<Vec<_>>().join(" ")
    }

    /// Records which process is the first one.
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
            None => self.root.map(process::tree).unwrap_or_default(),
        }
    }

    /// Whether none of its processes runs any more. A process that has ended but has not been
    /// waited for does not run.
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

    /// Bytes that its present processes had the disk read.
    pub fn disk_bytes_read(&self) -> u64 {
        self.processes().into_iter().map(process::disk_bytes_read).sum()
    }

    /// Kills the processes in the group until it is empty.
    pub(crate) fn kill(&self) {
        // A process that forks while it is being killed leaves a child for the next turn.
        for _ in 0..1000 {
            let mut alive = self.processes();
            alive.retain(|&pid| process::is_running(pid));
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
    let separate = control_groups::hierarchy_with_controller("cpuacct");
    let around = enclosing.unified.clone().map(|folder| (Accounting::Unified, folder));
    let below = |accounting| {
        // In a container our own group's path may not be visible.
        move |found: Hierarchy| [(accounting, found.own()), (accounting, found.mount)]
    };
    let separate = separate.map(below(Accounting::Cpuacct)).into_iter().flatten();
    let unified = control_groups::unified().map(below(Accounting::Unified)).into_iter().flatten();
    separate.chain(around).chain(unified).collect()
}

/// A folder of this name in the first of these places where it can be bounded; the folders made in
/// the other places are removed.
fn first_bounded(
    places: impl IntoIterator<Item = PathBuf>,
    name: &str,
    bound: impl Fn(&Path) -> io::Result<()>,
) -> Option<PathBuf> {
    for place in places {
        let folder = place.join(name);
        // A folder that is present already was tried before and could not be bounded.
        if fs::create_dir(&folder).is_err() {
            continue;
        }
        if bound(&folder).is_ok() {
            return Some(folder);
        }
        // The folder is empty.
        let _ = fs::remove_dir(&folder);
    }
    None
}

/// Removes the groups of servers whose lab was killed together with its guards. No process is
/// killed here: the kernel does not remove a group that is not empty.
pub(crate) fn remove_leftovers() {
    for folder in control_groups::folders() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let of_server = name.to_str().filter(|name| names::is_for_server(name));
            if of_server.is_some_and(names::is_left_over) {
                remove_empty(&entry.path());
            }
        }
    }
}

/// Removes a group if it is empty.
fn remove_empty(folder: &Path) {
    let procs = folder.join("cgroup.procs");
    // The kernel lets go of the last process a moment after it is gone.
    for _ in 0..20 {
        let is_empty = fs::read_to_string(&procs).is_ok_and(|text| text.is_empty());
        if fs::remove_dir(folder).is_ok() || !is_empty {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn usage_of_cpu_stat(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    Some(line.parse::<u64>().ok()? * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    use testkit::{Victim, comes_true};

    #[test]
    fn the_unified_usage_is_in_microseconds() {
        let text = "usage_usec 1234\nuser_usec 1000\nsystem_usec 234\n";
        assert_eq!(usage_of_cpu_stat(text), Some(1_234_000));
        assert_eq!(usage_of_cpu_stat("nr_periods 0\n"), None);
    }

    /// Plain folders stand for groups; only those directly below `top` have the controller.
    #[test]
    fn memory_is_bounded_where_the_controller_is() {
        let top = std::env::temp_dir().join(format!("ropewalk-places-{}", std::process::id()));
        let scope = top.join("scope");
        fs::create_dir_all(scope.join("used")).expect("temporary files may be written");
        let bound = |folder: &Path| match folder.parent() == Some(&*top) {
            true => Ok(()),
            false => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
        };
        let places = || [scope.clone(), top.clone()];
        assert_eq!(first_bounded(places(), "new", bound), Some(top.join("new")));
        assert!(!scope.join("new").exists(), "nothing is left where it could not be bounded");
        assert_eq!(first_bounded(places(), "used", bound), Some(top.join("used")));
        assert!(scope.join("used").exists(), "what was there is left alone");
        assert_eq!(first_bounded([scope], "new", bound), None);
        fs::remove_dir_all(top).expect("it was just made");
    }

    /// A group in the unified hierarchy moves to where its memory can be bounded; one that is
    /// counted elsewhere has a second folder.
    #[test]
    fn a_process_is_in_one_group_of_a_hierarchy() {
        let group = |accounting| Group::new(accounting, None, "x".into(), Vec::new());
        let bounding = PathBuf::from("/nonexistent/x");
        let (mut one, mut two) = (group(Accounting::Unified), group(Accounting::Cpuacct));
        one.set_memory_folder(bounding.clone());
        two.set_memory_folder(bounding.clone());
        assert_eq!((one.folder(), one.memory_folder()), (Some(&*bounding), None));
        assert_eq!((two.folder(), two.memory_folder()), (None, Some(&*bounding)));
        assert_eq!(one.entrances(), two.entrances());
    }

    /// The variable that makes the next test do something.
    const VICTIM: &str = "ROPEWALK_LAB_GROUPED";

    /// Not a test by itself: it makes a group with a process in it, prints its folders and the
    /// process, and waits to be killed; there is no guard.
    #[test]
    fn grouped_victim() {
        if std::env::var_os(VICTIM).is_none() {
            return;
        }
        let mut group = Group::create();
        // Where the hierarchies are separate this makes a second folder.
        let _ = group.limit_memory(64 << 20);
        let script = "for group in $1; do echo 0 > \"$group\"; done; echo; exec sleep 600";
        let mut child = Command::new("sh")
            .args(["-c", script, "sh", &group.entrances()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut String::new()).expect("it says that it is inside");
        let folders = group.folder.iter().chain(&group.memory_folder);
        let folders: Vec<String> = folders.map(|folder| folder.display().to_string()).collect();
        eprintln!("{} {}", child.id(), folders.join(" "));
        child.wait().expect("it is our child");
    }

    /// After a lab was killed with its guards, the next one removes its servers' groups, but not
    /// while a process is in them.
    #[test]
    fn groups_of_the_dead_are_removed_when_they_are_empty() {
        if !crate::needs::groups_can_be_made() {
            return;
        }
        let mut victim = Victim::start("group::tests::grouped_victim", VICTIM, "");
        let mut words = victim.printed_words();
        let pid: u32 = words.next().and_then(|word| word.parse().ok()).expect("a number");
        let folders: Vec<PathBuf> = words.map(PathBuf::from).collect();
        assert!(!folders.is_empty(), "root may make a group");
        remove_leftovers();
        assert!(folders.iter().all(|folder| folder.exists()), "its owner lives: {folders:?}");
        victim.kill();
        remove_leftovers();
        assert!(folders.iter().all(|folder| folder.exists()), "something is in it: {folders:?}");
        os::signals::send("KILL", &[pid]);
        let gone = comes_true(|| {
            remove_leftovers();
            folders.iter().all(|folder| !folder.exists())
        });
        assert!(gone, "{folders:?}");
    }
}
