//! Local redirects of scripts, however their replies are cut.

use std::sync::{Arc, LazyLock, Mutex};

use session::{Limits, Phase, Tick};
use site::Site;
use site::host::{HostSettings, RouteSettings};
use upstream::ServerSettings;
use upstream::{Address, ApplicationSettings, Facilities, Protocol, ReportDiagnostic};

use crate::memory::{MemoryFiles, Pair};

const NOW: Tick = Tick(1_000_000_000);

/// What was reported of applications.
static REPORTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// A site whose `/cgi/` has programs.
static SITE: LazyLock<Arc<Site>> = LazyLock::new(|| {
    let application = ApplicationSettings {
        servers: vec![ServerSettings { address: Address::Programs("".into()), weight: 1 }],
        protocol: Protocol::Cgi,
        ..ApplicationSettings::default()
    };
    let mut settings = HostSettings::new("/".into());
    settings.routes =
        vec![RouteSettings { path: "/cgi/**".into(), application, ..RouteSettings::default() }];
    let site = Site::new(vec![settings]).expect("good settings");
    let report: ReportDiagnostic =
        Arc::new(|it| REPORTED.lock().expect("no test panics there").push(it.to_string()));
    let facilities = Facilities { report: Some(report), ..Facilities::default() };
    site.applications()[0].set_facilities(facilities);
    Arc::new(site)
});

fn pair() -> Pair {
    let files = MemoryFiles::new(&[("a.txt", b"0123456789")]);
    let mut pair = Pair::on_site(Arc::clone(&SITE), files, Limits::default());
    pair.holds_jobs = true;
    pair
}

/// Has the program that is called write this, in pieces of a size, and end. Returns its variables.
fn reply(pair: &mut Pair, output: &[u8], piece: usize) -> String {
    let (id, call) = pair.take_call();
    let told = String::from_utf8_lossy(call.program().expect("it is one")).into_owned();
    pair.answer_call((id, call), output, piece);
    told
}

fn text(pair: &Pair) -> String {
    String::from_utf8_lossy(&pair.received).into_owned()
}

#[test]
fn the_answer_is_that_to_another_request_however_its_reply_is_cut() {
    const REDIRECT: &[u8] = b"location: /x/../a.txt?y\r\n\r\nnot sent";
    for piece in 1..=REDIRECT.len() {
        let mut pair = pair();
        for number in 1..3 {
            pair.received.clear();
            pair.send(b"POST /cgi/a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
            reply(&mut pair, REDIRECT, piece);
            // The second time the file is in the cache.
            assert_eq!(pair.held.is_some(), number == 1);
            pair.finish_job();
            let text = text(&pair);
            assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
            assert!(text.ends_with("\r\n\r\n0123456789") && !text.contains("Location"), "{text}");
            assert_eq!(pair.phase(), Phase::Idle);
            assert_eq!(pair.counters.requests.get(), number);
        }
    }
}

/// The other program gets a GET without a body, and is told what the client has asked for.
#[test]
fn another_program_is_told_of_both_requests() {
    let mut pair = pair();
    pair.send(
        b"POST http://h.test/cgi/a?b HTTP/1.1\r\nHost: h.test\r\nContent-Length: 3\r\n\
        Content-Type: c/d\r\nCookie: e\r\nUpgrade: f\r\n\r\nabc",
    );
    reply(&mut pair, b"Location: /cgi/g/h?i\n\n", 1000);
    let told = reply(&mut pair, b"Content-Type: a/b\n\ndone", 1000);
    for expected in [
        "REQUEST_METHOD=GET",
        "REQUEST_URI=/cgi/a?b",
        "SCRIPT_NAME=/cgi/g",
        "PATH_INFO=/h",
        "QUERY_STRING=i",
        "CONTENT_LENGTH=\0",
        "CONTENT_TYPE=\0",
        "SERVER_NAME=h.test",
        "HTTP_HOST=h.test",
        "HTTP_COOKIE=e",
    ] {
        assert!(told.contains(expected), "{expected}: {told:?}");
    }
    assert!(!told.contains("HTTP_UPGRADE"), "{told:?}");
    pair.send(b"HEAD /cgi/a HTTP/1.1\r\nHost: h\r\n\r\n");
    reply(&mut pair, b"Location: /cgi/b\n\n", 1000);
    let told = reply(&mut pair, b"Content-Type: a/b\n\n", 1000);
    assert!(told.contains("REQUEST_METHOD=HEAD"), "{told:?}");
    assert!(text(&pair).contains("\r\n\r\n4\r\ndone\r\n0\r\n\r\nHTTP/1.1 200 "), "{}", text(&pair));
}

/// A client may be in the middle of a body that is no longer wanted.
#[test]
fn a_body_that_was_not_taken_is_no_other_requests() {
    for close in ["", "Connection: close\r\n"] {
        let mut pair = pair();
        let head = format!("POST /cgi/a HTTP/1.1\r\nHost: h\r\n{close}Content-Length: 300\r\n\r\n");
        pair.send(head.as_bytes());
        pair.send(b"GET /");
        let (id, mut call) = pair.take_call();
        call.connected(false, NOW);
        let mut stream = pair.connection.stream(&mut pair.worker, id).expect("it is wanted");
        call.ingest(&mut stream, b"Location: /a.txt\n\n", NOW);
        call.ended(&mut stream);
        drop(stream);
        pair.drive();
        pair.finish_job();
        assert_eq!(pair.statuses(), [200]);
        assert!(text(&pair).contains("\r\nConnection: close\r\n"), "{}", text(&pair));
        // A close at once would reset the connection, and the reply with it.
        assert_eq!((pair.is_shut, pair.closed), (true, None), "{close}");
        pair.send(b" HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(pair.statuses(), [200]);
    }
}

#[test]
fn redirects_have_their_bounds() {
    const REDIRECTS_MAX: usize = 10;
    let redirected = |times: usize, target: &str| {
        let mut pair = pair();
        pair.send(b"GET /cgi/first HTTP/1.1\r\nHost: h\r\n\r\n");
        for _ in 0..times {
            reply(&mut pair, format!("Location: {target}\n\n").as_bytes(), 1000);
        }
        pair
    };
    let mut last = redirected(REDIRECTS_MAX, "/cgi/again");
    reply(&mut last, b"Content-Type: a/b\n\ndone", 1000);
    assert_eq!(last.statuses(), [200]);
    assert_eq!(redirected(REDIRECTS_MAX + 1, "/cgi/again").statuses(), [502]);
    assert_eq!(redirected(1, "/a b").statuses(), [502]);
    assert_eq!(redirected(1, &format!("/{}", "x".repeat(9000))).statuses(), [502]);
    let reported = REPORTED.lock().expect("no test panics there");
    let has = |text: &str| reported.iter().any(|line| line.ends_with(text));
    assert!(has(
        "/cgi/again: a local redirect of it is not followed: more than 10 in a row: /cgi/again"
    ));
    assert!(has(
        "/cgi/first: a local redirect of it is not followed: no client could ask for it: /a b"
    ));
    // A path that can be asked for, and leads out.
    assert_eq!(redirected(1, "/../etc/passwd").statuses(), [400]);
}
