//! FastCGI as a web server speaks it to an application (specification 1.0), in the role of a
//! responder: one request a connection at a time.

pub(crate) mod records;

use std::sync::Arc;

use http1::{BodyFraming, Head, Method};

use crate::application::Application;
use crate::downstream::{Body, Downstream};
use crate::failure::Failure;
use crate::http::{PIECE_BYTES_MAX, is_idempotent};
use crate::outgoing::Outgoing;
use crate::script::{Diagnostics, Form, ScriptReply, ScriptRequest, environment};
use crate::tick::Tick;

use records::{Piece, RecordReader, Written, put_record, put_stream};

pub use records::RecordError;

/// The role of an application that answers requests.
const RESPONDER: u8 = 1;

/// Has the application keep the connection.
const KEEP_CONNECTION: u8 = 1;

/// One request and its reply.
#[derive(Clone)]
pub(crate) struct FastCgi {
    /// What is being sent: the request without its body, and then pieces of that, in records.
    out: Outgoing,
    /// Whether the whole body is in `out` or sent.
    is_body_whole: bool,
    is_idempotent: bool,
    /// Whether the application keeps the connection.
    keeps: bool,
    records: RecordReader,
    reply: ScriptReply,
    diagnostics: Diagnostics,
    application: Arc<Application>,
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
        let environment = environment(head, script, None, Form::Lengths);
        put_stream(&mut out, Written::Params, &environment);
        let is_body_whole = matches!(head.body, BodyFraming::None | BodyFraming::Length(0));
        if is_body_whole {
            put_record(&mut out, Written::Stdin, b"");
        }
        Self {
            out: Outgoing::new(out),
            is_body_whole,
            is_idempotent: is_idempotent(head.method),
            keeps,
            records: RecordReader::default(),
            reply: ScriptReply::new(head.method == Method::Head),
            diagnostics: Diagnostics::new(application.name(), head.target_bytes),
            application: Arc::clone(application),
        }
    }

    /// What is to be sent now.
    pub(crate) fn to_send(&self) -> &[u8] {
        self.out.rest()
    }

    pub(crate) fn sent(&mut self, n: usize) {
        self.out.sent(n);
    }

    /// Whether the whole request is sent.
    pub(crate) fn is_sent(&self) -> bool {
        self.is_body_whole && self.out.is_sent()
    }

    /// Whether the reply has begun.
    pub(crate) fn has_reply(&self) -> bool {
        self.reply.has_head()
    }

    /// Whether nothing is left to send for now, and more is to come from the client.
    #[inline]
    pub(crate) fn awaits_body(&self) -> bool {
        !self.is_body_whole && self.out.is_sent()
    }

    pub(crate) fn is_idempotent(&self) -> bool {
        self.is_idempotent
    }

    /// Begins the request again on another connection. Returns whether that is right: nothing of
    /// the reply has arrived, and what the application may have done already does no harm twice.
    pub(crate) fn rewind(&mut self) -> bool {
        let is_unheard = !self.reply.has_begun() && self.records.is_between();
        is_unheard && self.out.rewind(self.is_idempotent)
    }

    /// Prepares more to send. Only while the body is awaited.
    pub(crate) fn refill<D: Downstream>(&mut self, d: &mut D, _: Tick) -> Result<(), Failure> {
        let n = match d.body() {
            Body::Pending => return Ok(()),
            Body::Broken(status) => return Err(Failure::Request(status)),
            Body::Bytes(bytes) => {
                let n = bytes.len().min(PIECE_BYTES_MAX);
                put_record(self.out.replace(), Written::Stdin, &bytes[..n]);
                n
            }
            Body::End(_) => {
                self.is_body_whole = true;
                put_record(self.out.replace(), Written::Stdin, b"");
                0
            }
        };
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
                Piece::Error(text) => {
                    self.diagnostics.take(text, |line| self.application.report(line));
                }
                Piece::Output(output) => {
                    if self.reply.take(d, output)? {
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

    /// The application says that the request is over.
    fn finish<D: Downstream>(
        &mut self,
        d: &mut D,
        status: u32,
        protocol_status: u8,
        is_last: bool,
    ) -> Result<Option<bool>, Failure> {
        self.diagnostics.end(status, |line| self.application.report(line));
        match protocol_status {
            0 => {}
            2 => return Err(Failure::Overloaded),
            other => return Err(Failure::Declined(other)),
        }
        self.reply.end(d)?;
        // Bytes after a reply belong to no request: nothing on the connection can be trusted.
        Ok(Some(self.keeps && is_last && self.records.is_between() && self.is_sent()))
    }

    /// The connection has ended. Without an `END_REQUEST` only a length says that the reply is
    /// whole: a process that has crashed ends its connection as well.
    pub(crate) fn ended<D: Downstream>(&mut self, d: &mut D) -> Result<(), Failure> {
        self.diagnostics.end(0, |line| self.application.report(line));
        match self.reply.is_until_end() {
            true => Err(Failure::CutShort),
            false => self.reply.end(d),
        }
    }
}
