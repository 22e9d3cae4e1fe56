//! Terminals: their width, and a last text for them when a signal ends the process.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::ptr;
use std::sync::OnceLock;

use rustix::termios::tcgetwinsize;

/// The columns of the terminal that `stream` is; none if it is no terminal, or does not know.
pub fn columns(stream: impl AsFd) -> Option<usize> {
    let size = tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// What [`write_when_ended`] has been told to write.
static LAST: OnceLock<&'static [u8]> = OnceLock::new();

/// The signals of a terminal that end a process.
const ENDINGS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Has the process write `text` to standard error when Ctrl-C, SIGTERM or the end of the terminal
/// ends it. It ends by the signal all the same. Signals that are ignored or handled otherwise are
/// left alone, and of several texts the first is written.
pub fn write_when_ended(text: &'static [u8]) -> io::Result<()> {
    if LAST.set(text).is_err() {
        return Ok(());
    }
    for signal in ENDINGS {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: a null pointer for the new action changes nothing; the one for the old action is
        // to a live, writable sigaction of this frame, for which zeroes are a valid value.
        let before = unsafe {
            if libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            action.assume_init()
        };
        if before.sa_sigaction != libc::SIG_DFL {
            continue;
        }
        // SAFETY: zeroes are a valid sigaction without flags and blocked signals; `write_last` is a
        // handler of the form without SA_SIGINFO and calls only async-signal-safe functions; both
        // pointers are to live memory or null.
        let code = unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = write_last as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESETHAND;
            libc::sigaction(signal, &raw const action, ptr::null_mut())
        };
        if code != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The handler. Its signal has its default action again (SA_RESETHAND), and is delivered once more
/// when the handler returns.
extern "C" fn write_last(signal: libc::c_int) {
    if let Some(text) = LAST.get() {
        // SAFETY: the text lives as long as the process; write(2) is async-signal-safe, and that it
        // fails is of no consequence.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
    }
    // SAFETY: raise(3) takes no pointers and is async-signal-safe.
    unsafe { libc::raise(signal) };
}
