//! What a testbed must be before it measures: the checks of the crate `doctor`, and those that only
//! numbers need that are to be trusted, repeated and compared. One file per theme.

mod control_groups;
mod counters;
mod interfaces;
mod memory;
mod network;
mod processors;
mod queues;
mod threads;

use std::path::Path;

use ::doctor::{Check, Finding, Machine};

pub(crate) use control_groups::{cfs_quota, cpu_max};

/// The checks of a testbed, theme by theme.
#[must_use]
pub fn measuring() -> Vec<&'static Check> {
    let themes = [
        processors::CHECKS,
        interfaces::CHECKS,
        queues::CHECKS,
        network::CHECKS,
        memory::CHECKS,
        threads::CHECKS,
        control_groups::CHECKS,
        counters::CHECKS,
    ];
    themes.into_iter().flatten().collect()
}

/// Looks at everything on this machine; files are served from `directory`. It takes a few
/// milliseconds.
#[must_use]
pub fn examine(directory: &Path) -> Vec<Finding> {
    let checks = [measuring(), ::doctor::serving()].concat();
    ::doctor::examine(&checks, &counters::tried(Machine::read(directory, &checks)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::doctor::{Reading, Section, Verdict, expect};

    #[track_caller]
    pub(super) fn check(subject: &str, files: &[(&str, &str)], verdict: Verdict) -> Reading {
        expect::verdict(&measuring(), subject, &Machine::with_files(files), verdict)
    }

    #[track_caller]
    pub(super) fn check_setting(subject: &str, path: &str, good: &str, bad: &str) {
        expect::setting(&measuring(), subject, path, good, bad);
    }

    /// Genevès 2012, Table I, as printed.
    const TABLE_I: &str = "\
        net.ipv4.tcp_tw_recycle = 1\n\
        vm.max_map_count = 786762\n\
        net.ipv4.tcp_fin_timeout = 1\n\
        kernel.randomize_va_space = 0\n\
        net.core.rmem_default = 87380\n\
        fs.file-max = 1048576\n\
        net.core.wmem_default = 65536\n\
        kernel.pid_max = 786762\n\
        net.core.rmem_max = 4194304\n\
        net.ipv4.tcp_max_syn_backlog = 200000\n\
        net.core.wmem_max = 4194304\n\
        net.core.netdev_max_backlog = 400000\n\
        net.ipv4.conf.all.arp_filter = 1\n\
        net.core.somaxconn = 200000\n\
        net.ipv4.conf.ethX.arp_filter = 1\n\
        net.ipv4.ip_local_port_range = 1024 65000\n\
        net.ipv4.tcp_syncookies = 0\n\
        net.ipv4.tcp_rmem = 4096 87380 4194304\n\
        net.ipv4.tcp_wmem = 4096 65536 4194304";

    #[test]
    fn every_row_of_table_i_is_checked() {
        for row in TABLE_I.lines() {
            let all = measuring().into_iter().chain(::doctor::serving());
            let count = all.filter(|check| check.source.contains(row)).count();
            assert_eq!(count, 1, "{row}");
        }
    }

    #[test]
    fn the_list_is_whole() {
        expect::whole_list(&[measuring(), ::doctor::serving()].concat());
        assert!(measuring().iter().all(|check| check.section == Section::Measuring));
    }

    /// What a machine does not tell is said to be unreadable.
    #[test]
    fn a_machine_that_tells_nothing() {
        let findings = ::doctor::examine(&measuring(), &Machine::default());
        let is_unreadable = |finding: &&Finding| finding.verdict == Verdict::Unreadable;
        assert!(findings.iter().filter(is_unreadable).count() > 10, "{findings:?}");
    }

    #[test]
    fn this_machine_is_read() {
        let findings = examine(Path::new("."));
        let swap = findings.iter().find(|finding| finding.subject == "swap");
        assert_ne!(swap.expect("it is checked").verdict, Verdict::Unreadable);
    }
}
