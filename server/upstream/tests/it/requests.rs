//! What an application gets of a request.

use crate::memory::Pair;

/// The lines of the head that an application gets, without those that tell of the client.
fn head(request: &str) -> Vec<String> {
    let mut pair = Pair::new(request);
    pair.drive();
    let text = pair.sent_text();
    let (head, _) = text.split_once("\r\n\r\n").expect("a head");
    let is_own = |line: &&str| !line.starts_with("X-Forwarded-");
    head.split("\r\n").filter(is_own).map(String::from).collect()
}

#[test]
fn fields_keep_their_order_and_case_and_the_target_its_bytes() {
    let request = "GET /a%2fb/../c?x=%20&y HTTP/1.1\r\nHost: site.test:8080\r\nX-One: 1\r\n\
                   cookie: a=b\r\nX-One:   2 \r\n\r\n";
    let expected = [
        "GET /a%2fb/../c?x=%20&y HTTP/1.1",
        "Host: site.test:8080",
        "X-One: 1",
        "cookie: a=b",
        "X-One: 2",
    ];
    assert_eq!(head(request), expected);
}

#[test]
fn an_absolute_target_becomes_a_path_and_a_host() {
    let request = "GET http://site.test/a?b HTTP/1.1\r\nHost: site.test\r\n\r\n";
    assert_eq!(head(request), ["GET /a?b HTTP/1.1", "Host: site.test"]);
    assert_eq!(head("GET /a HTTP/1.0\r\n\r\n"), ["GET /a HTTP/1.1", "Host: app.test:3000"]);
}

/// RFC 9110 §7.6.1: what is for one hop, and what `Connection` names.
#[test]
fn fields_for_one_hop_are_left_out() {
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close, X-Named, Cookie\r\n\
                   Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nTE: gzip\r\n\
                   Trailer: X\r\nUpgrade: h2c\r\nProxy-Authorization: Basic x\r\nX-Named: 1\r\n\
                   Cookie: kept\r\nX: kept\r\n\r\n";
    assert_eq!(head(request), ["GET / HTTP/1.1", "Host: a", "Cookie: kept", "X: kept"]);
}

/// A client cannot have a field taken out by which an application decides who it is, or where its
/// body ends.
#[test]
fn some_fields_are_not_for_one_hop_whoever_says_so() {
    let kept = [
        "Authorization: Basic x",
        "Cookie: a=b",
        "Content-Type: text/plain",
        "Content-Length: 5",
        "Forwarded: for=10.0.0.1",
        "X-Forwarded-For: 10.0.0.1",
        "X-Real-IP: 10.0.0.1",
    ];
    let names = kept.map(|line| line.split(':').next().unwrap()).join(", ");
    let fields = kept.join("\r\n");
    let request = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: {names}, Host, X\r\n{fields}\r\nX: 1\r\n\r\n"
    );
    let mut pair = Pair::from(&request, true);
    pair.client.body = b"hello".to_vec();
    pair.drive();
    let text = pair.sent_text();
    for line in kept.iter().chain(&["Host: a"]) {
        assert!(text.contains(&format!("\r\n{line}\r\n")), "{line}: {text}");
    }
    assert!(!text.contains("\r\nX: 1"), "{text}");
}

/// CVE-2016-5385 and its kind: names that become the variables of other fields.
#[test]
fn fields_that_could_be_taken_for_others_are_left_out() {
    let request = "GET / HTTP/1.1\r\nHost: a\r\nProxy: http://evil\r\nX_Forwarded_For: 1.2.3.4\r\n\
                   Content_Length: 5\r\nX-Real-IP: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nX: y\r\n\r\n";
    assert_eq!(head(request), ["GET / HTTP/1.1", "Host: a", "X: y"]);
}

/// caddy 4503, 4507, 6783.
#[test]
fn the_client_is_told_by_the_server_and_by_nobody_else() {
    let request = "GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 10.0.0.1\r\n\
                   X-Forwarded-Proto: https\r\nX-Forwarded-Host: b.test\r\n\
                   Forwarded: for=10.0.0.1;proto=https\r\n\r\n";
    let told = |is_trusted| {
        let mut pair = Pair::from(request, is_trusted);
        pair.drive();
        let text = pair.sent_text();
        let lines = text.lines().filter(|line| line.contains("Forwarded"));
        lines.map(String::from).collect::<Vec<_>>()
    };
    let own = ["X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: http", "X-Forwarded-Host: a.test"];
    assert_eq!(told(false), own);
    let both = [
        "X-Forwarded-For: 10.0.0.1",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Host: b.test",
        "Forwarded: for=10.0.0.1;proto=https",
        "X-Forwarded-For: 192.0.2.7",
        "Forwarded: for=192.0.2.7;proto=http",
    ];
    assert_eq!(told(true), both);
}

#[test]
fn a_body_is_framed_anew_however_it_comes() {
    for (framing, expected) in [
        ("Content-Length: 5", "Content-Length: 5\r\n|hello"),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked\r\n|5\r\nhello\r\n0\r\n\r\n"),
    ] {
        let mut pair = Pair::new(&format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n"));
        pair.client.body = b"hello".to_vec();
        pair.drive();
        let (head, body) = expected.split_once('|').unwrap();
        let text = pair.sent_text();
        assert!(text.contains(head), "{text}");
        assert!(text.ends_with(&format!("\r\n\r\n{body}")), "{text}");
    }
}

#[test]
fn a_body_is_sent_as_it_comes() {
    let mut pair = Pair::new("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    pair.client.is_whole = false;
    pair.client.piece_bytes_max = 3;
    pair.drive();
    assert!(pair.sent_text().ends_with("\r\n\r\n"), "the head goes ahead");
    pair.client.body = b"abcde".to_vec();
    pair.drive();
    assert!(pair.sent_text().ends_with("\r\n\r\n3\r\nabc\r\n2\r\nde\r\n"));
    pair.client.is_whole = true;
    pair.drive();
    assert!(pair.sent_text().ends_with("de\r\n0\r\n\r\n"));
}

#[test]
fn a_request_without_a_body_has_no_framing() {
    let lines = head("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(lines.len(), 2);
    let lines = head("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(lines[2..], ["Content-Length: 0"]);
}

/// RFC 9110 §10.1.4: `TE` is for one hop, and says so.
#[test]
fn trailers_are_asked_for_where_the_client_takes_them() {
    let asks = |request: &str| {
        let lines = head(request);
        let asks = lines.ends_with(&["TE: trailers".into(), "Connection: TE".into()]);
        assert!(asks || !lines.iter().any(|line| line.starts_with("TE")), "{lines:?}");
        asks
    };
    assert!(asks("GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n"));
    assert!(asks(
        "GET / HTTP/1.1\r\nHost: a\r\nTE: gzip;q=1, Trailers\r\nConnection: x, te\r\n\r\n"
    ));
    for other in [
        "GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nTE: gzip\r\nConnection: TE\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nTE: trailersx\r\nConnection: TE\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: TE\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n",
    ] {
        assert!(!asks(other), "{other}");
    }
}

#[test]
fn trailers_follow_a_body_in_chunks() {
    let sent = |framing: &str, trailer: &'static [u8]| {
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n");
        let mut pair = Pair::new(&head);
        pair.client.body = b"hello".to_vec();
        pair.client.trailer = trailer;
        pair.drive();
        pair.sent_text().split_once("\r\n\r\n").expect("a head").1.to_owned()
    };
    let chunked = "Transfer-Encoding: chunked";
    assert_eq!(sent(chunked, b"X-Sum:1\r\n"), "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n");
    assert_eq!(sent("Content-Length: 5", b"X-Sum: 1\r\n"), "hello");
    // What may not stand there, what a recipient would take for other fields, and what is for this
    // hop.
    let others = b"Content-Length: 9\r\nHost: b\r\nX_Sum: 1\r\nProxy: p\r\nX-Real-IP: 1.2.3.4\r\n\
                   X-Hop: 1\r\n";
    let named = "Connection: x-hop\r\nTransfer-Encoding: chunked";
    assert_eq!(sent(named, others), "5\r\nhello\r\n0\r\n\r\n");
}
