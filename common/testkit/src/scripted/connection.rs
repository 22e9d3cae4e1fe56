//! One connection of a scripted server: reads requests and does what the script says.
//!
//! The last byte of a request stays unread until its actions are over: a connection closed with
//! bytes unread is reset by the kernel, and that is how [`Action::Reset`] works.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::{Action, ReceivedRequest, Shared};

/// The longest head of a request that is accepted.
const HEAD_MAX: usize = 64 * 1024;
/// The pause between two checks for the rest of an incomplete head.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
const LOOKS_MAX: u32 = 20_000;

/// Whether the connection goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Continue,
    Close,
    Reset,
}

pub(super) fn serve(shared: &Shared, stream: Arc<TcpStream>, peer: SocketAddr, number: usize) {
    // Without this option single bytes would wait for each other; if it is refused, they do.
    let _ = stream.set_nodelay(true);
    let mut connection = Connection { shared, stream, peer, number, unread: 0 };
    for request in 0.. {
        // A client that breaks off is no failure of the server, and neither is its own end.
        match connection.exchange(request) {
            Ok(Next::Continue) => {}
            Ok(Next::Reset) => return,
            Ok(Next::Close) | Err(_) => break,
        }
    }
    connection.read_away();
    // Closing alone may take effect late: a kernel may keep a closed file for a while.
    let _ = connection.stream.shutdown(Shutdown::Both);
}

struct Connection<'s> {
    shared: &'s Shared,
    stream: Arc<TcpStream>,
    peer: SocketAddr,
    number: usize,
    /// Bytes of the request under way that were peeked at but not read.
    unread: usize,
}

impl Connection<'_> {
    /// Reads one request and does what the script says for it.
    fn exchange(&mut self, request: usize) -> io::Result<Next> {
        let Some(head) = self.head()? else { return Ok(Next::Close) };
        let mut asked = self.parse(request, head);
        let actions = (self.shared.script)(&asked);
        let body_len = content_length(&asked.head);
        self.unread = asked.head.len() + body_len;
        if actions.first() != Some(&Action::LeaveBody) {
            let request_bytes = self.read_but_one()?;
            let body_start = asked.head.len().min(request_bytes.len());
            asked.body = request_bytes[body_start..].to_vec();
        }
        self.count(asked);
        let mut is_counted = true;
        for (index, action) in actions.iter().enumerate() {
            let is_wait = matches!(action, Action::Wait(_) | Action::WaitUntil(_) | Action::Stall);
            if index + 1 == actions.len() && !is_wait {
                self.answered(&mut is_counted);
            }
            let next = self.act(action)?;
            if next != Next::Continue {
                self.answered(&mut is_counted);
                return Ok(next);
            }
        }
        self.answered(&mut is_counted);
        self.read_rest()?;
        Ok(Next::Continue)
    }

    fn parse(&self, request: usize, head: String) -> ReceivedRequest {
        let mut words = head.split(' ').map(str::to_owned);
        let method = words.next().unwrap_or_default();
        let target = words.next().unwrap_or_default();
        let at_us = (self.shared.clock)();
        let (connection, peer) = (self.number, self.peer);
        ReceivedRequest { connection, request, peer, at_us, method, target, head, body: Vec::new() }
    }

    fn count(&self, asked: ReceivedRequest) {
        let mut state = self.shared.state();
        state.seen.push(asked);
        state.under_way += 1;
        state.under_way_max = state.under_way_max.max(state.under_way);
    }

    fn answered(&self, is_counted: &mut bool) {
        if std::mem::take(is_counted) {
            self.shared.state().under_way -= 1;
        }
    }

    fn act(&mut self, action: &Action) -> io::Result<Next> {
        let goes_on = match action {
            Action::Send(bytes) => {
                (&*self.stream).write_all(bytes)?;
                true
            }
            Action::SendSingly(bytes) => {
                for byte in bytes {
                    (&*self.stream).write_all(&[*byte])?;
                    // The client gets a chance to see the byte alone.
                    thread::yield_now();
                }
                true
            }
            Action::Wait(length) => self.shared.wait(Some(*length)),
            Action::WaitUntil(at_us) => {
                let left_us = at_us.saturating_sub((self.shared.clock)());
                self.shared.wait(Some(Duration::from_micros(left_us)))
            }
            Action::Stall => self.shared.wait(None),
            Action::Close => return Ok(Next::Close),
            Action::Reset => return Ok(Next::Reset),
            Action::LeaveBody => true,
            Action::TakeBody => {
                self.read_but_one()?;
                true
            }
        };
        Ok(if goes_on { Next::Continue } else { Next::Close })
    }

    /// The next head, which stays unread. None: the client sends no more.
    fn head(&self) -> io::Result<Option<String>> {
        let mut bytes = vec![0; HEAD_MAX];
        for _ in 0..LOOKS_MAX {
            let len = self.stream.peek(&mut bytes)?;
            if let Some(end) = bytes[..len].windows(4).position(|four| four == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&bytes[..end + 4]).into_owned();
                return Ok(Some(head));
            }
            if len == 0 || !self.shared.wait(Some(LOOK_AGAIN)) {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Reads the request except its last byte, and returns all of it.
    fn read_but_one(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.unread];
        let (last, before) = bytes.split_last_mut().expect("a head has at least four bytes");
        (&*self.stream).read_exact(before)?;
        self.unread = 1;
        let seen = self.stream.peek(std::slice::from_mut(last))?;
        if seen == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
    }

    fn read_rest(&mut self) -> io::Result<()> {
        (&*self.stream).read_exact(&mut vec![0; self.unread])?;
        self.unread = 0;
        Ok(())
    }

    /// Reads what has arrived, so that closing does not reset.
    fn read_away(&self) {
        let mut bytes = vec![0; HEAD_MAX];
        if self.stream.set_nonblocking(true).is_ok() {
            while matches!((&*self.stream).read(&mut bytes), Ok(1..)) {}
        }
    }
}

fn content_length(head: &str) -> usize {
    let field = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    field.unwrap_or(0)
}
