//! The tool for Valgrind: compiled on first use, kept in the user's cache directory; root's in one
//! that all can enter, because what root starts may become somebody else.
//!
//! Valgrind's licence does not allow it to be linked with this program, nor is there a need: it is
//! a program of its own. Its source is in this one, so that one file is enough to install.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use xxhash_rust::xxh3::xxh3_64;

const SOURCE: &str = include_str!("../../../recorders/valgrind/references.c");
const INSTALL: &str = "apt-get install valgrind gcc libc6-dev";
/// Where Debian has what its own valgrind reads at run time.
const VALGRIND_FILES: &str = "/usr/libexec/valgrind";
const HEADERS: &str = "/usr/include/valgrind";
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu/valgrind";

/// The tool's name, and that of the program that is it.
const NAME: &str = "references";
const PROGRAM: &str = "references-amd64-linux";

const COMPILE: &[&str] = &[
    "-m64",
    "-O2",
    "-std=gnu11",
    "-Wall",
    "-fno-stack-protector",
    "-fno-strict-aliasing",
    "-fno-pie",
    "-fno-builtin",
    "-DVGA_amd64=1",
    "-DVGO_linux=1",
    "-DVGP_amd64_linux=1",
    "-DVGPV_amd64_linux_vanilla=1",
    "-I/usr/include/valgrind",
];
/// The address is where Valgrind's own tools are: far from where programs are.
const LINK: &[&str] = &[
    "-static",
    "-no-pie",
    "-nodefaultlibs",
    "-nostartfiles",
    "-u",
    "_start",
    "-Wl,-Ttext-segment=0x58000000",
];
const ARCHIVES: &[&str] =
    &["libcoregrind-amd64-linux.a", "libvex-amd64-linux.a", "libgcc-sup-amd64-linux.a"];

/// A tool that is ready to run.
#[derive(Debug, Clone)]
pub struct Tool {
    /// A folder that has what Valgrind has in its own, and the tool.
    folder: PathBuf,
}

impl Tool {
    /// The tool for the Valgrind of this machine, compiled now if it has not been before.
    ///
    /// # Errors
    /// What is missing and how to install it; or what the compiler says.
    pub fn ready() -> Result<Self, String> {
        if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
            return Err("recording runs on Linux on x86-64 only".to_owned());
        }
        let version = version()?;
        let identity = xxh3_64([SOURCE, &version].concat().as_bytes());
        let folder = cache_directory()?.join(format!("valgrind-{identity:016x}"));
        if !folder.join(PROGRAM).exists() {
            build(&folder)?;
        }
        Ok(Self { folder })
    }

    /// Valgrind, set to run the tool: its options and the command are still to be added.
    #[must_use]
    pub fn command(&self, records: &Path) -> Command {
        let mut command = self.valgrind(NAME);
        command.args(["--quiet", "--trace-children=yes"]);
        command.arg(format!("--directory={}", records.display()));
        command
    }

    /// Valgrind, set to run any tool. All tools see the same environment then, whose length
    /// decides where a program's stack begins.
    #[must_use]
    pub fn valgrind(&self, tool: &str) -> Command {
        let mut command = Command::new("valgrind");
        command.env("VALGRIND_LIB", &self.folder);
        command.arg(format!("--tool={tool}")).arg("--vgdb=no");
        command
    }
}

/// Valgrind's version, which its libraries have, too.
fn version() -> Result<String, String> {
    let output = Command::new("valgrind").arg("--version").output();
    let missing =
        [HEADERS, LIBRARIES, VALGRIND_FILES].iter().find(|path| !Path::new(path).exists());
    match (output, missing) {
        (Err(_), _) => Err(format!("recording needs valgrind: {INSTALL}")),
        (_, Some(path)) => {
            Err(format!("recording needs {path}, which this valgrind lacks: {INSTALL}"))
        }
        (Ok(output), None) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
    }
}

/// Where the tool is kept.
fn cache_directory() -> Result<PathBuf, String> {
    let from = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let is_root = os::process::is_root();
    choose_cache(is_root, from("XDG_CACHE_HOME"), from("HOME"))
        .ok_or_else(|| "no cache directory for the recorder: set XDG_CACHE_HOME".to_owned())
}

fn choose_cache(is_root: bool, cache: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let cache = cache.filter(|path| path.is_absolute());
    let of_root = is_root.then(|| PathBuf::from("/var/cache"));
    let cache = cache.or(of_root).or_else(|| home.map(|home| home.join(".cache")));
    cache.map(|cache| cache.join("ropewalk"))
}

/// Builds beside the folder and moves it there when it is whole: others may build it, too.
fn build(folder: &Path) -> Result<(), String> {
    static BUILDS: AtomicU32 = AtomicU32::new(0);
    let number = BUILDS.fetch_add(1, Ordering::Relaxed);
    let here = folder.with_extension(format!("{}-{number}", std::process::id()));
    let explain = |why| {
        let here = here.display();
        format!("cannot build the recorder in {here}: {why}: set XDG_CACHE_HOME to another folder")
    };
    let _ = fs::remove_dir_all(&here);
    create_for_all(&here).map_err(explain)?;
    let built = compile(&here).and_then(|()| link_files(&here).map_err(explain));
    if let Err(why) = built {
        let _ = fs::remove_dir_all(&here);
        return Err(why);
    }
    if let Err(why) = fs::rename(&here, folder) {
        let _ = fs::remove_dir_all(&here);
        // Somebody else was faster.
        return if folder.join(PROGRAM).exists() { Ok(()) } else { Err(explain(why)) };
    }
    Ok(())
}

/// Creates a folder, and those above it that are missing, such that everybody can enter them
/// whatever the mask is: servers that root starts become other users, who must find the tool.
fn create_for_all(folder: &Path) -> std::io::Result<()> {
    if folder.exists() {
        return Ok(());
    }
    folder.parent().map_or(Ok(()), create_for_all)?;
    match fs::create_dir(folder) {
        // Somebody else was faster, and does the same.
        Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        created => created.and_then(|()| open_to_all(folder)),
    }
}

fn open_to_all(path: &Path) -> std::io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

fn compile(here: &Path) -> Result<(), String> {
    let (source, object) = (here.join("references.c"), here.join("references.o"));
    fs::write(&source, SOURCE).map_err(|why| format!("{}: {why}", source.display()))?;
    let compile = COMPILE.iter().map(OsStr::new);
    let files = ["-c".as_ref(), source.as_os_str(), "-o".as_ref(), object.as_os_str()];
    cc(compile.chain(files))?;
    let archives: Vec<_> = ARCHIVES.iter().map(|name| Path::new(LIBRARIES).join(name)).collect();
    let program = here.join(PROGRAM);
    let link = LINK.iter().map(OsStr::new).chain([object.as_os_str()]);
    let link = link.chain(archives.iter().map(|path| path.as_os_str()));
    cc(link.chain(["-lgcc".as_ref(), "-o".as_ref(), program.as_os_str()]))?;
    open_to_all(&program).map_err(|why| format!("{}: {why}", program.display()))
}

fn cc<'a>(arguments: impl Iterator<Item = &'a OsStr>) -> Result<(), String> {
    let output = Command::new("cc").args(arguments).output();
    let output =
        output.map_err(|why| format!("recording needs a C compiler ({why}): {INSTALL}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().find(|line| line.contains("error")).unwrap_or("cc failed");
    Err(format!("the recorder does not compile with this valgrind ({first}): {INSTALL}"))
}

/// Valgrind looks for its tools and for what they need in one folder only.
fn link_files(here: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(VALGRIND_FILES)? {
        let entry = entry?;
        symlink(entry.path(), here.join(entry.file_name()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Temporary;

    #[test]
    fn root_s_tool_is_where_other_users_can_enter() {
        let chosen = |is_root, cache: Option<&str>, home: Option<&str>| {
            let chosen = choose_cache(is_root, cache.map(Into::into), home.map(Into::into));
            chosen.map(|path| path.display().to_string()).unwrap_or_default()
        };
        assert_eq!(chosen(true, None, Some("/root")), "/var/cache/ropewalk");
        assert_eq!(chosen(true, Some("/srv"), Some("/root")), "/srv/ropewalk");
        assert_eq!(chosen(false, None, Some("/people/a")), "/people/a/.cache/ropewalk");
        assert_eq!(chosen(false, Some("srv"), Some("/people/a")), "/people/a/.cache/ropewalk");
        assert_eq!(chosen(false, None, None), "");

        let folder = Temporary::new();
        let within = folder.path().join("cache/tool");
        create_for_all(&within).expect("it is writable");
        create_for_all(&within).expect("it is there");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode();
        assert_eq!(mode(&within) & 0o777, 0o755);
        assert_eq!(mode(&folder.path().join("cache")) & 0o777, 0o755);
    }
}
