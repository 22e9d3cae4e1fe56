//! The programs of Ropewalk: the commands that each has, where it is, and how one becomes another.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Failure;

/// One program of Ropewalk.
#[derive(Debug)]
pub struct Program {
    /// The name of its file.
    pub name: &'static str,
    /// The folder of its package in the sources.
    pub folder: &'static str,
    /// The commands that other programs pass on to it, each with a description in a line.
    pub commands: &'static [(&'static str, &'static str)],
    /// Names of commands before 0.1, which are still read.
    pub former_commands: &'static [&'static str],
}

/// The server.
pub static SERVER: Program =
    Program { name: "ropewalk", folder: "server/cli", commands: &[], former_commands: &[] };

/// The lab.
pub static LAB: Program = Program {
    name: "ropewalk-lab",
    folder: "lab/cli",
    commands: &[
        ("load", "Drive a web server and report how it performed"),
        ("fileset", "Write, check or repair the files that load is generated for"),
        ("log", "Generate, describe and import request logs: what clients ask for"),
        ("compare", "Say which of two servers is better for a workload"),
        ("tune", "Find the configuration of a server that sustains the most"),
        ("study", "Run an experiment: servers under workloads in testbeds"),
        ("report", "Make a page of what a study, tuning or comparison has measured"),
        ("servers", "List the servers that can be compared, and how to install others"),
        ("membench", "Measure the bandwidth of memory, the ceiling of every server"),
    ],
    former_commands: &["peers"],
};

/// The simulator.
pub static SIMULATOR: Program = Program {
    name: "ropewalk-sim",
    folder: "simulator/cli",
    commands: &[
        ("simulate", "Simulate how a trace scales on a shared-memory multiprocessor"),
        ("trace", "Record, import and describe memory traces"),
    ],
    former_commands: &[],
};

/// The programs that `ropewalk` passes commands on to.
pub static OTHERS: [&Program; 2] = [&LAB, &SIMULATOR];

/// The version of all programs of these sources.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Program {
    /// Whether a command line without the program's name is for this one: `COMMAND …` or
    /// `help COMMAND`.
    pub fn is_meant(&self, arguments: &[OsString]) -> bool {
        let command = match arguments {
            [help, command, ..] if help == "help" => command,
            [command, ..] => command,
            [] => return false,
        };
        let mut names = self.commands.iter().map(|(name, _)| name).chain(self.former_commands);
        names.any(|name| command == name)
    }

    /// A paragraph of help: the commands, under the program's name.
    pub fn help(&self) -> String {
        let line = |(name, about): &(&str, &str)| format!("  {name:<9} {about}\n");
        let lines: String = self.commands.iter().map(line).collect();
        format!("Commands of {}:\n{lines}", self.name)
    }

    /// Replaces this process by the program, with these arguments. It keeps the process number, so
    /// that signals and the exit status are the program's, and its name as it was typed, so that
    /// messages can repeat that. Returns only if that fails.
    pub fn replace_this_process(&self, arguments: &[OsString]) -> Failure {
        let path = match self.find() {
            Ok(path) => path,
            Err(why) => return Failure::Operation(why),
        };
        let typed = env::args_os().next().unwrap_or_else(|| path.clone().into());
        let why = Command::new(&path).arg0(typed).args(arguments).exec();
        Failure::Operation(format!("{}: {why}", path.display()))
    }

    /// The program's file: beside this program's, else the first in `PATH`.
    ///
    /// # Errors
    /// There is none, or it is of another version: what to install, in a line.
    pub fn find(&self) -> Result<PathBuf, String> {
        let beside = env::current_exe().ok().and_then(|own| Some(own.parent()?.to_owned()));
        self.find_in(beside.as_deref(), env::var_os("PATH").as_deref())
    }

    fn find_in(&self, beside: Option<&Path>, path: Option<&OsStr>) -> Result<PathBuf, String> {
        let folders = path.into_iter().flat_map(env::split_paths);
        let mut files = beside
            .map(Path::to_owned)
            .into_iter()
            .chain(folders)
            .map(|folder| folder.join(self.name));
        let Some(file) = files.find(|file| file.is_file()) else {
            let name = self.name;
            return Err(format!(
                "{name} is neither beside this program nor in PATH: {}",
                self.how_to_install()
            ));
        };
        match version_of(&file) {
            Some(version) if version == format!("{} {VERSION}", self.name) => Ok(file),
            Some(other) => Err(format!(
                "{} is {other}, and this is version {VERSION}: {}",
                file.display(),
                self.how_to_install()
            )),
            None => Err(format!(
                "{} does not print its version: {}",
                file.display(),
                self.how_to_install()
            )),
        }
    }

    /// The end of a message. Programs that belong to no product have no package.
    fn how_to_install(&self) -> String {
        let has_package = [&SERVER, &LAB, &SIMULATOR].iter().any(|it| it.name == self.name);
        let source =
            format!("cargo install --profile dist --path {} in Ropewalk's sources", self.folder);
        match has_package {
            true => format!("install version {VERSION} of it: its package, or {source}"),
            false => format!("install it: {source}"),
        }
    }
}

/// The first line that a program prints as its version.
fn version_of(file: &Path) -> Option<String> {
    let output = Command::new(file).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Temporary;

    fn arguments(words: &str) -> Vec<OsString> {
        words.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn a_command_belongs_to_one_program() {
        let check = |words: &str, expected| {
            assert_eq!(SIMULATOR.is_meant(&arguments(words)), expected, "{words:?}");
        };
        let is_for_lab = |words: &str| LAB.is_meant(&arguments(words));
        assert!(is_for_lab("load http://a/") && is_for_lab("peers") && !is_for_lab("trace"));
        check("simulate a.trace --cpus 2", true);
        check("help trace", true);
        check("serve trace", false);
        check("help", false);
        check("", false);
        check("simulated", false);
    }

    /// A program that prints this as its version.
    fn put(folder: &Temporary, version: &str) -> PathBuf {
        let path = folder.path().join(SIMULATOR.name);
        testkit::install_script(&format!("#!/bin/sh\necho {version}\n"), &path);
        path
    }

    /// Programs of the sources are installed as the README says.
    #[test]
    fn how_to_install_is_the_line_of_the_readme() {
        let readme = include_str!("../../../README.md");
        let readme = readme.split_whitespace().collect::<Vec<_>>().join(" ");
        let how = SERVER.how_to_install();
        let (_, line) = how.split_once(", or ").expect("the package, or the sources");
        let (line, _) = line.split_once(" in ").expect("the line, and where");
        assert!(readme.contains(&format!("`{line}`")), "{line}");
    }

    #[test]
    fn a_program_is_found_beside_this_one_and_then_in_path() {
        let (beside, in_path) = (Temporary::new(), Temporary::new());
        let path = env::join_paths(["/nonexistent".as_ref(), in_path.path()]).unwrap();
        let find = || SIMULATOR.find_in(Some(beside.path()), Some(&path));
        let why = find().unwrap_err();
        let install = &format!(
            "install version {VERSION} of it: its package, or cargo install --profile dist --path \
             simulator/cli"
        );
        assert!(
            why.starts_with("ropewalk-sim is neither beside ") && why.contains(install),
            "{why}"
        );
        let version = format!("ropewalk-sim {VERSION}");
        let second = put(&in_path, &version);
        assert_eq!(find(), Ok(second));
        let first = put(&beside, &version);
        assert_eq!(find(), Ok(first));
        put(&beside, "ropewalk-sim 0.0.0");
        let why = find().unwrap_err();
        assert!(why.contains(" is ropewalk-sim 0.0.0, ") && why.contains(install), "{why}");
        put(&beside, "");
        let why = find().unwrap_err();
        assert!(why.contains(install) && !why.contains('\n'), "{why}");
    }
}
