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
    if work.is_resting {
        return Ok(Look { memory_bytes: own_memory(server), ..Look::default() });
    }
    let before = own_memory(server);
    let settle = SETTLE + SETTLE_EACH * work.connections;
    let duration = 2 * settle + LOOK;
    let arguments = format!(
        "{} --verify bytes --duration {}ms --lag-bound 1s",
        work.arguments(server),
        duration.as_millis()
    );
    let started = Started::new(stage, &arguments, "look")?;
    thread::sleep(settle);
    let during = own_memory(server);
    let counted = perf(&server.group().processes());
    let run = started.finish(duration)?;
    if let Some(why) = run.complaint().filter(|_| !is_tolerable(&run)) {
        return Err(why);
    }
    let requests = run.per_second("replies") * LOOK.as_secs_f64();
    let (system_calls, switches, note) = match counted {
        Ok((calls, switches)) => (calls / requests, switches / requests, None),
        Err(why) => (f64::NAN, f64::NAN, Some(why)),
    };
    let connection_bytes = (during - before) / f64::from(work.connections);
    Ok(Look { memory_bytes: during, connection_bytes, switches, system_calls, note })
}

fn own_memory(server: &RunningServer) -> f64 {
    server.memory().own_bytes as f64
}

/// System calls and context switches of these processes within the look.
fn perf(processes: &[u32]) -> Result<(f64, f64), String> {
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
