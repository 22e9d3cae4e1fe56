//! One client of a storm: its connection, its open requests, and how far their responses have
//! arrived.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use workload::content::Content;

/// A request: some bytes of a file.
pub(crate) struct Wanted {
    /// Its number among all requests of the storm, which its query says.
    pub(crate) number: usize,
    pub(crate) name: String,
    pub(crate) from: u64,
    pub(crate) len: u64,
    /// Whether a range was requested, and not the whole file.
    pub(crate) is_range: bool,
}

/// How the client is to end a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Not at all: the connection stays open.
    Open,
    /// With a reset, when this many bytes have arrived or the time is over.
    Reset(u64),
    /// With a close that leaves bytes unread, when this many bytes have arrived or the time is
    /// over.
    Vanish(u64),
    /// By shutting down its side: the server closes when it has answered.
    HalfClosed,
}

/// One client of a storm: its connection, its open requests, and how far their responses have
/// arrived.
pub(crate) struct Client {
    pub(crate) socket: Option<OwnedFd>,
    /// The generation of the connection, which its events carry.
    pub(crate) generation: u32,
    pub(crate) is_connected: bool,
    /// Requests without a complete response, the oldest first.
    pub(crate) wanted: VecDeque<Wanted>,
    pub(crate) is_slow: bool,
    pub(crate) end: End,
    /// Bytes received since the last requests were sent.
    pub(crate) received: u64,
    head: Vec<u8>,
    /// Bytes of the body that have arrived; none before the head is complete.
    body: Option<u64>,
    /// Whether a response has said that it is the last.
    pub(crate) is_told: bool,
}

/// The result of some received bytes.
#[derive(Default)]
pub(crate) struct Progress {
    /// The numbers of the requests whose responses are complete.
    pub(crate) answered: Vec<usize>,
    pub(crate) body_bytes: u64,
}

impl Client {
    pub(crate) fn new() -> Self {
        Self {
            socket: None,
            generation: 0,
            is_connected: false,
            wanted: VecDeque::new(),
            is_slow: false,
            end: End::Open,
            received: 0,
            head: Vec::new(),
            body: None,
            is_told: false,
        }
    }

    /// Forgets the connection, and starts a new generation.
    pub(crate) fn close(&mut self) {
        *self = Self { generation: self.generation.wrapping_add(1), ..Self::new() };
    }

    /// Whether no response has arrived in part.
    pub(crate) fn is_between_responses(&self) -> bool {
        self.head.is_empty() && self.body.is_none()
    }

    /// Whether the client is connected, has no open request and means to stay.
    pub(crate) fn is_resting(&self) -> bool {
        self.is_connected && self.wanted.is_empty() && self.end == End::Open
    }

    /// Takes received bytes, and checks them.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Result<Progress, String> {
        self.received += bytes.len() as u64;
        let mut progress = Progress::default();
        while !bytes.is_empty() {
            let Some(wanted) = self.wanted.front() else {
                return Err(format!("{} bytes without a request", bytes.len()));
            };
            let at = match self.body {
                Some(at) => at,
                None => {
                    let taken = take_head(&mut self.head, bytes, wanted)?;
                    bytes = &bytes[taken..];
                    if !self.head.ends_with(b"\r\n\r\n") {
                        return Ok(progress);
                    }
                    let head = String::from_utf8_lossy(&self.head).to_lowercase();
                    self.is_told |= head.contains("\r\nconnection: close\r\n");
                    0
                }
            };
            let len = (bytes.len() as u64).min(wanted.len - at) as usize;
            let content = Content::for_path(wanted.name.as_bytes());
            let checked = content.check(wanted.from + at, &bytes[..len]);
            checked.map_err(|wrong| format!("{}: {wrong:?}", wanted.name))?;
            bytes = &bytes[len..];
            progress.body_bytes += len as u64;
            self.body = Some(at + len as u64);
            if at + len as u64 == wanted.len {
                progress.answered.push(wanted.number);
                self.wanted.pop_front();
                self.head.clear();
                self.body = None;
            }
        }
        Ok(progress)
    }
}

/// Adds bytes to a head until it is complete, and then checks it. Returns how many bytes it took.
fn take_head(head: &mut Vec<u8>, bytes: &[u8], wanted: &Wanted) -> Result<usize, String> {
    for (at, byte) in bytes.iter().enumerate() {
        head.push(*byte);
        if head.ends_with(b"\r\n\r\n") {
            check_head(&String::from_utf8_lossy(head), wanted)?;
            return Ok(at + 1);
        }
    }
    Ok(bytes.len())
}

fn check_head(head: &str, wanted: &Wanted) -> Result<(), String> {
    let status = if wanted.is_range { "HTTP/1.1 206 " } else { "HTTP/1.1 200 " };
    let len = format!("\r\nContent-Length: {}\r\n", wanted.len).to_lowercase();
    match head.starts_with(status) && head.to_lowercase().contains(&len) {
        true => Ok(()),
        false => Err(format!("{} of {} bytes: {head}", wanted.name, wanted.len)),
    }
}
