//! The lists of a sweep, as they are typed, and the machines that result.

use std::str::FromStr;

use clap::ValueEnum;
use coherence::{Machine, Policy};

/// The lists; for an empty one the machine's own value is kept.
pub(super) struct Lists<'a> {
    pub(super) cpus: &'a [u32],
    pub(super) protocols: &'a [String],
    pub(super) blocks: &'a [u64],
    pub(super) caches: &'a [CacheSize],
    pub(super) schedulers: &'a [Scheduler],
}

/// Numbers such as `8`, `4,8,12`, `1..16` (both ends included), and mixtures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Numbers(pub(super) Vec<u32>);

/// A size in KiB, and the number of ways if it was typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CacheSize {
    pub(super) size_kib: u64,
    pub(super) ways: Option<u32>,
}

/// Which ready process a free processor takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Scheduler {
    /// Any of them
    Random,
    /// One that it ran last
    Affinity,
}

impl Lists<'_> {
    /// The number of machines that result from one base.
    pub(super) fn count(&self) -> usize {
        let Self { cpus, protocols, blocks, caches, schedulers } = self;
        let counts = [cpus.len(), protocols.len(), blocks.len(), caches.len(), schedulers.len()];
        counts.into_iter().fold(1, |product, one| product.saturating_mul(one.max(1)))
    }

    /// Every combination of the listed values; the number of processors varies fastest, because it
    /// makes a curve.
    pub(super) fn machines(&self, base: &Machine) -> Vec<Machine> {
        let mut machines = vec![base.clone()];
        vary(&mut machines, self.protocols, |machine, name| machine.protocol.clone_from(name));
        vary(&mut machines, self.schedulers, |machine, policy| {
            machine.scheduler.policy = policy.policy();
        });
        vary(&mut machines, self.blocks, |machine, bytes| machine.cache.block_bytes = *bytes);
        vary(&mut machines, self.caches, |machine, cache| {
            machine.cache.size_kib = cache.size_kib;
            machine.cache.ways = cache.ways.unwrap_or(machine.cache.ways);
        });
        vary(&mut machines, self.cpus, |machine, cpus| machine.cpus = *cpus);
        machines
    }
}

impl CacheSize {
    pub(super) fn has_ways(self) -> bool {
        self.ways.is_some()
    }
}

impl Scheduler {
    pub(super) fn from_policy(policy: Policy) -> Self {
        match policy {
            Policy::Random => Self::Random,
            Policy::Affinity => Self::Affinity,
        }
    }

    pub(super) fn policy(self) -> Policy {
        match self {
            Self::Random => Policy::Random,
            Self::Affinity => Policy::Affinity,
        }
    }

    /// The policy's name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Affinity => "affinity",
        }
    }
}

fn vary<T>(machines: &mut Vec<Machine>, values: &[T], set: impl Fn(&mut Machine, &T)) {
    if values.is_empty() {
        return;
    }
    let with = |machine: &Machine, value: &T| {
        let mut machine = machine.clone();
        set(&mut machine, value);
        machine
    };
    let all = machines.iter().flat_map(|machine| values.iter().map(|value| with(machine, value)));
    *machines = all.collect();
}

impl FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text}: write 8, 4,8,12 or 1..16");
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
        let mut numbers = Vec::new();
        for part in text.split(',') {
            let (first, last) = match part.split_once("..") {
                None => (number(part)?, number(part)?),
                Some((first, last)) => (number(first)?, number(last)?),
            };
            // Numbers that no machine can have are refused later; here they must only not fill
            // memory.
            if first > last || last - first > 1000 {
                return Err(wrong());
            }
            numbers.extend(first..=last);
        }
        Ok(Self(numbers))
    }
}

impl FromStr for CacheSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text}: write 128K, 2M, 2M/4");
        let (size, ways) = match text.split_once('/') {
            None => (text, None),
            Some((size, ways)) => (size, Some(ways.trim().parse().map_err(|_| wrong())?)),
        };
        let digits = size.trim_end_matches(|c: char| !c.is_ascii_digit());
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        let kib = match size[digits.len()..].trim().to_ascii_lowercase().as_str() {
            "k" | "kb" | "kib" => 1,
            "m" | "mb" | "mib" => 1024,
            _ => return Err(wrong()),
        };
        let size_kib = number.checked_mul(kib).ok_or_else(wrong)?;
        Ok(Self { size_kib, ways })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_listed_or_ranged() {
        let numbers = |text: &str| text.parse::<Numbers>().map(|numbers| numbers.0);
        assert_eq!(numbers("8"), Ok(vec![8]));
        assert_eq!(numbers("4,8, 12"), Ok(vec![4, 8, 12]));
        assert_eq!(numbers("1..3,8"), Ok(vec![1, 2, 3, 8]));
        for wrong in ["", "a", "3..1", "1..", "1..99999999", "4;5"] {
            assert!(numbers(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn caches_have_sizes_and_maybe_ways() {
        let cache = |text: &str| text.parse::<CacheSize>().map(|one| (one.size_kib, one.ways));
        assert_eq!(cache("128K"), Ok((128, None)));
        assert_eq!(cache("2M/4"), Ok((2048, Some(4))));
        assert_eq!(cache("1mib/16"), Ok((1024, Some(16))));
        for wrong in ["", "K", "2", "2G", "2M/", "2M/x", "2é", "99999999999999999999M"] {
            assert!(cache(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_combination_is_a_machine_and_processors_vary_fastest() {
        let lists = Lists {
            cpus: &[4, 8],
            protocols: &["mesi".into(), "pscr".into()],
            blocks: &[],
            caches: &[],
            schedulers: &[Scheduler::Affinity],
        };
        let machines = lists.machines(&Machine::default());
        let shown: Vec<String> =
            machines.iter().map(|one| format!("{}{}", one.protocol, one.cpus)).collect();
        assert_eq!(shown, ["mesi4", "mesi8", "pscr4", "pscr8"]);
        assert!(machines.iter().all(|one| one.scheduler.policy == Policy::Affinity));
    }
}
