//! One client of a storm: its connection, what it has asked for, and what has come of it.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use workload::content::Content;

/// What was asked for: some bytes of a file.
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) from: u64,
    pub(crate) len: u64,
    /// Whether a range was asked for, and not the whole.
    pub(crate) is_range: bool,
}

/// How a connection is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Not yet.
    Open,
    /// With a reset, when that many bytes have come or the time is over.
    Reset(u64),
    /// With a close that leaves bytes unread, when that many bytes have come or the time is over.
    Vanish(u64),
    /// The client's side is shut: the server closes when it has answered.
    HalfClosed,
}

/// One client of a storm: its connection, what it has asked for, and what has come of it.
pub(crate) struct Client {
    pub(crate) socket: Option<OwnedFd>,
    /// Tells events of this connection from those of earlier ones.
    pub(crate) generation: u32,
    pub(crate) is_connected: bool,
    /// Asked for and not answered, the oldest first.
    pub(crate) wanted: VecDeque<Wanted>,
    pub(crate) is_slow: bool,
    pub(crate) end: End,
    /// Bytes that have come for what was asked for last.
    pub(crate) received: u64,
    head: Vec<u8>,
    /// Bytes of the body that have come; none while the head has not.
    body: Option<u64>,
}

/// What received bytes came to.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) answered: u64,
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
        }
    }

    /// Forgets the connection.
    pub(crate) fn close(&mut self) {
        *self = Self { generation: self.generation.wrapping_add(1), ..Self::new() };
    }

    /// Whether nothing has come of a response that has not come whole.
    pub(crate) fn is_between_responses(&self) -> bool {
        self.head.is_empty() && self.body.is_none()
    }

    /// Whether it is connected, wants nothing and means to stay.
    pub(crate) fn is_resting(&self) -> bool {
        self.is_connected && self.wanted.is_empty() && self.end == End::Open
    }

    /// Takes bytes that have come.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Result<Progress, String> {
        self.received += bytes.len() as u64;
        let mut progress = Progress::default();
        while !bytes.is_empty() {
            let Some(wanted) = self.wanted.front() else {
                return Err(format!("{} bytes that nobody asked for", bytes.len()));
            };
            let at = match self.body {
                Some(at) => at,
                None => {
                    let taken = take_head(&mut self.head, bytes, wanted)?;
                    bytes = &bytes[taken..];
                    if !self.head.ends_with(b"\r\n\r\n") {
                        return Ok(progress);
                    }
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
                self.wanted.pop_front();
                self.head.clear();
                self.body = None;
                progress.answered += 1;
            }
        }
        Ok(progress)
    }
}

/// Adds to a head until it is whole, and then looks at it. Returns how many bytes it took.
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
