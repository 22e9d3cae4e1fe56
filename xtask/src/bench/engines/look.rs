//! A look at a server under load: memory, and what perf counts. Apart from the windows, because
//! looking costs time.

use super::Row;
use super::window::{Work, is_tolerable};
use crate::bench::load_run::Started;
use crate::bench::stage::Stage;
use lab::RunningServer;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// How long is looked, and how long the load goes on around it.
const LOOK: Duration = Duration::from_millis(400);
const SETTLE: Duration = Duration::from_millis(300);
/// Opening thousands of connections takes longer.
const SETTLE_EACH: Duration = Duration::from_micros(100);

/// What was seen. Numbers are NaN where they cannot be had.
#[derive(Debug)]
pub(super) struct Look {
    /// Of the same kind, before there was a load.
    memory_before_bytes: f64,
    /// Without the program and its libraries.
    pub(super) memory_bytes: f64,
    pub(super) connection_bytes: f64,
    /// For each request.
    pub(super) switches: f64,
    pub(super) system_calls: f64,
    pub(super) note: Option<String>,
}

impl Default for Look {
    fn default() -> Self {
        let (nothing, note) = (f64::NAN, None);
        Self {
            memory_before_bytes: nothing,
            memory_bytes: nothing,
            connection_bytes: nothing,
            switches: nothing,
            system_calls: nothing,
            note,
        }
    }
}

/// Checks every byte for a moment, then looks. A reply that is wrong is an error.
pub(super) fn look(
    stage: &Stage<'_, Row>,
    server: &RunningServer,
    work: &Work,
) -> Result<Look, String> {
    let mut look = Look::before(server);
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
    let seen = look.see(server);
    let run = started.finish(duration)?;
    if let Some(why) = run.complaint().filter(|_| !is_tolerable(&run)) {
        return Err(why);
    }
    look.divide(&seen, run.per_second("replies"), f64::from(work.connections));
    Ok(look)
}

/// What was counted within a look: system calls and context switches.
pub(super) type Seen = Result<(f64, f64), String>;

impl Look {
    fn before(server: &RunningServer) -> Self {
        let memory = own_memory(server);
        Self { memory_before_bytes: memory, memory_bytes: memory, ..Self::default() }
    }

    /// Looks at a server under load.
    pub(super) fn see(&mut self, server: &RunningServer) -> Seen {
        self.memory_bytes = own_memory(server);
        perf(&server.group().processes())
    }

    /// Divides what was seen, when it is known how many requests and connections there were.
    pub(super) fn divide(&mut self, seen: &Seen, requests_per_s: f64, connections: f64) {
        let requests = requests_per_s * LOOK.as_secs_f64();
        self.connection_bytes = (self.memory_bytes - self.memory_before_bytes) / connections;
        match seen {
            Ok((calls, switches)) => {
                (self.system_calls, self.switches) = (calls / requests, switches / requests);
            }
            Err(why) => self.note = Some(why.clone()),
        }
    }
}

fn own_memory(server: &RunningServer) -> f64 {
    server.memory().own_bytes as f64
}

/// System calls and context switches of these processes within the look.
fn perf(processes: &[u32]) -> Seen {
    let list = processes.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let output = Command::new("perf")
        .args(["stat", "-x", ";", "-e", "raw_syscalls:sys_enter,context-switches", "-p", &list])
        .args(["--", "sleep", &LOOK.as_secs_f64().to_string()])
        .output()
        .map_err(|why| format!("nothing is counted: perf: {why}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let count = |event: &str| {
        let line = text.lines().find(|line| line.contains(event))?;
        line.split(';').next()?.parse::<f64>().ok()
    };
    match (count("raw_syscalls:sys_enter"), count("context-switches")) {
        (Some(calls), Some(switches)) => Ok((calls, switches)),
        _ => Err(format!("nothing is counted: perf: {}", text.lines().next().unwrap_or("silent"))),
    }
}
