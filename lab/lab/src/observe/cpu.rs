//! How CPUs spent their time, and how a server's processor time divides into user and system mode.

use crate::group::Group;
use os::accounting::{self, Cpu, TICK_US};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// How one CPU spent the time between two snapshots, in steps of 10 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreUse {
    /// The number of the CPU.
    pub cpu: usize,
    /// Time in user mode.
    pub user_us: u64,
    /// Time in system mode, without interrupts.
    pub system_us: u64,
    /// Time in interrupts.
    pub irq_us: u64,
    /// Time in soft interrupts.
    pub softirq_us: u64,
    /// Time taken by the host of a virtual machine while a task was ready to run.
    pub steal_us: u64,
    /// Idle time while a task waited for a disk.
    pub iowait_us: u64,
    /// Idle time.
    pub idle_us: u64,
}

impl CoreUse {
    /// The sum of all times.
    pub fn total_us(&self) -> u64 {
        self.busy_us() + self.steal_us + self.iowait_us + self.idle_us
    }

    /// The share of time that the CPU was busy, 0 to 1; stolen time is neither busy nor idle.
    pub fn busy_share(&self) -> f64 {
        self.busy_us() as f64 / self.total_us().max(1) as f64
    }

    fn busy_us(&self) -> u64 {
        self.user_us + self.system_us + self.irq_us + self.softirq_us
    }
}

impl From<Cpu> for CoreUse {
    fn from(cpu: Cpu) -> Self {
        let Cpu { cpu, user_us, system_us, irq_us, softirq_us, steal_us, iowait_us, idle_us } = cpu;
        Self { cpu, user_us, system_us, irq_us, softirq_us, steal_us, iowait_us, idle_us }
    }
}

/// Reads the times so far of the CPUs that this process may use; empty where the kernel does not
/// show them.
pub(super) fn read() -> Vec<Cpu> {
    let allowed = os::affinity::allowed_cpus();
    let mut cpus = accounting::cpus().unwrap_or_default();
    cpus.retain(|cpu| allowed.contains(&cpu.cpu));
    cpus
}

pub(super) fn between(first: &[Cpu], last: &[Cpu]) -> Vec<CoreUse> {
    accounting::between(first, last).into_iter().map(CoreUse::from).collect()
}

/// Reads user and system time, in microseconds: of the enclosure where the unified hierarchy shows
/// them, else of the groups.
pub(super) fn split_us(unified: Option<&Path>, groups: &[&Group]) -> Option<(u64, u64)> {
    let of_enclosure = unified.and_then(|folder| {
        let text = fs::read_to_string(folder.join("cpu.stat")).ok()?;
        parse_cpu_stat(&text)
    });
    of_enclosure.or_else(|| {
        let each: Option<Vec<(u64, u64)>> = groups.iter().map(|group| read_split(group)).collect();
        let sum = |(user, system): (u64, u64), (u, s): (u64, u64)| (user + u, system + s);
        each.filter(|each| !each.is_empty()).map(|each| each.into_iter().fold((0, 0), sum))
    })
}

fn read_split(group: &Group) -> Option<(u64, u64)> {
    let folder = group.folder()?;
    let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
    let of_unified = read("cpu.stat").as_deref().and_then(parse_cpu_stat);
    of_unified.or_else(|| parse_cpuacct_stat(&read("cpuacct.stat")?))
}

/// Parses user and system time from the `cpu.stat` of version 2, which is in microseconds.
fn parse_cpu_stat(text: &str) -> Option<(u64, u64)> {
    Some((value(text, "user_usec ")?, value(text, "system_usec ")?))
}

/// Parses user and system time from the `cpuacct.stat` of version 1, which is in ticks.
fn parse_cpuacct_stat(text: &str) -> Option<(u64, u64)> {
    Some((value(text, "user ")? * TICK_US, value(text, "system ")? * TICK_US))
}

fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_neither_busy_nor_idle() {
        let cpu = Cpu {
            cpu: 3,
            user_us: 300_000,
            system_us: 300_000,
            idle_us: 400_000,
            iowait_us: 500_000,
            irq_us: 600_000,
            softirq_us: 700_000,
            steal_us: 800_000,
        };
        let of = between(&[Cpu { cpu: 3, ..Cpu::default() }], &[cpu])[0];
        assert_eq!((of.cpu, of.total_us()), (3, 3_600_000));
        assert!((of.busy_share() - 19.0 / 36.0).abs() < 1e-9);
        assert_eq!(CoreUse::default().busy_share(), 0.0);
    }

    #[test]
    fn both_versions_say_how_time_divides() {
        let unified = "usage_usec 30\nuser_usec 20\nsystem_usec 10\n";
        assert_eq!(parse_cpu_stat(unified), Some((20, 10)));
        assert_eq!(parse_cpuacct_stat("user 2\nsystem 1\n"), Some((20_000, 10_000)));
        assert_eq!(parse_cpu_stat("usage_usec 30\n"), None);
    }
}
