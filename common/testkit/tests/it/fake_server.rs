//! A server in a thread that sends what its script says, whatever the request.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

/// What to do on each connection.
#[derive(Clone)]
pub(crate) struct Script {
    /// Sent as soon as one head has come.
    pub(crate) answer: Vec<u8>,
    /// Sent for the second head, if the connection is kept.
    pub(crate) probe_answer: Vec<u8>,
    /// What happens after the answer.
    pub(crate) then: Then,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// The next head is answered, then the connection is closed.
    AnswerProbe,
    /// The connection is closed.
    Close,
    /// Nothing more happens until the client goes.
    Hang,
}

const DATE: &str = "Date: Tue, 14 Nov 2023 22:13:20 GMT\r\n";
pub(crate) const KIND: &str =
    "Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n";

/// A response of `status` with these further field lines.
pub(crate) fn response(status: u16, fields: &str, body: &str) -> Vec<u8> {
    let len = body.len();
    let head = format!("HTTP/1.1 {status} X\r\n{DATE}Content-Length: {len}\r\n{fields}\r\n");
    (head + body).into_bytes()
}

impl Script {
    /// A good answer, and a good answer to the probe.
    pub(crate) fn good() -> Self {
        Self {
            answer: response(200, KIND, "Some notes.\n"),
            probe_answer: response(200, &format!("{KIND}Connection: close\r\n"), "in step\n"),
            then: Then::AnswerProbe,
        }
    }

    /// The script of [`Script::good`] with another answer.
    pub(crate) fn answering(answer: Vec<u8>) -> Self {
        Self { answer, ..Self::good() }
    }

    /// This script with another end.
    pub(crate) fn then(self, then: Then) -> Self {
        Self { then, ..self }
    }

    /// Starts the server; it ends with the process.
    pub(crate) fn start(self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let script = self.clone();
                thread::spawn(move || script.serve(stream));
            }
        });
        address
    }

    fn serve(&self, mut stream: TcpStream) {
        if !read_head(&mut stream) || stream.write_all(&self.answer).is_err() {
            return;
        }
        match self.then {
            Then::Close => {}
            Then::AnswerProbe => {
                if read_head(&mut stream) {
                    // A client that has gone already was not content with the answer.
                    let _ = stream.write_all(&self.probe_answer);
                }
            }
            Then::Hang => while read_head(&mut stream) {},
        }
    }
}

/// Reads byte by byte up to a blank line; whether there was one.
fn read_head(stream: &mut TcpStream) -> bool {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_exact(&mut byte).is_err() {
            return false;
        }
        head.push(byte[0]);
    }
    true
}
