//! A file that is not in memory, on a disk that does not answer: what happens to requests for files
//! that are in memory. Which engines keep serving them is a promise of the architecture, and which
//! do not is its price; both are asserted by the order of events.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

use server::Server;
use server::config::{Arguments, Config};
use testkit::{StalledDisk, Temporary, comes_true};
use workload::content::Content;

/// What happens to requests that hit memory while another one waits for the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    /// The requests that hit memory are served.
    Go,
    /// The requests that hit memory wait, too.
    Wait,
}

use Others::{Go, Wait};

/// An engine, its settings, and what is promised: while a job reads a file into the cache, and
/// while a file is sent that is not kept in memory.
const MODES: &[(&str, &[&str], [Others; 2])] = &[
    ("event-loop", &[], [Wait, Wait]),
    ("event-loop-per-core", &[], [Wait, Wait]),
    ("event-loop-copies", &[], [Wait, Wait]),
    ("event-loop-shared-listener", &[], [Wait, Wait]),
    ("event-loop-shared-cache", &[], [Wait, Wait]),
    ("event-loop-helpers", &[], [Go, Go]),
    // Helpers run jobs in any case, but fetch what is to be sent only if the kernel is probed
    // first.
    ("event-loop-helpers", &["socket.sendfile=nonblocking"], [Go, Wait]),
    ("event-loop-helpers", &["engine.knobs.kind=processes"], [Go, Go]),
    ("staged", &["engine.knobs.read_threads=1", "engine.knobs.write_threads=1"], [Wait, Wait]),
    ("staged", &["engine.knobs.read_threads=1", "engine.knobs.write_threads=2"], [Wait, Go]),
    ("staged", &["engine.knobs.read_threads=2", "engine.knobs.write_threads=1"], [Go, Wait]),
    ("staged", &["engine.knobs.read_threads=2", "engine.knobs.write_threads=2"], [Go, Go]),
    ("staged", &["engine.knobs.pools=1"], [Go, Go]),
    ("processes", &[], [Go, Go]),
    ("processes", &["engine.knobs.preforked=0"], [Go, Go]),
    ("threads", &[], [Go, Go]),
    ("threads", &["socket.sendfile=nonblocking"], [Go, Go]),
    ("threads-direct", &[], [Go, Go]),
    ("thread-pool", &[], [Go, Go]),
    ("thread-pool", &["engine.knobs.park_idle=0"], [Go, Go]),
    ("thread-pool", &["engine.knobs.threads=1"], [Wait, Wait]),
    ("fibers", &[], [Wait, Wait]),
    ("fibers", &["engine.knobs.blocking_threads=2"], [Go, Go]),
    ("fibers", &["engine.knobs.threads_per_cluster=2"], [Go, Go]),
    ("tasks", &[], [Go, Go]),
    ("tasks", &["engine.knobs.blocking_threads=0"], [Wait, Wait]),
    ("rings", &[], [Wait, Wait]),
    ("rings", &["engine.knobs.helpers=2"], [Go, Wait]),
    ("rings", &["engine.knobs.helpers=2", "socket.sendfile=probe"], [Go, Go]),
];

/// A kind of file that is not in memory.
#[derive(Clone, Copy)]
struct Cold {
    name: &'static str,
    size: usize,
    /// Whether both ends are in memory, and the middle is not, as when memory is short.
    has_ends: bool,
    /// Whether it is sent from the file, and not read by a job before.
    is_sent: bool,
}

/// One file is kept in memory with its head, two are sent from the file, and one is hashed for its
/// tag.
const COLD: [Cold; 4] = [
    Cold { name: "small", size: 20_000, has_ends: false, is_sent: false },
    Cold { name: "large", size: 400_000, has_ends: false, is_sent: true },
    Cold { name: "holed", size: 400_000, has_ends: true, is_sent: true },
    Cold { name: "hashed", size: 400_000, has_ends: false, is_sent: false },
];

/// How many bytes at the beginning and the end of a file are in memory if its ends are.
const ENDS: [usize; 2] = [100_000, 1];

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_stalled_disk_delays_only_the_requests_that_the_architecture_says() {
    let _alone = crate::alone();
    let engines = crate::under_test::engines();
    let is_wanted = |name: &str| engines.iter().any(|spec| spec.name == name);
    for spec in engines.iter().filter(|spec| MODES.iter().all(|mode| mode.0 != spec.name)) {
        println!("{}: nothing is said about a stalled disk", spec.name);
    }
    let tree = Temporary::new();
    tree.file("site/hot.bin", content("hot.bin", 5000));
    let name_of = |cold: Cold, mode: usize| format!("{}-{mode}.bin", cold.name);
    for cold in COLD {
        for mode in 0..MODES.len() {
            let name = name_of(cold, mode);
            tree.file(&format!("site/{name}"), content(&name, cold.size));
        }
    }
    let disk = match StalledDisk::new(tree.path()) {
        Ok(disk) => disk,
        Err(why) => return testkit::skip("engines on a stalled disk", &why),
    };
    let wanted = MODES.iter().enumerate().filter(|(_, mode)| is_wanted(mode.0));
    for (number, (engine, set, others)) in wanted {
        for cold in COLD {
            println!("{engine} {set:?}: {}", cold.name);
            let server = start(&disk, engine, set, cold);
            let round = Round::new(&disk, &server, name_of(cold, number), cold);
            match others[usize::from(cold.is_sent)] {
                Go => round.hot_is_served(),
                Wait => round.hot_waits(),
            }
            server.stop_gracefully(PATIENCE).unwrap();
        }
    }
}

/// A change waits neither for a job of the former engine nor for what that sends, and the new
/// engine serves meanwhile. When the disk goes on, the former one finishes what it has.
#[test]
fn what_waits_for_a_disk_outlives_a_change() {
    let _alone = crate::alone();
    let engines = crate::under_test::engines();
    let tree = Temporary::new();
    tree.file("site/hot.bin", content("hot.bin", 5000));
    let name_of = |cold: Cold, engine: &str| format!("{}-{engine}.bin", cold.name);
    let kinds = [COLD[0], COLD[1]];
    for cold in kinds {
        for spec in &engines {
            let name = name_of(cold, spec.name);
            tree.file(&format!("site/{name}"), content(&name, cold.size));
        }
    }
    let disk = match StalledDisk::new(tree.path()) {
        Ok(disk) => disk,
        Err(why) => return testkit::skip("changes on a stalled disk", &why),
    };
    let patient = ["timeouts.drain_ms=600000"];
    for cold in kinds {
        let Some(first) = engines.first() else { return };
        let mut server = start(&disk, first.name, &patient, cold);
        let next = engines.iter().cycle().skip(1);
        for (former, new) in engines.iter().zip(next) {
            println!("from {} to {}: {}", former.name, new.name, cold.name);
            let round = Round::new(&disk, &server, name_of(cold, former.name), cold);
            let Round { mut hot, cold: mut waits, name, size, .. } = round;
            let config = config(&disk, new.name, &patient, cold);
            thread::scope(|scope| {
                let changing = scope.spawn(|| server.change(&config).unwrap());
                let is_done = comes_true(|| changing.is_finished());
                if !is_done {
                    disk.gate().open(); // it ends
                }
                assert!(is_done, "it waits for the disk");
            });
            for _ in 0..4 {
                let mut arrives = connect(server.addresses()[0]);
                send_request(&mut arrives, "hot.bin");
                answer(&mut arrives, "hot.bin", 5000);
            }
            disk.gate().open();
            let is_last = answer(&mut waits, &name, size);
            for client in [&mut hot, &mut waits].into_iter().take(2 - usize::from(is_last)) {
                send_request(client, "hot.bin");
                answer(client, "hot.bin", 5000);
            }
        }
        server.stop_gracefully(PATIENCE).unwrap();
    }
}

fn content(name: &str, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    Content::for_path(name.as_bytes()).fill(0, &mut bytes);
    bytes
}

fn start(disk: &StalledDisk, engine: &str, set: &[&str], cold: Cold) -> Server {
    Server::start(&config(disk, engine, set, cold)).unwrap()
}

fn config(disk: &StalledDisk, engine: &str, set: &[&str], cold: Cold) -> Config {
    let hashed = if cold.is_sent { "host.etag_hash_bytes_max=0" } else { "host.listing=false" };
    let every = ["partitions.cpus=[\"0\"]", hashed];
    let set = set.iter().chain(&every).map(ToString::to_string);
    let arguments = Arguments {
        directory: Some(disk.root().join("site")),
        listen: vec!["127.0.0.1:0".into()],
        engine: Some(engine.into()),
        set: set.chain(crate::under_test::knobs()).collect(),
        ..Arguments::default()
    };
    crate::under_test::load(&arguments).unwrap()
}

/// One request for a cold file while the gate is closed.
struct Round<'d> {
    disk: &'d StalledDisk,
    server: &'d Server,
    hot: TcpStream,
    cold: TcpStream,
    name: String,
    size: usize,
}

impl<'d> Round<'d> {
    /// Begins a round: the hot file is in memory, the disk stalls, and the server needs a cold
    /// file.
    fn new(disk: &'d StalledDisk, server: &'d Server, name: String, kind: Cold) -> Self {
        let address = server.addresses()[0];
        let mut hot = connect(address);
        send_request(&mut hot, "hot.bin");
        answer(&mut hot, "hot.bin", 5000);
        // The status of the file is in memory; its content is not.
        let path = disk.root().join("site").join(&name);
        fs::metadata(&path).unwrap();
        if kind.has_ends {
            read_ends(&path);
        }
        disk.gate().close();
        let mut cold = connect(address);
        send_request(&mut cold, &name);
        disk.gate().await_visitor(PATIENCE);
        Self { disk, server, hot, cold, name, size: kind.size }
    }

    fn hot_is_served(mut self) {
        for mut hot in [connect(self.server.addresses()[0]), self.hot] {
            send_request(&mut hot, "hot.bin");
            answer(&mut hot, "hot.bin", 5000);
        }
        self.disk.gate().open();
        answer(&mut self.cold, &self.name, self.size);
    }

    fn hot_waits(mut self) {
        // A stage may count the first answer after its client has it.
        assert!(comes_true(|| self.requests() == 1), "{}: {}", self.name, self.requests());
        send_request(&mut self.hot, "hot.bin");
        // Time for an answer that must not come. How long it is does not affect whether one comes.
        thread::sleep(Duration::from_millis(100));
        self.hot.set_nonblocking(true).unwrap();
        let early = self.hot.read(&mut [0; 16]).unwrap_err();
        assert_eq!(early.kind(), ErrorKind::WouldBlock, "{}", self.name);
        assert_eq!(self.requests(), 1, "{}: nothing was answered", self.name);
        self.hot.set_nonblocking(false).unwrap();
        self.disk.gate().open();
        answer(&mut self.cold, &self.name, self.size);
        answer(&mut self.hot, "hot.bin", 5000);
    }

    fn requests(&self) -> u64 {
        self.server.counters().iter().map(|counters| counters.requests.get()).sum()
    }
}

/// Reads the ends of a file into memory, and nothing between them.
fn read_ends(path: &Path) {
    let mut file = File::open(path).unwrap();
    os::files::advise_random(file.as_fd()).unwrap();
    file.read_exact(&mut [0; ENDS[0]]).unwrap();
    file.seek(SeekFrom::End(-(ENDS[1] as i64))).unwrap();
    file.read_exact(&mut [0; ENDS[1]]).unwrap();
    let len = file.metadata().unwrap().len();
    let resident = os::files::resident_bytes(file.as_fd(), len).unwrap() as usize;
    assert!((ENDS[0]..2 * ENDS[0]).contains(&resident), "{resident} bytes are in memory");
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn send_request(stream: &mut TcpStream, name: &str) {
    let request = format!("GET /{name} HTTP/1.1\r\nHost: h\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
}

/// Reads a whole response and checks its bytes. Returns whether it says that it is the last.
fn answer(stream: &mut TcpStream, name: &str, size: usize) -> bool {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap_or_else(|why| panic!("{name}: {why}"));
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 200 "), "{name}: {}", String::from_utf8_lossy(&head));
    let mut body = vec![0; size];
    stream.read_exact(&mut body).unwrap_or_else(|why| panic!("{name}: {why}"));
    Content::for_path(name.as_bytes())
        .check(0, &body)
        .unwrap_or_else(|why| panic!("{name}: {why:?}"));
    String::from_utf8_lossy(&head).contains("\r\nConnection: close\r\n")
}
