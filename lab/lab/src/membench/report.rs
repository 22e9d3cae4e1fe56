//! The results, as a table and as JSON.

use std::fmt::Write;

use page::number;
use serde::Serialize;
use statistics::values_min;

use super::CONFIDENCE;
use super::kind::Access;
use crate::void::{Void, in_words};

/// A median and its 95 % interval; the whole range if the repetitions are too few for an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The median of the repetitions.
    pub median: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// One kind of access on one number of cores.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The kind of access.
    pub access: Access,
    /// Whether stores went past the caches.
    pub is_streaming: bool,
    /// The instructions that were used.
    pub instructions: &'static str,
    /// Bytes of each access.
    pub access_bytes: usize,
    /// Cores at work at once.
    pub cores: usize,
    /// The throughput of all cores together, in units of 10^9 bytes.
    pub gigabytes_per_second: Spread,
    /// Bytes of all cores together per reference cycle, where those can be read.
    pub bytes_per_cycle: Option<Spread>,
    /// The throughput as a multiple of one core's, repetition by repetition.
    pub speed_up: Spread,
}

/// The results of all measurements.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The processor's name.
    pub processor: String,
    /// The CPUs in the order in which they were added.
    pub cpus: Vec<usize>,
    /// Bytes of the last cache.
    pub cache_bytes: Option<u64>,
    /// Whether the kernel backs memory with huge pages by itself.
    pub huge_pages: String,
    /// Bytes of each core's area.
    pub area_bytes: u64,
    /// How long each measurement took, in microseconds.
    pub window_us: u64,
    /// The number of repetitions of each measurement.
    pub repetitions: u32,
    /// Reference cycles per nanosecond.
    pub reference_ghz: Option<f64>,
    /// All rows: by access, instructions, cores.
    pub rows: Vec<Row>,
    /// Why the results say nothing about the memory; empty if they do.
    pub void: Vec<Void>,
    /// Caveats for readers of the results.
    pub caveats: Vec<String>,
}

impl Outcome {
    /// Returns the results as JSON, for programs.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers and strings are always JSON") + "\n"
    }

    /// Returns the results as a table, for people.
    #[must_use]
    pub fn show(&self) -> String {
        let mut text = self.heading();
        let mut last = None;
        for row in &self.rows {
            let title = (row.access, row.is_streaming);
            if last != Some(title) {
                text += &table_heading(row);
                last = Some(title);
            }
            line(&mut text, row);
        }
        text.push('\n');
        for ceiling in self.ceilings() {
            writeln!(text, "{ceiling}").expect("a string takes everything");
        }
        if !self.void.is_empty() {
            let why = in_words(&self.void);
            writeln!(text, "VOID: {why}: measure again on a quiet machine")
                .expect("a string takes everything");
        }
        for caveat in &self.caveats {
            writeln!(text, "note: {caveat}").expect("a string takes everything");
        }
        text
    }

    fn heading(&self) -> String {
        let cache = match self.cache_bytes {
            None => "unknown".into(),
            Some(bytes) => format!("{} MiB", bytes >> 20),
        };
        let cycles = match self.reference_ghz {
            None => String::new(),
            Some(ghz) => format!("\ncycles are reference cycles (TSC) of {ghz:.2} GHz"),
        };
        let spread = match (self.repetitions as usize) < values_min(CONFIDENCE) {
            true => "whole range".to_owned(),
            false => format!("{} interval", number::percent(CONFIDENCE)),
        };
        format!(
            "{}: {} CPUs, last cache {cache}, huge pages {}\n\
             {} MiB for each core, {} x {} ms each; median and {spread}{cycles}\n",
            self.processor,
            self.cpus.len(),
            self.huge_pages,
            self.area_bytes >> 20,
            self.repetitions,
            self.window_us / 1000,
        )
    }

    /// The highest throughput of each kind of access on all cores, one line for each.
    fn ceilings(&self) -> Vec<String> {
        let all = self.cpus.len();
        let best = |access: Access| {
            let rows = self.rows.iter().filter(|row| row.access == access && row.cores == all);
            let rate = |row: &&Row| row.gigabytes_per_second.median;
            rows.max_by(|a, b| rate(a).total_cmp(&rate(b)))
        };
        let describe = |row: &Row| {
            let streaming = if row.is_streaming { ", streaming" } else { "" };
            format!(
                "ceiling of all {all} CPUs, {}: {:.1} GB/s ({}{streaming}), {:.2} times one core",
                row.access.name(),
                row.gigabytes_per_second.median,
                row.instructions,
                row.speed_up.median,
            )
        };
        let accesses = [Access::Read, Access::Write, Access::Copy];
        accesses.into_iter().filter_map(best).map(describe).collect()
    }
}

fn table_heading(row: &Row) -> String {
    let how = if row.is_streaming { ", streaming (past the caches)" } else { "" };
    format!(
        "\n{}{how}\n  {:<8} {:>6} {:>6}  {:>8} {:>17}  {:>11} {:>17}  {:>8}\n",
        row.access.name(),
        "",
        "bytes",
        "cores",
        "GB/s",
        "",
        "bytes/cycle",
        "",
        "speed-up",
    )
}

fn line(text: &mut String, row: &Row) {
    let interval = |spread: Spread| format!("[{:.2}; {:.2}]", spread.low, spread.high);
    let rate = row.gigabytes_per_second;
    let (per_cycle, of_per_cycle) = match row.bytes_per_cycle {
        Some(spread) => (format!("{:.2}", spread.median), interval(spread)),
        None => ("-".into(), String::new()),
    };
    writeln!(
        text,
        "  {:<8} {:>6} {:>6}  {:>8.2} {:>17}  {per_cycle:>11} {of_per_cycle:>17}  {:>8.2} {:>15}",
        row.instructions,
        row.access_bytes,
        row.cores,
        rate.median,
        interval(rate),
        row.speed_up.median,
        interval(row.speed_up),
    )
    .expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(access: Access, cores: usize, rate: f64) -> Row {
        let spread = |median| Spread { median, low: median - 0.5, high: median + 0.5 };
        Row {
            access,
            is_streaming: access == Access::Write,
            instructions: "AVX2",
            access_bytes: 32,
            cores,
            gigabytes_per_second: spread(rate),
            bytes_per_cycle: (cores == 1).then(|| spread(rate / 2.0)),
            speed_up: spread(cores as f64 * 0.75),
        }
    }

    fn outcome() -> Outcome {
        Outcome {
            processor: "A CPU".into(),
            cpus: vec![0, 1],
            cache_bytes: Some(32 << 20),
            huge_pages: "never".into(),
            area_bytes: 128 << 20,
            window_us: 50_000,
            repetitions: 11,
            reference_ghz: Some(2.45),
            rows: vec![
                row(Access::Read, 1, 10.0),
                row(Access::Read, 2, 15.0),
                row(Access::Write, 2, 8.0),
            ],
            void: Vec::new(),
            caveats: vec!["the machine is small".into()],
        }
    }

    #[test]
    fn the_table() {
        let expected = "\
A CPU: 2 CPUs, last cache 32 MiB, huge pages never
128 MiB for each core, 11 x 50 ms each; median and 95 % interval
cycles are reference cycles (TSC) of 2.45 GHz

read
            bytes  cores      GB/s                    bytes/cycle                    speed-up
  AVX2         32      1     10.00     [9.50; 10.50]         5.00      [4.50; 5.50]      \
    0.75    [0.25; 1.25]
  AVX2         32      2     15.00    [14.50; 15.50]            -                        \
    1.50    [1.00; 2.00]

write, streaming (past the caches)
            bytes  cores      GB/s                    bytes/cycle                    speed-up
  AVX2         32      2      8.00      [7.50; 8.50]            -                        \
    1.50    [1.00; 2.00]

ceiling of all 2 CPUs, read: 15.0 GB/s (AVX2), 1.50 times one core
ceiling of all 2 CPUs, write: 8.0 GB/s (AVX2, streaming), 1.50 times one core
note: the machine is small
";
        assert_eq!(outcome().show(), expected);
    }

    #[test]
    fn results_beside_others_are_void() {
        let (disturbed, bound) = (crate::observe::Disturbed::SharedCpus, 0.05);
        let void = vec![Void::Interference { disturbed, share: 0.4, bound }];
        let outcome = Outcome { void, ..outcome() };
        let expected = "VOID: interference: other processes used 40 % of the CPUs, more than the \
                        5 % allowed: measure again on a quiet machine\n";
        assert!(outcome.show().contains(expected), "{}", outcome.show());
        let value: serde_json::Value = serde_json::from_str(&outcome.json()).expect("JSON");
        assert_eq!(value["void"][0]["interference"]["share"], 0.4);
    }

    #[test]
    fn few_repetitions_support_no_interval() {
        let heading = |repetitions| Outcome { repetitions, ..outcome() }.heading();
        assert!(heading(5).contains("5 x 50 ms each; median and whole range\n"), "{}", heading(5));
        assert!(
            heading(6).contains("6 x 50 ms each; median and 95 % interval\n"),
            "{}",
            heading(6)
        );
    }

    #[test]
    fn programs_get_the_rows() {
        let value: serde_json::Value = serde_json::from_str(&outcome().json()).expect("JSON");
        assert_eq!(value["rows"][0]["access"], "read");
        assert_eq!(value["rows"][1]["gigabytes_per_second"]["median"], 15.0);
        assert_eq!(value["rows"][2]["is_streaming"], true);
        assert_eq!(value["reference_ghz"], 2.45);
    }
}
