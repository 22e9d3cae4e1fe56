//! Changes from each engine to each with clients where they are easily lost: in the queue of a
//! listener, in the handshake, and a moment before their time is over.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use ::engines::EngineSpec;
use server::Server;
use server::config::Config;
use testkit::sockets::{SYN_RECEIVED, TcpSocket, tcp_sockets};
use testkit::{Temporary, circuit, undisturbed, wait_until};

use crate::engines;
use crate::harness::{Running, config, connect, for_each_engine, site, take_head};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const PAGE: &[u8] = b"<h1>Rope</h1>";

/// Configurations of each engine with these settings.
fn of_each_engine(directory: &Temporary, set: &[&str]) -> Vec<Config> {
    let with = |name: &str| {
        let engine = format!("engine.name={name}");
        // What cannot be moved may take its time.
        config(directory, &[&[&*engine, "timeouts.drain_ms=600000"], set].concat())
    };
    engines().iter().map(|spec| with(spec.name)).collect()
}

/// The index of an engine among those under test.
fn index_of(spec: &EngineSpec) -> usize {
    engines().iter().position(|it| it.name == spec.name).expect("it is under test")
}

/// Each engine's index after the first, so that each follows each.
fn changes(count: usize) -> impl Iterator<Item = usize> {
    circuit(count).into_iter().skip(1).chain([0])
}

/// The number of connections that wait to be accepted at a port.
fn in_queue(port: u16) -> usize {
    let listeners = tcp_sockets().into_iter().filter(|it| it.local_port == port);
    listeners.filter(|it| it.remote_port == 0).map(|it| it.unread).sum()
}

fn asks(server: &Server, request: &[u8]) -> TcpStream {
    let mut client = connect(server);
    client.write_all(request).unwrap();
    client
}

fn is_answered(mut client: TcpStream) {
    let head = String::from_utf8(take_head(&mut client)).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let mut body = vec![0; PAGE.len()];
    client.read_exact(&mut body).unwrap();
    assert_eq!(body, PAGE);
}

/// Clients of a server that has two places: those that have them, and those that wait in the queue
/// of its listener.
struct Queue {
    served: [TcpStream; 2],
    waiting: [TcpStream; Self::WAITING],
}

impl Queue {
    const WAITING: usize = 5;

    /// A site with a file that no socket takes at once.
    fn site() -> Temporary {
        let directory = site();
        directory.file("site/large", vec![b'x'; 8 << 20]);
        directory
    }

    /// Configurations of each engine with so many places.
    fn configs(directory: &Temporary, places: usize) -> Vec<Config> {
        let places = format!("limits.connections_max={places}");
        // One worker, so that there is one queue.
        let set = [&*places, "socket.defer_accept_s=0", "partitions.cpus=[\"0\"]"];
        of_each_engine(directory, &set)
    }

    fn place(server: &Server) -> Self {
        let served = [(); 2].map(|()| {
            let mut client = asks(server, b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
            take_head(&mut client);
            client
        });
        let waiting = [(); Self::WAITING].map(|()| asks(server, GET));
        // A ring takes one from the queue before there is room for it.
        wait_until(|| in_queue(server.addresses()[0].port()) >= Self::WAITING - 1);
        Self { served, waiting }
    }
}

#[test]
fn clients_in_the_queue_of_a_listener_are_answered() {
    let directory = Queue::site();
    let [two, more] = [2, 100].map(|places| Queue::configs(&directory, places));
    let Some(first) = two.first() else { return };
    let mut server = Running::start(first);
    for index in changes(two.len()) {
        println!("to {}", engines()[index].name);
        let queue = Queue::place(&server);
        server.change(&more[index]).unwrap();
        queue.waiting.into_iter().for_each(is_answered);
        drop(queue.served);
        server.change(&two[index]).unwrap();
    }
}

/// Only the workers that leave take them, when they have room.
#[test]
fn clients_in_the_queue_of_an_address_that_goes_are_answered() {
    let directory = Queue::site();
    let mut elsewhere = config(&directory, &["engine.name=event-loop"]);
    elsewhere.settings.listen = vec!["127.0.0.2:0".parse().unwrap()];
    let configs = Queue::configs(&directory, 2);
    for_each_engine(|spec| {
        let mut server = Running::start(&configs[index_of(spec)]);
        let queue = Queue::place(&server);
        server.change(&elsewhere).unwrap();
        drop(queue.served);
        queue.waiting.into_iter().for_each(is_answered);
    });
}

/// The kernel keeps a client in the handshake until its first bytes come.
#[test]
fn clients_in_the_handshake_are_answered() {
    const CLIENTS: usize = 4;
    const DEFERRED: &str = "socket.defer_accept_s=60";
    let directory = site();
    let mut configs = of_each_engine(&directory, &[DEFERRED]);
    let mut order: Vec<usize> = changes(configs.len()).collect();
    let Some(first) = configs.first() else { return };
    let mut server = Running::start(first);
    // More listeners at the address, and fewer workers than listeners.
    for workers in [1, 3, 1] {
        order.push(configs.len());
        let workers = format!("engine.knobs.workers={workers}");
        configs.push(config(&directory, &["engine.name=event-loop-per-core", &workers, DEFERRED]));
    }
    for index in order {
        let clients = [(); CLIENTS].map(|()| connect(&server));
        let ports = clients.each_ref().map(|client| client.local_addr().unwrap().port());
        let is_one = |socket: &&TcpSocket| {
            socket.state == SYN_RECEIVED && ports.contains(&socket.remote_port)
        };
        wait_until(|| tcp_sockets().iter().filter(is_one).count() == CLIENTS);
        server.change(&configs[index]).unwrap();
        for mut client in clients {
            client.write_all(GET).unwrap();
            is_answered(client);
        }
    }
}

/// The time of clients, in microseconds: usually, and where so little is not to be kept because the
/// machine does other work.
const TIMES_US: [u64; 2] = [400_000, 4_000_000];

/// How many times it is tried with little time.
const SHORT_ATTEMPTS: usize = 5;

/// How much of their time is left when the server changes.
const LEFT_US: u64 = 5_000;

/// Clients whose time is nearly over.
struct Late {
    time_us: u64,
    began_us: u64,
    /// Half a request has come, and the rest comes during the change.
    in_time: TcpStream,
    /// Half a request has come, and no more.
    cut_off: TcpStream,
    /// It rests after an answer.
    resting: TcpStream,
}

impl Late {
    const BEGIN: usize = 20;

    fn place(server: &Server, time_us: u64) -> Self {
        let began_us = os::clock::now();
        let mut clients = [(); 3].map(|()| connect(server));
        clients[..2].iter_mut().for_each(|client| client.write_all(&GET[..Self::BEGIN]).unwrap());
        clients[2].write_all(GET).unwrap();
        is_answered(clients[2].try_clone().unwrap());
        let [in_time, cut_off, resting] = clients;
        Self { time_us, began_us, in_time, cut_off, resting }
    }

    /// Changes the server a moment before the time of these clients is over.
    fn change(mut self, server: &mut Server, config: &Config) -> Result<(), String> {
        wait_until(|| self.passed_us() >= self.time_us - LEFT_US);
        thread::scope(|scope| {
            scope.spawn(|| server.change(config).unwrap());
            let sent = self.in_time.write_all(&GET[Self::BEGIN..]);
            let is_there = sent.and_then(|()| self.in_time.peek(&mut [0]));
            is_there.map_err(|why| format!("the rest of a request has come too late: {why}"))?;
            let head = String::from_utf8(take_head(&mut self.in_time)).unwrap();
            if !head.starts_with("HTTP/1.1 200 ") {
                return Err(format!("the rest of a request has come too late: {head}"));
            }
            let head = String::from_utf8(take_head(&mut self.cut_off)).unwrap();
            assert!(head.starts_with("HTTP/1.1 408 "), "{head}");
            self.is_in_time("half a request is given up")?;
            assert_eq!(self.resting.read(&mut [0]).unwrap(), 0);
            self.is_in_time("a client at rest is closed")
        })
    }

    fn passed_us(&self) -> u64 {
        os::clock::now() - self.began_us
    }

    /// Whether a worker has found out in time that a client's time is over. If that began anew with
    /// the change, it would be over as late again.
    fn is_in_time(&self, what: &str) -> Result<(), String> {
        let passed_us = self.passed_us();
        assert!(passed_us >= self.time_us, "{what} after {passed_us} us");
        match passed_us < self.time_us + self.time_us / 4 * 3 {
            true => Ok(()),
            false => Err(format!("{what} after {passed_us} us")),
        }
    }
}

#[test]
fn clients_have_the_time_that_is_left_and_no_more() {
    let directory = site();
    let configs = TIMES_US.map(|us| {
        let [head, idle] = ["head", "idle"].map(|it| format!("timeouts.{it}_ms={}", us / 1000));
        of_each_engine(&directory, &[&head, &idle, "socket.defer_accept_s=0"])
    });
    for_each_engine(|spec| {
        let from = index_of(spec);
        let mut server = Running::start(&configs[0][from]);
        for to in 0..configs[0].len() {
            let mut attempts = 0;
            undisturbed(|| {
                let which = usize::from(attempts >= SHORT_ATTEMPTS);
                attempts += 1;
                server.change(&configs[which][from]).unwrap();
                Late::place(&server, TIMES_US[which]).change(&mut server, &configs[which][to])
            });
        }
    });
}
