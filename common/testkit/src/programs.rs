//! The programs of the workspace, built: tests of one package start those of others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// The file of a program of this workspace, built as this test was: cargo decides whether it is
/// stale. It is built at the first call.
///
/// # Panics
/// When it cannot be built.
pub fn built(name: &str) -> PathBuf {
    static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    built.entry(name.to_owned()).or_insert_with(|| build(name)).clone()
}

fn build(name: &str) -> PathBuf {
    let cargo = option_env!("CARGO").unwrap_or("cargo");
    let mut command = Command::new(cargo);
    // The features of the whole workspace, as the tests have them.
    command.args(["build", "--workspace", "--bin", name, "--message-format=json", "--quiet"]);
    command.args(["--profile", profile(&std::env::current_exe().unwrap())]);
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "cargo cannot build {name}");
    let messages = String::from_utf8(output.stdout).unwrap();
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut own = messages.filter(|message| message["target"]["name"] == name);
    let path = own.find_map(|message| message["executable"].as_str().map(PathBuf::from));
    path.unwrap_or_else(|| panic!("cargo does not say where {name} is"))
}

/// The profile that a test was built with, from where it is: `target/PROFILE/deps/NAME`.
fn profile(test: &Path) -> &'static str {
    let folder = test.parent().and_then(Path::parent).and_then(Path::file_name);
    if folder.is_some_and(|folder| folder == "release") { "release" } else { "dev" }
}
