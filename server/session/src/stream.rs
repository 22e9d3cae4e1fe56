//! What is known of a request that an application answers: what has come of its body and its reply.

use upstream::{Failure, ReplyFields};

use crate::counters::CountedTunnel;
use crate::named_file::{FileSource, NamedFile};
use crate::spool::Spool;

/// Content in place of which something else is answered is received up to this size, so that the
/// connection to the application can be kept.
const DROPPED_BYTES_MAX: usize = 64 * 1024;

/// A request that an application answers.
#[derive(Default)]
pub(crate) struct Stream {
    /// What follows the bytes in `out`: those do not move while they are sent.
    pub(crate) gathered: Vec<u8>,
    /// The number of its bytes that are content.
    pub(crate) gathered_bytes: u64,
    /// Whether the body was asked for when there was nothing of it.
    pub(crate) awaits_body: bool,
    /// Whether there was no room when it was asked for.
    pub(crate) awaits_room: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub(crate) owes_continue: bool,
    pub(crate) has_reply: bool,
    /// Whether the content of the reply is sent in chunks.
    pub(crate) is_chunked: bool,
    /// The place of the application among those of the site.
    pub(crate) application: usize,
    /// There once the reply has switched the protocol: bytes pass as they are, both ways.
    pub(crate) tunnel: Option<CountedTunnel>,
    /// Whether the reply is complete.
    pub(crate) is_complete: bool,
    pub(crate) failure: Option<Failure>,
    pub(crate) body_bytes: u64,
    pub(crate) body_bytes_max: u64,
    /// The trailer of the request's body, as far as it has come.
    pub(crate) trailer: Vec<u8>,
    /// The body, if it is gathered before the application is called.
    pub(crate) spool: Option<Box<Spool>>,
    pub(crate) reply_bytes_max: usize,
    /// Where the files are that the application may name in place of content, if it may.
    pub(crate) files: Option<FileSource>,
    /// What is answered in place of its reply.
    pub(crate) instead: Option<Instead>,
    /// Bytes of content that came with that.
    pub(crate) dropped_bytes: usize,
}

/// What an application has named that is to be answered in place of its reply.
pub(crate) enum Instead {
    File(Box<NamedFile>),
    /// The answer to a request for this path and query.
    Request(Box<[u8]>),
}

impl Stream {
    /// Whether bytes pass as they are.
    pub(crate) fn is_tunnel(&self) -> bool {
        self.tunnel.is_some()
    }

    /// Whether nothing but bytes that are there is left of a reply.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_complete && self.failure.is_none() && self.instead.is_none() && !self.is_tunnel()
    }

    /// Whether the application can go on, of `unsent` bytes that are being sent.
    pub(crate) fn has_room(&self, unsent: usize) -> bool {
        let kept = unsent + self.gathered.len();
        self.awaits_room && !self.is_complete && kept < self.reply_bytes_max.div_ceil(2)
    }

    /// Notes the file that the fields of a reply name in place of its content. Returns whether they
    /// do.
    pub(crate) fn takes_file(&mut self, fields: &ReplyFields<'_>) -> bool {
        let named = self.files.as_ref().and_then(|files| NamedFile::new(files, fields));
        self.instead = named.map(|named| Instead::File(Box::new(named)));
        self.instead.is_some()
    }

    /// Drops content in place of which something else is answered. Of too much of it the end is not
    /// waited for. Returns whether there is such an answer.
    pub(crate) fn drops(&mut self, content_bytes: usize) -> bool {
        if self.instead.is_none() {
            return false;
        }
        self.dropped_bytes += content_bytes;
        self.is_complete |= self.dropped_bytes > DROPPED_BYTES_MAX;
        true
    }
}
