//! How far bodies may be ahead of an application that takes nothing.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use server::Server;
use testkit::comes_true;

use crate::harness::{connect, queues, site, start};
use crate::under_test::engines;

/// What the multishot receives of a ring may take before they are cancelled: all of its buffers.
const MULTISHOT_BYTES_MAX: usize = 512 * 4096;
/// What is kept for a client before no more is received, and a receive after that.
const CLIENT_BYTES_MAX: usize = (16 << 10) + 5 + (16 << 10) + 256;

/// A client that sends a body until no more is taken.
struct Upload {
    stream: TcpStream,
    /// The ports of the client and of the server.
    ports: [u16; 2],
    sent: usize,
}

impl Upload {
    fn new(server: &Server) -> Self {
        let mut stream = connect(server);
        let head = b"POST /app HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n";
        stream.write_all(head).unwrap();
        stream.set_nonblocking(true).unwrap();
        let ports = [stream.local_addr(), stream.peer_addr()].map(|at| at.unwrap().port());
        Self { stream, ports, sent: 0 }
    }

    fn send_ahead(&mut self) {
        while self.sent < 4 << 20 {
            match os::uninterrupted(|| self.stream.write(&[b'x'; 250_000])) {
                Ok(count) => self.sent += count,
                Err(_) => return, // nothing more is taken, or the connection was cut off
            }
        }
    }
}

/// How many bytes the server has received of all, by what is left in the queues of both sockets. Of
/// a connection that it has closed they do not count.
fn received(uploads: &[Upload]) -> usize {
    let queues = queues();
    let of_one = |upload: &Upload| {
        let [client, server] = upload.ports;
        match (queues.get(&[client, server]), queues.get(&[server, client])) {
            (Some([unsent, _]), Some([_, unread])) => upload.sent.saturating_sub(unsent + unread),
            _ => 0,
        }
    };
    uploads.iter().map(of_one).sum()
}

/// Bodies may be further ahead of their applications than requests of their answers. There is a
/// bound for all of a ring together.
#[test]
fn rings_receive_little_of_all_bodies_together_ahead_of_their_application() {
    const UPLOADS: usize = 600;
    const BODIES_BYTES_MAX: usize = 16 * MULTISHOT_BYTES_MAX;
    if !engines().iter().any(|spec| spec.name == "rings") {
        return;
    }
    let application = TcpListener::bind("127.0.0.1:0").unwrap(); // it takes nothing
    let address = application.local_addr().unwrap();
    let keys = "in_flight_max = 1, queue_max = 1000, queue_ms = 600000";
    let route =
        format!("host.route=[{{ path = \"/app\", proxy = [\"http://{address}\"], {keys} }}]");
    let one = "partitions.cpus=[\"0\"]";
    let set = ["engine.name=rings", one, "limits.connections_max=2000", &route];
    let server = start(&site(), &set);
    let mut uploads: Vec<Upload> = (0..UPLOADS).map(|_| Upload::new(&server)).collect();
    uploads.iter_mut().for_each(Upload::send_ahead);
    let look = |_| {
        thread::sleep(Duration::from_millis(200));
        received(&uploads)
    };
    let most = (0..10).map(look).max().unwrap();
    assert!(most <= BODIES_BYTES_MAX + MULTISHOT_BYTES_MAX + UPLOADS * CLIENT_BYTES_MAX, "{most}");
    let open = |server: &Server| {
        server.counters().iter().map(|it| it.connections_open.get()).fold(0, u64::wrapping_add)
    };
    assert!(comes_true(|| open(&server) < UPLOADS as u64), "none was cut off");
    // Without a reset the server would not learn that they have gone.
    uploads.iter().for_each(|it| os::socket::set_linger_zero(it.stream.as_fd()).unwrap());
}
