//! Signals: received as events on a descriptor (signalfd) instead of by handlers, and sent.
//!
//! Signals that report bugs (SIGSEGV and its like) are not handled here.

use crate::call::{check, error};
use crate::process::end_with_parent;
use rustix::process::{Pid, Signal as KernelSignal, kill_process};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

/// A signal that a server reacts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: the service manager asks to stop.
    Terminate,
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGHUP: the terminal is gone, or by custom: read the configuration again.
    Hangup,
    /// SIGUSR1.
    User1,
    /// SIGUSR2.
    User2,
    /// SIGQUIT.
    Quit,
    /// SIGCHLD: a child process has ended.
    Child,
}

impl Signal {
    /// Every signal that has a name here.
    pub const ALL: [Self; 7] = [
        Self::Terminate,
        Self::Interrupt,
        Self::Hangup,
        Self::User1,
        Self::User2,
        Self::Quit,
        Self::Child,
    ];

    /// The signal as rustix names it.
    pub(crate) const fn raw(self) -> KernelSignal {
        match self {
            Self::Terminate => KernelSignal::TERM,
            Self::Interrupt => KernelSignal::INT,
            Self::Hangup => KernelSignal::HUP,
            Self::User1 => KernelSignal::USR1,
            Self::User2 => KernelSignal::USR2,
            Self::Quit => KernelSignal::QUIT,
            Self::Child => KernelSignal::CHILD,
        }
    }

    const fn number(self) -> libc::c_int {
        self.raw().as_raw()
    }

    fn from_number(number: libc::c_int) -> Option<Self> {
        Self::ALL.into_iter().find(|signal| signal.number() == number)
    }
}

/// Receives signals as events: readable while one is pending. Never blocks.
#[derive(Debug)]
pub struct SignalDescriptor {
    descriptor: OwnedFd,
}

impl SignalDescriptor {
    /// Takes `signals` away from their default actions, for the calling thread and all threads
    /// it starts later: call it before there are others. They stay blocked when the descriptor
    /// is dropped, and in processes started from here but for [`restore_in_child`].
    pub fn new(signals: &[Signal]) -> io::Result<Self> {
        let set = signal_set(signals);
        // SAFETY: `set` is an initialised signal set that lives through the call and is only
        // read; a null pointer for the old set means that it is not wanted.
        let code =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
        if code != 0 {
            return Err(error(code));
        }
        // SAFETY: `set` is an initialised signal set that lives through the call and is only
        // read. A non-negative return is a new descriptor, which nothing else can own.
        let descriptor = unsafe {
            let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
            OwnedFd::from_raw_fd(check(libc::signalfd(-1, &raw const set, flags))?)
        };
        Ok(Self { descriptor })
    }

    /// Takes one pending signal. Equal signals that arrive before this merge.
    pub fn read(&self) -> Option<Signal> {
        let mut information = [0; size_of::<libc::signalfd_siginfo>()];
        // Reads are whole structs or EAGAIN: nothing is pending.
        rustix::io::read(&self.descriptor, &mut information).ok()?;
        // The struct begins with the number (signalfd(2)).
        Signal::from_number(libc::c_int::from_ne_bytes(*information.first_chunk()?))
    }
}

impl AsFd for SignalDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// The signals that ask a command to end before it is finished: Ctrl-C, SIGTERM, and that its
/// terminal is gone, unless it was started to outlive that (nohup(1)). For a [`SignalDescriptor`],
/// which would also receive signals that are ignored.
pub fn endings() -> impl Iterator<Item = Signal> {
    let hangup = (!is_ignored(Signal::Hangup)).then_some(Signal::Hangup);
    [Signal::Interrupt, Signal::Terminate].into_iter().chain(hangup)
}

fn is_ignored(signal: Signal) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null pointer for the new action changes nothing; the one for the old action is to
    // a live, writable sigaction of this frame, for which zeroes are a valid value even if the call
    // wrote nothing.
    let action = unsafe {
        libc::sigaction(signal.number(), ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

/// The signals that are sent by name.
const NAMES: [(&str, KernelSignal); 11] = [
    ("HUP", KernelSignal::HUP),
    ("INT", KernelSignal::INT),
    ("QUIT", KernelSignal::QUIT),
    ("ABRT", KernelSignal::ABORT),
    ("KILL", KernelSignal::KILL),
    ("USR1", KernelSignal::USR1),
    ("USR2", KernelSignal::USR2),
    ("TERM", KernelSignal::TERM),
    ("CONT", KernelSignal::CONT),
    ("STOP", KernelSignal::STOP),
    ("WINCH", KernelSignal::WINCH),
];

/// Whether [`send`] knows a signal of this name, which is without `SIG`.
#[must_use]
pub fn is_name(name: &str) -> bool {
    by_name(name).is_some()
}

fn by_name(name: &str) -> Option<KernelSignal> {
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, signal)| *signal)
}

/// Sends a signal to processes. A process that is gone already is not an error; with an unknown
/// name ([`is_name`]) nothing is sent.
pub fn send(name: &str, pids: &[u32]) {
    let Some(signal) = by_name(name) else { return };
    // To the kernel, 0 and negative numbers mean groups of processes.
    let pids = pids.iter().filter_map(|pid| Pid::from_raw((*pid).try_into().ok()?));
    for pid in pids {
        let _ = kill_process(pid, signal);
    }
}

/// Ensures that writing to a closed connection or pipe is an error (`BrokenPipe`) and does not
/// raise SIGPIPE, which would end the process. Rust programs start like this, but not those whose
/// `main` belongs to another language or that were built to leave the signal alone.
pub fn raise_pipe_ignored() -> io::Result<()> {
    // SAFETY: SIG_IGN installs no code that could run; SIGPIPE is a signal that may be ignored.
    let previous = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    if previous == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Gives the process that `command` will start every signal as programs expect it: none blocked by
/// inheritance from this process, and interrupts not ignored, as a shell ignores them for processes
/// in its background. Such a process could not be asked to stop.
pub fn restore_in_child(command: &mut Command) {
    let none = signal_set(&[]);
    let restore = move || {
        for signal in [libc::SIGINT, libc::SIGQUIT] {
            // SAFETY: SIG_DFL installs no code that could run; the signals may be given back.
            if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
                return Err(io::Error::last_os_error());
            }
        }
        // SAFETY: `none` is an initialised signal set owned by this closure and is only read; a
        // null pointer for the old set means that it is not wanted.
        match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut()) }
        {
            0 => Ok(()),
            code => Err(error(code)),
        }
    };
    // SAFETY: between fork and exec only async-signal-safe functions may run, without allocating
    // or locking: the closure calls signal and pthread_sigmask, which are two, and makes an error
    // from a number, which allocates nothing.
    unsafe { command.pre_exec(restore) };
}

/// Has the kernel kill the process that `command` will start when the thread that starts it ends,
/// however this process ends. So a process that a process group of its own keeps from Ctrl-C is not
/// left behind.
pub fn kill_with_parent(command: &mut Command) {
    let parent = std::process::id();
    // The parent may have ended between fork and here.
    let bind = move || end_with_parent(parent).then_some(()).ok_or_else(|| error(libc::ESRCH));
    // SAFETY: between fork and exec only async-signal-safe functions may run, without allocating
    // or locking: the closure makes two bare system calls, and an error from a number, which
    // allocates nothing.
    unsafe { command.pre_exec(bind) };
}

fn signal_set(signals: &[Signal]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the pointer is to a live, writable sigset_t of this frame. sigemptyset initialises
    // it, and sigaddset fails only for numbers that are not signals, which `Signal` excludes.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal.number());
        }
        set.assume_init()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;

    /// Sends a signal to the calling thread only: other tests' threads have it unblocked.
    fn raise(signal: Signal) {
        // SAFETY: raise takes no pointers; the signals used are blocked in this thread.
        assert_eq!(unsafe { libc::raise(signal.number()) }, 0);
    }

    #[test]
    fn every_signal_arrives_by_its_name() {
        let descriptor = SignalDescriptor::new(&Signal::ALL).unwrap();
        assert_eq!(descriptor.read(), None);
        for signal in Signal::ALL {
            raise(signal);
            raise(signal);
            assert_eq!(descriptor.read(), Some(signal));
            assert_eq!(descriptor.read(), None, "{signal:?} twice is once");
        }
    }

    #[test]
    fn signals_not_asked_for_are_left_alone() {
        let _all = SignalDescriptor::new(&Signal::ALL).unwrap();
        let one = SignalDescriptor::new(&[Signal::User1]).unwrap();
        raise(Signal::User2);
        assert_eq!(one.read(), None);
        raise(Signal::User1);
        assert_eq!(one.read(), Some(Signal::User1));
    }

    #[test]
    fn a_signal_reaches_the_processes_that_are_meant() {
        let sleeper = || Command::new("sleep").arg("60").spawn().unwrap();
        let (mut one, mut another) = (sleeper(), sleeper());
        send("SIGTERM", &[one.id()]); // no name
        send("TERM", &[0, u32::MAX, another.id()]);
        assert_eq!(another.wait().unwrap().signal(), Some(libc::SIGTERM));
        assert!(one.try_wait().unwrap().is_none());
        send("KILL", &[one.id()]);
        assert_eq!(one.wait().unwrap().signal(), Some(libc::SIGKILL));
        assert!(is_name("INT") && !is_name("int") && !is_name(""));
    }

    #[test]
    fn child_processes_can_begin_with_nothing_blocked() {
        let _all = SignalDescriptor::new(&Signal::ALL).unwrap();
        let mut command = Command::new("grep");
        command.args(["SigBlk", "/proc/self/status"]).stdin(Stdio::null());
        let blocked = |command: &mut Command| {
            let line = String::from_utf8(command.output().unwrap().stdout).unwrap();
            u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap()
        };
        assert_eq!(blocked(&mut command) >> (libc::SIGTERM - 1) & 1, 1, "inherited");
        restore_in_child(&mut command);
        assert_eq!(blocked(&mut command), 0);
    }

    #[test]
    fn child_processes_can_be_interrupted_even_if_this_one_cannot() {
        let mut command = Command::new("grep");
        command.args(["SigIgn", "/proc/self/status"]).stdin(Stdio::null());
        let ignored = |command: &mut Command| {
            let line = String::from_utf8(command.output().unwrap().stdout).unwrap();
            u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap()
        };
        // SAFETY: neither disposition installs code that could run.
        let before = unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
        assert_eq!(ignored(&mut command) >> (libc::SIGINT - 1) & 1, 1, "inherited");
        restore_in_child(&mut command);
        assert_eq!(ignored(&mut command) >> (libc::SIGINT - 1) & 1, 0);
        // SAFETY: it is the disposition that was there.
        unsafe { libc::signal(libc::SIGINT, before) };
    }

    #[test]
    fn child_processes_can_be_bound_to_the_thread_that_starts_them() {
        let start = || {
            let mut command = Command::new("sleep");
            command.arg("60").stdin(Stdio::null());
            kill_with_parent(&mut command);
            command.spawn().unwrap()
        };
        let mut child = std::thread::spawn(start).join().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn a_hangup_ends_nothing_that_is_to_outlive_it() {
        let all = || endings().collect::<Vec<_>>();
        assert_eq!(all()[..2], [Signal::Interrupt, Signal::Terminate]);
        // SAFETY: neither disposition installs code that could run.
        let before = unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        assert!(!all().contains(&Signal::Hangup));
        // SAFETY: the disposition installs no code; and tests of this program expect no hangup.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
        assert!(all().contains(&Signal::Hangup));
        // SAFETY: it is the disposition that was there.
        unsafe { libc::signal(libc::SIGHUP, before) };
    }

    #[test]
    fn the_broken_pipe_signal_is_ignored() {
        raise_pipe_ignored().unwrap();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
        let mask = u64::from_str_radix(ignored.trim(), 16).unwrap();
        assert_eq!(mask >> (libc::SIGPIPE - 1) & 1, 1);
    }
}
