//! A summary of a recording, for people.

use std::fmt::Write as _;

/// The recorded activity of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The process's number in the trace.
    pub id: u32,
    /// The command that the process runs.
    pub command: String,
    /// Instructions fetched.
    pub fetches: u64,
    /// Reads of data.
    pub loads: u64,
    /// Writes of data.
    pub stores: u64,
    /// System calls made.
    pub system_calls: u64,
    /// Atomic operations and futex calls.
    pub synchronisations: u64,
    /// The size of the process's raw records in bytes.
    pub raw_bytes: u64,
    /// What is missing from the trace, and why.
    pub lost: Vec<String>,
}

impl Recorded {
    /// Fetches, loads and stores.
    #[must_use]
    pub fn references(&self) -> u64 {
        self.fetches + self.loads + self.stores
    }
}

/// The result of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// One entry for each process image, in the order in which they began.
    pub processes: Vec<Recorded>,
    /// The size of the trace in bytes.
    pub trace_bytes: u64,
    /// How long the command ran, in microseconds.
    pub recording_us: u64,
    /// How long the conversion of the records to a trace took, in microseconds.
    pub converting_us: u64,
    /// Other remarks for the reader.
    pub notes: Vec<String>,
}

impl Summary {
    /// References of all processes.
    #[must_use]
    pub fn references(&self) -> u64 {
        self.processes.iter().map(Recorded::references).sum()
    }

    /// A line for each process, the totals, and what was lost.
    #[must_use]
    pub fn show(&self) -> String {
        let mut out =
            String::from("   process   references   code %   calls        raw  command\n");
        for process in &self.processes {
            let (id, command) = (process.id, short(&process.command));
            let (references, calls) = (process.references(), process.system_calls);
            let code = percent(process.fetches, references);
            let size = mebibytes(process.raw_bytes);
            let _ = writeln!(
                out,
                "{id:>10} {references:>12} {code:>8.2} {calls:>7} {size:>10}  {command}"
            );
        }
        let _ = write!(out, "{}", self.totals());
        for process in &self.processes {
            for lost in &process.lost {
                let _ = writeln!(out, "process {}: {lost}", process.id);
            }
        }
        for note in &self.notes {
            let _ = writeln!(out, "note: {note}");
        }
        out
    }

    fn totals(&self) -> String {
        let sum = |count: fn(&Recorded) -> u64| self.processes.iter().map(count).sum::<u64>();
        let references = self.references();
        let calls = sum(|process| process.system_calls);
        let each = self.trace_bytes as f64 / references.max(1) as f64;
        format!(
            "{} processes, {references} references, {calls} system calls; raw {}, trace {} \
             ({each:.2} bytes a reference)\nrecorded in {:.1} s, converted in {:.1} s\n",
            self.processes.len(),
            mebibytes(sum(|process| process.raw_bytes)),
            mebibytes(self.trace_bytes),
            self.recording_us as f64 / 1e6,
            self.converting_us as f64 / 1e6,
        )
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// The beginning of a command, long enough to recognise it.
fn short(command: &str) -> String {
    const COLUMNS: usize = 48;
    if command.chars().count() <= COLUMNS {
        return command.to_owned();
    }
    command.chars().take(COLUMNS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_is_shown() {
        let process = Recorded {
            id: 7,
            command: "x".repeat(60),
            fetches: 75,
            loads: 20,
            stores: 5,
            lost: vec!["recording stopped".into()],
            ..Recorded::default()
        };
        let summary = Summary {
            processes: vec![process],
            trace_bytes: 50,
            notes: vec!["killed".into()],
            ..Summary::default()
        };
        let shown = summary.show();
        assert!(shown.contains("         7          100    75.00       0    0.0 MiB  xxx"));
        assert!(shown.contains("(0.50 bytes a reference)"), "{shown}");
        assert!(shown.ends_with("process 7: recording stopped\nnote: killed\n"), "{shown}");
    }
}
