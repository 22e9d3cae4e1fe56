//! The programs that only `xtask` runs, and how to get them. Programs that tests run, too, are in
//! `testkit::tools`.
//!
//! This is not a package manager: a missing tool is reported with the command that installs it, and
//! nothing is ever installed from here.

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) use testkit::tools::{Probe, Tool};

pub(crate) const CARGO_DENY: Tool = Tool {
    name: "cargo-deny",
    probe: Probe::Succeeds("cargo deny --version"),
    install: "cargo install --locked cargo-deny",
    provided_in_ci: true,
};

/// The database of advisories; it needs a network that reaches github.com.
pub(crate) const ADVISORY_DATABASE: Tool = Tool {
    name: "the RustSec advisory database",
    probe: Probe::Succeeds("cargo deny fetch db"),
    install: "cargo deny fetch db (with access to github.com)",
    provided_in_ci: false,
};

pub(crate) const NIGHTLY: Tool = Tool {
    name: "a nightly toolchain",
    probe: Probe::Succeeds("cargo +nightly --version"),
    install: "rustup toolchain install nightly",
    provided_in_ci: true,
};

pub(crate) const CARGO_FUZZ: Tool = Tool {
    name: "cargo-fuzz",
    probe: Probe::Succeeds("cargo fuzz --version"),
    install: "cargo install --locked cargo-fuzz",
    provided_in_ci: true,
};

pub(crate) const MIRI: Tool = Tool {
    name: "Miri",
    probe: Probe::Succeeds("cargo +nightly miri --version"),
    install: "rustup component add --toolchain nightly miri rust-src",
    provided_in_ci: false,
};

pub(crate) const MUSL_TARGET: Tool = Tool {
    name: "the musl target",
    probe: Probe::Prints("rustup target list --installed", "x86_64-unknown-linux-musl"),
    install: "rustup target add x86_64-unknown-linux-musl",
    provided_in_ci: false,
};

/// Compiles the C in the static programs for musl: zstd.
pub(crate) const MUSL_GCC: Tool =
    Tool { provided_in_ci: true, ..packaged("musl-gcc", "apt-get install musl-tools") };

/// Makes Debian packages of programs.
pub(crate) const CARGO_DEB: Tool = Tool {
    name: "cargo-deb",
    probe: Probe::Succeeds("cargo deb --version"),
    install: "cargo install --locked cargo-deb",
    provided_in_ci: false,
};

/// A program of a Debian package that `.ci/run` does not install.
const fn packaged(name: &'static str, install: &'static str) -> Tool {
    Tool { name, probe: Probe::Program(name), install, provided_in_ci: false }
}

/// Judges Debian packages.
pub(crate) const LINTIAN: Tool = packaged("lintian", "apt-get install lintian");
/// Makes container images.
pub(crate) const BUILDAH: Tool = packaged("buildah", "apt-get install buildah");
/// Runs containers.
pub(crate) const PODMAN: Tool = packaged("podman", "apt-get install podman");

/// Root's rights, which `fresh` and `package` need for mounting.
pub(crate) const ROOT: Tool = Tool {
    name: "the right to mount",
    probe: Probe::Succeeds("test -O /"),
    install: "run it as root",
    provided_in_ci: true,
};

/// A file system in memory with room for what a test suite writes.
pub(crate) const SHARED_MEMORY: Tool = Tool {
    name: "tmpfs at /dev/shm",
    probe: Probe::Prints("stat --file-system --format=%T /dev/shm", "tmpfs"),
    install: "mount -t tmpfs tmpfs /dev/shm",
    provided_in_ci: true,
};

/// A command from words separated by spaces, to run at the workspace root. Words hold no spaces.
pub(crate) fn command(words: &str) -> Command {
    let mut words = words.split(' ');
    let mut command = Command::new(words.next().expect("split yields at least one word"));
    command.args(words).current_dir(workspace_root());
    command
}

/// Cargo's target directory.
///
/// # Errors
/// The program is not in one.
pub(crate) fn target_dir() -> Result<PathBuf, String> {
    let found = lab::SourceTree::find(false).target_dir;
    found.ok_or_else(|| "cargo's target directory is not known".to_owned())
}

/// The folder of the workspace's manifest: the parent of this package's own.
pub(crate) fn workspace_root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().expect("xtask is a folder of the workspace").to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::tools::TOOLS;

    #[test]
    fn the_workspace_root_holds_the_manifest() {
        assert!(workspace_root().join("Cargo.lock").is_file());
    }

    /// Tools that are declared to be provided in CI are installed there.
    #[test]
    fn the_script_of_ci_installs_what_the_checks_need() {
        let script = read(".ci/run");
        let listed = installed_in_ci(&script);
        for tool in TOOLS.iter().filter(|tool| tool.provided_in_ci) {
            for package in tool.packages() {
                assert!(listed.contains(&package), "{package}: for {}", tool.name);
            }
        }
    }

    /// Its table has the reason of each, and the command below the table installs them.
    #[test]
    fn contributing_names_the_packages_of_a_full_test_run() {
        let (script, page) = (read(".ci/run"), read("CONTRIBUTING.md"));
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | "));
        let explained: Vec<&str> = rows.flat_map(|(names, _)| names.split(['`', ' '])).collect();
        let command = page.split_once("apt-get install --no-install-recommends ");
        let command = command.and_then(|(_, rest)| rest.split_once("```")).expect("it has one").0;
        let installed: Vec<&str> = command.split_whitespace().collect();
        let check = |package: &str| {
            assert!(explained.contains(&package), "{package}: its row is missing");
            assert!(installed.contains(&package), "{package}: it is not in the command");
        };
        TOOLS.iter().flat_map(Tool::packages).for_each(check);
        installed_in_ci(&script).into_iter().for_each(check);
    }

    /// In `a && b` the failure of `a` does not end a script under `set -e`.
    #[test]
    fn a_failed_installation_ends_the_script_of_ci() {
        let script = read(".ci/run");
        let steps = script.lines().filter(|line| line.contains("&& seconds"));
        assert_eq!(steps.collect::<Vec<_>>(), [""; 0]);
    }

    fn read(path: &str) -> String {
        std::fs::read_to_string(workspace_root().join(path)).expect("it is part of the project")
    }

    /// The packages that `.ci/run` installs, some of them only where their program is missing.
    fn installed_in_ci(script: &str) -> Vec<&str> {
        let begun = ["packages=(", "packages+=("].into_iter();
        let lists = begun.flat_map(|start| script.split(start).skip(1));
        let lists = lists.filter_map(|rest| rest.split_once(')'));
        lists.flat_map(|(list, _)| list.split_whitespace()).collect()
    }
}
