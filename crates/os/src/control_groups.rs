//! The control groups that this process is in, of both versions.

use std::fs;
use std::path::{Path, PathBuf};

/// The folders of this process's groups, and of those around them: whatever limits it is there.
#[must_use]
pub fn folders() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    folders_of(&mounts, &own)
}

/// From every hierarchy's mount point down to our own group in it. In a container its path may be
/// one that is not visible; what is there is looked at.
fn folders_of(mounts: &str, own: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, mount, kind @ ("cgroup" | "cgroup2"), options, ..] = fields[..] else { continue };
        let path = own.lines().find_map(|line| {
            let (_, line) = line.split_once(':')?;
            let (controllers, path) = line.split_once(':')?;
            let is_ours = match kind {
                "cgroup2" => controllers.is_empty(),
                _ => {
                    let of = |controller| options.split(',').any(|option| option == controller);
                    controllers.split(',').all(of)
                }
            };
            is_ours.then_some(path)
        });
        let below = Path::new(path.unwrap_or("/").trim_start_matches('/'));
        folders.extend(below.ancestors().map(|below| Path::new(mount).join(below)));
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_both_versions_are_looked_at_to_the_top() {
        let mounts = "proc /proc proc rw 0 0\n\
            cgroup /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\n\
            cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let own = "3:cpu,cpuacct:/a/b\n2:pids:/c\n0::/user.slice\n";
        let folders = folders_of(mounts, own);
        let shown: Vec<String> =
            folders.iter().map(|folder| folder.display().to_string()).collect();
        let expected = [
            "/sys/fs/cgroup/cpu/a/b",
            "/sys/fs/cgroup/cpu/a",
            "/sys/fs/cgroup/cpu/",
            "/sys/fs/cgroup/unified/user.slice",
            "/sys/fs/cgroup/unified/",
        ];
        assert_eq!(shown, expected);
    }
}
