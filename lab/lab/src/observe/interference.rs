//! Interference by other processes on the CPUs of a trial while it was measured: processor time
//! that neither the server nor the load generator used, and how long these were ready and waited
//! meanwhile. All functions are pure.
//!
//! The numbers are lower bounds: time that cannot be told from the trial's own is not counted.

use load::outcome::delayed_share;
use load::void::OTHERS_ANYWHERE;
use os::accounting::{self, Cpu};
use page::number;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The largest share of a trial's resources that other processes may have used; beyond it the run
/// is void. A comparison resolves differences of 2 %; interference below this limit is evened out
/// by the median of a few runs, if it comes and goes.
pub const INTERFERENCE_MAX: f64 = 0.05;

/// Smaller shares are not reported, and a trial that waited for as much is not said to be delayed.
pub const INTERFERENCE_REPORTED: f64 = OTHERS_ANYWHERE;

/// The part of a trial that other processes disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disturbed {
    /// Other processes used the server's CPUs; the share is of the time of these CPUs.
    ServerCpus,
    /// Other processes used the load generator's CPUs.
    ClientCpus,
    /// Other processes used CPUs on which server and generator run together.
    SharedCpus,
    /// Other processes ran while the server was ready to run; the share is of the time in which it
    /// wanted to run.
    Server,
    /// Other processes ran while the load generator was ready to run.
    Generator,
    /// Other processes ran while the lab was to look at the window; the share is of the window.
    Lab,
}

impl Disturbed {
    /// All parts, in the order in which they are reported.
    pub const ALL: [Self; 6] = [
        Self::ServerCpus,
        Self::ClientCpus,
        Self::SharedCpus,
        Self::Server,
        Self::Generator,
        Self::Lab,
    ];

    /// The name of its share among the observations of a run.
    pub fn name(self) -> &'static str {
        match self {
            Self::ServerCpus => "foreign_server_cpus_share",
            Self::ClientCpus => "foreign_client_cpus_share",
            Self::SharedCpus => "foreign_cpus_share",
            Self::Server => "server_delayed_share",
            Self::Generator => "generator_delayed_share",
            Self::Lab => "lab_delayed_share",
        }
    }

    /// Describes in words that other processes disturbed this part by `share`.
    pub fn describe(self, share: f64) -> String {
        let percent = number::percent((share * 1000.0).round() / 1000.0);
        let used = |cpus: &str| format!("other processes used {percent} of {cpus}");
        let held_up = |process: &str| {
            format!("other processes kept {process} from running for {percent} of the time")
        };
        match self {
            Self::ServerCpus => used("the server's CPUs"),
            Self::ClientCpus => used("the load generator's CPUs"),
            Self::SharedCpus => used("the CPUs"),
            Self::Server => held_up("the server"),
            Self::Generator => held_up("the load generator"),
            Self::Lab => format!("the lab was late and has missed {percent} of the window"),
        }
    }
}

/// The CPU usage of a server or a load generator within a trial's window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CpuUsage<'a> {
    /// The CPUs on which it may run.
    pub(crate) cpus: &'a [usize],
    /// Processor time that it used.
    pub(crate) cpu_us: u64,
    /// How long its threads together were ready and had no CPU; none where that is not known.
    pub(crate) waited_us: Option<u64>,
    /// How often its threads waited for something: its CPUs may have been idle, and been woken, as
    /// often. 0 where that is not known.
    pub(crate) wake_ups: u64,
}

/// The activity of all CPUs within a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine<'a> {
    /// The length of the window.
    pub(crate) window_us: u64,
    /// The activity of each CPU in the window.
    pub(crate) cpus: &'a [Cpu],
    /// Whether the kernel counts the time of interrupts apart; if not, it is part of the processor
    /// time of the interrupted thread.
    pub(crate) interrupts_apart: bool,
    /// Processor time of the lab itself, on any CPU: observing a server takes some.
    pub(crate) lab_us: u64,
}

/// The share of a trial's resources that other processes used, for each disturbed part.
pub(crate) fn interference(
    machine: &Machine<'_>,
    server: CpuUsage<'_>,
    generator: CpuUsage<'_>,
) -> BTreeMap<Disturbed, f64> {
    let is_shared = generator.cpus.iter().any(|cpu| server.cpus.contains(cpu));
    let mut shares = BTreeMap::new();
    let mut insert_share = |disturbed: Disturbed, cpus: &[usize], own: &[CpuUsage<'_>]| {
        let wake_ups = own.iter().map(|usage| usage.wake_ups).sum();
        let own_us = own.iter().map(|usage| usage.cpu_us).sum();
        let foreign_us = machine.foreign_us(cpus, own_us, wake_ups);
        let all_us = cpus.len() as u64 * machine.window_us;
        shares.insert(disturbed, foreign_us as f64 / all_us.max(1) as f64);
        foreign_us.saturating_sub((all_us as f64 * INTERFERENCE_REPORTED) as u64)
    };
    let delaying_us = match is_shared {
        true => {
            let mut cpus = [server.cpus, generator.cpus].concat();
            cpus.sort_unstable();
            cpus.dedup();
            [insert_share(Disturbed::SharedCpus, &cpus, &[server, generator]); 2]
        }
        false => [
            insert_share(Disturbed::ServerCpus, server.cpus, &[server]),
            insert_share(Disturbed::ClientCpus, generator.cpus, &[generator]),
        ],
    };
    let both = [(Disturbed::Server, server), (Disturbed::Generator, generator)];
    for ((disturbed, usage), delaying_us) in both.into_iter().zip(delaying_us) {
        let waking_us = accounting::waking_us(usage.wake_ups, &machine.select_cpus(usage.cpus));
        let share = usage.delayed_share(delaying_us, waking_us);
        shares.extend(share.map(|share| (disturbed, share)));
    }
    shares
}

/// The most disturbed part and its share, from the observations of a run; none where no share was
/// observed.
pub(crate) fn interference_in(observed: &BTreeMap<String, f64>) -> Option<(Disturbed, f64)> {
    let share = |part: Disturbed| Some((part, *observed.get(part.name())?));
    worst(&Disturbed::ALL.into_iter().filter_map(share).collect())
}

/// The most disturbed part and its share.
pub(crate) fn worst(shares: &BTreeMap<Disturbed, f64>) -> Option<(Disturbed, f64)> {
    let known = shares.iter().map(|(&part, &share)| (part, share));
    // Of equal shares the first is taken, so that equal numbers give equal words.
    known.reduce(|worst, one| if one.1 > worst.1 { one } else { worst })
}

impl CpuUsage<'_> {
    /// The share of the time in which it wanted to run that it waited for other processes.
    /// `delaying_us` is the time for which these ran beyond the usual on any machine. Its threads
    /// are ready, and have no CPU, also while an idle CPU wakes up: `waking_us` is not counted.
    fn delayed_share(&self, delaying_us: u64, waking_us: u64) -> Option<f64> {
        let waited_us = self.waited_us?.saturating_sub(waking_us);
        Some(delayed_share(waited_us, delaying_us, self.cpu_us))
    }
}

impl Machine<'_> {
    /// Processor time on these CPUs that the trial did not use, including the time that the host of
    /// a virtual machine took.
    pub(super) fn foreign_us(&self, cpus: &[usize], own_us: u64, wake_ups: u64) -> u64 {
        let these = self.select_cpus(cpus);
        let in_use_us =
            these.iter().map(|cpu| cpu.in_use_us(self.window_us, self.interrupts_apart));
        let waking_us = accounting::waking_us(wake_ups, &these);
        in_use_us.sum::<u64>().saturating_sub(own_us + waking_us + self.lab_us)
    }

    fn select_cpus(&self, cpus: &[usize]) -> Vec<Cpu> {
        self.cpus.iter().filter(|cpu| cpus.contains(&cpu.cpu)).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1000;

    fn core(cpu: usize, idle_ms: u64, softirq_ms: u64) -> Cpu {
        let (idle_us, softirq_us) = (idle_ms * MS, softirq_ms * MS);
        Cpu { cpu, idle_us, softirq_us, ..Cpu::default() }
    }

    fn usage(cpus: &[usize], cpu_ms: u64, waited_ms: Option<u64>) -> CpuUsage<'_> {
        let waited_us = waited_ms.map(|ms| ms * MS);
        CpuUsage { cpus, cpu_us: cpu_ms * MS, waited_us, wake_ups: 0 }
    }

    fn machine(cpus: &[Cpu]) -> Machine<'_> {
        Machine { window_us: 1000 * MS, cpus, interrupts_apart: false, lab_us: 0 }
    }

    #[track_caller]
    fn check(
        cores: &[Cpu],
        (server, generator): (CpuUsage<'_>, CpuUsage<'_>),
        expected: &[(Disturbed, f64)],
    ) {
        let shares = interference(&machine(cores), server, generator);
        let near = |(part, share): &(Disturbed, f64)| (shares[part] - share).abs() < 0.002;
        assert!(shares.len() == expected.len() && expected.iter().all(near), "{shares:?}");
    }

    #[test]
    fn on_a_quiet_machine_nothing_is_disturbed() {
        use Disturbed::{ClientCpus, Generator, Server, ServerCpus};
        let none = [(ServerCpus, 0.0), (ClientCpus, 0.0), (Server, 0.0), (Generator, 0.0)];
        // Threads of a busy server wait for each other.
        let busy = (usage(&[0], 992, Some(30_000)), usage(&[1], 995, Some(4)));
        check(&[core(0, 0, 0), core(1, 0, 0)], busy, &none);
        let calm = (usage(&[0], 300, Some(3)), usage(&[1], 200, Some(2)));
        check(&[core(0, 695, 0), core(1, 795, 0)], calm, &none);
    }

    /// The numbers were observed beside three busy loops: both CPUs full, the server at 5 %.
    #[test]
    fn foreign_load_is_seen_on_either_side() {
        use Disturbed::{ClientCpus, Generator, Server, ServerCpus};
        let starved = (usage(&[0], 50, Some(700)), usage(&[1], 330, Some(660)));
        let expected =
            [(ServerCpus, 0.94), (ClientCpus, 0.66), (Server, 0.933), (Generator, 0.663)];
        check(&[core(0, 0, 0), core(1, 0, 0)], starved, &expected);
        // A server that waits for no other process is not delayed, though its caches may suffer.
        let beside = (usage(&[0], 100, Some(0)), usage(&[1], 200, None));
        let expected = [(ServerCpus, 0.19), (ClientCpus, 0.0), (Server, 0.0)];
        check(&[core(0, 700, 0), core(1, 795, 0)], beside, &expected);
    }

    #[test]
    fn where_both_share_the_cpus_neither_is_foreign_to_the_other() {
        use Disturbed::{Generator, Server, SharedCpus};
        let cores = [core(0, 0, 0), core(1, 0, 0)];
        let all = (usage(&[0, 1], 900, Some(800)), usage(&[0, 1], 1070, Some(700)));
        check(&cores, all, &[(SharedCpus, 0.005), (Server, 0.0), (Generator, 0.0)]);
        let less = (usage(&[0, 1], 400, Some(800)), usage(&[1], 500, Some(700)));
        check(&cores, less, &[(SharedCpus, 0.54), (Server, 0.667), (Generator, 0.583)]);
    }

    /// In 30 s the server ran for 30 ms and the kernel's threads for 240 ms: that is eight times as
    /// much, and no more than on any machine.
    #[test]
    fn a_server_that_seldom_runs_is_not_delayed_by_what_any_machine_does() {
        let window_us = 30_000 * MS;
        let of = |foreign_ms: u64| {
            let cores = [core(0, 30_000 - 30 - foreign_ms, 0)];
            let machine = Machine { window_us, ..machine(&cores) };
            interference(&machine, usage(&[0], 30, Some(24)), CpuUsage::default())
        };
        assert_eq!(of(240)[&Disturbed::Server], 0.0);
        assert!(of(3000)[&Disturbed::Server] > 0.4, "{:?}", of(3000));
    }

    /// The numbers were observed in a virtual machine of a server with 27,000 requests a second,
    /// and of one with 2,000; nothing else ran.
    #[test]
    fn waking_up_is_no_interference() {
        let window_us = 500 * MS;
        let of = |idle_ms, cpu_ms, wake_ups| {
            let cores = [core(0, idle_ms, 0)];
            let machine = Machine { window_us, ..machine(&cores) };
            let server = CpuUsage { wake_ups, ..usage(&[0], cpu_ms, Some(20)) };
            interference(&machine, server, CpuUsage::default())
        };
        let quiet = [of(260, 196, 10_302), of(452, 32, 987)];
        assert!(quiet.iter().flat_map(BTreeMap::values).all(|share| *share < 0.01), "{quiet:?}");
        let beside = of(60, 196, 10_302);
        assert!(beside[&Disturbed::ServerCpus] > 0.3, "{beside:?}");
    }

    /// A generator is woken by each reply, too, and its thread is ready meanwhile. The numbers were
    /// observed of a generator that sent 250 requests a second, and of one that sent them as fast
    /// as it could.
    #[test]
    fn a_generator_wakes_up_as_well() {
        let window_us = 2000 * MS;
        let of = |idle_ms, cpu_ms, waited_ms, wake_ups| {
            let cores = [core(0, idle_ms, 0)];
            let machine = Machine { window_us, ..machine(&cores) };
            let generator = CpuUsage { wake_ups, ..usage(&[0], cpu_ms, Some(waited_ms)) };
            interference(&machine, CpuUsage::default(), generator)
        };
        let quiet = [of(1932, 37, 5, 1100), of(300, 1410, 290, 58_000)];
        let least = quiet.iter().flat_map(BTreeMap::values).all(|share| *share < 0.01);
        assert!(least, "{quiet:?}");
        let beside = of(1632, 37, 305, 1100);
        assert!(beside[&Disturbed::Generator] > 0.8, "{beside:?}");
        // A CPU that is never idle is not woken, however often threads on it waited for each other.
        let full = of(0, 1410, 290, 58_000);
        assert!(full[&Disturbed::ClientCpus] > 0.28, "{full:?}");
    }

    /// To observe a server of a thousand threads takes 50 ms.
    #[test]
    fn what_the_lab_itself_did_is_not_foreign() {
        let cores = [core(0, 740, 0)];
        let machine = Machine { lab_us: 50 * MS, ..machine(&cores) };
        let shares = interference(&machine, usage(&[0], 200, Some(50)), CpuUsage::default());
        assert!(shares.values().all(|share| *share == 0.0), "{shares:?}");
    }

    /// Where the kernel counts interrupts apart those of the network are in no thread's time.
    #[test]
    fn interrupts_are_no_interference() {
        let cores = [core(0, 0, 250)];
        let server = usage(&[0], 745, Some(0));
        let apart = Machine { interrupts_apart: true, ..machine(&cores) };
        let shares = interference(&apart, server, CpuUsage::default());
        assert!(shares[&Disturbed::ServerCpus] < 0.01, "{shares:?}");
        let shares = interference(&machine(&cores), server, CpuUsage::default());
        assert!(shares[&Disturbed::ServerCpus] > 0.2, "{shares:?}");
    }

    #[test]
    fn the_worst_is_found() {
        let shares = BTreeMap::from([(Disturbed::ClientCpus, 0.3), (Disturbed::Generator, 0.4)]);
        assert_eq!(worst(&shares), Some((Disturbed::Generator, 0.4)));
        assert_eq!(worst(&BTreeMap::new()), None);
    }
}
