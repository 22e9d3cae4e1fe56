//! How far bodies may be ahead of an application that takes nothing.

use std::io::Write;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use server::Server;
use testkit::comes_true;

use crate::harness::{connect, site, start};
use crate::sender::{Sender, received};
use crate::under_test::engines;

/// What the multishot receives of a ring may take before they are cancelled: all of its buffers.
const MULTISHOT_BYTES_MAX: usize = 512 * 4096;
/// What is kept for a client before no more is received, and a receive after that.
const CLIENT_BYTES_MAX: usize = (16 << 10) + 5 + (16 << 10) + 256;

/// A client that sends a body.
fn upload(server: &Server) -> Sender {
    let mut stream = connect(server);
    let head = b"POST /app HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n";
    stream.write_all(head).unwrap();
    Sender::new(stream)
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
    let mut uploads: Vec<Sender> = (0..UPLOADS).map(|_| upload(&server)).collect();
    uploads.iter_mut().for_each(|upload| upload.send_ahead(&[b'x'; 250_000]));
    let look = |_| {
        thread::sleep(Duration::from_millis(200));
        received(&uploads).into_iter().sum()
    };
    let most: usize = (0..10).map(look).max().unwrap();
    assert!(most <= BODIES_BYTES_MAX + MULTISHOT_BYTES_MAX + UPLOADS * CLIENT_BYTES_MAX, "{most}");
    let open = |server: &Server| {
        server.counters().iter().map(|it| it.connections_open.get()).fold(0, u64::wrapping_add)
    };
    assert!(comes_true(|| open(&server) < UPLOADS as u64), "none was cut off");
    // Without a reset the server would not learn that they have gone.
    uploads.iter().for_each(|it| os::socket::set_linger_zero(it.stream.as_fd()).unwrap());
}
