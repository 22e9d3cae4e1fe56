//! The test programs of the workspace, as cargo builds and runs them.

use serde_json::Value;
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use xxhash_rust::xxh3::Xxh3;

use crate::tools;

/// A built test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// `PACKAGE` for the unit tests of a library, else `PACKAGE/TARGET`.
    pub(crate) name: String,
    /// The executable.
    pub(crate) path: PathBuf,
    /// The package's folder, in which cargo runs its tests.
    pub(crate) folder: PathBuf,
}

/// What Cargo has built.
#[derive(Debug)]
pub(crate) struct Built {
    /// The test programs, the longest-running first: by and large the larger ones take longer.
    pub(crate) programs: Vec<Program>,
    /// Their executables, and those of the programs that they start.
    pub(crate) executables: Vec<PathBuf>,
}

impl Program {
    /// The name of its package.
    pub(crate) fn package(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    /// A command that runs the program as Cargo would, with no input.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("CARGO_PKG_NAME", self.package())
            .stdin(Stdio::null());
        command
    }
}

/// Builds all test programs.
pub(crate) fn build() -> Result<Built, String> {
    let words = "cargo test --workspace --no-run --message-format=json-render-diagnostics";
    let output = tools::command(words).stderr(Stdio::inherit()).output();
    let output = output.map_err(|why| format!("{words}: {why}"))?;
    if !output.status.success() {
        return Err(format!("{words}: {}", output.status));
    }
    let (mut programs, executables) = listed(&String::from_utf8_lossy(&output.stdout));
    let bytes = |program: &Program| program.path.metadata().map_or(0, |file| file.len());
    programs.sort_by_key(|program| Reverse(bytes(program)));
    Ok(Built { programs, executables })
}

impl Built {
    /// A hash of the executables, which tells one build from another: the same sources give the
    /// same programs on any machine, in a folder of the same path.
    pub(crate) fn hash(&self) -> io::Result<u64> {
        let mut paths: Vec<&PathBuf> = self.executables.iter().collect();
        paths.sort();
        let mut hash = Xxh3::new();
        for path in paths {
            hash.update(&fs::read(path)?);
        }
        Ok(hash.digest())
    }
}

/// The test programs and all executables that Cargo reports as built, a JSON object a line.
fn listed(messages: &str) -> (Vec<Program>, Vec<PathBuf>) {
    let (mut programs, mut executables) = (Vec::new(), Vec::new());
    for message in messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let Some(path) = message["executable"].as_str().map(PathBuf::from) else { continue };
        executables.push(path.clone());
        if message["profile"]["test"] == true {
            let manifest = Path::new(message["manifest_path"].as_str().unwrap_or_default());
            let folder = manifest.parent().unwrap_or(manifest).to_path_buf();
            let id = message["package_id"].as_str().unwrap_or_default();
            programs.push(Program { name: name(package(id), &message["target"]), path, folder });
        }
    }
    (programs, executables)
}

/// The name in Cargo's identifier of a package: `URL#NAME@VERSION`, or `URL#VERSION` where the
/// folder has the package's name.
fn package(id: &str) -> &str {
    let (url, version) = id.split_once('#').unwrap_or((id, ""));
    let name = version.split_once('@').map(|(name, _)| name);
    name.or_else(|| url.rsplit('/').next()).unwrap_or_default()
}

fn name(package: &str, target: &Value) -> String {
    let is_library =
        target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|k| k == "lib"));
    match (is_library, target["name"].as_str()) {
        (false, Some(target)) => format!("{package}/{target}"),
        _ => package.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_told_from_others() {
        let line = |kind: &str, name: &str, test: bool| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/w/lab/cli/Cargo.toml\",\
                 \"package_id\":\"path+file:///w/lab/cli#ropewalk-lab@0.1.0\",\
                 \"target\":{{\"kind\":[\"{kind}\"],\"name\":\"{name}\"}},\
                 \"profile\":{{\"test\":{test}}},\"executable\":\"/t/{name}\"}}\n"
            )
        };
        let library = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n";
        let messages = [
            library.to_owned(),
            line("lib", "cli", true),
            line("bin", "ropewalk", false),
            line("test", "it", true),
            "not JSON\n".to_owned(),
        ];
        let (found, executables) = listed(&messages.concat());
        let names: Vec<&str> = found.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["ropewalk-lab", "ropewalk-lab/it"]);
        assert_eq!(executables.len(), 3, "the tests start the other program");
        assert_eq!(found[1].folder, Path::new("/w/lab/cli"));
        assert_eq!(found[1].path, Path::new("/t/it"));
    }

    #[test]
    fn packages_go_by_their_names() {
        assert_eq!(package("path+file:///w/lab/cli#ropewalk-lab@0.1.0"), "ropewalk-lab");
        assert_eq!(package("path+file:///w/server/file-cache#0.1.0"), "file-cache");
    }
}
