//! Code that tests of programs share: installing one, running one to its end, and the signals that
//! it heeds.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Signals that end a process that does not handle them.
pub const ENDINGS: [(&str, u32); 4] = [("HUP", 1), ("INT", 2), ("KILL", 9), ("TERM", 15)];

/// Returns the signals of this list that a process started from here heeds: under nohup(1), or in
/// the background of a script, this process ignores some, and its children inherit that.
///
/// # Panics
/// When /proc cannot be read.
pub fn heeded<'n>(signals: &[(&'n str, u32)]) -> Vec<&'n str> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    let heeded = signals.iter().filter(|(_, number)| ignored >> (number - 1) & 1 == 0);
    heeded.map(|(name, _)| *name).collect()
}

/// Copies a program to `to`, from where it can be started at once.
///
/// Another process writes the file. A process that other tests fork meanwhile would hold a
/// descriptor of ours open for a moment, and the kernel starts no program that is open for writing
/// (ETXTBSY of execve(2)).
///
/// # Panics
/// When it cannot be copied.
pub fn install(program: &Path, to: &Path) {
    let installed = Command::new("install").args(["-m", "755"]).args([program, to]).status();
    assert!(installed.unwrap().success(), "{} -> {}", program.display(), to.display());
}

/// Writes a script to `path`, from where it can be started at once, as with [`install`].
///
/// # Panics
/// When it cannot be written.
pub fn install_script(text: &str, path: &Path) {
    let mut install = Command::new("install");
    install.args(["-m", "755", "/dev/stdin"]).arg(path).stdin(Stdio::piped());
    let mut child = install.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{}", path.display());
}

/// The folders of a process's threads in `/proc`, by age. A thread may have ended since.
pub fn thread_folders(pid: u32) -> Vec<PathBuf> {
    let threads = os::accounting::threads(pid).into_iter();
    threads.map(|thread| PathBuf::from(format!("/proc/{pid}/task/{thread}"))).collect()
}

/// Runs a command to its end, without standard input; returns exit status, standard output and
/// standard error.
///
/// # Panics
/// When it cannot be started, a signal ends it, or its output is not UTF-8.
pub fn finished(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Runs a command to its end, without standard input; returns whether its exit status was 0,
/// standard output and standard error.
///
/// # Panics
/// When it cannot be started.
pub fn succeeded(command: &mut Command) -> (bool, String, String) {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.success(), text(stdout), text(stderr))
}

#[cfg(test)]
mod tests {
    use std::thread::ScopedJoinHandle;

    use super::*;

    #[test]
    fn a_program_can_be_started_as_soon_as_it_is_installed() {
        let folder = crate::Temporary::new();
        let (script, copy) = (folder.path().join("script"), folder.path().join("copy"));
        // It takes a while to write.
        let text = "#!/bin/sh\nexit 3\n".to_owned() + &"#".repeat(4 << 20);
        // Children that search long for their program hold our descriptors for as long.
        let path = "/nonexistent:".repeat(1000) + "/usr/bin:/bin";
        let start_others = || {
            for _ in 0..50 {
                assert!(Command::new("true").env("PATH", &path).status().unwrap().success());
            }
        };
        std::thread::scope(|scope| {
            let others = [(); 4].map(|()| scope.spawn(start_others));
            while !others.iter().all(ScopedJoinHandle::is_finished) {
                install_script(&text, &script);
                install(&script, &copy);
                for program in [&script, &copy] {
                    assert_eq!(finished(&mut Command::new(program)).0, 3);
                }
            }
        });
    }
}
