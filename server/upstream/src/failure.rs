//! Why an application has not answered.

use std::fmt;

use http1::{BodyError, ResponseError};

use crate::cgi::start::Refusal;
use crate::fastcgi::records::RecordError;

/// Why an application has not answered a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// As many requests are with the application as may be, and the queue is full.
    Full,
    /// A request waited in the queue for as long as it may.
    Queued,
    /// Its server had no room in its backlog for as long as connecting may take.
    Backlog,
    /// None of its servers accepts a connection.
    Unreachable,
    /// No connection was made in time.
    ConnectTimeout,
    /// The connection ended before a reply began.
    Closed,
    /// The connection ended in the middle of a reply.
    CutShort,
    /// The bytes are no reply.
    Head(ResponseError),
    /// The head of the reply is too large.
    HeadTooLarge,
    /// The framing of the reply's content is broken.
    Content(BodyError),
    /// Interim responses without end, and no reply.
    Interims,
    /// A protocol was switched that no request has asked for.
    Switched,
    /// The bytes are no FastCGI records of the request.
    Record(RecordError),
    /// The bytes are no head of a script's reply.
    ScriptHead,
    /// The FastCGI server has as many requests as it takes.
    Overloaded,
    /// The FastCGI server does not answer such requests, with this status of the protocol.
    Declined(u8),
    /// The program was not started.
    NotStarted(Refusal),
    /// No reply began in time.
    NoReply,
    /// The application fell silent in the middle of the exchange.
    Silent,
    /// The request's body is at fault, with the status that its client is to get.
    Request(u16),
}

impl Failure {
    /// The status that the client gets: 502, 503 or 504 (RFC 9110 §15.6), or what is wrong with its
    /// request.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::Full | Self::Queued | Self::Backlog | Self::Overloaded => 503,
            Self::Unreachable
            | Self::Closed
            | Self::CutShort
            | Self::Head(_)
            | Self::HeadTooLarge
            | Self::Content(_)
            | Self::Record(_)
            | Self::ScriptHead
            | Self::Declined(_)
            | Self::NotStarted(Refusal::Failed)
            | Self::Interims
            | Self::Switched => 502,
            Self::NotStarted(Refusal::Missing) => 404,
            Self::NotStarted(Refusal::Forbidden) => 403,
            Self::ConnectTimeout | Self::NoReply | Self::Silent => 504,
            Self::Request(status) => status,
        }
    }

    /// Whether the server of the application is at fault, so that another may be better.
    #[must_use]
    pub fn is_servers(self) -> bool {
        let is_others = matches!(self, Self::Full | Self::Queued | Self::Backlog);
        !is_others && !matches!(self, Self::Request(_) | Self::NotStarted(_))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => out.write_str("as many requests as may be are waiting for it"),
            Self::Queued => out.write_str("no connection to it became free in time"),
            Self::Backlog => out.write_str("its server had no room for another connection in time"),
            Self::Unreachable => out.write_str("no server of it accepts connections"),
            Self::ConnectTimeout => out.write_str("no connection was made in time"),
            Self::Closed => out.write_str("it closed the connection without a reply"),
            Self::CutShort => out.write_str("it closed the connection in the middle of its reply"),
            Self::Head(why) => write!(out, "its reply: {why}"),
            Self::HeadTooLarge => out.write_str("its reply: a head above 64 KiB"),
            Self::Content(why) => write!(out, "its reply: {why}"),
            Self::Record(why) => write!(out, "its reply: {why}"),
            Self::ScriptHead => out.write_str(
                "its reply: no head of a script, which has a Content-Type, a Status or a Location \
                 (RFC 3875, section 6)",
            ),
            Self::Overloaded => out.write_str("it has as many requests as it takes"),
            Self::Declined(status) => {
                write!(out, "it refused the request with FastCGI protocol status {status}")
            }
            Self::Interims => {
                out.write_str("its reply: more than 1000 interim responses before it")
            }
            Self::Switched => out.write_str("its reply: 101, which was not asked for"),
            Self::NotStarted(Refusal::Missing) => out.write_str("there is no such program"),
            Self::NotStarted(Refusal::Forbidden) => out.write_str("it is no program that may run"),
            Self::NotStarted(Refusal::Failed) => out.write_str("the program was not started"),
            Self::NoReply => out.write_str("no reply began in time"),
            Self::Silent => out.write_str("it stopped in the middle of the exchange"),
            Self::Request(status) => write!(out, "the request's body was refused with {status}"),
        }
    }
}
