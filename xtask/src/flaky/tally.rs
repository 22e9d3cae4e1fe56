//! The results of runs: a file with a JSON object a line, which is only appended to.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

use super::Program;

/// One run of one program.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    pub(super) program: String,
    pub(super) built_ns: u64,
    /// When the run ended: microseconds since 1970.
    pub(super) at_unix_us: u64,
    /// Whether the run was beside a load.
    pub(super) is_busy: bool,
    pub(super) seconds: f64,
    pub(super) passed: bool,
    /// The tests that failed, or how the program ended if none is named.
    pub(super) failed: Vec<String>,
}

/// All runs so far.
#[derive(Debug)]
pub(super) struct Tally {
    file: File,
    runs: Vec<Run>,
}

impl Tally {
    /// Reads the earlier runs.
    ///
    /// # Errors
    /// The file cannot be read or written, or a line in its middle is malformed.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let explain = |why| format!("{}: {why}", path.display());
        let text = match fs::read_to_string(path) {
            Err(why) if why.kind() == ErrorKind::NotFound => String::new(),
            text => text.map_err(explain)?,
        };
        // A process that was killed while it wrote has left half a line.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let file = File::options().create(true).append(true).open(path).map_err(explain)?;
        file.set_len(whole as u64).map_err(explain)?;
        let lines = text[..whole].lines().enumerate();
        let runs = lines.map(|(index, line)| {
            let run = serde_json::from_str(line).ok().and_then(|value| Run::from_json(&value));
            run.ok_or_else(|| format!("{}: line {}: not a run", path.display(), index + 1))
        });
        Ok(Self { file, runs: runs.collect::<Result<_, _>>()? })
    }

    /// Adds a run to the file.
    pub(super) fn add(&mut self, run: Run) -> Result<(), String> {
        let line = format!("{}\n", run.to_json());
        self.file.write_all(line.as_bytes()).map_err(|why| format!("the tally: {why}"))?;
        self.runs.push(run);
        Ok(())
    }

    /// The runs of the current build of a program.
    pub(super) fn runs_of_build<'t>(
        &'t self,
        program: &'t Program,
        is_busy: bool,
    ) -> impl Iterator<Item = &'t Run> {
        self.runs.iter().filter(move |run| {
            run.program == program.name
                && run.built_ns == program.built_ns
                && run.is_busy == is_busy
        })
    }
}

/// How often each test failed.
pub(super) fn count_failed<'r>(runs: &[&'r Run]) -> BTreeMap<&'r str, usize> {
    let mut counts = BTreeMap::new();
    for name in runs.iter().flat_map(|run| &run.failed) {
        *counts.entry(name.as_str()).or_default() += 1;
    }
    counts
}

impl Run {
    /// The run as a line on the terminal.
    pub(super) fn line(&self) -> String {
        let end = match self.passed {
            true => "passed".to_owned(),
            false => format!("FAILED: {}", self.failed.join(", ")),
        };
        format!("{} in {:.1} s: {end}", self.program, self.seconds)
    }

    fn to_json(&self) -> Value {
        json!({
            "program": self.program,
            "built_ns": self.built_ns,
            "at_unix_us": self.at_unix_us,
            "is_busy": self.is_busy,
            "seconds": self.seconds,
            "passed": self.passed,
            "failed": self.failed,
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        let failed = value["failed"].as_array()?.iter();
        Some(Self {
            program: value["program"].as_str()?.to_owned(),
            built_ns: value["built_ns"].as_u64()?,
            at_unix_us: value["at_unix_us"].as_u64()?,
            is_busy: value["is_busy"].as_bool()?,
            seconds: value["seconds"].as_f64()?,
            passed: value["passed"].as_bool()?,
            failed: failed.map(|name| name.as_str().map(str::to_owned)).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn run(built_ns: u64, failed: &[&str]) -> Run {
        Run {
            program: "lab".into(),
            built_ns,
            at_unix_us: 5,
            is_busy: true,
            seconds: 1.5,
            passed: failed.is_empty(),
            failed: failed.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    #[test]
    fn runs_are_read_again_and_half_a_line_is_cut_off() {
        let path = std::env::temp_dir().join(format!("ropewalk-tally-{}", std::process::id()));
        let mut tally = Tally::open(&path).expect("a new one");
        tally.add(run(1, &[])).expect("it is written");
        tally.add(run(2, &["a", "b"])).expect("it is written");
        fs::write(&path, fs::read_to_string(&path).expect("it is there") + "{\"prog")
            .expect("writable");
        let mut tally = Tally::open(&path).expect("it is mended");
        tally.add(run(2, &["b"])).expect("it is written");
        let tally = Tally::open(&path).expect("all lines are whole");
        let (name, folder) = ("lab".to_owned(), PathBuf::new());
        let program = Program { name, path: PathBuf::new(), folder, built_ns: 2 };
        let runs: Vec<&Run> = tally.runs_of_build(&program, true).collect();
        assert_eq!(runs, [&run(2, &["a", "b"]), &run(2, &["b"])], "the first is of another build");
        assert_eq!(tally.runs_of_build(&program, false).count(), 0);
        let counts: Vec<_> = count_failed(&runs).into_iter().collect();
        assert_eq!(counts, [("a", 1), ("b", 2)]);
        fs::write(&path, "{}\n").expect("writable");
        let why = Tally::open(&path).map(|_| ()).expect_err("no run");
        assert!(why.ends_with(": line 1: not a run"), "{why}");
        fs::remove_file(&path).expect("it is ours");
    }

    #[test]
    fn a_line_names_what_failed() {
        assert_eq!(run(1, &[]).line(), "lab in 1.5 s: passed");
        assert_eq!(run(1, &["a", "b"]).line(), "lab in 1.5 s: FAILED: a, b");
    }
}
