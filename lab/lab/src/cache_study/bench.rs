//! The program that measures cells, `cache-bench`: where it is, and how it is asked.
//!
//! It is kept for a whole study, so that keys and requests are drawn once, and is asked for a cell
//! at a time, because the schedule decides by the measurements so far which is next.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use command::programs::Program;

use super::cell::Cell;
use super::design::Design;
use super::numbers::Numbers;
use crate::client::Client;
use crate::error::Error;
use crate::install::SourceTree;
use crate::search::unable;

static PROGRAM: Program = Program {
    name: "cache-bench",
    folder: "servers/cache-bench",
    commands: &[],
    former_commands: &[],
};

/// The file of the program that measures. Where its source is it is built, so that what is measured
/// is the cache of that source; else it is the one beside this program or in `PATH`.
///
/// # Errors
/// A line: it cannot be built, or what to install.
pub fn program(source_tree: &SourceTree) -> Result<PathBuf, String> {
    let SourceTree { repository: Some(repository), target_dir: Some(target_dir), .. } = source_tree
    else {
        return PROGRAM.find();
    };
    // As this program is built itself.
    let (profile, folder) =
        if cfg!(debug_assertions) { ("dev", "debug") } else { ("release", "release") };
    // By its package alone it would be built with other features of what it uses, all anew.
    let arguments = ["build", "--profile", profile, "--workspace", "--bin", PROGRAM.name];
    let command = format!("cargo {}", arguments.join(" "));
    let mut cargo = Command::new("cargo");
    cargo.args(arguments).arg("--target-dir").arg(target_dir);
    // With a target named there, the program would be built into another folder.
    cargo.env_remove("CARGO_BUILD_TARGET");
    let status = cargo.current_dir(repository).stdin(Stdio::null()).status();
    let status = status.map_err(|why| format!("{command}: {why}"))?;
    if status.success() {
        Ok(target_dir.join(folder).join(PROGRAM.name))
    } else {
        Err(format!("{command}: {status}"))
    }
}

/// Why a cell was not measured, in a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) enum NoNumbers {
    /// The program has ended: once the cause is mended the study can go on.
    Ended(String),
    /// A store answered a wrong value, or the program something else than numbers: it would again.
    Wrong(String),
}

impl From<NoNumbers> for Error {
    fn from(why: NoNumbers) -> Self {
        match why {
            NoNumbers::Ended(why) => Self::Stopped(unable(&why)),
            NoNumbers::Wrong(why) => Self::Failed(why),
        }
    }
}

/// The program while it runs. It ends when this is dropped, and when this process ends.
pub(super) struct Bench(Client);

impl Bench {
    /// Starts the program for the cells of a design.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(program: &Path, design: &Design, seed: u64) -> Result<Self, String> {
        let numbers = [design.keys, design.requests, seed].map(|number| number.to_string());
        let command = [&[program.display().to_string()], &numbers[..]].concat();
        Client::start_waiting(&[], &[], &command).map(Self)
    }

    /// Measures a cell.
    ///
    /// # Errors
    /// Why there are no numbers.
    pub(super) fn measure(&mut self, cell: &Cell) -> Result<Numbers, NoNumbers> {
        let name = PROGRAM.name;
        let cell = serde_json::to_string(cell).map_err(|why| NoNumbers::Wrong(why.to_string()))?;
        let answer = self.0.exchange_line(&cell).map_err(|why| {
            let why = why.lines().collect::<Vec<_>>().join("; ");
            // A program that was killed has said nothing.
            NoNumbers::Ended(format!("{name} has ended: {}", why.trim_end_matches(": ")))
        })?;
        let answer: Result<Numbers, String> = serde_json::from_str(&answer).map_err(|why| {
            NoNumbers::Wrong(format!("{name} did not answer with numbers: {why}"))
        })?;
        answer.map_err(NoNumbers::Wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers of a shell script in place of the program.
    fn answers(script: &str, count: usize) -> Vec<Result<Numbers, NoNumbers>> {
        let command = ["sh", "-c", script].map(str::to_owned);
        let client = Client::start_waiting(&[], &[], &command).expect("there is a shell");
        let mut bench = Bench(client);
        let cell = Cell { keys: 4096, ..Cell::default() };
        (0..count).map(|_| bench.measure(&cell)).collect()
    }

    #[test]
    fn a_cell_is_a_line_and_so_is_its_answer() {
        let script = r#"read line
            case $line in *'"keys":4096,'*) echo '{"Ok":{"cpu_ns":7.5}}';; esac
            read line && echo '{"Err":"no"}'"#;
        let numbers = Numbers { cpu_ns: 7.5, ..Numbers::default() };
        assert_eq!(answers(script, 2), [Ok(numbers), Err(NoNumbers::Wrong("no".into()))]);
    }

    #[test]
    fn a_program_that_fails_is_reported_in_a_line() {
        let check = |script: &str, expected: &str| {
            let why = answers(script, 1).remove(0).expect_err(script).to_string();
            assert!(why.starts_with(expected) && !why.contains('\n'), "{script}: {why}");
        };
        check("echo a >&2; echo b >&2; exit 3", "cache-bench has ended: exit status: 3: a; b");
        let why = answers("read line; kill -9 $$", 1).remove(0);
        let expected = "cache-bench has ended: signal: 9 (SIGKILL)";
        assert_eq!(why, Err(NoNumbers::Ended(expected.into())));
        check("echo all is well", "cache-bench did not answer with numbers: expected value at");
    }
}
