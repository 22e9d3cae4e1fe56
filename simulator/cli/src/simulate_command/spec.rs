//! The values of a machine that a sweep varies, and their names. All other values are equal for all
//! machines, except values that `--set` lists: a number stands for these here, and varied.rs names
//! them.

use coherence::{Machine, MachineError};

use super::lists::Scheduler;

/// A machine of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spec {
    pub(super) cpus: u32,
    pub(super) size_kib: u64,
    pub(super) ways: u32,
    pub(super) block_bytes: u64,
    pub(super) scheduler: Scheduler,
    pub(super) protocol: &'static str,
    /// The number of the combination of values that `--set` lists, by [`super::measured::Runs`];
    /// the first is 0.
    pub(super) set: usize,
}

impl Spec {
    /// Takes the values of a machine that lists and the paper vary. Values that `--set` lists are
    /// not known here.
    pub(super) fn from_machine(machine: &Machine) -> Result<Self, MachineError> {
        Ok(Self {
            cpus: machine.cpus,
            size_kib: machine.cache.size_kib,
            ways: machine.cache.ways,
            block_bytes: machine.cache.block_bytes,
            scheduler: Scheduler::from_policy(machine.scheduler.policy),
            protocol: machine.protocol()?.name,
            set: 0,
        })
    }

    /// The machine, with everything else from `base`.
    pub(super) fn machine(&self, base: &Machine) -> Machine {
        let mut machine = base.clone();
        machine.cpus = self.cpus;
        machine.cache.size_kib = self.size_kib;
        machine.cache.ways = self.ways;
        machine.cache.block_bytes = self.block_bytes;
        machine.scheduler.policy = self.scheduler.policy();
        machine.protocol = self.protocol.into();
        machine
    }

    /// Formats a cache as in `128K/1` and `2M/4`.
    pub(super) fn cache(&self) -> String {
        cache(self.size_kib, self.ways)
    }

    /// Describes all but the number of processors.
    pub(super) fn kind(&self) -> String {
        format!(
            "{}, {} bytes, {}, {}",
            self.cache(),
            self.block_bytes,
            self.scheduler.name(),
            self.protocol.to_uppercase()
        )
    }

    pub(super) fn describe(&self) -> String {
        format!("{} CPUs, {}", self.cpus, self.kind())
    }
}

/// Formats a cache as in `128K/1` and `2M/4`.
pub(super) fn cache(size_kib: u64, ways: u32) -> String {
    format!("{}/{ways}", size(size_kib))
}

/// Formats a size as in `128K` and `2M`.
pub(super) fn size(kib: u64) -> String {
    match kib {
        kib if kib % 1024 == 0 => format!("{}M", kib / 1024),
        kib => format!("{kib}K"),
    }
}
