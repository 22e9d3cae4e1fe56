//! Processor time as the kernel counts it: of each CPU in `/proc/stat`, of each process in
//! `/proc/PID/stat` (proc_stat(5), proc_pid_stat(5)), of each thread in `schedstat`. The module
//! only reads these counts and draws no conclusions from them.
//!
//! The first two are in ticks, and none says on which CPU a process ran. A CPU's idle time is
//! measured; its busy time is sampled at each tick, and a program that is scheduled by the same
//! clock may escape the samples.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::OnceLock;

/// The resolution, in microseconds, of the processor times that the kernel reports: USER_HZ is 100
/// on every current architecture.
pub const TICK_US: u64 = 10_000;

/// The longest time that one wake-up takes: 3.5 to 5 us in a virtual machine, where each one
/// involves the host, and less on real processors.
const WAKE_UP_US: u64 = 5;

/// How often the threads of a process are listed before a list that seems too short is accepted:
/// where threads end all the time, every list is shorter than the count before it.
const LISTS_MAX: u32 = 8;

/// How one CPU has spent its time since the machine started, or between two readings; in
/// microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// The CPU's number, from 0.
    pub cpu: usize,
    /// Time in user mode, guests and nice processes included.
    pub user_us: u64,
    /// Time in system mode, without interrupts.
    pub system_us: u64,
    /// Time with nothing to do.
    pub idle_us: u64,
    /// Time with nothing to do, while something waited for a disk.
    pub iowait_us: u64,
    /// Time in interrupts.
    pub irq_us: u64,
    /// Time in soft interrupts.
    pub softirq_us: u64,
    /// Time that the host of a virtual machine took while something was ready to run.
    pub steal_us: u64,
}

/// What the kernel reports of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// The process's number.
    pub pid: u32,
    /// The number of the process's parent.
    pub parent: u32,
    /// Its process group, by the number of the process that led it first.
    pub group: u32,
    /// Whether the process has ended and its parent has not yet waited for it.
    pub has_ended: bool,
    /// When the process started, in ticks since the machine started.
    pub start_ticks: u64,
    /// Processor time of all its threads so far, those that have ended included, in microseconds.
    pub used_us: u64,
    /// Processor time, in microseconds, of the process's children that have ended and that it has
    /// waited for, and of theirs.
    pub children_us: u64,
}

/// What the scheduler has counted of a thread so far, or between two readings
/// (Documentation/scheduler/sched-stats.rst). The counts of a thread that ends are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduled {
    /// How long it ran, in nanoseconds.
    pub ran_ns: u64,
    /// How long it was ready to run while others ran on the CPUs that it may use, in nanoseconds.
    pub waited_ns: u64,
    /// How often the thread came to run: at least as often as it was woken.
    pub turns: u64,
}

/// How each CPU that is on has spent its time so far.
///
/// # Errors
/// When `/proc/stat` cannot be read.
pub fn cpus() -> io::Result<Vec<Cpu>> {
    Ok(parse_cpus(&fs::read_to_string("/proc/stat")?))
}

/// What the kernel reports of the process `pid`; none if there is no such process.
#[must_use]
pub fn process(pid: u32) -> Option<Process> {
    // A name need not be text.
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_process(pid, &String::from_utf8_lossy(&stat))
}

/// The numbers of a process's threads, by age; none if there is no such process.
///
/// The kernel ends its list early if a thread ends that is being listed, which would hide all
/// younger ones. The link count of the folder gives the number of threads before, so that a list
/// that is shorter is read again.
#[must_use]
pub fn threads(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task");
    let mut found = Vec::new();
    for _ in 0..LISTS_MAX {
        let Ok(folder) = fs::metadata(&path) else { break };
        let names = fs::read_dir(&path).into_iter().flatten().flatten();
        found = names.filter_map(|name| name.file_name().to_str()?.parse().ok()).collect();
        // Links of the folder itself, and one of each thread.
        if found.len() as u64 + 2 >= folder.nlink() {
            break;
        }
    }
    found
}

/// What the scheduler has counted of a thread of a process; none if there is no such thread, and
/// where the kernel does not count it.
#[must_use]
pub fn scheduled(pid: u32, thread: u32) -> Option<Scheduled> {
    Scheduled::parse(&fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?)
}

/// All processes that this process may see.
pub fn processes() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| process(entry.file_name().to_str()?.parse().ok()?))
}

/// Whether this kernel counts the time of interrupts apart from that of the thread that was
/// interrupted (CONFIG_IRQ_TIME_ACCOUNTING). If the kernel's configuration cannot be read, the
/// answer is yes: then less time is held against other programs.
pub fn interrupts_apart() -> bool {
    static APART: OnceLock<bool> = OnceLock::new();
    *APART.get_or_init(|| {
        let kept = fs::read_to_string(format!("/boot/config-{}", crate::process::kernel_release()));
        let packed = || Some(Command::new("zcat").arg("/proc/config.gz").output().ok()?.stdout);
        let text = kept.ok().or_else(|| String::from_utf8(packed()?).ok());
        text.is_none_or(|text| counts_apart(&text))
    })
}

fn counts_apart(config: &str) -> bool {
    config.lines().all(|line| line != "# CONFIG_IRQ_TIME_ACCOUNTING is not set")
}

impl Scheduled {
    /// Reads the text of a `schedstat`, all of which is 0 where the kernel has the file but no
    /// counts.
    #[must_use]
    pub fn parse(schedstat: &str) -> Option<Self> {
        let mut fields = schedstat.split_whitespace().map(|field| field.parse().ok());
        let mut next = || fields.next()?;
        let all = Self { ran_ns: next()?, waited_ns: next()?, turns: next()? };
        (all != Self::default()).then_some(all)
    }

    /// The difference from an earlier reading of the same thread.
    #[must_use]
    pub fn since(&self, first: &Self) -> Self {
        Self {
            ran_ns: self.ran_ns.saturating_sub(first.ran_ns),
            waited_ns: self.waited_ns.saturating_sub(first.waited_ns),
            turns: self.turns.saturating_sub(first.turns),
        }
    }
}

impl Cpu {
    /// The difference from an earlier reading of the same CPU.
    #[must_use]
    pub fn since(&self, first: &Self) -> Self {
        Self {
            cpu: self.cpu,
            user_us: self.user_us.saturating_sub(first.user_us),
            system_us: self.system_us.saturating_sub(first.system_us),
            idle_us: self.idle_us.saturating_sub(first.idle_us),
            iowait_us: self.iowait_us.saturating_sub(first.iowait_us),
            irq_us: self.irq_us.saturating_sub(first.irq_us),
            softirq_us: self.softirq_us.saturating_sub(first.softirq_us),
            steal_us: self.steal_us.saturating_sub(first.steal_us),
        }
    }

    /// How long processes, or the host of a virtual machine, kept the CPU busy during a window of
    /// `window_us`; a lower bound, for ticks are coarse. Where interrupts are counted apart from
    /// processes (`apart`) they are not included here either.
    #[must_use]
    pub fn in_use_us(&self, window_us: u64, apart: bool) -> u64 {
        let interrupts_us = if apart { self.irq_us + self.softirq_us } else { 0 };
        window_us.saturating_sub(self.idle_us + self.iowait_us + interrupts_us + TICK_US)
    }
}

/// The time, in microseconds, that CPUs spent on so many wake-ups from idleness and on going idle
/// again, which is neither in any process's processor time nor idle time. A CPU that was never idle
/// has not woken up.
#[must_use]
pub fn waking_us(wake_ups: u64, cpus: &[Cpu]) -> u64 {
    let idle_us = cpus.iter().map(|cpu| cpu.idle_us + cpu.iowait_us).sum();
    wake_ups.saturating_mul(WAKE_UP_US).min(idle_us)
}

/// What each CPU that is in both readings did between them.
#[must_use]
pub fn between(first: &[Cpu], last: &[Cpu]) -> Vec<Cpu> {
    let since = |last: &Cpu| Some(last.since(first.iter().find(|first| first.cpu == last.cpu)?));
    last.iter().filter_map(since).collect()
}

/// Reads the lines of nine numbers or more: the first eight are user, nice, system, idle, iowait,
/// irq, softirq and steal, and the time of guests is included in that of user mode.
fn parse_cpus(stat: &str) -> Vec<Cpu> {
    let of_line = |line: &str| {
        let (cpu, numbers) = line.strip_prefix("cpu")?.split_once(' ')?;
        let cpu = cpu.parse().ok()?;
        let mut us = [0; 8];
        for (us, ticks) in us.iter_mut().zip(numbers.split_whitespace()) {
            *us = ticks.parse::<u64>().ok()? * TICK_US;
        }
        let [user, nice, system_us, idle_us, iowait_us, irq_us, softirq_us, steal_us] = us;
        let user_us = user + nice;
        Some(Cpu { cpu, user_us, system_us, idle_us, iowait_us, irq_us, softirq_us, steal_us })
    };
    stat.lines().filter_map(of_line).collect()
}

fn parse_process(pid: u32, stat: &str) -> Option<Process> {
    // The second field, the name, may hold anything, blanks and brackets included.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied();
    let number = |at: usize| field(at)?.parse::<u64>().ok();
    Some(Process {
        pid,
        parent: field(4)?.parse().ok()?,
        group: field(5)?.parse().ok()?,
        // Z is a process that its parent has not waited for, X and x are dead.
        has_ended: matches!(field(3)?, "Z" | "X" | "x"),
        start_ticks: number(22)?,
        used_us: (number(14)? + number(15)?) * TICK_US,
        children_us: (number(16)? + number(17)?) * TICK_US,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_cpu_is_read_by_its_states() {
        let text = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 100 50 4 5 6 7 8\ncpu12 1 0 0 9\nintr 5\n";
        let expected = Cpu {
            cpu: 0,
            user_us: 30_000,
            system_us: 30_000,
            idle_us: 1_000_000,
            iowait_us: 500_000,
            irq_us: 40_000,
            softirq_us: 50_000,
            steal_us: 60_000,
        };
        let cpus = parse_cpus(text);
        assert_eq!(cpus[0], expected);
        assert_eq!((cpus[1].cpu, cpus[1].user_us, cpus[1].idle_us), (12, 10_000, 90_000));
        assert_eq!(cpus.len(), 2);
        assert_eq!((parse_cpus("cpu0 1 x 3\n"), parse_cpus("")), (vec![], vec![]));
    }

    #[test]
    fn a_thread_says_how_long_it_ran_and_waited() {
        let expected = Scheduled { ran_ns: 1_096_624, waited_ns: 70_012, turns: 3 };
        assert_eq!(Scheduled::parse("1096624 70012 3\n"), Some(expected));
        let of = Scheduled::parse;
        assert_eq!((of("0 0 0\n"), of(""), of("12 5"), of("1 x 3")), (None, None, None, None));
        // The first turn of a thread, whose time is counted at the next tick.
        let new = Scheduled { waited_ns: 49_593, turns: 1, ..Scheduled::default() };
        assert_eq!(of("0 49593 1\n"), Some(new));
        let later = Scheduled { ran_ns: 1_096_625, waited_ns: 70_112, turns: 5 };
        assert_eq!(later.since(&expected), Scheduled { ran_ns: 1, waited_ns: 100, turns: 2 });
    }

    fn this_thread() -> u32 {
        let path = fs::read_link("/proc/thread-self").unwrap();
        path.file_name().unwrap().to_str().unwrap().parse().unwrap()
    }

    /// Threads are listed by age: where one that ends would end the list, a younger one is missing.
    #[test]
    fn threads_that_end_hide_no_others() {
        for _ in 0..50 {
            let (may_end, is_over) = (Barrier::new(22), Barrier::new(2));
            let youngest = AtomicU32::new(0);
            std::thread::scope(|scope| {
                for _ in 0..20 {
                    scope.spawn(|| may_end.wait());
                }
                scope.spawn(|| {
                    youngest.store(this_thread(), Ordering::Relaxed);
                    may_end.wait();
                    is_over.wait();
                });
                may_end.wait();
                let youngest = youngest.load(Ordering::Relaxed);
                let is_listed = || threads(std::process::id()).contains(&youngest);
                let hidden = (0..50).filter(|_| !is_listed()).count();
                is_over.wait();
                assert_eq!(hidden, 0);
            });
        }
    }

    /// A thread that sleeps has one more turn each time it is woken.
    #[test]
    fn a_thread_is_known_by_its_turns() {
        let (own, thread) = (std::process::id(), this_thread());
        assert!(threads(own).contains(&thread));
        let Some(before) = scheduled(own, thread) else {
            return testkit::leave_out("turns of a thread", "this kernel counts none (schedstats)");
        };
        (0..5).for_each(|_| std::thread::sleep(std::time::Duration::from_millis(1)));
        assert!(scheduled(own, thread).unwrap().since(&before).turns >= 5);
        assert_eq!((threads(u32::MAX), scheduled(u32::MAX, 1)), (Vec::new(), None));
    }

    #[test]
    fn differences_are_by_cpu() {
        let cpu = |cpu, idle_us| Cpu { cpu, idle_us, ..Cpu::default() };
        let found = between(&[cpu(0, 5), cpu(3, 7)], &[cpu(3, 9), cpu(0, 5), cpu(4, 1)]);
        assert_eq!(found, [cpu(3, 2), cpu(0, 0)]);
    }

    /// Where interrupts are counted apart they are in no process's time.
    #[test]
    fn a_cpu_is_in_use_when_it_is_not_idle() {
        let cpu = Cpu {
            idle_us: 300_000,
            iowait_us: 100_000,
            irq_us: 50_000,
            softirq_us: 150_000,
            ..Cpu::default()
        };
        assert_eq!(cpu.in_use_us(1_000_000, false), 600_000 - TICK_US);
        assert_eq!(cpu.in_use_us(1_000_000, true), 400_000 - TICK_US);
        assert_eq!(cpu.in_use_us(300_000, false), 0);
    }

    #[test]
    fn what_has_not_rested_has_not_woken_up() {
        let of = |idle_us| Cpu { idle_us, ..Cpu::default() };
        assert_eq!(waking_us(100, &[of(400), of(200)]), 500);
        assert_eq!(waking_us(100, &[of(400)]), 400);
        assert_eq!((waking_us(u64::MAX, &[of(0)]), waking_us(0, &[of(400)])), (0, 0));
    }

    #[test]
    fn a_process_says_what_it_and_its_children_used() {
        let text = "7 (a b) c) Z 1 6 7 0 -1 4194560 1 2 3 4 150 50 9 9 20 0 1 0 55 0";
        let expected = Process {
            pid: 7,
            parent: 1,
            group: 6,
            has_ended: true,
            start_ticks: 55,
            used_us: 2_000_000,
            children_us: 180_000,
        };
        assert_eq!(parse_process(7, text), Some(expected));
        assert_eq!((parse_process(7, ""), parse_process(7, "7 (a) S 1 7")), (None, None));
    }

    #[test]
    fn what_a_child_used_is_its_parents_when_it_has_ended() {
        let own = || process(std::process::id()).unwrap();
        let before = own();
        let count = "n=0; while [ $n -lt 40000 ]; do n=$((n + 1)); done";
        Command::new("sh").args(["-c", count]).status().unwrap();
        assert!(own().children_us > before.children_us);
        assert!(processes().any(|process| process.pid == own().pid && !process.has_ended));
    }

    #[test]
    fn the_kernel_says_how_it_counts_interrupts() {
        let said = "CONFIG_HZ=250\n# CONFIG_IRQ_TIME_ACCOUNTING is not set\n";
        assert!(!counts_apart(said));
        assert!(counts_apart("CONFIG_IRQ_TIME_ACCOUNTING=y\n") && counts_apart(""));
    }

    #[test]
    fn every_machine_has_a_cpu() {
        assert!(cpus().unwrap().iter().any(|cpu| cpu.idle_us + cpu.user_us + cpu.system_us > 0));
    }
}
