//! The output of a recipe's commands: a log beside the trace. The standard output of this program
//! has the results of the recording, and nothing else.
//!
//! While the commands run each has two files of its own in the folder of records, so that the
//! complaints of one can be distinguished from those of others.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The output files of all commands so far.
#[derive(Debug)]
pub(crate) struct Printed {
    log: PathBuf,
    folder: PathBuf,
    commands: Vec<String>,
}

impl Printed {
    /// A log for a trace; until it is written, output goes into `folder`.
    pub(crate) fn new(trace: &Path, folder: &Path) -> Self {
        let mut log = trace.as_os_str().to_owned();
        log.push(".log");
        Self { log: log.into(), folder: folder.to_owned(), commands: Vec::new() }
    }

    /// The path of the log, which may not exist yet.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// Redirects the output of a command to files. Its standard input is empty.
    pub(crate) fn take(&mut self, command: &mut Command, typed: &[String]) -> Result<(), String> {
        let number = self.commands.len();
        let create =
            |path: PathBuf| File::create(&path).map_err(|why| format!("{}: {why}", path.display()));
        command.stdin(Stdio::null());
        command.stdout(create(self.output(number))?);
        command.stderr(create(self.errors(number))?);
        self.commands.push(typed.join(" "));
        Ok(())
    }

    /// The last line that the most recently started command has printed to its standard error,
    /// where a program says why it ends; or else to its standard output, as a load does that has
    /// found errors.
    pub(crate) fn last_line(&self) -> String {
        let last = self.commands.len().checked_sub(1);
        let paths = last.into_iter().flat_map(|number| [self.errors(number), self.output(number)]);
        let mut lines = paths.filter_map(|path| last_line(&std::fs::read(path).ok()?));
        lines.next().unwrap_or_else(|| "it did not say why".to_owned())
    }

    /// Writes the log: the commands in the order in which they began, and the output of each.
    pub(crate) fn gather(&self) -> Result<(), String> {
        let write = || -> io::Result<()> {
            let mut log = File::create(&self.log)?;
            for (number, command) in self.commands.iter().enumerate() {
                writeln!(log, "$ {command}")?;
                for path in [self.output(number), self.errors(number)] {
                    io::copy(&mut File::open(path)?, &mut log)?;
                }
            }
            Ok(())
        };
        write().map_err(|why| {
            format!("what the commands printed is lost: {}: {why}", self.log.display())
        })
    }

    fn output(&self, number: usize) -> PathBuf {
        self.folder.join(format!("command-{number}.output"))
    }

    fn errors(&self, number: usize) -> PathBuf {
        self.folder.join(format!("command-{number}.errors"))
    }
}

fn last_line(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let last = text.lines().rfind(|line| !line.trim().is_empty());
    last.map(|line| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Temporary;

    #[test]
    fn what_commands_print_is_in_one_log_in_their_order() {
        let folder = Temporary::new();
        let mut printed = Printed::new(&folder.path().join("x.trace"), folder.path());
        assert_eq!(printed.last_line(), "it did not say why");
        for (script, last) in [
            ("echo one; echo of one >&2", "of one"),
            ("echo two >&2; echo two >&2; echo >&2", "two"),
            ("echo three", "three"),
        ] {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            printed.take(&mut command, &["run".to_owned(), script.len().to_string()]).unwrap();
            assert!(command.status().unwrap().success());
            assert_eq!(printed.last_line(), last);
        }
        printed.gather().unwrap();
        let log = std::fs::read_to_string(folder.path().join("x.trace.log")).unwrap();
        assert_eq!(log, "$ run 25\none\nof one\n$ run 36\ntwo\ntwo\n\n$ run 10\nthree\n");
    }
}
