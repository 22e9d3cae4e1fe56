//! Which workers run in which process, and which listeners they have. Pure.

use std::ops::Range;

use engines::{EngineSpec, KnobValues, Plan, Processes, Wakeups};

use crate::config::{ListenerMode, Pin, Settings};
use crate::partitions::Partition;

/// The whole server: processes, their workers, and the sets of listeners they need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The share of each process; a single one unless there are worker processes.
    pub(crate) shares: Vec<Share>,
    /// All sets of listeners.
    pub(crate) sets: Vec<ListenerSet>,
    /// How worker processes are set up; none if the server's own process does the work.
    pub(crate) processes: Option<Processes>,
    /// Whether an arrival at a listener with several waiters shall wake only one of them.
    pub(crate) exclusive_wakeups: bool,
}

/// The parts of the server that run in one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) parts: Vec<Part>,
}

/// A partition, or the part of it that runs in one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its CPUs; empty if its workers are not pinned.
    pub(crate) cpus: Vec<usize>,
    /// The CPUs its workers may move to while other programs use `cpus`; none if they stay.
    pub(crate) unpinned_cpus: Vec<usize>,
    pub(crate) plan: Plan,
    /// Its sets of listeners in [`Layout::sets`]; its workers take them in turn.
    pub(crate) sets: Range<usize>,
}

/// A set of listeners: one for each address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenerSet {
    /// Which addresses: 0, or the partition's number where each partition has its own.
    pub(crate) group: usize,
    /// The number that is added to the configured ports.
    pub(crate) port_offset: u16,
}

impl Layout {
    /// Lays out an engine over the partitions.
    pub(crate) fn new(
        settings: &Settings,
        spec: &EngineSpec,
        knobs: &KnobValues,
        partitions: &[Partition],
    ) -> Self {
        let mode = settings.socket.listeners;
        let mut layout = Self {
            shares: Vec::new(),
            sets: Vec::new(),
            processes: None,
            exclusive_wakeups: false,
        };
        for (number, partition) in partitions.iter().enumerate() {
            let group = if settings.partitions.listen.is_empty() { 0 } else { number };
            let plan = (spec.plan)(knobs, partition.width);
            match processes(settings, &plan) {
                None => layout.add_part(mode, group, partition, plan),
                Some(processes) => {
                    let inner = |width| match plan.processes {
                        Some(_) => plan,
                        None => (spec.plan)(knobs, width),
                    };
                    layout.add_processes(mode, group, partition, processes, inner);
                }
            }
        }
        // Connections of a CPU are dealt to the worker on that CPU, so workers must not move.
        if settings.partitions.pin != Pin::Auto || mode == ListenerMode::ReusePortCpu {
            layout.parts_mut().for_each(|part| part.unpinned_cpus.clear());
        }
        layout.exclusive_wakeups = match mode {
            ListenerMode::Shared => false,
            ListenerMode::Exclusive => true,
            _ => layout.has_shared_sets(),
        };
        layout
    }

    /// Whether those that serve are forked from worker processes.
    pub(crate) fn are_forked(&self) -> bool {
        self.processes.is_some_and(|processes| processes.single_threaded)
    }

    /// The number of workers in all processes.
    pub(crate) fn workers(&self) -> usize {
        self.shares.iter().map(Share::workers).sum()
    }

    /// Adds a partition to the server's own process.
    fn add_part(&mut self, mode: ListenerMode, group: usize, partition: &Partition, plan: Plan) {
        let sets = self.sets_for(mode, group, &plan);
        let (cpus, unpinned_cpus) = (partition.cpus.clone(), partition.cpus.clone());
        let part = Part { cpus, unpinned_cpus, plan, sets };
        match self.shares.first_mut() {
            Some(share) => share.parts.push(part),
            None => self.shares.push(Share { parts: vec![part] }),
        }
    }

    /// Adds the worker processes of a partition.
    fn add_processes(
        &mut self,
        mode: ListenerMode,
        group: usize,
        partition: &Partition,
        processes: Processes,
        plan: impl Fn(usize) -> Plan,
    ) {
        self.processes = Some(processes);
        let own = processes.listeners_per_process || mode.is_reuse_port();
        let mut common = None;
        for index in 0..processes.count {
            let cpus = portion(&partition.cpus, index, processes.count);
            let width = (partition.width / processes.count).max(1);
            let plan = plan(width);
            let sets = if own {
                let sets = self.sets_for(mode, group, &plan);
                if processes.own_ports && mode == ListenerMode::Auto {
                    let offset = self.shares.len() as u16;
                    self.sets[sets.clone()].iter_mut().for_each(|set| set.port_offset = offset);
                }
                sets
            } else {
                let one = Plan { listeners_per_worker: false, ..plan };
                common.get_or_insert_with(|| self.sets_for(mode, group, &one)).clone()
            };
            let unpinned_cpus = partition.cpus.clone();
            self.shares.push(Share { parts: vec![Part { cpus, unpinned_cpus, plan, sets }] });
        }
    }

    /// The sets of a part: new ones, or, where all workers share one, the set of its group.
    fn sets_for(&mut self, mode: ListenerMode, group: usize, plan: &Plan) -> Range<usize> {
        let count = match mode {
            ListenerMode::Shared | ListenerMode::Exclusive => {
                if let Some(found) = self.sets.iter().position(|set| set.group == group) {
                    return found..found + 1;
                }
                1
            }
            _ if plan.listeners_per_worker => plan.workers,
            _ => 1,
        };
        let first = self.sets.len();
        self.sets.extend((0..count).map(|_| ListenerSet { group, port_offset: 0 }));
        first..first + count
    }

    /// Which waiters an arrival wakes at shared listeners, by the design of the engine.
    pub(crate) fn wakeups(&self) -> Wakeups {
        self.plan().wakeups
    }

    /// Whether an arrival at a shared listener wakes only one of the waiters.
    pub(crate) fn wakes_one(&self) -> bool {
        match self.wakeups() {
            Wakeups::AsConfigured => self.exclusive_wakeups,
            Wakeups::One => true,
            Wakeups::All => false,
        }
    }

    /// Whether a thread or process fetches what is not in memory.
    pub(crate) fn fetches(&self) -> bool {
        self.plan().fetches
    }

    /// The plan of the first part; what does not count workers is the same in all parts.
    fn plan(&self) -> Plan {
        let mut parts = self.shares.iter().flat_map(|share| &share.parts);
        parts.next().map(|part| part.plan).expect("a server has a part")
    }

    fn parts_mut(&mut self) -> impl Iterator<Item = &mut Part> {
        self.shares.iter_mut().flat_map(|share| &mut share.parts)
    }

    /// Whether some listener belongs to more than one worker.
    fn has_shared_sets(&self) -> bool {
        let parts = || self.shares.iter().flat_map(|share| &share.parts);
        let users = |set: usize| {
            let users = parts().filter(|part| part.sets.contains(&set));
            users.map(|part| part.plan.workers.div_ceil(part.sets.len())).sum::<usize>()
        };
        (0..self.sets.len()).any(|set| users(set) > 1)
    }
}

impl Share {
    pub(crate) fn workers(&self) -> usize {
        self.parts.iter().map(|part| part.plan.workers).sum()
    }

    /// The number of workers, or of groups of them, that have bounds of applications of their own.
    pub(crate) fn callers(&self) -> usize {
        let callers = |part: &Part| if part.plan.shares_calls { 1 } else { part.plan.workers };
        self.parts.iter().map(callers).sum()
    }

    /// The helper processes of all its workers.
    pub(crate) fn helpers(&self) -> usize {
        self.parts.iter().map(|part| part.plan.workers * part.plan.helpers_per_worker).sum()
    }
}

/// The worker processes that the settings or the engine require.
fn processes(settings: &Settings, plan: &Plan) -> Option<Processes> {
    let count = settings.engine.processes as usize;
    let copies = Processes { listeners_per_process: true, ..Processes::new(count) };
    match (count, plan.processes) {
        (0, own) => own,
        (_, None) => Some(copies),
        (count, Some(own)) => Some(Processes { count, ..own }),
    }
}

/// The CPUs of one of `count` processes: its share, or one CPU if there are fewer CPUs than
/// processes.
fn portion(cpus: &[usize], index: usize, count: usize) -> Vec<usize> {
    match cpus.len() {
        0 => Vec::new(),
        len if len < count => vec![cpus[index % len]],
        len => cpus[index * len / count..(index + 1) * len / count].to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    fn lay_out(engine: &str, cpus: &[usize], change: impl Fn(&mut Settings)) -> Layout {
        let mut settings = Settings::default();
        change(&mut settings);
        let spec = engines::find(engine).unwrap();
        let partitions: Vec<Partition> = vec![Partition { cpus: cpus.to_vec(), width: cpus.len() }];
        Layout::new(&settings, spec, &spec.default_knobs(), &partitions)
    }

    /// Formats each process as its CPUs, workers and sets: `0-1*2:0-1`.
    fn show(layout: &Layout) -> String {
        let part = |part: &Part| {
            let cpus = os::cpu_list::show(&part.cpus);
            format!("{cpus}*{}:{}-{}", part.plan.workers, part.sets.start, part.sets.end - 1)
        };
        let share = |share: &Share| share.parts.iter().map(part).collect::<Vec<_>>().join("+");
        layout.shares.iter().map(share).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn processes_divide_the_resources_of_one() {
        let check = |engine, processes, mode, expected: &str, exclusive| {
            let layout = lay_out(engine, &[0, 1, 2, 3], |settings| {
                settings.engine.processes = processes;
                settings.socket.listeners = mode;
            });
            assert_eq!(show(&layout), expected, "{engine} {processes} {mode:?}");
            assert_eq!(layout.exclusive_wakeups, exclusive, "{engine} {processes} {mode:?}");
            assert_eq!(layout.processes.is_some(), processes > 0);
        };
        use ListenerMode::{Auto, Exclusive, ReusePort, Shared};
        check("event-loop-per-core", 0, Auto, "0-3*4:0-3", false);
        check("event-loop-per-core", 0, Exclusive, "0-3*4:0-0", true);
        check("event-loop-per-core", 2, Auto, "0-1*2:0-1 2-3*2:2-3", false);
        check("event-loop-per-core", 2, Shared, "0-1*2:0-0 2-3*2:0-0", false);
        check("event-loop", 2, ReusePort, "0-1*1:0-0 2-3*1:1-1", false);
        check("event-loop-copies", 2, Auto, "0-1*1:0-0 2-3*1:1-1", false);
        check("event-loop-shared-listener", 2, Auto, "0-1*1:0-0 2-3*1:0-0", true);
        check("event-loop-shared-listener", 2, ReusePort, "0-1*1:0-0 2-3*1:1-1", false);
        check(
            "event-loop",
            8,
            Auto,
            &(0..8).map(|i| format!("{}*1:{i}-{i}", i % 4)).collect::<Vec<_>>().join(" "),
            false,
        );
    }

    /// Each process of a server on CPUs 0 to 3 is shown as the CPUs its workers may use: `0-3`.
    #[test]
    fn workers_may_go_where_their_partition_is_unless_they_must_stay() {
        let check = |engine, mode, pin, expected: &str| {
            let layout = lay_out(engine, &[0, 1, 2, 3], |settings| {
                settings.socket.listeners = mode;
                settings.partitions.pin = pin;
            });
            let parts = layout.shares.iter().flat_map(|share| &share.parts);
            let shown: Vec<String> =
                parts.map(|part| os::cpu_list::show(&part.unpinned_cpus)).collect();
            assert_eq!(shown.join(" "), expected, "{engine} {mode:?} {pin:?}");
        };
        use ListenerMode::{Auto, ReusePortCpu};
        check("event-loop-per-core", Auto, Pin::Auto, "0-3");
        check("event-loop-copies", Auto, Pin::Auto, "0-3 0-3 0-3 0-3");
        check("event-loop-per-core", Auto, Pin::Always, "");
        check("event-loop-per-core", ReusePortCpu, Pin::Auto, "");
    }
}
