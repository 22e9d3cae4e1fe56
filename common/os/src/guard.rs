//! A shell command that runs, for cleaning up, when this process has ended, by whatever means.
//!
//! Destructors do not run when a signal ends this process, and processes that it has started would
//! go on. So a shell beside it waits for the end of a pipe, which the kernel closes in every case.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// A guard ignores the signals that end other processes. Above all SIGHUP: if this process and the
/// guard are stopped together and this process then ends, the kernel sends the guard SIGHUP before
/// it continues it, because its process group has lost the last process that could have done so
/// (setpgid(2)).
const DEAF: &str = "trap '' HUP INT QUIT TERM";

/// A shell command that runs if this process ends before the guard is dropped.
#[derive(Debug)]
pub struct Guard(Child);

impl Guard {
    /// Starts a guard that will run `script`, in which `arguments` are `$1` and so on.
    ///
    /// # Errors
    /// When no shell can be started.
    pub fn new<A: AsRef<OsStr>>(
        script: &str,
        arguments: impl IntoIterator<Item = A>,
    ) -> io::Result<Self> {
        Self::start(script, arguments, Stdio::null())
    }

    /// Starts a guard as [`Self::new`] does, and holds `lock` open meanwhile: a lock on that file
    /// is not released before the script has finished.
    ///
    /// # Errors
    /// When no shell can be started.
    pub fn with_lock<A: AsRef<OsStr>>(
        lock: &File,
        script: &str,
        arguments: impl IntoIterator<Item = A>,
    ) -> io::Result<Self> {
        // The guard prints nothing; and a standard stream is what a child inherits.
        Self::start(script, arguments, lock.try_clone()?.into())
    }

    fn start<A: AsRef<OsStr>>(
        script: &str,
        arguments: impl IntoIterator<Item = A>,
        stdout: Stdio,
    ) -> io::Result<Self> {
        let script = format!("{DEAF}; read -r nothing; {script}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, "sh"]).args(arguments);
        shell.stdin(Stdio::piped()).stdout(stdout).stderr(Stdio::null());
        // Signals to this process's group, by Ctrl-C or timeout(1), must not reach the guard.
        shell.process_group(0).spawn().map(Self)
    }

    /// The shell's process, for tests that stop it.
    pub fn pid(&self) -> u32 {
        self.0.id()
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
    use testkit::{Victim, comes_true, ignores_hangup};

    /// A folder that the guard's script would remove.
    fn folder(name: &str) -> (PathBuf, Guard) {
        let name = format!("ropewalk-guard-{name}-{}", std::process::id());
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
        assert!(comes_true(|| !folder.exists()));
    }

    /// The variable that makes the next test do something.
    const VICTIM: &str = "ROPEWALK_GUARDED";

    /// Not a test by itself: it has a guard, prints the guarded folder's path, and waits to be
    /// killed.
    #[test]
    fn guarded_victim() {
        if std::env::var_os(VICTIM).is_none() {
            return;
        }
        let (folder, guard) = folder("victim");
        eprintln!("{} {}", guard.pid(), folder.display());
        thread::sleep(Duration::from_secs(600));
    }

    /// This process is stopped with all processes that it has started, and then ended.
    #[test]
    fn a_guard_acts_though_it_was_stopped_when_we_ended() {
        let mut victim = Victim::start("guard::tests::guarded_victim", VICTIM, "");
        let mut words = victim.printed_words();
        let guard: u32 = words.next().and_then(|word| word.parse().ok()).expect("a number");
        let folder = words.next().map(PathBuf::from).expect("two words");
        assert!(folder.exists());
        // Its first command makes it deaf; whether it did is seen below.
        let status = || fs::read_to_string(format!("/proc/{guard}/status")).unwrap_or_default();
        assert!(comes_true(|| ignores_hangup(guard)));
        crate::signals::send("STOP", &[guard]);
        assert!(comes_true(|| status().contains("State:\tT")), "{}", status());
        victim.kill();
        // Where the kernel has continued the guard already this changes nothing.
        crate::signals::send("CONT", &[guard]);
        assert!(comes_true(|| !folder.exists()));
    }
}
