//! Waiting for many descriptors at once, the way of BSD (select): two bit maps go to the kernel
//! with every wait, and only the first 1024 descriptors of the process can be watched.
//!
//! Unlike an epoll set this one does not notice that a descriptor is closed: the descriptor must be
//! removed first, or the next one with that number is watched in its place.

use crate::call::check;
use crate::epoll::{Event, Interest};
use crate::poll::PollSet;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Descriptors from this number on cannot be watched.
pub const DESCRIPTORS_MAX: usize = libc::FD_SETSIZE;

const BITS: usize = libc::c_ulong::BITS as usize;

/// A bit for each descriptor, in the layout of the kernel and of the C library's `fd_set`.
type Bits = [libc::c_ulong; DESCRIPTORS_MAX / BITS];

const _: () = assert!(size_of::<Bits>() == size_of::<libc::fd_set>());

/// A set of descriptors to wait for, always level-triggered. Errors and hang-ups show as the
/// readiness that was requested: the next call on the descriptor reports which it is.
pub struct SelectSet {
    /// What is watched, and the interests.
    watched: PollSet,
    readers: Bits,
    writers: Bits,
    /// No descriptor from here on is watched.
    end: usize,
}

impl SelectSet {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        let (readers, writers) = (Bits::default(), Bits::default());
        Self { watched: PollSet::new(), readers, writers, end: 0 }
    }

    /// Starts to watch `descriptor` for [`Interest::READ`], [`Interest::WRITE`] or both; its events
    /// will carry `key`. A hang-up need not be requested. Interests that only epoll has are EINVAL.
    ///
    /// # Errors
    /// EINVAL if the interest is one that only epoll has, and an error if the descriptor's number
    /// is [`DESCRIPTORS_MAX`] or more.
    pub fn add(
        &mut self,
        descriptor: BorrowedFd<'_>,
        interest: Interest,
        key: u64,
    ) -> io::Result<()> {
        let number = descriptor.as_raw_fd() as usize; // not negative while it is borrowed
        if number >= DESCRIPTORS_MAX {
            let why = format!(
                "select cannot watch descriptor {number}, only those below {DESCRIPTORS_MAX}"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        self.watched.add(descriptor, interest, key)?;
        self.put(descriptor, interest);
        self.end = self.end.max(number + 1);
        Ok(())
    }

    /// Replaces the interest and the key of a watched descriptor.
    pub fn modify(
        &mut self,
        descriptor: BorrowedFd<'_>,
        interest: Interest,
        key: u64,
    ) -> io::Result<()> {
        self.watched.modify(descriptor, interest, key)?;
        self.put(descriptor, interest);
        Ok(())
    }

    /// Stops watching `descriptor`.
    pub fn remove(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        self.watched.remove(descriptor)?;
        self.put(descriptor, Interest::NONE);
        while self.end > 0 && !self.watched.contains(self.end - 1) {
            self.end -= 1;
        }
        Ok(())
    }

    /// Waits until something happens or `timeout_ms` has passed (`None`: for ever; 0: only checks),
    /// and fills `events` with at most `events_max` events; the next wait begins with the others. A
    /// signal ends the wait without events.
    pub fn wait(
        &mut self,
        events: &mut Vec<Event>,
        events_max: usize,
        timeout_ms: Option<u32>,
    ) -> io::Result<()> {
        let (mut readers, mut writers) = (self.readers, self.writers);
        let selected = select(self.end, &mut readers, &mut writers, timeout_ms);
        self.watched.collect(events, events_max, selected, |key, raw| {
            let (readable, writable) = (has(&readers, raw.fd), has(&writers, raw.fd));
            let event = Event { key, readable, writable, hangup: false, error: false };
            (readable || writable).then_some(event)
        })
    }

    /// Sets the bits of a descriptor that is watched, or was until now.
    fn put(&mut self, descriptor: BorrowedFd<'_>, interest: Interest) {
        let number = descriptor.as_raw_fd();
        put(&mut self.readers, number, interest.contains(Interest::READ));
        put(&mut self.writers, number, interest.contains(Interest::WRITE));
    }
}

impl Default for SelectSet {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SelectSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.watched.fmt(formatter)
    }
}

fn select(
    end: usize,
    readers: &mut Bits,
    writers: &mut Bits,
    timeout_ms: Option<u32>,
) -> io::Result<libc::c_int> {
    let mut timeout = timeout_ms
        .map(|ms| libc::timeval { tv_sec: (ms / 1000).into(), tv_usec: (ms % 1000 * 1000).into() });
    let timeout = timeout.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // SAFETY: the maps are live, writable and hold DESCRIPTORS_MAX bits, which `end` does not
    // exceed; the timeout is null or a live timeval of this frame.
    check(unsafe {
        let (readers, writers) = (readers.as_mut_ptr().cast(), writers.as_mut_ptr().cast());
        libc::select(end as libc::c_int, readers, writers, std::ptr::null_mut(), timeout)
    })
}

/// `number` is a descriptor's below [`DESCRIPTORS_MAX`].
fn put(map: &mut Bits, number: libc::c_int, is_in: bool) {
    let (word, bit) = (&mut map[number as usize / BITS], 1 << (number as usize % BITS));
    *word = if is_in { *word | bit } else { *word & !bit };
}

fn has(map: &Bits, number: libc::c_int) -> bool {
    map[number as usize / BITS] >> (number as usize % BITS) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_descriptor_beyond_the_bit_map_is_refused() {
        if crate::limits::raise_descriptor_limit().unwrap_or(0) < 1100 {
            return; // then there is no such descriptor
        }
        let (ours, _theirs) = UnixStream::pair().unwrap();
        // One descriptor is enough: a thousand would leave no low numbers to the tests beside this
        // one.
        let least = DESCRIPTORS_MAX as libc::c_int;
        let beyond = rustix::io::fcntl_dupfd_cloexec(&ours, least).unwrap();
        let mut set = SelectSet::new();
        let refused = set.add(beyond.as_fd(), Interest::READ, 0).unwrap_err();
        assert!(refused.to_string().starts_with("select cannot watch descriptor "), "{refused}");
    }

    #[test]
    fn a_set_shows_what_is_watched() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut set = SelectSet::new();
        set.add(ours.as_fd(), Interest::READ, 9).unwrap();
        assert_eq!(format!("{set:?}"), format!("{{{}: 9}}", ours.as_raw_fd()));
    }
}
