//! FastCGI as a web server speaks it to an application (specification 1.0), in the role of a
//! responder: one request a connection at a time.
//!
//! A reply begins with the head of a CGI script (RFC 3875 §6), which `http1` reads: there is no
//! second reading of fields that could differ.

mod diagnostics;
mod environment;
mod records;

use std::sync::Arc;

use http1::{BodyFraming, Head, Method, ResponseBody, ResponseError, ResponseHead};

use crate::downstream::{Body, Downstream, Length};
use crate::failure::Failure;
use crate::fields::ReplyFields;
use crate::http::{HEAD_BYTES_MAX, PIECE_BYTES_MAX, is_idempotent};
use crate::settings::Application;

use diagnostics::Diagnostics;
use environment::put_environment;
use records::{Piece, RecordReader, Written, put_record, put_stream};

pub use diagnostics::Diagnostic;
pub use environment::ScriptRequest;
pub use records::RecordError;

/// The role of an application that answers requests.
const RESPONDER: u8 = 1;

/// Has the application keep the connection.
const KEEP_CONNECTION: u8 = 1;

/// Interim responses before a reply, at most: scripts have hardly any.
const INTERIM_MAX: u8 = 8;

/// The status line that is put before the head of a script, which has none. Its own status is in a
/// field.
const STATUS_LINE: &[u8] = b"HTTP/1.1 200 \r\n";

/// One request and its reply.
pub(crate) struct FastCgi {
    /// What is being sent: the request without its body, and then pieces of that, in records.
    out: Vec<u8>,
    out_at: usize,
    /// Whether the whole body is in `out` or sent.
    is_body_whole: bool,
    /// Whether something was sent that cannot be sent again.
    is_consumed: bool,
    is_head: bool,
    is_idempotent: bool,
    /// Whether the application keeps the connection.
    keeps: bool,
    records: RecordReader,
    /// The beginning of the reply's head, after a status line.
    partial: Vec<u8>,
    interim_left: u8,
    reply: Reply,
    diagnostics: Diagnostics,
}

/// What of a reply is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    Head,
    /// So many bytes, as the head says.
    Content(u64),
    /// As many bytes as there are.
    UntilEnd,
    /// Nothing that its client gets.
    Dropped,
}

impl FastCgi {
    pub(crate) fn new(
        application: &Arc<Application>,
        head: &Head<'_>,
        script: &ScriptRequest<'_>,
    ) -> Self {
        let keeps = application.keeps_connections();
        let mut out = Vec::with_capacity(head.len + 768);
        let flags = if keeps { KEEP_CONNECTION } else { 0 };
        put_record(&mut out, Written::Begin, &[0, RESPONDER, flags, 0, 0, 0, 0, 0]);
        let mut environment = Vec::with_capacity(head.len + 768);
        put_environment(&mut environment, head, script);
        put_stream(&mut out, Written::Params, &environment);
        let is_body_whole = matches!(head.body, BodyFraming::None | BodyFraming::Length(0));
        if is_body_whole {
            put_record(&mut out, Written::Stdin, b"");
        }
        Self {
            out,
            out_at: 0,
            is_body_whole,
            is_consumed: false,
            is_head: head.method == Method::Head,
            is_idempotent: is_idempotent(head.method),
            keeps,
            records: RecordReader::default(),
            partial: Vec::new(),
            interim_left: INTERIM_MAX,
            reply: Reply::Head,
            diagnostics: Diagnostics::new(application, head.target_bytes),
        }
    }

    /// What is to be sent now.
    pub(crate) fn to_send(&self) -> &[u8] {
        &self.out[self.out_at..]
    }

    pub(crate) fn sent(&mut self, n: usize) {
        self.out_at += n;
        debug_assert!(self.out_at <= self.out.len(), "more was sent than there is");
    }

    /// Whether the whole request is sent.
    pub(crate) fn is_sent(&self) -> bool {
        self.is_body_whole && self.out_at == self.out.len()
    }

    /// Whether the reply has begun.
    pub(crate) fn has_reply(&self) -> bool {
        self.reply != Reply::Head
    }

    /// Whether nothing is left to send for now, and more is to come from the client.
    pub(crate) fn awaits_body(&self) -> bool {
        !self.is_body_whole && self.out_at == self.out.len()
    }

    /// Begins the request again on another connection. Returns whether that is right: nothing of
    /// the reply has arrived, and what the application may have done already does no harm twice.
    pub(crate) fn rewind(&mut self) -> bool {
        let is_unheard =
            self.reply == Reply::Head && self.partial.is_empty() && self.records.is_between();
        let is_harmless = self.is_idempotent || self.out_at == 0;
        let may = is_unheard && is_harmless && !self.is_consumed;
        if may {
            self.out_at = 0;
        }
        may
    }

    /// Prepares more to send, if everything is sent that was prepared.
    pub(crate) fn refill<D: Downstream>(&mut self, d: &mut D) -> Result<(), Failure> {
        if self.is_body_whole || self.out_at < self.out.len() {
            return Ok(());
        }
        let n = match d.body() {
            Body::Pending => return Ok(()),
            Body::Broken(status) => return Err(Failure::Request(status)),
            Body::Bytes(bytes) => {
                let n = bytes.len().min(PIECE_BYTES_MAX);
                self.out.clear();
                put_record(&mut self.out, Written::Stdin, &bytes[..n]);
                n
            }
            Body::End => {
                self.is_body_whole = true;
                self.out.clear();
                put_record(&mut self.out, Written::Stdin, b"");
                0
            }
        };
        self.out_at = 0;
        self.is_consumed = true;
        if n > 0 {
            d.body_taken(n);
        }
        Ok(())
    }

    /// Takes received bytes. Returns whether the connection can be kept, once the reply is over.
    pub(crate) fn ingest<D: Downstream>(
        &mut self,
        d: &mut D,
        mut bytes: &[u8],
    ) -> Result<Option<bool>, Failure> {
        while !bytes.is_empty() {
            let (taken, piece) = self.records.read(bytes).map_err(Failure::Record)?;
            bytes = &bytes[taken..];
            match piece {
                Piece::Nothing => {}
                Piece::Error(text) => self.diagnostics.take(text),
                Piece::Output(output) => {
                    if self.take_output(d, output)? {
                        return Ok(Some(false));
                    }
                }
                Piece::End { status, protocol_status } => {
                    return self.finish(d, status, protocol_status, bytes.is_empty());
                }
            }
        }
        Ok(None)
    }

    /// Takes bytes of the reply. Returns whether it is over: there is more than its head says.
    fn take_output<D: Downstream>(&mut self, d: &mut D, output: &[u8]) -> Result<bool, Failure> {
        match &mut self.reply {
            Reply::Head => return self.read_head(d, output),
            Reply::Dropped => {}
            Reply::UntilEnd => d.push(output),
            Reply::Content(left) => {
                let wanted = usize::try_from(*left).unwrap_or(usize::MAX).min(output.len());
                *left -= wanted as u64;
                if wanted > 0 {
                    d.push(&output[..wanted]);
                }
                if wanted < output.len() {
                    d.end();
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Reads the head of the reply, and then what of its content has come.
    fn read_head<D: Downstream>(&mut self, d: &mut D, output: &[u8]) -> Result<bool, Failure> {
        self.partial.extend_from_slice(output);
        // A head ends with a line, so that one which comes byte by byte is not parsed as often.
        let mut may_be_whole = output.contains(&b'\n');
        while may_be_whole {
            self.put_status_line();
            let whole = std::mem::take(&mut self.partial);
            let parsed = http1::parse_response_head(&whole, self.is_head).map_err(of_script)?;
            let Some(head) = parsed else {
                self.partial = whole;
                break;
            };
            if head.len > HEAD_BYTES_MAX {
                return Err(Failure::HeadTooLarge);
            }
            self.take_head(d, &head, &whole)?;
            let content = &whole[head.len..];
            if self.reply != Reply::Head {
                return if content.is_empty() { Ok(false) } else { self.take_output(d, content) };
            }
            self.partial.extend_from_slice(content);
            may_be_whole = content.contains(&b'\n');
            self.interim_left = self.interim_left.checked_sub(1).ok_or(Failure::ScriptHead)?;
        }
        match self.partial.len() > HEAD_BYTES_MAX {
            true => Err(Failure::HeadTooLarge),
            false => Ok(false),
        }
    }

    /// Puts a status line before a head that has none, as that of a script. Programs that were
    /// written for `nph-` scripts send one.
    fn put_status_line(&mut self) {
        if !self.partial.starts_with(b"HTTP/1.") {
            self.partial.splice(0..0, STATUS_LINE.iter().copied());
        }
    }

    fn take_head<D: Downstream>(
        &mut self,
        d: &mut D,
        head: &ResponseHead,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        let fields = ReplyFields::of_script(head.lines(bytes), head.names_fields);
        let status = match bytes.starts_with(STATUS_LINE) {
            true => script_status(head, bytes)?,
            false => head.status,
        };
        match status {
            101 => return Err(Failure::Switched),
            103 => d.interim(103, fields),
            ..200 => {}
            _ => {
                let (length, reply) = match head.body {
                    _ if self.is_head => (Length::None(head.content_length), Reply::Dropped),
                    _ if matches!(status, 204 | 304) => (Length::None(None), Reply::Dropped),
                    ResponseBody::Framed(BodyFraming::Length(length)) => {
                        (Length::Known(length), Reply::Content(length))
                    }
                    _ => (Length::Unknown, Reply::UntilEnd),
                };
                self.reply = reply;
                d.reply(status, length, fields);
            }
        }
        Ok(())
    }

    /// The application says that the request is over.
    fn finish<D: Downstream>(
        &mut self,
        d: &mut D,
        status: u32,
        protocol_status: u8,
        is_last: bool,
    ) -> Result<Option<bool>, Failure> {
        self.diagnostics.end(status);
        match protocol_status {
            0 => {}
            2 => return Err(Failure::Overloaded),
            other => return Err(Failure::Declined(other)),
        }
        self.end_reply(d)?;
        // Bytes after a reply belong to no request: nothing on the connection can be trusted.
        Ok(Some(self.keeps && is_last && self.records.is_between() && self.is_sent()))
    }

    fn end_reply<D: Downstream>(&self, d: &mut D) -> Result<(), Failure> {
        match self.reply {
            Reply::Head if self.partial.is_empty() => Err(Failure::Closed),
            Reply::Head | Reply::Content(1..) => Err(Failure::CutShort),
            Reply::Content(0) | Reply::UntilEnd | Reply::Dropped => {
                d.end();
                Ok(())
            }
        }
    }

    /// The connection has ended. Without an `END_REQUEST` only a length says that the reply is
    /// whole: a process that has crashed ends its connection as well.
    pub(crate) fn ended<D: Downstream>(&mut self, d: &mut D) -> Result<(), Failure> {
        self.diagnostics.end(0);
        match self.reply {
            Reply::UntilEnd => Err(Failure::CutShort),
            _ => self.end_reply(d),
        }
    }
}

/// The status of a script's reply (RFC 3875 §6.3): that of the field, 302 with a location and
/// without one, or else 200.
fn script_status(head: &ResponseHead, bytes: &[u8]) -> Result<u16, Failure> {
    let value = |name: &[u8]| {
        head.lines(bytes).find(|(line, _)| line.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    match value(b"status") {
        Some(
            [h @ b'1'..=b'9', t @ b'0'..=b'9', o @ b'0'..=b'9']
            | [h @ b'1'..=b'9', t @ b'0'..=b'9', o @ b'0'..=b'9', b' ', ..],
        ) => {
            let [h, t, o] = [h, t, o].map(|digit| u16::from(digit - b'0'));
            Ok(h * 100 + t * 10 + o)
        }
        None if value(b"location").is_some() => Ok(302),
        None if value(b"content-type").is_some() => Ok(200),
        Some(_) | None => Err(Failure::ScriptHead),
    }
}

/// What is wrong with the head of a script: what makes it no head is none of HTTP's.
fn of_script(why: ResponseError) -> Failure {
    match why {
        ResponseError::Syntax => Failure::ScriptHead,
        why => Failure::Head(why),
    }
}
