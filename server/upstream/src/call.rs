//! One request to an application: what its driver does next, and the time that each part may take.

use std::sync::Arc;

use http1::Head;

use crate::application::Application;
use crate::balance::ClientKey;
use crate::cgi::Cgi;
use crate::conversation::Conversation;
use crate::downstream::Downstream;
use crate::failure::Failure;
use crate::fastcgi::FastCgi;
use crate::http::Http;
use crate::origin::Origin;
use crate::script::ScriptRequest;
use crate::tick::Tick;

/// The next operation of a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<'c> {
    /// Get a connection to the application, kept or new, and report it with [`Call::connected`].
    Connect,
    /// Get a new connection: the kept one had ended before it took the request.
    ConnectAnew,
    /// Send these bytes.
    Send(&'c [u8]),
    /// Shut the sending side down, and report it with [`Call::sending_ended`].
    EndSending,
    /// Receive bytes and pass them to [`Call::ingest`].
    Recv,
    /// Wait until there is room for what would be received.
    Wait,
    /// The call is over. The connection can be kept, or is to be closed.
    Over {
        /// Whether another call may use the connection.
        keeps: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unconnected,
    Open,
    Again,
    Over { keeps: bool },
}

/// One request to an application.
///
/// [`Call::next`] says what to do, and the driver reports each result. What it says may change
/// whenever something happens at the other end: after each report, at this end or the other, both
/// ends are asked again, and a driver sleeps only if both wait for their sockets. While a send
/// waits for room, bytes may be received if [`Call::wants_input`].
#[derive(Clone)]
pub struct Call {
    application: Arc<Application>,
    client: ClientKey,
    conversation: Conversation,
    state: State,
    /// The last progress, from which the time of the next is counted.
    since: Tick,
    is_reused: bool,
    /// Whether nothing is received because there is no room for it.
    is_paused: bool,
    failure: Option<Failure>,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.application.name();
        out.debug_struct("Call").field("application", &name).field("state", &self.state).finish()
    }
}

impl Call {
    /// A request to an HTTP server.
    #[must_use]
    pub fn http(
        application: Arc<Application>,
        head: &Head<'_>,
        origin: &Origin<'_>,
        now: Tick,
    ) -> Self {
        let client = application.client_key(head, origin);
        Self::new(application, client, Conversation::Http(Http::new(head, origin)), now)
    }

    /// A request to a FastCGI server.
    #[must_use]
    pub fn fastcgi(
        application: Arc<Application>,
        head: &Head<'_>,
        script: &ScriptRequest<'_>,
        now: Tick,
    ) -> Self {
        let client = application.client_key(head, &script.origin);
        let conversation = Conversation::FastCgi(FastCgi::new(&application, head, script));
        Self::new(application, client, conversation, now)
    }

    /// A request to a program, for the host with this number. None if there is more to be said of
    /// it than a program can be told, which is reported.
    #[must_use]
    pub fn cgi(
        application: Arc<Application>,
        head: &Head<'_>,
        script: &ScriptRequest<'_>,
        host: usize,
        now: Tick,
    ) -> Option<Self> {
        let Some(cgi) = Cgi::new(&application, head, script, host) else {
            application.report_too_large(head.target_bytes);
            return None;
        };
        Some(Self::new(application, ClientKey::default(), Conversation::Cgi(cgi), now))
    }

    fn new(
        application: Arc<Application>,
        client: ClientKey,
        conversation: Conversation,
        now: Tick,
    ) -> Self {
        Self {
            application,
            client,
            conversation,
            state: State::Unconnected,
            since: now,
            is_reused: false,
            is_paused: false,
            failure: None,
        }
    }

    /// The application that is called.
    #[must_use]
    pub fn application(&self) -> &Arc<Application> {
        &self.application
    }

    /// What of its client decides about the server, if anything does.
    #[must_use]
    #[inline]
    pub fn client(&self) -> ClientKey {
        self.client
    }

    /// What the process that starts programs is told, if the application is one.
    #[must_use]
    pub fn program(&self) -> Option<&[u8]> {
        match &self.conversation {
            Conversation::Cgi(cgi) => Some(cgi.start()),
            Conversation::Http(_) | Conversation::FastCgi(_) => None,
        }
    }

    /// Why the call has failed; none if it has not.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// Returns the next operation.
    #[inline(always)] // a driver asks once, and four times for a request
    pub fn next<D: Downstream>(&mut self, d: &mut D, now: Tick) -> Next<'_> {
        match self.state {
            State::Unconnected => return Next::Connect,
            State::Again => return Next::ConnectAnew,
            State::Over { keeps } => return Next::Over { keeps },
            State::Open => {}
        }
        if self.conversation.awaits_body()
            && let Err(failure) = self.refill(d, now)
        {
            self.fail(d, failure);
            return Next::Over { keeps: false };
        }
        if !self.conversation.to_send().is_empty() {
            return Next::Send(self.conversation.to_send());
        }
        if self.conversation.ends_sending() {
            return Next::EndSending;
        }
        let is_paused = !self.wants_input(d);
        if self.is_paused && !is_paused {
            self.since = now;
        }
        self.is_paused = is_paused;
        if is_paused { Next::Wait } else { Next::Recv }
    }

    #[inline(never)]
    fn refill<D: Downstream>(&mut self, d: &mut D, now: Tick) -> Result<(), Failure> {
        self.conversation.refill(d, now)?;
        if self.conversation.is_sent() {
            // The end of a body sends nothing, and yet the request is complete.
            self.since = now;
        }
        Ok(())
    }

    /// Whether to receive: because that is the next operation, or beside a send that waits.
    #[inline]
    pub fn wants_input<D: Downstream>(&self, d: &mut D) -> bool {
        self.state == State::Open && d.room() > 0
    }

    /// Whether the call waits for a connection.
    #[must_use]
    pub fn is_unconnected(&self) -> bool {
        matches!(self.state, State::Unconnected | State::Again)
    }

    /// Whether the request could be sent again if a kept connection ends before a reply: see
    /// [`Call::ended`]. If not, the connection is looked at before it is used.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        self.conversation.is_idempotent()
    }

    /// Whether the call is to go on if its client leaves now: its application has all of the
    /// request.
    #[must_use]
    pub fn ignores_client(&self) -> bool {
        self.application.settings().ignore_client_abort
            && self.state == State::Open
            && self.conversation.is_sent()
            && !self.conversation.is_tunnel()
    }

    /// A new connection is being made.
    pub fn connecting(&mut self, now: Tick) {
        self.since = now;
    }

    /// There is a connection: a kept one, on which earlier calls were answered, or a new one.
    #[inline]
    pub fn connected(&mut self, is_reused: bool, now: Tick) {
        self.state = State::Open;
        self.is_reused = is_reused;
        self.since = now;
    }

    /// Reports that `n` bytes were sent.
    #[inline]
    pub fn sent(&mut self, n: usize, now: Tick) {
        self.conversation.sent(n);
        self.since = now;
    }

    /// Reports that the sending side was shut down.
    pub fn sending_ended(&mut self) {
        self.conversation.sending_ended();
    }

    /// Takes received bytes, of which there is at least one.
    #[inline]
    pub fn ingest<D: Downstream>(&mut self, d: &mut D, bytes: &[u8], now: Tick) {
        if self.state != State::Open {
            return;
        }
        self.since = now;
        match self.conversation.ingest(d, bytes) {
            Ok(None) => {}
            Ok(Some(keeps)) => self.state = State::Over { keeps },
            Err(failure) => self.fail(d, failure),
        }
    }

    /// The connection has ended, in order or not. A request that a kept connection had not taken
    /// is sent again on a new one.
    pub fn ended<D: Downstream>(&mut self, d: &mut D) {
        if self.state != State::Open {
            return;
        }
        if self.is_reused && self.conversation.rewind() {
            self.state = State::Again;
            return;
        }
        match self.conversation.ended(d) {
            Ok(()) => self.state = State::Over { keeps: false },
            Err(failure) => self.fail(d, failure),
        }
    }

    /// Ends the call without a reply, or without the rest of one.
    pub fn fail<D: Downstream>(&mut self, d: &mut D, failure: Failure) {
        self.state = State::Over { keeps: false };
        self.failure = Some(failure);
        d.fail(failure);
    }

    /// When [`Call::expire`] is due; none while the call waits for its client.
    #[must_use]
    pub fn deadline(&self) -> Option<Tick> {
        let limits = self.application.limits();
        let ms = match self.state {
            State::Over { .. } => return None,
            State::Unconnected | State::Again => limits.connect_ms,
            State::Open if self.conversation.asks_until().is_some() => {
                return self.conversation.asks_until();
            }
            State::Open if self.conversation.is_tunnel() => limits.tunnel_idle_ms,
            State::Open if self.conversation.awaits_body() => return None,
            State::Open if self.is_paused => return None,
            State::Open if self.conversation.is_sent() && !self.conversation.has_reply() => {
                limits.first_byte_ms
            }
            State::Open => limits.silence_ms,
        };
        Some(self.since.plus_ms(ms))
    }

    /// Acts on a deadline that has passed.
    pub fn expire<D: Downstream>(&mut self, d: &mut D) {
        match self.state {
            State::Over { .. } => {}
            State::Unconnected | State::Again => self.fail(d, Failure::ConnectTimeout),
            State::Open if self.conversation.asks_until().is_some() => {
                self.conversation.send_unasked();
            }
            State::Open if self.conversation.is_sent() && !self.conversation.has_reply() => {
                self.fail(d, Failure::NoReply);
            }
            State::Open if self.conversation.is_tunnel() => {
                // There is no fault: it ends in order.
                self.state = State::Over { keeps: false };
                d.end(b"");
            }
            State::Open => self.fail(d, Failure::Silent),
        }
    }
}
