//! Running `ropewalk load`, and reading its JSON.

use super::stage::Stage;
use lab::client::Client;
use serde_json::Value;
use std::fs;
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

impl LoadRun {
    /// Runs `ropewalk load` with `arguments` (separated by spaces), which should take `expected`.
    pub(crate) fn new(
        stage: &Stage<'_>,
        arguments: &str,
        expected: Duration,
    ) -> Result<Self, String> {
        let json = stage.path("load.json");
        let shown = json.display().to_string();
        let words: Vec<&str> = ["load"]
            .into_iter()
            .chain(arguments.split_whitespace())
            .chain(["-q", "--json", &shown])
            .collect();
        let client = Client::start(stage.client_cpu, &stage.command(&words))?;
        let finished = client.finish(expected + PATIENCE)?;
        // Runs with errors and void runs have special exit statuses, but also a report.
        let text = fs::read_to_string(&json).map_err(|_| finished.complaint())?;
        let report = serde_json::from_str(&text).map_err(|why| format!("{shown}: {why}"))?;
        fs::remove_file(&json).map_err(|why| format!("{shown}: {why}"))?;
        Ok(Self { report, cpu: finished.cpu })
    }

    /// One of the `counts`.
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.report["counts"][name].as_u64().unwrap_or(0)
    }

    /// The length of the measured window.
    pub(crate) fn seconds(&self) -> f64 {
        self.report["window_us"].as_f64().unwrap_or(f64::NAN) / 1e6
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
            "window_us": 2_000_000, "counts": { "replies": 90 },
            "errors": { "reset": 0 }, "void": [], "first_bad": null,
        }));
        assert_eq!((run.count("replies"), run.seconds(), run.complaint()), (90, 2.0, None));
    }

    #[test]
    fn faults_of_a_run_are_explained() {
        let run = run(json!({
            "errors": { "refused": 0, "reset": 3, "timeout_waiting": 4 }, "void": ["late"],
        }));
        assert_eq!(run.complaint().as_deref(), Some("3 reset, 4 timeout_waiting, void: late"));
    }
}
