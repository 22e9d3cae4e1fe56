//! The TCP sockets of this process's network, as the kernel lists them (proc_net(5)).

use std::fs;
use std::net::TcpStream;
use std::path::Path;

/// A connection that neither side has closed. This and the other states are numbers of the kernel
/// (include/net/tcp_states.h).
pub const ESTABLISHED: u8 = 1;
/// A first packet has been sent, and not answered yet.
pub const SYN_SENT: u8 = 2;
/// A first packet has come and been answered, and the client's next one is waited for.
pub const SYN_RECEIVED: u8 = 3;
/// Closed by the other side only.
pub const CLOSE_WAIT: u8 = 8;

/// A TCP socket over IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSocket {
    /// This side's port.
    pub local_port: u16,
    /// The other side's port; 0 of a listener.
    pub remote_port: u16,
    /// The state as the kernel numbers it, such as [`ESTABLISHED`].
    pub state: u8,
    /// Bytes that the other side has not acknowledged.
    pub unsent: usize,
    /// Bytes that this side has received and not read; the number of connections that wait to be
    /// accepted, of a listener.
    pub unread: usize,
}

/// All TCP sockets over IPv4.
///
/// # Panics
/// When they cannot be listed.
pub fn tcp_sockets() -> Vec<TcpSocket> {
    table().lines().skip(1).map(|line| parse(line).expect("a socket in a line")).collect()
}

/// Whether a process has the other side of this connection open.
///
/// # Panics
/// When it is no connection, or sockets cannot be listed.
pub fn has_other_side(process: u32, client: &TcpStream) -> bool {
    let ports = [client.peer_addr(), client.local_addr()].map(|it| it.expect("connected").port());
    let is_it = |line: &&str| {
        parse(line).is_some_and(|socket| [socket.local_port, socket.remote_port] == ports)
    };
    let table = table();
    let line = table.lines().skip(1).find(is_it);
    let Some(inode) = line.and_then(|line| line.split_whitespace().nth(INODE)) else {
        return false;
    };
    let name = format!("socket:[{inode}]");
    let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    open.into_iter().any(|file| fs::read_link(file.path()).is_ok_and(|it| it == Path::new(&name)))
}

/// All that the kernel lists of the sockets at either end of which there is this port, a line each.
pub(crate) fn lines_with(port: u16) -> Vec<String> {
    let has_port = |line: &&str| {
        parse(line).is_some_and(|socket| [socket.local_port, socket.remote_port].contains(&port))
    };
    table().lines().skip(1).filter(has_port).map(|line| line.trim().to_owned()).collect()
}

fn table() -> String {
    fs::read_to_string("/proc/self/net/tcp").expect("the sockets are listed")
}

/// The field of a socket's inode.
const INODE: usize = 9;

/// The number of the line, the two addresses, the state, both queues, and more.
fn parse(line: &str) -> Option<TcpSocket> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let port = |field: &str| u16::from_str_radix(field.rsplit(':').next()?, 16).ok();
    let state = u8::from_str_radix(fields.get(3)?, 16).ok()?;
    let (send, receive) = fields.get(4)?.split_once(':')?;
    let [unsent, unread] = [send, receive].map(|number| usize::from_str_radix(number, 16).ok());
    let [local_port, remote_port] = [1, 2].map(|index| port(fields[index]));
    Some(TcpSocket {
        local_port: local_port?,
        remote_port: remote_port?,
        state,
        unsent: unsent?,
        unread: unread?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_connection_is_two_sockets() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = |address: std::io::Result<std::net::SocketAddr>| address.expect("bound").port();
        let server = port(listener.local_addr());
        let stream = TcpStream::connect(("127.0.0.1", server)).expect("it listens");
        let client = port(stream.local_addr());
        let listed = tcp_sockets();
        for (local_port, remote_port) in [(client, server), (server, client)] {
            let state = ESTABLISHED;
            let socket = TcpSocket { local_port, remote_port, state, unsent: 0, unread: 0 };
            assert!(listed.contains(&socket), "{socket:?}");
        }
    }

    #[test]
    fn the_other_side_is_there_once_it_is_accepted() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let has_it = || has_other_side(std::process::id(), &stream);
        assert!(!has_it());
        let accepted = listener.accept().expect("it is in the queue");
        assert!(has_it());
        drop(accepted);
        assert!(!has_it());
    }
}
