//! Connections that move to a worker with another site: an answer is of one site or of the other,
//! and never of both.

use std::sync::{Arc, LazyLock};

use session::{Limits, Op};
use site::Site;
use site::fields::{HeaderRule, When};
use site::host::HostSettings;

use crate::chain::{AMPLE, Chain, body, request, request_to};
use crate::memory::{MemoryFiles, Pair};

/// A host `h` that says whose it is, behind `before` others.
fn site(name: &str, before: usize) -> Arc<Site> {
    let host = |names: &[&str]| {
        let mut settings = HostSettings::new("/".into());
        settings.names = names.iter().map(|name| (*name).into()).collect();
        settings.listing = true;
        let (path, when) = ("/**".into(), When::Always);
        settings.headers =
            vec![HeaderRule { path, name: "X-Site".into(), value: name.into(), when }];
        settings
    };
    let others: Vec<String> = (0..before).map(|number| format!("other-{number}")).collect();
    let hosts = others.iter().map(|other| host(&[other])).chain([host(&["h"])]);
    Arc::new(Site::new(hosts.collect()).expect("good settings"))
}

static FORMER: LazyLock<Arc<Site>> = LazyLock::new(|| site("former", 2));
static NEXT: LazyLock<Arc<Site>> = LazyLock::new(|| site("next", 0));

fn former() -> Pair {
    let files = [("f.txt", &b"the former bytes"[..]), ("404.html", b"former"), ("d/a.txt", b"")];
    Pair::on_site(Arc::clone(&FORMER), MemoryFiles::new(&files), Limits::default())
}

fn next_files() -> MemoryFiles {
    MemoryFiles::new(&[("f.txt", b"the next bytes"), ("404.html", b"next"), ("d/b.txt", b"")])
}

fn next() -> Pair {
    Pair::on_site(Arc::clone(&NEXT), next_files(), Limits::default())
}

fn move_to_next(pair: &mut Pair) {
    pair.move_to(Arc::clone(&NEXT), Limits::default());
    pair.files = next_files();
    pair.window = usize::MAX;
}

/// What a client receives that is not moved.
fn answer_of(mut pair: Pair, request: &[u8]) -> Vec<u8> {
    pair.send(request);
    pair.received
}

/// What a client receives that is moved, if it can be, after `turns` turns of seven bytes each, and
/// whether there are more turns.
fn answer_if_moved(request: &[u8], turns: usize) -> (Option<Vec<u8>>, bool) {
    let mut pair = former();
    pair.connection.ingest(&mut pair.worker, request);
    pair.window = 7;
    let has_more = (0..turns).all(|_| {
        let has_turned = pair.turn();
        pair.window = 7;
        has_turned
    });
    if !pair.connection.is_movable() {
        return (None, has_more);
    }
    move_to_next(&mut pair);
    pair.drive();
    (Some(pair.received), has_more)
}

#[test]
fn an_answer_is_of_one_site_wherever_its_client_is_moved() {
    let heads = ["GET /f.txt", "HEAD /f.txt", "GET /d/", "GET /d", "GET /none", "PUT /f.txt"];
    let heads = heads.map(|head| format!("{head} HTTP/1.1\r\nHost: h\r\n\r\n"));
    for head in &heads {
        let both = [former(), next()].map(|pair| answer_of(pair, head.as_bytes()));
        assert_ne!(both[0], both[1], "{head}");
        let mut moves = 0;
        for turns in 0.. {
            let (answer, has_more) = answer_if_moved(head.as_bytes(), turns);
            if let Some(answer) = answer {
                assert!(both.contains(&answer), "{turns}: {}", answer.escape_ascii());
                moves += 1;
            }
            if !has_more {
                break;
            }
        }
        assert!(moves > 5, "{head} was moved {moves} times only");
    }
}

/// The bytes of the next request are kept while an answer is sent; the next site answers them.
#[test]
fn what_has_come_of_the_next_request_is_for_the_next_site() {
    let request = b"GET /f.txt HTTP/1.1\r\nHost: h\r\n\r\n";
    let [of_former, of_next] = [former(), next()].map(|pair| answer_of(pair, request));
    let mut pair = former();
    pair.window = 7;
    pair.send(&[&request[..], request].concat());
    assert!(pair.connection.is_movable());
    move_to_next(&mut pair);
    pair.drive();
    assert_eq!(pair.received, [&of_former[..], &of_next].concat());
    let (begin, end) = request.split_at(9);
    let mut pair = former();
    pair.send(begin);
    assert!(pair.connection.is_movable());
    move_to_next(&mut pair);
    pair.send(end);
    assert_eq!(pair.received, of_next);
}

/// Takes the next turn, or answers the job that is out. Returns whether there was anything.
fn turn(pair: &mut Pair) -> bool {
    pair.window = 7;
    let is_out = !pair.turn() && pair.held.is_some();
    if is_out {
        pair.finish_job();
    }
    is_out || pair.held.is_some() || !matches!(pair.connection.next(), Op::Recv)
}

/// The limits are others, too: what was read by the former ones is too long for these.
#[test]
fn a_worker_that_takes_another_site_over_answers_by_the_former_what_it_has_read() {
    let mut site = Arc::into_inner(site("next", 0)).unwrap();
    site.follow(&FORMER);
    let site = Arc::new(site);
    let mut limits = Limits::default();
    limits.head.head_bytes_max = 60;
    let request = b"GET /f.txt HTTP/1.1\r\nHost: h\r\n\r\n";
    let of_next = answer_of(next(), request);
    let heads = ["GET /f.txt", "HEAD /f.txt", "GET /d/", "GET /d", "GET /none", "PUT /f.txt"];
    for head in heads {
        let long = format!("{head} HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(60));
        let of_former = answer_of(former(), long.as_bytes());
        let mut turns = 0;
        loop {
            let mut pair = former();
            pair.holds_jobs = true;
            pair.connection.ingest(&mut pair.worker, long.as_bytes());
            let has_more = (0..turns).all(|_| turn(&mut pair));
            pair.take_over(Arc::clone(&site), next_files(), limits.clone());
            while turn(&mut pair) {}
            assert!(
                pair.received == of_former,
                "{head} after {turns} turns: {}",
                pair.received.escape_ascii()
            );
            pair.received.clear();
            (pair.window, pair.holds_jobs) = (usize::MAX, false);
            pair.send(request);
            assert!(pair.received == of_next, "the next after {head} after {turns} turns");
            if !has_more {
                break;
            }
            turns += 1;
        }
        assert!(turns > 5, "{head}: {turns} turns only");
    }
}

/// A call is of its site until its reply is there; the client may take its time for that.
#[test]
fn what_an_application_answers_stays_until_it_is_answered() {
    let mut gathered = Chain::new(AMPLE);
    let upload = request_to("/script/x", &body(100), Some(&[10]));
    gathered.send(&upload[..upload.len() - 2]);
    assert!(!gathered.connection.is_movable(), "its body is gathered");
    let mut called = Chain::new(AMPLE);
    called.application.is_stalled = true;
    called.send(&request(b"", None));
    assert!(!called.connection.is_movable(), "its call is out");
    let mut answered = Chain::new(AMPLE);
    answered.is_blocked = true;
    answered.send(&request(b"abc", None));
    assert!(answered.call.is_none() && answered.connection.is_movable(), "bytes are left only");
}
