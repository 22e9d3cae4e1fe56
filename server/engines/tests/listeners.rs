//! Tests of engines on listeners that were open before them and stay open after them: after the
//! order to stop accepting they serve their connections; after the order to drain they close them;
//! and another engine serves the clients that wait and that come. No connection is reset. Without
//! the usual harness: that runs tests in threads, and some engines fork, which a process with
//! threads cannot.

#[path = "../src/idle.rs"]
mod idle;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use engines::jobs::Runner;
use engines::{
    ConnectionLimit, ENGINES, Engine, EngineSpec, MakeWorker, Order, PartitionStart, Start,
    WorkerStart, find,
};
use os::socket::{Readiness, wait_ready};
use session::Limits;

testkit::one_by_one![
    no_engine_accepts_before_the_order_to_begin,
    connected_clients_are_served_on_and_waiting_ones_by_the_next_engine,
    one_engine_takes_over_from_another_while_clients_come,
];

/// How long to wait for an answer that must not come.
const SILENCE: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(20);

/// All engines that run here, or those named in the environment variable `ROPEWALK_TEST_ENGINES`.
/// Engines that fork come first: afterwards the process may have threads.
fn engines() -> Vec<&'static EngineSpec> {
    let named = std::env::var("ROPEWALK_TEST_ENGINES");
    let mut all: Vec<&EngineSpec> = match &named {
        Ok(names) => names.split(',').map(|name| find(name).expect("an engine's name")).collect(),
        Err(_) => ENGINES.iter().collect(),
    };
    all.retain(|spec| {
        let obstacle = (spec.obstacle)();
        obstacle.iter().for_each(|why| testkit::leave_out(spec.name, why));
        obstacle.is_none()
    });
    let forks = |spec: &EngineSpec| {
        let plan = (spec.plan)(&spec.default_knobs(), 1);
        plan.processes.is_some_and(|processes| processes.single_threaded)
    };
    all.sort_by_key(|spec| !forks(spec));
    all
}

/// A listener that the test keeps open.
struct Door {
    listener: TcpListener,
    address: SocketAddr,
}

impl Door {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        Self { listener, address }
    }

    /// Starts an engine on copies of the listener, and has it accept.
    fn start(&self, spec: &'static EngineSpec) -> Box<dyn Engine> {
        let mut engine = self.ready(spec);
        engine.issue(Order::Begin);
        engine
    }

    /// Starts an engine on copies of the listener.
    fn ready(&self, spec: &'static EngineSpec) -> Box<dyn Engine> {
        let site = idle::directory_site("/");
        let runner = Arc::new(Runner::new(Arc::clone(&site), 0).unwrap());
        let make = idle::maker(site, Limits::default());
        let more: MakeWorker = Arc::new(move || make(None, Arc::default()));
        let knobs = spec.default_knobs();
        let workers = (0..(spec.plan)(&knobs, 1).workers).map(|_| {
            let copy: OwnedFd = self.listener.try_clone().unwrap().into();
            WorkerStart {
                worker: more(),
                cpu: None,
                unpinned_cpus: Arc::default(),
                listeners: vec![copy],
            }
        });
        let workers = workers.collect();
        let start = Start {
            partitions: vec![PartitionStart { cpus: Vec::new(), workers, more }],
            runner,
            open: Arc::default(),
            connections_max: ConnectionLimit::new(200),
            sendfile: spec.sendfile[0],
            exclusive_wakeups: false,
            knobs,
            start_helper: engines::no_helper_processes(),
        };
        (spec.start)(start).unwrap()
    }

    fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client
    }
}

/// Requests a file that does not exist. Returns whether an answer has come, and not the end.
fn is_answered(client: &mut TcpStream) -> bool {
    client.write_all(b"GET /none HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    takes_answer(client)
}

/// Requests the file once more on a connection that may have been closed.
fn is_answered_on(client: &mut TcpStream) -> bool {
    let mut answer = [0; 4096];
    client.write_all(b"GET /none HTTP/1.1\r\nHost: h\r\n\r\n").is_ok()
        && os::uninterrupted(|| client.read(&mut answer))
            .is_ok_and(|n| answer[..n].starts_with(b"HTTP/1.1 404 "))
}

fn takes_answer(client: &mut TcpStream) -> bool {
    let mut answer = [0; 4096];
    match os::uninterrupted(|| client.read(&mut answer)) {
        Ok(n) => answer[..n].starts_with(b"HTTP/1.1 404 "),
        Err(why) => panic!("{why}"),
    }
}

/// Connects until the engine does not accept. Returns the client that waits, which has sent a
/// request.
fn wait_for_silence(door: &Door, name: &str) -> TcpStream {
    for _ in 0..1000 {
        let mut late = door.connect();
        late.set_read_timeout(Some(SILENCE)).unwrap();
        late.write_all(b"GET /none HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        match os::uninterrupted(|| late.read(&mut [0; 4096])) {
            Ok(n) => assert_ne!(n, 0, "{name}: a newcomer is answered or waits"),
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                late.set_read_timeout(Some(PATIENCE)).unwrap();
                return late;
            }
            Err(why) => panic!("{name}: a newcomer: {why}"),
        }
    }
    panic!("{name}: it still accepts");
}

/// Stops an engine and waits for its end, as a server does.
fn end(mut engine: Box<dyn Engine>, name: &str) {
    engine.issue(Order::StopAccepting);
    engine.issue(Order::Drain);
    for _ in 0..4000 {
        assert_eq!(engine.failure(), None, "{name}");
        if engine.is_finished() {
            return engine.join().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{name}: it has not ended in twenty seconds");
}

fn no_engine_accepts_before_the_order_to_begin() {
    for spec in engines() {
        let (name, door) = (spec.name, Door::new());
        let mut engine = door.ready(spec);
        // The listener is the test's as well, which can look whether the client still waits.
        let mut client = door.connect();
        client.write_all(b"GET /none HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        std::thread::sleep(SILENCE);
        let waits = wait_ready(door.listener.as_fd(), Readiness::Readable, 0).unwrap();
        engine.issue(Order::Begin);
        assert!(takes_answer(&mut client), "{name}");
        end(engine, name);
        assert!(waits, "{name}: it was accepted before");
        // One that never begins ends as any other.
        end(door.ready(spec), name);
        println!("{name}: began with the order");
    }
}

fn connected_clients_are_served_on_and_waiting_ones_by_the_next_engine() {
    for spec in engines() {
        // On a busy machine the first engine may accept the client that waits after all.
        testkit::undisturbed(|| check_succession(spec));
        println!("{}: served on, and taken over from", spec.name);
    }
}

/// An error if the client that waited was a client of the first engine.
fn check_succession(spec: &'static EngineSpec) -> Result<(), String> {
    let (name, door) = (spec.name, Door::new());
    let mut first = door.start(spec);
    let mut clients: Vec<TcpStream> = (0..3).map(|_| door.connect()).collect();
    assert!(clients.iter_mut().all(is_answered), "{name}");
    first.issue(Order::StopAccepting);
    assert_eq!(first.failure(), None, "{name}");
    let mut late = wait_for_silence(&door, name);
    for round in 0..5 {
        assert!(clients.iter_mut().all(is_answered), "{name}: round {round} after the stop");
    }
    assert!(!first.is_finished(), "{name}: it has no order to drain");

    let second = door.start(spec);
    assert!(takes_answer(&mut late), "{name}: the client that waited is served by the next");
    assert!(clients.iter_mut().all(is_answered), "{name}: the first still serves its own");
    end(first, name);
    for client in &mut clients {
        assert_eq!(
            os::uninterrupted(|| client.read(&mut [0])).unwrap(),
            0,
            "{name}: an end, and no reset"
        );
    }
    assert!(is_answered(&mut door.connect()), "{name}");
    let is_of_second = is_answered_on(&mut late);
    end(second, name);
    let told = || format!("{name}: the client that waited is closed with the first engine");
    is_of_second.then_some(()).ok_or_else(told)
}

fn one_engine_takes_over_from_another_while_clients_come() {
    const CLIENTS: usize = 60;
    for spec in engines() {
        let (name, door) = (spec.name, Door::new());
        let mut first = door.start(spec);
        let mut second = None;
        let mut clients = Vec::new();
        for number in 0..CLIENTS {
            let mut client = door.connect();
            let request = b"GET /none HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
            client.write_all(request).unwrap();
            clients.push(client);
            match number {
                15 => second = Some(door.start(spec)),
                30 => first.issue(Order::StopAccepting),
                _ => assert_eq!(first.failure(), None, "{name}"),
            }
        }
        for (number, client) in clients.iter_mut().enumerate() {
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap_or_else(|why| {
                panic!("{name}: client {number} of {CLIENTS}: {why}");
            });
            assert!(answer.starts_with("HTTP/1.1 404 "), "{name}: client {number}: {answer:?}");
        }
        end(first, name);
        assert!(is_answered(&mut door.connect()), "{name}");
        end(second.unwrap(), name);
        println!("{name}: taken over from while clients came");
    }
}
