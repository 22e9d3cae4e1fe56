//! The machines that a paper's figures and its table need, each once.

use std::collections::BTreeSet;

use coherence::Machine;

use super::data::Paper;
use crate::simulate_command::spec::Spec;

/// The machines that are simulated, and the number of the paper's machines that are not.
#[derive(Debug)]
pub(in crate::simulate_command) struct Plan<'a> {
    pub(in crate::simulate_command) paper: &'a Paper,
    pub(super) specs: Vec<Spec>,
    /// The number of machines that are not simulated because they have more processors than the
    /// trace has tasks.
    pub(super) left_out: usize,
    pub(super) tasks: usize,
}

impl<'a> Plan<'a> {
    /// The machines of the paper that the trace can keep busy.
    ///
    /// # Errors
    /// One line if the trace has too few tasks for any of the named machines.
    pub(in crate::simulate_command) fn new(paper: &'a Paper, tasks: usize) -> Result<Self, String> {
        let mut specs = all(paper)?;
        let most = specs.iter().map(|spec| spec.cpus).max().unwrap_or(0);
        let least = paper.machines.0.values().map(|spec| spec.cpus).min().unwrap_or(0);
        if tasks < least as usize {
            return Err(format!(
                "the trace has {tasks} task{}; the paper's machines have {least} to {most} \
                 processors: record a workload of more processes, or leave --paper out",
                if tasks == 1 { "" } else { "s" }
            ));
        }
        let count = specs.len();
        specs.retain(|spec| spec.cpus as usize <= tasks);
        let left_out = count - specs.len();
        Ok(Self { paper, specs: specs.into_iter().collect(), left_out, tasks })
    }

    /// A sentence that says why machines were left out.
    pub(in crate::simulate_command) fn left_out(&self) -> Option<String> {
        let Self { left_out, tasks, .. } = self;
        (*left_out > 0).then(|| {
            format!(
                "{left_out} of the paper's machines were left out: they have more processors than \
                 the trace has tasks ({tasks})."
            )
        })
    }

    /// The machines, in the order of the specs.
    pub(in crate::simulate_command) fn machines(&self, base: &Machine) -> Vec<Machine> {
        self.specs.iter().map(|spec| spec.machine(base)).collect()
    }
}

/// Every machine of the paper, each once.
pub(super) fn all(paper: &Paper) -> Result<BTreeSet<Spec>, String> {
    let mut all: BTreeSet<Spec> = paper.machines.0.values().copied().collect();
    all.extend(paper.chains.values().flat_map(|chain| chain.specs.iter().flatten()));
    for (spec, cpus) in paper.scalings()? {
        all.extend(cpus.into_iter().map(|cpus| Spec { cpus, ..spec }));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate_command::paper::shipped;

    #[test]
    fn a_plan_has_what_the_trace_can_keep_busy() {
        let paper = shipped();
        let whole = Plan::new(&paper, 28).expect("enough tasks");
        assert_eq!((whole.left_out, whole.specs.len()), (0, all(&paper).expect("right").len()));
        let part = Plan::new(&paper, 8).expect("enough for the first figures");
        assert!(part.specs.iter().all(|spec| spec.cpus <= 8));
        assert_eq!(part.left_out + part.specs.len(), whole.specs.len());
        for few in [0, 1, 3] {
            let why = Plan::new(&paper, few).expect_err("too few");
            assert!(why.contains("4 to 28 processors: record a workload"), "{few}: {why}");
        }
    }

    #[test]
    fn machines_are_those_of_the_figures() {
        let paper = shipped();
        let specs = all(&paper).expect("right");
        for name in ["first", "amsd-16"] {
            assert!(specs.contains(&paper.machine(name).expect(name)), "{name}");
        }
        let smallest = paper.machine("smallest").expect("named");
        assert!(specs.contains(&Spec { ways: 4, ..smallest }));
        // 15 machines of Figures 1 to 4, 10 of 5 to 7, 16 more of 8 to 11, and the machines for
        // scalability.
        let few = |spec: &&Spec| spec.cpus == 4 && spec.block_bytes == 32;
        assert_eq!(specs.iter().filter(few).count(), 15);
        assert!(specs.len() < 140, "{}", specs.len());
    }
}
