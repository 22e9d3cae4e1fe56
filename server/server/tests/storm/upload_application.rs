//! The application behind a storm of uploads: it answers a body with the same bytes while they
//! come, or does what the path of the request says.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use http1::{BodySkipper, HeadLimits, Parsed, parse_head};

/// What the application does with a request, by the end of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conduct {
    /// Sends the body back.
    Echo,
    /// Does so after a while in which it reads nothing.
    Stall,
    /// Closes the connection when it has read the head.
    Close,
    /// Answers before it has read the body, and closes.
    Early,
    /// Answers with what is no reply.
    Nonsense,
    /// Ends in the middle of its reply.
    Short,
}

use Conduct::{Close, Early, Echo, Nonsense, Short, Stall};

pub(crate) const CONDUCTS: [(&str, Conduct); 6] = [
    ("echo", Echo),
    ("stall", Stall),
    ("close", Close),
    ("early", Early),
    ("nonsense", Nonsense),
    ("short", Short),
];

/// It says that it closes: otherwise the next request could be sent on a connection that ends.
const EARLY: &[u8] = b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno";

/// The application, which ends when it is stopped.
pub(crate) struct Application {
    address: SocketAddr,
    is_stopping: Arc<AtomicBool>,
    acceptor: JoinHandle<()>,
}

impl Application {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let is_stopping = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&is_stopping);
        let acceptor = thread::spawn(move || {
            thread::scope(|scope| {
                for stream in listener.incoming() {
                    if is_over.load(Ordering::Acquire) {
                        return;
                    }
                    let stream = stream.unwrap();
                    scope.spawn(|| serve(stream));
                }
            });
        });
        Self { address, is_stopping, acceptor }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until all connections have ended: the server that made them must have closed them.
    pub(crate) fn stop(self) {
        self.is_stopping.store(true, Ordering::Release);
        drop(TcpStream::connect(self.address).unwrap());
        self.acceptor.join().unwrap();
    }
}

/// Serves a connection until it ends. What comes on it must be requests.
fn serve(mut stream: TcpStream) {
    stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    let mut unread = Vec::new();
    loop {
        match exchange(&mut stream, &mut unread) {
            Ok(true) => {}
            Ok(false) => return,
            Err(why) => {
                assert_ne!(why.kind(), ErrorKind::WouldBlock, "a connection was left open");
                return;
            }
        }
    }
}

/// Reads a request and answers it. Returns whether the connection goes on.
fn exchange(stream: &mut TcpStream, unread: &mut Vec<u8>) -> io::Result<bool> {
    let (head_len, conduct, body) = loop {
        if let Some(request) = request(unread) {
            break request;
        }
        if !receive(stream, unread)? {
            return Ok(false);
        }
    };
    unread.drain(..head_len);
    match conduct {
        Echo => echo(stream, unread, body),
        Stall => {
            thread::sleep(Duration::from_millis(30));
            echo(stream, unread, body)
        }
        Close => Ok(false),
        Early => answer(stream, EARLY),
        Nonsense => answer(stream, b"nonsense\r\n\r\n"),
        Short => answer(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nno"),
    }
}

/// The length of a request's head, what to do with it, and its body; none if it is not complete.
fn request(bytes: &[u8]) -> Option<(usize, Conduct, BodySkipper)> {
    let parsed = parse_head(bytes, 0, &HeadLimits::default()).expect("a well-formed head");
    let Parsed::Complete(head) = parsed else { return None };
    let path = String::from_utf8_lossy(head.target_bytes).into_owned();
    let known = CONDUCTS.iter().find(|it| path.starts_with(&format!("/app/{}?", it.0)));
    Some((head.len, known.expect("a request of a client").1, BodySkipper::new(head.body)))
}

fn answer(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<bool> {
    stream.write_all(bytes)?;
    Ok(false)
}

fn receive(stream: &mut TcpStream, unread: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 16 * 1024];
    let n = os::uninterrupted(|| stream.read(&mut buffer))?;
    unread.extend_from_slice(&buffer[..n]);
    Ok(n > 0)
}

/// Sends the bytes of a body back as they come, in chunks.
fn echo(stream: &mut TcpStream, unread: &mut Vec<u8>, mut body: BodySkipper) -> io::Result<bool> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    while !body.is_done() {
        let (taken, data) = body.read(unread).expect("a well-formed body");
        if !data.is_empty() {
            let mut chunk = Vec::new();
            http1::put_chunk_size(&mut chunk, data.len());
            stream.write_all(&[&chunk, data, b"\r\n"].concat())?;
        }
        unread.drain(..taken);
        if taken == 0 && !body.is_done() && !receive(stream, unread)? {
            return Ok(false);
        }
    }
    stream.write_all(b"0\r\n\r\n")?;
    Ok(true)
}
