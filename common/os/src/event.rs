//! A descriptor that one thread makes readable to wake another out of its wait (eventfd).
//!
//! A wake-up carries no message: what happened is in some queue, which the woken thread checks
//! after [`Wake::clear`].

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A wake-up call. Any thread may notify; the waiter watches the descriptor for READ.
#[derive(Debug)]
pub struct Wake {
    descriptor: OwnedFd,
}

impl Wake {
    /// A wake-up call that no thread has made yet.
    pub fn new() -> io::Result<Self> {
        Ok(Self { descriptor: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// Makes the descriptor readable. Never blocks; further calls before [`Self::clear`] merge.
    pub fn notify(&self) {
        let written = write(&self.descriptor, &1_u64.to_ne_bytes());
        // The only failure is EAGAIN: the counter is full, so the descriptor is readable already.
        debug_assert!(is_done_or_needless(written));
    }

    /// Makes the descriptor unreadable. A notification made after this one shows again.
    pub fn clear(&self) {
        let count = read(&self.descriptor, &mut [0; 8]);
        // The only failure is EAGAIN: no thread has notified.
        debug_assert!(is_done_or_needless(count));
    }
}

/// Whether the counter, which has eight bytes, was read or written, or needed no call.
fn is_done_or_needless(moved: rustix::io::Result<usize>) -> bool {
    match moved.map_err(io::Error::from) {
        Ok(bytes) => bytes == 8,
        Err(why) => why.kind() == io::ErrorKind::WouldBlock,
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
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
