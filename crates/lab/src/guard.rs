//! Cleaning up after ourselves even when we are killed.
//!
//! Destructors do not run when a signal ends this process, and what it has started would go on.
//! So a shell waits beside it for the end of a pipe, which the kernel closes in every case.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// A shell command that runs if this process ends before the guard is dropped.
#[derive(Debug)]
pub struct Guard(Child);

impl Guard {
    /// Stands by to run `script`, in which `arguments` are `$1` and so on.
    ///
    /// # Errors
    /// When no shell can be started.
    pub fn new<A: AsRef<OsStr>>(
        script: &str,
        arguments: impl IntoIterator<Item = A>,
    ) -> io::Result<Self> {
        let script = format!("read -r nothing; {script}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, "sh"]).args(arguments);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // What is sent to our process group, by Ctrl-C or timeout(1), must not reach it.
        shell.process_group(0).spawn().map(Self)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Killed before its pipe is closed, so the script does not run. Neither call can fail
        // while the shell is our child.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;
    use std::thread;
    use std::time::Duration;

    /// A folder that the guard's script would remove.
    fn folder(name: &str) -> (PathBuf, Guard) {
        let name = format!("ropewalk-lab-guard-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("the folder for temporary files is writable");
        let guard = Guard::new("rmdir \"$1\"", [&folder]).expect("there is a shell");
        (folder, guard)
    }

    #[test]
    fn a_dropped_guard_does_nothing() {
        let (folder, guard) = folder("dropped");
        drop(guard);
        assert!(folder.exists());
        fs::remove_dir(folder).expect("it is there");
    }

    #[test]
    fn a_guard_acts_when_its_pipe_ends() {
        let (folder, mut guard) = folder("alone");
        drop(guard.0.stdin.take());
        guard.0.wait().expect("it is our child");
        assert!((0..200).any(|_| {
            thread::sleep(Duration::from_millis(5));
            !folder.exists()
        }));
    }
}
