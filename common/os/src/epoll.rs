//! Waiting for many descriptors at once (epoll).
//!
//! A descriptor is known by the `key` its owner chose; keys are not checked for being unique,
//! and an event read earlier may name a descriptor that has been closed since. Telling such
//! stale events from fresh ones (a generation number in the key) is the caller's business.

use crate::call::check_len;
use rustix::event::epoll;
use std::fmt;
use std::io;
use std::ops::{BitOr, BitOrAssign};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

/// A set of descriptors to wait for. May be shared: threads may add and wait at the same time.
#[derive(Debug)]
pub struct Epoll {
    descriptor: OwnedFd,
}

impl Epoll {
    /// An empty set.
    pub fn new() -> io::Result<Self> {
        Ok(Self { descriptor: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Starts to watch `descriptor`; its events will carry `key`. Closing the last copy of the
    /// descriptor ends the watch by itself.
    pub fn add(&self, descriptor: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()> {
        let key = epoll::EventData::new_u64(key);
        Ok(epoll::add(&self.descriptor, descriptor, key, interest.0)?)
    }

    /// Replaces the interest and the key of a watched descriptor. With [`Interest::EDGE`] a
    /// descriptor that is ready now is reported anew. [`Interest::EXCLUSIVE`] cannot be modified
    /// (EINVAL).
    pub fn modify(
        &self,
        descriptor: BorrowedFd<'_>,
        interest: Interest,
        key: u64,
    ) -> io::Result<()> {
        let key = epoll::EventData::new_u64(key);
        Ok(epoll::modify(&self.descriptor, descriptor, key, interest.0)?)
    }

    /// Stops watching `descriptor`.
    pub fn remove(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::delete(&self.descriptor, descriptor)?)
    }

    /// Waits until something happens or `timeout_ms` has passed (`None`: for ever; 0: only checks),
    /// fills `events` and returns how many there are. A signal ends the wait with 0 events, so that
    /// the caller computes its next timeout afresh.
    pub fn wait(&self, events: &mut EventBuffer, timeout_ms: Option<u32>) -> io::Result<usize> {
        let timeout = timeout_ms.map_or(-1, |ms| i32::try_from(ms).unwrap_or(i32::MAX));
        let (set, capacity) = (self.descriptor.as_raw_fd(), events.capacity_i32());
        // SAFETY: the pointer is to `capacity` or more initialised, writable events, exclusively
        // borrowed for the call, and the kernel writes at most `capacity` of them.
        let returned = unsafe { libc::epoll_wait(set, events.raw.as_mut_ptr(), capacity, timeout) };
        events.filled_by(check_len(returned as libc::ssize_t))
    }

    /// Waits for events as [`Self::wait`] does, for `timeout_us` at most: to the microsecond where
    /// the kernel can (Linux 5.11), else rounded up to milliseconds.
    pub fn wait_us(&self, events: &mut EventBuffer, timeout_us: u64) -> io::Result<usize> {
        if timeout_us == 0 || !precise_wait_available() {
            let ms = u32::try_from(timeout_us.div_ceil(1000)).unwrap_or(u32::MAX);
            return self.wait(events, Some(ms));
        }
        let capacity = events.capacity_i32();
        let returned = self.wait_precisely(events.raw.as_mut_ptr(), capacity, timeout_us);
        events.filled_by(returned)
    }

    /// `events` may be null if `capacity` is 0, which the kernel refuses.
    fn wait_precisely(
        &self,
        events: *mut libc::epoll_event,
        capacity: libc::c_int,
        timeout_us: u64,
    ) -> io::Result<usize> {
        // The kernel's own layout of a timespec, which no C library changes on 64-bit machines.
        let timeout = [(timeout_us / 1_000_000) as i64, (timeout_us % 1_000_000 * 1000) as i64];
        // SAFETY: `events` points to `capacity` writable events by the callers here; `timeout` is
        // live and only read; no signal mask is given.
        check_len(unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.descriptor.as_raw_fd(),
                events,
                capacity,
                timeout.as_ptr(),
                std::ptr::null::<libc::c_void>(),
                0_usize,
            )
        } as libc::ssize_t)
    }
}

/// Whether the kernel has epoll_pwait2 and lets this process use it. Probed once.
fn precise_wait_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        // The call with room for no events: EINVAL from a kernel that knows it.
        let asked = Epoll::new().map(|epoll| epoll.wait_precisely(std::ptr::null_mut(), 0, 1));
        matches!(asked, Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidInput)
    })
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// What to report about a descriptor: a union (`|`) of the constants. Errors and a complete hang-up
/// are always reported.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Interest(epoll::EventFlags);

impl Interest {
    /// Nothing but errors and hang-ups.
    pub const NONE: Self = Self(epoll::EventFlags::empty());
    /// There is something to read or to accept.
    pub const READ: Self = Self(epoll::EventFlags::IN);
    /// There is room to write.
    pub const WRITE: Self = Self(epoll::EventFlags::OUT);
    /// The peer has shut down its sending side.
    pub const RDHUP: Self = Self(epoll::EventFlags::RDHUP);
    /// Report changes only: after an event the descriptor must be used until it would block.
    pub const EDGE: Self = Self(epoll::EventFlags::ET);
    /// Of several epoll sets that watch the same listener, an arrival wakes one or a few instead of
    /// all.
    pub const EXCLUSIVE: Self = Self(epoll::EventFlags::EXCLUSIVE);

    /// Report once: the descriptor is not watched again until [`Epoll::modify`] is called.
    pub const ONCE: Self = Self(epoll::EventFlags::ONESHOT);

    const NAMES: [(Self, &'static str); 6] = [
        (Self::READ, "READ"),
        (Self::WRITE, "WRITE"),
        (Self::RDHUP, "RDHUP"),
        (Self::EDGE, "EDGE"),
        (Self::EXCLUSIVE, "EXCLUSIVE"),
        (Self::ONCE, "ONCE"),
    ];

    /// Whether everything in `other` is in `self`.
    pub const fn contains(self, other: Self) -> bool {
        self.0.contains(other.0)
    }

    /// The union, for constants.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0.union(other.0))
    }
}

impl BitOr for Interest {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

impl BitOrAssign for Interest {
    fn bitor_assign(&mut self, other: Self) {
        *self = self.with(other);
    }
}

impl fmt::Debug for Interest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Self::NAMES.iter().filter(|(interest, _)| self.contains(*interest));
        formatter.debug_set().entries(names.map(|(_, name)| name)).finish()
    }
}

/// Something that happened to a watched descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The key the descriptor was added with.
    pub key: u64,
    /// Reading will not block: there are bytes, a connection to accept, or the end.
    pub readable: bool,
    /// Writing will not block.
    pub writable: bool,
    /// The peer has shut down its sending side (if asked for), or both sides are shut down.
    pub hangup: bool,
    /// The descriptor has an error; the next call on it returns which.
    pub error: bool,
}

/// Room for the events of one wait, reused from wait to wait.
pub struct EventBuffer {
    raw: Box<[libc::epoll_event]>,
    filled: usize, // 0 <= filled <= raw.len()
}

impl EventBuffer {
    /// Room for `capacity` events (at least 1).
    pub fn with_capacity(capacity: usize) -> Self {
        let empty = libc::epoll_event { events: 0, u64: 0 };
        Self { raw: vec![empty; capacity.max(1)].into_boxed_slice(), filled: 0 }
    }

    fn capacity_i32(&self) -> i32 {
        i32::try_from(self.raw.len()).unwrap_or(i32::MAX)
    }

    /// Takes the result of a wait, after which as many events are filled.
    fn filled_by(&mut self, returned: io::Result<usize>) -> io::Result<usize> {
        self.filled = 0;
        match returned {
            Ok(count) => self.filled = count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(self.filled)
    }

    /// How many events one wait can return.
    pub fn capacity(&self) -> usize {
        self.raw.len()
    }

    /// How many events the last wait returned.
    pub fn len(&self) -> usize {
        self.filled
    }

    /// Whether the last wait returned none.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// The event at `index` of the last wait: for loops that change other things while they run
    /// through the events.
    pub fn get(&self, index: usize) -> Option<Event> {
        self.raw[..self.filled].get(index).map(|&raw| event(raw))
    }

    /// The events of the last wait.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Event> + '_ {
        self.raw[..self.filled].iter().map(|&raw| event(raw))
    }
}

impl fmt::Debug for EventBuffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

fn event(raw: libc::epoll_event) -> Event {
    let told = epoll::EventFlags::from_bits_retain(raw.events);
    let any = |flags| told.intersects(flags);
    Event {
        key: raw.u64,
        readable: any(epoll::EventFlags::IN),
        writable: any(epoll::EventFlags::OUT),
        hangup: any(epoll::EventFlags::HUP | epoll::EventFlags::RDHUP),
        error: any(epoll::EventFlags::ERR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;
    use testkit::comes_true;

    fn watched(interest: Interest) -> (Epoll, UnixStream, UnixStream, EventBuffer) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let epoll = Epoll::new().unwrap();
        epoll.add(ours.as_fd(), interest, u64::MAX - 1).unwrap();
        (epoll, ours, theirs, EventBuffer::with_capacity(8))
    }

    #[test]
    fn a_short_wait_is_short() {
        let epoll = Epoll::new().unwrap();
        let mut events = EventBuffer::with_capacity(4);
        let before = crate::clock::now();
        assert_eq!(epoll.wait_us(&mut events, 300).unwrap(), 0);
        let elapsed_us = crate::clock::now() - before;
        assert!((300..10_000_000).contains(&elapsed_us), "{elapsed_us} microseconds");
    }

    #[test]
    fn level_triggered_events_repeat_until_the_bytes_are_read() {
        let (epoll, mut ours, mut theirs, mut events) = watched(Interest::READ);
        assert_eq!(epoll.wait(&mut events, Some(0)).unwrap(), 0);
        theirs.write_all(b"x").unwrap();
        for _ in 0..2 {
            assert_eq!(epoll.wait(&mut events, Some(1_000)).unwrap(), 1);
            let quiet = Event {
                key: u64::MAX - 1,
                readable: true,
                writable: false,
                hangup: false,
                error: false,
            };
            assert_eq!(events.get(0), Some(quiet));
            assert_eq!(events.get(1), None);
        }
        ours.read_exact(&mut [0]).unwrap();
        assert_eq!(epoll.wait(&mut events, Some(0)).unwrap(), 0);
        assert!(events.is_empty());
    }

    #[test]
    fn edge_triggered_events_tell_of_changes_only() {
        let (epoll, ours, mut theirs, mut events) =
            watched(Interest::READ | Interest::WRITE | Interest::EDGE);
        assert_eq!(epoll.wait(&mut events, Some(0)).unwrap(), 1, "writable at once");
        assert_eq!(epoll.wait(&mut events, Some(0)).unwrap(), 0, "and only once");

        theirs.write_all(b"x").unwrap();
        assert_eq!(epoll.wait(&mut events, Some(1_000)).unwrap(), 1);
        let event = events.get(0).unwrap();
        assert!(event.readable && event.writable);
        assert_eq!(epoll.wait(&mut events, Some(0)).unwrap(), 0, "unread but not new");
        theirs.write_all(b"y").unwrap();
        assert_eq!(epoll.wait(&mut events, Some(1_000)).unwrap(), 1, "more bytes are new");

        let interest = Interest::READ | Interest::EDGE;
        epoll.modify(ours.as_fd(), interest, 5).unwrap();
        assert_eq!(epoll.wait(&mut events, Some(0)).unwrap(), 1, "modifying reports anew");
        assert_eq!(events.get(0).unwrap().key, 5);
    }

    #[test]
    fn hang_ups_are_told_apart() {
        let (epoll, _ours, theirs, mut events) = watched(Interest::READ | Interest::RDHUP);
        theirs.shutdown(Shutdown::Write).unwrap();
        assert_eq!(epoll.wait(&mut events, Some(1_000)).unwrap(), 1);
        let event = events.get(0).unwrap();
        assert!(event.readable && event.hangup && !event.error);

        let (epoll, _ours, theirs, mut events) = watched(Interest::NONE);
        drop(theirs);
        assert_eq!(epoll.wait(&mut events, Some(1_000)).unwrap(), 1);
        assert!(events.get(0).unwrap().hangup, "reported even when nothing was requested");
    }

    #[test]
    fn a_removed_descriptor_is_silent() {
        let (epoll, ours, mut theirs, mut events) = watched(Interest::READ);
        theirs.write_all(b"x").unwrap();
        epoll.remove(ours.as_fd()).unwrap();
        assert_eq!(epoll.wait(&mut events, Some(0)).unwrap(), 0);
        let again = epoll.remove(ours.as_fd()).unwrap_err();
        assert_eq!(again.raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn a_small_buffer_gets_the_rest_next_time() {
        let epoll = Epoll::new().unwrap();
        let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
        for (key, (ours, _)) in pairs.iter().enumerate() {
            epoll.add(ours.as_fd(), Interest::WRITE, key as u64).unwrap();
        }
        let mut events = EventBuffer::with_capacity(2);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..2 {
            assert_eq!(epoll.wait(&mut events, Some(0)).unwrap(), 2);
            seen.extend(events.iter().map(|event| event.key));
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn exclusive_watchers_share_the_wake_ups_of_a_listener() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let epolls = [Epoll::new().unwrap(), Epoll::new().unwrap()];
        for epoll in &epolls {
            epoll.add(listener.as_fd(), Interest::READ | Interest::EXCLUSIVE, 1).unwrap();
        }
        let again = epolls[0].modify(listener.as_fd(), Interest::READ, 1).unwrap_err();
        assert_eq!(again.raw_os_error(), Some(libc::EINVAL));

        // A waiter that comes too late is woken as well, hence several rounds, and more of them on
        // a busy machine.
        let mut rounds = Vec::new();
        while rounds.len() < 5 || (rounds.len() < 20 && !rounds.contains(&1)) {
            rounds.push(waiters_woken(&epolls, &listener));
        }
        assert!(rounds.contains(&1), "all were woken every time: {rounds:?}");
    }

    /// How many of the two sets are woken by one connection: one at least, however late.
    fn waiters_woken(epolls: &[Epoll; 2], listener: &TcpListener) -> usize {
        let wait = |epoll: &Epoll| epoll.wait(&mut EventBuffer::with_capacity(1), Some(30_000));
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let woken = AtomicUsize::new(0);
        let waiter = |epoll: &Epoll| woken.fetch_add(wait(epoll).unwrap(), Ordering::Relaxed);
        let count = || woken.load(Ordering::Relaxed);
        thread::scope(|scope| {
            for epoll in epolls {
                scope.spawn(move || waiter(epoll));
            }
            thread::sleep(Duration::from_millis(100));
            let _client = connect();
            assert!(comes_true(|| count() >= 1), "no waiter was woken");
            thread::sleep(Duration::from_millis(300)); // in which another would be woken
            let by_one = count();
            listener.accept().unwrap();
            // Another connection wakes a waiter that still waits.
            let _other = connect();
            assert!(comes_true(|| count() == 2), "a waiter was left");
            listener.accept().unwrap();
            by_one
        })
    }

    #[test]
    fn interest_prints_its_names() {
        let interest = Interest::READ | Interest::EDGE;
        assert_eq!(format!("{interest:?}"), r#"{"READ", "EDGE"}"#);
    }
}
