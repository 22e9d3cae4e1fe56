//! The recorder that is a tool for Valgrind.
//!
//! Valgrind's licence does not allow linking it with this program, nor is there a need: the tool is
//! a separate program. Its source is contained in this one, so that one file is enough to install.

use crate::built::{build, cache_directory, cc, open_to_all, unusable};
use crate::error::RecordingError;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use xxhash_rust::xxh3::xxh3_64;

const SOURCE: &str = include_str!("../../../recorders/valgrind/references.c");
const INSTALL: &str = "apt-get install valgrind gcc libc6-dev";
/// Where Debian keeps the files that its valgrind reads at run time.
const VALGRIND_FILES: &str = "/usr/libexec/valgrind";
const HEADERS: &str = "/usr/include/valgrind";
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu/valgrind";

/// The name of the tool and of its program.
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
/// The address of Valgrind's own tools: far from where programs are.
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
    /// A folder with the contents of Valgrind's own, and the tool.
    folder: PathBuf,
}

impl Tool {
    /// Returns the tool for this machine's Valgrind, compiled now if it has not been before.
    ///
    /// # Errors
    /// [`RecordingError::Unavailable`]: what is missing and how to install it, or the compiler's
    /// message.
    pub fn ready() -> Result<Self, RecordingError> {
        Self::found_or_built().map_err(RecordingError::Unavailable)
    }

    fn found_or_built() -> Result<Self, String> {
        if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
            return Err("recording runs on Linux on x86-64 only".to_owned());
        }
        let version = version()?;
        let identity = xxh3_64([SOURCE, &version].concat().as_bytes());
        let folder = cache_directory()?.join(format!("valgrind-{identity:016x}"));
        if !folder.join(PROGRAM).exists() {
            build(&folder, PROGRAM, |here| {
                compile(here)?;
                link_files(here).map_err(|why| unusable(here, &why))
            })?;
        }
        Ok(Self { folder })
    }

    /// A command for Valgrind with the tool: its options and the recorded command are still to be
    /// added.
    #[must_use]
    pub fn command(&self, records: &Path) -> Command {
        let mut command = self.valgrind(NAME);
        command.args(["--quiet", "--trace-children=yes"]);
        command.arg(format!("--directory={}", records.display()));
        command
    }

    /// A command for Valgrind with any tool. All tools run with equal environments then, whose
    /// length decides where a program's stack begins.
    #[must_use]
    pub fn valgrind(&self, tool: &str) -> Command {
        let mut command = Command::new("valgrind");
        command.env("VALGRIND_LIB", &self.folder);
        command.arg(format!("--tool={tool}")).arg("--vgdb=no");
        command
    }
}

/// Valgrind's version, which is also that of its libraries.
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

fn compile(here: &Path) -> Result<(), String> {
    let (source, object) = (here.join("references.c"), here.join("references.o"));
    fs::write(&source, SOURCE).map_err(|why| format!("{}: {why}", source.display()))?;
    let compile = COMPILE.iter().map(OsStr::new);
    let files = ["-c".as_ref(), source.as_os_str(), "-o".as_ref(), object.as_os_str()];
    cc(compile.chain(files), INSTALL)?;
    let archives: Vec<_> = ARCHIVES.iter().map(|name| Path::new(LIBRARIES).join(name)).collect();
    let program = here.join(PROGRAM);
    let link = LINK.iter().map(OsStr::new).chain([object.as_os_str()]);
    let link = link.chain(archives.iter().map(|path| path.as_os_str()));
    cc(link.chain(["-lgcc".as_ref(), "-o".as_ref(), program.as_os_str()]), INSTALL)?;
    open_to_all(&program).map_err(|why| format!("{}: {why}", program.display()))
}

/// Links Valgrind's files into a folder, since it looks for tools and for their files in one folder
/// only.
fn link_files(here: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(VALGRIND_FILES)? {
        let entry = entry?;
        symlink(entry.path(), here.join(entry.file_name()))?;
    }
    Ok(())
}
