//! What others did on the CPUs of generator and server while a run was measured: processor time
//! that neither of them used. Without it waiting for a CPU says little, because each may have its
//! share of the other's CPUs, too. And how long a server on this machine waited for its CPUs.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use os::accounting::{self, Cpu, Process, Scheduled, TICK_US};

use crate::client::Window;
use crate::outcome::ServerCpu;
use crate::void::OTHERS_ANYWHERE;
use crate::who_serves::{Server, who_serves};

/// So long before the window whoever looks on every 50 ms looks at the machine.
const BEFORE_US: u64 = 70_000;

/// A server with more threads is not judged: a look at each takes 10 to 20 us, all must have been
/// looked at when the window begins, and there may be 20 ms for that.
const THREADS_MAX: usize = 1_024;

/// The part of what a server used that threads may have used that have ended: how long those waited
/// nobody knows.
const ENDED_MAX: f64 = 0.1;

const NS_PER_US: u64 = 1_000;

/// Looks at the machine before the window and when it has ended: where there are many processes
/// that takes a while, and in the window it would hold the generator up. Who serves is found out
/// before all and afterwards: looking through all that is open takes its time.
pub(crate) struct Neighbours {
    addresses: Vec<SocketAddr>,
    cpus: Vec<usize>,
    /// Who serves when the run begins; nobody if it is not to be known what the server waited for.
    server: HashSet<u32>,
    begin: Option<Look>,
    end: Option<Look>,
}

/// What was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Processor time that others used on the generator's CPUs. It is at most so much: where a
    /// server that may use these CPUs and more has run is not known, and others may have driven it
    /// there.
    pub(crate) others_us: u64,
    /// What the server had; none where it is not to be known or cannot be.
    pub(crate) server: Option<ServerCpu>,
}

/// What CPUs and processes have done so far, and the threads of the server.
#[derive(Clone, Debug)]
struct Look {
    at_us: u64,
    cpus: Vec<Cpu>,
    processes: HashMap<u32, Process>,
    /// The processes of the server, looked at again after their threads.
    server: HashMap<u32, Process>,
    /// The threads of the server; none if there are too many.
    threads: Option<HashMap<u32, Scheduled>>,
}

/// What the generator, or a server, did between the looks, and where it may run.
#[derive(Clone, Copy)]
struct Doings<'l> {
    cpus: &'l [usize],
    /// Processor time that it used.
    used_us: u64,
    /// What it took its CPUs to wake up for it.
    waking_us: u64,
}

/// The looks at the begin and at the end of what is measured.
struct Between<'l> {
    begin: &'l Look,
    end: &'l Look,
    /// Whether interrupts are in nobody's processor time.
    interrupts_apart: bool,
}

impl Neighbours {
    /// Of a run that asks at these addresses, and whose threads may run on these CPUs; whether it
    /// is to be known what the server waited for. It looks at once, for the case that the run
    /// begins before there is time to look again.
    pub(crate) fn of(addresses: Vec<SocketAddr>, cpus: Vec<usize>, with_server: bool) -> Self {
        let server = match with_server.then(|| who_serves(&addresses)) {
            Some(Server::Processes(pids)) => pids,
            None | Some(Server::Elsewhere | Server::Unknown) => HashSet::new(),
        };
        let begin = Look::now(&server);
        Self { addresses, cpus, server, begin, end: None }
    }

    /// Looks if it is time to.
    pub(crate) fn look(&mut self, now_us: u64, window: Window) {
        let is_soon = (window.from_us.saturating_sub(BEFORE_US)..window.from_us).contains(&now_us);
        let is_old = |look: &Look| look.at_us + BEFORE_US < window.from_us;
        if is_soon && self.begin.as_ref().is_none_or(is_old) {
            self.begin = Look::now(&self.server);
        }
        if self.end.is_none() && now_us >= window.to_us {
            self.end = Look::now(&self.server);
        }
    }

    /// What was seen between the looks, of which the second may be now, of a generator whose
    /// threads were woken so often; none where that cannot be known.
    pub(crate) fn seen(&self, wake_ups: u64) -> Option<Seen> {
        let end = self.end.clone().or_else(|| Look::now(&self.server))?;
        let interrupts_apart = accounting::interrupts_apart();
        let between = Between { begin: self.begin.as_ref()?, end: &end, interrupts_apart };
        let server = match who_serves(&self.addresses) {
            Server::Elsewhere => HashSet::new(),
            Server::Processes(pids) => end.with_descendants(&pids),
            Server::Unknown => return None,
        };
        let own = between.doings(&self.cpus, &HashSet::from([std::process::id()]), wake_ups);
        Some(between.seen(own, &server, &cpus_of(&server)))
    }
}

impl Look {
    /// Now, at the threads of these processes and those that descend from them, too.
    fn now(server: &HashSet<u32>) -> Option<Self> {
        let (cpus, at_us) = (accounting::cpus().ok()?, os::clock::now());
        let processes = accounting::processes().map(|process| (process.pid, process)).collect();
        let mut look = Self { at_us, cpus, processes, server: HashMap::new(), threads: None };
        let server = look.with_descendants(server);
        look.threads = threads_of(&server);
        let again = |pid| Some((pid, accounting::process(pid)?));
        look.server = server.into_iter().filter_map(again).collect();
        Some(look)
    }

    /// These, and those that descend from them. Of whom the generator itself descends, such as a
    /// manager of services that holds their listeners, others do that have nothing to do with it.
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

impl Doings<'_> {
    fn took_us(self) -> u64 {
        self.used_us + self.waking_us
    }
}

impl Between<'_> {
    /// What was seen beside what the generator did, where these processes serve that may run on
    /// these CPUs.
    fn seen(&self, own: Doings<'_>, pids: &HashSet<u32>, cpus: &[usize]) -> Seen {
        let scheduled = self.scheduled();
        let Scheduled { ran_ns, turns, .. } = scheduled.unwrap_or_default();
        let server = self.doings(cpus, pids, turns);
        // Ticks are coarse where many processes do little each.
        let server = Doings { used_us: server.used_us.max(ran_ns / NS_PER_US), ..server };
        let is_known = !pids.is_empty() && pids.iter().all(|pid| self.is_known(*pid));
        // Nobody knows how long those waited that have ended.
        let rounding_us = TICK_US * pids.len() as u64;
        let ended_max_us = (server.used_us as f64 * ENDED_MAX) as u64 + rounding_us;
        let are_there = self.ended_us(pids, ran_ns / NS_PER_US) <= ended_max_us;
        let had = || self.server_cpu(server, own, scheduled.filter(|_| are_there));
        Seen { others_us: self.others_us(own, server), server: is_known.then(had) }
    }

    fn server_cpu(
        &self,
        server: Doings<'_>,
        own: Doings<'_>,
        scheduled: Option<Scheduled>,
    ) -> ServerCpu {
        let all_us = (self.end.at_us - self.begin.at_us) * server.cpus.len() as u64;
        let anywhere_us = (all_us as f64 * OTHERS_ANYWHERE) as u64;
        // Threads are ready, and have no CPU, while that wakes up.
        let waited_us = |it: Scheduled| (it.waited_ns / NS_PER_US).saturating_sub(server.waking_us);
        ServerCpu {
            run_delay_us: scheduled.map(waited_us),
            others_us: self.others_us(server, own).saturating_sub(anywhere_us),
            used_us: server.used_us,
        }
    }

    fn doings<'l>(&self, cpus: &'l [usize], pids: &HashSet<u32>, wake_ups: u64) -> Doings<'l> {
        let waking_us = accounting::waking_us(wake_ups, &self.those(cpus));
        Doings { cpus, used_us: self.used_us(pids), waking_us }
    }

    /// What others used on the CPUs of one, where it and another did this. What the other used on
    /// other CPUs is not taken off.
    fn others_us(&self, one: Doings<'_>, other: Doings<'_>) -> u64 {
        let here_us = self.in_use_us(one.cpus).saturating_sub(one.took_us());
        if !other.cpus.iter().any(|cpu| one.cpus.contains(cpu)) {
            return here_us;
        }
        let all = [one.cpus, other.cpus].concat();
        here_us.min(self.in_use_us(&all).saturating_sub(one.took_us() + other.took_us()))
    }

    /// Whether a process of the server was looked at both times, or began in between: one that
    /// serves only since then did something else before.
    fn is_known(&self, pid: u32) -> bool {
        let looked_at =
            |look: &Look| !look.processes.contains_key(&pid) || look.server.contains_key(&pid);
        looked_at(self.begin) && looked_at(self.end)
    }

    /// What a server's threads did that had not ended; none where that is not known.
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

    /// Processor time of threads that have ended, where those that have not ran so long; at least.
    /// A look takes longer where the CPUs are busy: so of what the processes used that counts
    /// which is between the two looks at threads for sure.
    fn ended_us(&self, pids: &HashSet<u32>, ran_us: u64) -> u64 {
        let first_us = |pid| self.begin.server.get(pid).map_or(0, so_far_us);
        let last_us = |pid| self.end.processes.get(pid).map_or(0, so_far_us);
        let used_us: u64 = pids.iter().map(|pid| last_us(pid).saturating_sub(first_us(pid))).sum();
        used_us.saturating_sub(ran_us)
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
        let at = |look: &Look, pid| look.processes.get(pid).map_or(0, so_far_us);
        pids.iter().map(|pid| at(self.end, pid).saturating_sub(at(self.begin, pid))).sum()
    }
}

fn so_far_us(process: &Process) -> u64 {
    process.used_us + process.children_us
}

/// What the scheduler has counted of the threads of these processes; none if they are too many.
fn threads_of(pids: &HashSet<u32>) -> Option<HashMap<u32, Scheduled>> {
    let all = pids.iter().flat_map(|pid| accounting::threads(*pid).map(|thread| (*pid, thread)));
    let some: Vec<(u32, u32)> = all.take(THREADS_MAX + 1).collect();
    let scheduled = |(pid, thread)| Some((thread, accounting::scheduled(pid, thread)?));
    (some.len() <= THREADS_MAX).then(|| some.into_iter().filter_map(scheduled).collect())
}

/// Where the threads of these processes may run.
fn cpus_of(pids: &HashSet<u32>) -> Vec<usize> {
    let threads = pids.iter().flat_map(|pid| accounting::threads(*pid));
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
            server: HashMap::from([(SERVER, process(SERVER, 0, 0))]),
            threads: None,
        };
        let each = processes.iter().map(|&(pid, used, children)| process(pid, used, children));
        let end = Look {
            at_us: SECOND_US,
            cpus: cpus.iter().enumerate().map(cpu).collect(),
            processes: each.map(|process| (process.pid, process)).collect(),
            ..begin.clone()
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
        let own = between.doings(own_cpus, &HashSet::from([OWN]), 0);
        let others_us = between.seen(own, &HashSet::from([SERVER]), server_cpus).others_us;
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

    /// Interrupts are not the time of others where no process's time holds them.
    #[test]
    fn interrupts_are_no_neighbours() {
        let seen = looks(&[(200, 300)], &[(OWN, 300, 0), (SERVER, 200, 0)]);
        check(&seen, true, (&[0], &[0]), 0);
        check(&seen, false, (&[0], &[0]), 300);
    }

    #[test]
    fn descendants_of_a_server_are_the_server() {
        let (_, mut end) = looks(&[], &[(2, 0, 0), (3, 0, 0), (4, 0, 0), (5, 0, 0)]);
        let mut is_child_of = |pid, parent| end.processes.get_mut(&pid).unwrap().parent = parent;
        is_child_of(3, 4);
        is_child_of(4, 2);
        assert_eq!(end.with_descendants(&HashSet::from([2])), HashSet::from([2, 3, 4]));
        // Whoever started us, too, has started them for other ends.
        let own = std::process::id();
        let ours = Process { pid: own, parent: 2, ..end.processes[&2] };
        end.processes.insert(own, ours);
        assert_eq!(end.with_descendants(&HashSet::from([2, own])), HashSet::from([2]));
    }

    /// Within the same second, a thread of the server ran and waited for so many milliseconds, and
    /// came to run so often.
    fn with_thread(looks: (Look, Look), ran_ms: u64, waited_ms: u64, turns: u64) -> (Look, Look) {
        let (mut begin, mut end) = looks;
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

    /// What a server on `cpus` had beside a generator on `own_cpus`.
    fn server_cpu(looks: &(Look, Look), own_cpus: &[usize], cpus: &[usize]) -> Option<ServerCpu> {
        let between = Between { begin: &looks.0, end: &looks.1, interrupts_apart: false };
        let own = between.doings(own_cpus, &HashSet::from([OWN]), 0);
        between.seen(own, &HashSet::from([SERVER]), cpus).server
    }

    /// How long it waited, and others ran, in milliseconds, the second as far as ticks tell.
    #[track_caller]
    fn check_server(had: Option<ServerCpu>, waited_ms: Option<u64>, others_ms: u64) {
        let had = had.expect("it was looked at");
        assert_eq!(had.run_delay_us, waited_ms.map(|ms| ms * 1000));
        assert!(had.others_us.abs_diff(others_ms * 1000) <= 20_000, "{had:?}");
    }

    /// Three busy loops on the server's CPU, and the generator on another.
    #[test]
    fn what_others_did_on_the_servers_cpus_is_seen() {
        let processes = [(OWN, 300, 0), (SERVER, 250, 0)];
        let beside = with_thread(looks(&[(0, 0), (700, 0)], &processes), 250, 740, 100);
        check_server(server_cpu(&beside, &[1], &[0]), Some(740), 740);
        let share = server_cpu(&beside, &[1], &[0]).and_then(|had| had.run_delay_share());
        assert!(share.is_some_and(|share| share > 0.7), "{share:?}");
        // Loops beside the generator only are not in the server's way.
        let apart = with_thread(looks(&[(745, 0), (0, 0)], &processes), 250, 3, 200);
        check_server(server_cpu(&apart, &[1], &[0]), Some(2), 0);
    }

    /// On one CPU it waits for the generator; its threads wait for each other.
    #[test]
    fn who_waits_for_the_generator_does_not_wait_for_others() {
        let all = with_thread(looks(&[(0, 0)], &[(OWN, 500, 0), (SERVER, 490, 0)]), 490, 500, 0);
        check_server(server_cpu(&all, &[0], &[0]), Some(500), 0);
        let own = with_thread(looks(&[(0, 0), (0, 0)], &[(SERVER, 1_985, 0)]), 1_985, 9_000, 0);
        check_server(server_cpu(&own, &[], &[0, 1]), Some(9_000), 0);
        // The kernel and daemons run on any machine, and CPUs wake up.
        let few = with_thread(looks(&[(830, 0)], &[(SERVER, 100, 0)]), 100, 70, 10_000);
        check_server(server_cpu(&few, &[], &[0]), Some(20), 0);
    }

    #[test]
    fn nobody_knows_how_long_threads_waited_that_have_ended() {
        let none = looks(&[(0, 0)], &[(SERVER, 400, 0)]);
        check_server(server_cpu(&none, &[], &[0]), None, 590);
        let most = with_thread(looks(&[(0, 0)], &[(SERVER, 100, 300)]), 100, 600, 0);
        check_server(server_cpu(&most, &[], &[0]), None, 590);
        let few = with_thread(looks(&[(0, 0)], &[(SERVER, 400, 0)]), 370, 600, 0);
        check_server(server_cpu(&few, &[], &[0]), Some(600), 590);
        // While the first look was at the threads the server went on.
        let mut slow = with_thread(looks(&[(0, 0)], &[(SERVER, 400, 0)]), 250, 600, 0);
        slow.0.server.get_mut(&SERVER).unwrap().used_us = 150_000;
        check_server(server_cpu(&slow, &[], &[0]), Some(600), 590);
        // One that has begun meanwhile has done all that it did since.
        let mut new = few.clone();
        let since = Scheduled { ran_ns: 0, waited_ns: 5_000_000, turns: 1 };
        new.1.threads.as_mut().unwrap().insert(SERVER + 1, since);
        check_server(server_cpu(&new, &[], &[0]), Some(605), 590);
    }

    #[test]
    fn a_server_that_was_not_known_beforehand_is_not_judged() {
        let processes = [(SERVER, 400, 0)];
        let mut seen = with_thread(looks(&[(0, 0)], &processes), 400, 600, 0);
        seen.0.server.clear();
        assert_eq!(server_cpu(&seen, &[], &[0]), None, "it did something else before");
        seen.0.processes.clear();
        assert!(server_cpu(&seen, &[], &[0]).is_some(), "it is new");
        let between = Between { begin: &seen.0, end: &seen.1, interrupts_apart: false };
        let own = between.doings(&[0], &HashSet::from([OWN]), 0);
        assert_eq!(between.seen(own, &HashSet::new(), &[]).server, None, "it is elsewhere");
    }

    /// Others may do what they like: only that it is known, and that we are not among them.
    #[test]
    fn what_we_use_is_not_others() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap();
        let addresses = vec![address.local_addr().unwrap()];
        let window = Window { from_us: 0, to_us: 1 };
        let began_us = os::clock::now();
        let mut neighbours = Neighbours::of(addresses, os::affinity::allowed_cpus(), true);
        while os::clock::cpu_time_thread().as_millis() < 50 {}
        neighbours.look(1, window);
        let seen = neighbours.seen(0).unwrap();
        assert_eq!(seen.server, None, "we serve ourselves");
        let others_us = seen.others_us;
        let all_us = (os::clock::now() - began_us) * neighbours.cpus.len() as u64;
        assert!(others_us <= all_us - 30_000, "{others_us} of {all_us}");
        // Nobody listens there any more, who could be known.
        drop(address);
        assert_eq!(neighbours.seen(0), None);
    }

    /// Reading of all processes takes a while, for which a generator on the same CPU would wait.
    #[test]
    fn nobody_looks_within_a_window() {
        let begin_us = |turns_us: &[u64]| {
            let mut neighbours = Neighbours::of(Vec::new(), Vec::new(), true);
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
