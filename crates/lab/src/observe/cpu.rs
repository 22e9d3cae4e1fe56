//! How CPUs spent their time, and how a server's processor time divides into user and system mode.

use crate::group::Group;
use crate::process;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// How one CPU spent the time between two looks, in steps of 10 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreUse {
    /// Its number.
    pub cpu: usize,
    /// In user mode.
    pub user_us: u64,
    /// In system mode, without interrupts.
    pub system_us: u64,
    /// In interrupts.
    pub irq_us: u64,
    /// In soft interrupts.
    pub softirq_us: u64,
    /// Taken by the host of a virtual machine while something was to run.
    pub steal_us: u64,
    /// With nothing to do, while something waited for a disk.
    pub iowait_us: u64,
    /// With nothing to do.
    pub idle_us: u64,
}

impl CoreUse {
    /// All of it.
    pub fn total_us(&self) -> u64 {
        self.busy_us() + self.steal_us + self.iowait_us + self.idle_us
    }

    /// The share of time that it was busy, 0 to 1; stolen time is not, nor is it idle.
    pub fn busy_share(&self) -> f64 {
        self.busy_us() as f64 / self.total_us().max(1) as f64
    }

    fn busy_us(&self) -> u64 {
        self.user_us + self.system_us + self.irq_us + self.softirq_us
    }
}

/// A line of `/proc/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CoreTicks {
    cpu: usize,
    /// user, nice, system, idle, iowait, irq, softirq, steal
    ticks: [u64; 8],
}

/// USER_HZ is 100 on every architecture of today.
const US_PER_TICK: u64 = 10_000;

/// The lines of these CPUs.
pub(super) fn cores(stat: &str, cpus: &[usize]) -> Vec<CoreTicks> {
    let lines = stat.lines().filter_map(|line| {
        let mut fields = line.strip_prefix("cpu")?.split(' ');
        let cpu = fields.next()?.parse().ok().filter(|cpu| cpus.contains(cpu))?;
        let mut ticks = [0; 8];
        for (tick, field) in ticks.iter_mut().zip(fields) {
            *tick = field.parse().ok()?;
        }
        Some(CoreTicks { cpu, ticks })
    });
    lines.collect()
}

pub(super) fn between(first: &[CoreTicks], last: &[CoreTicks]) -> Vec<CoreUse> {
    let pairs = last.iter().filter_map(|last| {
        let first = first.iter().find(|first| first.cpu == last.cpu)?;
        let us = |index: usize| last.ticks[index].saturating_sub(first.ticks[index]) * US_PER_TICK;
        Some(CoreUse {
            cpu: last.cpu,
            user_us: us(0) + us(1),
            system_us: us(2),
            idle_us: us(3),
            iowait_us: us(4),
            irq_us: us(5),
            softirq_us: us(6),
            steal_us: us(7),
        })
    });
    pairs.collect()
}

/// User and system time: of the enclosure where the unified hierarchy says it, else of the groups.
pub(super) fn split_us(unified: Option<&Path>, groups: &[&Group]) -> Option<(u64, u64)> {
    let of_enclosure = unified.and_then(|folder| {
        let text = fs::read_to_string(folder.join("cpu.stat")).ok()?;
        split_of_cpu_stat(&text)
    });
    of_enclosure.or_else(|| {
        let each: Option<Vec<(u64, u64)>> = groups.iter().map(|group| split_of(group)).collect();
        let sum = |(user, system): (u64, u64), (u, s): (u64, u64)| (user + u, system + s);
        each.filter(|each| !each.is_empty()).map(|each| each.into_iter().fold((0, 0), sum))
    })
}

fn split_of(group: &Group) -> Option<(u64, u64)> {
    let folder = group.folder()?;
    let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
    let of_unified = read("cpu.stat").as_deref().and_then(split_of_cpu_stat);
    of_unified.or_else(|| split_of_cpuacct(&read("cpuacct.stat")?))
}

/// Version 2, in microseconds.
fn split_of_cpu_stat(text: &str) -> Option<(u64, u64)> {
    Some((value(text, "user_usec ")?, value(text, "system_usec ")?))
}

/// Version 1, in ticks.
fn split_of_cpuacct(text: &str) -> Option<(u64, u64)> {
    Some((value(text, "user ")? * US_PER_TICK, value(text, "system ")? * US_PER_TICK))
}

/// Whether this kernel counts the time of interrupts apart from that of whoever was interrupted.
/// Where it does not say, it is taken to: then less is held against others.
pub(crate) fn interrupts_apart() -> bool {
    static APART: OnceLock<bool> = OnceLock::new();
    *APART.get_or_init(|| {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let kept = fs::read_to_string(format!("/boot/config-{}", release.trim())).ok();
        let command = ["zcat", "/proc/config.gz"].map(str::to_owned);
        let text = kept.or_else(|| process::output(&command, None).ok());
        text.is_none_or(|text| counts_apart(&text))
    })
}

fn counts_apart(config: &str) -> bool {
    config.lines().all(|line| line != "# CONFIG_IRQ_TIME_ACCOUNTING is not set")
}

fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_by_cpu_and_state() {
        let first =
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu3 0 0 0 0 0 0 0 0 0 0\n";
        let last =
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 11 22 33 44 55 66 77 88 0 0\ncpu3 0 0 0 9 0 0 0\n";
        let (first, last) = (cores(first, &[0, 3]), cores(last, &[0, 3]));
        let found = between(&first, &last);
        let expected = CoreUse {
            cpu: 0,
            user_us: 300_000,
            system_us: 300_000,
            idle_us: 400_000,
            iowait_us: 500_000,
            irq_us: 600_000,
            softirq_us: 700_000,
            steal_us: 800_000,
        };
        assert_eq!(found[0], expected);
        assert_eq!((found[1].cpu, found[1].idle_us, found[1].busy_share()), (3, 90_000, 0.0));
        assert_eq!(expected.total_us(), 3_600_000);
        assert!((expected.busy_share() - 19.0 / 36.0).abs() < 1e-9);
        assert_eq!(cores("cpu0 1 x 3\n", &[0]), []);
    }

    #[test]
    fn the_kernel_says_how_it_counts_interrupts() {
        let said = "CONFIG_HZ=250\n# CONFIG_IRQ_TIME_ACCOUNTING is not set\n";
        assert!(!counts_apart(said));
        assert!(counts_apart("CONFIG_IRQ_TIME_ACCOUNTING=y\n") && counts_apart(""));
    }

    #[test]
    fn both_versions_say_how_time_divides() {
        let unified = "usage_usec 30\nuser_usec 20\nsystem_usec 10\n";
        assert_eq!(split_of_cpu_stat(unified), Some((20, 10)));
        assert_eq!(split_of_cpuacct("user 2\nsystem 1\n"), Some((20_000, 10_000)));
        assert_eq!(split_of_cpu_stat("usage_usec 30\n"), None);
    }
}
