//! A simple HTTP client that checks whether a server works: one GET at a time, responses with
//! Content-Length. It is neither for load nor a test of conformance.

use http1::{BodyFraming, ResponseBody, ResponseHead, parse_response_head};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The head of a response is at most this long, or something is wrong.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// How long to wait for a server that does not answer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A response as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The head with its blank line.
    pub head: Vec<u8>,
    /// The body.
    pub body: Vec<u8>,
}

/// Whether a connection is used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    /// The connection is used again.
    KeepAlive,
    /// The request says `Connection: close`.
    Close,
}

impl Connection {
    /// The token of the Connection field that says so.
    pub fn token(self) -> &'static str {
        match self {
            Self::KeepAlive => "keep-alive",
            Self::Close => "close",
        }
    }
}

/// Connects to `server`.
///
/// # Errors
/// The error of the system call.
pub fn connect(server: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&server, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Requests `path` on an open connection and reads the whole response.
///
/// # Errors
/// When the connection fails or what comes is not a response of the simple kind.
pub fn get(stream: &mut TcpStream, path: &str, connection: Connection) -> io::Result<Response> {
    send_get(stream, path, connection)?;
    let mut bytes = Vec::new();
    let head = read_head(stream, &mut bytes)?;
    let ResponseBody::Framed(BodyFraming::Length(len)) = head.body else {
        return Err(io::Error::other("the answer has no Content-Length"));
    };
    let body = bytes.split_off(head.len);
    let body = read_body(stream, body, len as usize)?;
    Ok(Response { status: head.status, head: bytes, body })
}

/// Requests `path` without reading the response.
///
/// # Errors
/// The error of the system call.
pub fn send_get(stream: &mut TcpStream, path: &str, connection: Connection) -> io::Result<()> {
    // The fields that wrk sends, in its order.
    let request = match connection {
        Connection::KeepAlive => format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
        Connection::Close => {
            format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        }
    };
    stream.write_all(request.as_bytes())
}

/// Reads until `bytes` holds a head, and returns what it says.
fn read_head(stream: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<ResponseHead> {
    let mut buffer = [0; 4096];
    loop {
        let parsed = parse_response_head(bytes, false);
        if let Some(head) = parsed.map_err(|why| io::Error::other(why.to_string()))? {
            return Ok(head);
        }
        let count = os::uninterrupted(|| stream.read(&mut buffer))?;
        if count == 0 || bytes.len() > HEAD_BYTES_MAX {
            return Err(io::Error::other("the answer has no head"));
        }
        bytes.extend_from_slice(&buffer[..count]);
    }
}

/// Reads on until `body` has `len` bytes.
fn read_body(stream: &mut TcpStream, mut body: Vec<u8>, len: usize) -> io::Result<Vec<u8>> {
    let present = body.len();
    if present > len {
        return Err(io::Error::other("the answer is longer than it says"));
    }
    body.resize(len, 0);
    stream.read_exact(&mut body[present..])?;
    Ok(body)
}

/// A head with the fields that a static server sends today; its length is a placeholder.
pub fn usual_head(server: &str, connection: Connection) -> Vec<u8> {
    let close = if connection == Connection::Close { "Connection: close\r\n" } else { "" };
    format!(
        "HTTP/1.1 200 OK\r\nServer: {server}\r\nDate: Sat, 21 Nov 2026 12:00:00 GMT\r\n\
         Content-Type: text/html; charset=utf-8\r\nContent-Length: 1024\r\n\
         Last-Modified: Sat, 21 Nov 2026 12:00:00 GMT\r\nETag: \"187a1b2c3d4e5f60-400\"\r\n\
         Accept-Ranges: bytes\r\n{close}\r\n"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// Serves `answer` to one connection, in two pieces cut at `cut`, and gets it.
    fn exchange(answer: &'static [u8], cut: usize) -> io::Result<Response> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let server = thread::spawn(move || -> io::Result<()> {
            let (mut stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            let mut request = [0; 512];
            let count = stream.read(&mut request)?;
            assert!(request[..count].starts_with(b"GET /a HTTP/1.1\r\n"));
            stream.write_all(&answer[..cut])?;
            stream.write_all(&answer[cut..])
        });
        let got = get(&mut connect(address)?, "/a", Connection::Close);
        server.join().expect("it does not panic")?;
        got
    }

    /// A stream that is interrupted, as a socket with a timeout is when its process is stopped and
    /// continued.
    struct Interrupted(bool, &'static [u8]);

    impl Read for Interrupted {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            self.0 = !self.0;
            if self.0 { Err(io::ErrorKind::Interrupted.into()) } else { self.1.read(bytes) }
        }
    }

    #[test]
    fn a_head_is_read_however_often_that_is_interrupted() {
        let mut stream = Interrupted(false, b"HTTP/1.1 200 OK\r\n\r\n");
        assert_eq!(read_head(&mut stream, &mut Vec::new()).unwrap().len, 19);
    }

    #[test]
    fn an_answer_is_read_however_it_is_cut() -> io::Result<()> {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-LENGTH: 5\r\n\r\nhello";
        for cut in 0..answer.len() {
            let response = exchange(answer, cut)?;
            assert_eq!(response.status, 200);
            assert_eq!(response.body, b"hello");
            assert_eq!(response.head.len(), answer.len() - 5);
        }
        Ok(())
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for answer in [
            &b"HTTP/1.1 200 OK\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na",
            b"220 hello",
        ] {
            assert!(exchange(answer, 0).is_err(), "{}", String::from_utf8_lossy(answer));
        }
    }
}
