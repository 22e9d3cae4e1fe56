//! Facts about this process and its kernel, for diagnosis.

use crate::accounting::{self, Scheduled};
use crate::call::check;
use crate::errors::Cause;
use crate::socket::{Readiness, wait_ready};
use rustix::process::{
    Pid, PidfdFlags, Signal, geteuid, getppid, pidfd_open, set_parent_process_death_signal,
    test_kill_process,
};
use rustix::system::uname;
use rustix::thread::set_current_timer_slack;
use std::io;
use std::mem::MaybeUninit;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::time::Duration;

/// The kernel's release as `uname -r` prints it.
pub fn kernel_release() -> String {
    uname().release().to_string_lossy().into_owned()
}

/// A descriptor that can be read when a child has ended, which has not been waited for yet.
///
/// # Errors
/// There is no other descriptor.
pub fn end_of(child: &Child) -> io::Result<OwnedFd> {
    Ok(pidfd_open(Pid::from_child(child), PidfdFlags::empty())?)
}

/// Waits for the end of a child, which is killed if it does not end by itself in time.
///
/// # Errors
/// None that a caller can correct.
pub fn end_within(child: &mut Child, timeout_ms: u64) -> io::Result<ExitStatus> {
    let ends = end_of(child)
        .is_ok_and(|end| wait_ready(end.as_fd(), Readiness::Readable, timeout_ms).unwrap_or(false));
    if !ends {
        let _ = child.kill(); // it fails if the child has ended meanwhile
    }
    child.wait()
}

/// The effective user's number.
#[must_use]
pub fn user_id() -> u32 {
    geteuid().as_raw()
}

/// Whether the process runs as the superuser (effective user 0).
pub fn is_root() -> bool {
    user_id() == 0
}

/// The process at the other end of a Unix socket, when the connection was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number; none if it is outside of this process's PID namespace.
    pub process: Option<u32>,
    /// The number of its effective user.
    pub user: u32,
}

impl Peer {
    /// The process at the other end of this socket.
    ///
    /// # Errors
    /// It is no socket.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        // Not by rustix, in which a number of 0 is no valid value.
        let nobody = libc::ucred { pid: 0, uid: 0, gid: 0 };
        // SAFETY: the value of the option is a ucred, which is all integers.
        let found = unsafe { socket_option(socket, libc::SO_PEERCRED, nobody)? };
        let process = (found.pid != 0).then_some(found.pid.cast_unsigned());
        Ok(Self { process, user: found.uid })
    }

    /// Whether the process at the other end of this socket has ended since: its number may be
    /// another's then. None where the kernel cannot tell (before Linux 6.5), or has no descriptor.
    #[must_use]
    pub fn has_ended(socket: BorrowedFd<'_>) -> Option<bool> {
        // SAFETY: the value of the option is the number of a descriptor.
        let number = match unsafe { socket_option(socket, libc::SO_PEERPIDFD, -1) } {
            Ok(number) => number,
            Err(why) => {
                let cause = Cause::from_error(&why);
                let is_unknown = cause == Cause::NoSuchOption || cause.is_exhaustion();
                return (!is_unknown).then_some(true); // it is no process any more
            }
        };
        // SAFETY: the kernel has opened it for this call, and nothing else owns it.
        let process = unsafe { OwnedFd::from_raw_fd(number) };
        Some(wait_ready(process.as_fd(), Readiness::Readable, 0).unwrap_or(true))
    }
}

/// Reads an option of a socket.
///
/// # Safety
/// The option's value must be a valid `T` as it is, and no longer.
unsafe fn socket_option<T>(
    socket: BorrowedFd<'_>,
    option: libc::c_int,
    mut value: T,
) -> io::Result<T> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: both pointers are to live, writable values of this frame, and `length` is the size of
    // the first.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    })?;
    Ok(value)
}

/// A process, and none that gets its number later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its number.
    pub number: u32,
    start_ticks: u64,
}

impl Identity {
    /// The process that has this number now; none if it cannot be seen in `/proc`.
    #[must_use]
    pub fn of(number: u32) -> Option<Self> {
        accounting::process(number).map(|it| Self::from(&it))
    }
}

impl From<&accounting::Process> for Identity {
    fn from(process: &accounting::Process) -> Self {
        Self { number: process.pid, start_ticks: process.start_ticks }
    }
}

/// Whether a process is one of these or descends from one, as far as its ancestors still live or
/// can be seen in `/proc`, which may hide those of other users. None if it has ended, if it cannot
/// be seen, or an ancestor of this process's own user cannot.
#[must_use]
pub fn descends_from(process: u32, ancestors: &[Identity]) -> Option<bool> {
    /// An ancestor that ends while it is looked for leaves its children to another.
    const ATTEMPTS: usize = 3;
    (0..ATTEMPTS).find_map(|_| find_ancestor(process, ancestors))
}

fn find_ancestor(process: u32, ancestors: &[Identity]) -> Option<bool> {
    let mut next = process;
    loop {
        match accounting::process(next) {
            Some(found) if next == process && found.has_ended => return None,
            Some(found) if ancestors.contains(&Identity::from(&found)) => return Some(true),
            Some(found) if found.parent == 0 => return Some(false),
            Some(found) => next = found.parent,
            None if next != process && is_of_another_user(next) => return Some(false),
            None => return None,
        }
    }
}

/// Whether there is a process with this number that this one may not signal.
fn is_of_another_user(process: u32) -> bool {
    let pid = Pid::from_raw(process.cast_signed());
    let tested = pid.map(|pid| test_kill_process(pid).map_err(io::Error::from));
    matches!(tested, Some(Err(why)) if why.kind() == io::ErrorKind::PermissionDenied)
}

/// Lets the calling thread's timers fire when they are due instead of up to 50 microseconds later
/// (PR_SET_TIMERSLACK). Threads that it starts inherit the setting.
pub fn set_precise_timers() -> io::Result<()> {
    Ok(set_current_timer_slack(Some(NonZeroU64::MIN))?)
}

/// Has the calling process killed when its parent ends; false if `parent` has ended already. Two
/// system calls and nothing else, so that it may be called between fork and exec.
pub(crate) fn end_with_parent(parent: u32) -> bool {
    // It fails only for numbers that are no signals.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    Pid::as_raw(getppid()).cast_unsigned() == parent
}

/// Gives the calling thread a descriptor table of its own, a copy of the process's: calls that take
/// a descriptor then need not guard against other threads that might close it, and the limit on
/// descriptors is the thread's own. A descriptor that the thread opens from here on is meaningless
/// in other threads and must not be passed to them, nor theirs to this thread; it is closed when
/// the thread ends.
///
/// # Errors
/// Old system call filters (seccomp) refuse it; nothing has changed then.
pub fn unshare_descriptors() -> io::Result<()> {
    // SAFETY: unshare takes no pointers. Descriptors owned elsewhere stay open in the process's
    // table; that the caller passes none of its own to other threads is its contract.
    check(unsafe { libc::unshare(libc::CLONE_FILES) })?;
    Ok(())
}

/// The processor time of the calling thread so far, in user mode and in system mode.
pub fn cpu_times_of_thread() -> (Duration, Duration) {
    cpu_times_of(libc::RUSAGE_THREAD)
}

/// The processor time of the children that have been waited for, and of their children, in user
/// mode and in system mode. The difference across one `wait` is what that child alone has used.
pub fn cpu_times_of_children() -> (Duration, Duration) {
    cpu_times_of(libc::RUSAGE_CHILDREN)
}

/// How long the calling thread has been ready to run since it began, while others ran on the CPUs
/// that it may use; none where the kernel does not count it
/// (Documentation/scheduler/sched-stats.rst).
#[must_use]
pub fn run_delay_of_thread() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Scheduled::parse(&text).map(|so_far| Duration::from_nanos(so_far.waited_ns))
}

/// How often the calling thread has waited for something since it began, and was woken.
#[must_use]
pub fn wake_ups_of_thread() -> u64 {
    usage_of(libc::RUSAGE_THREAD).ru_nvcsw as u64
}

/// How often all threads of this process, those that have ended included, have waited for something
/// and were woken.
#[must_use]
pub fn wake_ups_of_process() -> u64 {
    usage_of(libc::RUSAGE_SELF).ru_nvcsw as u64
}

fn cpu_times_of(target: libc::c_int) -> (Duration, Duration) {
    let usage = usage_of(target);
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    (time(usage.ru_utime), time(usage.ru_stime))
}

fn usage_of(target: libc::c_int) -> libc::rusage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a live, writable rusage of this frame, which is all integers, so
    // that zeroes are a valid value even if the call wrote nothing.
    let (returned, usage) = unsafe {
        let returned = libc::getrusage(target, usage.as_mut_ptr());
        (returned, usage.assume_init())
    };
    assert_eq!(returned, 0, "getrusage fails only for bad arguments");
    usage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_woken() {
        let before = wake_ups_of_thread();
        (0..5).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
        assert!(wake_ups_of_thread() >= before + 5);
        assert!(wake_ups_of_process() >= wake_ups_of_thread());
    }

    #[test]
    fn threads_that_have_ended_count_for_the_process() {
        let before = wake_ups_of_process();
        let sleeps = || std::thread::sleep(Duration::from_millis(1));
        std::thread::spawn(move || (0..5).for_each(|_| sleeps())).join().expect("it sleeps");
        assert!(wake_ups_of_process() >= before + 5);
    }

    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixListener;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_that_does_not_end_in_time_is_killed() {
        let end = |program: &str, argument: &str, timeout_ms| {
            let mut child = Command::new(program).arg(argument).spawn().expect("it is a program");
            let status = end_within(&mut child, timeout_ms).expect("it is a child");
            (status.code(), status.signal())
        };
        assert_eq!(end("sleep", "600", 1), (None, Some(libc::SIGKILL)));
        assert_eq!(end("sleep", "0.05", u64::MAX), (Some(0), None));
    }

    #[test]
    fn a_peer_that_has_ended_is_known_to_have() {
        if !testkit::has(&testkit::tools::PYTHON) {
            return;
        }
        let folder = testkit::Temporary::new();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let connect = "import socket, sys; s = socket.socket(socket.AF_UNIX); \
                       s.connect(sys.argv[1]); sys.stdin.read()";
        let mut child = Command::new("python3");
        let child = child.args(["-c", connect]).arg(&path).stdin(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let (socket, _) = listener.accept().unwrap();
        let alone = Peer { process: Some(child.id()), user: user_id() };
        assert_eq!(Peer::of(socket.as_fd()).unwrap(), alone);
        let is_known = Peer::has_ended(socket.as_fd());
        drop(child.stdin.take());
        child.wait().unwrap();
        match is_known {
            None => testkit::leave_out("processes of peers", "the kernel is older than 6.5"),
            before => {
                assert_eq!((before, Peer::has_ended(socket.as_fd())), (Some(false), Some(true)));
            }
        }
    }

    #[test]
    fn the_release_is_what_proc_says() {
        let expected = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert_eq!(kernel_release(), expected.trim_end());
    }

    #[test]
    fn the_user_owns_proc_self() {
        assert_eq!(is_root(), fs::metadata("/proc/self").unwrap().uid() == 0);
    }

    #[test]
    fn both_times_are_of_this_thread() {
        while crate::clock::cpu_time_thread() < Duration::from_millis(20) {}
        let (user, system) = cpu_times_of_thread();
        let total = crate::clock::cpu_time_thread();
        assert!(user + system > Duration::ZERO);
        assert!((user + system).abs_diff(total) < Duration::from_millis(500));
    }

    #[test]
    fn a_child_counts_once_it_has_been_waited_for() {
        let count = "n=0; while [ $n -lt 20000 ]; do n=$((n + 1)); done";
        let (user_before, system_before) = cpu_times_of_children();
        Command::new("sh").args(["-c", count]).status().unwrap();
        let (user, system) = cpu_times_of_children();
        assert!(user + system > user_before + system_before + Duration::from_millis(1));
    }

    #[test]
    fn precise_timers_are_granted() {
        set_precise_timers().unwrap();
    }

    #[test]
    fn descriptors_of_a_thread_of_its_own_are_its_own() {
        let thread = std::thread::spawn(|| {
            unshare_descriptors().unwrap();
            let own = fs::File::open("/proc/self/exe").unwrap();
            let path = format!("/proc/self/fd/{}", AsRawFd::as_raw_fd(&own));
            let theirs = format!("/proc/thread-self/fd/{}", AsRawFd::as_raw_fd(&own));
            let here = fs::read_link(theirs).unwrap();
            // The process's own table is that of its first thread.
            (fs::read_link(path).ok(), here)
        });
        let (there, here) = thread.join().unwrap();
        assert_ne!(there, Some(here));
    }
}
