//! Waiting for many descriptors at once, the way of System V (poll): the whole list goes to the
//! kernel with every wait, and all of it is looked through afterwards.
//!
//! Unlike an epoll set this one does not notice that a descriptor is closed: the descriptor must be
//! removed first, or the next one with that number is watched in its place.

use crate::call::{check, error};
use crate::epoll::{Event, Interest};
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A list of descriptors to wait for, always level-triggered.
#[derive(Default)]
pub struct PollSet {
    raw: Vec<libc::pollfd>,
    /// The keys of `raw`, in the same order.
    keys: Vec<u64>,
    /// By descriptor number: one more than its place in `raw`, 0 if it has none.
    places: Vec<usize>,
    /// Where the next search for events begins, so that all descriptors get their turn though
    /// `events_max` is small.
    cursor: usize,
}

impl PollSet {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts to watch `descriptor`; its events will carry `key`. [`Interest::EDGE`] and
    /// [`Interest::EXCLUSIVE`] are epoll's alone (EINVAL).
    pub fn add(
        &mut self,
        descriptor: BorrowedFd<'_>,
        interest: Interest,
        key: u64,
    ) -> io::Result<()> {
        if self.place(descriptor).is_some() {
            return Err(error(libc::EEXIST));
        }
        let events = poll_events(interest)?;
        let number = descriptor.as_raw_fd() as usize; // not negative while it is borrowed
        if self.places.len() <= number {
            self.places.resize(number + 1, 0);
        }
        self.raw.push(libc::pollfd { fd: descriptor.as_raw_fd(), events, revents: 0 });
        self.keys.push(key);
        self.places[number] = self.raw.len();
        Ok(())
    }

    /// Replaces the interest and the key of a watched descriptor.
    pub fn modify(
        &mut self,
        descriptor: BorrowedFd<'_>,
        interest: Interest,
        key: u64,
    ) -> io::Result<()> {
        let place = self.place(descriptor).ok_or_else(|| error(libc::ENOENT))?;
        self.raw[place].events = poll_events(interest)?;
        self.keys[place] = key;
        Ok(())
    }

    /// Stops watching `descriptor`.
    pub fn remove(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let place = self.place(descriptor).ok_or_else(|| error(libc::ENOENT))?;
        self.places[self.raw[place].fd as usize] = 0;
        self.raw.swap_remove(place);
        self.keys.swap_remove(place);
        if let Some(moved) = self.raw.get(place) {
            self.places[moved.fd as usize] = place + 1;
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
        let timeout = timeout_ms.map_or(-1, |ms| i32::try_from(ms).unwrap_or(i32::MAX));
        // SAFETY: the pointer and the count describe `raw`, exclusively borrowed for the call; the
        // kernel writes `revents` only.
        let polled = check(unsafe {
            libc::poll(self.raw.as_mut_ptr(), self.raw.len() as libc::nfds_t, timeout)
        });
        self.collect(events, events_max, polled, event)
    }

    /// Fills `events` after a wait that returned `waited`: how many descriptors are ready, or an
    /// error. `event` makes the event of a descriptor that is ready, from its key.
    pub(crate) fn collect(
        &mut self,
        events: &mut Vec<Event>,
        events_max: usize,
        waited: io::Result<libc::c_int>,
        event: impl Fn(u64, &libc::pollfd) -> Option<Event>,
    ) -> io::Result<()> {
        events.clear();
        match waited {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error),
        }
        let len = self.raw.len();
        for step in 0..len {
            let place = (self.cursor + step) % len;
            let Some(event) = event(self.keys[place], &self.raw[place]) else { continue };
            if events.len() == events_max {
                self.cursor = place;
                return Ok(());
            }
            events.push(event);
        }
        Ok(())
    }

    /// Whether the descriptor of this number is watched.
    pub(crate) fn contains(&self, number: usize) -> bool {
        self.places.get(number).is_some_and(|place| *place > 0)
    }

    fn place(&self, descriptor: BorrowedFd<'_>) -> Option<usize> {
        self.places.get(descriptor.as_raw_fd() as usize)?.checked_sub(1)
    }
}

impl fmt::Debug for PollSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = self.raw.iter().map(|raw| raw.fd);
        formatter.debug_map().entries(numbers.zip(&self.keys)).finish()
    }
}

/// The interest as poll's bits, which are epoll's in half the width.
fn poll_events(interest: Interest) -> io::Result<libc::c_short> {
    if interest.contains(Interest::EDGE) || interest.contains(Interest::EXCLUSIVE) {
        return Err(error(libc::EINVAL));
    }
    let bits = [
        (Interest::READ, libc::POLLIN),
        (Interest::WRITE, libc::POLLOUT),
        (Interest::RDHUP, libc::POLLRDHUP),
    ];
    let asked = bits.iter().filter(|(one, _)| interest.contains(*one));
    Ok(asked.fold(0, |all, (_, bit)| all | bit))
}

fn event(key: u64, polled: &libc::pollfd) -> Option<Event> {
    let any = |bits: libc::c_short| polled.revents & bits != 0;
    (polled.revents != 0).then(|| Event {
        key,
        readable: any(libc::POLLIN),
        writable: any(libc::POLLOUT),
        hangup: any(libc::POLLHUP | libc::POLLRDHUP),
        error: any(libc::POLLERR | libc::POLLNVAL),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Shutdown;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_hang_up_shows_without_being_asked_for() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut set, mut events) = (PollSet::new(), Vec::new());
        set.add(ours.as_fd(), Interest::WRITE, 7).unwrap();
        theirs.shutdown(Shutdown::Both).unwrap(); // whichever process has a copy of it
        set.wait(&mut events, 8, Some(0)).unwrap();
        assert!(events[0].hangup);
    }
}
