//! Running other programs: pinned to processors, looked up in `/proc`.

use os::accounting::{self, Process};
use std::fs;
use std::io;
use std::process::{Command, Output, Stdio};

/// `program` with its arguments, to be run on these processors only; on any, if none is named.
pub(crate) fn pinned(cpus: &[usize], command: &[String]) -> Vec<String> {
    if cpus.is_empty() {
        return command.to_vec();
    }
    let prefix = ["taskset".to_owned(), "-c".to_owned(), listed_cpus(cpus)];
    prefix.into_iter().chain(command.iter().cloned()).collect()
}

/// Processors as options name them: 0,1,3.
pub fn listed_cpus(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// Why a command did not succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// The command has no words.
    #[error("an empty command")]
    Empty,
    /// The program of this name cannot be started.
    #[error("{0}: {1}")]
    NotStarted(String, io::Error),
    /// The program of this name failed, with this status unless a signal ended it; the end of what
    /// it printed.
    #[error("{0} failed: {2}")]
    Failed(String, Option<i32>, String),
}

/// Runs a command to its end, in `folder` if one is given, and returns what it printed.
///
/// # Errors
/// The command is empty, cannot be started, or has failed.
pub(crate) fn run(command: &[String], folder: Option<&str>) -> Result<String, CommandError> {
    let (program, arguments) = command.split_first().ok_or(CommandError::Empty)?;
    let mut child = Command::new(program);
    child.args(arguments).stdin(Stdio::null());
    if let Some(folder) = folder {
        child.current_dir(folder);
    }
    let Output { status, stdout, stderr } =
        child.output().map_err(|why| CommandError::NotStarted(program.clone(), why))?;
    // Versions are printed to either, and failures explained on either.
    let text = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
    if status.success() {
        Ok(text)
    } else {
        Err(CommandError::Failed(program.clone(), status.code(), last_lines(&text)))
    }
}

/// The processes that exist of `root`, of the process group that it leads, and of all their
/// descendants, including those that have ended but have not been waited for. The children of a
/// process that is gone have another parent, and are still in its group.
pub(crate) fn tree(root: u32) -> Vec<u32> {
    let all: Vec<Process> = accounting::processes().collect();
    let is_first = |process: &&Process| process.pid == root || process.group == root;
    let mut found: Vec<u32> = all.iter().filter(is_first).map(|process| process.pid).collect();
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        let children = all.iter().filter(|process| process.parent == pid);
        let children = children.map(|process| process.pid);
        let children: Vec<u32> = children.filter(|child| !found.contains(child)).collect();
        found.extend(children);
        next += 1;
    }
    found
}

/// The processor time that a process and the children it has waited for have used, in nanoseconds.
/// The time of children is known to the hundredth of a second.
pub(crate) fn cpu_ns(pid: u32) -> u64 {
    const NS_PER_US: u64 = 1000;
    let Some(process) = accounting::process(pid) else { return 0 };
    let own = os::clock::cpu_time_of(pid).unwrap_or_default();
    // 2^64 nanoseconds are 584 years.
    own.as_nanos() as u64 + process.children_us * NS_PER_US
}

/// Bytes that a process had the disk read; 0 when the count cannot be read (any more).
pub(crate) fn disk_bytes_read(pid: u32) -> u64 {
    try_disk_bytes_read(pid).unwrap_or(0)
}

/// Bytes that a process had the disk read; none when the count cannot be read (any more).
pub(crate) fn try_disk_bytes_read(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.parse().ok()
}

/// When a process started, in clock ticks since the machine did; none if the process does not
/// exist.
pub(crate) fn start_ticks(pid: u32) -> Option<u64> {
    accounting::process(pid).map(|process| process.start_ticks)
}

/// Whether the process exists and has not ended.
pub(crate) fn is_running(pid: u32) -> bool {
    accounting::process(pid).is_some_and(|process| !process.has_ended)
}

/// The end of a program's output, where the reason usually is.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use testkit::comes_true;

    #[test]
    fn a_child_is_in_the_tree_until_it_ends() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep exists");
        assert!(tree(std::process::id()).contains(&child.id()));
        os::signals::send("KILL", &[child.id()]);
        child.wait().expect("it was ours");
        assert!(!tree(std::process::id()).contains(&child.id()));
        assert_eq!(tree(child.id()), [] as [u32; 0]);
    }

    /// A server whose first process dies leaves workers that have another parent.
    #[test]
    fn children_of_one_that_has_ended_are_found() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 60 & echo $!; wait"]).stdout(Stdio::piped()).process_group(0);
        let mut shell = shell.spawn().expect("there is a shell");
        let mut line = String::new();
        let stdout = shell.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it says a number");
        let child: u32 = line.trim().parse().expect("a number");
        shell.kill().expect("it runs");
        shell.wait().expect("it was ours");
        assert_eq!(tree(shell.id()), [child]);
        os::signals::send("KILL", &[child]);
        // The process that inherits orphans may take its time to wait for them.
        assert!(comes_true(|| !tree(shell.id()).into_iter().any(is_running)), "it runs on");
    }

    #[test]
    fn less_than_a_tick_is_seen() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat exists");
        assert!(comes_true(|| cpu_ns(child.id()) > 0), "starting takes some of it");
        drop(child.stdin.take());
        child.wait().expect("it was ours");
        assert_eq!(cpu_ns(child.id()), 0);
    }

    #[test]
    fn the_end_of_an_output_is_kept() {
        assert_eq!(last_lines("1\n2\n\n3\n4\n5\n6\n"), "2\n3\n4\n5\n6");
        assert_eq!(last_lines(""), "");
    }

    #[test]
    fn a_failing_command_says_why() {
        let why = run(&["sh".into(), "-c".into(), "echo gone >&2; false".into()], None);
        assert_eq!(why.expect_err("it fails").to_string(), "sh failed: gone");
    }
}
