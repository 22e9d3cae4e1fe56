//! Which machines the paper's figures and its Table 5 need, each once.

use std::collections::BTreeSet;

use coherence::Machine;

use super::stated::ROWS;
use crate::simulate_command::lists::Scheduler;
use crate::simulate_command::spec::Spec;

/// Kibibytes of a cache: Figures 1 to 7.
pub(super) const SIZES_KIB: [u64; 5] = [128, 256, 512, 1024, 2048];
/// Figures 1 to 4.
pub(super) const WAYS: [u32; 3] = [1, 2, 4];
/// Section 5, where it speaks of blocks.
pub(super) const BLOCKS: [u64; 4] = [32, 64, 128, 256];
/// Figures 8 to 11.
pub(super) const CPUS: [u32; 3] = [8, 12, 16];
pub(super) const PROTOCOLS: [&str; 3] = ["mesi", "amsd", "pscr"];
pub(super) const SCHEDULERS: [Scheduler; 2] = [Scheduler::Random, Scheduler::Affinity];

/// The machines that are simulated, and how many of the paper's are not.
#[derive(Debug, Clone)]
pub(in crate::simulate_command) struct Plan {
    pub(super) specs: Vec<Spec>,
    /// Their processors are more than the trace has tasks.
    pub(super) left_out: usize,
    pub(super) tasks: usize,
}

/// A kind of machine whose scalability the paper tells.
pub(super) struct Scaling {
    /// Its `cpus` mean nothing.
    pub(super) spec: Spec,
    /// How far it is followed: beyond what the paper tells, so that it can be missed.
    pub(super) most: u32,
}

/// Figure 1's two ends, then Table 5's; its first two rows are of one kind.
pub(super) fn scalings() -> Vec<Scaling> {
    let [_, second, third, fourth, fifth] = &ROWS;
    let first = Spec { size_kib: 128, ways: 1, ..Spec::FIRST };
    let last = Spec { ways: 4, ..Spec::FIRST };
    [
        (first, 8),
        (last, 16),
        (second.spec, 16),
        (third.spec, 24),
        (fourth.spec, 24),
        (fifth.spec, 28),
    ]
    .map(|(spec, most)| Scaling { spec, most })
    .into()
}

impl Scaling {
    /// Each number to 12, then each second: one more processor is told from two.
    pub(super) fn cpus(&self) -> impl Iterator<Item = u32> + use<> {
        (1..=self.most).filter(|cpus| *cpus <= 12 || cpus % 2 == 0)
    }
}

impl Plan {
    /// Those that the trace can keep busy.
    ///
    /// # Errors
    /// One line if it has too few tasks for any of the figures.
    pub(in crate::simulate_command) fn of(tasks: usize) -> Result<Self, String> {
        let all = all();
        let specs: Vec<Spec> =
            all.iter().copied().filter(|spec| spec.cpus as usize <= tasks).collect();
        if tasks < Spec::FIRST.cpus as usize {
            return Err(format!(
                "the trace has {tasks} task{}; the paper's machines have 4 to 28 processors: \
                 record a workload of more processes, or leave --paper out",
                if tasks == 1 { "" } else { "s" }
            ));
        }
        Ok(Self { left_out: all.len() - specs.len(), specs, tasks })
    }

    /// Why machines are not there.
    pub(in crate::simulate_command) fn left_out(&self) -> Option<String> {
        let Self { left_out, tasks, .. } = self;
        (*left_out > 0).then(|| {
            format!(
                "{left_out} of the paper's machines were left out: they have more processors than \
                 the trace has tasks ({tasks})."
            )
        })
    }

    /// In the order of the specs.
    pub(in crate::simulate_command) fn machines(&self, base: &Machine) -> Vec<Machine> {
        self.specs.iter().map(|spec| spec.machine(base)).collect()
    }
}

/// Every machine of the paper, each once.
fn all() -> BTreeSet<Spec> {
    let mut all = BTreeSet::new();
    for size_kib in SIZES_KIB {
        all.extend(WAYS.map(|ways| Spec { size_kib, ways, ..Spec::FIRST }));
        all.extend(SCHEDULERS.map(|scheduler| Spec { size_kib, scheduler, ..Spec::SECOND }));
    }
    all.extend(BLOCKS.map(|block_bytes| Spec { block_bytes, ..Spec::SECOND }));
    for protocol in PROTOCOLS {
        for scheduler in SCHEDULERS {
            all.extend(CPUS.map(|cpus| Spec { cpus, scheduler, protocol, ..Spec::SECOND }));
        }
    }
    all.extend(ROWS.map(|row| row.spec));
    for scaling in scalings() {
        all.extend(scaling.cpus().map(|cpus| Spec { cpus, ..scaling.spec }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_has_what_the_trace_can_keep_busy() {
        let whole = Plan::of(28).expect("enough tasks");
        assert_eq!((whole.left_out, whole.specs.len()), (0, all().len()));
        let part = Plan::of(8).expect("enough for the first figures");
        assert!(part.specs.iter().all(|spec| spec.cpus <= 8));
        assert_eq!(part.left_out + part.specs.len(), whole.specs.len());
        for few in [0, 1, 3] {
            assert!(Plan::of(few).expect_err("too few").contains("record a workload"), "{few}");
        }
    }

    #[test]
    fn machines_are_those_of_the_figures() {
        let specs = all();
        let machines = specs.iter().map(|spec| spec.machine(&Machine::default()));
        assert!(machines.map(|machine| machine.check()).all(|checked| checked.is_ok()));
        let figure_8 = Spec { cpus: 16, protocol: "amsd", ..Spec::SECOND };
        for spec in [Spec::FIRST, Spec { size_kib: 128, ways: 4, ..Spec::FIRST }, figure_8] {
            assert!(specs.contains(&spec), "{spec:?}");
        }
        // 15 of Figures 1 to 4, 10 of 5 to 7, 16 more of 8 to 11, and what scalability needs.
        let few = |spec: &&Spec| spec.cpus == 4 && spec.block_bytes == 32;
        assert_eq!(specs.iter().filter(few).count(), 15);
        assert!(specs.len() < 140, "{}", specs.len());
    }
}
