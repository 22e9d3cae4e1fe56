//! A file that is not in memory, on a disk that does not answer: what becomes of requests for files
//! that are in memory. Which engines keep serving them is a promise of the architecture, and which
//! do not is its price; both are asserted by the order of events.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use server::Server;
use server::config::Arguments;
use testkit::{StalledDisk, Temporary};
use workload::content::Content;

/// Engines in which a request that hits memory never waits behind one that misses.
const SERVES: &[&str] = &["tasks"];

/// Engines in which everybody waits for the disk.
const STALLS: &[&str] = &["event-loop", "event-loop-per-core"];

/// What is kept in memory with its head, and read by a job; what is sent from the file.
const COLD: [(&str, usize); 2] = [("small", 20_000), ("large", 400_000)];

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_stalled_disk_delays_only_whom_the_architecture_says() {
    let _alone = crate::alone();
    let engines = crate::under_test::engines();
    let tree = Temporary::new();
    tree.file("site/hot.bin", content("hot.bin", 5000));
    for spec in &engines {
        for (kind, size) in COLD {
            let name = format!("{kind}-{}.bin", spec.name);
            tree.file(&format!("site/{name}"), content(&name, size));
        }
    }
    let disk = match StalledDisk::new(tree.path()) {
        Ok(disk) => disk,
        Err(why) => return println!("skipped {} engines on a stalled disk: {why}", engines.len()),
    };
    for spec in &engines {
        for (kind, size) in COLD {
            let name = format!("{kind}-{}.bin", spec.name);
            let server = start(&disk, spec.name);
            let round = Round::new(&disk, &server, name, size);
            if SERVES.contains(&spec.name) {
                round.hot_is_served();
            } else if STALLS.contains(&spec.name) {
                round.hot_waits();
            } else {
                println!("{}: nothing is said about a stalled disk", spec.name);
                disk.gate().open();
            }
            server.stop_gracefully(PATIENCE).unwrap();
        }
    }
}

fn content(name: &str, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    Content::of(name.as_bytes()).fill(0, &mut bytes);
    bytes
}

fn start(disk: &StalledDisk, engine: &str) -> Server {
    let set = [format!("engine.name={engine}"), "partitions.cpus=[\"0\"]".into()];
    let arguments = Arguments {
        directory: Some(disk.root().join("site")),
        listen: vec!["127.0.0.1:0".into()],
        set: set.into_iter().chain(crate::under_test::knobs()).collect(),
        ..Arguments::default()
    };
    Server::start(&crate::under_test::load(&arguments).unwrap()).unwrap()
}

/// One cold file, asked for while the gate is closed.
struct Round<'d> {
    disk: &'d StalledDisk,
    server: &'d Server,
    hot: TcpStream,
    cold: TcpStream,
    name: String,
    size: usize,
}

impl<'d> Round<'d> {
    /// Begins it: the hot file is in memory, the disk stalls, and the server wants a cold file.
    fn new(disk: &'d StalledDisk, server: &'d Server, name: String, size: usize) -> Self {
        let address = server.addresses()[0];
        let mut hot = connect(address);
        ask(&mut hot, "hot.bin");
        answer(&mut hot, "hot.bin", 5000);
        disk.gate().close();
        let mut cold = connect(address);
        ask(&mut cold, &name);
        disk.gate().await_visitor(PATIENCE);
        Self { disk, server, hot, cold, name, size }
    }

    fn hot_is_served(mut self) {
        for mut hot in [connect(self.server.addresses()[0]), self.hot] {
            ask(&mut hot, "hot.bin");
            answer(&mut hot, "hot.bin", 5000);
        }
        self.disk.gate().open();
        answer(&mut self.cold, &self.name, self.size);
    }

    fn hot_waits(mut self) {
        let requests = || -> u64 {
            self.server.counters().iter().map(|counters| counters.requests.get()).sum()
        };
        let before = requests();
        ask(&mut self.hot, "hot.bin");
        // Time for an answer that must not come; that none comes is not a matter of how long.
        thread::sleep(Duration::from_millis(200));
        self.hot.set_nonblocking(true).unwrap();
        let early = self.hot.read(&mut [0; 16]).unwrap_err();
        assert_eq!(early.kind(), ErrorKind::WouldBlock, "{}", self.name);
        assert_eq!(requests(), before, "{}: nothing was answered", self.name);
        self.hot.set_nonblocking(false).unwrap();
        self.disk.gate().open();
        answer(&mut self.cold, &self.name, self.size);
        answer(&mut self.hot, "hot.bin", 5000);
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn ask(stream: &mut TcpStream, name: &str) {
    let request = format!("GET /{name} HTTP/1.1\r\nHost: h\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
}

/// Reads a whole response and checks its bytes.
fn answer(stream: &mut TcpStream, name: &str, size: usize) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap_or_else(|why| panic!("{name}: {why}"));
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 200 "), "{name}: {}", String::from_utf8_lossy(&head));
    let mut body = vec![0; size];
    stream.read_exact(&mut body).unwrap_or_else(|why| panic!("{name}: {why}"));
    Content::of(name.as_bytes()).check(0, &body).unwrap_or_else(|why| panic!("{name}: {why:?}"));
}
