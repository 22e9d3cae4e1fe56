//! The folder for records, and a script that cleans up after this process, even when it is killed.

use os::guard::Guard;
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Ends all processes that record into the folder `$1` or work in it, and removes it. Recording
/// processes have a log there with their number, and the folder among their arguments. They have 20
/// seconds to end: killed processes leave files behind, PostgreSQL for one in /dev/shm. One `ls`
/// reads the working directories of all processes: one program for each took longer than that on a
/// busy machine.
const CLEAN_UP: &str = r#"
ours() {
    for log in "$1"/*.log; do
        pid=${log##*/}
        pid=${pid%%-*}
        grep -qF -e "--directory=$1" "/proc/$pid/cmdline" 2>/dev/null && echo "$pid"
    done
    ls -ld /proc/[0-9]*/cwd | while read -r line; do
        pid=${line#*/proc/}
        case $line in *" -> $1/"*) echo "${pid%%/*}" ;; esac
    done
}
each() {
    for pid in $(ours "$1"); do kill -s "$2" "$pid"; done
}
each "$1" TERM
second=0
while [ "$second" -lt 20 ] && [ -n "$(ours "$1")" ]; do
    sleep 1
    second=$((second + 1))
done
each "$1" KILL
rm -rf "$1"
"#;

/// The folder. It is removed, with everything in it, when this is dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    _guard: Guard,
}

impl Scratch {
    /// A new folder below `parent`.
    pub(crate) fn below(parent: &Path) -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let explain = |why| format!("no directory for records in {}: {why}", parent.display());
        let parent = parent.canonicalize().map_err(explain)?;
        let path = parent.join(format!("ropewalk-trace-{}-{number}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path).map_err(explain)?;
        let guard = Guard::new(CLEAN_UP, [&path]).map_err(explain);
        let scratch = Self { _guard: guard?, path };
        if os::process::is_root() {
            // Servers that root starts change their user, and must be able to write here, too.
            fs::set_permissions(&scratch.path, Permissions::from_mode(0o1777)).map_err(explain)?;
        }
        Ok(scratch)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_clean_up_ends_recording_processes_and_removes_the_folder() {
        let scratch = Scratch::below(&std::env::temp_dir()).expect("it is writable");
        let folder = scratch.path().to_str().expect("it is text").to_owned();
        let option = format!("--directory={folder}");
        let start = |argument: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", "read nothing", argument]).stdin(Stdio::piped());
            shell.spawn().expect("there is a shell")
        };
        let (mut recording, mut another) = (start(&option), start("another"));
        let work = scratch.path().join("work");
        fs::create_dir(&work).expect("writable");
        let mut shell = Command::new("sh");
        shell.args(["-c", "read nothing"]).stdin(Stdio::piped()).current_dir(&work);
        let mut working = shell.spawn().expect("there is a shell");
        for child in [&recording, &another] {
            fs::write(scratch.path().join(format!("{}-0.log", child.id())), "").expect("writable");
        }
        let cleaned = Command::new("sh").args(["-c", CLEAN_UP, "sh", &folder]).status();
        assert!(cleaned.expect("there is a shell").success());
        assert!(!recording.wait().expect("it is ours").success());
        assert!(!working.wait().expect("it is ours").success());
        assert!(another.try_wait().expect("it is ours").is_none(), "not one of them");
        assert!(!scratch.path().exists());
        drop(another.stdin.take());
        another.wait().expect("it is ours");
    }
}
