//! How much of what clients send ahead of their answers is received: the rest waits in the kernel.

use std::collections::HashMap;
use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use server::Server;

use crate::harness::{Running, connect, queues, start, take_head};
use crate::knobs::with_knobs;
use crate::overload::{counter, site};

/// Less than what is kept for a client before no more is received, and a receive after that.
const KEPT_BYTES_MAX: usize = (16 << 10) - 1;
const RECEIVED_BYTES_MAX: usize = 5 + (16 << 10) + 256;
/// What the multishot receives of a ring may take before they are cancelled: all of its buffers.
const MULTISHOT_BYTES_MAX: usize = 512 * 4096;

/// A client that takes nothing of a large response, and sends requests until no more are taken.
struct Client {
    stream: TcpStream,
    /// The ports of the client and of the server.
    ports: [u16; 2],
    sent: usize,
}

impl Client {
    fn new(server: &Server) -> Self {
        let mut stream = connect(server);
        stream.write_all(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        take_head(&mut stream);
        stream.set_nonblocking(true).unwrap();
        let ports = [stream.local_addr(), stream.peer_addr()].map(|at| at.unwrap().port());
        Self { stream, ports, sent: 0 }
    }

    fn send_ahead(&mut self) {
        let requests = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".repeat(10_000);
        while self.sent < 4 << 20 {
            match os::uninterrupted(|| self.stream.write(&requests)) {
                Ok(count) => self.sent += count,
                Err(_) => return, // nothing more is taken, or the connection was cut off
            }
        }
    }

    /// How many bytes the server has received, by what is left in the queues of both sockets; none
    /// if it has closed the connection.
    fn received(&self, queues: &HashMap<[u16; 2], [usize; 2]>) -> usize {
        let [client, server] = self.ports;
        match (queues.get(&[client, server]), queues.get(&[server, client])) {
            (Some([unsent, _]), Some([_, unread])) => self.sent.saturating_sub(unsent + unread),
            _ => 0,
        }
    }
}

/// How many bytes the server has received of each client, when that hardly grows any more: what is
/// on its way is in both queues for a moment.
fn received(clients: &[&Client]) -> Vec<usize> {
    let mut most = vec![0; clients.len()];
    for _ in 0..10 {
        thread::sleep(Duration::from_millis(200));
        let queues = queues();
        let now = clients.iter().map(|client| client.received(&queues));
        most = now.zip(most).map(|(now, most)| now.max(most)).collect();
    }
    most
}

/// All engines at once: looking at queues takes long where other tests have left connections.
#[test]
fn little_is_received_ahead_of_an_answer() {
    let directory = site();
    let engines = crate::engines().into_iter().map(|spec| spec.name);
    let served: Vec<(&str, Running, Client)> = engines
        .map(|name| {
            let server = start(&directory, &[&format!("engine.name={name}")]);
            let mut client = Client::new(&server);
            client.send_ahead();
            (name, server, client)
        })
        .collect();
    let clients: Vec<&Client> = served.iter().map(|(.., client)| client).collect();
    let received = received(&clients);
    for ((name, server, _), received) in served.into_iter().zip(received) {
        let at_once = if name == "rings" { MULTISHOT_BYTES_MAX } else { RECEIVED_BYTES_MAX };
        assert!(received <= KEPT_BYTES_MAX + at_once, "{name}: {received}");
        server.stop_gracefully(Duration::from_millis(1)).unwrap();
    }
}

/// A ring receives more at once, but not of all: there is a bound for its clients together.
#[test]
fn rings_receive_little_ahead_of_all_answers_together() {
    const CLIENTS: usize = 90;
    let more = ["limits.connections_max=1000"];
    with_knobs("rings", &[], &more, |server| {
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::new(server)).collect();
        clients.iter_mut().for_each(Client::send_ahead);
        let received = received(&clients.iter().collect::<Vec<_>>());
        let sum: usize = received.iter().sum();
        assert!(
            sum <= MULTISHOT_BYTES_MAX + CLIENTS * (KEPT_BYTES_MAX + RECEIVED_BYTES_MAX),
            "{sum}"
        );
        assert!(counter(server, |c| c.connections_open.get()) < CLIENTS as u64);
        drop(clients);
    });
}
