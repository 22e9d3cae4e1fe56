//! What other processes had of the CPUs while this process measured something by itself, without a
//! server and a load generator.

use super::interference::Machine;
use os::accounting::{self, Cpu};
use os::{affinity, clock, process};

/// The moment since which others are watched.
#[derive(Debug)]
pub struct Others(Reading);

/// What all CPUs and this process have done so far.
#[derive(Debug, Clone, Default)]
struct Reading {
    at_us: u64,
    machine: Vec<Cpu>,
    own_us: u64,
    wake_ups: u64,
}

impl Others {
    /// Begins to watch; none where the kernel does not report what its CPUs do.
    pub fn watch() -> Option<Self> {
        // The first call may take a while, and the window is not to begin with it.
        accounting::interrupts_apart();
        Reading::now().map(Self)
    }

    /// The share that others have had since of the time of the CPUs that this process may use, 0 to
    /// 1. It is a lower bound: a tick of each CPU is left to chance.
    pub fn share(&self) -> Option<f64> {
        Some(share(&self.0, &Reading::now()?, &affinity::allowed_cpus()))
    }
}

impl Reading {
    fn now() -> Option<Self> {
        let machine = accounting::cpus().ok()?;
        Some(Self {
            at_us: clock::now(),
            machine,
            own_us: clock::cpu_time_process().as_micros() as u64,
            wake_ups: process::wake_ups_of_process(),
        })
    }
}

fn share(first: &Reading, last: &Reading, cpus: &[usize]) -> f64 {
    let window_us = last.at_us.saturating_sub(first.at_us);
    let machine = Machine {
        window_us,
        cpus: &accounting::between(&first.machine, &last.machine),
        interrupts_apart: accounting::interrupts_apart(),
        lab_us: 0,
    };
    let own_us = last.own_us.saturating_sub(first.own_us);
    let wake_ups = last.wake_ups.saturating_sub(first.wake_ups);
    let all_us = cpus.len() as u64 * window_us;
    machine.foreign_us(cpus, own_us, wake_ups) as f64 / all_us.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::INTERFERENCE_REPORTED;
    use std::process::Command;
    use testkit::comes_true;

    #[test]
    fn only_what_others_used_counts() {
        // A second on two CPUs, of which each is idle for a part.
        let check = |idle_ms: [u64; 2], own_ms: u64, wake_ups: u64, expected: f64| {
            let cpu = |cpu: usize| Cpu { cpu, idle_us: idle_ms[cpu] * 1000, ..Cpu::default() };
            let machine = vec![cpu(0), cpu(1)];
            let first = Reading {
                machine: [0, 1].map(|cpu| Cpu { cpu, ..Cpu::default() }).to_vec(),
                ..Reading::default()
            };
            let last = Reading { at_us: 1_000_000, machine, own_us: own_ms * 1000, wake_ups };
            assert_eq!(share(&first, &last, &[0, 1]), expected);
            let unknown_cpu = share(&first, &last, &[7]);
            assert_eq!(unknown_cpu, 0.0);
        };
        check([990, 990], 0, 0, 0.0);
        check([0, 990], 990, 0, 0.0);
        check([0, 890], 990, 0, 0.05);
        check([0, 890], 990, 10_000, 0.025);
        check([0, 0], 0, 0, 0.99);
    }

    #[test]
    fn a_busy_process_is_seen() {
        let others = Others::watch().expect("the kernel reports it");
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh");
        let is_seen = || others.share().is_some_and(|share| share > INTERFERENCE_REPORTED);
        let seen = comes_true(is_seen);
        busy.kill().and_then(|()| busy.wait()).expect("it is ours");
        assert!(seen, "{:?}", others.share());
    }
}
