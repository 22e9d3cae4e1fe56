//! What a call says and hears, in the protocol of its application.

use crate::cgi::Cgi;
use crate::downstream::Downstream;
use crate::failure::Failure;
use crate::fastcgi::FastCgi;
use crate::http::Http;
use crate::tick::Tick;

/// One request and its reply.
#[derive(Clone)]
pub(crate) enum Conversation {
    Http(Http),
    FastCgi(FastCgi),
    Cgi(Cgi),
}

/// Calls a method of the protocol.
macro_rules! of {
    ($conversation:expr, $it:ident => $call:expr) => {
        match $conversation {
            Conversation::Http($it) => $call,
            Conversation::FastCgi($it) => $call,
            Conversation::Cgi($it) => $call,
        }
    };
}

impl Conversation {
    /// What is to be sent now.
    #[inline]
    pub(crate) fn to_send(&self) -> &[u8] {
        of!(self, it => it.to_send())
    }

    #[inline]
    pub(crate) fn sent(&mut self, n: usize) {
        of!(self, it => it.sent(n));
    }

    /// Whether the whole request is sent.
    #[inline]
    pub(crate) fn is_sent(&self) -> bool {
        of!(self, it => it.is_sent())
    }

    /// Whether the application is to be told that nothing more comes: programs are, whose messages
    /// have no ends of their own, and who speaks a protocol that is not known here.
    #[inline]
    pub(crate) fn ends_sending(&self) -> bool {
        match self {
            Self::Http(http) => http.ends_sending(),
            Self::FastCgi(_) => false,
            Self::Cgi(cgi) => cgi.ends_sending(),
        }
    }

    /// The application was told so.
    pub(crate) fn sending_ended(&mut self) {
        match self {
            Self::Http(http) => http.sending_ended(),
            Self::FastCgi(_) => {}
            Self::Cgi(cgi) => cgi.sending_ended(),
        }
    }

    /// Whether bytes pass as they are, in both directions.
    pub(crate) fn is_tunnel(&self) -> bool {
        matches!(self, Self::Http(http) if http.is_tunnel())
    }

    /// Whether the reply has begun.
    pub(crate) fn has_reply(&self) -> bool {
        of!(self, it => it.has_reply())
    }

    pub(crate) fn is_idempotent(&self) -> bool {
        match self {
            Self::Http(http) => http.is_idempotent(),
            Self::FastCgi(fastcgi) => fastcgi.is_idempotent(),
            Self::Cgi(_) => false,
        }
    }

    /// Begins the request again on another connection. Returns whether that is right.
    pub(crate) fn rewind(&mut self) -> bool {
        of!(self, it => it.rewind())
    }

    /// Prepares more to send. Only while the body is awaited.
    pub(crate) fn refill<D: Downstream>(&mut self, d: &mut D, now: Tick) -> Result<(), Failure> {
        of!(self, it => it.refill(d, now))
    }

    /// When the body is sent although the application has not asked for it; none if it need not
    /// ask, as scripts.
    pub(crate) fn asks_until(&self) -> Option<Tick> {
        match self {
            Self::Http(http) => http.asks_until(),
            Self::FastCgi(_) | Self::Cgi(_) => None,
        }
    }

    /// The application has not asked for the body in time.
    pub(crate) fn send_unasked(&mut self) {
        if let Self::Http(http) = self {
            http.send_unasked();
        }
    }

    /// Whether nothing is left to send for now, and more is to come from the client.
    #[inline]
    pub(crate) fn awaits_body(&self) -> bool {
        of!(self, it => it.awaits_body())
    }

    /// Takes received bytes. Returns whether the connection can be kept, once the reply is over.
    #[inline]
    pub(crate) fn ingest<D: Downstream>(
        &mut self,
        d: &mut D,
        bytes: &[u8],
    ) -> Result<Option<bool>, Failure> {
        of!(self, it => it.ingest(d, bytes))
    }

    /// The connection has ended.
    pub(crate) fn ended<D: Downstream>(&mut self, d: &mut D) -> Result<(), Failure> {
        of!(self, it => it.ended(d))
    }
}
