//! CGI as a web server speaks it to a program (RFC 3875): the body is its standard input, and the
//! reply its standard output. One connection is both, and its other end is the program's.
//!
//! The driver connects by sending the [`StartProgram`] of a call, with that other end, to the
//! process that starts programs.

pub(crate) mod start;

use std::os::unix::ffi::OsStrExt;

use http1::{BodyFraming, Head, Method};

use crate::application::Application;
use crate::downstream::{Body, Downstream};
use crate::failure::Failure;
use crate::http::PIECE_BYTES_MAX;
use crate::outgoing::Outgoing;
use crate::script::{Form, ScriptReply, ScriptRequest, environment};
use crate::tick::Tick;

pub use start::{Refusal, START_BYTES_MAX, StartProgram};

/// One request and its reply.
#[derive(Clone)]
pub(crate) struct Cgi {
    /// What the process gets that starts programs.
    start: Vec<u8>,
    /// The piece of the body that is being sent.
    out: Outgoing,
    is_body_whole: bool,
    /// Whether the program was told that this is all of it.
    has_ended_sending: bool,
    reply: ScriptReply,
}

impl Cgi {
    /// Begins a request; none if there is more to be said of it than a program can be told.
    pub(crate) fn new(
        application: &Application,
        head: &Head<'_>,
        script: &ScriptRequest<'_>,
        host: usize,
    ) -> Option<Self> {
        let folder = application.programs()?.as_os_str().as_bytes();
        let name = script.script_name.strip_prefix(b"/").unwrap_or(script.script_name);
        // A directory that stands for that of the path has the last segment in it.
        let program = match folder.is_empty() {
            true => name,
            false => name.rsplit(|byte| *byte == b'/').next().unwrap_or_default(),
        };
        let is_body_whole = matches!(head.body, BodyFraming::None | BodyFraming::Length(0));
        let root = if folder.is_empty() { script.root } else { folder };
        let file = [root.strip_suffix(b"/").unwrap_or(root), b"/", program].concat();
        let environment = environment(head, script, Some(&file), Form::Texts);
        let start = StartProgram {
            host,
            folder,
            program,
            has_body: !is_body_whole,
            target: head.target_bytes,
            environment: &environment,
        };
        Some(Self {
            start: start.encode()?,
            out: Outgoing::default(),
            is_body_whole,
            has_ended_sending: false,
            reply: ScriptReply::new(head.method == Method::Head),
        })
    }

    /// What the process gets that starts programs.
    pub(crate) fn start(&self) -> &[u8] {
        &self.start
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

    /// Whether the program is to be told that nothing more comes.
    pub(crate) fn ends_sending(&self) -> bool {
        self.is_sent() && !self.has_ended_sending
    }

    /// The program was told so.
    pub(crate) fn sending_ended(&mut self) {
        self.has_ended_sending = true;
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

    /// A program that has begun cannot begin again: no connection is kept, so none is lost before.
    pub(crate) fn rewind(&mut self) -> bool {
        false
    }

    /// Prepares more to send. Only while the body is awaited.
    pub(crate) fn refill<D: Downstream>(&mut self, d: &mut D, _: Tick) -> Result<(), Failure> {
        let n = match d.body() {
            Body::Pending => return Ok(()),
            Body::Broken(status) => return Err(Failure::Request(status)),
            Body::End(_) => {
                self.is_body_whole = true;
                return Ok(());
            }
            Body::Bytes(bytes) => {
                let n = bytes.len().min(PIECE_BYTES_MAX);
                self.out.replace().extend_from_slice(&bytes[..n]);
                n
            }
        };
        d.body_taken(n);
        Ok(())
    }

    /// Takes received bytes. Returns whether the connection can be kept, once the reply is over.
    pub(crate) fn ingest<D: Downstream>(
        &mut self,
        d: &mut D,
        bytes: &[u8],
    ) -> Result<Option<bool>, Failure> {
        if !self.reply.has_begun()
            && let Some(refusal) = bytes.first().copied().and_then(Refusal::from_byte)
        {
            return Err(Failure::NotStarted(refusal));
        }
        let is_over = self.reply.take(d, bytes)?;
        Ok(is_over.then_some(false))
    }

    /// The program and all that it has started have closed their standard output: that is the end
    /// of the reply, also if a program is still running.
    pub(crate) fn ended<D: Downstream>(&mut self, d: &mut D) -> Result<(), Failure> {
        self.reply.end(d)
    }
}
