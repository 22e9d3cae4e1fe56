//! A storm of uploads to an application: clients that send bodies of all sizes at all speeds, read
//! slowly, or vanish, and an application that stalls, misbehaves and closes. Every byte is checked,
//! and nothing is left.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use engines::EngineSpec;
use http1::{BodySkipper, ResponseBody, parse_response_head};
use server::Server;
use server::config::Arguments;
use statistics::Generator;
use testkit::{Temporary, comes_true};
use workload::content::Content;

use crate::upload_application::{Application, CONDUCTS, Conduct};

const CLIENTS: usize = 40;

/// How long the clients of an engine make new requests.
const STORM_US: u64 = 800_000;

/// The least number of bodies that must have come back whole: on a busy machine it takes longer.
const WHOLE_MIN: u64 = 40;

/// The time after which they must have.
const PATIENCE_US: u64 = 60_000_000;

const SIZES: [usize; 8] = [0, 1, 100, 5000, 16_384, 70_000, 150_000, 400_000];

/// Engines at a time: the clients take most of the processors.
const AT_A_TIME: usize = 2;

#[test]
fn uploads_come_back_whole_and_nothing_is_left_after_a_storm() {
    let _alone = crate::alone();
    os::limits::raise_descriptor_limit().unwrap();
    let directory = Temporary::new();
    directory.file("site/index.html", "");
    let engines: Vec<_> = crate::under_test::engines().into_iter().enumerate().collect();
    for together in engines.chunks(AT_A_TIME) {
        let before = crate::Open::now();
        testkit::at_a_time(AT_A_TIME, together, |(number, spec)| {
            storm(&directory, spec, 0x5EED + *number as u64, &[]);
        });
        let names: Vec<_> = together.iter().map(|(_, spec)| spec.name).collect();
        before.assert_as_before(&format!("{names:?}"));
    }
}

/// A gateway gets the connection with each request, and gives it back.
#[test]
fn uploads_come_back_whole_through_a_gateway() {
    let _alone = crate::alone();
    os::limits::raise_descriptor_limit().unwrap();
    let directory = Temporary::new();
    directory.file("site/index.html", "");
    let spec = engines::find("event-loop").unwrap();
    let before = crate::Open::now();
    storm(&directory, spec, 0xCA11, &["engine.knobs.gateway=1"]);
    before.assert_as_before("after the storm");
}

fn storm(directory: &Temporary, spec: &EngineSpec, seed: u64, set: &[&str]) {
    let application = Application::start();
    let server = start(directory, spec, application.address(), set);
    let (address, counters) = (server.addresses()[0], server.counters());
    let whole = AtomicU64::new(0);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let random = Generator::new(seed * 1000 + client as u64);
            let whole = &whole;
            scope.spawn(move || Client { address, client, random, whole }.run());
        }
    });
    let context = format!("{}: seed {seed:#x}", spec.name);
    let open = || counters.iter().map(|it| it.connections_open.get()).fold(0, u64::wrapping_add);
    assert!(comes_true(|| open() == 0), "{context}: {} connections are open", open());
    let summary = server.stop_gracefully(Duration::from_secs(20)).unwrap();
    assert!(!summary.aborted, "{context}: connections were cut off");
    application.stop();
    let whole = whole.into_inner();
    assert!(whole >= WHOLE_MIN, "{context}: only {whole} bodies came back");
}

fn start(
    directory: &Temporary,
    spec: &EngineSpec,
    application: SocketAddr,
    set: &[&str],
) -> Server {
    let route =
        format!("host.route=[{{ path = \"/app/**\", proxy = [\"http://{application}\"] }}]");
    let engine = format!("engine.name={}", spec.name);
    let own = [engine, "partitions.cpus=[\"0\"]".into(), "log.errors=off".into(), route];
    let set = own.into_iter().chain(set.iter().map(ToString::to_string));
    let arguments = Arguments {
        directory: Some(directory.path().join("site")),
        listen: vec!["127.0.0.1:0".into()],
        set: set.chain(crate::under_test::knobs()).collect(),
        ..Arguments::default()
    };
    Server::start(&crate::under_test::load(&arguments).unwrap()).unwrap()
}

/// A client, which makes one connection after the other.
struct Client<'s> {
    address: SocketAddr,
    client: usize,
    random: Generator,
    /// How many bodies have come back whole.
    whole: &'s AtomicU64,
}

/// An upload, and how its client behaves.
struct Upload {
    conduct: Conduct,
    target: String,
    size: usize,
    is_chunked: bool,
    /// Bytes that are sent at once.
    piece: usize,
    /// Bytes that are received at once, with a pause.
    sip: Option<usize>,
    /// Of the body's bytes the client sends so many and then vanishes.
    vanishes_after: Option<usize>,
}

impl Client<'_> {
    fn run(mut self) {
        let begin = os::clock::now();
        let mut number = 0;
        let is_enough = |whole: &AtomicU64| {
            let passed = os::clock::now() - begin;
            let has_happened = whole.load(Ordering::Relaxed) >= WHOLE_MIN;
            passed > STORM_US && (has_happened || passed > PATIENCE_US)
        };
        while !is_enough(self.whole) {
            let stream = TcpStream::connect(self.address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            while !is_enough(self.whole) {
                number += 1;
                let upload = self.choose(number);
                if !self.upload(&stream, &upload) {
                    break;
                }
            }
        }
    }

    fn choose(&mut self, number: usize) -> Upload {
        let random = &mut self.random;
        // Most requests are answered as they should be.
        let conduct = if random.below(2) == 0 { 0 } else { random.below(CONDUCTS.len()) };
        let (name, conduct) = CONDUCTS[conduct];
        let size = SIZES[random.below(SIZES.len())];
        Upload {
            conduct,
            target: format!("/app/{name}?{}-{number}", self.client),
            size,
            is_chunked: random.below(2) == 0,
            piece: [700, 10_000, 100_000][random.below(3)],
            sip: (random.below(8) == 0).then_some(20_000),
            vanishes_after: (random.below(8) == 0).then(|| random.below(size + 1)),
        }
    }

    /// Sends a body while the answer comes. Returns whether the connection goes on.
    fn upload(&mut self, stream: &TcpStream, upload: &Upload) -> bool {
        let resets = self.random.below(2) == 0;
        thread::scope(|scope| {
            let sending = scope.spawn(|| {
                let sent = send(stream, upload);
                if upload.vanishes_after.is_some() {
                    if resets {
                        os::socket::set_linger_zero(stream.as_fd()).unwrap();
                    }
                    let _ = stream.shutdown(std::net::Shutdown::Both); // it may be closed
                }
                sent.is_ok()
            });
            let answer = receive(stream, upload);
            let is_answered = self.check(upload, &answer);
            if !is_answered {
                // What is left of the body would wait for ever.
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
            sending.join().unwrap() && is_answered
        })
    }

    /// Checks what has come. Returns whether it is a whole answer on a connection that is kept.
    fn check(&self, upload: &Upload, answer: &io::Result<Answer>) -> bool {
        let Upload { conduct, target, size, vanishes_after, .. } = upload;
        let Ok(answer) = answer else {
            let is_fine = matches!(conduct, Conduct::Echo | Conduct::Stall);
            assert!(!is_fine || vanishes_after.is_some(), "{target}: {answer:?}");
            return false;
        };
        if vanishes_after.is_some() {
            return false; // what has come was checked as far as it goes
        }
        let expected: &[u16] = match conduct {
            Conduct::Echo | Conduct::Stall => &[200],
            Conduct::Close | Conduct::Nonsense => &[502],
            Conduct::Early => &[403, 502],
            Conduct::Short => &[],
        };
        assert!(expected.contains(&answer.status), "{target}: {answer:?}");
        if answer.status == 200 {
            assert_eq!(answer.content_bytes, *size, "{target}");
            self.whole.fetch_add(1, Ordering::Relaxed);
        }
        // A connection does not outlast a long body that was not read.
        answer.is_kept && *conduct != Conduct::Early
    }
}

fn send(mut stream: &TcpStream, upload: &Upload) -> io::Result<()> {
    let framing = match upload.is_chunked {
        true => "Transfer-Encoding: chunked".into(),
        false => format!("Content-Length: {}", upload.size),
    };
    let target = &upload.target;
    write!(stream, "POST {target} HTTP/1.1\r\nHost: h\r\n{framing}\r\n\r\n")?;
    let mut bytes = vec![0; upload.size];
    Content::for_path(target.as_bytes()).fill(0, &mut bytes);
    bytes.truncate(upload.vanishes_after.unwrap_or(upload.size));
    for (index, piece) in bytes.chunks(upload.piece).enumerate() {
        if index % 8 == 1 {
            thread::sleep(Duration::from_millis(1));
        }
        let mut framed = Vec::new();
        if upload.is_chunked {
            http1::put_chunk_size(&mut framed, piece.len());
        }
        framed.extend_from_slice(piece);
        if upload.is_chunked {
            framed.extend_from_slice(b"\r\n");
        }
        stream.write_all(&framed)?;
    }
    match upload.is_chunked && upload.vanishes_after.is_none() {
        true => stream.write_all(b"0\r\n\r\n"),
        false => Ok(()),
    }
}

/// A whole answer.
#[derive(Debug)]
struct Answer {
    status: u16,
    content_bytes: usize,
    is_kept: bool,
}

/// Receives an answer, and checks its content if it is that of the request.
fn receive(mut stream: &TcpStream, upload: &Upload) -> io::Result<Answer> {
    let content = Content::for_path(upload.target.as_bytes());
    let mut buffer = vec![0; upload.sip.unwrap_or(100_000)];
    let mut unread = Vec::new();
    let mut more = |unread: &mut Vec<u8>| {
        if upload.sip.is_some() {
            thread::sleep(Duration::from_millis(2));
        }
        let n = os::uninterrupted(|| stream.read(&mut buffer))?;
        unread.extend_from_slice(&buffer[..n]);
        if n == 0 { Err(io::Error::from(io::ErrorKind::UnexpectedEof)) } else { Ok(()) }
    };
    let head = loop {
        match parse_response_head(&unread, false).expect("a head") {
            Some(head) => break head,
            None => more(&mut unread)?,
        }
    };
    unread.drain(..head.len);
    let ResponseBody::Framed(framing) = head.body else { panic!("no framing: {head:?}") };
    let (mut body, mut content_bytes) = (BodySkipper::new(framing), 0);
    while !body.is_done() {
        let (taken, data) = body.read(&unread).expect("a well-formed body");
        let is_own = head.status == 200 && upload.conduct != Conduct::Short;
        if is_own && let Err(wrong) = content.check(content_bytes as u64, data) {
            panic!("{}: {wrong:?}", upload.target);
        }
        content_bytes += data.len();
        unread.drain(..taken);
        if taken == 0 && !body.is_done() {
            more(&mut unread)?;
        }
    }
    assert!(unread.is_empty(), "{}: bytes behind its answer", upload.target);
    Ok(Answer { status: head.status, content_bytes, is_kept: head.keep_alive })
}
