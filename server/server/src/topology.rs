//! Which CPUs are close to each other: CPUs that share a cache, a socket, a memory node, as the
//! kernel reports it in `/sys`. Where it reports nothing, all CPUs are one group.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use os::cpu_list;

/// CPUs in groups, by what they share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Topology {
    /// CPUs that share a cache of the highest level.
    pub(crate) caches: Vec<Vec<usize>>,
    /// CPUs in the same package (socket).
    pub(crate) sockets: Vec<Vec<usize>>,
    /// CPUs with the same nearest memory (NUMA node).
    pub(crate) nodes: Vec<Vec<usize>>,
}

impl Topology {
    /// The topology of this machine, restricted to the CPUs `allowed`.
    pub(crate) fn of_this_machine(allowed: &[usize]) -> Self {
        Self::read(Path::new("/sys/devices/system"), allowed)
    }

    /// Reads the topology of the CPUs `allowed` from the folder `system`, laid out like
    /// `/sys/devices/system`.
    fn read(system: &Path, allowed: &[usize]) -> Self {
        let cpu = |cpu: usize| system.join(format!("cpu/cpu{cpu}"));
        Self {
            caches: group(allowed, |number| last_level_cache(&cpu(number).join("cache"))),
            sockets: group(allowed, |number| text(&cpu(number).join("topology/package_cpus_list"))),
            nodes: nodes(&system.join("node"), allowed),
        }
    }
}

/// Groups CPUs with the same key; groups are in the order of their first CPUs.
fn group(allowed: &[usize], key: impl Fn(usize) -> Option<String>) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<Option<String>, Vec<usize>> = BTreeMap::new();
    for &cpu in allowed {
        groups.entry(key(cpu)).or_default().push(cpu);
    }
    sorted(groups.into_values())
}

/// The CPUs that share the cache of the highest level, as the kernel writes them.
fn last_level_cache(caches: &Path) -> Option<String> {
    let entries = fs::read_dir(caches).ok()?.filter_map(Result::ok);
    let levels = entries.filter_map(|entry| {
        let level: u32 = text(&entry.path().join("level"))?.parse().ok()?;
        Some((level, text(&entry.path().join("shared_cpu_list"))?))
    });
    levels.max().map(|(_, list)| list)
}

fn nodes(folder: &Path, allowed: &[usize]) -> Vec<Vec<usize>> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let lists = entries.filter_map(|entry| text(&entry.path().join("cpulist")));
    let members = lists.filter_map(|list| cpu_list::parse(&list).ok());
    let ours = members.map(|list| list.into_iter().filter(|cpu| allowed.contains(cpu)).collect());
    let groups = sorted(ours.filter(|group: &Vec<usize>| !group.is_empty()));
    // If the kernel reports no nodes, or only some of them, all CPUs are one node.
    if groups.concat().len() == allowed.len() { groups } else { vec![allowed.to_vec()] }
}

fn sorted(groups: impl Iterator<Item = Vec<usize>>) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = groups.collect();
    groups.sort_by_key(|group| group.first().copied());
    groups
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use testkit::Temporary;

    use super::*;

    /// Two sockets of four CPUs, with a cache for each pair and a node for each socket.
    fn machine() -> Temporary {
        let system = Temporary::new();
        for cpu in 0..8 {
            let (pair, socket) = (cpu / 2 * 2, cpu / 4 * 4);
            let at = |name: &str| format!("cpu/cpu{cpu}/{name}");
            system.file(&at("cache/index0/level"), "1\n");
            system.file(&at("cache/index0/shared_cpu_list"), format!("{cpu}\n"));
            system.file(&at("cache/index3/level"), "3\n");
            system.file(&at("cache/index3/shared_cpu_list"), format!("{pair}-{}\n", pair + 1));
            let list = format!("{socket}-{}\n", socket + 3);
            system.file(&at("topology/package_cpus_list"), &list);
            system.file(&format!("node/node{}/cpulist", cpu / 4), &list);
        }
        system
    }

    #[test]
    fn groups_share_a_cache_a_socket_or_a_node() {
        let system = machine();
        let topology = Topology::read(system.path(), &[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(topology.caches, [[0, 1], [2, 3], [4, 5], [6, 7]]);
        assert_eq!(topology.sockets, [[0, 1, 2, 3], [4, 5, 6, 7]]);
        assert_eq!(topology.nodes, topology.sockets);
    }

    #[test]
    fn cpus_that_may_not_be_used_are_left_out() {
        let system = machine();
        let topology = Topology::read(system.path(), &[1, 4, 5]);
        assert_eq!(topology.caches, [vec![1], vec![4, 5]]);
        assert_eq!(topology.nodes, [vec![1], vec![4, 5]]);
    }

    #[test]
    fn a_machine_that_reports_no_groups_is_one_group() {
        let empty = Temporary::new();
        let topology = Topology::read(empty.path(), &[0, 1]);
        assert_eq!((&topology.caches, &topology.nodes), (&vec![vec![0, 1]], &vec![vec![0, 1]]));
    }

    #[test]
    fn this_machine_has_each_cpu_once() {
        let allowed = os::affinity::allowed_cpus();
        let topology = Topology::of_this_machine(&allowed);
        for groups in [topology.caches, topology.sockets, topology.nodes] {
            let mut all = groups.concat();
            all.sort_unstable();
            assert_eq!(all, allowed);
        }
    }
}
