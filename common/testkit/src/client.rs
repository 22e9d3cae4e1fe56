//! A raw blocking client: it sends bytes as they are and keeps every byte that comes back.
//!
//! It parses the responses only as far as it must to know when to send the probe.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;
use std::{io, thread};

use crate::response::{self, Response};
use crate::template::{EtagQuery, Prepared};
use crate::{request, silence};

/// How the bytes of a request are handed to the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery<'d> {
    /// In one piece.
    Whole,
    /// In pieces that end at these offsets, with a pause after each so that each arrives alone.
    SplitAt(&'d [usize]),
    /// Byte by byte, without pauses.
    ByteAtATime,
}

/// A pause that lets the server see a piece by itself on all but the busiest machines.
const PIECE_PAUSE: Duration = Duration::from_millis(2);

/// How a conversation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The connection was still open; only a caller without a socket can report this.
    Open,
    /// The server closed the connection in order.
    Closed,
    /// The server reset the connection, which may destroy what the client has not read (RFC 9112
    /// §9.6).
    Reset,
    /// The server neither sent nor closed within the timeout.
    TimedOut,
}

/// So many bytes a new connection takes before anything of them is received: no thread of their own
/// must send them.
const TAKEN_AT_ONCE: usize = 16 << 10;

/// All that came back in one conversation.
#[derive(Clone, Debug)]
pub struct Transcript {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// How it ended.
    pub end: End,
    /// Whether the case's probe was sent after its own bytes.
    pub probed: bool,
}

/// Where to send to, and how long to wait for a byte.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// The server.
    pub address: SocketAddr,
    /// The longest silence of a server that is not stuck.
    pub timeout: Duration,
}

impl Client {
    /// A client with a timeout long enough for a busy machine.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, timeout: Duration::from_secs(10) }
    }

    /// Sends a case and, if the connection should stay open after it, the probe; reads to the end.
    ///
    /// # Errors
    /// Only those of connecting; whatever happens later is part of the transcript.
    pub fn exchange(&self, case: &Prepared<'_>, delivery: Delivery<'_>) -> io::Result<Transcript> {
        let heads = request::heads(&case.request);
        let mut conversation = Conversation::start(self, heads)?;
        let mut sender = conversation.stream.try_clone()?;
        let mut send_request = move || {
            send(&mut sender, &case.request, delivery);
            if case.case.half_close {
                // A server that has closed already need not be told.
                let _ = sender.shutdown(Shutdown::Write);
            }
        };
        if delivery == Delivery::Whole && case.request.len() <= TAKEN_AT_ONCE {
            send_request();
            conversation.read(case, || ());
        } else {
            thread::scope(|scope| {
                let sending = scope.spawn(send_request);
                conversation.read(case, || drop(sending.join()));
            });
        }
        if conversation.end == Some(End::TimedOut) {
            // Printed at once: later it cannot be found out what kept the server.
            eprintln!("{}", silence::describe(&conversation.stream));
        }
        Ok(conversation.into_transcript())
    }

    /// Sends `bytes`, then reads `count` responses or until `silence` passes; then sends `probe`
    /// and reads to the end. For servers whose answers are not known beforehand.
    ///
    /// # Errors
    /// Only those of connecting.
    pub fn observe(
        &self,
        bytes: &[u8],
        count: usize,
        silence: Duration,
        probe: &[u8],
    ) -> io::Result<Transcript> {
        let mut conversation = Conversation::start(self, request::heads(bytes))?;
        send(&mut conversation.stream, bytes, Delivery::Whole);
        conversation.stream.set_read_timeout(Some(silence))?;
        conversation.read_responses(count);
        conversation.send_probe(probe);
        conversation.read_to_end();
        Ok(conversation.into_transcript())
    }

    /// Requests an entity tag, on a connection of its own.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub fn etag(&self, host: &str, query: &EtagQuery) -> Result<String, String> {
        let response = self.fetch(&query.request(host))?;
        response
            .field("ETag")
            .ok_or_else(|| format!("{query:?} was answered with {} and no ETag", response.status))
    }

    /// Sends one request with `Connection: close`, and reads the response.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub fn fetch(&self, request: &[u8]) -> Result<Response, String> {
        let start = Conversation::start(self, request::heads(request));
        let mut conversation = start.map_err(|error| error.to_string())?;
        send(&mut conversation.stream, request, Delivery::Whole);
        conversation.read_to_end();
        let parsed = response::parse_responses(&conversation.bytes, &conversation.heads, true);
        let mut responses = parsed.map_err(|error| error.to_string())?.responses;
        responses.pop().ok_or_else(|| "no response".to_owned())
    }
}

/// A connection and what has been received on it.
struct Conversation {
    stream: TcpStream,
    heads: Vec<bool>,
    bytes: Vec<u8>,
    end: Option<End>,
    probed: bool,
}

impl Conversation {
    fn start(client: &Client, heads: Vec<bool>) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&client.address, client.timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(client.timeout))?;
        stream.set_write_timeout(Some(client.timeout))?;
        Ok(Self { stream, heads, bytes: Vec::new(), end: None, probed: false })
    }

    /// Reads until `count` responses are complete, or nothing more can come, or the bytes are not
    /// HTTP.
    /// Reads all that comes back; before the probe it waits until the whole request is `sent`,
    /// whatever has been answered by then.
    fn read(&mut self, case: &Prepared<'_>, sent: impl FnOnce()) {
        if case.wants_probe() {
            self.read_responses(case.expect.len());
            sent();
            self.send_probe(&case.probe);
        }
        self.read_to_end();
    }

    fn read_responses(&mut self, count: usize) {
        let mut seen = 0;
        let mut heads = self.heads.clone();
        let mut parsed_len = 0;
        while seen < count {
            let parsed = response::parse_responses(&self.bytes[parsed_len..], &heads, false);
            let Ok(parsed) = parsed else { return };
            seen += parsed.responses.len();
            parsed_len += parsed.consumed;
            let finals = parsed.responses.iter().filter(|response| response.status >= 200).count();
            heads.drain(..finals.min(heads.len()));
            if seen < count && !self.read_some() {
                return;
            }
        }
    }

    fn send_probe(&mut self, probe: &[u8]) {
        if self.end == Some(End::TimedOut) {
            self.end = None;
        }
        self.probed = true;
        send(&mut self.stream, probe, Delivery::Whole);
    }

    fn read_to_end(&mut self) {
        while self.read_some() {}
    }

    /// Reads what has arrived, and returns whether there may be more.
    fn read_some(&mut self) -> bool {
        let mut buffer = [0; 64 * 1024];
        while self.end.is_none() {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.end = Some(End::Closed),
                Ok(len) => {
                    self.bytes.extend_from_slice(&buffer[..len]);
                    return true;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.end = Some(end_of(&error)),
            }
        }
        false
    }

    fn into_transcript(self) -> Transcript {
        let end = self.end.unwrap_or(End::Open);
        Transcript { bytes: self.bytes, end, probed: self.probed }
    }
}

fn end_of(error: &io::Error) -> End {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => End::TimedOut,
        _ => End::Reset,
    }
}

/// Sends as many bytes as the server takes: it may answer and close before it has read them all.
fn send(stream: &mut TcpStream, bytes: &[u8], delivery: Delivery<'_>) {
    let pieces = pieces(bytes, delivery);
    let last = pieces.len().saturating_sub(1);
    for (index, piece) in pieces.into_iter().enumerate() {
        if stream.write_all(piece).is_err() {
            return;
        }
        if matches!(delivery, Delivery::SplitAt(_)) && index < last {
            thread::sleep(PIECE_PAUSE);
        }
    }
}

fn pieces<'b>(bytes: &'b [u8], delivery: Delivery<'_>) -> Vec<&'b [u8]> {
    match delivery {
        Delivery::Whole => vec![bytes],
        Delivery::ByteAtATime => bytes.chunks(1).collect(),
        Delivery::SplitAt(offsets) => {
            let mut pieces = Vec::new();
            let mut start = 0;
            for &offset in offsets.iter().filter(|&&offset| offset < bytes.len()) {
                pieces.push(&bytes[start..offset.max(start)]);
                start = offset.max(start);
            }
            pieces.push(&bytes[start..]);
            pieces
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_whole() {
        let check = |delivery: Delivery<'_>, expected: &[&str]| {
            let found: Vec<_> =
                pieces(b"abcdef", delivery).into_iter().map(<[u8]>::to_vec).collect();
            let expected: Vec<_> = expected.iter().map(|piece| piece.as_bytes().to_vec()).collect();
            assert_eq!(found, expected, "{delivery:?}");
        };
        check(Delivery::Whole, &["abcdef"]);
        check(Delivery::ByteAtATime, &["a", "b", "c", "d", "e", "f"]);
        check(Delivery::SplitAt(&[]), &["abcdef"]);
        check(Delivery::SplitAt(&[2, 5, 99]), &["ab", "cde", "f"]);
    }
}
