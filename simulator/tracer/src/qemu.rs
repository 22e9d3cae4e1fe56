//! The recorder that is a plugin for QEMU's user mode.

use crate::built::{build, cache_directory, cc, open_to_all, unusable};
use crate::convert::Window;
use crate::error::RecordingError;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use xxhash_rust::xxh3::xxh3_64;

const SOURCE: &str = include_str!("../../../recorders/qemu/references.c");
const HEADER: &str = include_str!("../../../recorders/qemu/plugin.h");
const INSTALL: &str = "apt-get install qemu-user gcc libc6-dev";
/// The QEMU that runs programs for x86-64.
pub(crate) const QEMU: &str = "qemu-x86_64";
const PLUGIN: &str = "references.so";
const COMPILE: &[&str] = &["-O2", "-std=gnu11", "-Wall", "-fPIC", "-shared", "-fvisibility=hidden"];

/// The maximum depth of scripts: a script's interpreter may be a script, too.
const SCRIPTS_MAX: usize = 3;

/// A plugin that is ready to run.
#[derive(Debug)]
pub(crate) struct Plugin {
    path: PathBuf,
}

impl Plugin {
    /// Returns the plugin, compiled now if it has not been before for this QEMU.
    pub(crate) fn ready() -> Result<Self, RecordingError> {
        Self::found_or_built().map_err(RecordingError::Unavailable)
    }

    fn found_or_built() -> Result<Self, String> {
        if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
            return Err("recording runs on Linux on x86-64 only".to_owned());
        }
        let output = Command::new(QEMU).arg("--version").output();
        let output = output.map_err(|_| format!("recording with QEMU needs {QEMU}: {INSTALL}"))?;
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        let identity = xxh3_64([SOURCE, HEADER, &version].concat().as_bytes());
        let folder = cache_directory()?.join(format!("qemu-{identity:016x}"));
        if !folder.join(PLUGIN).exists() {
            build(&folder, PLUGIN, compile)?;
        }
        Ok(Self { path: folder.join(PLUGIN) })
    }

    /// The command that runs a program under QEMU with the plugin, which relies on the order of
    /// these words.
    pub(crate) fn command(
        &self,
        records: &Path,
        window: Window,
        typed: &[String],
        folder: Option<&Path>,
    ) -> Result<Command, String> {
        for path in [self.path.as_path(), records] {
            if path.to_string_lossy().contains(',') {
                return Err(format!("QEMU takes no path with a comma: {}", path.display()));
            }
        }
        let words = runnable(typed, folder)?;
        let (name, words) = words.split_first().ok_or("an empty command")?;
        let mut command = Command::new(QEMU);
        command.arg("-plugin").arg(format!(
            "{},--references-max={},--skip={},--directory={}",
            self.path.display(),
            window.references_max,
            window.skip,
            records.display()
        ));
        command.arg("-0").arg(name).arg("--").args(words);
        Ok(command)
    }
}

fn compile(here: &Path) -> Result<(), String> {
    let (source, plugin) = (here.join("references.c"), here.join(PLUGIN));
    let written = fs::write(&source, SOURCE);
    let written = written.and_then(|()| fs::write(here.join("plugin.h"), HEADER));
    written.map_err(|why| unusable(here, &why))?;
    let files = [source.as_os_str(), "-o".as_ref(), plugin.as_os_str()];
    cc(COMPILE.iter().map(OsStr::new).chain(files), INSTALL)?;
    open_to_all(&plugin).map_err(|why| unusable(here, &why))
}

/// The program that QEMU can run for a typed command: its `argv[0]`, its path, and its arguments.
/// QEMU does not search for programs, and does not know scripts.
fn runnable(typed: &[String], folder: Option<&Path>) -> Result<Vec<String>, String> {
    let (name, arguments) = typed.split_first().ok_or("an empty command")?;
    let mut name = name.clone();
    let mut program = found(&name, folder)?;
    let mut arguments = arguments.to_vec();
    for _ in 0..SCRIPTS_MAX {
        let here = folder.unwrap_or(Path::new("")).join(&program);
        let head = head(&here).map_err(|why| format!("{program}: {why}"))?;
        let Some(line) = head.strip_prefix(b"#!") else {
            let is_ours = head.starts_with(b"\x7fELF\x02") && head.get(18) == Some(&62);
            if !is_ours {
                return Err(format!("{program} is no program for x86-64, which QEMU is to run"));
            }
            arguments.splice(0..0, [name, program]);
            return Ok(arguments);
        };
        let line = String::from_utf8_lossy(line.split(|byte| *byte == b'\n').next().unwrap_or(b""));
        let line = line.trim();
        let (interpreter, argument) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        let argument = argument.trim().to_owned();
        let first = (!argument.is_empty()).then_some(argument);
        arguments.splice(0..0, first.into_iter().chain([program]));
        program = interpreter.to_owned();
        name.clone_from(&program);
    }
    Err(format!("{} is a script of a script of a script", typed[0]))
}

/// The path of a typed program.
fn found(name: &str, folder: Option<&Path>) -> Result<String, String> {
    let can_run = |path: &Path| {
        let path = folder.unwrap_or(Path::new("")).join(path);
        fs::metadata(path).is_ok_and(|is| is.is_file() && is.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Ok(name.to_owned());
    }
    let places = std::env::var_os("PATH").unwrap_or_default();
    let mut paths = std::env::split_paths(&places).map(|place| place.join(name));
    let path = paths.find(|path| can_run(path));
    let path = path.ok_or_else(|| format!("{name}: there is no such program"))?;
    Ok(path.to_string_lossy().into_owned())
}

/// The beginning of a file: enough for the first line of a script.
fn head(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(512).read_to_end(&mut head)?;
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Temporary;

    #[test]
    fn what_was_typed_is_found_and_scripts_have_interpreters() {
        let words = |typed: &[&str], folder: Option<&Path>| {
            let typed: Vec<String> = typed.iter().map(|&word| word.to_owned()).collect();
            runnable(&typed, folder).map(|words| words.join(" "))
        };
        let shell = words(&["sh", "-c", "x"], None).expect("there is one");
        assert!(shell.starts_with("sh /") && shell.ends_with("/sh -c x"), "{shell}");
        let folder = Temporary::new();
        folder.file("script", "#! /bin/sh -e \nexit");
        folder.file("text", "exit");
        let script = words(&["./script", "x"], Some(folder.path()));
        assert_eq!(script.as_deref(), Ok("/bin/sh /bin/sh -e ./script x"));
        let text = words(&["./text"], Some(folder.path())).expect_err("it is no program");
        assert_eq!(text, "./text is no program for x86-64, which QEMU is to run");
        let none = words(&["no-such-program"], None).expect_err("there is none");
        assert_eq!(none, "no-such-program: there is no such program");
    }
}
