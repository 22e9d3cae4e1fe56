//! TCP sockets: listening, accepting and the options a web server sets.
//!
//! This module does not move bytes (see [`crate::send`]) and knows no addresses but IPv4 and IPv6.

mod address;
mod blocking;
mod connect;
mod inherited;
#[cfg(test)]
mod tests;

pub use blocking::{
    Readiness, has_input, set_blocking, set_receive_timeout, set_send_timeout, shutdown_both,
    shutdown_read, wait_ready,
};
pub use connect::connect_start;
pub use inherited::listening_descriptors;

use crate::call::{check, error, uninterrupted};
use address::RawAddress;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// How [`listen`] sets up a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// How many connections may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
    pub backlog: u32,
    /// Lets several sockets of this user listen on the same address; the kernel deals the
    /// connections out among them.
    pub reuse_port: bool,
    /// Seconds for which a connection is not worth accepting until the client has sent
    /// something; 0 switches this off. The kernel rounds to its own retransmission times.
    pub defer_accept_s: u32,
    /// Send small packets at once (TCP_NODELAY). Accepted sockets inherit it.
    pub no_delay: bool,
    /// A connection is not writable while more bytes than this have been given to the kernel that
    /// it has not sent yet (TCP_NOTSENT_LOWAT, where the kernel knows it); 0 leaves that to
    /// `net.ipv4.tcp_notsent_lowat`. Accepted sockets inherit it.
    pub unsent_bytes_max: u32,
    /// An IPv6 socket does not accept IPv4 connections.
    pub ipv6_only: bool,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            backlog: 4_096,
            reuse_port: false,
            defer_accept_s: 0,
            no_delay: true,
            unsent_bytes_max: 0,
            ipv6_only: false,
        }
    }
}

/// A non-blocking socket that listens on `address`. Port 0 lets the kernel choose one; see
/// [`local_addr`]. An address of closed connections that linger may be taken (SO_REUSEADDR).
pub fn listen(address: SocketAddr, options: &ListenOptions) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: socket takes no pointers. A non-negative return is a new descriptor, which nothing
    // else can own.
    let socket = unsafe { OwnedFd::from_raw_fd(check(libc::socket(family, kind, 0))?) };
    let fd = socket.as_fd();
    set_flag(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, true)?;
    set_flag(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, options.reuse_port)?;
    set_flag(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, options.no_delay)?;
    if options.defer_accept_s > 0 {
        let seconds = libc::c_int::try_from(options.defer_accept_s).unwrap_or(libc::c_int::MAX);
        set_option(fd, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, &seconds)?;
    }
    if options.unsent_bytes_max > 0 {
        let bytes = libc::c_int::try_from(options.unsent_bytes_max).unwrap_or(libc::c_int::MAX);
        match set_option(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &bytes) {
            // It saves memory; without it everything works.
            Err(why) if why.raw_os_error() == Some(libc::ENOPROTOOPT) => {}
            outcome => outcome?,
        }
    }
    if address.is_ipv6() {
        set_flag(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, options.ipv6_only)?;
    }
    bind(fd, address)?;
    let backlog = libc::c_int::try_from(options.backlog).unwrap_or(libc::c_int::MAX);
    // SAFETY: listen takes no pointers, and the descriptor is open.
    check(unsafe { libc::listen(fd.as_raw_fd(), backlog) })?;
    Ok(socket)
}

/// Takes a connection that waits to be accepted, as a non-blocking socket, and its peer's address.
/// `WouldBlock`: none waits. `ConnectionAborted`: the client has gone again; try the next.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, SocketAddr)> {
    let mut peer = RawAddress::empty();
    let accept = || {
        let (pointer, len) = peer.as_mut_parts();
        // SAFETY: the pointers are to the writable storage of `peer` and its length, which says
        // how much the kernel may write. A non-negative return is a new descriptor, which
        // nothing else can own.
        unsafe {
            let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            let raw = check(libc::accept4(listener.as_raw_fd(), pointer, len, flags))?;
            Ok(OwnedFd::from_raw_fd(raw))
        }
    };
    let socket = uninterrupted(accept)?;
    Ok((socket, peer.decode()?))
}

/// The address the socket is bound to.
pub fn local_addr(socket: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let mut address = RawAddress::empty();
    let (pointer, len) = address.as_mut_parts();
    // SAFETY: the pointers are to the writable storage of `address` and its length, which says
    // how much the kernel may write.
    check(unsafe { libc::getsockname(socket.as_raw_fd(), pointer, len) })?;
    address.decode()
}

/// The address of the other end of a connection. `NotConnected`: it has gone already.
pub fn peer_addr(socket: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let mut address = RawAddress::empty();
    let (pointer, len) = address.as_mut_parts();
    // SAFETY: the pointers are to the writable storage of `address` and its length, which says
    // how much the kernel may write.
    check(unsafe { libc::getpeername(socket.as_raw_fd(), pointer, len) })?;
    address.decode()
}

/// A blocking socket connected to `address`.
pub fn connect_blocking(address: SocketAddr) -> io::Result<OwnedFd> {
    TcpStream::connect(address).map(OwnedFd::from)
}

/// Tells the peer that nothing more will be sent; receiving goes on.
pub fn shutdown_write(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: shutdown takes no pointers, and the descriptor is open because it is borrowed.
    check(unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_WR) })?;
    Ok(())
}

/// Makes closing the socket reset the connection (RST) and drop what has not been sent.
pub fn set_linger_zero(socket: BorrowedFd<'_>) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    set_option(socket, libc::SOL_SOCKET, libc::SO_LINGER, &linger)
}

/// Takes the error that a connection has run into outside any call, if there is one.
pub fn take_error(socket: BorrowedFd<'_>) -> io::Result<Option<io::Error>> {
    let code = option_number(socket, libc::SOL_SOCKET, libc::SO_ERROR)?;
    Ok((code != 0).then(|| error(code)))
}

/// Of all sockets that listen on the address of `listener` with `reuse_port`, gives a connection
/// to the n-th one opened, where n is the CPU that handles its first packet; an n for which
/// there is no socket falls back to the kernel's own dealing. Useful only where that CPU is also
/// the one that the n-th listener's worker runs on.
pub fn attach_reuseport_cpu_steering(listener: BorrowedFd<'_>) -> io::Result<()> {
    const LOAD_ABSOLUTE: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const RETURN_ACCUMULATOR: u32 = libc::BPF_RET | libc::BPF_A;
    let instruction = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let mut instructions = [
        // Loads from this negative offset stand for the number of the current CPU.
        instruction(LOAD_ABSOLUTE, (libc::SKF_AD_OFF + libc::SKF_AD_CPU) as u32),
        instruction(RETURN_ACCUMULATOR, 0),
    ];
    // The kernel copies the program during the call; the pointer is not used afterwards.
    let program = libc::sock_fprog {
        len: instructions.len() as libc::c_ushort,
        filter: instructions.as_mut_ptr(),
    };
    set_option(listener, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &program)
}

fn bind(socket: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()> {
    let address = RawAddress::encode(address);
    let (pointer, len) = address.as_parts();
    // SAFETY: the pointer and the length describe the initialised address in `address`, which
    // lives through the call; the kernel only reads it.
    check(unsafe { libc::bind(socket.as_raw_fd(), pointer, len) })?;
    Ok(())
}

fn set_flag(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    on: bool,
) -> io::Result<()> {
    set_option(socket, level, name, &libc::c_int::from(on))
}

/// Sets an option of a socket. Private on purpose: the callers here guarantee that `name` goes with
/// `T`.
fn set_option<T: Copy>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    let pointer: *const T = value;
    // SAFETY: the pointer and the length describe `value`, which lives through the call; the
    // kernel only reads it. A pointer inside it (a filter program) is alive in the caller.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, pointer.cast(), len) })?;
    Ok(())
}

fn option_number(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointers are to a live, writable integer of this frame and to its size, which
    // says how much the kernel may write.
    check(unsafe {
        let pointer = (&raw mut value).cast();
        libc::getsockopt(socket.as_raw_fd(), level, name, pointer, &raw mut len)
    })?;
    Ok(value)
}
