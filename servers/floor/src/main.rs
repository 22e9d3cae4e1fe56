//! The least a static server can do, as the yardstick of the benchmarks: an edge-triggered epoll
//! loop, answers prepared at the start.
//!
//! The floor has one thread by default. With several, each has a listener, a loop and connections
//! of its own, and they share the answers, which never change.
//!
//! Nothing is parsed: everything that ends in an empty line is a request, and its path, or the
//! digits after the path's last slash, selects the answer. It is not a web server: it trusts its
//! client, never looks at a file again, and answers nothing but GET.

#![forbid(unsafe_code)]

mod answer;
mod relay;

use answer::Answers;
use os::epoll::{Epoll, EventBuffer, Interest};
use os::send::{recv, send, sendfile};
use os::socket::{self, ListenOptions};
use relay::Relay;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

const HELP: &str =
    "floor --listen ADDRESS --root FOLDER --paths FILE --head FILE [--connection close]
      [--threads N]
floor --listen ADDRESS --relay ADDRESS

  --paths FILE    the paths to serve, one a line, behind a tab the file if it has another name;
                  where they are numbered, a request for .../7.txt gets the 7th from 0 without a
                  look at the rest
  --head FILE     the head of every answer; its Content-Length is corrected
  --threads N     loops, among which the kernel deals connections out [default: 1]
  --relay ADDRESS  the application to which the bytes of clients are handed on, unread
";

/// Descriptors are indices here, so this is also the most connections there can be.
const DESCRIPTORS_MAX: usize = 65_536;

/// The listener's key; no connection has it.
const LISTENER: u64 = u64::MAX;

/// What is reported of a connection, when it occurs. The end of its stream is told apart: with the
/// last bytes it makes no event of its own.
const EVENTS: Interest =
    Interest::READ.with(Interest::WRITE).with(Interest::RDHUP).with(Interest::EDGE);

/// The most bytes of a request that are received at once; longer requests are not answered.
const REQUEST_BYTES_MAX: usize = 4096;

/// The most bytes passed to one `sendfile`, as in Ropewalk.
const CHUNK_BYTES: usize = 1 << 20;

/// The maximum number of threads: more than any machine has CPUs; each has a table of connections.
const THREADS_MAX: usize = 1024;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--version") {
        println!("floor {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("floor: {why}\n\n{HELP}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> io::Result<()> {
    match options(arguments).get("relay") {
        None => open(arguments).and_then(serve),
        Some(application) => {
            os::limits::raise_descriptor_limit()?;
            let address = address(&options(arguments))?;
            let listener = socket::listen(address, &listening(1))?;
            Relay::new(listener, application.parse().map_err(io::Error::other)?)?.serve()
        }
    }
}

/// What was typed, by the names of options.
fn options(arguments: &[String]) -> HashMap<&str, &str> {
    let pairs = arguments.chunks_exact(2);
    pairs.filter_map(|pair| Some((pair[0].strip_prefix("--")?, pair[1].as_str()))).collect()
}

fn option<'a>(options: &HashMap<&str, &'a str>, name: &str) -> io::Result<&'a str> {
    options.get(name).copied().ok_or_else(|| io::Error::other(format!("--{name} is missing")))
}

fn address(options: &HashMap<&str, &str>) -> io::Result<SocketAddr> {
    option(options, "listen")?.parse().map_err(io::Error::other)
}

struct Floor {
    epoll: Epoll,
    listener: OwnedFd,
    answers: Arc<Answers>,
    connections: Vec<Option<Connection>>,
    /// One buffer for all connections, so that no request pays for clearing it.
    buffer: Box<[u8]>,
    keep_alive: bool,
}

struct Connection {
    socket: OwnedFd,
    /// The answer that is being sent, and how many bytes of it have been sent.
    sending: Option<(usize, u64)>,
}

/// Whether a connection is kept.
#[derive(PartialEq)]
enum Fate {
    Open,
    Closed,
}

/// Opens a floor for each thread, all at one address.
fn open(arguments: &[String]) -> io::Result<Vec<Floor>> {
    let options = options(arguments);
    let option = |name: &str| option(&options, name);
    let mut address = address(&options)?;
    let answers = Answers::prepare(option("root")?, option("paths")?, option("head")?)?;
    let answers = Arc::new(answers);
    let keep_alive = option("connection").is_ok_and(|connection| connection != "close");
    let threads = threads(options.get("threads").copied())?;
    os::limits::raise_descriptor_limit()?;
    let mut floors = Vec::new();
    for _ in 0..threads {
        let listener = socket::listen(address, &listening(threads))?;
        // If the kernel has chosen the port, the other listeners get the same one.
        address = socket::local_addr(listener.as_fd())?;
        floors.push(Floor::new(listener, Arc::clone(&answers), keep_alive)?);
    }
    Ok(floors)
}

fn threads(typed: Option<&str>) -> io::Result<usize> {
    let count = typed.map_or(Ok(1), str::parse).ok();
    count
        .filter(|count| (1..=THREADS_MAX).contains(count))
        .ok_or_else(|| io::Error::other(format!("--threads is a number from 1 to {THREADS_MAX}")))
}

fn listening(threads: usize) -> ListenOptions {
    ListenOptions {
        reuse_port: threads > 1,
        // A connection is worth accepting once its request is there.
        defer_accept_s: 1,
        // Bytes that wait for long in the kernel are cold when they leave.
        unsent_bytes_max: 128 << 10,
        ..ListenOptions::default()
    }
}

/// Serves, with a thread for each floor if there are several; returns when one of them cannot go
/// on: a server that is not whole would be no yardstick.
fn serve(mut floors: Vec<Floor>) -> io::Result<()> {
    if floors.len() == 1 {
        return floors.remove(0).serve();
    }
    let (ended, end) = channel();
    for floor in floors {
        let ended = ended.clone();
        // The receiver may have gone after the first message.
        thread::Builder::new().spawn(move || drop(ended.send(floor.serve())))?;
    }
    end.recv().map_err(io::Error::other)?
}

impl Floor {
    fn new(listener: OwnedFd, answers: Arc<Answers>, keep_alive: bool) -> io::Result<Self> {
        Ok(Self {
            epoll: Epoll::new()?,
            listener,
            answers,
            connections: (0..DESCRIPTORS_MAX).map(|_| None).collect(),
            buffer: vec![0; REQUEST_BYTES_MAX].into(),
            keep_alive,
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
                    let fate = self.turn(event.key as usize);
                    if event.hangup && fate == Fate::Open {
                        self.turn(event.key as usize); // the end came with the last request
                    }
                }
            }
        }
    }

    /// Accepts the waiting connections and serves them at once.
    fn accept(&mut self) -> io::Result<()> {
        while let Ok((socket, _)) = socket::accept(self.listener.as_fd()) {
            let index = socket.as_raw_fd() as usize;
            self.connections[index] = Some(Connection { socket, sending: None });
            if self.turn(index) == Fate::Open
                && let Some(connection) = &self.connections[index]
            {
                self.epoll.add(connection.socket.as_fd(), EVENTS, index as u64)?;
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
    /// An edge is over when the kernel reported that it would block, or when fewer bytes came than
    /// requested.
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

    /// Sends the rest of the answer.
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
                        // The socket is full: another call would only report that.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpStream};

    /// A floor with one file, at a port that is free.
    fn opened(name: &str, threads: &str) -> io::Result<(Vec<Floor>, SocketAddr)> {
        let folder = std::env::temp_dir().join(format!("floor-{name}-{}", std::process::id()));
        let file = |name: &str, text: &str| {
            fs::write(folder.join(name), text).expect("there is room");
            folder.join(name).display().to_string()
        };
        fs::create_dir_all(&folder).expect("the folder for temporary files is writable");
        file("0.txt", "x");
        let head = file("head", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let (paths, root) = (file("paths", "/0.txt\n"), folder.display().to_string());
        let words = ["--listen", "127.0.0.1:0", "--root", &root, "--paths", &paths];
        let more = ["--head", &head, "--connection", "keep-alive", "--threads", threads];
        let floors =
            open(&[words, more].concat().iter().map(|word| (*word).into()).collect::<Vec<_>>());
        fs::remove_dir_all(&folder).expect("it was just made");
        let floors = floors?;
        let address = socket::local_addr(floors[0].listener.as_fd())?;
        Ok((floors, address))
    }

    /// Each thread has a listener, all at one address, and whichever gets a connection answers.
    #[test]
    fn several_threads_serve_at_one_address() {
        let (floors, address) = opened("several", "3").expect("all of it is there");
        assert_eq!(floors.len(), 3);
        for floor in &floors {
            assert_eq!(socket::local_addr(floor.listener.as_fd()).ok(), Some(address));
        }
        thread::spawn(|| serve(floors));
        for _ in 0..50 {
            let mut stream = TcpStream::connect(address).expect("it listens");
            stream.write_all(b"GET /0.txt HTTP/1.1\r\n\r\n").expect("it reads");
            let mut said = [0; 39];
            stream.read_exact(&mut said).expect("it answers");
            assert!(said.ends_with(b"\r\n\r\nx"), "{}", String::from_utf8_lossy(&said));
        }
    }

    /// The end of a connection comes with its last request, and by no event of its own.
    #[test]
    fn a_connection_that_ends_with_a_request_is_answered_and_closed() {
        let (floors, address) = opened("ended", "1").expect("all of it is there");
        thread::spawn(|| serve(floors));
        let mut stream = TcpStream::connect(address).expect("it listens");
        let request = b"GET /0.txt HTTP/1.1\r\n\r\n";
        stream.write_all(request).expect("it reads");
        let mut said = [0; 39];
        stream.read_exact(&mut said).expect("it answers");
        send(stream.as_fd(), request, true).expect("there is room");
        stream.shutdown(Shutdown::Write).expect("it is open");
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("the end comes, too");
        assert_eq!(rest, said);
    }

    /// One thread has its address to itself, as any server has.
    #[test]
    fn one_thread_shares_no_address() {
        let (floors, address) = opened("one", "1").expect("all of it is there");
        assert_eq!(floors.len(), 1);
        assert!(socket::listen(address, &listening(2)).is_err());
    }

    #[test]
    fn threads_are_counted() {
        let check = |typed: Option<&str>, expected: Option<usize>| {
            assert_eq!(threads(typed).ok(), expected, "{typed:?}");
        };
        check(None, Some(1));
        check(Some("4"), Some(4));
        check(Some("0"), None);
        check(Some("1025"), None);
        check(Some("many"), None);
    }
}
