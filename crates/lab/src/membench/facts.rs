//! What is known of the machine before anything is measured.

use std::collections::BTreeSet;
use std::fs;

/// Facts that the plan rests on.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The CPUs we may use: one of each core first, then those that share a core with one before.
    pub cpus: Vec<usize>,
    /// Bytes of the largest cache that the first of them has, shared or not.
    pub cache_bytes: Option<u64>,
    /// Bytes of memory that could be had without pushing anything out.
    pub free_bytes: u64,
    /// The processor's name.
    pub processor: String,
    /// Whether the kernel backs memory with huge pages by itself: `always`, `madvise` or `never`.
    pub huge_pages: String,
}

impl Facts {
    /// Those of this machine.
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
            free_bytes: free_bytes(&text("/proc/meminfo")),
            processor: processor.unwrap_or_else(|| std::env::consts::ARCH.into()),
            huge_pages: in_brackets(&huge_pages).unwrap_or("not told").into(),
        }
    }
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// One CPU of each core before a second one of any.
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

/// A size as the kernel writes it: `32768K`.
fn size(text: &str) -> Option<u64> {
    let (number, shift) = match text.strip_suffix('K') {
        Some(number) => (number, 10),
        None => (text.strip_suffix('M')?, 20),
    };
    number.parse::<u64>().ok().map(|number| number << shift)
}

fn free_bytes(meminfo: &str) -> u64 {
    let value = field(meminfo, "MemAvailable");
    let kibibytes = value.and_then(|value| value.strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes.unwrap_or(0) << 10
}

/// The value of the first line `name : value`.
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
    fn cores_come_before_those_that_share_them() {
        let pairs = |cpu: usize| format!("{},{}", cpu % 2, cpu % 2 + 2);
        assert_eq!(cores_first(&[0, 1, 2, 3], pairs), [0, 1, 2, 3]);
        let neighbours = |cpu: usize| format!("{}-{}", cpu & !1, cpu | 1);
        assert_eq!(cores_first(&[0, 1, 2, 3], neighbours), [0, 2, 1, 3]);
        assert_eq!(cores_first(&[4, 2], |_| String::new()), [4, 2], "where nothing is told");
    }

    #[test]
    fn files_of_the_kernel() {
        assert_eq!(size("32768K"), Some(32 << 20));
        assert_eq!(size("4M"), Some(4 << 20));
        assert_eq!(size(""), None);
        assert_eq!(free_bytes("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), 2 << 20);
        assert_eq!(field("model name\t: A CPU\n", "model name").as_deref(), Some("A CPU"));
        assert_eq!(in_brackets("always [madvise] never"), Some("madvise"));
    }

    #[test]
    fn this_machine_has_cpus_and_memory() {
        let facts = Facts::read();
        assert!(!facts.cpus.is_empty() && facts.free_bytes > 0, "{facts:?}");
    }
}
