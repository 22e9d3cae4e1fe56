//! What others did on the generator's CPUs while a run was measured: processor time that neither
//! the generator nor the server used. Without it waiting for a CPU says little, because a server on
//! this machine has its share of the CPUs, too.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::net::SocketAddr;

use os::accounting::{self, Cpu, Process};

use crate::client::Window;
use crate::who_serves::{Server, who_serves};

/// So long before the window whoever looks on every 50 ms looks at the machine.
const BEFORE_US: u64 = 70_000;

/// Looks at the machine before the window and when it has ended: where there are many processes
/// that takes a while, and in the window it would hold the generator up. Who serves is found out
/// afterwards: looking through all that is open takes its time.
pub(crate) struct Neighbours {
    addresses: Vec<SocketAddr>,
    cpus: Vec<usize>,
    begin: Option<Look>,
    end: Option<Look>,
}

/// What CPUs and processes have done so far.
#[derive(Clone, Debug)]
struct Look {
    at_us: u64,
    cpus: Vec<Cpu>,
    processes: HashMap<u32, Process>,
}

/// Both looks.
struct Between<'l> {
    begin: &'l Look,
    end: &'l Look,
    /// Whether interrupts are in nobody's processor time.
    interrupts_apart: bool,
}

impl Neighbours {
    /// Of a run that asks at these addresses, and whose threads may run on these CPUs. It looks at
    /// once, for the case that the run begins before there is time to look again.
    pub(crate) fn of(addresses: Vec<SocketAddr>, cpus: Vec<usize>) -> Self {
        Self { addresses, cpus, begin: Look::now(), end: None }
    }

    /// Looks if it is time to.
    pub(crate) fn look(&mut self, now_us: u64, window: Window) {
        let is_soon = (window.from_us.saturating_sub(BEFORE_US)..window.from_us).contains(&now_us);
        let is_old = |look: &Look| look.at_us + BEFORE_US < window.from_us;
        if is_soon && self.begin.as_ref().is_none_or(is_old) {
            self.begin = Look::now();
        }
        if self.end.is_none() && now_us >= window.to_us {
            self.end = Look::now();
        }
    }

    /// Processor time that others used on the generator's CPUs between the looks, of which the
    /// second may be now, where its threads were woken so often; none where that cannot be known.
    /// It is at most so much: where a server that may use these CPUs and more has run is not known,
    /// and others may have driven it there.
    pub(crate) fn used_us(&self, wake_ups: u64) -> Option<u64> {
        let end = self.end.clone().or_else(Look::now)?;
        let interrupts_apart = accounting::interrupts_apart();
        let between = Between { begin: self.begin.as_ref()?, end: &end, interrupts_apart };
        let server = match who_serves(&self.addresses) {
            Server::Elsewhere => HashSet::new(),
            Server::Processes(pids) => between.with_descendants(&pids),
            Server::Unknown => return None,
        };
        let own_us = between.used_us(&HashSet::from([std::process::id()]));
        let own_us = own_us + accounting::waking_us(wake_ups, &between.those(&self.cpus));
        Some(between.others_us(&self.cpus, own_us, &server, &cpus_of(&server)))
    }
}

impl Look {
    fn now() -> Option<Self> {
        let (cpus, at_us) = (accounting::cpus().ok()?, os::clock::now());
        let processes = accounting::processes().map(|process| (process.pid, process)).collect();
        Some(Self { at_us, cpus, processes })
    }
}

impl Between<'_> {
    /// What others used on `cpus`, where we used `own_us` and the processes of a server that may
    /// run on `server_cpus` what they did. What a server used on other CPUs is not taken off.
    fn others_us(
        &self,
        cpus: &[usize],
        own_us: u64,
        server: &HashSet<u32>,
        server_cpus: &[usize],
    ) -> u64 {
        let here_us = self.in_use_us(cpus).saturating_sub(own_us);
        if !server_cpus.iter().any(|cpu| cpus.contains(cpu)) {
            return here_us;
        }
        let all = [cpus, server_cpus].concat();
        here_us.min(self.in_use_us(&all).saturating_sub(own_us + self.used_us(server)))
    }

    /// How long these CPUs, of which any may be named twice, were not idle.
    fn in_use_us(&self, cpus: &[usize]) -> u64 {
        let window_us = self.end.at_us - self.begin.at_us;
        let these = self.those(cpus);
        these.iter().map(|cpu| cpu.in_use_us(window_us, self.interrupts_apart)).sum()
    }

    /// What these CPUs did, of which any may be named twice.
    fn those(&self, cpus: &[usize]) -> Vec<Cpu> {
        let mut all = accounting::between(&self.begin.cpus, &self.end.cpus);
        all.retain(|cpu| cpus.contains(&cpu.cpu));
        all
    }

    /// What these processes used, and their children that have ended: programs that a server runs
    /// for a reply each.
    fn used_us(&self, pids: &HashSet<u32>) -> u64 {
        let so_far_us = |look: &Look, pid| {
            look.processes.get(pid).map_or(0, |process| process.used_us + process.children_us)
        };
        let of = |pid| so_far_us(self.end, pid).saturating_sub(so_far_us(self.begin, pid));
        pids.iter().map(of).sum()
    }

    /// These, and those that descend from them. Of whom the generator itself descends, such as a
    /// manager of services that holds their listeners, others do that have nothing to do with it.
    fn with_descendants(&self, pids: &HashSet<u32>) -> HashSet<u32> {
        let all = &self.end.processes;
        let parent = |pid: &u32| all.get(pid).map(|process| process.parent);
        let own = std::process::id();
        let ancestors: HashSet<u32> = std::iter::successors(Some(own), parent).collect();
        let is_of_server = |pid: &u32| {
            let mut line = std::iter::successors(Some(*pid), parent);
            line.any(|pid| pids.contains(&pid) && !ancestors.contains(&pid))
        };
        let mut found: HashSet<u32> = all.keys().copied().filter(is_of_server).collect();
        found.extend(pids.iter().filter(|pid| **pid != own));
        found
    }
}

/// Where the threads of these processes may run.
fn cpus_of(pids: &HashSet<u32>) -> Vec<usize> {
    let threads = pids.iter().flat_map(|pid| fs::read_dir(format!("/proc/{pid}/task")));
    let threads =
        threads.flatten().flatten().filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    // One that has ended since is none.
    let cpus = threads.filter_map(|thread| os::affinity::allowed_cpus_of(thread).ok());
    let mut cpus: Vec<usize> = cpus.flatten().collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const SECOND_US: u64 = 1_000_000;

    /// Within one second, of which each CPU was idle for so many milliseconds, and in soft
    /// interrupts; of each process how long it ran, and its children that have ended.
    fn looks(cpus: &[(u64, u64)], processes: &[(u32, u64, u64)]) -> (Look, Look) {
        let cpu = |(cpu, &(idle_ms, softirq_ms)): (usize, &(u64, u64))| {
            let (idle_us, softirq_us) = (idle_ms * 1000, softirq_ms * 1000);
            Cpu { cpu, idle_us, softirq_us, ..Cpu::default() }
        };
        let process = |pid, used_ms, children_ms| Process {
            pid,
            parent: 1,
            group: pid,
            has_ended: false,
            start_ticks: 0,
            used_us: used_ms * 1000,
            children_us: children_ms * 1000,
        };
        let begin = Look {
            at_us: 0,
            cpus: (0..cpus.len()).map(|cpu| Cpu { cpu, ..Cpu::default() }).collect(),
            processes: processes.iter().map(|&(pid, ..)| (pid, process(pid, 0, 0))).collect(),
        };
        let each = processes.iter().map(|&(pid, used, children)| process(pid, used, children));
        let end = Look {
            at_us: SECOND_US,
            cpus: cpus.iter().enumerate().map(cpu).collect(),
            processes: each.map(|process| (process.pid, process)).collect(),
        };
        (begin, end)
    }

    const OWN: u32 = 10;
    const SERVER: u32 = 20;

    /// What others used in milliseconds, as far as ticks tell.
    #[track_caller]
    fn check(
        looks: &(Look, Look),
        interrupts_apart: bool,
        (own_cpus, server_cpus): (&[usize], &[usize]),
        expected_ms: u64,
    ) {
        let between = Between { begin: &looks.0, end: &looks.1, interrupts_apart };
        let own_us = between.used_us(&HashSet::from([OWN]));
        let server = HashSet::from([SERVER]);
        let others_us = between.others_us(own_cpus, own_us, &server, server_cpus);
        assert!(others_us.abs_diff(expected_ms * 1000) <= 20_000, "{others_us}");
    }

    /// The server used most of its own CPU, and that is not taken off what loops did on ours.
    #[test]
    fn what_a_server_did_on_other_cpus_is_not_taken_off() {
        let seen = looks(&[(100, 0), (0, 0)], &[(OWN, 250, 0), (SERVER, 900, 0)]);
        check(&seen, false, (&[1], &[0]), 750);
        // It may run here too, and all CPUs together had so much more to do.
        check(&seen, false, (&[1], &[0, 1]), 750);
        let quiet = looks(&[(100, 0), (750, 0)], &[(OWN, 250, 0), (SERVER, 900, 0)]);
        check(&quiet, false, (&[1], &[0]), 0);
        check(&quiet, false, (&[1], &[0, 1]), 0);
        check(&quiet, false, (&[0, 1], &[0, 1]), 0);
    }

    /// Loops on a CPU that is not ours are in nobody's way.
    #[test]
    fn what_others_did_on_other_cpus_does_not_count() {
        let seen = looks(&[(0, 0), (700, 0)], &[(OWN, 250, 0), (SERVER, 100, 0)]);
        check(&seen, false, (&[1], &[0]), 50);
        check(&seen, false, (&[1], &[0, 1]), 50);
    }

    #[test]
    fn children_that_have_ended_are_the_servers() {
        let seen = looks(&[(0, 0)], &[(OWN, 300, 0), (SERVER, 100, 600)]);
        check(&seen, false, (&[0], &[0]), 0);
    }

    /// Where they are in nobody's time they are not others'.
    #[test]
    fn interrupts_are_no_neighbours() {
        let seen = looks(&[(200, 300)], &[(OWN, 300, 0), (SERVER, 200, 0)]);
        check(&seen, true, (&[0], &[0]), 0);
        check(&seen, false, (&[0], &[0]), 300);
    }

    #[test]
    fn descendants_of_a_server_are_the_server() {
        let (begin, mut end) = looks(&[], &[(2, 0, 0), (3, 0, 0), (4, 0, 0), (5, 0, 0)]);
        let mut is_child_of = |pid, parent| end.processes.get_mut(&pid).unwrap().parent = parent;
        is_child_of(3, 4);
        is_child_of(4, 2);
        let between = Between { begin: &begin, end: &end, interrupts_apart: false };
        assert_eq!(between.with_descendants(&HashSet::from([2])), HashSet::from([2, 3, 4]));
        // Whoever started us, too, has started them for other ends.
        let own = std::process::id();
        let ours = Process { pid: own, parent: 2, ..end.processes[&2] };
        end.processes.insert(own, ours);
        let between = Between { begin: &begin, end: &end, interrupts_apart: false };
        assert_eq!(between.with_descendants(&HashSet::from([2, own])), HashSet::from([2]));
    }

    /// Others may do what they like: only that it is known, and that we are not among them.
    #[test]
    fn what_we_use_is_not_others() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap();
        let addresses = vec![address.local_addr().unwrap()];
        let window = Window { from_us: 0, to_us: 1 };
        let began_us = os::clock::now();
        let mut neighbours = Neighbours::of(addresses, os::affinity::allowed_cpus());
        while os::clock::cpu_time_thread().as_millis() < 50 {}
        neighbours.look(1, window);
        let others_us = neighbours.used_us(0).unwrap();
        let all_us = (os::clock::now() - began_us) * neighbours.cpus.len() as u64;
        assert!(others_us <= all_us - 30_000, "{others_us} of {all_us}");
        // Nobody listens there any more, who could be known.
        drop(address);
        assert_eq!(neighbours.used_us(0), None);
    }

    /// Reading of all processes takes a while, for which a generator on the same CPU would wait.
    #[test]
    fn nobody_looks_within_a_window() {
        let begin_us = |turns_us: &[u64]| {
            let mut neighbours = Neighbours::of(Vec::new(), Vec::new());
            let first_us = neighbours.begin.as_ref().unwrap().at_us;
            let from_us = first_us + 10 * SECOND_US;
            let window = Window { from_us, to_us: from_us + SECOND_US };
            turns_us.iter().for_each(|turn_us| neighbours.look(first_us + turn_us, window));
            assert!(neighbours.end.is_none());
            neighbours.begin.unwrap().at_us > first_us
        };
        assert!(begin_us(&[9_920_000, 9_970_000, 10_020_000]), "just before");
        assert!(!begin_us(&[9_920_000]), "too early");
        assert!(!begin_us(&[9_920_000, 10_000_000, 10_500_000]), "within the window");
    }

    #[test]
    fn where_a_process_may_run_is_known() {
        let own = HashSet::from([std::process::id()]);
        assert_eq!(cpus_of(&own), os::affinity::allowed_cpus());
        assert_eq!(cpus_of(&HashSet::new()), Vec::<usize>::new());
    }
}
