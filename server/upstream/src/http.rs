//! HTTP/1.1 as a client speaks it to an application (RFC 9110, RFC 9112).
//!
//! No framing is passed on: the body of a request is framed anew from what was read of it, and so
//! is the content of a reply by its downstream. What two recipients could read in two ways is never
//! sent.

use std::net::IpAddr;

use http1::{BodyFraming, BodySkipper, Expectation, Head, Method, ResponseBody, ResponseHead};
use http1::{Target, Version, is_for_one_hop, is_name, name_has, parse_response_head};

use crate::downstream::{Body, Downstream, Length};
use crate::failure::Failure;
use crate::fields::{Named, ReplyFields, is_forwarded, put_fields};
use crate::origin::Origin;
use crate::outgoing::Outgoing;
use crate::tick::Tick;
use crate::trailers::{self, TrailerReader};
use crate::upgrade::{self, Upgrade};

/// The largest head of a reply.
pub(crate) const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The largest number of interim responses to one request. Each counts as progress: without a bound
/// an application that sends nothing else would hold its request for ever.
const INTERIMS_MAX: usize = 1000;

/// Bytes of a request's body that are sent at once: as many as there may be of it.
pub(crate) const PIECE_BYTES_MAX: usize = 32 * 1024;

/// How long an application may take to ask for a body, in milliseconds. Then it is sent: servers
/// that do not know `100-continue` wait for it.
const ASK_MS: u64 = 1000;

/// One request and its reply.
#[derive(Clone)]
pub(crate) struct Http {
    /// What is being sent: the head, and then pieces of the body, framed.
    out: Outgoing,
    body: RequestBody,
    is_chunked: bool,
    is_head: bool,
    is_idempotent: bool,
    /// The request's `Connection` lines, if trailers may follow its body.
    connection: Vec<u8>,
    accepts_trailers: bool,
    /// What reads the content of a reply in chunks after which the client takes trailers.
    trailer: Option<Box<TrailerReader>>,
    /// The beginning of a reply's head.
    partial: Vec<u8>,
    reply: Reply,
    upgrade: Upgrade,
    interims: usize,
    /// Whether the application takes another request on the connection.
    keeps: bool,
}

/// What is left of a request's body.
#[derive(Clone, Copy, Debug)]
enum RequestBody {
    /// Nothing.
    Whole,
    /// The application is to ask for it, until then at the latest, which is set when the head is
    /// sent.
    ToBeAskedFor(Option<Tick>),
    Streaming,
}

#[derive(Clone, Debug)]
enum Reply {
    Head,
    Content(BodySkipper),
    UntilClose,
}

impl Http {
    pub(crate) fn new(head: &Head<'_>, origin: &Origin<'_>) -> Self {
        let mut out = Vec::with_capacity(head.len + 192);
        let upgrade = Upgrade::from_head(head);
        let accepts_trailers = trailers::are_accepted(head);
        put_head(&mut out, head, origin, (upgrade, accepts_trailers));
        let is_chunked = head.body == BodyFraming::Chunked;
        let body = match (head.body, head.expectation) {
            (BodyFraming::None | BodyFraming::Length(0), _) => RequestBody::Whole,
            (_, Expectation::Continue) => RequestBody::ToBeAskedFor(None),
            _ => RequestBody::Streaming,
        };
        Self {
            out: Outgoing::new(out),
            body,
            is_chunked,
            is_head: head.method == Method::Head,
            is_idempotent: is_idempotent(head.method),
            connection: trailers::connection_lines(head.lines(), head.names_fields && is_chunked),
            accepts_trailers,
            trailer: None,
            partial: Vec::new(),
            reply: Reply::Head,
            upgrade,
            interims: 0,
            keeps: false,
        }
    }

    /// What is to be sent now.
    #[inline]
    pub(crate) fn to_send(&self) -> &[u8] {
        self.out.rest()
    }

    #[inline]
    pub(crate) fn sent(&mut self, n: usize) {
        self.out.sent(n);
    }

    /// Whether the whole request is sent.
    #[inline]
    pub(crate) fn is_sent(&self) -> bool {
        matches!(self.body, RequestBody::Whole) && self.out.is_sent()
    }

    /// Whether the reply has begun.
    pub(crate) fn has_reply(&self) -> bool {
        !matches!(self.reply, Reply::Head)
    }

    pub(crate) fn is_idempotent(&self) -> bool {
        self.is_idempotent
    }

    /// Begins the request again on another connection. Returns whether that is right: nothing of
    /// the reply has arrived, and what the application may have done already does no harm twice.
    pub(crate) fn rewind(&mut self) -> bool {
        let is_unheard = self.partial.is_empty() && matches!(self.reply, Reply::Head);
        is_unheard && self.out.rewind(self.is_idempotent)
    }

    /// Prepares more to send. Only while the body is awaited.
    pub(crate) fn refill<D: Downstream>(&mut self, d: &mut D, now: Tick) -> Result<(), Failure> {
        if let RequestBody::ToBeAskedFor(until) = &mut self.body {
            until.get_or_insert(now.plus_ms(ASK_MS));
            return Ok(());
        }
        match d.body() {
            Body::Pending => {}
            Body::Bytes(bytes) => {
                let n = bytes.len().min(PIECE_BYTES_MAX);
                let out = self.out.replace();
                match self.is_chunked {
                    true => put_chunk(out, &bytes[..n]),
                    false => out.extend_from_slice(&bytes[..n]),
                }
                d.body_taken(n);
            }
            Body::End(trailers) => {
                self.body = RequestBody::Whole;
                if self.is_chunked {
                    put_last_chunk(self.out.replace(), trailers, &self.connection);
                }
            }
            Body::Broken(status) => return Err(Failure::Request(status)),
        }
        Ok(())
    }

    /// When the body is sent although it was not asked for.
    pub(crate) fn asks_until(&self) -> Option<Tick> {
        match self.body {
            RequestBody::ToBeAskedFor(until) => until,
            _ => None,
        }
    }

    /// The application has not asked for the body in time.
    pub(crate) fn send_unasked(&mut self) {
        self.body = RequestBody::Streaming;
    }

    /// Whether nothing is left to send for now, and more is to come from the client.
    #[inline]
    pub(crate) fn awaits_body(&self) -> bool {
        !matches!(self.body, RequestBody::Whole) && self.out.is_sent()
    }

    /// Takes received bytes. Returns whether the connection can be kept, once the reply is over.
    pub(crate) fn ingest<D: Downstream>(
        &mut self,
        d: &mut D,
        bytes: &[u8],
    ) -> Result<Option<bool>, Failure> {
        if self.partial.is_empty() {
            return self.read(d, bytes);
        }
        self.partial.extend_from_slice(bytes);
        // A head ends with a line, so that one which comes byte by byte is not parsed as often.
        if !bytes.contains(&b'\n') {
            return self.keep_partial();
        }
        let whole = std::mem::take(&mut self.partial);
        self.read(d, &whole)
    }

    fn keep_partial(&self) -> Result<Option<bool>, Failure> {
        match self.partial.len() > HEAD_BYTES_MAX {
            true => Err(Failure::HeadTooLarge),
            false => Ok(None),
        }
    }

    fn read<D: Downstream>(
        &mut self,
        d: &mut D,
        mut bytes: &[u8],
    ) -> Result<Option<bool>, Failure> {
        while let Reply::Head = self.reply {
            match &parse_response_head(bytes, self.is_head) {
                Ok(Some(head)) => {
                    self.take_head(d, head, bytes)?;
                    bytes = &bytes[head.len..];
                }
                Ok(None) => {
                    self.partial.extend_from_slice(bytes);
                    return self.keep_partial();
                }
                Err(why) => return Err(Failure::Head(*why)),
            }
        }
        let Reply::Content(reader) = &mut self.reply else {
            if !bytes.is_empty() {
                d.push(bytes);
            }
            return Ok(None);
        };
        while !bytes.is_empty() && !reader.is_done() {
            let (taken, data) = match &mut self.trailer {
                None => reader.read(bytes),
                Some(trailer) => trailer.read(reader, bytes),
            }
            .map_err(Failure::Content)?;
            if !data.is_empty() {
                d.push(data);
            }
            bytes = &bytes[taken..];
        }
        if !reader.is_done() {
            return Ok(None);
        }
        match &self.trailer {
            None => d.end(b""),
            Some(trailer) => trailer.end(d),
        }
        // Bytes after a reply belong to no request: nothing on the connection can be trusted.
        Ok(Some(self.keeps && bytes.is_empty() && self.is_sent()))
    }

    fn take_head<D: Downstream>(
        &mut self,
        d: &mut D,
        head: &ResponseHead,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        if head.len > HEAD_BYTES_MAX {
            return Err(Failure::HeadTooLarge);
        }
        let fields = ReplyFields::new(head, bytes);
        if head.status < 200 {
            self.interims += 1;
        }
        match head.status {
            _ if self.interims > INTERIMS_MAX => return Err(Failure::Interims),
            100 => {
                if let RequestBody::ToBeAskedFor(_) = self.body {
                    self.body = RequestBody::Streaming;
                }
            }
            101 => self.switch(d, fields)?,
            ..200 => d.interim(head.status, fields),
            _ => {
                let length = match head.body {
                    ResponseBody::Framed(BodyFraming::Length(length)) => Length::Known(length),
                    ResponseBody::Framed(BodyFraming::None) => {
                        Length::None(head.content_length.filter(|_| self.is_head))
                    }
                    ResponseBody::Framed(BodyFraming::Chunked) | ResponseBody::UntilClose => {
                        Length::Unknown
                    }
                };
                // HTTP/1.0 has no rules for connections that are kept, only a custom.
                self.keeps = head.keep_alive && head.version == Version::Http11;
                let is_chunked = head.body == ResponseBody::Framed(BodyFraming::Chunked);
                if self.accepts_trailers && is_chunked {
                    let lines = head.lines(bytes);
                    self.trailer = Some(Box::new(TrailerReader::new(lines, head.names_fields)));
                }
                d.reply(head.status, length, fields);
                self.reply = match head.body {
                    ResponseBody::Framed(framing) => Reply::Content(BodySkipper::new(framing)),
                    ResponseBody::UntilClose => Reply::UntilClose,
                };
            }
        }
        Ok(())
    }

    /// The application speaks another protocol from here on. Only now is it known that the client
    /// does so too: until here, what it has sent after its head may have been its next request.
    #[cold]
    fn switch<D: Downstream>(&mut self, d: &mut D, fields: ReplyFields<'_>) -> Result<(), Failure> {
        if self.upgrade != Upgrade::Asked {
            return Err(Failure::Switched);
        }
        self.upgrade = Upgrade::Open;
        self.body = RequestBody::Streaming;
        self.reply = Reply::UntilClose;
        d.reply(101, Length::Unknown, fields);
        Ok(())
    }

    /// Whether bytes pass as they are, in both directions.
    #[inline]
    pub(crate) fn is_tunnel(&self) -> bool {
        matches!(self.upgrade, Upgrade::Open | Upgrade::HalfClosed)
    }

    /// Whether the application is to be told that the client sends nothing more.
    #[inline]
    pub(crate) fn ends_sending(&self) -> bool {
        self.upgrade == Upgrade::Open && self.is_sent()
    }

    /// The application was told so.
    pub(crate) fn sending_ended(&mut self) {
        self.upgrade = Upgrade::HalfClosed;
    }

    /// The connection has ended.
    pub(crate) fn ended<D: Downstream>(&mut self, d: &mut D) -> Result<(), Failure> {
        match self.reply {
            Reply::Head => Err(Failure::Closed),
            Reply::Content(_) => Err(Failure::CutShort),
            Reply::UntilClose => {
                d.end(b"");
                Ok(())
            }
        }
    }
}

/// Whether a request may be made twice (RFC 9110 §9.2.2).
pub(crate) fn is_idempotent(method: Method) -> bool {
    matches!(method, Method::Get | Method::Head | Method::Options | Method::Put | Method::Delete)
}

/// Writes the head of a request for an application.
fn put_head(
    out: &mut Vec<u8>,
    head: &Head<'_>,
    origin: &Origin<'_>,
    (upgrade, accepts_trailers): (Upgrade, bool),
) {
    let mut put = |bytes: &[u8]| out.extend_from_slice(bytes);
    put(head.method_bytes);
    put(b" ");
    match head.target {
        // As it was sent, byte by byte; of an absolute target, what follows the authority.
        Target::Path { .. } if head.target_bytes.starts_with(b"/") => put(head.target_bytes),
        Target::Path { path, query } => {
            put(path);
            if let Some(query) = query {
                put(b"?");
                put(query);
            }
        }
        Target::Asterisk | Target::Authority => put(b"*"),
    }
    put(b" HTTP/1.1\r\nHost: ");
    put(head.host.unwrap_or(origin.authority.as_bytes()));
    put(b"\r\n");
    let named = Named::new(&head.lines(), head.names_fields);
    put_fields(out, head.lines(), |name| {
        is_passed_on(name, origin.is_trusted) && !named.contains(name)
    });
    put_framing(out, head.body);
    if upgrade == Upgrade::Asked {
        upgrade::put_fields(out, head);
    } else if accepts_trailers {
        out.extend_from_slice(b"TE: trailers\r\nConnection: TE\r\n");
    }
    if head.expectation == Expectation::Continue && !matches!(head.body, BodyFraming::None) {
        out.extend_from_slice(b"Expect: 100-continue\r\n");
    }
    put_forwarded_and_end(out, head, origin);
}

fn put_framing(out: &mut Vec<u8>, body: BodyFraming) {
    match body {
        BodyFraming::None => {}
        BodyFraming::Length(length) => {
            out.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
        }
        BodyFraming::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
}

/// Whether a field of a request is for the application as well. `Proxy` would become the variable
/// HTTP_PROXY there (CVE-2016-5385), and names with `_` the variables of other fields.
#[inline]
fn is_passed_on(name: &[u8], is_trusted: bool) -> bool {
    let is = |other: &[u8]| is_name(name, other);
    let is_replaced = match name.len() {
        4 => is(b"host"),
        5 => is(b"proxy"),
        6 => is(b"expect"),
        _ => false,
    };
    let is_doubtful = name_has(b'_', name) || (is_forwarded(name) && !is_trusted);
    !is_replaced && !is_doubtful && !is_for_one_hop(name)
}

/// Tells of the client (RFC 7239 where a trusted proxy does so, and the fields that came before
/// it), and ends the head. Behind a trusted proxy these lines follow its own: recipients join them
/// to one list (RFC 9110 §5.3).
fn put_forwarded_and_end(out: &mut Vec<u8>, head: &Head<'_>, origin: &Origin<'_>) {
    out.extend_from_slice(b"X-Forwarded-For: ");
    put_address(out, origin.peer.to_canonical());
    let is_told = |name: &[u8]| {
        origin.is_trusted && head.lines().any(|(line, _)| line.eq_ignore_ascii_case(name))
    };
    let proto: &[u8] = match is_told(b"X-Forwarded-Proto") {
        true => b"\r\n",
        false => b"\r\nX-Forwarded-Proto: http\r\n",
    };
    out.extend_from_slice(proto);
    if let Some(host) = head.host.filter(|_| !is_told(b"X-Forwarded-Host")) {
        out.extend_from_slice(b"X-Forwarded-Host: ");
        out.extend_from_slice(host);
        out.extend_from_slice(b"\r\n");
    }
    if is_told(b"Forwarded") {
        let line = format!("Forwarded: for={};proto=http\r\n", node(origin.peer.to_canonical()));
        out.extend_from_slice(line.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

/// An address as a node of `Forwarded` (RFC 7239 §6).
fn node(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("\"[{address}]\""),
    }
}

/// Writes an address. The usual ones are written here, because formatting costs a fifth of what
/// else a request does.
fn put_address(out: &mut Vec<u8>, address: IpAddr) {
    let IpAddr::V4(address) = address else {
        return out.extend_from_slice(address.to_string().as_bytes());
    };
    let mut text = [0; 15]; // of 255.255.255.255
    let mut len = 0;
    let mut put = |byte| {
        text[len] = byte;
        len += 1;
    };
    for (index, octet) in address.octets().into_iter().enumerate() {
        if index > 0 {
            put(b'.');
        }
        if octet >= 100 {
            put(b'0' + octet / 100);
        }
        if octet >= 10 {
            put(b'0' + octet / 10 % 10);
        }
        put(b'0' + octet % 10);
    }
    out.extend_from_slice(&text[..len]);
}

/// Writes a chunk (RFC 9112 §7.1).
fn put_chunk(out: &mut Vec<u8>, bytes: &[u8]) {
    http1::put_chunk_size(out, bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Writes the end of a body in chunks, with those of its trailers that are for the application.
fn put_last_chunk(out: &mut Vec<u8>, trailers: &[u8], connection: &[u8]) {
    out.extend_from_slice(b"0\r\n");
    if !trailers.is_empty() {
        trailers::put(out, trailers, connection, |name| is_passed_on(name, false));
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_usual() {
        let addresses =
            ["0.0.0.0", "9.10.99.100", "199.200.255.1", "127.0.0.1", "::1", "fe80::1:2"];
        for text in addresses {
            let mut out = Vec::new();
            put_address(&mut out, text.parse().unwrap());
            assert_eq!(out, text.as_bytes());
        }
    }

    #[test]
    fn nodes_are_quoted_if_they_have_colons() {
        for (address, expected) in
            [("192.0.2.7", "192.0.2.7"), ("2001:db8::1", "\"[2001:db8::1]\"")]
        {
            assert_eq!(node(address.parse().unwrap()), expected);
        }
    }
}
