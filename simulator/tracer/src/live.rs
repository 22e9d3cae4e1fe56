//! Finds the processes that are recording at this moment.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// The numbers of the processes that record into `folder`; the answer may be out of date when this
/// returns.
pub(crate) fn recording_into(folder: &Path) -> HashSet<u32> {
    let option = format!("--directory={}", folder.display());
    let option = option.as_bytes();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_suffix(".log")?.split_once('-')?.0.parse().ok()
    });
    // A number may have been reused by another process; and dead processes have no arguments.
    let of_ours = |pid: &u32| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        // Among the options of a plugin the folder comes last.
        let is_it = |argument: &[u8]| argument.rsplit(|byte| *byte == b',').next() == Some(option);
        arguments.split(|byte| *byte == 0).any(is_it)
    };
    pids.collect::<HashSet<u32>>().into_iter().filter(of_ours).collect()
}

/// The numbers of the processes whose current directory lies in `folder`: those that the steps of a
/// recipe have started and left running, recorded or not.
pub(crate) fn working_in(folder: &Path) -> HashSet<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // The link cannot be read for processes of other users.
    let is_there = |pid: &u32| {
        let directory = fs::read_link(format!("/proc/{pid}/cwd"));
        directory.is_ok_and(|directory| directory.starts_with(folder))
    };
    pids.filter(is_there).collect()
}

/// The processor time a process has used, in hundredths of a second; 0 if it is gone.
pub(crate) fn cpu_ticks(pid: u32) -> u64 {
    os::accounting::process(pid).map_or(0, |process| process.used_us / os::accounting::TICK_US)
}

/// The processes that have stopped recording because they have reached their limit.
pub(crate) fn at_their_limit(folder: &Path, pids: &HashSet<u32>) -> HashSet<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let stopped = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let pid = name.strip_suffix(".log")?.split_once('-')?.0.parse().ok()?;
        let log = pids.contains(&pid).then(|| fs::read(entry.path()).unwrap_or_default())?;
        let stopped = log.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"stopped "));
        stopped.then_some(pid)
    });
    stopped.collect()
}
