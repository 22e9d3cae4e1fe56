//! Waiting for many descriptors at once, the way of BSD (select): two bit maps go to the kernel
//! with every wait, and only the first 1024 descriptors of the process can be watched.
//!
//! Unlike an epoll set this one does not notice that a descriptor is closed: the descriptor must be
//! removed first, or the next one with that number is watched in its place.

use crate::call::{check, error};
use crate::epoll::{Event, Interest};
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
    readers: Bits,
    writers: Bits,
    /// By descriptor number: the key, if it is watched.
    keys: Box<[Option<u64>]>,
    /// All descriptors from here on are not watched.
    end: usize,
    /// Where the next search for events begins, so that all descriptors get their turn though
    /// `events_max` is small.
    cursor: usize,
}

impl SelectSet {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        let keys = vec![None; DESCRIPTORS_MAX].into();
        Self { readers: Bits::default(), writers: Bits::default(), keys, end: 0, cursor: 0 }
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
        self.set(descriptor, interest, key, false)
    }

    /// Replaces the interest and the key of a watched descriptor.
    pub fn modify(
        &mut self,
        descriptor: BorrowedFd<'_>,
        interest: Interest,
        key: u64,
    ) -> io::Result<()> {
        self.set(descriptor, interest, key, true)
    }

    /// Stops watching `descriptor`.
    pub fn remove(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let number = number(descriptor)?;
        self.keys[number].take().ok_or_else(|| error(libc::ENOENT))?;
        put(&mut self.readers, number, false);
        put(&mut self.writers, number, false);
        while self.end > 0 && self.keys[self.end - 1].is_none() {
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
        events.clear();
        let (mut readers, mut writers) = (self.readers, self.writers);
        match select(self.end, &mut readers, &mut writers, timeout_ms) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error),
        }
        for step in 0..self.end {
            let number = (self.cursor + step) % self.end;
            let Some(key) = self.keys[number] else { continue };
            let (readable, writable) = (has(&readers, number), has(&writers, number));
            if !readable && !writable {
                continue;
            }
            if events.len() == events_max {
                self.cursor = number;
                return Ok(());
            }
            events.push(Event { key, readable, writable, hangup: false, error: false });
        }
        Ok(())
    }

    /// Watches a descriptor that is watched already, or is not yet.
    fn set(
        &mut self,
        descriptor: BorrowedFd<'_>,
        interest: Interest,
        key: u64,
        is_watched: bool,
    ) -> io::Result<()> {
        let number = number(descriptor)?;
        if self.keys[number].is_some() != is_watched {
            return Err(error(if is_watched { libc::ENOENT } else { libc::EEXIST }));
        }
        if interest.contains(Interest::EDGE) || interest.contains(Interest::EXCLUSIVE) {
            return Err(error(libc::EINVAL));
        }
        put(&mut self.readers, number, interest.contains(Interest::READ));
        put(&mut self.writers, number, interest.contains(Interest::WRITE));
        self.keys[number] = Some(key);
        self.end = self.end.max(number + 1);
        Ok(())
    }
}

impl Default for SelectSet {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SelectSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.keys.iter().enumerate();
        let watched = keys.filter_map(|(number, key)| key.map(|key| (number, key)));
        formatter.debug_map().entries(watched).finish()
    }
}

/// The number of a descriptor, if it can be watched.
fn number(descriptor: BorrowedFd<'_>) -> io::Result<usize> {
    let number = descriptor.as_raw_fd() as usize; // not negative while it is borrowed
    if number < DESCRIPTORS_MAX {
        return Ok(number);
    }
    let why =
        format!("select cannot watch descriptor {number}, only those below {DESCRIPTORS_MAX}");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

fn select(
    end: usize,
    readers: &mut Bits,
    writers: &mut Bits,
    timeout_ms: Option<u32>,
) -> io::Result<libc::c_int> {
    let mut timeout = timeout_ms.map(|ms| libc::timeval {
        tv_sec: libc::time_t::from(ms / 1000),
        tv_usec: libc::suseconds_t::from(ms % 1000 * 1000),
    });
    let timeout = timeout.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // SAFETY: the maps are live, writable and hold DESCRIPTORS_MAX bits, which `end` does not
    // exceed; the timeout is null or a live timeval of this frame.
    check(unsafe {
        let (readers, writers) = (readers.as_mut_ptr().cast(), writers.as_mut_ptr().cast());
        libc::select(end as libc::c_int, readers, writers, std::ptr::null_mut(), timeout)
    })
}

fn put(set: &mut Bits, number: usize, is_in: bool) {
    let (word, bit) = (&mut set[number / BITS], 1 << (number % BITS));
    *word = if is_in { *word | bit } else { *word & !bit };
}

fn has(set: &Bits, number: usize) -> bool {
    set[number / BITS] >> (number % BITS) & 1 == 1
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
