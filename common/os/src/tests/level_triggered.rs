//! Properties of both sets that report readiness again and again: `poll` and `select`.

use crate::epoll::{Event, Interest};
use crate::poll::PollSet;
use crate::select::SelectSet;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

trait Set {
    fn add(&mut self, descriptor: BorrowedFd<'_>, interest: Interest, key: u64) -> io::Result<()>;
    fn modify(&mut self, descriptor: BorrowedFd<'_>, interest: Interest, key: u64);
    fn remove(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<()>;
    fn poll(&mut self, events_max: usize) -> Vec<Event>;
}

macro_rules! set {
    ($set:ty) => {
        impl Set for $set {
            fn add(
                &mut self,
                descriptor: BorrowedFd<'_>,
                interest: Interest,
                key: u64,
            ) -> io::Result<()> {
                <$set>::add(self, descriptor, interest, key)
            }

            fn modify(&mut self, descriptor: BorrowedFd<'_>, interest: Interest, key: u64) {
                <$set>::modify(self, descriptor, interest, key).unwrap();
            }

            fn remove(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
                <$set>::remove(self, descriptor)
            }

            fn poll(&mut self, events_max: usize) -> Vec<Event> {
                let mut events = Vec::new();
                self.wait(&mut events, events_max, Some(0)).unwrap();
                events
            }
        }
    };
}

set!(PollSet);
set!(SelectSet);

/// Runs a test on a set of either kind.
fn on_both(test: impl Fn(&mut dyn Set)) {
    test(&mut PollSet::new());
    test(&mut SelectSet::new());
}

fn keys(events: &[Event]) -> Vec<u64> {
    let mut keys: Vec<u64> = events.iter().map(|event| event.key).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn events_repeat_until_the_bytes_are_read() {
    on_both(|set| {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        set.add(ours.as_fd(), Interest::READ, 7).unwrap();
        assert!(set.poll(8).is_empty());
        theirs.write_all(b"x").unwrap();
        for _ in 0..2 {
            let quiet =
                Event { key: 7, readable: true, writable: false, hangup: false, error: false };
            assert_eq!(set.poll(8), [quiet]);
        }
        ours.read_exact(&mut [0]).unwrap();
        assert!(set.poll(8).is_empty());
        set.modify(ours.as_fd(), Interest::WRITE, 9);
        assert!(matches!(set.poll(8)[..], [Event { key: 9, writable: true, .. }]));
        theirs.shutdown(Shutdown::Both).unwrap(); // whichever process has a copy of it
        set.modify(ours.as_fd(), Interest::READ, 9);
        let end = set.poll(8)[0];
        assert!(end.readable, "the end shows as something to read");
    });
}

#[test]
fn those_that_are_taken_out_are_silent_and_the_others_stay() {
    on_both(|set| {
        let pairs: Vec<_> = (0..4).map(|_| UnixStream::pair().unwrap()).collect();
        for (key, (ours, _)) in pairs.iter().enumerate() {
            set.add(ours.as_fd(), Interest::WRITE, key as u64).unwrap();
        }
        set.remove(pairs[1].0.as_fd()).unwrap();
        assert_eq!(keys(&set.poll(8)), [0, 2, 3]);
        set.remove(pairs[3].0.as_fd()).unwrap();
        set.add(pairs[1].0.as_fd(), Interest::WRITE, 10).unwrap();
        assert_eq!(keys(&set.poll(8)), [0, 2, 10]);
        let again = set.remove(pairs[3].0.as_fd()).unwrap_err();
        assert_eq!(again.raw_os_error(), Some(libc::ENOENT));
        let again = set.add(pairs[0].0.as_fd(), Interest::READ, 0).unwrap_err();
        assert_eq!(again.raw_os_error(), Some(libc::EEXIST));
    });
}

#[test]
fn little_room_is_shared_in_turn() {
    on_both(|set| {
        let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
        for (key, (ours, _)) in pairs.iter().enumerate() {
            set.add(ours.as_fd(), Interest::WRITE, key as u64).unwrap();
        }
        let mut seen = Vec::new();
        (0..3).for_each(|_| seen.extend(set.poll(2)));
        assert_eq!(seen[..3], seen[3..]);
        assert_eq!(keys(&seen[..3]), [0, 1, 2]);
    });
}

#[test]
fn what_only_epoll_can_do_is_refused() {
    on_both(|set| {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        for interest in [Interest::EDGE, Interest::EXCLUSIVE] {
            let refused = set.add(ours.as_fd(), Interest::READ | interest, 0);
            assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EINVAL));
        }
    });
}
