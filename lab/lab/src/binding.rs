//! Binding the workers of a server to CPUs of their own, from outside.
//!
//! CPUs are dealt out in turn, so that some CPUs get several workers where there are more workers
//! than CPUs. A server's file says whether its workers are processes or threads.

use crate::process;
use os::accounting::{self, threads};
use std::cmp::Reverse;
use std::fs;
use std::path::Path;

/// Binds each of the processes that serve, with all its threads, to one of the CPUs. A process that
/// has ended meanwhile is no error.
pub(crate) fn bind_processes(processes: &[u32], first: u32, cpus: &[usize]) -> Result<(), String> {
    for (pid, &cpu) in workers(processes, first).into_iter().zip(cpus.iter().cycle()) {
        threads(pid).into_iter().try_for_each(|thread| bind(thread, cpu))?;
    }
    Ok(())
}

/// Binds each thread of the processes that serve to one of the CPUs; the threads that have worked
/// most come first. So the threads that serve have CPUs of their own although the server has other
/// threads, which do little work and which cannot be recognised by anything else.
pub(crate) fn bind_threads(processes: &[u32], first: u32, cpus: &[usize]) -> Result<(), String> {
    // A server may have helpers that are other programs.
    let program = |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).ok();
    let server = program(first);
    let own: Vec<u32> = processes.iter().copied().filter(|&pid| program(pid) == server).collect();
    let mut threads: Vec<u32> = workers(&own, first).into_iter().flat_map(threads).collect();
    threads.sort_by_cached_key(|&thread| (Reverse(worked_ns(thread)), thread));
    threads.into_iter().zip(cpus.iter().cycle()).try_for_each(|(thread, &cpu)| bind(thread, cpu))
}

/// The processes that serve: all but the first, or the first if it is alone; oldest first.
fn workers(processes: &[u32], first: u32) -> Vec<u32> {
    let mut others: Vec<u32> = processes.iter().copied().filter(|&pid| pid != first).collect();
    others.sort_by_key(|&pid| (process::start_ticks(pid), pid));
    if others.is_empty() { vec![first] } else { others }
}

/// How long a thread has been on a CPU; 0 where the kernel does not record it.
fn worked_ns(thread: u32) -> u64 {
    accounting::scheduled(thread, thread).map_or(0, |thread| thread.ran_ns)
}

fn bind(thread: u32, cpu: usize) -> Result<(), String> {
    match os::affinity::pin_other(thread, &[cpu]) {
        Err(why) if Path::new(&format!("/proc/{thread}")).exists() => {
            Err(format!("thread {thread} cannot be bound to CPU {cpu}: {why}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};
    use std::thread::{self, park};

    /// The CPUs that a process or a thread may use, as the kernel lists them.
    pub(crate) fn allowed(id: u32) -> String {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"));
        list.unwrap_or_default().to_owned()
    }

    fn end(mut child: Child) {
        os::signals::send("KILL", &[child.id()]);
        child.wait().expect("it was ours");
    }

    #[test]
    fn the_first_process_is_a_worker_where_it_is_alone() {
        let me = std::process::id();
        assert_eq!(workers(&[me], me), [me]);
        assert_eq!(workers(&[u32::MAX, me, u32::MAX - 1], me), [u32::MAX - 1, u32::MAX]);
    }

    #[test]
    fn processes_are_dealt_the_cpus_in_turn() {
        let sleep = || Command::new("sleep").arg("60").spawn().expect("sleep exists");
        let children = [sleep(), sleep(), sleep()];
        let pids = children.each_ref().map(Child::id);
        let (cpus, me) = (os::affinity::allowed_cpus(), std::process::id());
        let bound = bind_processes(&pids, me, &cpus);
        let lists = pids.map(allowed);
        children.into_iter().for_each(end);
        assert_eq!(bound, Ok(()));
        let expected = [0, 1, 2].map(|index| cpus[index % cpus.len()].to_string());
        assert_eq!(lists, expected);
        assert_eq!(bind_processes(&pids, me, &cpus), Ok(()), "they have ended");
    }

    /// The variable that makes the next test do something.
    const THREADS: &str = "ROPEWALK_LAB_THREADS";

    /// Not a test by itself: two of its threads work for a moment and print their numbers. A thread
    /// that does not work is started between them.
    #[test]
    fn threads_of_which_two_work() {
        if std::env::var_os(THREADS).is_none() {
            return;
        }
        let own = || fs::read_link("/proc/thread-self").expect("there is /proc");
        let work = move || {
            let own = own();
            let number = own.file_name().expect("it is a thread's").to_string_lossy().into_owned();
            while worked_ns(number.parse().expect("a number")) < 100_000_000 {}
            eprintln!("{number}");
            park();
        };
        let working = thread::spawn(work);
        thread::spawn(park);
        thread::spawn(work);
        working.join().expect("it is killed before");
    }

    /// In the order of their start the two working threads would get the same one of two CPUs.
    #[test]
    fn threads_that_work_are_dealt_the_cpus_before_those_that_rest() {
        let mut command = Command::new(std::env::current_exe().expect("it runs"));
        command.args(["--exact", "--nocapture", "binding::tests::threads_of_which_two_work"]);
        command.env(THREADS, "").stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the test's own program");
        let said = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let working: Vec<u32> =
            said.take(2).map(|line| line.expect("text").parse().expect("a number")).collect();
        let cpus: Vec<usize> = os::affinity::allowed_cpus().into_iter().take(2).collect();
        let bound = bind_threads(&[child.id()], child.id(), &cpus);
        let mut lists: Vec<String> = working.iter().map(|&thread| allowed(thread)).collect();
        end(child);
        assert_eq!(bound, Ok(()));
        lists.sort();
        let mut expected = [0, 1].map(|index| cpus[index % cpus.len()].to_string());
        expected.sort();
        assert_eq!(lists, expected);
    }
}
