//! Running `ropewalk load`, and reading its JSON.

use super::options::Named;
use super::stage::Stage;
use lab::client::Client;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// How much longer than expected a run may take before it is killed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of errors and of reasons for void runs that a note lists.
const EXPLAINED_MAX: usize = 3;

/// The result of a run.
#[derive(Debug)]
pub(crate) struct LoadRun {
    report: Value,
    /// The processor time of the process.
    pub(crate) cpu: Duration,
}

/// A run that is under way; killed when dropped.
#[derive(Debug)]
pub(crate) struct Started {
    client: Client,
    json: PathBuf,
}

impl Started {
    /// Starts `ropewalk load` with `arguments` (separated by spaces). Runs at the same time differ
    /// in their names.
    pub(crate) fn new<R: Named>(
        stage: &Stage<'_, R>,
        arguments: &str,
        name: &str,
    ) -> Result<Self, String> {
        let json = stage.path(&format!("{name}.json"));
        let shown = json.display().to_string();
        let words: Vec<&str> = ["load"]
            .into_iter()
            .chain(arguments.split_whitespace())
            .chain(["-q", "--json", &shown])
            .collect();
        let client = Client::start(stage.client_cpu, &stage.command(&words))?;
        Ok(Self { client, json })
    }

    /// Waits for the end of the run, which is expected within this time, and reads its output.
    pub(crate) fn finish(self, expected: Duration) -> Result<LoadRun, String> {
        let finished = self.client.finish(expected + PATIENCE)?;
        let json = self.json.display();
        // Runs with errors and void runs have special exit statuses, but also a report.
        let text = fs::read_to_string(&self.json).map_err(|_| finished.complaint())?;
        let report = serde_json::from_str(&text).map_err(|why| format!("{json}: {why}"))?;
        fs::remove_file(&self.json).map_err(|why| format!("{json}: {why}"))?;
        Ok(LoadRun { report, cpu: finished.cpu })
    }
}

impl LoadRun {
    /// Runs `ropewalk load` with `arguments` (separated by spaces), which should take `expected`.
    pub(crate) fn new<R: Named>(
        stage: &Stage<'_, R>,
        arguments: &str,
        expected: Duration,
    ) -> Result<Self, String> {
        Started::new(stage, arguments, "load")?.finish(expected)
    }

    /// One of the `counts`.
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.report["counts"][name].as_u64().unwrap_or(0)
    }

    /// The length of the measured window.
    pub(crate) fn seconds(&self) -> f64 {
        self.report["window_us"].as_f64().unwrap_or(f64::NAN) / 1e6
    }

    /// Requests that failed.
    pub(crate) fn errors(&self) -> u64 {
        self.kinds_of_error().map(|(_, count)| count).sum()
    }

    /// A rate per second within the measured window: `requests`, `replies`. (The counts also
    /// include the time after the window, and so do further intervals.)
    pub(crate) fn per_second(&self, name: &str) -> f64 {
        let interval_us = self.report["interval_us"].as_f64().unwrap_or(1e6);
        let in_window = (self.seconds() * 1e6 / interval_us).round().max(1.0) as usize;
        let intervals = self.report["series"].as_array().into_iter().flatten().take(in_window);
        intervals.filter_map(|interval| interval[name].as_f64()).sum::<f64>() / self.seconds()
    }

    /// The largest number of connections open at a time. The run's count is updated when
    /// connections are opened, so those opened while warming up show at the end of an interval
    /// only.
    pub(crate) fn connections_open(&self) -> u64 {
        let intervals = self.report["series"].as_array().into_iter().flatten();
        let seen = intervals.filter_map(|interval| interval["connections"].as_u64()).max();
        self.count("connections_open_max").max(seen.unwrap_or(0))
    }

    /// What is wrong with this run; none if nothing is.
    pub(crate) fn complaint(&self) -> Option<String> {
        let errors = self.kinds_of_error().map(|(kind, count)| format!("{count} {kind}"));
        let void = self.report["void"].as_array().into_iter().flatten();
        let void = void.map(|why| format!("void: {}", why.as_str().unwrap_or("?")));
        let bad = self.report["first_bad"].as_str().map(|what| format!("wrong: {what}"));
        let all: Vec<String> = errors.chain(void).chain(bad).take(EXPLAINED_MAX).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// Whether the only fault is that the server has closed connections between two requests.
    pub(crate) fn only_closed_early(&self) -> bool {
        let is_void = self.report["void"].as_array().is_some_and(|reasons| !reasons.is_empty());
        !is_void
            && self.report["first_bad"].is_null()
            && self.kinds_of_error().all(|(kind, _)| kind == "closed_early")
    }

    fn kinds_of_error(&self) -> impl Iterator<Item = (&String, u64)> {
        let errors = self.report["errors"].as_object().into_iter().flatten();
        errors.map(|(kind, n)| (kind, n.as_u64().unwrap_or(0))).filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(report: Value) -> LoadRun {
        LoadRun { report, cpu: Duration::ZERO }
    }

    #[test]
    fn a_report_is_read() {
        let run = run(json!({
            "window_us": 2_000_000, "counts": { "replies": 90, "connections_open_max": 3 },
            "errors": { "reset": 0 }, "void": [], "first_bad": null,
            "interval_us": 1_000_000,
            "series": [
                { "requests": 80, "connections": 64 },
                { "requests": 40, "connections": 64 },
                { "requests": 7, "connections": 9 },
            ],
        }));
        assert_eq!(run.count("replies"), 90);
        assert_eq!((run.per_second("requests"), run.seconds()), (60.0, 2.0));
        assert_eq!((run.errors(), run.connections_open(), run.complaint()), (0, 64, None));
    }

    #[test]
    fn faults_of_a_run_are_explained() {
        let run = run(json!({
            "errors": { "refused": 0, "reset": 3, "timeout_waiting": 4 }, "void": ["late"],
        }));
        assert_eq!(run.errors(), 7);
        assert!(!run.only_closed_early());
        assert_eq!(run.complaint().as_deref(), Some("3 reset, 4 timeout_waiting, void: late"));
    }
}
