//! Connecting without waiting, from a chosen source address.

use super::{FLAGS, open, set_option};
use crate::errors::Cause;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketType, bind, connect, sockopt};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

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
    let socket = open(target)?;
    let fd = socket.as_fd();
    sockopt::set_tcp_nodelay(fd, true)?;
    if let Some(source) = source {
        let on: libc::c_int = 1;
        set_option(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &on)?;
        bind(fd, &SocketAddr::new(source, 0))?;
    }
    match connect(fd, &target).map_err(io::Error::from) {
        Err(why) if Cause::from_error(&why) != Cause::Connecting => Err(why),
        _ => Ok(socket),
    }
}

/// A non-blocking socket connected to a socket in the file system.
///
/// # Errors
/// WouldBlock: its backlog is full, and connecting may be tried again.
pub fn connect_unix(path: &Path) -> io::Result<OwnedFd> {
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
    connect(socket.as_fd(), &SocketAddrUnix::new(path)?)?;
    Ok(socket)
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
