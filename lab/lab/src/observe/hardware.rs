//! The processor's own counts on the CPUs of the servers, and the servers' system calls.
//!
//! Counts are of whole CPUs, the kernel's own work for the network included: the studies of
//! multi-core servers counted so too, and it costs nothing while servers run. The counts are meant
//! for CPUs that no process but the servers uses.

use super::traffic::{Bytes, Traffic};
use crate::group::as_root;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use system::counters::{Counter, Event, Reading};

/// Counts of the servers' CPUs. None where the machine does not offer them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hardware {
    /// Cycles.
    pub cycles: Option<u64>,
    /// Instructions.
    pub instructions: Option<u64>,
    /// Cycles in which no instruction could be issued because none had been fetched.
    pub stalled_frontend_cycles: Option<u64>,
    /// Cycles in which no instruction could be issued because data or units were awaited.
    pub stalled_backend_cycles: Option<u64>,
    /// References to the last-level cache.
    pub cache_references: Option<u64>,
    /// References that the last-level cache could not answer.
    pub cache_misses: Option<u64>,
    /// Cycles of the bus.
    pub bus_cycles: Option<u64>,
    /// Bytes that the memory controllers of the whole machine read.
    pub memory_read_bytes: Option<u64>,
    /// Bytes that the memory controllers of the whole machine wrote.
    pub memory_written_bytes: Option<u64>,
}

/// The events that are counted, each with its description for readers of a report.
const EVENTS: [(Event, &str); 7] = [
    (Event::Cycles, "cycles"),
    (Event::Instructions, "instructions"),
    (Event::StalledFrontend, "cycles stalled for want of instructions"),
    (Event::StalledBackend, "cycles stalled for want of data or units"),
    (Event::CacheReferences, "references to the last-level cache"),
    (Event::CacheMisses, "misses of the last-level cache"),
    (Event::BusCycles, "bus cycles"),
];

/// Traffic between sockets. It is never counted: the kernel has no uniform description of its
/// events.
const BETWEEN_SOCKETS: &str = "bytes between sockets";
const NOT_COUNTED: &str =
    "not available here: the units that count them differ from one processor model to the next";

/// The message where no control group counts system calls.
const OF_CPUS: &str = "system calls of the servers alone: no control group counts them, so those \
                       of all that runs on the servers' CPUs stand for them";

/// Open counters: for each event one counter for each CPU, or none at all.
#[derive(Debug, Default)]
pub(super) struct Counters {
    events: [Vec<Counter>; EVENTS.len()],
    traffic: Traffic,
    system_calls: Vec<Counter>,
}

/// The values of the counters at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Readings {
    events: [Vec<Reading>; EVENTS.len()],
    traffic: Bytes,
    system_calls: Vec<Reading>,
}

impl Counters {
    /// Opens the counters that the machine offers. The others are added to `missing`, with the
    /// reason.
    pub(super) fn open(
        cpus: &[usize],
        unified: Option<&Path>,
        system_calls: bool,
        missing: &mut Vec<String>,
    ) -> Self {
        let mut counters = Self::default();
        let mut absent = Vec::new();
        for ((event, name), opened) in EVENTS.iter().zip(&mut counters.events) {
            match cpus.iter().map(|cpu| Counter::for_cpu(*event, *cpu)).collect() {
                Ok(all) => *opened = all,
                Err(why) => absent.push((*name, reason(&why))),
            }
        }
        match Traffic::open() {
            Ok(traffic) => counters.traffic = traffic,
            Err(why) => absent.push(("bytes between memory and processors", reason(&why))),
        }
        absent.push((BETWEEN_SOCKETS, NOT_COUNTED.into()));
        missing.extend(group_by_reason(&absent));
        if system_calls {
            match open_system_calls(cpus, unified) {
                Ok((all, is_of_servers)) => {
                    counters.system_calls = all;
                    missing.extend((!is_of_servers).then(|| OF_CPUS.to_owned()));
                }
                Err(why) => missing.push(format!("system calls: {why}")),
            }
        }
        counters
    }

    pub(super) fn read(&self) -> Readings {
        let all = |counters: &Vec<Counter>| -> Vec<Reading> {
            counters.iter().map(|counter| counter.read().unwrap_or_default()).collect()
        };
        Readings {
            events: self.events.each_ref().map(all),
            traffic: self.traffic.read(),
            system_calls: all(&self.system_calls),
        }
    }
}

pub(super) fn between(first: &Readings, last: &Readings) -> Hardware {
    let mut counts = first.events.iter().zip(&last.events).map(|(first, last)| sum(first, last));
    let mut next = || counts.next().flatten();
    let [memory_read_bytes, memory_written_bytes] = last.traffic.since(&first.traffic);
    Hardware {
        cycles: next(),
        instructions: next(),
        stalled_frontend_cycles: next(),
        stalled_backend_cycles: next(),
        cache_references: next(),
        cache_misses: next(),
        bus_cycles: next(),
        memory_read_bytes,
        memory_written_bytes,
    }
}

pub(super) fn system_calls_between(first: &Readings, last: &Readings) -> Option<u64> {
    sum(&first.system_calls, &last.system_calls)
}

/// Sums what counters have counted. They take turns when there are more than the hardware has: then
/// the count of a part of the time is extrapolated to the whole.
fn sum(first: &[Reading], last: &[Reading]) -> Option<u64> {
    let counts = first.iter().zip(last).map(|(first, last)| {
        let count = last.count.saturating_sub(first.count);
        let enabled_ns = last.enabled_ns.saturating_sub(first.enabled_ns);
        let running_ns = last.running_ns.saturating_sub(first.running_ns);
        match running_ns {
            0 => (count == 0 && enabled_ns == 0).then_some(0),
            _ => Some((count as f64 * (enabled_ns as f64 / running_ns as f64)) as u64),
        }
    });
    let counts: Option<Vec<u64>> = counts.collect();
    counts.filter(|counts| !counts.is_empty()).map(|counts| counts.iter().sum())
}

/// Opens counters of system calls: of the group where there is one in the unified hierarchy and the
/// kernel counts by it, else of CPUs. Also returns whether they are of the group.
fn open_system_calls(
    cpus: &[usize],
    unified: Option<&Path>,
) -> Result<(Vec<Counter>, bool), String> {
    const FILES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    let id = FILES.iter().find_map(|folder| {
        let file = format!("{folder}/events/raw_syscalls/sys_enter/id");
        fs::read_to_string(file).ok()?.trim().parse().ok()
    });
    let id = id.ok_or_else(|| {
        format!("not available here: no tracing file system can be read{}", as_root())
    })?;
    let event = Event::Tracepoint(id);
    if let Some(folder) = unified.and_then(|folder| File::open(folder).ok()) {
        // The group's threads may run on any CPU, so there is a counter on each.
        let of_cpu = |cpu| Counter::for_group(event, folder.as_fd(), cpu);
        let opened: io::Result<_> = os::affinity::allowed_cpus().into_iter().map(of_cpu).collect();
        if let Ok(all) = opened {
            return Ok((all, true));
        }
    }
    let opened: io::Result<Vec<_>> = cpus.iter().map(|cpu| Counter::for_cpu(event, *cpu)).collect();
    match opened {
        Ok(all) if all.is_empty() => Err("neither a group nor CPUs of servers to count on".into()),
        opened => opened.map(|all| (all, false)).map_err(|why| reason(&why)),
    }
}

fn reason(why: &io::Error) -> String {
    explain(why, os::process::is_root())
}

/// Explains why a counter cannot be opened, given whether this process is root.
fn explain(why: &io::Error, is_root: bool) -> String {
    match why.kind() {
        io::ErrorKind::PermissionDenied if is_root => {
            "not allowed here, not even to root (a container may lack CAP_PERFMON)".into()
        }
        io::ErrorKind::PermissionDenied => {
            "not allowed here (root may, or kernel.perf_event_paranoid = 0)".into()
        }
        io::ErrorKind::NotFound | io::ErrorKind::Unsupported => {
            "not available here: the machine has no such counter (virtual machines often hide \
             them)"
                .into()
        }
        _ => format!("not available here: {why}"),
    }
}

/// Groups the missing counters by their reasons, in one line for each reason.
fn group_by_reason(absent: &[(&str, String)]) -> Vec<String> {
    let mut lines: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, reason) in absent {
        match lines.iter_mut().find(|(known, _)| known == reason) {
            Some((_, names)) => names.push(name),
            None => lines.push((reason, vec![name])),
        }
    }
    lines.iter().map(|(reason, names)| format!("{}: {reason}", names.join(", "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(count: u64, enabled_ns: u64, running_ns: u64) -> Reading {
        Reading { count, enabled_ns, running_ns }
    }

    #[test]
    fn what_was_seen_for_half_the_time_stands_for_the_whole() {
        let (first, last) = ([reading(10, 100, 50)], [reading(30, 300, 150)]);
        assert_eq!(sum(&first, &last), Some(40));
        let (first, last) = ([reading(0, 0, 0); 2], [reading(7, 9, 9), reading(5, 9, 9)]);
        assert_eq!(sum(&first, &last), Some(12));
        assert_eq!(sum(&first, &[reading(0, 9, 0), reading(5, 9, 9)]), None);
        assert_eq!(sum(&[], &[]), None);
    }

    #[test]
    fn the_message_for_root_does_not_advise_to_be_root() {
        let refused = io::Error::from(io::ErrorKind::PermissionDenied);
        assert!(explain(&refused, false).contains("(root may, "));
        assert_eq!(
            explain(&refused, true),
            "not allowed here, not even to root (a container may lack CAP_PERFMON)"
        );
    }

    #[test]
    fn reasons_are_given_once() {
        let absent = [("a", "x".to_owned()), ("b", "y".to_owned()), ("c", "x".to_owned())];
        assert_eq!(group_by_reason(&absent), ["a, c: x", "b: y"]);
    }

    /// On any machine each event is either counted or named as missing.
    #[test]
    fn every_event_is_counted_or_named() {
        let mut missing = Vec::new();
        let counters = Counters::open(&os::affinity::allowed_cpus(), None, true, &mut missing);
        let missing = missing.join("\n");
        for ((_, name), opened) in EVENTS.iter().zip(&counters.events) {
            assert_ne!(opened.is_empty(), !missing.contains(name), "{name}: {missing}");
        }
        assert_eq!(counters.system_calls.is_empty(), missing.contains("system calls: n"));
        assert_ne!(counters.system_calls.is_empty(), missing.contains(OF_CPUS), "{missing}");
        assert!(missing.contains("bytes between sockets: not available here"), "{missing}");
    }
}
