//! What others did on the CPUs of a trial while it was measured: processor time that neither the
//! server nor the load generator used, and how long these were ready and waited meanwhile. Pure.
//!
//! All of it is at least so much: what cannot be told from the trial's own doings is not counted.

use load::outcome::delayed_share;
use load::void::OTHERS_ANYWHERE;
use os::accounting::{self, Cpu};
use page::number;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How much of what a trial needs others may have had before its run is void. A comparison tells
/// differences of 2 %; what is less than this the median of a few runs evens out, if it comes and goes.
pub const INTERFERENCE_MAX: f64 = 0.05;

/// Less than this is not worth a word, and it is not held against anybody that a trial waited for
/// as much.
pub const INTERFERENCE_TOLD: f64 = OTHERS_ANYWHERE;

/// Whom others disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disturbed {
    /// Others used the server's CPUs; the share is of what these had to give.
    ServerCpus,
    /// Others used the load generator's CPUs.
    ClientCpus,
    /// Others used CPUs on which server and generator run together.
    SharedCpus,
    /// Others ran while the server was ready to; the share is of the time in which it wanted to
    /// run.
    Server,
    /// Others ran while the load generator was ready to.
    Generator,
}

impl Disturbed {
    /// All, in the order in which they are named.
    pub const ALL: [Self; 5] =
        [Self::ServerCpus, Self::ClientCpus, Self::SharedCpus, Self::Server, Self::Generator];

    /// Its name among what was observed beside a run.
    pub fn name(self) -> &'static str {
        match self {
            Self::ServerCpus => "foreign_server_cpus_share",
            Self::ClientCpus => "foreign_client_cpus_share",
            Self::SharedCpus => "foreign_cpus_share",
            Self::Server => "server_delayed_share",
            Self::Generator => "generator_delayed_share",
        }
    }

    /// Says in words that others disturbed it by this share.
    pub fn by(self, share: f64) -> String {
        let percent = number::percent((share * 1000.0).round() / 1000.0);
        let used = |whose: &str| format!("others used {percent} of {whose}");
        let held_up = |whom: &str| {
            format!("{whom} was ready and others ran in its place for {percent} of the time")
        };
        match self {
            Self::ServerCpus => used("the server's CPUs"),
            Self::ClientCpus => used("the load generator's CPUs"),
            Self::SharedCpus => used("the CPUs"),
            Self::Server => held_up("the server"),
            Self::Generator => held_up("the load generator"),
        }
    }
}

/// What is known of a trial's own doings within its window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Doings<'a> {
    /// The CPUs it may run on.
    pub(crate) cpus: &'a [usize],
    /// Processor time that it used.
    pub(crate) cpu_us: u64,
    /// How long its threads were ready and had no CPU, together; none where that is not known.
    pub(crate) waited_us: Option<u64>,
    /// How often its threads waited for something: as often its CPUs may have had nothing to do,
    /// and been woken. 0 where that is not known.
    pub(crate) wake_ups: u64,
}

/// What all CPUs did within a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine<'a> {
    /// How long it was.
    pub(crate) window_us: u64,
    /// What each CPU did in it.
    pub(crate) cpus: &'a [Cpu],
    /// Whether interrupts are in nobody's processor time, as the kernel counts it: else they are in
    /// that of whoever was interrupted.
    pub(crate) interrupts_apart: bool,
    /// Processor time of the lab itself, on whichever CPU: looking at a server takes some.
    pub(crate) lab_us: u64,
}

/// How much of what a trial needed others had, by whom they disturbed.
pub(crate) fn interference(
    machine: &Machine<'_>,
    server: Doings<'_>,
    generator: Doings<'_>,
) -> BTreeMap<Disturbed, f64> {
    let is_shared = generator.cpus.iter().any(|cpu| server.cpus.contains(cpu));
    let mut shares = BTreeMap::new();
    let mut of = |disturbed: Disturbed, cpus: &[usize], own: &[Doings<'_>]| {
        let wake_ups = own.iter().map(|doings| doings.wake_ups).sum();
        let own_us = own.iter().map(|doings| doings.cpu_us).sum();
        let foreign_us = machine.foreign_us(cpus, own_us, wake_ups);
        let all_us = cpus.len() as u64 * machine.window_us;
        shares.insert(disturbed, foreign_us as f64 / all_us.max(1) as f64);
        foreign_us.saturating_sub((all_us as f64 * INTERFERENCE_TOLD) as u64)
    };
    let delaying_us = match is_shared {
        true => {
            let mut cpus = [server.cpus, generator.cpus].concat();
            cpus.sort_unstable();
            cpus.dedup();
            [of(Disturbed::SharedCpus, &cpus, &[server, generator]); 2]
        }
        false => [
            of(Disturbed::ServerCpus, server.cpus, &[server]),
            of(Disturbed::ClientCpus, generator.cpus, &[generator]),
        ],
    };
    let both = [(Disturbed::Server, server), (Disturbed::Generator, generator)];
    for ((whom, doings), delaying_us) in both.into_iter().zip(delaying_us) {
        let waking_us = accounting::waking_us(doings.wake_ups, &machine.those(doings.cpus));
        let share = doings.delayed_share(delaying_us, waking_us);
        shares.extend(share.map(|share| (whom, share)));
    }
    shares
}

/// Who was disturbed worst, and by how much, by what was observed beside a run; none where that was
/// not seen.
pub(crate) fn interference_in(observed: &BTreeMap<String, f64>) -> Option<(Disturbed, f64)> {
    let share = |whom: Disturbed| Some((whom, *observed.get(whom.name())?));
    worst(&Disturbed::ALL.into_iter().filter_map(share).collect())
}

/// Who was disturbed worst, and by how much.
pub(crate) fn worst(shares: &BTreeMap<Disturbed, f64>) -> Option<(Disturbed, f64)> {
    let known = shares.iter().map(|(&whom, &share)| (whom, share));
    // Of equals the first, so that the same numbers give the same words.
    known.reduce(|worst, one| if one.1 > worst.1 { one } else { worst })
}

impl Doings<'_> {
    /// The part of the time in which it wanted to run that it waited for others, which ran so long
    /// beyond what any machine does. Its threads are ready, and have no CPU, while that wakes up.
    fn delayed_share(&self, delaying_us: u64, waking_us: u64) -> Option<f64> {
        let waited_us = self.waited_us?.saturating_sub(waking_us);
        Some(delayed_share(waited_us, delaying_us, self.cpu_us))
    }
}

impl Machine<'_> {
    /// Processor time on these CPUs that is not of the trial, what the host of a virtual machine
    /// took included.
    fn foreign_us(&self, cpus: &[usize], own_us: u64, wake_ups: u64) -> u64 {
        let these = self.those(cpus);
        let in_use_us =
            these.iter().map(|cpu| cpu.in_use_us(self.window_us, self.interrupts_apart));
        let waking_us = accounting::waking_us(wake_ups, &these);
        in_use_us.sum::<u64>().saturating_sub(own_us + waking_us + self.lab_us)
    }

    fn those(&self, cpus: &[usize]) -> Vec<Cpu> {
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

    fn doings(cpus: &[usize], cpu_ms: u64, waited_ms: Option<u64>) -> Doings<'_> {
        let waited_us = waited_ms.map(|ms| ms * MS);
        Doings { cpus, cpu_us: cpu_ms * MS, waited_us, wake_ups: 0 }
    }

    fn machine(cpus: &[Cpu]) -> Machine<'_> {
        Machine { window_us: 1000 * MS, cpus, interrupts_apart: false, lab_us: 0 }
    }

    #[track_caller]
    fn check(
        cores: &[Cpu],
        (server, generator): (Doings<'_>, Doings<'_>),
        expected: &[(Disturbed, f64)],
    ) {
        let shares = interference(&machine(cores), server, generator);
        let near = |(whom, share): &(Disturbed, f64)| (shares[whom] - share).abs() < 0.002;
        assert!(shares.len() == expected.len() && expected.iter().all(near), "{shares:?}");
    }

    #[test]
    fn on_a_quiet_machine_nobody_is_disturbed() {
        use Disturbed::{ClientCpus, Generator, Server, ServerCpus};
        let none = [(ServerCpus, 0.0), (ClientCpus, 0.0), (Server, 0.0), (Generator, 0.0)];
        // Threads of a busy server wait for each other.
        let busy = (doings(&[0], 992, Some(30_000)), doings(&[1], 995, Some(4)));
        check(&[core(0, 0, 0), core(1, 0, 0)], busy, &none);
        let calm = (doings(&[0], 300, Some(3)), doings(&[1], 200, Some(2)));
        check(&[core(0, 695, 0), core(1, 795, 0)], calm, &none);
    }

    /// What was seen beside three busy loops: both CPUs full, the server at 5 %.
    #[test]
    fn foreign_load_is_seen_on_either_side() {
        use Disturbed::{ClientCpus, Generator, Server, ServerCpus};
        let starved = (doings(&[0], 50, Some(700)), doings(&[1], 330, Some(660)));
        let expected =
            [(ServerCpus, 0.94), (ClientCpus, 0.66), (Server, 0.933), (Generator, 0.663)];
        check(&[core(0, 0, 0), core(1, 0, 0)], starved, &expected);
        // One that waits for nobody is not delayed, though its caches may suffer.
        let beside = (doings(&[0], 100, Some(0)), doings(&[1], 200, None));
        let expected = [(ServerCpus, 0.19), (ClientCpus, 0.0), (Server, 0.0)];
        check(&[core(0, 700, 0), core(1, 795, 0)], beside, &expected);
    }

    #[test]
    fn where_both_share_the_cpus_neither_is_foreign_to_the_other() {
        use Disturbed::{Generator, Server, SharedCpus};
        let cores = [core(0, 0, 0), core(1, 0, 0)];
        let all = (doings(&[0, 1], 900, Some(800)), doings(&[0, 1], 1070, Some(700)));
        check(&cores, all, &[(SharedCpus, 0.005), (Server, 0.0), (Generator, 0.0)]);
        let less = (doings(&[0, 1], 400, Some(800)), doings(&[1], 500, Some(700)));
        check(&cores, less, &[(SharedCpus, 0.54), (Server, 0.667), (Generator, 0.583)]);
    }

    /// Of 30 s it ran for 30 ms, and the kernel's threads for 240 ms: that is eight times as much,
    /// and no more than on any machine.
    #[test]
    fn a_server_that_seldom_runs_is_not_delayed_by_what_any_machine_does() {
        let window_us = 30_000 * MS;
        let of = |foreign_ms: u64| {
            let cores = [core(0, 30_000 - 30 - foreign_ms, 0)];
            let machine = Machine { window_us, ..machine(&cores) };
            interference(&machine, doings(&[0], 30, Some(24)), Doings::default())
        };
        assert_eq!(of(240)[&Disturbed::Server], 0.0);
        assert!(of(3000)[&Disturbed::Server] > 0.4, "{:?}", of(3000));
    }

    /// What was seen of a server in a virtual machine that was asked 27,000 times a second, and of
    /// one that was asked 2,000 times; nothing else ran.
    #[test]
    fn waking_up_is_no_stranger() {
        let window_us = 500 * MS;
        let of = |idle_ms, cpu_ms, wake_ups| {
            let cores = [core(0, idle_ms, 0)];
            let machine = Machine { window_us, ..machine(&cores) };
            let server = Doings { wake_ups, ..doings(&[0], cpu_ms, Some(20)) };
            interference(&machine, server, Doings::default())
        };
        let quiet = [of(260, 196, 10_302), of(452, 32, 987)];
        assert!(quiet.iter().flat_map(BTreeMap::values).all(|share| *share < 0.01), "{quiet:?}");
        let beside = of(60, 196, 10_302);
        assert!(beside[&Disturbed::ServerCpus] > 0.3, "{beside:?}");
    }

    /// A generator is woken by each reply, too, and its thread is ready meanwhile. Seen of one that
    /// asked 250 times a second, and of one that asked as fast as it could.
    #[test]
    fn a_generator_wakes_up_as_well() {
        let window_us = 2000 * MS;
        let of = |idle_ms, cpu_ms, waited_ms, wake_ups| {
            let cores = [core(0, idle_ms, 0)];
            let machine = Machine { window_us, ..machine(&cores) };
            let generator = Doings { wake_ups, ..doings(&[0], cpu_ms, Some(waited_ms)) };
            interference(&machine, Doings::default(), generator)
        };
        let quiet = [of(1932, 37, 5, 1100), of(300, 1410, 290, 58_000)];
        let least = quiet.iter().flat_map(BTreeMap::values).all(|share| *share < 0.01);
        assert!(least, "{quiet:?}");
        let beside = of(1632, 37, 305, 1100);
        assert!(beside[&Disturbed::Generator] > 0.8, "{beside:?}");
        // What never rests has not woken up, however often its threads waited for each other.
        let full = of(0, 1410, 290, 58_000);
        assert!(full[&Disturbed::ClientCpus] > 0.28, "{full:?}");
    }

    /// A look at a server of a thousand threads takes 50 ms.
    #[test]
    fn what_the_lab_itself_did_is_not_foreign() {
        let cores = [core(0, 740, 0)];
        let machine = Machine { lab_us: 50 * MS, ..machine(&cores) };
        let shares = interference(&machine, doings(&[0], 200, Some(50)), Doings::default());
        assert!(shares.values().all(|share| *share == 0.0), "{shares:?}");
    }

    /// Where the kernel counts them apart the network's interrupts are in nobody's time.
    #[test]
    fn interrupts_are_no_strangers() {
        let cores = [core(0, 0, 250)];
        let server = doings(&[0], 745, Some(0));
        let apart = Machine { interrupts_apart: true, ..machine(&cores) };
        let shares = interference(&apart, server, Doings::default());
        assert!(shares[&Disturbed::ServerCpus] < 0.01, "{shares:?}");
        let shares = interference(&machine(&cores), server, Doings::default());
        assert!(shares[&Disturbed::ServerCpus] > 0.2, "{shares:?}");
    }

    #[test]
    fn the_worst_is_told() {
        let shares = BTreeMap::from([(Disturbed::ClientCpus, 0.3), (Disturbed::Generator, 0.4)]);
        assert_eq!(worst(&shares), Some((Disturbed::Generator, 0.4)));
        assert_eq!(worst(&BTreeMap::new()), None);
    }
}
