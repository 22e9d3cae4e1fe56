//! Descriptors in the runtime's epoll set.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Puts a descriptor into the epoll set of the runtime.
#[expect(
    deprecated,
    reason = "the new form is unsafe because a descriptor might be closed early; these own theirs"
)]
pub(super) fn watch<T: AsRawFd + AsFd>(
    descriptor: T,
    interest: Interest,
) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(descriptor, interest)
}
