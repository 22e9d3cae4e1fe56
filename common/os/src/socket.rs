//! TCP sockets: listening, accepting and the options a web server sets.
//!
//! This module does not move bytes (see [`crate::send`]) and knows no addresses but IPv4 and IPv6.

mod blocking;
mod connect;
mod inherited;
#[cfg(test)]
mod tests;

pub use blocking::{
    Awaited, Readiness, has_input, is_silent, set_blocking, set_receive_timeout, set_send_timeout,
    shutdown_both, shutdown_read, wait_for_any, wait_full, wait_ready, wait_ready_interruptible,
};
pub use connect::{connect_start, connect_unix};
pub use inherited::listening_descriptors;

use crate::call::{check, error};
use crate::errors::Cause;
use rustix::io::retry_on_intr;
use rustix::net::{self, AddressFamily, Shutdown, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Of all sockets that are made here.
const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

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
    let socket = open(address)?;
    let fd = socket.as_fd();
    sockopt::set_socket_reuseaddr(fd, true)?;
    sockopt::set_socket_reuseport(fd, options.reuse_port)?;
    sockopt::set_tcp_nodelay(fd, options.no_delay)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(fd, options.ipv6_only)?;
    }
    net::bind(fd, &address)?;
    let unset = ListenOptions { defer_accept_s: 0, unsent_bytes_max: 0, ..options.clone() };
    change_options(fd, &unset, options)?;
    Ok(socket)
}

/// Changes the options of a listener that may change while it listens: all but `reuse_port`,
/// `no_delay` and `ipv6_only`.
pub fn change_options(
    listener: BorrowedFd<'_>,
    from: &ListenOptions,
    to: &ListenOptions,
) -> io::Result<()> {
    let int = |number: u32| libc::c_int::try_from(number).unwrap_or(libc::c_int::MAX);
    if from.defer_accept_s != to.defer_accept_s {
        let seconds = int(to.defer_accept_s);
        set_option(listener, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, &seconds)?;
    }
    if from.unsent_bytes_max != to.unsent_bytes_max {
        let bytes = int(to.unsent_bytes_max);
        match set_option(listener, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &bytes) {
            // It saves memory; without it everything works.
            Err(why) if Cause::from_error(&why) == Cause::NoSuchOption => {}
            outcome => outcome?,
        }
    }
    set_backlog(listener, to.backlog)
}

/// Changes how many connections may wait to be accepted at a listener.
pub fn set_backlog(listener: BorrowedFd<'_>, backlog: u32) -> io::Result<()> {
    Ok(net::listen(listener, i32::try_from(backlog).unwrap_or(i32::MAX))?)
}

/// Takes a connection that waits to be accepted, as a non-blocking socket, and its peer's address.
/// `WouldBlock`: none waits. `ConnectionAborted`: the client has gone again; try the next.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, SocketAddr)> {
    let (socket, peer) = retry_on_intr(|| net::acceptfrom_with(listener, FLAGS))?;
    Ok((socket, peer.ok_or_else(|| error(libc::EAFNOSUPPORT))?.try_into()?))
}

/// The address the socket is bound to.
pub fn local_addr(socket: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    Ok(net::getsockname(socket)?.try_into()?)
}

/// The addresses at which a listener can be reached: two if it is for all addresses of both
/// families.
pub fn listening_addresses(listener: BorrowedFd<'_>) -> io::Result<Vec<SocketAddr>> {
    let own = local_addr(listener)?;
    let is_for_both =
        own.is_ipv6() && own.ip().is_unspecified() && !sockopt::ipv6_v6only(listener)?;
    let v4 = is_for_both.then(|| SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), own.port()));
    Ok(v4.into_iter().chain([own]).collect())
}

/// The address of the other end of a connection. `NotConnected`: it has gone already.
pub fn peer_addr(socket: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    Ok(net::getpeername(socket)?.ok_or_else(|| error(libc::EAFNOSUPPORT))?.try_into()?)
}

/// A blocking socket connected to `address`.
pub fn connect_blocking(address: SocketAddr) -> io::Result<OwnedFd> {
    TcpStream::connect(address).map(OwnedFd::from)
}

/// Tells the peer that nothing more will be sent; receiving goes on.
pub fn shutdown_write(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(net::shutdown(socket, Shutdown::Write)?)
}

/// Makes closing the socket reset the connection (RST) and drop what has not been sent.
pub fn set_linger_zero(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(socket, Some(Duration::ZERO))?)
}

/// Takes the error that a connection has run into outside any call, if there is one.
pub fn take_error(socket: BorrowedFd<'_>) -> io::Result<Option<io::Error>> {
    Ok(sockopt::socket_error(socket)?.err().map(io::Error::from))
}

/// Of all sockets that listen on the address of `listener` with `reuse_port`, gives a connection
/// to the n-th one opened, where n is the CPU that handles its first packet; an n for which
/// there is no socket falls back to the kernel's own dealing. Useful only where that CPU is also
/// the one that the n-th listener's worker runs on.
pub fn attach_reuseport_cpu_steering(listener: BorrowedFd<'_>) -> io::Result<()> {
    attach_steering(listener, &mut [load(libc::SKF_AD_CPU), RETURN_LOADED])
}

/// Of all sockets that listen on the address of `listener` with `reuse_port`, gives connections
/// only to the `count` that were opened first, to each as often: those that are opened later get
/// none, until this is called again.
pub fn deal_among_first(listener: BorrowedFd<'_>, count: u32) -> io::Result<()> {
    const MODULO: u32 = libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K;
    let modulo = instruction(MODULO, count.max(1));
    attach_steering(listener, &mut [load(libc::SKF_AD_RANDOM), modulo, RETURN_LOADED])
}

/// Undoes [`attach_reuseport_cpu_steering`] and [`deal_among_first`]: the kernel deals connections
/// out among all sockets on the address of `listener` (Linux 5.3 or newer).
pub fn deal_as_usual(listener: BorrowedFd<'_>) -> io::Result<()> {
    let unused: libc::c_int = 0;
    set_option(listener, libc::SOL_SOCKET, libc::SO_DETACH_REUSEPORT_BPF, &unused)
}

/// The last instruction of a steering program: the number of a socket is what was loaded.
const RETURN_LOADED: libc::sock_filter = instruction(libc::BPF_RET | libc::BPF_A, 0);

/// Loads what the kernel knows of a packet, as `SKF_AD_CPU`, which it has at negative offsets.
const fn load(what: libc::c_int) -> libc::sock_filter {
    const ABSOLUTE: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    instruction(ABSOLUTE, (libc::SKF_AD_OFF + what) as u32)
}

const fn instruction(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Has a program decide which of the sockets at an address gets a connection.
fn attach_steering(
    listener: BorrowedFd<'_>,
    instructions: &mut [libc::sock_filter],
) -> io::Result<()> {
    // The kernel copies the program during the call; the pointer is not used afterwards.
    let program = libc::sock_fprog {
        len: instructions.len() as libc::c_ushort,
        filter: instructions.as_mut_ptr(),
    };
    set_option(listener, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &program)
}

/// A socket for the family of an address.
fn open(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    Ok(net::socket_with(family, SocketType::STREAM, FLAGS, None)?)
}

/// Sets an option of a socket that rustix lacks. Private on purpose: the callers here guarantee
/// that `name` goes with `T`.
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
