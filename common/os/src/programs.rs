//! Programs that are started in a process group of their own, for a process that does nothing else:
//! by posix_spawn(3), which copies no memory, so that it takes as long however large this process
//! is.
//!
//! `std::process` starts programs as well, but passes on the signals that this process has blocked,
//! unless it forks.

use crate::call::error;
use crate::errors::Cause;
use crate::fork::Ended;
use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process_group,
    set_child_subreaper, wait, waitid,
};
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;

/// A program that is to be started.
#[derive(Clone, Copy, Debug)]
pub struct Program<'p> {
    /// Its file, which is also its only argument.
    pub path: &'p CStr,
    /// Its current directory.
    pub directory: &'p CStr,
    /// Its variables, each `NAME=value`; it has no others.
    pub environment: &'p [&'p CStr],
    /// Its standard input.
    pub input: BorrowedFd<'p>,
    /// Its standard output.
    pub output: BorrowedFd<'p>,
    /// Its standard error.
    pub errors: BorrowedFd<'p>,
}

/// The process group of a program that was started: the program, and what it has started, but for
/// what has left the group.
///
/// The number is not given to another group before the program has been reaped by [`reap`], and
/// then as long as it [has members](Group::has_members).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group(Pid);

/// Has this process be the parent of all orphans among the descendants of its children, so that it
/// knows when a group has ended.
///
/// # Errors
/// None that a caller can correct.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Starts a program, without arguments. Descriptors that are close-on-exec are not passed on but
/// for those that the program is given; no signal is blocked in it.
///
/// # Errors
/// The file is no program, or may not be executed; no memory or no room for a process.
pub fn start(program: &Program<'_>) -> io::Result<Group> {
    let mut actions = FileActions::new()?;
    actions.duplicate(program.input.as_raw_fd(), libc::STDIN_FILENO)?;
    actions.duplicate(program.output.as_raw_fd(), libc::STDOUT_FILENO)?;
    actions.duplicate(program.errors.as_raw_fd(), libc::STDERR_FILENO)?;
    actions.change_directory(program.directory)?;
    let attributes = Attributes::new()?;
    let arguments = [program.path.as_ptr().cast_mut(), ptr::null_mut()];
    let mut environment: Vec<*mut libc::c_char> =
        program.environment.iter().map(|variable| variable.as_ptr().cast_mut()).collect();
    environment.push(ptr::null_mut());
    let mut pid = 0;
    // SAFETY: all pointers are to values that live through the call and are only read, but for
    // `pid`, which is written. Both lists end with a null pointer, and their texts with a NUL.
    // posix_spawn takes them as pointers to mutable texts for want of const in old C; the new
    // process reads copies of them.
    done(unsafe {
        libc::posix_spawn(
            &raw mut pid,
            program.path.as_ptr(),
            &raw const actions.0,
            &raw const attributes.0,
            arguments.as_ptr(),
            environment.as_ptr(),
        )
    })?;
    Pid::from_raw(pid).map(Group).ok_or_else(|| error(libc::ESRCH))
}

/// Takes note of a child of this process that has ended, or of an orphan that it has adopted:
/// returns its number and how it ended, or nothing if all that there are run.
///
/// # Errors
/// None that a caller can correct.
pub fn reap() -> io::Result<Option<(u32, Ended)>> {
    let waited = retry_on_intr(|| wait(WaitOptions::NOHANG)).map_err(io::Error::from);
    let (pid, status) = match waited {
        Ok(Some(ended)) => ended,
        Ok(None) => return Ok(None),
        Err(why) if Cause::from_error(&why) == Cause::NoChild => return Ok(None),
        Err(why) => return Err(why),
    };
    let signal = status.terminating_signal().map(Ended::Signal);
    let ended = signal.or(status.exit_status().map(Ended::Exit)).unwrap_or(Ended::Exit(0));
    Ok(Some((pid.as_raw_pid().cast_unsigned(), ended)))
}

/// Kills the group of a program with this number, whose parent has died. The number may be that of
/// another group if the group has ended since.
pub fn kill_group_of_dead(id: u32) {
    if let Some(pid) = Pid::from_raw(id.cast_signed()) {
        let _ = kill_process_group(pid, Signal::KILL); // it fails if nothing is left of it
    }
}

impl Group {
    /// The number of the program's process.
    #[must_use]
    pub fn id(self) -> u32 {
        self.0.as_raw_pid().cast_unsigned()
    }

    /// Whether a process of the group is a child of this process, running or not yet reaped. After
    /// the program has been reaped these are the orphans that it has left in the group.
    #[must_use]
    pub fn has_members(self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        retry_on_intr(|| waitid(WaitId::Pgid(Some(self.0)), options)).is_ok()
    }

    /// Asks the processes of the group to end (SIGTERM).
    pub fn terminate(self) {
        self.send(Signal::TERM);
    }

    /// Kills the processes of the group.
    pub fn kill(self) {
        self.send(Signal::KILL);
    }

    fn send(self, signal: Signal) {
        if self.has_members() {
            // It fails for processes that have changed their user, which this one may not end.
            let _ = kill_process_group(self.0, signal);
        }
    }
}

/// What is done to the descriptors of a new process, and to its current directory.
struct FileActions(libc::posix_spawn_file_actions_t);

impl FileActions {
    fn new() -> io::Result<Self> {
        let mut actions = MaybeUninit::zeroed();
        // SAFETY: the pointer is to writable memory of the right type, which the call initialises.
        done(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
        // SAFETY: the call has succeeded.
        Ok(Self(unsafe { actions.assume_init() }))
    }

    fn duplicate(&mut self, from: RawFd, to: RawFd) -> io::Result<()> {
        // SAFETY: the actions are initialised; the numbers are only noted.
        done(unsafe { libc::posix_spawn_file_actions_adddup2(&raw mut self.0, from, to) })
    }

    fn change_directory(&mut self, path: &CStr) -> io::Result<()> {
        // SAFETY: the actions are initialised; the path ends with a NUL and is copied.
        done(unsafe { libc::posix_spawn_file_actions_addchdir_np(&raw mut self.0, path.as_ptr()) })
    }
}

impl Drop for FileActions {
    fn drop(&mut self) {
        // SAFETY: they are initialised, and not used any more.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.0) };
    }
}

/// The attributes of a new process: a group of its own, no signal blocked, the usual actions of
/// all.
struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    fn new() -> io::Result<Self> {
        let mut attributes = MaybeUninit::zeroed();
        // SAFETY: the pointer is to writable memory of the right type, which the call initialises.
        done(unsafe { libc::posix_spawnattr_init(attributes.as_mut_ptr()) })?;
        // SAFETY: the call has succeeded.
        let mut attributes = Self(unsafe { attributes.assume_init() });
        let set = &raw mut attributes.0;
        let (none, all) = (signal_set(false), signal_set(true));
        let flags = libc::POSIX_SPAWN_SETPGROUP
            | libc::POSIX_SPAWN_SETSIGMASK
            | libc::POSIX_SPAWN_SETSIGDEF;
        // SAFETY: the attributes are initialised, and so are the sets, which are copied. The flags
        // have the type of the constants in C, a short.
        unsafe {
            done(libc::posix_spawnattr_setflags(set, flags as libc::c_short))?;
            done(libc::posix_spawnattr_setpgroup(set, 0))?;
            done(libc::posix_spawnattr_setsigmask(set, &raw const none))?;
            done(libc::posix_spawnattr_setsigdefault(set, &raw const all))?;
        }
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: they are initialised, and not used any more.
        unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}

/// No signals, or all that there are.
fn signal_set(is_full: bool) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the pointer is to a live, writable sigset_t of this frame, which either function
    // initialises.
    unsafe {
        match is_full {
            true => libc::sigfillset(set.as_mut_ptr()),
            false => libc::sigemptyset(set.as_mut_ptr()),
        };
        set.assume_init()
    }
}

/// The outcome of a function that returns the number of an error, or 0.
fn done(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(error(code)) }
}
