//! Control groups around all servers of a testbed: they bound the servers' memory and disk I/O,
//! page cache is charged to them, and in them the kernel counts what the servers do together.
//!
//! Where the hierarchies are separate (version 1) there is a folder in each hierarchy that is
//! needed, and a server enters them all; in the unified hierarchy (version 2) there is a single
//! folder, and the server's own group lies in it. Processor time is not bounded: CPUs are chosen.

use super::{Device, names};
use crate::group::{self, as_root};
use os::control_groups::{self, Hierarchy};
use os::guard::Guard;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// The folders of an enclosure that a server must enter when it is started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Enclosing {
    /// The folder in the unified hierarchy, in which groups can be made.
    pub unified: Option<PathBuf>,
    /// Folders in hierarchies of their own.
    pub separate: Vec<PathBuf>,
}

/// Control groups that are removed, with all processes and groups in them, when this value is
/// dropped, or when this process is killed.
#[derive(Debug)]
pub struct Enclosure {
    name: String,
    unified: Option<PathBuf>,
    /// The folder that bounds and counts memory.
    memory: Option<PathBuf>,
    /// The folder that bounds and counts what the disk does.
    disk: Option<PathBuf>,
    guards: Vec<Guard>,
}

impl Enclosure {
    /// Creates an enclosure that bounds nothing. It is empty where no group can be made.
    pub fn create() -> Self {
        remove_leftovers();
        let mut enclosure = Self {
            name: names::unique(),
            unified: None,
            memory: None,
            disk: None,
            guards: Vec::new(),
        };
        let unified = control_groups::unified();
        enclosure.unified =
            unified.and_then(|unified| enclosure.create_folder(&unified.mount).ok());
        enclosure
    }

    /// Makes the kernel charge page cache and memory to the enclosure, and bounds them by `bytes`
    /// if that is given.
    ///
    /// # Errors
    /// When no such group can be made: no controller, or no right.
    pub fn bound_memory(&mut self, bytes: Option<u64>) -> Result<(), String> {
        let explain = |why: &dyn std::fmt::Display| {
            format!("no control group can bound memory here{}: {why}", as_root())
        };
        let limit = |unbounded: &str| bytes.map_or(unbounded.to_owned(), |bytes| bytes.to_string());
        if let Some(folder) = self.unified.clone().filter(|at| at.join("memory.max").exists()) {
            fs::write(folder.join("memory.max"), limit("max")).map_err(|why| explain(&why))?;
            self.memory = Some(folder);
            return Ok(());
        }
        let folder = self.create_for_controller("memory").map_err(|why| explain(&why))?;
        let file = folder.join("memory.limit_in_bytes");
        if let Err(why) = fs::write(file, limit("-1")) {
            remove(&folder);
            return Err(explain(&why));
        }
        self.memory = Some(folder);
        Ok(())
    }

    /// Makes the kernel count disk I/O for the enclosure, and returns the folder in which it can be
    /// bounded.
    ///
    /// # Errors
    /// When no such group can be made: no controller, no right, or no known disk.
    pub fn count_disk(&mut self, device: Option<&Device>) -> Result<&Path, String> {
        let explain = |why| format!("no control group can bound the disk here{}: {why}", as_root());
        if let Some(folder) = self.unified.clone().filter(|at| at.join("io.max").exists()) {
            return Ok(self.disk.insert(folder));
        }
        // Version 1 counts only on disks that have a rule, and shows 0 for the others.
        let device = device.ok_or("it is not known on which disk the files lie")?;
        let folder = self.create_for_controller("blkio").map_err(explain)?;
        if let Err(why) = device.begin_counting(&folder) {
            remove(&folder);
            return Err(explain(why));
        }
        Ok(self.disk.insert(folder))
    }

    /// The folders that servers must enter.
    pub fn enclosing(&self) -> Enclosing {
        let separate = [&self.memory, &self.disk].into_iter().flatten();
        let separate = separate.filter(|folder| Some(*folder) != self.unified.as_ref());
        Enclosing { unified: self.unified.clone(), separate: separate.cloned().collect() }
    }

    /// The files to which a process writes 0 to enter the enclosure.
    pub(crate) fn entrances(&self) -> Vec<PathBuf> {
        let enclosing = self.enclosing();
        let folders = enclosing.separate.iter().chain(&enclosing.unified);
        folders.map(|folder| folder.join("cgroup.procs")).collect()
    }

    /// The folder in the unified hierarchy.
    pub fn unified(&self) -> Option<&Path> {
        self.unified.as_deref()
    }

    /// The folder that counts memory, if [`Self::bound_memory`] was called.
    pub fn memory(&self) -> Option<&Path> {
        self.memory.as_deref()
    }

    /// The folder that counts disk I/O, if [`Self::count_disk`] was called.
    pub fn disk(&self) -> Option<&Path> {
        self.disk.as_deref()
    }

    /// A folder in the hierarchy of a controller of version 1.
    fn create_for_controller(&mut self, controller: &str) -> Result<PathBuf, String> {
        let Some(found) = control_groups::hierarchy_with_controller(controller) else {
            return Err(no_controller(controller, control_groups::unified().as_ref()));
        };
        self.create_folder(&found.mount)
    }

    fn create_folder(&mut self, parent: &Path) -> Result<PathBuf, String> {
        let folder = parent.join(&self.name);
        let explain = |why| format!("{}: {why}", folder.display());
        fs::create_dir(&folder).map_err(explain)?;
        match guard(&folder) {
            Ok(guard) => self.guards.push(guard),
            Err(why) => {
                remove(&folder);
                return Err(format!("sh: {why}"));
            }
        }
        Ok(folder)
    }
}

impl Drop for Enclosure {
    fn drop(&mut self) {
        let folders = [self.unified.take(), self.memory.take(), self.disk.take()];
        for folder in folders.iter().flatten() {
            remove(folder);
        }
        self.guards.clear();
    }
}

/// The message that a controller is missing, with the command that fixes it.
pub(crate) fn no_controller(controller: &str, unified: Option<&Hierarchy>) -> String {
    // The unified hierarchy has another name for the disk's controller.
    let there = if controller == "blkio" { "io" } else { controller };
    let mended = match unified {
        Some(Hierarchy { mount, .. }) => {
            format!("echo +{there} > {}/cgroup.subtree_control", mount.display())
        }
        None => "mount a hierarchy of control groups".into(),
    };
    format!("there is no {controller} controller ({mended})")
}

/// Kills the processes in a folder and in the folders below, and removes all of them.
fn remove(folder: &Path) {
    for below in fs::read_dir(folder).into_iter().flatten().flatten() {
        if below.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&below.path());
        }
    }
    // A process that forks while it is killed leaves one for the next round, and the kernel
    // releases a group only a moment after its last process has ended.
    for _ in 0..1000 {
        let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        // Processes of other containers show as 0, which for kill(2) means our own process group.
        let alive = text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0);
        let alive: Vec<u32> = alive.collect();
        os::signals::send("KILL", &alive);
        if fs::remove_dir(folder).is_ok() || !folder.exists() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Removes the groups left by processes that were killed together with their guards.
fn remove_leftovers() {
    let is_used = |one: &Hierarchy| one.is_unified() || one.has("memory") || one.has("blkio");
    for Hierarchy { mount, .. } in control_groups::hierarchies().into_iter().filter(is_used) {
        for entry in fs::read_dir(mount).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_enclosure = |name: &&str| !names::is_for_server(name);
            if name.to_str().filter(is_enclosure).is_some_and(names::is_left_over) {
                remove(&entry.path());
            }
        }
    }
    // By now the groups that lay in them are empty.
    group::remove_leftovers();
}

fn guard(folder: &Path) -> std::io::Result<Guard> {
    const REMOVE: &str = r#"
        for attempt in 1 2 3 4 5 6 7 8 9 10; do
            for below in "$1"/*/ "$1"; do
                [ -e "$below/cgroup.procs" ] || continue
                kill -s KILL $(cat "$below/cgroup.procs")
                rmdir "$below"
            done
            [ -e "$1" ] || break
            sleep 0.2
        done"#;
    Guard::new(REMOVE, [folder])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::needs;
    use std::process::Command;

    /// Version 1 would show that nothing was read from a disk that has no rule.
    #[test]
    fn a_disk_that_is_not_known_is_not_taken_for_an_idle_one() {
        let mut enclosure = Enclosure::create();
        let is_counted = enclosure.count_disk(None).is_ok();
        assert_eq!(enclosure.disk(), enclosure.unified().filter(|_| is_counted));
    }

    #[test]
    fn what_is_in_an_enclosure_ends_with_it() {
        if !needs::memory_can_be_bounded() {
            return;
        }
        let mut enclosure = Enclosure::create();
        enclosure.bound_memory(Some(64 << 20)).expect("root may bound memory");
        let folder = enclosure.memory().expect("it bounds memory").to_owned();
        let entrances: Vec<String> =
            enclosure.entrances().iter().map(|file| file.display().to_string()).collect();
        assert!(!entrances.is_empty());
        let script = "for group; do echo 0 > \"$group\"; done; exec sleep 600";
        let mut child = Command::new("sh")
            .args(["-c", script, "sh"])
            .args(&entrances)
            .spawn()
            .expect("there is a shell");
        let pid = child.id().to_string();
        let inside = || fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        while !inside().lines().any(|line| line == pid) {
            thread::sleep(Duration::from_millis(2));
        }
        drop(enclosure);
        assert!(!folder.exists());
        assert!(!child.wait().expect("it is our child").success());
    }

    /// In the unified hierarchy the kernel answers EINVAL to version 1's name of the disk's
    /// controller.
    #[test]
    fn what_mends_a_controller_that_is_not_there_is_a_command_that_works() {
        let unified = control_groups::unified();
        let check = |controller: &str, expected: &str| {
            let said = no_controller(controller, unified.as_ref());
            assert!(unified.is_none() || said.contains(expected), "{said}");
            assert!(said.starts_with(&format!("there is no {controller} controller (")), "{said}");
        };
        check("blkio", "(echo +io > /");
        check("memory", "(echo +memory > /");
        assert!(no_controller("memory", None).contains("mount a hierarchy"));
    }

    #[test]
    fn the_folders_of_the_dead_are_removed() {
        if !needs::memory_can_be_bounded() {
            return;
        }
        let parents =
            [control_groups::unified(), control_groups::hierarchy_with_controller("memory")];
        let parents = parents.into_iter().flatten().map(|parent| parent.mount);
        let left = parents.map(|parent| parent.join(names::without_owner()));
        let left: Vec<PathBuf> = left.filter(|folder| fs::create_dir_all(folder).is_ok()).collect();
        assert!(!left.is_empty(), "root may make a group");
        let _enclosure = Enclosure::create();
        assert!(left.iter().all(|folder| !folder.exists()), "{left:?}");
    }
}
