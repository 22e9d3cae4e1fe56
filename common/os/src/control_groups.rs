//! The mounted hierarchies of control groups, of both versions, and this process's place in them.
//! Nothing is made or changed here.

use std::fs;
use std::path::{Path, PathBuf};

/// A hierarchy of control groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// The directory that the hierarchy is mounted at.
    pub mount: PathBuf,
    /// The controllers that are bound to the hierarchy; none for the unified hierarchy (version 2).
    controllers: Option<Vec<String>>,
    /// The path of this process's group below the mount point. In a container it may be one that is
    /// not visible here.
    own: PathBuf,
}

impl Hierarchy {
    /// The folder of this process's group in the hierarchy.
    #[must_use]
    pub fn own(&self) -> PathBuf {
        self.mount.join(&self.own)
    }

    /// The folders of this process's group and of its ancestors, up to the mount point.
    pub fn folders(&self) -> impl Iterator<Item = PathBuf> {
        self.own.ancestors().map(|below| self.mount.join(below))
    }

    /// Whether this is the unified hierarchy.
    #[must_use]
    pub fn is_unified(&self) -> bool {
        self.controllers.is_none()
    }

    /// Whether this controller of version 1 is bound to the hierarchy.
    #[must_use]
    pub fn has(&self, controller: &str) -> bool {
        self.controllers.iter().flatten().any(|bound| bound == controller)
    }
}

/// All hierarchies that are mounted.
#[must_use]
pub fn hierarchies() -> Vec<Hierarchy> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    parse(&mounts, &own)
}

/// The unified hierarchy (version 2), if it is mounted.
#[must_use]
pub fn unified() -> Option<Hierarchy> {
    hierarchies().into_iter().find(Hierarchy::is_unified)
}

/// The hierarchy that a controller of version 1 is bound to, if it is mounted.
#[must_use]
pub fn hierarchy_with_controller(controller: &str) -> Option<Hierarchy> {
    hierarchies().into_iter().find(|hierarchy| hierarchy.has(controller))
}

/// The folders of this process's groups in all hierarchies, and of their ancestors: all groups
/// whose limits apply to this process.
#[must_use]
pub fn folders() -> Vec<PathBuf> {
    hierarchies().iter().flat_map(Hierarchy::folders).collect()
}

/// Reads the hierarchies from `/proc/self/mounts` (device, folder, type, options) and
/// `/proc/self/cgroup` (number, controllers, path).
fn parse(mounts: &str, own: &str) -> Vec<Hierarchy> {
    let hierarchy = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, mount, kind @ ("cgroup" | "cgroup2"), options, ..] = fields[..] else {
            return None;
        };
        // The options name the controllers, but also how the hierarchy is mounted: `rw`,
        // `relatime`.
        let bound = options.split(',').map(str::to_owned).collect();
        let controllers = (kind == "cgroup").then_some(bound);
        let path = own.lines().find_map(|line| own_path(line, controllers.as_deref()));
        let own = Path::new(path.unwrap_or("/").trim_start_matches('/')).to_owned();
        Some(Hierarchy { mount: mount.into(), controllers, own })
    };
    mounts.lines().filter_map(hierarchy).collect()
}

/// The path of this process's group, if the line belongs to the hierarchy with these controllers,
/// or to the unified one.
fn own_path<'l>(line: &'l str, bound: Option<&[String]>) -> Option<&'l str> {
    let (number, line) = line.split_once(':')?;
    let (controllers, path) = line.split_once(':')?;
    let is_its = match bound {
        Some(bound) => controllers.split(',').all(|one| bound.iter().any(|name| name == one)),
        None => number == "0" && controllers.is_empty(),
    };
    is_its.then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "proc /proc proc rw 0 0\n\
        cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";
    const OWN: &str = "3:cpu,cpuacct:/a/b\n2:pids:/c\n0::/user.slice\n";

    fn shown(folders: impl Iterator<Item = PathBuf>) -> Vec<String> {
        folders.map(|folder| folder.display().to_string()).collect()
    }

    #[test]
    fn groups_of_both_versions_are_looked_at_to_the_top() {
        let folders = parse(MOUNTS, OWN);
        let expected = [
            "/sys/fs/cgroup/cpu,cpuacct/a/b",
            "/sys/fs/cgroup/cpu,cpuacct/a",
            "/sys/fs/cgroup/cpu,cpuacct/",
            "/sys/fs/cgroup/unified/user.slice",
            "/sys/fs/cgroup/unified/",
        ];
        assert_eq!(shown(folders.iter().flat_map(Hierarchy::folders)), expected);
    }

    #[test]
    fn a_hierarchy_is_found_by_its_controller() {
        let found = parse(MOUNTS, OWN);
        let own = |fits: &dyn Fn(&Hierarchy) -> bool| {
            shown(found.iter().filter(|&it| fits(it)).map(Hierarchy::own))
        };
        assert_eq!(own(&|it| it.has("cpuacct")), ["/sys/fs/cgroup/cpu,cpuacct/a/b"]);
        assert_eq!(own(&Hierarchy::is_unified), ["/sys/fs/cgroup/unified/user.slice"]);
        assert!(own(&|it| it.has("pids")).is_empty(), "it is not mounted");
        assert!(parse("proc /proc proc rw 0 0\n", OWN).is_empty());
        let alone = parse(MOUNTS, "5:cpuset:/a\n");
        assert_eq!(alone[0].own(), Path::new("/sys/fs/cgroup/cpu,cpuacct"), "it is at the top");
    }
}
