//! A client that sends until no more is taken, and how much of that its server has received.

use std::collections::HashMap;
use std::io::Write;
use std::net::TcpStream;

use testkit::sockets::{ESTABLISHED, TcpSocket, tcp_sockets};

/// The most that a client sends.
const SENT_BYTES_MAX: usize = 4 << 20;

pub(crate) struct Sender {
    pub(crate) stream: TcpStream,
    /// The ports of the client and of the server.
    ports: [u16; 2],
    sent: usize,
}

impl Sender {
    pub(crate) fn new(stream: TcpStream) -> Self {
        stream.set_nonblocking(true).unwrap();
        let ports = [stream.local_addr(), stream.peer_addr()].map(|at| at.unwrap().port());
        Self { stream, ports, sent: 0 }
    }

    /// Sends these bytes again and again, until nothing more is taken, or the connection is cut
    /// off.
    pub(crate) fn send_ahead(&mut self, bytes: &[u8]) {
        while self.sent < SENT_BYTES_MAX {
            match os::uninterrupted(|| self.stream.write(bytes)) {
                Ok(count) => self.sent += count,
                Err(_) => return,
            }
        }
    }

    fn received(&self, sockets: &HashMap<[u16; 2], TcpSocket>) -> usize {
        let [client, server] = self.ports;
        match (sockets.get(&[client, server]), sockets.get(&[server, client])) {
            (Some(own), Some(other)) => self.sent.saturating_sub(own.unsent + other.unread),
            _ => 0,
        }
    }
}

/// How many bytes the server has received of each client by now, by what is left in the queues of
/// both sockets; none of a connection that it has closed. What is on its way is in both queues for
/// a moment.
pub(crate) fn received(senders: &[Sender]) -> Vec<usize> {
    let open = tcp_sockets().into_iter().filter(|socket| socket.state == ESTABLISHED);
    let sockets = open.map(|socket| ([socket.local_port, socket.remote_port], socket)).collect();
    senders.iter().map(|sender| sender.received(&sockets)).collect()
}
