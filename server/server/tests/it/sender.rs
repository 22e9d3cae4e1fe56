//! A client that sends until no more is taken, and how much of that its server has received.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::net::TcpStream;

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

    fn received(&self, queues: &HashMap<[u16; 2], [usize; 2]>) -> usize {
        let [client, server] = self.ports;
        match (queues.get(&[client, server]), queues.get(&[server, client])) {
            (Some([unsent, _]), Some([_, unread])) => self.sent.saturating_sub(unsent + unread),
            _ => 0,
        }
    }
}

/// How many bytes the server has received of each client by now, by what is left in the queues of
/// both sockets; none of a connection that it has closed. What is on its way is in both queues for
/// a moment.
pub(crate) fn received(senders: &[Sender]) -> Vec<usize> {
    let queues = queues();
    senders.iter().map(|sender| sender.received(&queues)).collect()
}

/// The lengths of the send queue and the receive queue of each open socket, by its ports, its own
/// first.
pub(crate) fn queues() -> HashMap<[u16; 2], [usize; 2]> {
    let text = fs::read_to_string("/proc/net/tcp").unwrap();
    text.lines().filter_map(queues_of).collect()
}

/// A line for a socket, in the form of proc_pid_net(5).
fn queues_of(line: &str) -> Option<([u16; 2], [usize; 2])> {
    let mut words = line.split_whitespace().skip(1);
    let (own, peer) = (words.next()?, words.next()?);
    if words.next()? != "01" {
        return None;
    }
    let port = |address: &str| u16::from_str_radix(address.split_once(':')?.1, 16).ok();
    let (send, receive) = words.next()?.split_once(':')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some(([port(own)?, port(peer)?], [number(send)?, number(receive)?]))
}
