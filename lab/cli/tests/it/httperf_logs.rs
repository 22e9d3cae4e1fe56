//! Session logs as Debian's httperf reads them: its requests must be the ones that our reader
//! finds, session by session, and be unchanged after our writer has written the log.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;

use testkit::Temporary;
use testkit::tools::HTTPERF;
use workload::request_log::{RequestLog, wsesslog};

use crate::machine::{has, run};

/// A log with every construct of the grammar of httperf 0.9.0.
const LOG: &str = concat!(
    "# a comment\n",
    "\n \n",
    "/foo.html think=0.02\n",
    "\t/pict1.gif\n",
    " /pict2.gif   think=0.01  \n",
    "/foo2.html method=POST contents='Post \"data\"'\n",
    "  /pict3.gif method=HEAD\n",
    "# in between\n",
    " \t \n",
    "\n",
    " /joined/by/nothing\n",
    "/b contents=\"it's\\n\\ttabbed \\\\ \\\"quoted\\\"\" method=PUT think=0\n",
    "/c method=POST contents=a'b c'\"d e\"f\\ g think=1e-3\n",
    "#@ start=3\n",
    "\n",
    "/d method=POST contents=\"two\\\n",
    "lines\" think=0.001\n",
    "/e\r\n",
    "\r\n",
    "no/slash\n",
    "/again\n",
    "/again\n",
    "/again?q=%20&b='x'\n",
);

/// The requests of a client over one connection: method, URI, body.
type Session = Vec<(String, String, Vec<u8>)>;

#[test]
fn httperf_asks_for_what_we_read() {
    if !has(&HTTPERF) {
        return;
    }
    let text = LOG.replace("#@ start=3\n", "# start=3\n");
    let log = wsesslog::read(text.as_bytes(), 10_000).unwrap();
    assert_eq!((log.sessions(), log.requests()), (4, 14));
    check(&text, &log);
    let mut written = Vec::new();
    wsesslog::write(&log, &mut written, "written again").unwrap();
    check(&String::from_utf8(written).unwrap(), &log);
}

/// Checks the requests of httperf for `text`, one session after another.
#[track_caller]
fn check(text: &str, log: &RequestLog) {
    let directory = Temporary::new();
    let path = directory.path().join("log");
    std::fs::write(&path, text).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || serve(&listener));
    let mut httperf = Command::new("httperf");
    httperf.args(["--server=127.0.0.1", "--timeout=20"]);
    httperf.arg(format!("--port={}", address.port()));
    httperf.arg(format!("--wsesslog={},0.01,{}", log.sessions(), path.display()));
    let (ok, out, errors) = run(&mut httperf);
    drop(TcpStream::connect(address).unwrap()); // a connection without a request ends the server
    let asked = server.join().unwrap();
    assert!(ok, "{out}\n{errors}");
    assert_eq!(asked, read_sessions(log), "{out}");
    let (sessions, requests) = (log.sessions(), log.requests());
    let totals = format!("Total: connections {sessions} requests {requests} replies {requests} ");
    assert!(out.contains(&totals), "{totals}\n{out}");
    assert!(out.contains(&histogram(log)), "{}\n{out}", histogram(log));
}

/// The sessions that our reader finds.
fn read_sessions(log: &RequestLog) -> Vec<Session> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let session = |index: usize| {
        let templates = log.session(index).iter().map(|of| &log.templates()[of.template()]);
        templates.map(|one| (one.method.to_string(), text(&one.uri), one.body.to_vec())).collect()
    };
    (0..log.sessions()).map(session).collect()
}

/// httperf's line for sessions that all get their replies.
fn histogram(log: &RequestLog) -> String {
    let lengths: Vec<usize> = (0..log.sessions()).map(|index| log.session(index).len()).collect();
    let mut line = "Session length histogram:".to_owned();
    for length in 0..=lengths.iter().copied().max().unwrap() {
        let count = lengths.iter().filter(|&&known| known == length).count();
        write!(line, " {count}").unwrap();
    }
    line + "\n"
}

/// Answers all requests, and returns them by connection after the first connection without a
/// request.
fn serve(listener: &TcpListener) -> Vec<Session> {
    let answer_all = |mut stream: TcpStream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut session = Session::new();
        while let Some(request) = request(&mut reader) {
            session.push(request);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        }
        session
    };
    let sessions = listener.incoming().map(|stream| answer_all(stream.unwrap()));
    sessions.take_while(|session| !session.is_empty()).collect()
}

fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, String, Vec<u8>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|&len| len > 0)?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, uri) = (words.next().unwrap(), words.next().unwrap());
    let mut body = Vec::new();
    loop {
        let mut field = String::new();
        reader.read_line(&mut field).unwrap();
        let field = field.trim_end().to_ascii_lowercase();
        if let Some(length) = field.strip_prefix("content-length:") {
            body.resize(length.trim().parse().unwrap(), 0);
        }
        if field.is_empty() {
            break;
        }
    }
    reader.read_exact(&mut body).unwrap();
    Some((method, uri, body))
}
