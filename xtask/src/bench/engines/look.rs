//! Observing a server under load: memory, and perf's counts. Outside of the windows, because
//! observing costs time.

use super::Row;
use super::window::{Work, is_tolerable};
use crate::bench::load_run::Started;
use crate::bench::stage::Stage;
use lab::RunningServer;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// The length of an observation, and of the load around it.
const LOOK: Duration = Duration::from_millis(400);
const SETTLE: Duration = Duration::from_millis(300);
/// The time for opening one more connection.
const SETTLE_EACH: Duration = Duration::from_micros(100);

/// The result of an observation. Numbers are NaN where they are not available.
#[derive(Debug)]
pub(super) struct Observation {
    /// The memory before there was a load, measured in the same way.
    memory_before_bytes: f64,
    sockets_before: f64,
    /// The number of open connections at that moment: some may not have been made yet, or not
    /// accepted.
    connections: f64,
    /// Memory without the program and its libraries.
    pub(super) memory_bytes: f64,
    pub(super) connection_bytes: f64,
    /// Context switches for each request.
    pub(super) switches: f64,
    pub(super) system_calls: f64,
    /// Reads requested of the disk, for each request.
    pub(super) disk_reads: f64,
    pub(super) note: Option<String>,
}

impl Default for Observation {
    fn default() -> Self {
        let (nothing, note) = (f64::NAN, None);
        Self {
            memory_before_bytes: nothing,
            sockets_before: nothing,
            connections: nothing,
            memory_bytes: nothing,
            connection_bytes: nothing,
            switches: nothing,
            system_calls: nothing,
            disk_reads: nothing,
            note,
        }
    }
}

/// Checks every byte for a moment, then observes. A wrong reply is an error.
pub(super) fn check_and_observe(
    stage: &Stage<'_, Row>,
    server: &RunningServer,
    work: &Work,
) -> Result<Observation, String> {
    let mut look = Observation::before(server);
    if work.is_resting {
        return Ok(look); // the windows are long enough to look within one
    }
    let settle = SETTLE + SETTLE_EACH * work.connections;
    let duration = 2 * settle + LOOK;
    let arguments = format!(
        "{} --verify bytes --duration {}ms --lag-bound 1s",
        work.arguments(server),
        duration.as_millis()
    );
    let started = Started::new(stage, &arguments, "look")?;
    thread::sleep(settle);
    let seen = look.observe(server);
    let run = started.finish(duration)?;
    if let Some(why) = run.complaint().filter(|_| !is_tolerable(&run)) {
        return Err(why);
    }
    look.divide(&seen, run.per_second("replies"));
    Ok(look)
}

/// The counts of an observation.
pub(super) type Seen = Result<Counted, String>;

/// The counts of a server during an observation: see [`EVENTS`].
#[derive(Debug)]
pub(super) struct Counted {
    system_calls: f64,
    switches: f64,
    disk_reads: f64,
}

/// System calls, context switches, and disk requests. Servers write nothing: the disk requests of
/// these processes are reads.
const EVENTS: [&str; 3] = ["raw_syscalls:sys_enter", "context-switches", "block:block_bio_queue"];

impl Observation {
    /// Observes a server before there is a load.
    pub(super) fn before(server: &RunningServer) -> Self {
        let memory = own_memory(server);
        let sockets = open_sockets(&server.group().processes());
        Self {
            memory_before_bytes: memory,
            memory_bytes: memory,
            sockets_before: sockets,
            ..Self::default()
        }
    }

    /// Observes a server under load.
    pub(super) fn observe(&mut self, server: &RunningServer) -> Seen {
        let processes = server.group().processes();
        self.memory_bytes = own_memory(server);
        self.connections = open_sockets(&processes) - self.sockets_before;
        perf(&processes)
    }

    /// Divides the counts by the number of requests, when that is known.
    pub(super) fn divide(&mut self, seen: &Seen, requests_per_s: f64) {
        let requests = requests_per_s * LOOK.as_secs_f64();
        if self.connections > 0.0 {
            let bytes = self.memory_bytes - self.memory_before_bytes;
            self.connection_bytes = bytes / self.connections;
        }
        match seen {
            Ok(counted) => {
                self.system_calls = counted.system_calls / requests;
                self.switches = counted.switches / requests;
                self.disk_reads = counted.disk_reads / requests;
            }
            Err(why) => self.note = Some(why.clone()),
        }
    }
}

fn own_memory(server: &RunningServer) -> f64 {
    server.memory().own_bytes as f64
}

/// The number of sockets that these processes have open, each counted once: those of connections
/// are among them.
fn open_sockets(processes: &[u32]) -> f64 {
    let mut sockets = BTreeSet::new();
    for process in processes {
        // A process that has ended has no open files.
        let entries = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
        sockets.extend(links.filter(|link| link.to_string_lossy().starts_with("socket:")));
    }
    sockets.len() as f64
}

/// Counts what these processes do during the observation.
fn perf(processes: &[u32]) -> Seen {
    let list = processes.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let output = Command::new("perf")
        .args(["stat", "-x", ";", "-e", &EVENTS.join(","), "-p", &list])
        .args(["--", "sleep", &LOOK.as_secs_f64().to_string()])
        .output()
        .map_err(|why| format!("nothing is counted: perf: {why}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    counted(&text).ok_or_else(|| {
        format!("nothing is counted: perf: {}", text.lines().next().unwrap_or("silent"))
    })
}

/// Parses the output of perf.
fn counted(text: &str) -> Option<Counted> {
    let [system_calls, switches, disk_reads] = EVENTS.map(|event| {
        let line = text.lines().find(|line| line.contains(event))?;
        line.split(';').next()?.parse::<f64>().ok()
    });
    Some(Counted { system_calls: system_calls?, switches: switches?, disk_reads: disk_reads? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_divided_by_the_connections_that_are_open() {
        let mut look = Observation {
            memory_before_bytes: 1000.0,
            memory_bytes: 9000.0,
            connections: 2.0,
            ..Observation::default()
        };
        let counted = Counted { system_calls: 80.0, switches: 8.0, disk_reads: 4.0 };
        look.divide(&Ok(counted), 100.0);
        assert_eq!(look.connection_bytes, 4000.0);
        assert_eq!((look.system_calls, look.switches, look.disk_reads), (2.0, 0.2, 0.1));
        let mut unconnected = Observation { connections: 0.0, ..look };
        unconnected.connection_bytes = f64::NAN;
        unconnected.divide(&Err("perf is not there".into()), 100.0);
        assert!(unconnected.connection_bytes.is_nan(), "no client was connected");
    }

    #[test]
    fn sockets_are_counted_once_if_several_processes_have_them() {
        let own = std::process::id();
        let before = open_sockets(&[own]);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let _copy = listener.try_clone().unwrap();
        assert_eq!(open_sockets(&[own, own]), before + 1.0);
    }

    #[test]
    fn what_perf_prints_is_read() {
        let text = "12;;raw_syscalls:sys_enter;1;100.00;;\n3;;context-switches;1;100.00;;\n\
                    0;;block:block_bio_queue;1;100.00;;\n";
        let counted = counted(text).unwrap();
        assert_eq!((counted.system_calls, counted.switches, counted.disk_reads), (12.0, 3.0, 0.0));
        assert!(super::counted("Error: no permission").is_none());
    }
}
