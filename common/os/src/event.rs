//! A descriptor that one thread makes readable to wake another out of its wait (eventfd).
//!
//! A wake-up carries no message: what happened is in some queue, which the woken thread checks
//! after [`Wake::clear`].

use crate::call::check;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A wake-up call. Any thread may notify; the waiter watches the descriptor for READ.
#[derive(Debug)]
pub struct Wake {
    descriptor: OwnedFd,
}

impl Wake {
    /// A wake-up call that no thread has made yet.
    pub fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes no pointers. A non-negative return is a new descriptor, which
        // nothing else can own.
        let descriptor = unsafe {
            let raw = check(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?;
            OwnedFd::from_raw_fd(raw)
        };
        Ok(Self { descriptor })
    }

    /// Makes the descriptor readable. Never blocks; further calls before [`Self::clear`] merge.
    pub fn notify(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the pointer and length describe `one`, which outlives the call, and the
        // descriptor is open for as long as `self` lives.
        let written =
            unsafe { libc::write(self.descriptor.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        // The only failure is EAGAIN: the counter is full, so the descriptor is readable already.
        debug_assert!(written == 8 || would_block());
    }

    /// Makes the descriptor unreadable. A notification made after this one shows again.
    pub fn clear(&self) {
        let mut count = [0_u8; 8];
        // SAFETY: the pointer and length describe `count`, which is writable and outlives the
        // call, and the descriptor is open for as long as `self` lives.
        let read = unsafe {
            libc::read(self.descriptor.as_raw_fd(), count.as_mut_ptr().cast(), count.len())
        };
        // The only failure is EAGAIN: no thread has notified.
        debug_assert!(read == 8 || would_block());
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn would_block() -> bool {
    io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoll::{Epoll, EventBuffer, Interest};
    use std::thread;

    #[test]
    fn a_notification_from_another_thread_ends_the_wait() {
        let wake = Wake::new().unwrap();
        let epoll = Epoll::new().unwrap();
        epoll.add(wake.as_fd(), Interest::READ, 7).unwrap();
        let mut events = EventBuffer::with_capacity(4);
        assert_eq!(epoll.wait(&mut events, Some(0)).unwrap(), 0);

        thread::scope(|scope| {
            scope.spawn(|| wake.notify());
            assert_eq!(epoll.wait(&mut events, Some(5_000)).unwrap(), 1);
        });
        assert_eq!(events.iter().next().unwrap().key, 7);
    }

    #[test]
    fn notifications_merge_and_one_clear_takes_them_all() {
        let wake = Wake::new().unwrap();
        let epoll = Epoll::new().unwrap();
        epoll.add(wake.as_fd(), Interest::READ, 0).unwrap();
        let mut events = EventBuffer::with_capacity(4);

        wake.notify();
        wake.notify();
        assert_eq!(epoll.wait(&mut events, Some(0)).unwrap(), 1);
        wake.clear();
        wake.clear();
        assert_eq!(epoll.wait(&mut events, Some(0)).unwrap(), 0);
        wake.notify();
        assert_eq!(epoll.wait(&mut events, Some(0)).unwrap(), 1);
    }
}
