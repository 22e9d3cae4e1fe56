//! All clients of a storm in one thread: their actions are drawn from one seeded sequence.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use os::epoll::{Epoll, Event, EventBuffer, Interest};
use statistics::Generator;

use crate::client::{Client, End, Wanted};

/// How many bytes a reader takes at once that is slow on purpose.
const SIP_BYTES: usize = 2048;

/// The least results of a storm, in answers and in connections that clients broke off: on a busy
/// machine it takes longer than it is meant to.
const ANSWERED_MIN: u64 = 2000;
const ABORTED_MIN: u64 = 50;

/// The time after which every requested response must have arrived.
const PATIENCE_US: u64 = 60_000_000;

/// What the clients have seen.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) connected: u64,
    pub(crate) requests: Requests,
    pub(crate) body_bytes: u64,
    /// Connections that clients broke off.
    pub(crate) aborted: u64,
    /// Connections that the server closed between two responses without a word.
    pub(crate) dismissed: u64,
    /// Connections that it closed after a response that said so.
    pub(crate) told: u64,
    pub(crate) failures: Vec<String>,
}

/// The requests that were sent, by their numbers: whether the response has arrived whole.
#[derive(Default)]
pub(crate) struct Requests(Vec<bool>);

impl Requests {
    /// Adds one. Returns its number.
    fn add(&mut self) -> usize {
        self.0.push(false);
        self.0.len() - 1
    }

    fn answer(&mut self, number: usize) {
        self.0[number] = true;
    }

    pub(crate) fn sent(&self) -> u64 {
        self.0.len() as u64
    }

    pub(crate) fn answered(&self) -> u64 {
        self.are_answered().filter(|is_answered| *is_answered).count() as u64
    }

    /// Whether each was answered, in the order of their numbers.
    pub(crate) fn are_answered(&self) -> impl Iterator<Item = bool> {
        self.0.iter().copied()
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sent, {} answered", self.sent(), self.answered())
    }
}

/// All clients of a storm, driven by one thread through one epoll set.
pub(crate) struct Swarm {
    address: SocketAddr,
    files: Vec<(String, usize)>,
    clients: Vec<Client>,
    random: Generator,
    epoll: Epoll,
    /// The times at which clients are woken, each with the client's index and its generation.
    wakes: BinaryHeap<Reverse<(u64, usize, u32)>>,
    buffer: Vec<u8>,
    is_storming: bool,
    is_stopping: bool,
    tally: Tally,
}

impl Swarm {
    pub(crate) fn new(
        address: SocketAddr,
        files: &[(String, usize)],
        clients: usize,
        seed: u64,
    ) -> Self {
        Self {
            address,
            files: files.to_vec(),
            clients: (0..clients).map(|_| Client::new()).collect(),
            random: Generator::new(seed),
            epoll: Epoll::new().unwrap(),
            wakes: BinaryHeap::new(),
            buffer: vec![0; 128 << 10],
            is_storming: true,
            is_stopping: false,
            tally: Tally::default(),
        }
    }

    /// Runs the storm until it is over, and until it has the least results.
    pub(crate) fn storm(&mut self, is_over: &AtomicBool) {
        (0..self.clients.len()).for_each(|index| self.connect(index));
        self.turn_until(u64::MAX, |_| is_over.load(Ordering::Acquire));
        let is_enough = |s: &mut Self| {
            s.tally.requests.answered() >= ANSWERED_MIN && s.tally.aborted >= ABORTED_MIN
        };
        self.turn_until(os::clock::now() + PATIENCE_US, is_enough);
        if !is_enough(self) {
            let Tally { requests, aborted, .. } = &self.tally;
            let failure = format!("in a minute only {requests:?}, {aborted} broken off");
            self.tally.failures.push(failure);
        }
        self.is_storming = false;
    }

    /// Sends no more requests and waits for open ones. Then every other client rests on its open
    /// connection, unless clients are waiting for a place.
    pub(crate) fn settle(&mut self) {
        let start = os::clock::now();
        self.turn_until(start + PATIENCE_US, |s| {
            let is_late = os::clock::now() > start + 2_000_000;
            for (index, client) in s.clients.iter_mut().enumerate() {
                if client.is_resting() && (index % 2 == 0 || is_late) {
                    client.close();
                }
            }
            s.clients.iter().all(|client| client.socket.is_none() || client.is_resting())
        });
        let waiting = self.clients.iter().filter(|client| !client.wanted.is_empty()).count();
        if waiting > 0 {
            self.tally.failures.push(format!("{waiting} clients wait for an answer"));
        }
        self.is_stopping = true;
    }

    /// Lets the server close what is open until it has ended.
    pub(crate) fn rest_until(mut self, is_stopped: &AtomicBool) -> Tally {
        self.turn_until(u64::MAX, |_| is_stopped.load(Ordering::Acquire));
        self.tally
    }

    fn turn_until(&mut self, deadline: u64, mut is_over: impl FnMut(&mut Self) -> bool) {
        let mut events = EventBuffer::with_capacity(512);
        while !is_over(self) && os::clock::now() < deadline && self.tally.failures.len() < 10 {
            self.epoll.wait(&mut events, Some(5)).unwrap();
            for event in events.iter() {
                self.handle(event);
            }
            let now = os::clock::now();
            while let Some(Reverse((at, index, generation))) = self.wakes.peek().copied()
                && at <= now
            {
                self.wakes.pop();
                if self.clients[index].generation == generation {
                    self.wake(index);
                }
            }
        }
    }

    fn handle(&mut self, event: Event) {
        let (index, generation) = (event.key as u32 as usize, (event.key >> 32) as u32);
        let client = &mut self.clients[index];
        if client.generation != generation || client.socket.is_none() {
            return; // an event of an earlier connection
        }
        if !client.is_connected {
            let socket = client.socket.as_ref().expect("it was just looked at").as_fd();
            match os::socket::take_error(socket) {
                Ok(None) if event.writable => {
                    client.is_connected = true;
                    self.tally.connected += 1;
                    if self.is_storming {
                        self.start_action(index);
                    }
                }
                Ok(None) => {}
                other => return self.fail(index, &format!("connecting: {other:?}")),
            }
        }
        if event.readable || event.hangup || event.error {
            self.receive(index);
        }
    }

    fn connect(&mut self, index: usize) {
        let socket = match os::socket::connect_start(self.address, None) {
            Ok(socket) => socket,
            Err(why) => return self.fail(index, &format!("connecting: {why}")),
        };
        let client = &mut self.clients[index];
        let key = u64::from(client.generation) << 32 | index as u64;
        let interest =
            Interest::READ.with(Interest::WRITE).with(Interest::RDHUP).with(Interest::EDGE);
        self.epoll.add(socket.as_fd(), interest, key).unwrap();
        client.socket = Some(socket);
    }

    /// Starts the next action of a client.
    fn start_action(&mut self, index: usize) {
        self.clients[index].received = 0;
        match self.random.below(100) {
            0..3 => return self.stammer(index),
            3..9 => self.clients[index].end = End::Reset(self.random.below(100_000) as u64),
            9..15 => self.clients[index].end = End::Vanish(self.random.below(100_000) as u64),
            15..20 => self.clients[index].end = End::HalfClosed,
            20..30 => self.clients[index].is_slow = true,
            _ => {}
        }
        let count = if self.random.below(10) == 0 { 1 + self.random.below(5) } else { 1 };
        let requests: String = (0..count).map(|_| self.want(index)).collect();
        self.send(index, requests.as_bytes());
        match self.clients[index].end {
            End::Reset(_) | End::Vanish(_) => self.wake_within(index, 200_000),
            End::HalfClosed => self.shut(index),
            End::Open => {}
        }
    }

    /// Sends the beginning of a request, and then a reset or the end of the stream.
    fn stammer(&mut self, index: usize) {
        self.send(index, b"GET /somewhere HTTP/1.1\r\nHo");
        if self.random.below(2) == 0 {
            self.clients[index].end = End::HalfClosed;
            return self.shut(index);
        }
        self.clients[index].end = End::Reset(u64::MAX);
        self.wake_within(index, 50_000);
    }

    /// Chooses a file or a range of it. Returns the request.
    fn want(&mut self, index: usize) -> String {
        let (name, size) = self.files[self.random.below(self.files.len())].clone();
        let is_range = size > 1 && self.random.below(4) == 0;
        let from = if is_range { self.random.below(size) } else { 0 };
        let len = if is_range { 1 + self.random.below(size - from) } else { size };
        let range = match is_range {
            true => format!("Range: bytes={from}-{}\r\n", from + len - 1),
            false => String::new(),
        };
        let number = self.tally.requests.add();
        let request = format!("GET /{name}?{number} HTTP/1.1\r\nHost: h\r\n{range}\r\n");
        let wanted = Wanted { number, name, from: from as u64, len: len as u64, is_range };
        self.clients[index].wanted.push_back(wanted);
        request
    }

    fn send(&mut self, index: usize, bytes: &[u8]) {
        let Some(socket) = &self.clients[index].socket else { return };
        match os::send::send(socket.as_fd(), bytes, false) {
            Ok(n) if n == bytes.len() => {}
            // The server may have closed the connection meanwhile: the next receive reports it.
            Err(why)
                if matches!(why.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {}
            other => self.fail(index, &format!("sending: {other:?}")),
        }
    }

    fn shut(&mut self, index: usize) {
        if let Some(socket) = &self.clients[index].socket {
            let _ = os::socket::shutdown_write(socket.as_fd()); // may be closed
        }
    }

    fn receive(&mut self, index: usize) {
        let generation = self.clients[index].generation;
        loop {
            let client = &mut self.clients[index];
            if client.generation != generation {
                return; // the received bytes have ended the connection
            }
            let Some(socket) = &client.socket else { return };
            let is_slow = client.is_slow && self.is_storming;
            let room = if is_slow { SIP_BYTES } else { self.buffer.len() };
            match os::send::recv(socket.as_fd(), &mut self.buffer[..room]) {
                Ok(0) => return self.ended(index, "the end"),
                Ok(n) => self.take(index, n),
                Err(why) if why.kind() == ErrorKind::WouldBlock => return,
                Err(why) => return self.ended(index, &why.to_string()),
            }
            if is_slow {
                return self.wake_within(index, 20_000);
            }
        }
    }

    fn take(&mut self, index: usize, n: usize) {
        let client = &mut self.clients[index];
        match client.take(&self.buffer[..n]) {
            Ok(progress) => {
                progress.answered.into_iter().for_each(|number| self.tally.requests.answer(number));
                self.tally.body_bytes += progress.body_bytes;
            }
            Err(why) => return self.fail(index, &why),
        }
        let client = &mut self.clients[index];
        if let End::Reset(after) | End::Vanish(after) = client.end
            && client.received >= after
        {
            return self.abort(index);
        }
        if client.wanted.is_empty() && client.end == End::Open {
            client.is_slow = false;
            self.wake_within(index, 200_000);
        }
    }

    /// Handles the end of a connection that the server has closed.
    fn ended(&mut self, index: usize, how: &str) {
        let client = &self.clients[index];
        let is_wanted = client.end == End::HalfClosed && client.wanted.is_empty();
        if !is_wanted && !self.is_stopping {
            if !client.is_between_responses() {
                let wanted = client.wanted.front().map(|wanted| &wanted.name);
                let why = format!("{how} in the middle of {wanted:?}");
                return self.fail(index, &why);
            }
            match client.is_told {
                true => self.tally.told += 1,
                false => self.tally.dismissed += 1,
            }
        }
        self.leave(index);
    }

    fn wake_within(&mut self, index: usize, us: usize) {
        let at = os::clock::now() + self.random.below(us) as u64;
        self.wakes.push(Reverse((at, index, self.clients[index].generation)));
    }

    /// Wakes a client: one that rests requests, one that is slow reads on, one that is to break off
    /// does.
    fn wake(&mut self, index: usize) {
        let client = &self.clients[index];
        match client.end {
            End::Reset(_) | End::Vanish(_) => self.abort(index),
            End::Open if client.is_resting() && self.is_storming => self.start_action(index),
            End::Open | End::HalfClosed if client.socket.is_some() => self.receive(index),
            End::Open | End::HalfClosed => {}
        }
    }

    fn abort(&mut self, index: usize) {
        let client = &self.clients[index];
        if let (End::Reset(_), Some(socket)) = (client.end, &client.socket) {
            let _ = os::socket::set_linger_zero(socket.as_fd()); // else an orderly close
        }
        self.tally.aborted += 1;
        self.leave(index);
    }

    fn fail(&mut self, index: usize, why: &str) {
        self.tally.failures.push(format!("client {index}: {why}"));
        self.leave(index);
    }

    /// Closes the connection, and opens another while the storm lasts.
    fn leave(&mut self, index: usize) {
        self.clients[index].close();
        if self.is_storming && self.tally.failures.len() < 10 {
            self.connect(index);
        }
    }
}
