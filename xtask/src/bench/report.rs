//! The results, as tables to read (Markdown) and as JSON.

use super::idle::IdleResult;
use super::row::Row;
use super::serve::{FLOOR, OURS};
use super::table::{CONFIDENCE, estimate, markdown, verdict};
use lab::{Installed, Skipped};
use serde_json::{Value, json};
use statistics::{Estimate, median, median_estimate, paired_ratio};
use std::fs;
use std::path::Path;

/// One window of one server.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) requests_per_s: f64,
    /// Processor time of the server for each request, in microseconds.
    pub(crate) cpu_us: f64,
    /// Answers that took more than two seconds.
    pub(crate) late: u64,
    /// Answers other than 2xx and 3xx.
    pub(crate) refused: u64,
    /// Why the window does not count, if it does not.
    pub(crate) void: Option<String>,
}

impl Sample {
    /// A window that does not count.
    pub(crate) fn void(why: String) -> Self {
        Self { requests_per_s: f64::NAN, cpu_us: f64::NAN, late: 0, refused: 0, void: Some(why) }
    }

    pub(crate) fn is_void(&self) -> bool {
        self.void.is_some()
    }
}

/// One server in one row; the n-th sample is that of the n-th round.
#[derive(Debug)]
pub(crate) struct Contestant {
    pub(crate) name: String,
    pub(crate) setting: String,
    pub(crate) head_bytes: usize,
    pub(crate) samples: Vec<Sample>,
    pub(crate) caveat: Option<&'static str>,
}

/// One row.
#[derive(Debug)]
pub(crate) struct RowResult {
    pub(crate) row: &'static Row,
    pub(crate) contestants: Vec<Contestant>,
    pub(crate) notes: Vec<String>,
}

/// The whole run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) rows: Vec<RowResult>,
    pub(crate) idle: Vec<IdleResult>,
}

impl Contestant {
    fn cpu_us(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.cpu_us).collect()
    }

    fn rates(&self) -> Vec<f64> {
        let clean = self.samples.iter().filter(|sample| !sample.is_void());
        clean.map(|sample| sample.requests_per_s).collect()
    }

    fn cost(&self) -> Option<Estimate> {
        let clean: Vec<f64> = self.cpu_us().into_iter().filter(|us| us.is_finite()).collect();
        median_estimate(&clean, CONFIDENCE)
    }

    /// The server's cost over another's, round by round.
    fn ratio(&self, other: &Self) -> Option<Estimate> {
        paired_ratio(&self.cpu_us(), &other.cpu_us(), CONFIDENCE)
    }
}

impl RowResult {
    fn named(&self, name: &str) -> Option<&Contestant> {
        self.contestants.iter().find(|contestant| contestant.name == name)
    }
}

/// Prints what is compared, and what is not.
pub(crate) fn print_start(report: &Report, servers: &[Installed]) {
    let names =
        servers.iter().map(|server| format!("{} {}", server.description.name, server.version));
    println!("Servers: {}.", names.collect::<Vec<_>>().join(", "));
    for Skipped { name, reason, command } in &report.skipped {
        println!("Skipped: {name} ({reason}). Install it with: {command}");
    }
    println!("Kernel {}. Intervals are of 95 %.", os::process::kernel_release());
}

/// Prints one row's table, the cheapest server first.
pub(crate) fn print_row(result: &RowResult) {
    let (floor, ours) = (result.named(FLOOR), result.named(OURS));
    let mut contestants: Vec<&Contestant> = result.contestants.iter().collect();
    let cost = |contestant: &Contestant| contestant.cost().map_or(f64::MAX, |cost| cost.median);
    contestants.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    let mut table = vec![
        [
            "server",
            "setting",
            "head B",
            "requests/s",
            "CPU µs/request",
            "over floor",
            "Ropewalk over it",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    for it in contestants {
        let over_floor = floor.filter(|floor| floor.name != it.name).and_then(|f| it.ratio(f));
        let ours_over = ours.filter(|ours| ours.name != it.name).and_then(|ours| ours.ratio(it));
        table.push(vec![
            it.name.clone(),
            it.setting.clone(),
            it.head_bytes.to_string(),
            median(&it.rates()).map_or("–".into(), |rate| format!("{rate:.0}")),
            estimate(it.cost()),
            estimate(over_floor),
            ours_over.map_or("–".into(), |ratio| {
                format!("{} {}", estimate(Some(ratio)), verdict(&ratio))
            }),
        ]);
    }
    println!("\n### {}\n", result.row.title);
    print!("{}", markdown(&table));
    let caveat = result.contestants.iter().find_map(|contestant| contestant.caveat);
    println!();
    for note in result.notes.iter().map(String::as_str).chain(caveat) {
        println!("- {}.", note.trim().replace('\n', " / "));
    }
}

/// Prints the table of servers at rest.
pub(crate) fn print_idle(results: &[IdleResult]) {
    let mut table = vec![
        ["server", "idle connection B", "resident at start MB", "proportional MB", "first byte ms"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    for result in results {
        table.push(vec![
            result.name.clone(),
            result
                .connection_bytes
                .as_ref()
                .map_or_else(Clone::clone, |bytes| format!("{bytes:.0}")),
            megabytes(result.resident_bytes),
            megabytes(result.proportional_bytes),
            median(&result.first_byte_ms).map_or("–".into(), |ms| format!("{ms:.1}")),
        ]);
    }
    println!("\n### At rest: 10,000 idle connections, and the start\n");
    print!("{}", markdown(&table));
}

/// Prints how Ropewalk compares, in a line for each row.
pub(crate) fn print_end(report: &Report) {
    println!();
    for result in &report.rows {
        let Some(ours) = result.named(OURS) else { continue };
        let others =
            result.contestants.iter().filter(|other| ![OURS, FLOOR].contains(&&*other.name));
        let ahead: Vec<&str> = others
            .filter(|other| ours.ratio(other).is_some_and(|ratio| ratio.interval.low > 1.0))
            .map(|other| other.name.as_str())
            .collect();
        if !ahead.is_empty() {
            println!("Ahead of Ropewalk in \"{}\": {}.", result.row.title, ahead.join(", "));
        }
    }
}

/// Writes every sample.
pub(crate) fn write_json(report: &Report, path: &Path) -> Result<(), String> {
    let skipped = report.skipped.iter().map(|Skipped { name, reason, command }| {
        json!({ "name": name, "why": reason, "package": command })
    });
    let rows = report.rows.iter().map(|result| {
        let contestants: Vec<Value> = result.contestants.iter().map(contestant_json).collect();
        json!({ "row": result.row.name, "servers": contestants, "notes": result.notes })
    });
    let idle = report.idle.iter().map(|result| {
        json!({
            "name": result.name,
            "resident_bytes": result.resident_bytes,
            "proportional_bytes": result.proportional_bytes,
            "connection_bytes": result.connection_bytes.as_ref().ok(),
            "first_byte_ms": result.first_byte_ms,
        })
    });
    let document = json!({
        "kernel": os::process::kernel_release(),
        "skipped": skipped.collect::<Vec<_>>(),
        "rows": rows.collect::<Vec<_>>(),
        "idle": idle.collect::<Vec<_>>(),
    });
    fs::write(path, format!("{document:#}\n")).map_err(|why| format!("{}: {why}", path.display()))
}

fn contestant_json(contestant: &Contestant) -> Value {
    // A void sample is `null`: JSON has no NaN.
    json!({
        "name": contestant.name,
        "setting": contestant.setting,
        "head_bytes": contestant.head_bytes,
        "cpu_us": contestant.cpu_us(),
        "requests_per_s": contestant.samples.iter().map(|s| s.requests_per_s).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contestant(cpu_us: &[f64]) -> Contestant {
        let sample = |&cpu_us: &f64| Sample {
            requests_per_s: 1e6 / cpu_us,
            cpu_us,
            late: 0,
            refused: 0,
            void: cpu_us.is_nan().then(|| "an error".into()),
        };
        Contestant {
            name: "it".into(),
            setting: "usual".into(),
            head_bytes: 200,
            samples: cpu_us.iter().map(sample).collect(),
            caveat: None,
        }
    }

    #[test]
    fn a_void_sample_leaves_its_pair_out() {
        let ours = contestant(&[4.0, f64::NAN, 8.0]);
        let theirs = contestant(&[5.0, 5.0, 10.0]);
        let ratio = ours.ratio(&theirs).expect("two pairs are left");
        assert!((ratio.median - 0.8).abs() < 1e-12);
        assert_eq!(verdict(&ratio), "less");
        assert_eq!(ours.cost().expect("two samples are left").median, 6.0);
        assert_eq!(contestant_json(&ours)["cpu_us"][1], Value::Null);
    }

    #[test]
    fn a_verdict_needs_the_whole_interval() {
        let even = contestant(&[1.0, 2.0, 3.0, 2.0]);
        let other = contestant(&[2.0, 1.0, 2.0, 3.0]);
        assert_eq!(verdict(&even.ratio(&other).expect("it has samples")), "tie");
    }
}
