//! Programs that tests and checks use and a machine may lack, with the command that installs each:
//! the only table of them. Servers that can be measured, such as nginx, are described in
//! `servers/*.toml`.
//!
//! Nothing is ever installed from here.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::skip;

/// A program that a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tool {
    /// The tool's name for readers.
    pub name: &'static str,
    /// How the tool's presence is detected.
    pub probe: Probe,
    /// The command that provides it.
    pub install: &'static str,
    /// Whether `.ci/run` provides it: then its absence in CI is a failure and not a skipped check.
    pub provided_in_ci: bool,
}

/// The condition under which a tool can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// A program of this name in one of the folders of `PATH`.
    Program(&'static str),
    /// A command, its words separated by single spaces, that succeeds at the workspace's root.
    Succeeds(&'static str),
    /// A command that succeeds and prints this.
    Prints(&'static str, &'static str),
}

/// A program of a Debian package, which `.ci/run` installs.
const fn packaged(name: &'static str, program: &'static str, install: &'static str) -> Tool {
    Tool { name, probe: Probe::Program(program), install, provided_in_ci: true }
}

/// Makes the root of a bare machine. Only `.ci/fresh` needs it.
pub const DEBOOTSTRAP: Tool = packaged("debootstrap", "debootstrap", "apt-get install debootstrap");
/// Shows pages as a reader would see them.
pub const CHROMIUM: Tool = packaged("Chromium", "chromium", "apt-get install chromium");
/// A widely used client for HTTP.
pub const CURL: Tool = packaged("curl", "curl", "apt-get install curl");
/// Lists the files that the house rules apply to.
pub const GIT: Tool = packaged("git", "git", "apt-get install git");
/// Makes file systems.
pub const MKE2FS: Tool = packaged("mke2fs", "mke2fs", "apt-get install e2fsprogs");
/// Makes disks of files.
pub const LOSETUP: Tool = packaged("losetup", "losetup", "apt-get install mount");
/// The server that some tests record, or put in a testbed.
pub const NGINX: Tool = packaged("nginx", "nginx", "apt-get install nginx");
/// A server that is put behind Ropewalk.
pub const APACHE: Tool = packaged("Apache", "apache2", "apt-get install apache2");
/// A server that is put behind Ropewalk.
pub const H2O: Tool = packaged("h2o", "h2o", "apt-get install h2o");
/// A server that is put behind Ropewalk.
pub const LIGHTTPD: Tool = packaged("lighttpd", "lighttpd", "apt-get install lighttpd");
/// A server that is put behind Ropewalk.
pub const CADDY: Tool = packaged("Caddy", "caddy", "apt-get install caddy");
/// Builds a server that is put behind Ropewalk.
pub const GO: Tool = packaged("Go", "go", "apt-get install golang-go");
/// Runs a server that is put behind Ropewalk.
pub const NODE: Tool = packaged("Node", "node", "apt-get install nodejs");
/// Runs scripts behind a server.
pub const PHP_FPM: Tool = packaged("php-fpm", "php-fpm8.2", "apt-get install php8.2-fpm");
/// Runs scripts, as a CGI program and behind a server.
pub const PHP_CGI: Tool = packaged("php-cgi", "php-cgi8.2", "apt-get install php8.2-cgi");
/// A load generator: open loop, sessions.
pub const HTTPERF: Tool = packaged("httperf", "httperf", "apt-get install httperf");
/// A load generator: closed loop, HTTP/2.
pub const H2LOAD: Tool = packaged("h2load", "h2load", "apt-get install nghttp2-client");
/// A load generator: closed loop.
pub const WRK: Tool = packaged("wrk", "wrk", "apt-get install wrk");
/// `ip` and `tc`, which make networks.
pub const IPROUTE2: Tool = packaged("iproute2", "ip", "apt-get install iproute2");
/// Runs a program as another user.
pub const SETPRIV: Tool = packaged("setpriv", "setpriv", "apt-get install util-linux");
/// Runs a program in namespaces of its own.
pub const UNSHARE: Tool = packaged("unshare", "unshare", "apt-get install util-linux");
/// Runs the filter of system calls that some tests apply to a server.
pub const PYTHON: Tool = packaged("Python", "python3", "apt-get install python3");
/// Records references to memory, one thread at a time.
pub const VALGRIND: Tool =
    packaged("Valgrind", "valgrind", "apt-get install valgrind gcc libc6-dev");
/// Records references to memory, several times as fast.
pub const QEMU: Tool = packaged("QEMU", "qemu-x86_64", "apt-get install qemu-user gcc libc6-dev");
/// Shows the system calls of a program.
pub const STRACE: Tool = packaged("strace", "strace", "apt-get install strace");
/// A shell whose completion is tested.
pub const BASH: Tool = packaged("Bash", "bash", "apt-get install bash");
/// A shell whose completion is tested.
pub const ZSH: Tool = packaged("Zsh", "zsh", "apt-get install zsh");
/// A shell whose completion is tested.
pub const FISH: Tool = packaged("Fish", "fish", "apt-get install fish");
/// Runs a command on a pseudo-terminal.
pub const SCRIPT: Tool = packaged("script", "script", "apt-get install bsdutils");
/// Shows man pages.
pub const MAN: Tool = packaged("man", "man", "apt-get install man-db");

/// All tools in this file.
pub const TOOLS: &[Tool] = &[
    DEBOOTSTRAP,
    CHROMIUM,
    CURL,
    GIT,
    MKE2FS,
    LOSETUP,
    NGINX,
    APACHE,
    H2O,
    LIGHTTPD,
    CADDY,
    GO,
    NODE,
    PHP_FPM,
    PHP_CGI,
    HTTPERF,
    H2LOAD,
    WRK,
    IPROUTE2,
    SETPRIV,
    UNSHARE,
    PYTHON,
    VALGRIND,
    QEMU,
    STRACE,
    BASH,
    ZSH,
    FISH,
    SCRIPT,
    MAN,
];

/// Whether a tool is there; if it is not, reports that the checks that need it are left out.
///
/// # Panics
/// Where the tool is missing in CI.
#[must_use]
#[track_caller]
pub fn has(tool: &Tool) -> bool {
    let is_there = tool.is_there();
    if !is_there {
        skip(tool.name, &tool.is_missing());
    }
    is_there
}

impl Tool {
    /// Whether the tool is there now.
    #[must_use]
    pub fn is_there(&self) -> bool {
        match self.probe {
            Probe::Program(name) => is_in_path(name),
            Probe::Succeeds(command) => printed(command).is_some(),
            Probe::Prints(command, word) => printed(command).is_some_and(|it| it.contains(word)),
        }
    }

    /// Why a check that needs the tool was left out, and the command that fixes that.
    #[must_use]
    pub fn is_missing(&self) -> String {
        format!("{} is not there: {}", self.name, self.install)
    }

    /// The Debian packages with the tool; none if it is installed in another way.
    pub fn packages(&self) -> impl Iterator<Item = &'static str> {
        self.install.strip_prefix("apt-get install ").into_iter().flat_map(|all| all.split(' '))
    }
}

fn is_in_path(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

/// The output of a command at the workspace's root, if it succeeds.
fn printed(command: &str) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    let mut words = command.split(' ');
    let mut command = Command::new(words.next()?);
    command.args(words).current_dir(root).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_tell_present_from_absent() {
        let check = |probe, expected| {
            let tool = Tool { name: "", probe, install: "", provided_in_ci: false };
            assert_eq!(tool.is_there(), expected, "{probe:?}");
        };
        check(Probe::Program("sh"), true);
        check(Probe::Program("no-such-program-anywhere"), false);
        check(Probe::Succeeds("test -f Cargo.lock"), true);
        check(Probe::Succeeds("test -f no-such-file"), false);
        check(Probe::Succeeds("no-such-program-anywhere"), false);
        check(Probe::Prints("cat Cargo.toml", "[workspace]"), true);
        check(Probe::Prints("cat Cargo.toml", concat!("no such ", "word")), false);
    }

    /// A reader who learns that a check was left out can fix it.
    #[test]
    fn every_tool_names_its_packages() {
        for tool in TOOLS {
            assert!(tool.packages().count() > 0, "{}", tool.name);
        }
        assert_eq!(WRK.is_missing(), "wrk is not there: apt-get install wrk");
    }
}
