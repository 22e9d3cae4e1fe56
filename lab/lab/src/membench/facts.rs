//! Facts about the machine that are known before anything is measured.

use crate::doctor::{cfs_quota, cpu_max};
use crate::observe::parse_page_cache;
use os::memory::field_bytes;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The facts that the plan rests on.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The CPUs that this process may use: one of each core first, then the others of these cores.
    pub cpus: Vec<usize>,
    /// Bytes of the largest cache of the first CPU, shared or not.
    pub cache_bytes: Option<u64>,
    /// Bytes of memory that can be used without swapping or the out-of-memory killer: those
    /// available on the machine, or in a control group around this process that leaves less.
    pub free_bytes: u64,
    /// The processor time that the control groups around this process allow, in CPUs; none if there
    /// is no bound.
    pub quota_cpus: Option<f64>,
    /// The processor's name.
    pub processor: String,
    /// Whether the kernel backs memory with huge pages by itself: `always`, `madvise` or `never`.
    pub huge_pages: String,
}

impl Facts {
    /// Reads the facts of this machine.
    #[must_use]
    pub fn read() -> Self {
        let cpus = cores_first(&os::affinity::allowed_cpus(), |cpu| {
            text(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"))
        });
        let cache_bytes = cpus.first().and_then(|cpu| last_cache(*cpu));
        let processor = field(&text("/proc/cpuinfo"), "model name");
        let huge_pages = text("/sys/kernel/mm/transparent_hugepage/enabled");
        Self {
            cpus,
            cache_bytes,
            free_bytes: free_bytes(&text("/proc/meminfo"), read_each_group(bytes_left_in_group)),
            quota_cpus: read_each_group(group_quota).into_iter().min_by(f64::total_cmp),
            processor: processor.unwrap_or_else(|| std::env::consts::ARCH.into()),
            huge_pages: in_brackets(&huge_pages).unwrap_or("not known").into(),
        }
    }
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Orders CPUs so that one CPU of each core comes before a second CPU of any core.
fn cores_first(cpus: &[usize], siblings: impl Fn(usize) -> String) -> Vec<usize> {
    let mut seen = BTreeSet::new();
    let is_first = |cpu: &usize| {
        let core = siblings(*cpu);
        core.is_empty() || seen.insert(core)
    };
    let (first, rest): (Vec<usize>, Vec<usize>) = cpus.iter().copied().partition(is_first);
    [first, rest].concat()
}

fn last_cache(cpu: usize) -> Option<u64> {
    let sizes = (0..8).filter_map(|index| {
        size(&text(&format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{index}/size")))
    });
    sizes.max()
}

/// Parses a size as the kernel writes it: `32768K`.
fn size(text: &str) -> Option<u64> {
    let (number, shift) = match text.strip_suffix('K') {
        Some(number) => (number, 10),
        None => (text.strip_suffix('M')?, 20),
    };
    number.parse::<u64>().ok().map(|number| number << shift)
}

/// The free bytes: the least of those available on the machine and those left in each group.
fn free_bytes(meminfo: &str, left: impl IntoIterator<Item = u64>) -> u64 {
    let available = field_bytes(meminfo, "MemAvailable:").unwrap_or(0);
    left.into_iter().fold(available, u64::min)
}

/// Reads a value of each control group around this process, where the group has it.
fn read_each_group<T>(parse: impl Fn(&dyn Fn(&str) -> Option<String>) -> Option<T>) -> Vec<T> {
    let folders = os::control_groups::folders();
    let of = |folder: &Path| parse(&|name| fs::read_to_string(folder.join(name)).ok());
    folders.iter().filter_map(|folder| of(folder)).collect()
}

/// The processor time that a group allows, in CPUs, from its files of either version.
fn group_quota(read: &dyn Fn(&str) -> Option<String>) -> Option<f64> {
    let number = |name| read(name)?.trim().parse::<f64>().ok();
    let of_unified = read("cpu.max").and_then(|text| cpu_max(text.trim()));
    of_unified.or_else(|| cfs_quota(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?))
}

/// The bytes of memory left in a group, from its files of either version. The pages of files that
/// are charged to it count as left, for they are reclaimed when memory is used.
fn bytes_left_in_group(read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let number = |name: &&str| read(name)?.trim().parse::<u64>().ok();
    let limits = ["memory.max", "memory.high", "memory.limit_in_bytes"];
    let limit = limits.iter().filter_map(number).min()?;
    let used = ["memory.current", "memory.usage_in_bytes"].iter().find_map(number).unwrap_or(0);
    let stat = read("memory.stat").unwrap_or_default();
    let files = parse_page_cache(&stat).unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(files)))
}

/// Finds the value of the first line `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

fn in_brackets(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cpu_of_each_core_comes_first() {
        let pairs = |cpu: usize| format!("{},{}", cpu % 2, cpu % 2 + 2);
        assert_eq!(cores_first(&[0, 1, 2, 3], pairs), [0, 1, 2, 3]);
        let neighbours = |cpu: usize| format!("{}-{}", cpu & !1, cpu | 1);
        assert_eq!(cores_first(&[0, 1, 2, 3], neighbours), [0, 2, 1, 3]);
        assert_eq!(cores_first(&[4, 2], |_| String::new()), [4, 2], "no siblings are known");
    }

    #[test]
    fn files_of_the_kernel() {
        assert_eq!(size("32768K"), Some(32 << 20));
        assert_eq!(size("4M"), Some(4 << 20));
        assert_eq!(size(""), None);
        let meminfo = "MemTotal: 9 kB\nMemAvailable:    2048 kB\n";
        assert_eq!(free_bytes(meminfo, []), 2 << 20);
        assert_eq!(free_bytes(meminfo, [3 << 20, 1 << 20]), 1 << 20, "a group has less");
        assert_eq!(field("model name\t: A CPU\n", "model name").as_deref(), Some("A CPU"));
        assert_eq!(in_brackets("always [madvise] never"), Some("madvise"));
    }

    /// Stands for the reader of a control group's files, which are these.
    fn group(files: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        |name| {
            let (_, text) = files.iter().find(|(file, _)| *file == name)?;
            Some((*text).to_owned())
        }
    }

    #[test]
    fn a_group_leaves_what_others_in_it_have_not_taken() {
        let check = |files: &[(&str, &str)], expected| {
            assert_eq!(bytes_left_in_group(&group(files)), expected, "{files:?}");
        };
        let (max, current) = (("memory.max", "1000\n"), ("memory.current", "700\n"));
        let stat = ("memory.stat", "anon 500\nfile 150\nfile_mapped 9\n");
        check(&[max], Some(1000));
        check(&[max, current], Some(300));
        check(&[max, current, stat], Some(450));
        check(&[max, ("memory.high", "800\n"), current, stat], Some(250));
        check(&[max, current, ("memory.stat", "file 150\nshmem 50\n")], Some(400));
        check(&[("memory.max", "500\n"), current], Some(0));
        check(&[("memory.max", "max\n"), ("memory.high", "max\n"), current, stat], None);
        let first = [("memory.limit_in_bytes", "1000\n"), ("memory.usage_in_bytes", "700\n")];
        check(&[&first[..], &[("memory.stat", "cache 1\ntotal_cache 150\n")]].concat(), Some(450));
        check(&[], None);
    }

    #[test]
    fn a_group_may_have_less_time_than_cpus() {
        let check = |files: &[(&str, &str)], expected| {
            assert_eq!(group_quota(&group(files)), expected, "{files:?}");
        };
        check(&[("cpu.max", "250000 100000\n")], Some(2.5));
        check(&[("cpu.max", "max 100000\n")], None);
        let period = ("cpu.cfs_period_us", "100000\n");
        check(&[("cpu.cfs_quota_us", "50000\n"), period], Some(0.5));
        check(&[("cpu.cfs_quota_us", "-1\n"), period], None);
        check(&[], None);
    }

    #[test]
    fn this_machine_has_cpus_and_memory() {
        let facts = Facts::read();
        assert!(!facts.cpus.is_empty() && facts.free_bytes > 0, "{facts:?}");
    }
}
