//! A client, a connection, a call and an application in memory, with bytes that pass between them
//! in pieces of any size.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, LazyLock};

use file_cache::{Budget, Cache, PolicyKind};
use http1::{BodyFraming, BodySkipper, HeadLimits, Parsed, parse_head};
use session::{
    Connection, Counters, Job, JobId, Limits, Listings, Op, StreamRef, Tick, Worker, WorkerParts,
};
use site::Site;
use site::host::{HostSettings, RouteSettings};
use upstream::{
    Address, ApplicationSettings, Call, CallLimits, Facilities, Failure, FastCgiSettings, Next,
    Protocol, ServerSettings, SpoolFile,
};

use crate::grammar::Grammar;

/// A site with an application that speaks HTTP, two that speak FastCGI, of which one has no place
/// for files, and one that is a program.
static SITE: LazyLock<Arc<Site>> = LazyLock::new(|| {
    let address = |port| Address::Tcp { host: "app.test".into(), port };
    let route = |path: &str, address, protocol| {
        let fastcgi = FastCgiSettings { suffix: String::new(), ..FastCgiSettings::default() };
        let application = ApplicationSettings {
            servers: vec![ServerSettings { address, weight: 1 }],
            protocol,
            fastcgi,
            limits: CallLimits { body_bytes_max: 100_000, ..CallLimits::default() },
            ..ApplicationSettings::default()
        };
        RouteSettings { path: path.into(), application, ..RouteSettings::default() }
    };
    let mut settings = HostSettings::new("/".into());
    settings.routes = vec![
        route("/app/**", address(80), Protocol::Http),
        route("/script/**", address(9000), Protocol::FastCgi),
        route("/cramped/**", address(9001), Protocol::FastCgi),
        route("/program/**", Address::Programs(String::new().into()), Protocol::Cgi),
    ];
    let site = Site::new(vec![settings]).expect("good settings");
    let open_spool: upstream::OpenSpool = Arc::new(|| Ok(Box::<Memory>::default()));
    for index in [1, 3] {
        let open_spool = Some(Arc::clone(&open_spool));
        site.applications()[index]
            .set_facilities(Facilities { open_spool, ..Facilities::default() });
    }
    Arc::new(site)
});

/// A file in memory, which is read in small pieces.
#[derive(Default)]
struct Memory(Vec<u8>);

impl SpoolFile for Memory {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = &self.0[usize::try_from(offset).expect("it is in memory")..];
        let n = rest.len().min(buffer.len()).min(777);
        buffer[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }
}

/// How many bytes pass at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// From the client, and to it.
    pub(crate) client: (usize, usize),
    /// To the application, and from it.
    pub(crate) application: (usize, usize),
    pub(crate) reply_bytes_max: usize,
}

pub(crate) const AMPLE: Sizes = Sizes {
    client: (usize::MAX, usize::MAX),
    application: (usize::MAX, usize::MAX),
    reply_bytes_max: 64 * 1024,
};

/// An application that answers each request with its body, piece by piece as it comes, and with its
/// trailer.
#[derive(Default)]
pub(crate) struct Echo {
    received: Vec<u8>,
    /// What it has sent and the server has not received.
    pub(crate) sent: VecDeque<u8>,
    body: Option<BodySkipper>,
    trailer: Vec<u8>,
    /// Whether the reply is sent in chunks, or with the length of the request's body.
    is_chunked: bool,
    pub(crate) requests: usize,
    /// Whether it reads nothing.
    pub(crate) is_stalled: bool,
    /// Whether it speaks another protocol: it sends back what it gets.
    pub(crate) is_tunnel: bool,
    /// Whether it was told that nothing more comes.
    pub(crate) has_heard_end: bool,
    /// Whether it closes when all is received that it has sent.
    pub(crate) closes: bool,
    /// Whether it has begun to answer in records of FastCGI, or as a program.
    is_begun: bool,
    /// Whether it is a program, which reads a body and nothing else.
    is_program: bool,
    /// Whether it is a program whose input has ended.
    is_input_over: bool,
}

impl Echo {
    /// Whether it is a program that has done all that it was asked for.
    fn has_ended(&self) -> bool {
        self.is_input_over && self.received.is_empty() && !self.is_stalled
    }

    /// Whether there is something to receive of it.
    fn has_news(&self) -> bool {
        !self.sent.is_empty() || self.has_ended() || self.closes
    }

    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
        while !self.is_stalled && self.step() {}
    }

    fn step(&mut self) -> bool {
        if self.is_program {
            if !std::mem::replace(&mut self.is_begun, true) {
                self.sent.extend(b"Content-Type: a/b\r\n\r\n");
            }
            self.sent.extend(self.received.drain(..));
            return false;
        }
        if self.is_tunnel {
            self.sent.extend(self.received.drain(..));
            return false;
        }
        if self.body.is_none() && self.received.starts_with(&[1]) {
            return self.step_record();
        }
        let Some(body) = &mut self.body else { return self.begin() };
        let read = body.read_with_trailer(&self.received, &mut self.trailer);
        let (taken, data) = read.expect("what reaches it is well-formed");
        if !data.is_empty() {
            if self.is_chunked {
                self.sent.extend(format!("{:x}\r\n", data.len()).bytes());
            }
            self.sent.extend(data);
            if self.is_chunked {
                self.sent.extend(b"\r\n");
            }
        }
        self.received.drain(..taken);
        if body.is_done() {
            if self.is_chunked {
                self.sent.extend(b"0\r\n");
                self.sent.extend(self.trailer.drain(..));
                self.sent.extend(b"\r\n");
            }
            self.body = None;
            return true;
        }
        taken > 0
    }

    /// Reads a record of FastCGI, and answers the bytes of a body in one.
    fn step_record(&mut self) -> bool {
        let [_, kind, _, _, high, low, padding, _, rest @ ..] = &*self.received else {
            return false;
        };
        let (kind, len) = (*kind, usize::from(u16::from_be_bytes([*high, *low])));
        assert_eq!(*padding, 0);
        let Some(content) = rest.get(..len).map(<[u8]>::to_vec) else { return false };
        self.received.drain(..8 + len);
        if kind == 1 {
            self.requests += 1;
        }
        if kind == 5 && !std::mem::replace(&mut self.is_begun, true) {
            self.put_record(6, b"Content-Type: a/b\r\n\r\n");
        }
        match (kind, len) {
            (5, 0) => {
                self.put_record(3, &[0; 8]);
                self.is_begun = false;
            }
            (5, _) => self.put_record(6, &content),
            _ => {}
        }
        true
    }

    fn put_record(&mut self, kind: u8, content: &[u8]) {
        let [high, low] = u16::try_from(content.len()).expect("it came in a record").to_be_bytes();
        self.sent.extend([1, kind, 0, 1, high, low, 2, 0]);
        self.sent.extend(content);
        self.sent.extend([0; 2]);
    }

    /// Its connection is closed: of what it has sent only padding is left.
    fn end(&mut self) {
        self.sent.clear();
        if self.is_program {
            (self.is_program, self.is_input_over, self.is_begun) = (false, false, false);
        }
    }

    fn begin(&mut self) -> bool {
        let parsed = parse_head(&self.received, 0, &HeadLimits::default());
        let Ok(Parsed::Complete(head)) = parsed else { return false };
        self.requests += 1;
        if head.lines().any(|(name, _)| name == b"Upgrade") {
            let len = head.len;
            self.received.drain(..len);
            assert!(self.received.is_empty(), "nothing comes before it has agreed");
            self.is_tunnel = true;
            self.sent.extend(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n");
            return true;
        }
        self.is_chunked = head.body == BodyFraming::Chunked;
        let framing = match head.body {
            BodyFraming::Length(length) => format!("Content-Length: {length}"),
            BodyFraming::Chunked => "Transfer-Encoding: chunked".into(),
            BodyFraming::None => "Content-Length: 0".into(),
        };
        self.body = Some(BodySkipper::new(head.body));
        self.sent.extend(format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n").bytes());
        let len = head.len;
        self.received.drain(..len);
        true
    }
}

pub(crate) const NOW: Tick = Tick(1_000_000_000);

/// A worker of the site, and its counters.
pub(crate) fn worker(sizes: Sizes) -> (Worker, Arc<Counters>) {
    let counters = Arc::new(Counters::default());
    let budget = Budget { bytes: 1 << 20, descriptors: 8, entries: 8 };
    let limits = Limits { reply_bytes_max: sizes.reply_bytes_max, ..Limits::default() };
    let mut worker = Worker::new(WorkerParts {
        site: Arc::clone(&SITE),
        limits: Arc::new(limits),
        listings: Listings::new(1),
        cache: Arc::new(Cache::new(PolicyKind::Lru, budget, 1)),
        first_level_slots_max: 4,
        revalidate_us: u64::MAX,
        reads_files: false,
        log: None,
        counters: Arc::clone(&counters),
    });
    worker.set_time(NOW, 1_700_000_000_000_000);
    (worker, counters)
}

/// Moves bytes between a call and its application as far as that is possible. Returns whether any
/// were moved, and whether the call is over.
pub(crate) fn join(
    call: &mut Call,
    stream: &mut StreamRef<'_>,
    application: &mut Echo,
    sizes: Sizes,
) -> (bool, bool) {
    let mut moved = false;
    loop {
        match call.next(stream, NOW) {
            Next::Send(bytes) => {
                let n = bytes.len().min(sizes.application.0);
                let bytes = bytes[..n].to_vec();
                call.sent(n, NOW);
                application.take(&bytes);
            }
            Next::Recv => {
                let n = application.sent.len().min(sizes.application.1);
                if n == 0 && (application.has_ended() || application.closes) {
                    call.ended(stream);
                    continue;
                }
                if n == 0 {
                    return (moved, false);
                }
                let bytes: Vec<u8> = application.sent.drain(..n).collect();
                call.ingest(stream, &bytes, NOW);
            }
            Next::Wait => return (moved, false),
            Next::EndSending => {
                call.sending_ended();
                application.has_heard_end = true;
                application.is_input_over |= application.is_program;
                application.take(b"");
            }
            Next::Over { keeps } => {
                if !keeps {
                    application.end();
                }
                return (moved, true);
            }
            other => panic!("{other:?}"),
        }
        moved = true;
    }
}

/// All that is on the way from a client to an application and back.
pub(crate) struct Chain {
    pub(crate) worker: Worker,
    pub(crate) connection: Connection,
    pub(crate) call: Option<(JobId, Box<Call>)>,
    pub(crate) application: Echo,
    pub(crate) sizes: Sizes,
    /// What the client is still to send.
    pub(crate) to_send: VecDeque<u8>,
    pub(crate) received: Vec<u8>,
    /// Whether the client takes nothing.
    pub(crate) is_blocked: bool,
    /// Whether a send takes a while: a piece more is received before it is reported.
    pub(crate) sends_late: bool,
    /// The bytes of a send that is under way.
    sending: usize,
    pub(crate) closed: Option<bool>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) counters: Arc<Counters>,
    grammar: Grammar,
}

impl Chain {
    pub(crate) fn new(sizes: Sizes) -> Self {
        let (worker, counters) = worker(sizes);
        let connection = Connection::new(&worker, "192.0.2.7:4711".parse().expect("an address"));
        Self {
            worker,
            connection,
            call: None,
            application: Echo::default(),
            sizes,
            to_send: VecDeque::new(),
            received: Vec::new(),
            is_blocked: false,
            sends_late: false,
            sending: 0,
            closed: None,
            failures: Vec::new(),
            counters,
            grammar: Grammar::new(true),
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.to_send.extend(bytes);
        self.run();
    }

    /// Reports the end of the client's stream.
    pub(crate) fn end_of_client(&mut self) {
        self.connection.ingest(&mut self.worker, &[]);
        self.grammar.ended();
    }

    /// Lets everything happen that can. As in an engine the call goes on when its stream calls for
    /// it, or when its application has something.
    pub(crate) fn run(&mut self) {
        for _ in 0..10_000_000 {
            let was_busy = self.step_client();
            if !(was_busy | (self.application.has_news() && self.step_call())) {
                return;
            }
        }
        panic!("it never rests");
    }

    /// Does one thing for the client's side. Returns whether there was one.
    pub(crate) fn step_client(&mut self) -> bool {
        if self.call.as_ref().is_some_and(|(id, _)| !self.connection.wants_stream(*id)) {
            self.end_call();
        }
        self.grammar.asked(&self.connection);
        if self.sending > 0 {
            self.receive();
            return self.report_sent();
        }
        match self.connection.next() {
            Op::Job => {
                let (id, job) = self.connection.take_job();
                let Job::Application(mut call) = job else {
                    panic!("no file is asked for: {job:?}")
                };
                call.connected(false, NOW);
                self.application.is_program = call.program().is_some();
                self.application.requests += usize::from(self.application.is_program);
                self.call = Some((id, call));
                self.grammar.took(id);
                self.join();
                true
            }
            Op::Stream(_) => {
                self.join();
                true
            }
            Op::Send { head, body, .. } if !self.is_blocked => {
                assert!(body.is_empty(), "an application's bytes are the connection's own");
                let n = head.len().min(self.sizes.client.1);
                self.received.extend_from_slice(&head[..n]);
                self.sending = n;
                self.sends_late || self.report_sent()
            }
            Op::Send { .. } | Op::Recv | Op::Wait => self.receive(),
            Op::Shutdown => {
                self.connection.sent(&mut self.worker, 0);
                self.grammar.shut();
                true
            }
            Op::Close { reset } => {
                let is_new = self.closed.is_none();
                self.closed = Some(reset);
                is_new
            }
            other => panic!("{other:?}"),
        }
    }

    fn report_sent(&mut self) -> bool {
        self.connection.sent(&mut self.worker, std::mem::take(&mut self.sending));
        self.grammar.sent();
        true
    }

    fn receive(&mut self) -> bool {
        let n = self.to_send.len().min(self.sizes.client.0);
        if n == 0 || !self.connection.wants_input() {
            return false;
        }
        let bytes: Vec<u8> = self.to_send.drain(..n).collect();
        self.connection.ingest(&mut self.worker, &bytes);
        true
    }

    /// Does what there is for the call, as its socket allows. Returns whether it was anything.
    pub(crate) fn step_call(&mut self) -> bool {
        self.call.is_some() && self.join()
    }

    fn join(&mut self) -> bool {
        let Some((id, call)) = &mut self.call else { panic!("a stream without a call") };
        let Some(mut stream) = self.connection.stream(&mut self.worker, *id) else {
            self.end_call(); // not wanted any more
            return true;
        };
        let (moved, is_over) = join(call, &mut stream, &mut self.application, self.sizes);
        drop(stream);
        if is_over {
            self.failures.extend(call.failure());
            self.end_call();
        }
        moved | is_over
    }

    fn end_call(&mut self) {
        if let Some((id, _)) = self.call.take() {
            self.grammar.answered(id, false);
        }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.received).into_owned()
    }

    pub(crate) fn responses(&self) -> Vec<(u16, Vec<u8>)> {
        responses(&self.received)
    }

    /// The lines of the trailers of all responses.
    pub(crate) fn trailers(&self) -> Vec<String> {
        let trailer = |(.., trailer): (_, _, Vec<u8>)| String::from_utf8(trailer).expect("text");
        parts(&self.received).into_iter().map(trailer).collect()
    }
}

/// The bodies of all responses, in their order, and their statuses.
pub(crate) fn responses(bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    parts(bytes).into_iter().map(|(status, body, _)| (status, body)).collect()
}

/// The statuses, bodies and trailers of all responses.
fn parts(mut rest: &[u8]) -> Vec<(u16, Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    while !rest.is_empty() {
        let head = http1::parse_response_head(rest, false).expect("a response").expect("whole");
        rest = &rest[head.len..];
        let http1::ResponseBody::Framed(framing) = head.body else { panic!("no framing") };
        let mut reader = BodySkipper::new(framing);
        let (mut body, mut trailer) = (Vec::new(), Vec::new());
        while !reader.is_done() {
            let read = reader.read_with_trailer(rest, &mut trailer);
            let (taken, data) = read.expect("well-formed");
            assert!(taken > 0, "a response ends in the middle");
            body.extend_from_slice(data);
            rest = &rest[taken..];
        }
        all.push((head.status, body, trailer));
    }
    all
}

/// A request with a body, in chunks of the given sizes or with its length.
pub(crate) fn request(body: &[u8], chunks: Option<&[usize]>) -> Vec<u8> {
    request_to("/app/x", body, chunks)
}

pub(crate) fn request_to(path: &str, body: &[u8], chunks: Option<&[usize]>) -> Vec<u8> {
    let mut bytes = format!("POST {path} HTTP/1.1\r\nHost: h\r\n").into_bytes();
    let Some(sizes) = chunks else {
        bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        return [bytes, body.to_vec()].concat();
    };
    bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
    let mut rest = body;
    for size in sizes.iter().cycle() {
        let (chunk, more) = rest.split_at((*size).min(rest.len()));
        if chunk.is_empty() {
            break;
        }
        http1::put_chunk_size(&mut bytes, chunk.len());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
        rest = more;
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

/// The trailer of [`with_trailer`], as far as it is passed on.
pub(crate) const TRAILER: &str = "X-Sum: 1\r\nx-end: 2\r\n";

/// A request in chunks with a trailer, of which some is for a head; and the client takes one.
pub(crate) fn with_trailer(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(request.to_vec()).expect("it is text");
    let body = text.strip_suffix("0\r\n\r\n").expect("it is in chunks");
    let te = "Host: h\r\nTE: trailers\r\nConnection: TE\r\n";
    let trailer = "0\r\nX-Sum: 1\r\nHost: evil\r\nSet-Cookie: a=b\r\nx-end:2\r\n\r\n";
    [body.replacen("Host: h\r\n", te, 1).as_str(), trailer].concat().into_bytes()
}

pub(crate) fn body(len: usize) -> Vec<u8> {
    (0..len).map(|n| b'a' + (n % 23) as u8).collect()
}
