//! Hardware counters: whether the machine has them, and whether we may read them, which is tried.

use std::io;

use ::doctor::Section::Measuring;
use ::doctor::{Check, Machine, Reading, Rule, STATUS, Verdict};
use system::counters::{Counter, Event};

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";
const UNITS: &str = "/sys/bus/event_source/devices/*/type";

/// What is tried, beside what the files promise.
const CYCLES: &str = "cycles of a processor";

/// What lets others than root count.
const ALLOW: &str = "sysctl -w kernel.perf_event_paranoid=0";

pub(super) const CHECKS: &[Check] = &[
    Check {
        section: Measuring,
        subject: "hardware counters",
        source: "Genevès 2012, IV-B (CPI, stalls) and IV-C (bus)",
        good: "a unit of the processor's own: cpu, cpu_core, armv8_pmuv3",
        cost: "no cycles per instruction, no causes of stalls: that memory is the limit can be \
               guessed from `ropewalk membench` only",
        mend: "measure on a machine of your own, or have the host pass them on (KVM: pmu=on)",
        rule: Rule::Of(&[UNITS, PARANOID, STATUS], units),
    },
    Check {
        section: Measuring,
        subject: "perf_event_paranoid",
        source: "kernel: sysctl/kernel",
        good: "at most 0, or root: whole CPUs may be counted, and the kernel's share",
        cost: "counters tell of our own programs in user mode at best; most of a static server's \
               time is the kernel's",
        mend: ALLOW,
        rule: Rule::Of(&[PARANOID, STATUS], paranoid),
    },
];

/// The machine with the knowledge whether the cycles of one of our processors can be counted. A
/// container may refuse that though the files promise it.
pub(super) fn tried(machine: Machine) -> Machine {
    match count_cycles() {
        Ok(()) => machine,
        Err(why) => machine.with_failure(CYCLES, why.to_string()),
    }
}

fn count_cycles() -> io::Result<()> {
    let cpu = os::affinity::allowed_cpus().first().copied().unwrap_or(0);
    Counter::for_cpu(Event::Cycles, cpu)?.read().map(drop)
}

fn units(machine: &Machine) -> Reading {
    let names: Vec<&str> =
        machine.all(UNITS).filter_map(|(path, _)| path.rsplit('/').nth(1)).collect();
    let is_core = |name: &&&str| {
        matches!(**name, "cpu" | "cpu_core" | "cpu_atom") || name.starts_with("armv")
    };
    let of_cores: Vec<&str> = names.iter().filter(is_core).copied().collect();
    match (names.is_empty(), of_cores.is_empty()) {
        (true, _) => Reading::unreadable(UNITS),
        (false, true) => Reading::wrong(format!("none, only {}", names.join(", "))),
        (false, false) => match machine.failure(CYCLES) {
            Some(why) => Reading {
                mend: (paranoid(machine).verdict == Verdict::Wrong).then(|| ALLOW.into()),
                ..Reading::wrong(format!("{}, but not for us: {why}", of_cores.join(", ")))
            },
            None => Reading::fine(format!("{}; cycles were counted", of_cores.join(", "))),
        },
    }
}

fn paranoid(machine: &Machine) -> Reading {
    let level = machine.text(PARANOID).and_then(|text| text.parse::<i32>().ok());
    let Some(level) = level else { return Reading::unreadable(PARANOID) };
    match machine.is_root() {
        true => Reading::fine(format!("{level}, and this is root")),
        false => Reading::fine_if(level <= 0, level.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::Verdict::{Fine, Unreadable, Wrong};
    use super::*;

    #[test]
    fn counters_of_the_processor_are_told_from_the_kernels() {
        let software = ("/sys/bus/event_source/devices/software/type", "1");
        let cpu = ("/sys/bus/event_source/devices/cpu/type", "4");
        check("hardware counters", &[software, cpu], Fine);
        assert_eq!(check("hardware counters", &[software], Wrong).found, "none, only software");
        check("hardware counters", &[], Unreadable);
        let refuse =
            |machine: Machine| machine.with_failure(CYCLES, "Operation not permitted".into());
        let refused = refuse(Machine::with_files(&[cpu]));
        assert_eq!(units(&refused).found, "cpu, but not for us: Operation not permitted");
        assert_eq!(units(&refused).mend, None, "the host hides them");
        let user = (STATUS, "Uid:\t1000\t1000\t1000\t1000\n");
        let forbidden = refuse(Machine::with_files(&[cpu, user, (PARANOID, "2")]));
        assert_eq!(units(&forbidden).mend.as_deref(), Some(ALLOW));
    }

    #[test]
    fn root_may_count_everything() {
        let user = (STATUS, "Name: x\nUid:\t1000\t1000\t1000\t1000\n");
        check("perf_event_paranoid", &[(PARANOID, "-1"), user], Fine);
        check("perf_event_paranoid", &[(PARANOID, "2"), user], Wrong);
        check("perf_event_paranoid", &[(PARANOID, "4"), (STATUS, "Uid:\t0\t0\t0\t0\n")], Fine);
        check("perf_event_paranoid", &[user], Unreadable);
    }
}
