//! Interrupting a thread of this process that waits in a system call.
//!
//! The call returns with `Interrupted`, which most functions of this crate hide: those that do not
//! say so. A thread that has not begun to wait yet is not kept from it, so its waker tries again
//! until the thread has taken notice.

use crate::call::check;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Once;

/// A thread of this process, by the kernel's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadNumber(pub i32);

impl ThreadNumber {
    /// The number of no thread.
    pub const NONE: Self = Self(0);

    /// The calling thread.
    #[must_use]
    pub fn of_this_thread() -> Self {
        thread_local! {
            static NUMBER: Cell<i32> = const { Cell::new(0) };
        }
        if NUMBER.get() == 0 {
            NUMBER.set(rustix::thread::gettid().as_raw_nonzero().get());
        }
        Self(NUMBER.get())
    }

    /// Interrupts the system call in which the thread waits, if it is there and waits.
    pub fn interrupt(self) {
        install_handler();
        let process = rustix::process::getpid().as_raw_nonzero().get();
        // It fails if the thread has ended.
        // SAFETY: a call with three numbers. The handler of the signal does nothing.
        unsafe { libc::syscall(libc::SYS_tgkill, process, self.0, signal()) };
    }
}

/// A signal that nothing else uses: the C library keeps the first real-time signals for itself.
fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 2
}

/// Installs a handler that does nothing, and after which calls are not begun again.
fn install_handler() {
    static INSTALLED: Once = Once::new();
    extern "C" fn nothing(_: libc::c_int) {}
    INSTALLED.call_once(|| {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: all zeros are an action without flags and with an empty mask; the handler is a
        // function of the right type that touches nothing.
        let installed = unsafe {
            (*action.as_mut_ptr()).sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
            check(libc::sigaction(signal(), action.as_ptr(), ptr::null_mut()))
        };
        debug_assert!(installed.is_ok(), "every signal but two can have a handler");
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::recv_interruptible;
    use std::io;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_thread_that_waits_is_interrupted_and_others_are_not() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (tell, told) = mpsc::channel();
        let waiter = thread::spawn(move || {
            tell.send(ThreadNumber::of_this_thread()).unwrap();
            recv_interruptible(ours.as_fd(), &mut [0])
        });
        let number = told.recv().unwrap();
        assert_ne!(number, ThreadNumber::of_this_thread());
        while !waiter.is_finished() {
            number.interrupt();
            thread::sleep(Duration::from_millis(1));
        }
        let received = waiter.join().unwrap();
        assert_eq!(received.unwrap_err().kind(), io::ErrorKind::Interrupted);
        number.interrupt(); // there is no such thread any more
        drop(theirs);
    }
}
