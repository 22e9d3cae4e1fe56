//! The session's end of a request that an application answers: its body goes out piece by piece,
//! and the reply comes in, both through bounded buffers. The other end, at the application's
//! socket, is an [`upstream::Call`].

use std::sync::Arc;

use http1::{BodyFraming, BodySkipper, Expectation, HeadWriter, Method, Target};
use site::fields::{Content, FieldList};
use site::path;
use site::routes::{Routed, Script};
use upstream::{
    Application, Body, Call, Downstream, Failure, Length, Origin, Protocol, ReplyFields,
};

use crate::after::After;
use crate::connection::Connection;
use crate::exchange::{Draft, Exchange, Then, put_chunk, put_last_chunk};
use crate::job::{Job, JobId};
use crate::response::{Incoming, Prepared, Request, Response};
use crate::spool::Spool;
use crate::worker::Worker;

/// The status that is logged for a client that leaves before its reply begins. It is never sent.
pub(crate) const CLIENT_LEFT: u16 = 499;

/// The status of a request with more fields than a program can be told (RFC 6585 §5).
pub(crate) const TOO_LARGE: u16 = 431;

/// Invites a client to send its body (RFC 9110 §15.2.1).
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A request that an application answers.
#[derive(Default)]
pub(crate) struct Stream {
    /// What follows the bytes in `out`: those do not move while they are sent.
    pub(crate) gathered: Vec<u8>,
    /// The number of its bytes that are content.
    gathered_bytes: u64,
    /// Whether the body was asked for when there was nothing of it.
    pub(crate) awaits_body: bool,
    /// Whether there was no room when it was asked for.
    awaits_room: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    owes_continue: bool,
    pub(crate) has_reply: bool,
    /// Whether the content of the reply is sent in chunks.
    is_chunked: bool,
    /// Whether the reply is complete.
    pub(crate) is_complete: bool,
    pub(crate) failure: Option<Failure>,
    body_bytes: u64,
    pub(crate) body_bytes_max: u64,
    /// The body, if it is gathered before the application is called.
    pub(crate) spool: Option<Spool>,
    reply_bytes_max: usize,
}

impl Stream {
    /// Whether the application can go on, of `unsent` bytes that are being sent.
    pub(crate) fn has_room(&self, unsent: usize) -> bool {
        let kept = unsent + self.gathered.len();
        self.awaits_room && !self.is_complete && kept < self.reply_bytes_max.div_ceil(2)
    }
}

impl Response<'_> {
    /// What a route leads a request to; none if files answer it, or it is refused without an
    /// application.
    pub(crate) fn routed(&self, w: &mut Worker, request: Request<'_>) -> Option<Routed> {
        let head = request.head;
        let Target::Path { path, .. } = head.target else { return None };
        if head.expectation == Expectation::Unknown || head.method == Method::Trace {
            return None;
        }
        let host = w.site.host(request.host);
        let canonical = path::canonicalise_for_application(path, &mut w.path_scratch).ok()?;
        host.route(canonical, head.method_bytes)
    }

    /// Prepares the call of the application that answers a request; none if files do.
    #[inline(never)]
    pub(crate) fn call(&mut self, w: &mut Worker, incoming: Incoming<'_>) -> Option<Prepared> {
        let routed = self.routed(w, incoming.request);
        if routed.is_some() {
            let Request { head, host, .. } = incoming.request;
            self.exchange.draft = Draft { host, ..Draft::of(head, w.now()) };
        }
        match routed {
            Some(Routed::Application(index)) => Some(self.begin_call(w, incoming, index, None)),
            Some(Routed::Script(script)) => Some(self.look_up_script(w, incoming, script)),
            Some(Routed::Program(script)) => {
                let index = script.application;
                Some(self.begin_call(w, incoming, index, Some(&script)))
            }
            Some(Routed::Nothing) => Some(self.decline(w, incoming, 404)),
            None => self.look_for_front_controller(w, incoming),
        }
    }

    /// Prepares the call of an application, which may be asked to run a script that exists.
    pub(crate) fn begin_call(
        &mut self,
        w: &mut Worker,
        incoming: Incoming<'_>,
        index: usize,
        script: Option<&Script>,
    ) -> Prepared {
        let Request { bytes, head, .. } = incoming.request;
        let application = Arc::clone(&w.applications()[index]);
        let body_bytes_max = application.limits().body_bytes_max;
        if matches!(head.body, BodyFraming::Length(length) if length > body_bytes_max) {
            return self.decline(w, incoming, 413);
        }
        *self.after = After::of(head, incoming.is_last);
        if !matches!(head.body, BodyFraming::None | BodyFraming::Length(0)) {
            self.exchange.skipper = Some(BodySkipper::new(head.body));
        }
        // A script must be told the length of its body.
        let runs_scripts = application.settings().protocol != Protocol::Http;
        let is_spooled = runs_scripts && head.body == BodyFraming::Chunked;
        let expects = head.expectation == Expectation::Continue;
        let prepared = match is_spooled {
            true => {
                if expects && incoming.arrived.is_empty() {
                    self.exchange.out.extend_from_slice(CONTINUE);
                }
                Prepared::Body
            }
            false => {
                let application = Arc::clone(&application);
                let call = self.make_call(w, incoming.request, application, script, None);
                let Some(call) = call else { return self.decline(w, incoming, TOO_LARGE) };
                self.exchange.job = Some(Job::Application(Box::new(call)));
                Prepared::Job
            }
        };
        self.exchange.head.clear();
        self.exchange.head.extend_from_slice(bytes);
        self.exchange.then = Then::Application(Box::new(Stream {
            owes_continue: expects && !is_spooled,
            body_bytes_max,
            spool: is_spooled.then(|| Spool::new(application, script.cloned())),
            reply_bytes_max: w.limits.reply_bytes_max,
            ..Stream::default()
        }));
        prepared
    }

    /// Makes the call of an application; none if it cannot be told all that there is to be said of
    /// the request. `body_bytes` is the length of a body that was gathered.
    pub(crate) fn make_call(
        &self,
        w: &Worker,
        request: Request<'_>,
        application: Arc<Application>,
        script: Option<&Script>,
        body_bytes: Option<u64>,
    ) -> Option<Call> {
        let peer = self.peer.ip().to_canonical();
        let authority = application.authority().to_owned();
        let is_trusted = application.trusts(peer);
        let origin = Origin { peer, is_trusted, authority: &authority };
        match application.settings().protocol {
            Protocol::Http => Some(Call::http(application, request.head, &origin, w.now())),
            Protocol::FastCgi | Protocol::Cgi => {
                let script = (script, body_bytes);
                self.make_script_call(w, request, application, script, origin)
            }
        }
    }

    /// Answers a request for an application without it; its body is dropped.
    pub(crate) fn decline(
        &mut self,
        w: &mut Worker,
        incoming: Incoming<'_>,
        status: u16,
    ) -> Prepared {
        self.drop_body(w, incoming);
        self.error(w, incoming.request, status)
    }

    /// Has the body of a request dropped, and decides what happens to its connection.
    pub(crate) fn drop_body(&mut self, w: &Worker, incoming: Incoming<'_>) {
        let Incoming { request, arrived, is_last } = incoming;
        let (after, body) = After::from_request(request.head, arrived, is_last, &w.limits);
        *self.after = after;
        self.exchange.skipper = body;
    }
}

/// The stream of a request, in the hands of the call that answers it.
pub struct StreamRef<'c> {
    connection: &'c mut Connection,
    w: &'c mut Worker,
    /// Whether nothing was left to send when the call got it: what comes may join those bytes.
    is_free: bool,
}

impl Connection {
    /// Whether the call with this number still has a client.
    #[must_use]
    pub fn wants_stream(&self, id: JobId) -> bool {
        let stream = self.exchange.as_ref().and_then(|exchange| exchange.stream());
        id == self.job_id() && self.is_streaming() && stream.is_some_and(|it| !it.is_complete)
    }

    /// The stream of the call with this number, unless it is not wanted any more: then its
    /// connection is to be closed.
    pub fn stream<'c>(&'c mut self, w: &'c mut Worker, id: JobId) -> Option<StreamRef<'c>> {
        if !self.wants_stream(id) {
            return None;
        }
        let exchange = self.exchange.as_mut()?;
        let is_free = exchange.is_sent();
        if is_free {
            exchange.out.clear();
            exchange.out_at = 0;
        }
        let stream = exchange.stream_mut()?;
        stream.awaits_body = false;
        stream.awaits_room = false;
        Some(StreamRef { connection: self, w, is_free })
    }
}

impl Exchange {
    pub(crate) fn stream(&self) -> Option<&Stream> {
        match &self.then {
            Then::Application(stream) => Some(stream),
            _ => None,
        }
    }

    pub(crate) fn stream_mut(&mut self) -> Option<&mut Stream> {
        match &mut self.then {
            Then::Application(stream) => Some(stream),
            _ => None,
        }
    }

    /// Goes on to what was gathered while the last bytes were sent. Returns whether there is
    /// anything.
    pub(crate) fn next_gathered(&mut self) -> bool {
        let Then::Application(stream) = &mut self.then else { return false };
        self.out.clear();
        self.out_at = 0;
        if !stream.gathered.is_empty() {
            std::mem::swap(&mut self.out, &mut stream.gathered);
        }
        self.draft.body_bytes += std::mem::take(&mut stream.gathered_bytes);
        !self.out.is_empty()
    }

    /// Takes the next `n` bytes of the request's body.
    pub(crate) fn take_body(&mut self, n: usize) {
        let Some(mut reader) = self.skipper.take() else { return };
        reader.advance(n as u64);
        self.consume(n);
        if !reader.is_done() {
            self.skipper = Some(reader);
        }
    }

    /// Advances over the framing of the request's body to its next bytes.
    pub(crate) fn body_ahead(&mut self) -> Result<usize, http1::BodyError> {
        let Some(mut reader) = self.skipper.take() else { return Ok(0) };
        let mut outcome = Ok(0);
        while !reader.is_done() && reader.data_ahead() == 0 && !self.unread().is_empty() {
            match reader.skip(&self.unread()[..1]) {
                Ok(taken) => self.consume(taken),
                Err(why) => {
                    outcome = Err(why);
                    break;
                }
            }
        }
        let ahead = usize::try_from(reader.data_ahead()).unwrap_or(usize::MAX);
        if !reader.is_done() || outcome.is_err() {
            self.skipper = Some(reader);
        }
        outcome.map(|_| ahead.min(self.unread().len()))
    }
}

impl StreamRef<'_> {
    /// The exchange and its stream; both are there as long as the stream is lent.
    fn parts(&mut self) -> Option<(&mut Exchange, bool)> {
        self.connection.exchange.as_deref_mut().map(|exchange| (exchange, self.is_free))
    }

    /// Adds bytes to what is sent, of which `content_bytes` are content.
    fn put(&mut self, content_bytes: usize, write: impl FnOnce(&mut Vec<u8>, bool)) {
        if let Some((exchange, is_free)) = self.parts() {
            put(exchange, is_free, content_bytes, write);
        }
    }

    fn put_head(&mut self, status: u16, length: Length, fields: ReplyFields<'_>) {
        let draft = match self.parts() {
            Some((exchange, _)) => exchange.draft,
            None => return,
        };
        let is_interim = status < 200;
        // Without its 100 the client may send the body or not: only the close is clear to both.
        let owes = self.connection.exchange.as_ref().and_then(|it| it.stream());
        if !is_interim && owes.is_some_and(|it| it.owes_continue) {
            self.connection.after = After::Linger;
        }
        let is_chunked = length == Length::Unknown && !draft.is_http10;
        let after = &mut self.connection.after;
        if length == Length::Unknown && draft.is_http10 && *after == After::KeepAlive {
            *after = After::Linger;
        }
        let connection: &[u8] = match (*after, draft.is_http10) {
            _ if is_interim => b"",
            (After::KeepAlive, false) => b"",
            (After::KeepAlive, true) => b"Connection: keep-alive\r\n",
            (After::Close | After::Linger, _) => b"Connection: close\r\n",
        };
        let rules = rule_fields(self.w, &self.connection.exchange, status, &fields);
        let date = *self.w.date();
        let Some(exchange) = self.connection.exchange.as_deref_mut() else { return };
        put(exchange, self.is_free, 0, |out, _| {
            let mut head = HeadWriter::new(out, status);
            let mut has_date = is_interim;
            match &rules {
                Some(list) => {
                    has_date |= list.value("Date").is_some();
                    list.write(head.rest());
                }
                None => has_date |= fields.write(head.rest()),
            }
            if !has_date {
                head.field("Date", &date);
            }
            match length {
                Length::Known(length) | Length::None(Some(length)) => {
                    head.field_number("Content-Length", length);
                }
                Length::Unknown if is_chunked => head.field("Transfer-Encoding", b"chunked"),
                Length::Unknown | Length::None(None) => {}
            }
            head.lines(connection);
            head.finish();
        });
        if let Some(stream) = self.connection.exchange.as_mut().and_then(|it| it.stream_mut()) {
            stream.is_chunked = is_chunked;
            stream.has_reply |= !is_interim;
        }
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
    w: &'f Worker,
    exchange: &Option<Box<Exchange>>,
    status: u16,
    fields: &ReplyFields<'f>,
) -> Option<FieldList<'f>> {
    let exchange = exchange.as_ref()?;
    let host = w.site.host(exchange.draft.host);
    if status < 200 || !host.has_header_rules() {
        return None;
    }
    let mut list = FieldList::default();
    for (name, value) in fields.clone() {
        list.add(std::str::from_utf8(name).unwrap_or_default(), value);
    }
    let mut scratch = Vec::new();
    let parsed = http1::parse_head(&exchange.head, 0, &w.limits.head);
    let path = match &parsed {
        Ok(http1::Parsed::Complete(head)) => match head.target {
            Target::Path { path, .. } => {
                path::canonicalise_for_application(path, &mut scratch).unwrap_or(b"/")
            }
            _ => b"/",
        },
        _ => b"/",
    };
    list.apply(host.header_rules(path), status, Content::Other);
    Some(list)
}

impl Downstream for StreamRef<'_> {
    fn body(&mut self) -> Body<'_> {
        let is_free = self.is_free;
        let Some(exchange) = self.connection.exchange.as_deref_mut() else {
            return Body::Broken(400);
        };
        if exchange.stream().is_some_and(|stream| stream.spool.is_some()) {
            let spool = exchange.stream_mut().and_then(|stream| stream.spool.as_mut());
            return spool.map_or(Body::Broken(400), Spool::body);
        }
        if exchange.skipper.is_none() {
            return Body::End;
        }
        let ahead = match exchange.body_ahead() {
            Ok(ahead) => ahead,
            Err(why) => return Body::Broken(why.status()),
        };
        if exchange.skipper.is_none() {
            return Body::End;
        }
        let is_at_end = self.connection.is_at_end;
        let (unread, at) = (&exchange.input, exchange.input_at);
        let Then::Application(stream) = &mut exchange.then else { return Body::Broken(400) };
        if stream.body_bytes + ahead as u64 > stream.body_bytes_max {
            return Body::Broken(413);
        }
        if ahead > 0 {
            stream.owes_continue = false;
            return Body::Bytes(&unread[at..at + ahead]);
        }
        if is_at_end {
            return Body::Broken(400);
        }
        stream.awaits_body = true;
        if std::mem::take(&mut stream.owes_continue) && !stream.has_reply && is_free {
            exchange.out.extend_from_slice(CONTINUE);
        }
        Body::Pending
    }

    fn body_taken(&mut self, n: usize) {
        let Some((exchange, _)) = self.parts() else { return };
        let stream = exchange.stream_mut();
        if let Some(spool) = stream.and_then(|stream| stream.spool.as_mut()) {
            return spool.advance(n);
        }
        exchange.take_body(n);
        if let Some(stream) = exchange.stream_mut() {
            stream.body_bytes += n as u64;
        }
    }

    fn interim(&mut self, status: u16, fields: ReplyFields<'_>) {
        let is_http10 = self.parts().is_none_or(|(exchange, _)| exchange.draft.is_http10);
        if !is_http10 && self.is_free {
            self.put_head(status, Length::None(None), fields);
        }
    }

    fn reply(&mut self, status: u16, length: Length, fields: ReplyFields<'_>) {
        if let Some((exchange, _)) = self.parts() {
            exchange.draft.status = status;
        }
        self.put_head(status, length, fields);
    }

    fn room(&mut self) -> usize {
        let Some((exchange, _)) = self.parts() else { return 0 };
        let unsent = exchange.out.len() - exchange.out_at;
        let Some(stream) = exchange.stream_mut() else { return 0 };
        let room = stream.reply_bytes_max.saturating_sub(unsent + stream.gathered.len());
        stream.awaits_room = room == 0;
        room
    }

    fn push(&mut self, bytes: &[u8]) {
        self.put(bytes.len(), |out, is_chunked| match is_chunked {
            true => put_chunk(out, bytes),
            false => out.extend_from_slice(bytes),
        });
    }

    fn end(&mut self) {
        self.put(0, |out, is_chunked| {
            if is_chunked {
                put_last_chunk(out);
            }
        });
        if let Some(stream) = self.connection.exchange.as_mut().and_then(|it| it.stream_mut()) {
            stream.is_complete = true;
        }
    }

    fn fail(&mut self, failure: Failure) {
        if let Some(stream) = self.connection.exchange.as_mut().and_then(|it| it.stream_mut()) {
            stream.failure = Some(failure);
        }
    }
}

impl Drop for StreamRef<'_> {
    fn drop(&mut self) {
        self.connection.after_call(self.w, self.is_free);
    }
}
