//! How much of what clients send ahead of their answers is received: the rest waits in the kernel.

use std::io::Write;
use std::thread;
use std::time::Duration;

use server::Server;

use crate::harness::{Running, connect, start, take_head};
use crate::knobs::with_knobs;
use crate::overload::{counter, site};
use crate::sender::{Sender, received};

/// Less than what is kept for a client before no more is received, and a receive after that.
const KEPT_BYTES_MAX: usize = (16 << 10) - 1;
const RECEIVED_BYTES_MAX: usize = 5 + (16 << 10) + 256;
/// What the multishot receives of a ring may take before they are cancelled: all of its buffers.
const MULTISHOT_BYTES_MAX: usize = 512 * 4096;

/// A client that takes nothing of a large response.
fn client(server: &Server) -> Sender {
    let mut stream = connect(server);
    stream.write_all(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    take_head(&mut stream);
    Sender::new(stream)
}

fn send_requests(client: &mut Sender) {
    client.send_ahead(&b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".repeat(10_000));
}

/// How many bytes the server has received of each client, when that hardly grows any more.
fn most_received(clients: &[Sender]) -> Vec<usize> {
    let mut most = vec![0; clients.len()];
    for _ in 0..10 {
        thread::sleep(Duration::from_millis(200));
        most = received(clients).into_iter().zip(most).map(|(now, most)| now.max(most)).collect();
    }
    most
}

/// All engines at once: looking at queues takes long where other tests have left connections.
#[test]
fn little_is_received_ahead_of_an_answer() {
    let directory = site();
    let engines = crate::engines().into_iter().map(|spec| spec.name);
    let (served, clients): (Vec<(&str, Running)>, Vec<Sender>) = engines
        .map(|name| {
            let server = start(&directory, &[&format!("engine.name={name}")]);
            let mut client = client(&server);
            send_requests(&mut client);
            ((name, server), client)
        })
        .unzip();
    for ((name, server), received) in served.into_iter().zip(most_received(&clients)) {
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
        let mut clients: Vec<Sender> = (0..CLIENTS).map(|_| client(server)).collect();
        clients.iter_mut().for_each(send_requests);
        let sum: usize = most_received(&clients).iter().sum();
        assert!(
            sum <= MULTISHOT_BYTES_MAX + CLIENTS * (KEPT_BYTES_MAX + RECEIVED_BYTES_MAX),
            "{sum}"
        );
        assert!(counter(server, |c| c.connections_open.get()) < CLIENTS as u64);
        drop(clients);
    });
}
