//! What the kernel does with a server's memory. Not limits on it: see `control_groups.rs`.

use super::finding::Section::Serving;
use super::machine::Machine;
use super::rule::{Check, Reading, Rule};

const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const OVERCOMMIT: &str = "/proc/sys/vm/overcommit_memory";

pub(super) const CHECKS: &[Check] = &[
    Check {
        section: Serving,
        subject: "huge pages",
        source: "kernel: admin-guide/mm/transhuge",
        good: "madvise or never",
        cost: "stacks and small caches grow to 2 MiB each where a page would do, and the kernel \
               copies memory together while requests wait",
        mend: "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        rule: Rule::Of(&[HUGE_PAGES], huge_pages),
    },
    Check {
        section: Serving,
        subject: "overcommit_memory",
        source: "kernel: mm/overcommit-accounting",
        good: "0 or 1",
        cost: "each thread's stack counts in full: a thread for each connection runs out of \
               memory that is reserved and not used (8 MiB each)",
        mend: "sysctl -w vm.overcommit_memory=0",
        rule: Rule::AtMost(OVERCOMMIT, 1),
    },
];

fn huge_pages(machine: &Machine) -> Reading {
    let Some(text) = machine.text(HUGE_PAGES) else { return Reading::unreadable(HUGE_PAGES) };
    // All choices, the one in force in brackets.
    match text.split_once('[').and_then(|(_, rest)| rest.split_once(']')) {
        None => Reading::unreadable(HUGE_PAGES),
        Some((chosen, _)) => Reading::fine_if(chosen != "always", chosen),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict::{Fine, Unreadable, Wrong};
    use super::super::tests::{check, check_setting};
    use super::*;

    #[test]
    fn settings() {
        check_setting("overcommit_memory", OVERCOMMIT, "0\n", "2\n");
    }

    #[test]
    fn the_choice_in_force_is_in_brackets() {
        check("huge pages", &[(HUGE_PAGES, "always [madvise] never\n")], Fine);
        check("huge pages", &[(HUGE_PAGES, "[always] madvise never\n")], Wrong);
        check("huge pages", &[(HUGE_PAGES, "always\n")], Unreadable);
    }
}
