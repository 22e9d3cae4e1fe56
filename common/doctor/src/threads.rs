//! How many threads, files and mappings there may be: what servers with a thread for each
//! connection, and generators with a descriptor for each, run into first.

use super::finding::Section::Serving;
use super::machine::Machine;
use super::rule::{Check, Reading, Rule};

const FILES: &str = "/proc/sys/fs/file-max";
const MAPPINGS: &str = "/proc/sys/vm/max_map_count";
const PROCESS_NUMBERS: &str = "/proc/sys/kernel/pid_max";
const THREADS: &str = "/proc/sys/kernel/threads-max";
/// The limits of this process.
pub const LIMITS: &str = "/proc/self/limits";

/// About the most connections that a server of the literature is at its best with
/// (Radhakrishnan 2019, fig. 3.15: 70K).
const CONNECTIONS: u64 = 65_536;

pub(super) const CHECKS: &[Check] = &[
    Check {
        section: Serving,
        subject: "file-max",
        source: "Genevès 2012, Table I: fs.file-max = 1048576",
        good: "at least 1048576",
        cost: "all programs together run out of files: a connection and a cached file are one each",
        mend: "sysctl -w fs.file-max=1048576",
        rule: Rule::AtLeast(FILES, 1_048_576),
    },
    Check {
        section: Serving,
        subject: "max_map_count",
        source: "Genevès 2012, Table I: vm.max_map_count = 786762",
        good: "at least 131072: two for each of 65536 threads",
        cost: "a thread or a fiber needs two mappings, its stack and the guard below: at 65530 \
               there is no room for more than 32,000",
        mend: "sysctl -w vm.max_map_count=786762",
        rule: Rule::AtLeast(MAPPINGS, 2 * CONNECTIONS),
    },
    Check {
        section: Serving,
        subject: "pid_max",
        source: "Genevès 2012, Table I: kernel.pid_max = 786762",
        good: "at least 65536",
        cost: "every thread has a number of its own: a thread for each connection ends there",
        mend: "sysctl -w kernel.pid_max=786762",
        rule: Rule::AtLeast(PROCESS_NUMBERS, CONNECTIONS),
    },
    Check {
        section: Serving,
        subject: "threads-max",
        source: "kernel: sysctl/kernel (after Genevès 2012, kernel.pid_max)",
        good: "at least 65536",
        cost: "a thread for each connection ends there",
        mend: "sysctl -w kernel.threads-max=786762",
        rule: Rule::AtLeast(THREADS, CONNECTIONS),
    },
    Check {
        section: Serving,
        subject: "user's threads",
        source: "getrlimit(2), RLIMIT_NPROC",
        good: "a hard limit of at least 65536",
        cost: "a thread for each connection ends there, and all of the user's programs count",
        mend: "prlimit --pid $$ --nproc=unlimited (as root; for good: LimitNPROC=, or \
               /etc/security/limits.conf)",
        rule: Rule::Of(&[LIMITS], |machine| hard_limit(machine, "Max processes")),
    },
];

/// Whether the hard limit of that name (see proc_pid_limits(5)) is high enough.
pub fn hard_limit(machine: &Machine, name: &'static str) -> Reading {
    let line =
        machine.text(LIMITS).and_then(|text| text.lines().find_map(|l| l.strip_prefix(name)));
    // Columns: the soft limit, the hard one, the unit.
    match line.and_then(|line| line.split_whitespace().nth(1)) {
        None => Reading::unreadable(LIMITS),
        Some("unlimited") => Reading::fine("unlimited"),
        Some(limit) => match limit.parse::<u64>() {
            Ok(number) => Reading::fine_if(number >= CONNECTIONS, limit),
            Err(_) => Reading::unreadable(LIMITS),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict::{Fine, Unreadable, Wrong};
    use super::super::tests::{check, check_setting};
    use super::*;

    #[test]
    fn settings() {
        check_setting("file-max", FILES, "9223372036854775807\n", "100000\n");
        check_setting("max_map_count", MAPPINGS, "786762\n", "65530\n");
        check_setting("pid_max", PROCESS_NUMBERS, "4194304\n", "32768\n");
        check_setting("threads-max", THREADS, "192731\n", "15000\n");
    }

    #[test]
    fn the_hard_limit_is_the_second_number() {
        let of =
            |name: &str, hard: &str| format!("Limit  Soft  Hard  Units\n{name}  1024  {hard}  x\n");
        let (subject, name) = ("user's threads", "Max processes");
        check(subject, &[(LIMITS, &of(name, "65536"))], Fine);
        check(subject, &[(LIMITS, &of(name, "unlimited"))], Fine);
        check(subject, &[(LIMITS, &of(name, "4096"))], Wrong);
        check(subject, &[(LIMITS, &of("Max stack size", "1"))], Unreadable);
    }
}
