//! The least a static server can do, as the yardstick of the benchmarks: one thread, an
//! edge-triggered epoll loop, answers prepared at the start.
//!
//! It parses nothing: whatever ends in an empty line is a request, and its path, or the digits
//! after the path's last slash, say which answer it gets. It is not a web server: it believes its
//! client, never looks at a file again, and answers nothing but GET.

#![forbid(unsafe_code)]

mod answer;

use answer::Answers;
use os::epoll::{Epoll, EventBuffer, Interest};
use os::send::{recv, send, sendfile};
use os::socket::{self, ListenOptions};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::ExitCode;

const HELP: &str =
    "floor --listen ADDRESS --root FOLDER --paths FILE --head FILE [--connection close]

  --paths FILE    the paths to serve, one a line; where they are numbered, a request for .../7.txt
                  gets the 7th from 0 without a look at the rest
  --head FILE     the head of every answer; its Content-Length is corrected
";

/// Descriptors are indices here, so this is also the most connections there can be.
const DESCRIPTORS_MAX: usize = 65_536;

/// The listener's key; no connection has it.
const LISTENER: u64 = u64::MAX;

/// Bytes of a request that are received at once; longer requests are not answered.
const REQUEST_BYTES_MAX: usize = 4096;

/// Bytes given to one `sendfile`, as in Ropewalk.
const CHUNK_BYTES: usize = 1 << 20;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--version") {
        println!("floor {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    match Floor::open(&arguments).and_then(Floor::serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("floor: {why}\n\n{HELP}");
            ExitCode::FAILURE
        }
    }
}

struct Floor {
    epoll: Epoll,
    listener: OwnedFd,
    answers: Answers,
    connections: Vec<Option<Connection>>,
    /// One for all connections, so that no request pays for clearing it.
    buffer: Box<[u8]>,
    keep_alive: bool,
}

struct Connection {
    socket: OwnedFd,
    /// Which answer is being sent, and how many bytes of it are gone.
    sending: Option<(usize, u64)>,
}

/// Whether a connection goes on.
#[derive(PartialEq)]
enum Fate {
    Open,
    Closed,
}

impl Floor {
    fn open(arguments: &[String]) -> io::Result<Self> {
        let options: HashMap<&str, &str> = arguments
            .chunks_exact(2)
            .filter_map(|pair| Some((pair[0].strip_prefix("--")?, pair[1].as_str())))
            .collect();
        let option = |name: &str| {
            options
                .get(name)
                .copied()
                .ok_or_else(|| io::Error::other(format!("--{name} is missing")))
        };
        let address: SocketAddr = option("listen")?.parse().map_err(io::Error::other)?;
        let answers = Answers::prepare(option("root")?, option("paths")?, option("head")?)?;
        os::limits::raise_descriptor_limit()?;
        // A connection is worth accepting once its request is there.
        let options = ListenOptions {
            defer_accept_s: 1,
            // What waits for long in the kernel is cold when it leaves.
            unsent_bytes_max: 128 << 10,
            ..ListenOptions::default()
        };
        Ok(Self {
            epoll: Epoll::new()?,
            listener: socket::listen(address, &options)?,
            answers,
            connections: (0..DESCRIPTORS_MAX).map(|_| None).collect(),
            buffer: vec![0; REQUEST_BYTES_MAX].into(),
            keep_alive: option("connection").is_ok_and(|connection| connection != "close"),
        })
    }

    fn serve(mut self) -> io::Result<()> {
        let mut events = EventBuffer::with_capacity(512);
        self.epoll.add(self.listener.as_fd(), Interest::READ, LISTENER)?;
        loop {
            self.epoll.wait(&mut events, None)?;
            for event in events.iter() {
                if event.key == LISTENER {
                    self.accept()?;
                } else {
                    self.turn(event.key as usize);
                }
            }
        }
    }

    /// Accepts whoever waits and serves them at once.
    fn accept(&mut self) -> io::Result<()> {
        while let Ok((socket, _)) = socket::accept(self.listener.as_fd()) {
            let index = socket.as_raw_fd() as usize;
            self.connections[index] = Some(Connection { socket, sending: None });
            if self.turn(index) == Fate::Open
                && let Some(connection) = &self.connections[index]
            {
                let interest = Interest::READ | Interest::WRITE | Interest::EDGE;
                self.epoll.add(connection.socket.as_fd(), interest, index as u64)?;
            }
        }
        Ok(())
    }

    /// Serves one connection as far as it goes now.
    fn turn(&mut self, index: usize) -> Fate {
        let Some(connection) = &mut self.connections[index] else { return Fate::Closed };
        let fate = connection
            .turn(&self.answers, &mut self.buffer, self.keep_alive)
            .unwrap_or(Fate::Closed);
        if fate == Fate::Closed {
            self.connections[index] = None;
        }
        fate
    }
}

impl Connection {
    /// An edge is over when the kernel said "would block", or when less came than asked for.
    fn turn(&mut self, answers: &Answers, buffer: &mut [u8], keep_alive: bool) -> io::Result<Fate> {
        if self.sending.is_none() {
            let received = match recv(self.socket.as_fd(), buffer) {
                Ok(0) => return Ok(Fate::Closed),
                Ok(count) => &buffer[..count],
                Err(why) if why.kind() == ErrorKind::WouldBlock => return Ok(Fate::Open),
                Err(why) => return Err(why),
            };
            if !received.ends_with(b"\r\n\r\n") {
                return Ok(Fate::Open);
            }
            self.sending = Some((answers.find(received), 0));
        }
        match self.send(answers) {
            Ok(()) if keep_alive => Ok(Fate::Open),
            Ok(()) => Ok(Fate::Closed),
            Err(why) if why.kind() == ErrorKind::WouldBlock => Ok(Fate::Open),
            Err(why) => Err(why),
        }
    }

    /// Sends what is left of the answer.
    fn send(&mut self, answers: &Answers) -> io::Result<()> {
        while let Some((number, sent)) = &mut self.sending {
            let answer = answers.get(*number);
            let socket = self.socket.as_fd();
            let prepared_len = answer.prepared.len() as u64;
            let count = match &answer.file {
                _ if *sent < prepared_len => {
                    send(socket, &answer.prepared[*sent as usize..], answer.file.is_some())?
                }
                Some((file, file_len)) => {
                    let offset = *sent - prepared_len;
                    let left = usize::try_from(*file_len - offset).unwrap_or(CHUNK_BYTES);
                    let asked = left.min(CHUNK_BYTES);
                    let count = sendfile(socket, file.as_fd(), offset, asked)?;
                    if 0 < count && count < asked {
                        // The socket is full: asking again would only hear so.
                        *sent += count as u64;
                        return Err(ErrorKind::WouldBlock.into());
                    }
                    count
                }
                None => 0,
            };
            *sent += count as u64;
            if *sent >= answer.len {
                self.sending = None;
            } else if count == 0 {
                return Err(io::Error::other("the file is shorter than it was"));
            }
        }
        Ok(())
    }
}
