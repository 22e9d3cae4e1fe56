//! Checks of what the kernel does with memory behind a server's back, in the middle of a run.

use ::doctor::Section::Measuring;
use ::doctor::{Check, Machine, Reading, Rule};

const SWAPS: &str = "/proc/swaps";
const BALANCING: &str = "/proc/sys/kernel/numa_balancing";
const NODES: &str = "/sys/devices/system/node/online";
const RANDOMISE: &str = "/proc/sys/kernel/randomize_va_space";
const DAMON_STATE: &str = "/sys/kernel/mm/damon/admin/kdamonds/*/state";
const DAMON_ACTION: &str = "/sys/kernel/mm/damon/admin/kdamonds/*/contexts/*/schemes/*/action";
const DAMON_RECLAIM: &str = "/sys/module/damon_reclaim/parameters/enabled";

pub(super) const CHECKS: &[Check] = &[
    Check {
        section: Measuring,
        subject: "swap",
        source: "Radhakrishnan 2019, 3.1 (memory pressure by the file cache alone)",
        good: "none",
        cost: "under memory pressure servers themselves are written to the disk: what was to be \
               measured is the file cache",
        mend: "swapoff -a",
        rule: Rule::Of(&[SWAPS], swap),
    },
    Check {
        section: Measuring,
        subject: "NUMA balancing",
        source: "Genevès 2012, IV-C (memory on the own node); kernel: sysctl/kernel",
        good: "off, or one node only",
        cost: "the kernel unmaps pages to see which node uses them, and moves them: bursts of \
               faults in the middle of a run",
        mend: "sysctl -w kernel.numa_balancing=0",
        rule: Rule::Of(&[BALANCING, NODES], balancing),
    },
    Check {
        section: Measuring,
        subject: "proactive reclaim",
        source: "kernel: admin-guide/mm/damon",
        good: "none",
        cost: "files that have not been read for a while, a minute perhaps, leave memory though \
               there is room: what should come from memory is read from the disk now and then",
        mend: "echo off > /sys/kernel/mm/damon/admin/kdamonds/0/state; echo N > \
               /sys/module/damon_reclaim/parameters/enabled",
        rule: Rule::Of(&[DAMON_STATE, DAMON_ACTION, DAMON_RECLAIM], proactive_reclaim),
    },
    Check {
        section: Measuring,
        subject: "randomize_va_space",
        source: "Genevès 2012, Table I: kernel.randomize_va_space = 0",
        good: "whatever it is: repetitions that start the server anew average over layouts",
        cost: "nothing",
        mend: "nothing to fix",
        rule: Rule::Of(&[RANDOMISE], randomisation),
    },
];

fn swap(machine: &Machine) -> Reading {
    let Some(text) = machine.text(SWAPS) else { return Reading::unreadable(SWAPS) };
    let places: Vec<&str> =
        text.lines().skip(1).filter_map(|line| line.split(' ').next()).collect();
    match places.is_empty() {
        true => Reading::fine("none"),
        false => Reading::wrong(places.join(", ")),
    }
}

fn balancing(machine: &Machine) -> Reading {
    let is_one_node = machine.text(NODES).is_none_or(|nodes| nodes == "0");
    match machine.number(BALANCING) {
        // Kernels without memory nodes have no such setting.
        None if is_one_node => Reading::fine("one node"),
        None => Reading::unreadable(BALANCING),
        Some(0) => Reading::fine("off"),
        Some(_) => Reading::fine_if(is_one_node, "on"),
    }
}

/// DAMON watches which memory is in use; its schemes say what is done with the rest.
fn proactive_reclaim(machine: &Machine) -> Reading {
    let is_on = machine.all(DAMON_STATE).any(|(_, state)| state == "on");
    let pages_out = machine.all(DAMON_ACTION).any(|(_, action)| action == "pageout");
    match machine.text(DAMON_RECLAIM) {
        _ if is_on && pages_out => Reading::wrong("DAMON pages out"),
        Some("Y") => Reading::wrong("DAMON_RECLAIM"),
        _ => Reading::fine("none"),
    }
}

fn randomisation(machine: &Machine) -> Reading {
    match machine.number(RANDOMISE) {
        None => Reading::unreadable(RANDOMISE),
        Some(0) => Reading::obsolete(
            "0: one layout for all runs, which is unsafe on a machine that serves",
        ),
        Some(value) => Reading::obsolete(format!("{value}, leave it so")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;
    use ::doctor::Verdict::{Fine, Obsolete, Unreadable, Wrong};

    #[test]
    fn swap_is_a_table_with_a_heading() {
        let heading = "Filename Type Size Used Priority\n";
        check("swap", &[(SWAPS, heading)], Fine);
        let reading =
            check("swap", &[(SWAPS, &format!("{heading}/dev/sda2 partition 1 0 -2\n"))], Wrong);
        assert_eq!(reading.found, "/dev/sda2");
    }

    #[test]
    fn what_damon_does_counts_if_it_does_it() {
        let state = DAMON_STATE.replace('*', "0");
        let action = DAMON_ACTION.replace('*', "0");
        let check = |files: &[_], expected| check("proactive reclaim", files, expected);
        check(&[(&state, "on\n"), (&action, "pageout\n")], Wrong);
        check(&[(&state, "on\n"), (&action, "stat\n")], Fine);
        check(&[(&state, "off\n"), (&action, "pageout\n")], Fine);
        check(&[(DAMON_RECLAIM, "Y\n")], Wrong);
        check(&[], Fine);
    }

    #[test]
    fn one_node_has_nothing_to_balance() {
        check("NUMA balancing", &[(BALANCING, "1"), (NODES, "0-1")], Wrong);
        check("NUMA balancing", &[(BALANCING, "0"), (NODES, "0-1")], Fine);
        check("NUMA balancing", &[(BALANCING, "1"), (NODES, "0")], Fine);
        check("NUMA balancing", &[(NODES, "0-1")], Unreadable);
    }

    #[test]
    fn layouts_are_a_matter_of_repetition() {
        check("randomize_va_space", &[(RANDOMISE, "2")], Obsolete);
        check("randomize_va_space", &[(RANDOMISE, "0")], Obsolete);
    }
}
