//! Network namespaces: running code in an existing one, in this process; and checking whether new
//! ones may be made.
//!
//! No lasting namespaces are made here: `ip netns add` makes them, and gives them names.

use os::call::{check, uninterrupted};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread;

/// Runs `work` in the network namespace that `path` names, on a thread of its own, and returns its
/// result. Sockets belong for ever to the namespace they were made in, so those that `work` makes
/// may be used by all threads afterwards.
///
/// # Errors
/// When there is no such namespace, or only root may enter it. A panic of `work` is resumed here.
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

/// Whether this process may make network namespaces. One is made to find out, by a thread that ends
/// at once, and the namespace with it.
pub fn may_make_networks() -> bool {
    let made = thread::spawn(|| {
        // SAFETY: unshare takes no pointers. It moves the calling thread only, which ends with this
        // closure.
        uninterrupted(|| check(unsafe { libc::unshare(libc::CLONE_NEWNET) }))
    });
    let made = made.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    !made.is_err_and(|why| why.kind() == io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The calling thread's namespace stays what it was.
    #[test]
    fn whether_networks_may_be_made_is_asked_beside_this_thread() {
        let here = fs::read_link("/proc/thread-self/ns/net").unwrap();
        let may = may_make_networks();
        assert_eq!(fs::read_link("/proc/thread-self/ns/net").unwrap(), here);
        // CAP_SYS_ADMIN is bit 21 of the effective capabilities; capabilities(7).
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        let effective = u64::from_str_radix(line.trim(), 16).unwrap();
        assert!(!may || effective >> 21 & 1 == 1, "{effective:x}");
    }

    #[test]
    fn only_network_namespaces_can_be_entered() {
        let missing = in_network(Path::new("/proc/self/ns/nothing"), || 1).unwrap_err();
        assert_eq!(missing.raw_os_error(), Some(libc::ENOENT));
        let other = in_network(Path::new("/proc/self/ns/uts"), || 1).unwrap_err();
        assert_eq!(other.raw_os_error(), Some(libc::EINVAL));
    }

    /// A process with the right to enter a namespace may enter its own.
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
