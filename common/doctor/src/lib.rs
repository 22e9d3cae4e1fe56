//! Checks of a machine before it serves or measures.
//!
//! A [`Check`] names the good value, the cost of any other, and the command that fixes it. It reads
//! a [`Machine`], which was read once, and nothing else; it reports and changes nothing. The checks
//! here, one file per theme, are of settings that limit any server, a server under test included.
//! The lab has the checks of what only a testbed needs, and the server those of what it tries.

#![forbid(unsafe_code)]

mod control_groups;
pub mod expect;
mod files;
mod finding;
mod interfaces;
mod interrupts;
mod machine;
mod memory;
mod network;
mod queues;
mod rule;
mod threads;

use std::path::Path;

use command::{Failure, near};

pub use finding::{Finding, Section, Tally, Verdict, json, show};
pub use machine::{Machine, STATUS};
pub use rule::{Check, Reading, Rule};
pub use threads::{LIMITS, hard_limit};

/// The checks of what limits any server, theme by theme.
#[must_use]
pub fn serving() -> Vec<&'static Check> {
    let themes = [
        interfaces::CHECKS,
        queues::CHECKS,
        network::CHECKS,
        memory::CHECKS,
        threads::CHECKS,
        control_groups::CHECKS,
        files::CHECKS,
    ];
    themes.into_iter().flatten().collect()
}

/// Prints findings, for people or as JSON. That something is wrong is no failure: few
/// machines are right for everything, and what a note costs may not matter to the operator.
///
/// # Errors
/// It cannot be printed.
pub fn print(findings: &[Finding], is_json: bool) -> Result<(), Failure> {
    command::print(&if is_json { json(findings) } else { show(findings) })
}

/// Checks that the directory that would be served is one.
///
/// # Errors
/// [`Failure::Usage`]: it does not exist, or is something else.
pub fn check_directory(directory: &Path) -> Result<(), Failure> {
    near::check_directory("DIR", directory, "the directory to serve")
}

/// What the checks say of a machine that has been read.
#[must_use]
pub fn examine(checks: &[&Check], machine: &Machine) -> Vec<Finding> {
    checks.iter().map(|check| check.examine(machine)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    pub(super) fn check(subject: &str, files: &[(&str, &str)], verdict: Verdict) -> Reading {
        check_machine(subject, &Machine::with_files(files), verdict)
    }

    #[track_caller]
    pub(super) fn check_machine(subject: &str, machine: &Machine, verdict: Verdict) -> Reading {
        expect::verdict(&serving(), subject, machine, verdict)
    }

    #[track_caller]
    pub(super) fn check_setting(subject: &str, path: &str, good: &str, bad: &str) {
        expect::setting(&serving(), subject, path, good, bad);
    }

    #[test]
    fn the_list_is_whole() {
        expect::whole_list(&serving());
        assert!(serving().iter().all(|check| check.section == Section::Serving));
    }

    #[test]
    fn this_machine_is_read() {
        let findings = examine(&serving(), &Machine::read(".".as_ref(), &serving()));
        for subject in ["somaxconn", "file system"] {
            let found = findings.iter().find(|finding| finding.subject == subject);
            assert_ne!(found.expect("it is checked").verdict, Verdict::Unreadable, "{subject}");
        }
    }
}
