//! Connecting without waiting, from a chosen source address.

use super::{RawAddress, bind, set_flag};
use crate::call::check;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// A non-blocking socket on its way to `target`, with TCP_NODELAY. With `source`, from that
/// address; the port is chosen when the connection is, so that each target may use all ports
/// (IP_BIND_ADDRESS_NO_PORT).
///
/// Over the loopback interface the connection is mostly established when this returns; otherwise
/// the socket becomes writable when it is established or has failed (see [`super::take_error`]).
///
/// # Errors
/// Failures known at once: AddrNotAvailable (no port is left), ConnectionRefused, …
pub fn connect_start(target: SocketAddr, source: Option<IpAddr>) -> io::Result<OwnedFd> {
    let family = if target.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: socket takes no pointers. A non-negative return is a new descriptor, which nothing
    // else can own.
    let socket = unsafe { OwnedFd::from_raw_fd(check(libc::socket(family, kind, 0))?) };
    let fd = socket.as_fd();
    set_flag(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, true)?;
    if let Some(source) = source {
        set_flag(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, true)?;
        bind(fd, SocketAddr::new(source, 0))?;
    }
    let target = RawAddress::encode(target);
    let (pointer, len) = target.as_parts();
    // SAFETY: the pointer and the length describe the initialised address in `target`, which
    // lives through the call; the kernel only reads it.
    match check(unsafe { libc::connect(fd.as_raw_fd(), pointer, len) }) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send;
    use std::net::TcpListener;

    #[test]
    fn it_comes_from_the_source_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        let socket = connect_start(target, Some("127.0.0.77".parse().unwrap())).unwrap();
        let (accepted, peer) = listener.accept().unwrap();
        assert_eq!(peer.ip().to_string(), "127.0.0.77");
        assert_eq!(send::send(socket.as_fd(), b"x", false).unwrap(), 1);
        drop(accepted);
    }

    #[test]
    fn a_closed_port_refuses() {
        let target = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let why = match connect_start(target, None) {
            Err(why) => why.kind(),
            Ok(socket) => {
                let failure = super::super::take_error(socket.as_fd()).unwrap();
                failure.map_or(io::ErrorKind::Other, |why| why.kind())
            }
        };
        assert_eq!(why, io::ErrorKind::ConnectionRefused);
    }
}
