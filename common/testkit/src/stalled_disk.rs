//! A disk that stalls when a test says so: a read-only file system on a loop device whose backing
//! file is behind a gate. Blocks that are not in memory cannot be read while the gate is closed.
//! Also a single file behind a gate, of which neither bytes nor attributes are available then.
//!
//! Mounting takes root's rights, and the programs of util-linux and e2fsprogs. For tests only:
//! failures are panics, except that a lack of permission or a missing program is a reason to skip.

mod gate;

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::tools::{LOSETUP, MKE2FS};
use crate::{NEEDS_ROOT, Temporary, Tool, is_root};
use gate::Attributes;
pub use gate::Gate;

/// Room for the files of a test and for the file system's own data.
const DISK_BYTES: u64 = 64 << 20;

/// A disk that stalls when a test says so: a read-only file system whose backing file is behind a
/// gate. When it is dropped the gate is opened and everything is unmounted.
#[derive(Debug)]
pub struct StalledDisk {
    gate: Gate,
    undo: Undo,
    root: PathBuf,
    _scratch: Temporary,
}

/// A file of a file system that stalls when a test says so, as a network file system does: while
/// the gate is closed neither its bytes nor its attributes are available. What the kernel knows
/// without a request to the file system it still reports. The file is unmounted when this is
/// dropped.
#[derive(Debug)]
pub struct StalledFile {
    gate: Gate,
    undo: Undo,
}

/// Commands that undo the steps of the setup, in this order: the last step first.
#[derive(Debug, Default)]
struct Undo(Vec<Vec<String>>);

impl StalledDisk {
    /// A disk with the files of `tree`, its gate open and none of its files in memory.
    ///
    /// # Errors
    /// Why this machine or this user cannot have one.
    ///
    /// # Panics
    /// If something fails for another reason than lack of permission.
    pub fn new(tree: &Path) -> Result<Self, String> {
        require(&[MKE2FS, LOSETUP])?;
        let scratch = Temporary::new();
        let path = |name: &str| scratch.path().join(name).to_str().expect("UTF-8").to_owned();
        let (image, backing, root) = (path("image"), path("backing"), path("root"));
        let made = File::create(&image).and_then(|file| file.set_len(DISK_BYTES));
        made.unwrap_or_else(|why| panic!("{image}: {why}"));
        let tree = tree.to_str().expect("UTF-8");
        let ext4 = ["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d", tree, &image];
        run("mke2fs", &ext4, Stdio::null())?;
        File::create(&backing).and_then(|_| fs::create_dir(&root)).expect("room for mount points");
        let device = open("/dev/fuse")?;
        open("/dev/loop-control")?;
        let mut undo = Undo::default();
        let gate = mount_gate(device, &image, &backing, Attributes::Remembered, &mut undo)?;
        let mut disk = Self { gate, undo, root: root.clone().into(), _scratch: scratch };
        // The kernel learns the size when it is requested.
        let len = fs::metadata(&backing).map_err(|why| format!("{backing}: {why}"))?.len();
        assert_eq!(len, DISK_BYTES, "the gate shows the image");
        let shown = run("losetup", &["-r", "-f", "--show", &backing], Stdio::null())?;
        let device = shown.trim();
        disk.undo.push(&["losetup", "-d", device]);
        run("mount", &["-t", "ext4", "-o", "ro", device, &root], Stdio::null())?;
        disk.undo.push(&["umount", &root]);
        Ok(disk)
    }

    /// The folder of the disk's files.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The gate that reads from the disk have to pass.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }
}

impl StalledFile {
    /// Mounts a file with the bytes of `image` on the file `place`, behind an open gate.
    ///
    /// # Errors
    /// Why this machine or this user cannot have one.
    ///
    /// # Panics
    /// If something fails for another reason than lack of permission.
    pub fn new(image: &Path, place: &Path) -> Result<Self, String> {
        require(&[])?;
        let [image, place] = [image, place].map(|path| path.to_str().expect("UTF-8"));
        let mut undo = Undo::default();
        let device = open("/dev/fuse")?;
        let gate = mount_gate(device, image, place, Attributes::Guarded, &mut undo)?;
        Ok(Self { gate, undo })
    }

    /// The gate that requests for the file's bytes and attributes have to pass.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }
}

/// Mounts a gate before `image` on `place`.
fn mount_gate(
    device: File,
    image: &str,
    place: &str,
    attributes: Attributes,
    undo: &mut Undo,
) -> Result<Gate, String> {
    let image = File::open(image).map_err(|why| format!("{image}: {why}"))?;
    let gate = Gate::new(device.try_clone().map_err(|why| why.to_string())?, image, attributes);
    // The standard input of `mount` is the device whose other end the gate serves.
    let options = "ro,fd=0,rootmode=100444,user_id=0,group_id=0";
    run("mount", &["-i", "-t", "fuse", "-o", options, "gate", place], device.into())?;
    undo.push(&["umount", place]);
    Ok(gate)
}

impl Undo {
    /// Adds the command that undoes the step just done.
    fn push(&mut self, command: &[&str]) {
        self.0.insert(0, command.iter().map(ToString::to_string).collect());
    }

    /// Undoes all steps. The gate must be open.
    fn run(&self, gate: &Gate) {
        for command in &self.0 {
            let arguments: Vec<&str> = command[1..].iter().map(String::as_str).collect();
            if run(&command[0], &arguments, Stdio::null()).is_err() && command[0] == "umount" {
                // A process still has a file open, after a panic: the mount vanishes when it has
                // ended.
                let _ = run("umount", &["-l", arguments[0]], Stdio::null());
            }
        }
        gate.await_end(Duration::from_secs(5));
    }
}

impl Drop for StalledDisk {
    fn drop(&mut self) {
        self.gate.open();
        self.undo.run(&self.gate);
    }
}

impl Drop for StalledFile {
    fn drop(&mut self) {
        self.gate.open();
        self.undo.run(&self.gate);
    }
}

/// Checks for the rights and programs that disks are made with.
pub(crate) fn require(tools: &[Tool]) -> Result<(), String> {
    if !is_root() {
        return Err(NEEDS_ROOT.to_owned());
    }
    let missing = tools.iter().find(|tool| !tool.is_there());
    missing.map_or(Ok(()), |tool| Err(tool.is_missing()))
}

/// Opens a device that only some users may open.
fn open(path: &str) -> Result<File, String> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    opened.map_err(|why| format!("{path}: {why}"))
}

/// Runs a program and returns what it printed.
pub(crate) fn run(program: &str, arguments: &[&str], input: Stdio) -> Result<String, String> {
    let output = match Command::new(program).args(arguments).stdin(input).output() {
        Ok(output) => output,
        Err(why) if why.kind() == ErrorKind::NotFound => return Err(format!("no {program}")),
        Err(why) => panic!("{program}: {why}"),
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} {}: {}", arguments.join(" "), why.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn a_file_that_is_not_in_memory_waits_for_the_gate() {
        let tree = Temporary::new();
        for name in ["warm", "cold"] {
            tree.file(name, name.repeat(1000));
        }
        let disk = match StalledDisk::new(tree.path()) {
            Ok(disk) => disk,
            Err(why) => return crate::skip("a stalled disk", &why),
        };
        let read = |name| fs::read_to_string(disk.root().join(name)).unwrap();
        assert_eq!(read("warm"), "warm".repeat(1000));
        disk.gate().close();
        let (sender, receiver) = mpsc::channel();
        let cold = disk.root().join("cold");
        let reader = thread::spawn(move || sender.send(fs::read_to_string(cold)).unwrap());
        disk.gate().await_visitor(Duration::from_secs(20));
        assert_eq!(read("warm"), "warm".repeat(1000));
        assert!(receiver.try_recv().is_err(), "it waits");
        disk.gate().open();
        assert_eq!(receiver.recv().unwrap().unwrap(), "cold".repeat(1000));
        reader.join().unwrap();
    }
}
