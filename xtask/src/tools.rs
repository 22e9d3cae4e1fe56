//! The programs that `xtask` runs: whether they are there, and how to get them.
//!
//! Not a package manager: a missing tool is reported with the command that installs it, and
//! nothing is ever installed from here.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program that a step needs and a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    /// What a reader calls it.
    pub(crate) name: &'static str,
    /// A command that succeeds exactly when the tool can be used.
    pub(crate) probe: &'static str,
    /// The command that provides it.
    pub(crate) install: &'static str,
    /// Whether `.ci/run` provides it: then its absence in CI is a failure and not a skipped step.
    pub(crate) provided_in_ci: bool,
}

pub(crate) const CARGO_DENY: Tool = Tool {
    name: "cargo-deny",
    probe: "cargo deny --version",
    install: "cargo install --locked cargo-deny",
    provided_in_ci: true,
};

/// Needs the network, and a machine that may reach github.com.
pub(crate) const ADVISORY_DATABASE: Tool = Tool {
    name: "the RustSec advisory database",
    probe: "cargo deny fetch db",
    install: "cargo deny fetch db (with access to github.com)",
    provided_in_ci: false,
};

pub(crate) const NIGHTLY: Tool = Tool {
    name: "a nightly toolchain",
    probe: "cargo +nightly --version",
    install: "rustup toolchain install nightly",
    provided_in_ci: true,
};

pub(crate) const CARGO_FUZZ: Tool = Tool {
    name: "cargo-fuzz",
    probe: "cargo fuzz --version",
    install: "cargo install --locked cargo-fuzz",
    provided_in_ci: true,
};

pub(crate) const MIRI: Tool = Tool {
    name: "Miri",
    probe: "cargo +nightly miri --version",
    install: "rustup component add --toolchain nightly miri rust-src",
    provided_in_ci: false,
};

pub(crate) const MUSL_TARGET: Tool = Tool {
    name: "the musl target",
    probe: "rustup target list --installed",
    install: "rustup target add x86_64-unknown-linux-musl",
    provided_in_ci: false,
};

impl Tool {
    /// Runs the probe.
    pub(crate) fn is_there(&self) -> bool {
        let probe = command(self.probe).stdin(Stdio::null()).stderr(Stdio::null()).output();
        let Ok(probe) = probe else { return false };
        // The one probe that always succeeds lists what there is.
        let listed = *self != MUSL_TARGET || contains(&probe.stdout, b"-musl");
        probe.status.success() && listed
    }
}

/// A command from words separated by spaces, to run at the workspace root. Words hold no spaces.
pub(crate) fn command(words: &str) -> Command {
    let mut words = words.split(' ');
    let mut command = Command::new(words.next().expect("split yields at least one word"));
    command.args(words).current_dir(workspace_root());
    command
}

/// The folder of the workspace's manifest: the parent of this package's own.
pub(crate) fn workspace_root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().expect("xtask is a folder of the workspace").to_path_buf()
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_tell_present_from_absent() {
        let tool = |probe| Tool { name: "", probe, install: "", provided_in_ci: false };
        assert!(tool("cargo --version").is_there());
        assert!(!tool("cargo no-such-subcommand").is_there());
        assert!(!tool("no-such-program-anywhere").is_there());
    }

    #[test]
    fn the_workspace_root_holds_the_manifest() {
        assert!(workspace_root().join("Cargo.lock").is_file());
    }
}
