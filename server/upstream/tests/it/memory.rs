//! Both ends of a call in memory.

use std::sync::Arc;

use http1::{Head, HeadLimits, Parsed, parse_head};
use upstream::{
    Address, Application, ApplicationSettings, Body, Call, Downstream, Failure, FastCgiSettings,
    Length, Next, Origin, Protocol, ReplyFields, ScriptRequest, ServerSettings, Tick,
};

pub(crate) const NOW: Tick = Tick(1_000_000_000);
pub(crate) const PEER: &str = "192.0.2.7";

/// The end of a call at which its client is.
pub(crate) struct Client {
    /// What has come of the request's body, and is not taken yet.
    pub(crate) body: Vec<u8>,
    /// Whether that is all of it.
    pub(crate) is_whole: bool,
    /// The lines of its trailer.
    pub(crate) trailer: &'static [u8],
    /// Bytes of a body that are there at once, at most.
    pub(crate) piece_bytes_max: usize,
    pub(crate) broken: Option<u16>,
    /// Interim responses, and then the reply: status, length, and fields.
    pub(crate) heads: Vec<(u16, Length, String)>,
    /// The target of a redirect in place of the reply's head.
    pub(crate) redirect: Option<String>,
    pub(crate) content: Vec<u8>,
    /// The lines of the reply's trailer.
    pub(crate) trailers: String,
    pub(crate) room: usize,
    pub(crate) is_complete: bool,
    pub(crate) failure: Option<Failure>,
}

impl Default for Client {
    fn default() -> Self {
        Self {
            body: Vec::new(),
            is_whole: true,
            trailer: b"",
            piece_bytes_max: usize::MAX,
            broken: None,
            heads: Vec::new(),
            redirect: None,
            content: Vec::new(),
            trailers: String::new(),
            room: usize::MAX,
            is_complete: false,
            failure: None,
        }
    }
}

fn text(fields: ReplyFields<'_>) -> String {
    let line = |(name, value): (&[u8], &[u8])| {
        format!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
    };
    fields.map(line).collect::<Vec<_>>().join("\n")
}

impl Downstream for Client {
    fn body(&mut self) -> Body<'_> {
        match (self.broken, self.body.is_empty(), self.is_whole) {
            (Some(status), ..) => Body::Broken(status),
            (_, false, _) => Body::Bytes(&self.body[..self.body.len().min(self.piece_bytes_max)]),
            (_, true, true) => Body::End(self.trailer),
            (_, true, false) => Body::Pending,
        }
    }

    fn body_taken(&mut self, n: usize) {
        self.body.drain(..n);
    }

    fn interim(&mut self, status: u16, fields: ReplyFields<'_>) {
        self.heads.push((status, Length::None(None), text(fields)));
    }

    fn reply(&mut self, status: u16, length: Length, fields: ReplyFields<'_>) {
        assert!(self.content.is_empty() && !self.is_complete, "the head comes first, and once");
        self.heads.push((status, length, text(fields)));
    }

    fn redirect(&mut self, target: &[u8]) {
        self.redirect = Some(String::from_utf8(target.to_vec()).expect("it is text here"));
    }

    fn room(&mut self) -> usize {
        self.room.saturating_sub(self.content.len())
    }

    fn push(&mut self, bytes: &[u8]) {
        assert!(!bytes.is_empty() && !self.is_complete && self.failure.is_none());
        self.content.extend_from_slice(bytes);
    }

    fn end(&mut self, trailers: &[u8]) {
        self.trailers = String::from_utf8(trailers.to_vec()).expect("they are text here");
        assert!(!std::mem::replace(&mut self.is_complete, true), "it ends once");
    }

    fn fail(&mut self, failure: Failure) {
        assert!(!self.is_complete && self.failure.replace(failure).is_none());
    }
}

/// A call, its client, and what its application has got.
pub(crate) struct Pair {
    pub(crate) call: Call,
    pub(crate) client: Client,
    /// What was sent on the connection under way.
    pub(crate) sent: Vec<u8>,
    pub(crate) has_ended_sending: bool,
    /// How many bytes the application's socket takes at once.
    pub(crate) window: usize,
    pub(crate) now: Tick,
    /// Whether the connection can be kept, once the call is over.
    pub(crate) over: Option<bool>,
    pub(crate) connections: usize,
    pub(crate) is_reused: bool,
}

pub(crate) fn application(protocol: Protocol, children: u64) -> Arc<Application> {
    let fastcgi = FastCgiSettings { children, ..FastCgiSettings::default() };
    let address = Address::Tcp { host: "app.test".into(), port: 3000 };
    let servers = vec![ServerSettings { address, weight: 1 }];
    let settings =
        ApplicationSettings { servers, protocol, fastcgi, ..ApplicationSettings::default() };
    Arc::new(Application::new(settings, 0))
}

/// A request's head, given with its blank line.
fn parse(head: &str) -> Head<'_> {
    let limits = HeadLimits { head_bytes_max: 1 << 20, ..HeadLimits::default() };
    let parsed = parse_head(head.as_bytes(), 0, &limits);
    let Ok(Parsed::Complete(parsed)) = parsed else { panic!("{parsed:?}: {head:?}") };
    parsed
}

impl Pair {
    /// A call for a request's head, given with its blank line.
    pub(crate) fn new(head: &str) -> Self {
        Self::from(head, false)
    }

    pub(crate) fn from(head: &str, is_trusted: bool) -> Self {
        let application = application(Protocol::Http, 0);
        let authority = application.authority().to_owned();
        let origin = Origin { peer: PEER.parse().unwrap(), is_trusted, authority: &authority };
        Self::of(Call::http(application, &parse(head), &origin, NOW))
    }

    /// A call of a script.
    pub(crate) fn of_script(
        application: &Arc<Application>,
        head: &str,
        script: &ScriptRequest<'_>,
    ) -> Self {
        Self::of(Call::fastcgi(Arc::clone(application), &parse(head), script, NOW))
    }

    /// A call of a program, for the host with the number 3; none if it cannot be told all.
    pub(crate) fn of_program(
        application: Application,
        head: &str,
        script: &ScriptRequest<'_>,
    ) -> Option<Self> {
        Call::cgi(Arc::new(application), &parse(head), script, 3, NOW).map(Self::of)
    }

    fn of(call: Call) -> Self {
        Self {
            call,
            client: Client::default(),
            sent: Vec::new(),
            has_ended_sending: false,
            window: usize::MAX,
            now: NOW,
            over: None,
            connections: 0,
            is_reused: false,
        }
    }

    /// Does what the call asks for until it waits.
    pub(crate) fn drive(&mut self) {
        for _ in 0..100_000 {
            match self.call.next(&mut self.client, self.now) {
                Next::Connect | Next::ConnectAnew => {
                    self.connections += 1;
                    self.sent.clear();
                    let is_reused = self.is_reused && self.connections == 1;
                    self.call.connected(is_reused, self.now);
                }
                Next::Send(_) if self.window == 0 => return,
                Next::Send(bytes) => {
                    let n = bytes.len().min(self.window);
                    self.sent.extend_from_slice(&bytes[..n]);
                    self.call.sent(n, self.now);
                }
                Next::EndSending => {
                    assert!(!std::mem::replace(&mut self.has_ended_sending, true), "once");
                    self.call.sending_ended();
                }
                Next::Recv | Next::Wait => return,
                Next::Over { keeps } => {
                    self.over = Some(keeps);
                    return;
                }
            }
        }
        panic!("the call never waits");
    }

    /// The application sends bytes.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.call.ingest(&mut self.client, bytes, self.now);
        self.drive();
    }

    /// The application closes.
    pub(crate) fn end(&mut self) {
        self.call.ended(&mut self.client);
        self.drive();
    }

    pub(crate) fn advance(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
        if self.call.deadline().is_some_and(|deadline| deadline <= self.now) {
            self.call.expire(&mut self.client);
        }
        self.drive();
    }

    pub(crate) fn sent_text(&self) -> String {
        String::from_utf8_lossy(&self.sent).into_owned()
    }
}
