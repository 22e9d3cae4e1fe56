//! The processor time that other processes used on the CPUs of generator and server while a run was
//! measured. Without it the time spent waiting for a CPU says little, because generator and server
//! may also use each other's CPUs. The module also measures how long a server on this machine
//! waited for its CPUs.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use os::accounting::{self, Cpu, Process, Scheduled, TICK_US};

use crate::client::Window;
use crate::outcome::ServerCpu;
use crate::server_processes::{Server, find_server};
use crate::void::OTHERS_ANYWHERE;

/// How long before the window the first snapshot may be taken: more than the 50 ms between two
/// calls of [`Neighbours::observe`].
const BEFORE_US: u64 = 70_000;

/// A server with more threads is not judged: reading one thread takes 10 to 20 us, all must have
/// been read when the window begins, and there may be 20 ms for that.
const THREADS_MAX: usize = 1_024;

/// The part of a server's processor time that threads that have ended since may have used: how long
/// those waited is not known.
const ENDED_MAX: f64 = 0.1;

const NS_PER_US: u64 = 1_000;

/// Takes a snapshot of the machine before the window and one when it has ended: with many processes
/// a snapshot takes a while, and within the window it would hold the generator up. The server's
/// processes are found before the run and after it, because that means reading the open files of
/// all processes.
pub(crate) struct Neighbours {
    addresses: Vec<SocketAddr>,
    cpus: Vec<usize>,
    /// The server's processes when the run begins; empty if the server's waiting is not to be
    /// measured.
    server: HashSet<u32>,
    begin: Option<Snapshot>,
    end: Option<Snapshot>,
}

/// What others used, and what the server had, within the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Observed {
    /// An upper bound on the processor time that others used on the generator's CPUs: if the server
    /// may use these CPUs and more, it is not known on which it has run, and others may have driven
    /// it to them.
    pub(crate) others_us: u64,
    /// The server's processor time and waiting; none where they were not to be measured or could
    /// not be.
    pub(crate) server: Option<ServerCpu>,
}

/// A snapshot of the counters of CPUs and processes, and of the server's threads.
#[derive(Clone, Debug)]
struct Snapshot {
    at_us: u64,
    cpus: Vec<Cpu>,
    processes: HashMap<u32, Process>,
    /// The processes of the server, read again after their threads.
    server: HashMap<u32, Process>,
    /// The threads of the server; none if there are too many.
    threads: Option<HashMap<u32, Scheduled>>,
}

/// The processor time that the generator, or a server, used between the snapshots, and its CPUs.
#[derive(Clone, Copy)]
struct Activity<'l> {
    cpus: &'l [usize],
    /// Processor time that it used.
    used_us: u64,
    /// The time that its CPUs took to wake up for it.
    waking_us: u64,
}

/// The snapshots at the begin and at the end of the window.
struct Between<'l> {
    begin: &'l Snapshot,
    end: &'l Snapshot,
    /// Whether the time of interrupts is accounted to no process.
    interrupts_apart: bool,
}

impl Neighbours {
    /// The neighbours of a run against the servers at `addresses`, whose threads may run on `cpus`.
    /// `with_server`: the server's waiting is to be measured. Takes the first snapshot at once, for
    /// the case that the run begins before there is time for another.
    pub(crate) fn new(addresses: Vec<SocketAddr>, cpus: Vec<usize>, with_server: bool) -> Self {
        let server = match with_server.then(|| find_server(&addresses)) {
            Some(Server::Processes(pids)) => pids,
            None | Some(Server::Elsewhere | Server::Unknown) => HashSet::new(),
        };
        let begin = Snapshot::take(&server);
        Self { addresses, cpus, server, begin, end: None }
    }

    /// Takes a snapshot if one is due: just before the window, or after it.
    pub(crate) fn observe(&mut self, now_us: u64, window: Window) {
        let is_soon = (window.from_us.saturating_sub(BEFORE_US)..window.from_us).contains(&now_us);
        let is_old = |snapshot: &Snapshot| snapshot.at_us + BEFORE_US < window.from_us;
        if is_soon && self.begin.as_ref().is_none_or(is_old) {
            self.begin = Snapshot::take(&self.server);
        }
        if self.end.is_none() && now_us >= window.to_us {
            self.end = Snapshot::take(&self.server);
        }
    }

    /// Compares the snapshots, the second of which is taken now if there is none yet. `wake_ups`:
    /// how often the generator's threads were woken. None where the others' time cannot be known.
    pub(crate) fn observed(&self, wake_ups: u64) -> Option<Observed> {
        let end = self.end.clone().or_else(|| Snapshot::take(&self.server))?;
        let interrupts_apart = accounting::interrupts_apart();
        let between = Between { begin: self.begin.as_ref()?, end: &end, interrupts_apart };
        let server = match find_server(&self.addresses) {
            Server::Elsewhere => HashSet::new(),
            Server::Processes(pids) => end.with_descendants(&pids),
            Server::Unknown => return None,
        };
        let own = between.activity(&self.cpus, &HashSet::from([std::process::id()]), wake_ups);
        Some(between.observed(own, &server, &cpus_of(&server)))
    }
}

impl Snapshot {
    /// Takes a snapshot, with the threads of the processes in `server` and of their descendants.
    fn take(server: &HashSet<u32>) -> Option<Self> {
        let (cpus, at_us) = (accounting::cpus().ok()?, os::clock::now());
        let processes = accounting::processes().map(|process| (process.pid, process)).collect();
        let mut snapshot = Self { at_us, cpus, processes, server: HashMap::new(), threads: None };
        let server = snapshot.with_descendants(server);
        snapshot.threads = threads_of(&server);
        let again = |pid| Some((pid, accounting::process(pid)?));
        snapshot.server = server.into_iter().filter_map(again).collect();
        Some(snapshot)
    }

    /// The processes in `pids` and their descendants. Descendants of the generator's own ancestors
    /// are left out: an ancestor, such as a service manager that holds its services' listeners, has
    /// other descendants that have nothing to do with the server.
    fn with_descendants(&self, pids: &HashSet<u32>) -> HashSet<u32> {
        let all = &self.processes;
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

impl Activity<'_> {
    fn took_us(self) -> u64 {
        self.used_us + self.waking_us
    }
}

impl Between<'_> {
    /// Separates the time of others from `own`, the generator's. `pids` are the server's processes,
    /// `cpus` the CPUs that they may use.
    fn observed(&self, own: Activity<'_>, pids: &HashSet<u32>, cpus: &[usize]) -> Observed {
        let scheduled = self.scheduled();
        let Scheduled { ran_ns, turns, .. } = scheduled.unwrap_or_default();
        let server = self.activity(cpus, pids, turns);
        // The scheduler's times are finer than ticks, which round much away where many processes do
        // little each.
        let server = Activity { used_us: server.used_us.max(ran_ns / NS_PER_US), ..server };
        let is_known = !pids.is_empty() && pids.iter().all(|pid| self.is_known(*pid));
        // The waiting of threads that have ended is not known, so they must have used little.
        let rounding_us = TICK_US * pids.len() as u64;
        let ended_max_us = (server.used_us as f64 * ENDED_MAX) as u64 + rounding_us;
        let are_there = self.ended_us(pids, ran_ns / NS_PER_US) <= ended_max_us;
        let had = || self.server_cpu(server, own, scheduled.filter(|_| are_there));
        Observed { others_us: self.others_us(own, server), server: is_known.then(had) }
    }

    fn server_cpu(
        &self,
        server: Activity<'_>,
        own: Activity<'_>,
        scheduled: Option<Scheduled>,
    ) -> ServerCpu {
        let all_us = (self.end.at_us - self.begin.at_us) * server.cpus.len() as u64;
        let anywhere_us = (all_us as f64 * OTHERS_ANYWHERE) as u64;
        // While a CPU wakes up, a thread counts as ready without a CPU, although nothing else uses
        // it.
        let waited_us = |it: Scheduled| (it.waited_ns / NS_PER_US).saturating_sub(server.waking_us);
        ServerCpu {
            run_delay_us: scheduled.map(waited_us),
            others_us: self.others_us(server, own).saturating_sub(anywhere_us),
            used_us: server.used_us,
        }
    }

    fn activity<'l>(&self, cpus: &'l [usize], pids: &HashSet<u32>, wake_ups: u64) -> Activity<'l> {
        let waking_us = accounting::waking_us(wake_ups, &self.those(cpus));
        Activity { cpus, used_us: self.used_us(pids), waking_us }
    }

    /// The time that others used on the CPUs of `one`, besides `one` and `other`. Time that `other`
    /// used on CPUs that are not `one`'s is not subtracted.
    fn others_us(&self, one: Activity<'_>, other: Activity<'_>) -> u64 {
        let here_us = self.in_use_us(one.cpus).saturating_sub(one.took_us());
        if !other.cpus.iter().any(|cpu| one.cpus.contains(cpu)) {
            return here_us;
        }
        let all = [one.cpus, other.cpus].concat();
        here_us.min(self.in_use_us(&all).saturating_sub(one.took_us() + other.took_us()))
    }

    /// Whether a process of the server is in both snapshots as such, or began in between. A process
    /// that existed before and serves only now did something else in the meantime.
    fn is_known(&self, pid: u32) -> bool {
        let looked_at = |snapshot: &Snapshot| {
            !snapshot.processes.contains_key(&pid) || snapshot.server.contains_key(&pid)
        };
        looked_at(self.begin) && looked_at(self.end)
    }

    /// The scheduling of the server's threads that had not ended; none where that is not known.
    fn scheduled(&self) -> Option<Scheduled> {
        let (begin, end) = (self.begin.threads.as_ref()?, self.end.threads.as_ref()?);
        let since = |(thread, last): (&u32, &Scheduled)| match begin.get(thread) {
            Some(first) => last.since(first),
            None => *last,
        };
        end.iter().map(since).reduce(|sum, one| Scheduled {
            ran_ns: sum.ran_ns + one.ran_ns,
            waited_ns: sum.waited_ns + one.waited_ns,
            turns: sum.turns + one.turns,
        })
    }

    /// A lower bound on the processor time of threads that have ended: the processes' time less
    /// `ran_us`, the time of the threads that have not. A snapshot takes longer where the CPUs are
    /// busy, so only the processes' time that certainly lies between the two readings of threads
    /// counts.
    fn ended_us(&self, pids: &HashSet<u32>, ran_us: u64) -> u64 {
        let first_us = |pid| self.begin.server.get(pid).map_or(0, so_far_us);
        let last_us = |pid| self.end.processes.get(pid).map_or(0, so_far_us);
        let used_us: u64 = pids.iter().map(|pid| last_us(pid).saturating_sub(first_us(pid))).sum();
        used_us.saturating_sub(ran_us)
    }

    /// How long the CPUs in `cpus`, which may contain duplicates, were not idle.
    fn in_use_us(&self, cpus: &[usize]) -> u64 {
        let window_us = self.end.at_us - self.begin.at_us;
        let these = self.those(cpus);
        these.iter().map(|cpu| cpu.in_use_us(window_us, self.interrupts_apart)).sum()
    }

    /// The differences of the counters of the CPUs in `cpus`, which may contain duplicates.
    fn those(&self, cpus: &[usize]) -> Vec<Cpu> {
        let mut all = accounting::between(&self.begin.cpus, &self.end.cpus);
        all.retain(|cpu| cpus.contains(&cpu.cpu));
        all
    }

    /// The processor time of the processes in `pids` and of their children that have ended:
    /// programs that a server runs for one reply each.
    fn used_us(&self, pids: &HashSet<u32>) -> u64 {
        let at = |snapshot: &Snapshot, pid| snapshot.processes.get(pid).map_or(0, so_far_us);
        pids.iter().map(|pid| at(self.end, pid).saturating_sub(at(self.begin, pid))).sum()
    }
}

fn so_far_us(process: &Process) -> u64 {
    process.used_us + process.children_us
}

/// The scheduler's counters of the threads of these processes; none if there are too many threads.
fn threads_of(pids: &HashSet<u32>) -> Option<HashMap<u32, Scheduled>> {
    let of_process = |pid| accounting::threads(pid).into_iter().map(move |thread| (pid, thread));
    let all: Vec<(u32, u32)> = pids.iter().copied().flat_map(of_process).collect();
    let scheduled = |(pid, thread)| Some((thread, accounting::scheduled(pid, thread)?));
    (all.len() <= THREADS_MAX).then(|| all.into_iter().filter_map(scheduled).collect())
}

/// The CPUs on which the threads of these processes may run.
fn cpus_of(pids: &HashSet<u32>) -> Vec<usize> {
    let threads = pids.iter().flat_map(|pid| accounting::threads(*pid));
    // A thread that has ended since is skipped.
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

    /// Snapshots one second apart. `cpus`: for how many milliseconds each CPU was idle, and in soft
    /// interrupts. `processes`: for how many each process ran, and its children that have ended.
    fn snapshots(cpus: &[(u64, u64)], processes: &[(u32, u64, u64)]) -> (Snapshot, Snapshot) {
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
        let begin = Snapshot {
            at_us: 0,
            cpus: (0..cpus.len()).map(|cpu| Cpu { cpu, ..Cpu::default() }).collect(),
            processes: processes.iter().map(|&(pid, ..)| (pid, process(pid, 0, 0))).collect(),
            server: HashMap::from([(SERVER, process(SERVER, 0, 0))]),
            threads: None,
        };
        let each = processes.iter().map(|&(pid, used, children)| process(pid, used, children));
        let end = Snapshot {
            at_us: SECOND_US,
            cpus: cpus.iter().enumerate().map(cpu).collect(),
            processes: each.map(|process| (process.pid, process)).collect(),
            ..begin.clone()
        };
        (begin, end)
    }

    const OWN: u32 = 10;
    const SERVER: u32 = 20;

    /// Checks the milliseconds that others used, to the accuracy of ticks.
    #[track_caller]
    fn check(
        snapshots: &(Snapshot, Snapshot),
        interrupts_apart: bool,
        (own_cpus, server_cpus): (&[usize], &[usize]),
        expected_ms: u64,
    ) {
        let between = Between { begin: &snapshots.0, end: &snapshots.1, interrupts_apart };
        let own = between.activity(own_cpus, &HashSet::from([OWN]), 0);
        let others_us = between.observed(own, &HashSet::from([SERVER]), server_cpus).others_us;
        assert!(others_us.abs_diff(expected_ms * 1000) <= 20_000, "{others_us}");
    }

    /// The server used most of its own CPU, and that time is not subtracted from that of loops on
    /// the generator's CPU.
    #[test]
    fn a_servers_time_on_other_cpus_is_not_subtracted() {
        let seen = snapshots(&[(100, 0), (0, 0)], &[(OWN, 250, 0), (SERVER, 900, 0)]);
        check(&seen, false, (&[1], &[0]), 750);
        // The server may use the generator's CPU too, but all CPUs together were busy for that much
        // longer.
        check(&seen, false, (&[1], &[0, 1]), 750);
        let quiet = snapshots(&[(100, 0), (750, 0)], &[(OWN, 250, 0), (SERVER, 900, 0)]);
        check(&quiet, false, (&[1], &[0]), 0);
        check(&quiet, false, (&[1], &[0, 1]), 0);
        check(&quiet, false, (&[0, 1], &[0, 1]), 0);
    }

    /// Loops on a CPU that the generator may not use do not disturb it.
    #[test]
    fn others_on_other_cpus_do_not_count() {
        let seen = snapshots(&[(0, 0), (700, 0)], &[(OWN, 250, 0), (SERVER, 100, 0)]);
        check(&seen, false, (&[1], &[0]), 50);
        check(&seen, false, (&[1], &[0, 1]), 50);
    }

    #[test]
    fn children_that_have_ended_are_the_servers() {
        let seen = snapshots(&[(0, 0)], &[(OWN, 300, 0), (SERVER, 100, 600)]);
        check(&seen, false, (&[0], &[0]), 0);
    }

    /// The time of interrupts does not count as others' time where it is accounted to no process.
    #[test]
    fn interrupts_are_no_neighbours() {
        let seen = snapshots(&[(200, 300)], &[(OWN, 300, 0), (SERVER, 200, 0)]);
        check(&seen, true, (&[0], &[0]), 0);
        check(&seen, false, (&[0], &[0]), 300);
    }

    #[test]
    fn descendants_of_a_server_are_the_server() {
        let (_, mut end) = snapshots(&[], &[(2, 0, 0), (3, 0, 0), (4, 0, 0), (5, 0, 0)]);
        let mut is_child_of = |pid, parent| end.processes.get_mut(&pid).unwrap().parent = parent;
        is_child_of(3, 4);
        is_child_of(4, 2);
        assert_eq!(end.with_descendants(&HashSet::from([2])), HashSet::from([2, 3, 4]));
        // An ancestor of the generator has started its other descendants for other purposes.
        let own = std::process::id();
        let ours = Process { pid: own, parent: 2, ..end.processes[&2] };
        end.processes.insert(own, ours);
        assert_eq!(end.with_descendants(&HashSet::from([2, own])), HashSet::from([2]));
    }

    /// Adds a thread of the server that ran and waited for `ran_ms` and `waited_ms` milliseconds
    /// within the second, and was scheduled `turns` times.
    fn with_thread(
        snapshots: (Snapshot, Snapshot),
        ran_ms: u64,
        waited_ms: u64,
        turns: u64,
    ) -> (Snapshot, Snapshot) {
        let (mut begin, mut end) = snapshots;
        let first = Scheduled { ran_ns: 900_000_000, waited_ns: 800_000_000, turns: 70_000 };
        let last = Scheduled {
            ran_ns: first.ran_ns + ran_ms * 1_000_000,
            waited_ns: first.waited_ns + waited_ms * 1_000_000,
            turns: first.turns + turns,
        };
        begin.threads = Some(HashMap::from([(SERVER, first)]));
        end.threads = Some(HashMap::from([(SERVER, last)]));
        (begin, end)
    }

    /// The measurements of a server on `cpus` beside a generator on `own_cpus`.
    fn server_cpu(
        snapshots: &(Snapshot, Snapshot),
        own_cpus: &[usize],
        cpus: &[usize],
    ) -> Option<ServerCpu> {
        let between = Between { begin: &snapshots.0, end: &snapshots.1, interrupts_apart: false };
        let own = between.activity(own_cpus, &HashSet::from([OWN]), 0);
        between.observed(own, &HashSet::from([SERVER]), cpus).server
    }

    /// Checks how many milliseconds the server waited, and how many others ran, the latter to the
    /// accuracy of ticks.
    #[track_caller]
    fn check_server(had: Option<ServerCpu>, waited_ms: Option<u64>, others_ms: u64) {
        let had = had.expect("it was looked at");
        assert_eq!(had.run_delay_us, waited_ms.map(|ms| ms * 1000));
        assert!(had.others_us.abs_diff(others_ms * 1000) <= 20_000, "{had:?}");
    }

    /// Three busy loops on the server's CPU, and the generator on another.
    #[test]
    fn others_on_the_servers_cpus_are_seen() {
        let processes = [(OWN, 300, 0), (SERVER, 250, 0)];
        let beside = with_thread(snapshots(&[(0, 0), (700, 0)], &processes), 250, 740, 100);
        check_server(server_cpu(&beside, &[1], &[0]), Some(740), 740);
        let share = server_cpu(&beside, &[1], &[0]).and_then(|had| had.run_delay_share());
        assert!(share.is_some_and(|share| share > 0.7), "{share:?}");
        // Loops beside the generator only are not in the server's way.
        let apart = with_thread(snapshots(&[(745, 0), (0, 0)], &processes), 250, 3, 200);
        check_server(server_cpu(&apart, &[1], &[0]), Some(2), 0);
    }

    /// On one CPU the server waits for the generator; its threads wait for each other.
    #[test]
    fn a_server_that_waits_for_the_generator_does_not_wait_for_others() {
        let all =
            with_thread(snapshots(&[(0, 0)], &[(OWN, 500, 0), (SERVER, 490, 0)]), 490, 500, 0);
        check_server(server_cpu(&all, &[0], &[0]), Some(500), 0);
        let own = with_thread(snapshots(&[(0, 0), (0, 0)], &[(SERVER, 1_985, 0)]), 1_985, 9_000, 0);
        check_server(server_cpu(&own, &[], &[0, 1]), Some(9_000), 0);
        // The kernel and daemons run on any machine, and CPUs wake up.
        let few = with_thread(snapshots(&[(830, 0)], &[(SERVER, 100, 0)]), 100, 70, 10_000);
        check_server(server_cpu(&few, &[], &[0]), Some(20), 0);
    }

    #[test]
    fn the_waiting_of_threads_that_have_ended_is_not_known() {
        let none = snapshots(&[(0, 0)], &[(SERVER, 400, 0)]);
        check_server(server_cpu(&none, &[], &[0]), None, 590);
        let most = with_thread(snapshots(&[(0, 0)], &[(SERVER, 100, 300)]), 100, 600, 0);
        check_server(server_cpu(&most, &[], &[0]), None, 590);
        let few = with_thread(snapshots(&[(0, 0)], &[(SERVER, 400, 0)]), 370, 600, 0);
        check_server(server_cpu(&few, &[], &[0]), Some(600), 590);
        // The server went on running while the first snapshot read its threads.
        let mut slow = with_thread(snapshots(&[(0, 0)], &[(SERVER, 400, 0)]), 250, 600, 0);
        slow.0.server.get_mut(&SERVER).unwrap().used_us = 150_000;
        check_server(server_cpu(&slow, &[], &[0]), Some(600), 590);
        // All the time of a thread that began between the snapshots counts.
        let mut new = few.clone();
        let since = Scheduled { ran_ns: 0, waited_ns: 5_000_000, turns: 1 };
        new.1.threads.as_mut().unwrap().insert(SERVER + 1, since);
        check_server(server_cpu(&new, &[], &[0]), Some(605), 590);
    }

    #[test]
    fn a_server_that_was_not_known_beforehand_is_not_judged() {
        let processes = [(SERVER, 400, 0)];
        let mut seen = with_thread(snapshots(&[(0, 0)], &processes), 400, 600, 0);
        seen.0.server.clear();
        assert_eq!(server_cpu(&seen, &[], &[0]), None, "it did something else before");
        seen.0.processes.clear();
        assert!(server_cpu(&seen, &[], &[0]).is_some(), "it is new");
        let between = Between { begin: &seen.0, end: &seen.1, interrupts_apart: false };
        let own = between.activity(&[0], &HashSet::from([OWN]), 0);
        assert_eq!(between.observed(own, &HashSet::new(), &[]).server, None, "it is elsewhere");
    }

    /// Other processes may do anything: checks only that their time is known, and that the
    /// generator's is not part of it.
    #[test]
    fn the_generators_own_time_is_not_others() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap();
        let addresses = vec![address.local_addr().unwrap()];
        let window = Window { from_us: 0, to_us: 1 };
        let began_us = os::clock::now();
        let mut neighbours = Neighbours::new(addresses, os::affinity::allowed_cpus(), true);
        while os::clock::cpu_time_thread().as_millis() < 50 {}
        neighbours.observe(1, window);
        let seen = neighbours.observed(0).unwrap();
        assert_eq!(seen.server, None, "we serve ourselves");
        let others_us = seen.others_us;
        let all_us = (os::clock::now() - began_us) * neighbours.cpus.len() as u64;
        assert!(others_us <= all_us - 30_000, "{others_us} of {all_us}");
        // Nothing listens at the address any more, so the server is not known.
        drop(address);
        assert_eq!(neighbours.observed(0), None);
    }

    /// Reading all processes takes a while, for which a generator on the same CPU would wait.
    #[test]
    fn no_snapshot_is_taken_within_a_window() {
        let begin_us = |turns_us: &[u64]| {
            let mut neighbours = Neighbours::new(Vec::new(), Vec::new(), true);
            let first_us = neighbours.begin.as_ref().unwrap().at_us;
            let from_us = first_us + 10 * SECOND_US;
            let window = Window { from_us, to_us: from_us + SECOND_US };
            turns_us.iter().for_each(|turn_us| neighbours.observe(first_us + turn_us, window));
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
