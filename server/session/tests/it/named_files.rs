//! Files that an application names in place of content, however its reply and the request are cut.

use std::sync::{Arc, LazyLock};

use session::{Limits, Phase, Tick};
use site::Site;
use site::fields::{HeaderRule, When};
use site::host::{HostSettings, RouteSettings};
use upstream::{Address, ApplicationSettings, Next, ServerSettings};

use crate::memory::{MemoryFiles, Pair};

const NOW: Tick = Tick(1_000_000_000);

/// A site whose `/app/` is an application's, which may name files.
static SITE: LazyLock<Arc<Site>> = LazyLock::new(|| {
    let address = Address::Tcp { host: "app.test".into(), port: 80 };
    let application = ApplicationSettings {
        servers: vec![ServerSettings { address, weight: 1 }],
        sendfile_root: "/srv".into(),
        ..ApplicationSettings::default()
    };
    let mut settings = HostSettings::new("/".into());
    settings.routes =
        vec![RouteSettings { path: "/app/**".into(), application, ..RouteSettings::default() }];
    let rule = |name: &str, value: &str| HeaderRule {
        path: "/app/**".into(),
        name: name.into(),
        value: value.into(),
        when: When::Always,
    };
    settings.headers = vec![rule("Expires", "never"), rule("X-Rule", "1")];
    Arc::new(Site::new(vec![settings]).expect("good settings"))
});

const REPLY: &[u8] = b"HTTP/1.1 404 Not Found\r\nX-SENDFILE: /srv/a.txt\r\nContent-Type: a/b\r\n\
    ETag: \"x\"\r\nTransfer-Encoding: chunked\r\nexpires: 0\r\nSet-Cookie: c\r\nVary: Cookie\r\n\r\n\
    3\r\nabc\r\n0\r\n\r\n";

fn pair() -> Pair {
    let files = MemoryFiles::new(&[("a.txt", b"0123456789")]);
    let mut pair = Pair::on_site(Arc::clone(&SITE), files, Limits::default());
    pair.holds_jobs = true;
    pair
}

/// Has the application reply, in pieces of a size.
fn reply(pair: &mut Pair, reply: &[u8], piece: usize) {
    let called = pair.take_call();
    pair.answer_call(called, reply, piece);
}

fn text(pair: &Pair) -> String {
    String::from_utf8_lossy(&pair.received).into_owned()
}

#[test]
fn a_named_file_is_the_same_however_its_reply_is_cut() {
    for piece in 1..=REPLY.len() {
        let mut pair = pair();
        for number in 1..3 {
            pair.received.clear();
            pair.send(b"GET /app/x HTTP/1.1\r\nHost: h\r\n\r\n");
            reply(&mut pair, REPLY, piece);
            // The second time it is in the cache.
            assert_eq!(pair.held.is_some(), number == 1);
            pair.finish_job();
            let text = text(&pair);
            assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
            for (field, count) in [
                ("Content-Type: a/b", 1),
                ("Content-Type", 1),
                ("Expires: never", 0),
                ("expires: never", 1),
                ("X-Rule: 1", 1),
                ("Set-Cookie: c", 1),
                ("Cache-Control: private, no-cache", 1),
                ("Content-Length: 10", 1),
                ("ETag", 1),
                ("ETag: \"x\"", 0),
                ("Vary", 0),
                ("X-SENDFILE", 0),
                ("Transfer-Encoding", 0),
            ] {
                assert_eq!(text.matches(&format!("\n{field}")).count(), count, "{field}: {text}");
            }
            assert!(text.ends_with("\r\n\r\n0123456789"), "{text}");
            assert_eq!(pair.phase(), Phase::Idle);
            assert_eq!(pair.counters.requests.get(), number);
            assert_eq!(pair.counters.body_bytes.get(), 10 * number);
        }
    }
}

#[test]
fn a_file_that_cannot_be_looked_up_is_503() {
    let mut pair = pair();
    pair.send(b"GET /app/x HTTP/1.1\r\nHost: h\r\n\r\n");
    reply(&mut pair, REPLY, 7);
    pair.fail_job();
    assert_eq!(pair.statuses(), [503]);
    assert!(!text(&pair).contains("Set-Cookie"));
}

/// A client that was never invited may send its body or not: the answer is the last.
#[test]
fn an_answer_before_the_body_closes_the_connection() {
    let mut pair = pair();
    pair.send(
        b"PUT /app/x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n",
    );
    reply(&mut pair, REPLY, 7);
    pair.finish_job();
    assert_eq!(pair.statuses(), [200]);
    assert!(text(&pair).contains("\r\nConnection: close\r\n"), "{}", text(&pair));
}

/// Content beside a name is received up to 64 KiB, and then nothing more is asked for.
#[test]
fn content_beside_a_name_is_bounded() {
    const DROPPED_BYTES_MAX: usize = 64 * 1024;
    for (len, is_over) in [(DROPPED_BYTES_MAX, false), (DROPPED_BYTES_MAX + 1, true)] {
        let mut pair = pair();
        pair.send(b"GET /app/x HTTP/1.1\r\nHost: h\r\n\r\n");
        let (id, mut call) = pair.take_call();
        call.connected(false, NOW);
        let mut stream = pair.connection.stream(&mut pair.worker, id).expect("it is wanted");
        while let Next::Send(bytes) = call.next(&mut stream, NOW) {
            let n = bytes.len();
            call.sent(n, NOW);
        }
        let head =
            b"HTTP/1.1 200 OK\r\nX-Accel-Redirect: /a.txt\r\nContent-Length: 1000000\r\n\r\n";
        call.ingest(&mut stream, &[&head[..], &vec![b'y'; len]].concat(), NOW);
        assert_eq!(call.wants_input(&mut stream), !is_over, "{len}");
        drop(stream);
        assert_eq!(pair.connection.wants_stream(id), !is_over);
        if is_over {
            pair.drive();
            pair.finish_job();
            assert!(text(&pair).ends_with("\r\n\r\n0123456789"), "{}", text(&pair));
        }
    }
}
