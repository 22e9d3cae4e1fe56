//! Listening sockets that a service manager opened before it started this process.
//!
//! This is the receiving half of systemd's socket activation (sd_listen_fds(3)): descriptors from
//! 3 on, `LISTEN_FDS` of them, meant for the process `LISTEN_PID`. Their names (`LISTEN_FDNAMES`)
//! are not used.

use super::local_addr;
use rustix::io::{FdFlags, fcntl_setfd, ioctl_fionbio};
use rustix::net::SocketType;
use rustix::net::sockopt::{socket_acceptconn, socket_type};
use std::env;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

const FIRST: RawFd = 3; // SD_LISTEN_FDS_START

/// Takes the listening TCP sockets that were passed to this process, made non-blocking and
/// close-on-exec; empty if there are none or they have been taken. A descriptor that is not a
/// listening TCP socket is an error, for starting with only some of them would hide a mistake.
pub fn listening_descriptors() -> io::Result<Vec<OwnedFd>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let variable = |name| env::var(name).ok();
    let count = count(variable("LISTEN_PID"), variable("LISTEN_FDS"), process::id());
    if count == 0 || TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    (FIRST..FIRST + count).map(take).collect()
}

/// How many descriptors the variables announce to the process `pid`.
fn count(for_pid: Option<String>, count: Option<String>, pid: u32) -> RawFd {
    let is_for_us = for_pid.is_some_and(|text| text.parse() == Ok(pid));
    let count = count.and_then(|text| text.parse::<u16>().ok());
    count.filter(|_| is_for_us).map_or(0, RawFd::from)
}

fn take(raw: RawFd) -> io::Result<OwnedFd> {
    let refused = |why: &str| {
        let message = format!("descriptor {raw} announced by LISTEN_FDS {why}");
        Err(io::Error::new(io::ErrorKind::InvalidInput, message))
    };
    // SAFETY: F_GETFD takes no pointers and changes nothing, whatever the number stands for.
    let flags = unsafe { libc::fcntl(raw, libc::F_GETFD) };
    if flags == -1 {
        return refused("is not open");
    }
    if flags & libc::FD_CLOEXEC != 0 {
        return refused("was not inherited");
    }
    // SAFETY: the descriptor is open and was inherited: a descriptor that something else in this
    // process owns was opened by this process, and the standard library and this crate open all of
    // theirs close-on-exec, which this one is not. LISTEN_PID and LISTEN_FDS say that the parent
    // passed it to this process, and `TAKEN` lets only one call per process come here.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    ioctl_fionbio(&socket, true)?;
    if !is_tcp_listener(socket.as_fd()) {
        return refused("is not a listening TCP socket");
    }
    Ok(socket)
}

fn is_tcp_listener(socket: BorrowedFd<'_>) -> bool {
    socket_acceptconn(socket) == Ok(true)
        && socket_type(socket) == Ok(SocketType::STREAM)
        && local_addr(socket).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::process::{Command, Stdio};

    #[test]
    fn the_count_is_for_the_named_process_only() {
        let check = |pid: Option<&str>, fds: Option<&str>, expected| {
            let own = |text: &str| text.to_owned();
            assert_eq!(count(pid.map(own), fds.map(own), 42), expected, "{pid:?} {fds:?}");
        };
        check(Some("42"), Some("2"), 2);
        check(Some("41"), Some("2"), 0);
        check(None, Some("2"), 0);
        check(Some("42"), None, 0);
        check(Some("42"), Some("-1"), 0);
        check(Some("42"), Some("99999999999"), 0);
        check(Some(""), Some(""), 0);
    }

    /// The work of the next test's child processes; without the variables there is nothing to do.
    #[test]
    fn child_takes_what_it_was_passed() {
        let Ok(expected) = env::var("OS_TEST_EXPECTED") else { return };
        let taken = listening_descriptors();
        let seen = match &taken {
            Ok(sockets) => sockets
                .iter()
                .map(|socket| local_addr(socket.as_fd()).unwrap().to_string())
                .collect::<Vec<_>>()
                .join(" "),
            Err(error) => error.to_string(),
        };
        assert_eq!(seen, expected);
        if let Ok(sockets) = &taken {
            for socket in sockets {
                let error = super::super::accept(socket.as_fd()).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            }
            assert_eq!(listening_descriptors().unwrap().len(), 0, "taken once");
        }
    }

    #[test]
    fn passed_sockets_are_taken_and_anything_else_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let name = "socket::inherited::tests::child_takes_what_it_was_passed";
        let check = |setup: &str, expected: &str| {
            let script = format!("{setup} exec \"$0\" --exact {name} --test-threads=1");
            let output = Command::new("sh")
                .args(["-c", &script])
                .arg(env::current_exe().unwrap())
                .env("OS_TEST_EXPECTED", expected)
                .stdin(Stdio::from(OwnedFd::from(listener.try_clone().unwrap())))
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.contains("1 passed"), "{setup}\n{text}");
        };
        check("exec 3<&0; LISTEN_PID=$$ LISTEN_FDS=1", &address);
        check("exec 3<&0 4<&0; LISTEN_PID=$$ LISTEN_FDS=2", &format!("{address} {address}"));
        check("exec 3<&0; LISTEN_PID=1 LISTEN_FDS=1", "");
        let refusal = |why| format!("descriptor 3 announced by LISTEN_FDS {why}");
        check(
            "exec 3</dev/null; LISTEN_PID=$$ LISTEN_FDS=1",
            &refusal("is not a listening TCP socket"),
        );
    }
}
