//! The session's end of a request that an application answers: its body goes out piece by piece,
//! and the reply comes in, both through bounded buffers. The other end, at the application's
//! socket, is an [`upstream::Call`].

use std::sync::Arc;

use http1::{HeadLimits, HeadWriter};
use site::Site;
use site::fields::{Content, FieldList};
use upstream::{Body, Downstream, Failure, Length, ReplyFields};

use crate::after::After;
use crate::connection::Connection;
use crate::counters::CountedTunnel;
use crate::exchange::{Exchange, Then, put_chunk, put_last_chunk};
use crate::job::JobId;
use crate::reply::Reply;
use crate::response::path_for_rules;
use crate::stream::{Instead, Stream};
use crate::worker::Worker;

/// The status of a reply that switches the protocol (RFC 9110 §15.2.2).
const SWITCHED: u16 = 101;

/// The stream of a request, in the hands of the call that answers it.
pub struct StreamRef<'c> {
    lender: Lender<'c>,
    w: &'c mut Worker,
    /// Whether nothing was left to send when the call got it: what comes may join those bytes.
    is_free: bool,
}

/// What the request is part of.
enum Lender<'c> {
    Connection(&'c mut Connection),
    Reply(&'c mut Reply),
}

/// What a stream works on.
struct Parts<'p> {
    exchange: &'p mut Exchange,
    after: &'p mut After,
    w: &'p mut Worker,
    is_free: bool,
    /// Whether the client has shut its side down.
    is_at_end: bool,
}

impl Connection {
    /// Whether the call with this number still has a client.
    #[must_use]
    pub fn wants_stream(&self, id: JobId) -> bool {
        let stream = self.exchange.as_ref().and_then(|exchange| exchange.stream());
        id == self.job_id() && self.is_streaming() && stream.is_some_and(|it| !it.is_complete)
    }

    /// Whether bytes pass between the client and an application as they are.
    #[must_use]
    pub fn is_tunnel(&self) -> bool {
        let stream = self.exchange.as_ref().and_then(|exchange| exchange.stream());
        stream.is_some_and(Stream::is_tunnel)
    }

    /// The stream of the call with this number, unless it is not wanted any more: then its
    /// connection is to be closed.
    pub fn stream<'c>(&'c mut self, w: &'c mut Worker, id: JobId) -> Option<StreamRef<'c>> {
        if !self.wants_stream(id) {
            return None;
        }
        let is_free = self.exchange.as_mut()?.lend_stream()?;
        Some(StreamRef { lender: Lender::Connection(self), w, is_free })
    }
}

impl Reply {
    /// The stream of the call that answers the request; none if its reply is complete.
    pub fn stream<'c>(&'c mut self, w: &'c mut Worker) -> Option<StreamRef<'c>> {
        if self.exchange.stream().is_none_or(|stream| stream.is_complete) {
            return None;
        }
        let is_free = self.exchange.lend_stream()?;
        Some(StreamRef { lender: Lender::Reply(self), w, is_free })
    }
}

impl Exchange {
    /// Prepares the stream for the call that gets it. Returns whether nothing is left to send; none
    /// if there is no stream.
    fn lend_stream(&mut self) -> Option<bool> {
        let is_free = self.is_sent() && !self.next_gathered();
        let stream = self.stream_mut()?;
        stream.awaits_body = false;
        stream.awaits_room = false;
        Some(is_free)
    }
}

impl StreamRef<'_> {
    /// What the stream works on, which is there as long as the stream is lent.
    fn parts(&mut self) -> Option<Parts<'_>> {
        let (w, is_free) = (&mut *self.w, self.is_free);
        match &mut self.lender {
            Lender::Connection(connection) => {
                let Connection { exchange, after, is_at_end, .. } = &mut **connection;
                let exchange = exchange.as_deref_mut()?;
                Some(Parts { exchange, after, w, is_free, is_at_end: *is_at_end })
            }
            Lender::Reply(reply) => {
                let Reply { exchange, after, is_at_end, .. } = &mut **reply;
                Some(Parts { exchange, after, w, is_free, is_at_end: *is_at_end })
            }
        }
    }

    /// Adds bytes to what is sent, of which `content_bytes` are content.
    fn put(&mut self, content_bytes: usize, write: impl FnOnce(&mut Vec<u8>, bool)) {
        if let Some(Parts { exchange, is_free, .. }) = self.parts() {
            put(exchange, is_free, content_bytes, write);
        }
    }

    fn put_head(&mut self, status: u16, length: Length, fields: ReplyFields<'_>) {
        let Some(Parts { exchange, after, w, is_free, .. }) = self.parts() else { return };
        let draft = exchange.draft;
        let is_tunnel = status == SWITCHED;
        let is_interim = status < 200 && !is_tunnel;
        if let Some(stream) = exchange.stream().filter(|_| !is_interim) {
            close_if_uninvited(stream, after);
        }
        if is_tunnel {
            *after = After::Linger; // there is no next request
        }
        let is_chunked = length == Length::Unknown && !draft.is_http10 && !is_tunnel;
        if length == Length::Unknown && draft.is_http10 && *after == After::KeepAlive {
            *after = After::Linger;
        }
        let connection: &[u8] = match (*after, draft.is_http10) {
            _ if is_interim => b"",
            _ if is_tunnel => b"Connection: upgrade\r\n",
            (After::KeepAlive, false) => b"",
            (After::KeepAlive, true) => b"Connection: keep-alive\r\n",
            (After::Close | After::Linger, _) => b"Connection: close\r\n",
        };
        let held = exchange.held.take();
        let (site, limits) = match &held {
            Some(held) => (&*held.site, &held.limits.head),
            None => (&*w.site, &w.limits.head),
        };
        let rules = rule_fields(site, limits, exchange, status, &fields);
        let tunnel = exchange.stream().filter(|_| is_tunnel).map(|stream| {
            CountedTunnel::new(&w.counters, site.applications()[stream.application].number())
        });
        let date = w.date();
        let protocols = is_tunnel.then(|| fields.protocols());
        put(exchange, is_free, 0, |out, _| {
            let mut head = HeadWriter::new(out, status);
            let mut has_date = status < 200;
            match &rules {
                Some(list) => {
                    has_date |= list.value("Date").is_some();
                    list.write(head.rest());
                }
                None => has_date |= fields.write(head.rest()),
            }
            if !has_date {
                head.field("Date", date);
            }
            match length {
                Length::Known(length) | Length::None(Some(length)) => {
                    head.content_length(length);
                }
                Length::Unknown if is_chunked => head.field("Transfer-Encoding", b"chunked"),
                Length::Unknown | Length::None(None) => {}
            }
            head.lines(connection);
            protocols.into_iter().flatten().for_each(|value| head.field("Upgrade", value));
            head.finish();
        });
        // Another protocol goes by nothing of this server, and may take for ever.
        exchange.held = held.filter(|_| !is_tunnel);
        if let Some(stream) = exchange.stream_mut() {
            stream.is_chunked = is_chunked;
            stream.tunnel = tunnel;
            stream.has_reply |= !is_interim;
        }
    }

    /// Writes the end of content in chunks with trailer fields, but for those that rules of the
    /// host add to heads. Without chunks there is no place for any.
    #[cold]
    fn put_trailers(&mut self, trailers: &[u8]) {
        let Some(Parts { exchange, w, is_free, .. }) = self.parts() else { return };
        let site = Arc::clone(exchange.site_or(&w.site));
        let rules = &site.host(exchange.draft.host).settings().headers;
        put(exchange, is_free, 0, |out, is_chunked| {
            if !is_chunked {
                return;
            }
            out.extend_from_slice(b"0\r\n");
            let mut lines = http1::trailer_lines(trailers);
            while let Some((name, _, line)) = lines.next_line() {
                if !rules.iter().any(|rule| rule.name.as_bytes().eq_ignore_ascii_case(name)) {
                    out.extend_from_slice(line);
                }
            }
            out.extend_from_slice(b"\r\n");
        });
    }
}

/// Without its 100 the client may send the body or not: only the close is clear to both.
fn close_if_uninvited(stream: &Stream, after: &mut After) {
    if stream.owes_continue {
        *after = After::Linger;
    }
}

/// Adds bytes to what is sent: to those that are sent next, or to those that follow them.
fn put(
    exchange: &mut Exchange,
    is_free: bool,
    content_bytes: usize,
    write: impl FnOnce(&mut Vec<u8>, bool),
) {
    let Then::Application(stream) = &mut exchange.then else { return };
    let is_chunked = stream.is_chunked;
    match is_free {
        true => {
            write(&mut exchange.out, is_chunked);
            exchange.draft.body_bytes += content_bytes as u64;
        }
        false => {
            write(&mut stream.gathered, is_chunked);
            stream.gathered_bytes += content_bytes as u64;
        }
    }
}

/// The fields of a reply together with those that rules add; none where no rule does.
fn rule_fields<'f>(
    site: &'f Site,
    limits: &HeadLimits,
    exchange: &Exchange,
    status: u16,
    fields: &ReplyFields<'f>,
) -> Option<FieldList<'f>> {
    let host = site.host(exchange.draft.host);
    if status < 200 || !host.has_header_rules() {
        return None;
    }
    let mut list = FieldList::default();
    for (name, value) in fields.clone() {
        list.add(std::str::from_utf8(name).unwrap_or_default(), value);
    }
    let mut scratch = Vec::new();
    let parsed = http1::parse_head(&exchange.head, 0, limits);
    let path = match &parsed {
        Ok(http1::Parsed::Complete(head)) => path_for_rules(head, &mut scratch),
        _ => b"/",
    };
    list.apply(host.header_rules(path), status, Content::Other);
    Some(list)
}

impl Downstream for StreamRef<'_> {
    fn body(&mut self) -> Body<'_> {
        let Some(Parts { exchange, is_free, is_at_end, .. }) = self.parts() else {
            return Body::Broken(400);
        };
        exchange.request_body(is_free, is_at_end)
    }

    fn body_taken(&mut self, n: usize) {
        let Some(Parts { exchange, .. }) = self.parts() else { return };
        exchange.request_body_taken(n);
    }

    /// As many are passed on as are kept for a client that takes nothing.
    fn interim(&mut self, status: u16, fields: ReplyFields<'_>) {
        let Some(Parts { exchange, .. }) = self.parts() else { return };
        let unsent = exchange.out.len() - exchange.out_at;
        let has_room = |it: &Stream| unsent + it.gathered.len() < it.reply_bytes_max;
        if !exchange.draft.is_http10 && exchange.stream().is_some_and(has_room) {
            self.put_head(status, Length::None(None), fields);
        }
    }

    fn reply(&mut self, status: u16, length: Length, fields: ReplyFields<'_>) {
        if let Some(Parts { exchange, after, .. }) = self.parts() {
            if let Some(stream) = exchange.stream_mut().filter(|stream| stream.files.is_some())
                && stream.takes_file(&fields)
            {
                close_if_uninvited(stream, after);
                return;
            }
            exchange.draft.status = status;
        }
        self.put_head(status, length, fields);
    }

    fn redirect(&mut self, target: &[u8]) {
        let Some(Parts { exchange, after, .. }) = self.parts() else { return };
        if let Some(stream) = exchange.stream_mut() {
            stream.instead = Some(Instead::Request(target.into()));
            close_if_uninvited(stream, after);
        }
    }

    fn room(&mut self) -> usize {
        let Some(Parts { exchange, .. }) = self.parts() else { return 0 };
        let unsent = exchange.out.len() - exchange.out_at;
        let Some(stream) = exchange.stream_mut().filter(|it| !it.is_complete) else { return 0 };
        let room = stream.reply_bytes_max.saturating_sub(unsent + stream.gathered.len());
        stream.awaits_room = room == 0;
        room
    }

    fn push(&mut self, bytes: &[u8]) {
        let stream = self.parts().and_then(|it| it.exchange.stream_mut());
        if stream.is_some_and(|stream| stream.drops(bytes.len())) {
            return;
        }
        self.put(bytes.len(), |out, is_chunked| match is_chunked {
            true => put_chunk(out, bytes),
            false => out.extend_from_slice(bytes),
        });
    }

    fn end(&mut self, trailers: &[u8]) {
        match trailers {
            [] => self.put(0, |out, is_chunked| {
                if is_chunked {
                    put_last_chunk(out);
                }
            }),
            _ => self.put_trailers(trailers),
        }
        if let Some(stream) = self.parts().and_then(|it| it.exchange.stream_mut()) {
            stream.is_complete = true;
        }
    }

    fn fail(&mut self, failure: Failure) {
        if let Some(stream) = self.parts().and_then(|it| it.exchange.stream_mut()) {
            stream.failure = Some(failure);
        }
    }
}

impl Drop for StreamRef<'_> {
    fn drop(&mut self) {
        // Of a reply its driver asks what follows.
        if let Lender::Connection(connection) = &mut self.lender {
            connection.after_call(self.w, self.is_free);
        }
    }
}
