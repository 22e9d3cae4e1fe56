//! Network namespaces that exist already: doing something in one, in this process.
//!
//! It makes none: `ip netns add` does, which also gives them names.

use crate::call::{check, uninterrupted};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread;

/// Does `work` in the network namespace that `path` names, on a thread of its own, and returns what
/// it returns. Sockets belong for ever to the namespace they were made in, so those that `work`
/// makes may be used by all threads afterwards.
///
/// # Errors
/// When there is no such namespace, or only root may enter it. A panic of `work` goes on here.
pub fn in_network<T: Send>(path: &Path, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let namespace = File::open(path)?;
    thread::scope(|scope| {
        let inside = thread::Builder::new().spawn_scoped(scope, || {
            uninterrupted(|| {
                // SAFETY: setns takes no pointers. It moves the calling thread only, which ends
                // with this closure.
                check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })
            })?;
            Ok(work())
        })?;
        inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_no_network_namespace_cannot_be_entered() {
        let missing = in_network(Path::new("/proc/self/ns/nothing"), || 1).unwrap_err();
        assert_eq!(missing.raw_os_error(), Some(libc::ENOENT));
        let other = in_network(Path::new("/proc/self/ns/uts"), || 1).unwrap_err();
        assert_eq!(other.raw_os_error(), Some(libc::EINVAL));
    }

    /// Its own namespace anybody with the right to enter one may enter.
    #[test]
    fn work_is_done_inside_and_its_result_comes_back() {
        let here = fs::read_link("/proc/self/ns/net").unwrap();
        let there = in_network(Path::new("/proc/self/ns/net"), || {
            fs::read_link("/proc/thread-self/ns/net").unwrap()
        });
        match there {
            Ok(there) => assert_eq!(there, here),
            Err(why) => assert_eq!(why.raw_os_error(), Some(libc::EPERM)),
        }
    }
}
