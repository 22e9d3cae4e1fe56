//! The root of a bare machine, in a folder: Debian 12 with a C compiler, places for Rust and for
//! Cargo's downloads, and a clone of HEAD. Nothing is mounted here: `inside.rs` does that.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use os::guard::Guard;

use crate::tools::{self, workspace_root};

/// The release on which the README's commands are tried.
const RELEASE: &str = "bookworm";

/// The packages that the README requires beside Rust, and those in Debian's own images.
const PACKAGES: &str = "gcc,libc6-dev,ca-certificates";

/// The ordinary user.
pub(super) const USER: &str = "somebody";
pub(super) const USER_ID: u32 = 1000;

/// Locations on the machine.
pub(super) const RUST: &str = "/opt/rust";
pub(super) const CARGO_HOME: &str = "/opt/cargo";
pub(super) const SOURCE: &str = "/srv/ropewalk";
pub(super) const USER_HOME: &str = "/srv/somebody";

/// A root that is removed when it is dropped, and when this process is killed.
#[derive(Debug)]
pub(super) struct Machine {
    /// The folder with the root, and with the name of the namespace in which the root is mounted.
    folder: PathBuf,
    /// This machine's Rust toolchain.
    pub(super) toolchain: PathBuf,
    /// The downloads of this machine's Cargo.
    pub(super) registry: PathBuf,
    _guard: Guard,
}

impl Machine {
    /// Makes the machine in a folder below `parent`.
    pub(super) fn make(parent: &Path) -> Result<Self, String> {
        let folder = parent.join(format!("machine-{}", std::process::id()));
        let packages = parent.join("packages");
        for folder in [&folder, &packages] {
            fs::create_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        }
        let guard = guard(&folder).map_err(|why| format!("sh: {why}"))?;
        let (toolchain, registry) = (toolchain()?, registry()?);
        let machine = Self { folder, toolchain, registry, _guard: guard };
        println!("fresh: debootstrap {RELEASE} with {PACKAGES}");
        install(&machine.root(), &packages)?;
        println!("fresh: cloning HEAD");
        clone(&machine.root())?;
        machine.furnish().map_err(|why| format!("{}: {why}", machine.root().display()))?;
        Ok(machine)
    }

    /// The folder that is the machine's `/`.
    pub(super) fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// Records in which mount namespace the machine runs, for the clean-up after this process.
    pub(super) fn runs_in(&self, namespace: &str) -> Result<(), String> {
        let path = self.folder.join(NAMESPACE);
        fs::write(&path, namespace).map_err(|why| format!("{}: {why}", path.display()))
    }

    /// Does what an installer would do: a user, the name of the machine itself, folders to mount
    /// on.
    fn furnish(&self) -> std::io::Result<()> {
        let within = |path: &str| self.root().join(path.trim_start_matches('/'));
        let append = |path: &str, line: &str| {
            let file = OpenOptions::new().create(true).append(true).open(within(path));
            file.and_then(|mut file| file.write_all(line.as_bytes()))
        };
        append("etc/passwd", &format!("{USER}:x:{USER_ID}:{USER_ID}::{USER_HOME}:/bin/sh\n"))?;
        append("etc/group", &format!("{USER}:x:{USER_ID}:\n"))?;
        append("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n")?;
        for folder in [RUST, CARGO_HOME, USER_HOME] {
            fs::create_dir_all(within(folder))?;
        }
        fs::create_dir_all(within(CARGO_HOME).join("registry"))?;
        // Cargo keeps its locks there.
        fs::set_permissions(within(CARGO_HOME), Permissions::from_mode(0o1777))?;
        give_to_user(&within(USER_HOME))?;
        give_to_user(&within(SOURCE))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

/// Nothing is mounted there in this process's namespace; if something were, it would not be
/// entered.
fn remove(folder: &Path) {
    let _ = Command::new("rm").args(["-rf", "--one-file-system"]).arg(folder).status();
}

/// The file with the namespace in which the machine runs.
const NAMESPACE: &str = "namespace";

/// Stands by to end the machine's processes and to remove it.
fn guard(folder: &Path) -> std::io::Result<Guard> {
    const REMOVE: &str = r#"
        for attempt in 1 2 3 4 5; do
            namespace=$(cat "$1/namespace" 2> /dev/null)
            for process in /proc/[0-9]*; do
                [ -n "$namespace" ] && [ "$(readlink "$process/ns/mnt")" = "$namespace" ] &&
                    kill -s KILL "${process#/proc/}"
            done
            rm -rf --one-file-system "$1" && break
            sleep 1
        done"#;
    Guard::new(REMOVE, [folder])
}

/// Has debootstrap fill the root from the mirror that apt uses here. Its downloads are kept; its
/// mounts end with its namespace.
fn install(root: &Path, packages: &Path) -> Result<(), String> {
    let mut debootstrap = Command::new("unshare");
    debootstrap.args(["--mount", "--", "debootstrap"]);
    debootstrap.args(["--variant=minbase", &format!("--include={PACKAGES}")]);
    debootstrap.arg(format!("--cache-dir={}", packages.display()));
    debootstrap.arg(RELEASE).arg(root).arg(mirror()?);
    if let Some(proxy) = setting_of_apt("Acquire::http::Proxy") {
        debootstrap.env("http_proxy", proxy);
    }
    os::signals::kill_with_parent(&mut debootstrap);
    output(&mut debootstrap).map(drop)
}

/// The mirror from which apt gets the release on this machine.
fn mirror() -> Result<String, String> {
    let mut apt = Command::new("apt-get");
    let said =
        output(apt.args(["indextargets", "--format", "$(CREATED_BY) $(CODENAME) $(REPO_URI)"]))?;
    parse_mirror(&said).ok_or_else(|| {
        format!("apt knows no mirror of Debian's {RELEASE} here: add one, then apt-get update")
    })
}

fn parse_mirror(targets: &str) -> Option<String> {
    let of_release = format!("Packages {RELEASE} ");
    targets.lines().find_map(|line| line.strip_prefix(&of_release)).map(str::to_owned)
}

fn setting_of_apt(name: &str) -> Option<String> {
    let mut apt = Command::new("apt-config");
    let said = output(apt.args(["dump", "--format", "%v", name])).ok()?;
    Some(said.trim().to_owned()).filter(|value| !value.is_empty())
}

/// Makes a clone, not a copy of the working tree: what a reader of the README gets.
fn clone(root: &Path) -> Result<(), String> {
    let source = workspace_root();
    let changed = output(Command::new("git").args(["status", "--porcelain"]).current_dir(&source))?;
    if !changed.is_empty() {
        println!("fresh: what is not committed takes no part");
    }
    let (from, to) = (format!("file://{}", source.display()), root.join(&SOURCE[1..]));
    output(Command::new("git").args(["clone", "--quiet", "--depth=1", &from]).arg(to)).map(drop)
}

/// Makes the ordinary user the owner of a folder and of everything in it.
fn give_to_user(path: &Path) -> std::io::Result<()> {
    if path.is_symlink() {
        return Ok(());
    }
    chown(path, Some(USER_ID), Some(USER_ID))?;
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            give_to_user(&entry?.path())?;
        }
    }
    Ok(())
}

fn toolchain() -> Result<PathBuf, String> {
    let said = output(&mut tools::command("rustc --print sysroot"))?;
    Ok(PathBuf::from(said.trim()))
}

/// Has Cargo download everything in the lock file; returns the folder.
fn registry() -> Result<PathBuf, String> {
    output(&mut tools::command("cargo fetch --locked --quiet"))?;
    let from = |name| std::env::var_os(name).map(PathBuf::from);
    let home = from("CARGO_HOME").or_else(|| Some(from("HOME")?.join(".cargo")));
    let registry = home.ok_or("neither CARGO_HOME nor HOME is set")?.join("registry");
    fs::canonicalize(&registry).map_err(|why| format!("{}: {why}", registry.display()))
}

/// The output of a command; the error quotes its complaints.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|why| format!("{name}: {why}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if !output.status.success() {
        let (status, said) = (output.status, [text(&output.stdout), text(&output.stderr)]);
        let last = said.iter().flat_map(|said| said.lines()).last().unwrap_or_default();
        return Err(format!("{name}: {status}: {last}"));
    }
    Ok(text(&output.stdout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_that_of_the_release() {
        let targets = "DEP-11 bookworm http://a/debian/\nPackages bookworm-updates http://b/\n\
                       Packages bookworm http://c/debian/\nPackages bookworm http://d/\n";
        assert_eq!(parse_mirror(targets).as_deref(), Some("http://c/debian/"));
        assert_eq!(parse_mirror("Packages trixie http://a/\n"), None);
    }

    #[test]
    fn a_command_that_fails_is_quoted() {
        let shell = |script: &str| output(Command::new("sh").args(["-c", script]));
        assert_eq!(shell("echo good"), Ok("good".to_owned()));
        assert_eq!(
            shell("echo much; echo bad >&2; exit 3"),
            Err("sh: exit status: 3: bad".to_owned())
        );
    }
}
