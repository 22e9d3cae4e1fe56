//! Requests to scripts over FastCGI: what a server of it gets, and what its records become.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use upstream::{Application, Failure, Length, Origin, Protocol, RecordError, ScriptRequest};

use crate::memory::{PEER, Pair, application};

const GET: &str = "GET /a.php HTTP/1.1\r\nHost: a.test\r\n\r\n";
const OK: &str = "Content-Type: text/html\r\n\r\n";

fn server(children: u64) -> Arc<Application> {
    application(Protocol::FastCgi, children)
}

fn script() -> ScriptRequest<'static> {
    ScriptRequest {
        origin: Origin {
            peer: PEER.parse().unwrap(),
            is_trusted: false,
            authority: "default.test",
        },
        peer_port: 4711,
        root: b"/srv/site",
        script_name: b"/a.php",
        path_info: b"",
        body_bytes: None,
    }
}

/// A call that has sent what it can.
fn asked(head: &str) -> Pair {
    asked_of(&server(0), head, &script())
}

fn asked_of(server: &Arc<Application>, head: &str, script: &ScriptRequest<'_>) -> Pair {
    let mut pair = Pair::of_script(server, head, script);
    pair.drive();
    pair
}

/// A record that a server sends.
fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let [high, low] = (content.len() as u16).to_be_bytes();
    let mut bytes = vec![1, kind, 0, 1, high, low, padding, 0];
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len() + usize::from(padding), 0xff);
    bytes
}

fn output(content: impl AsRef<[u8]>) -> Vec<u8> {
    record(6, content.as_ref(), 3)
}

fn error(content: impl AsRef<[u8]>) -> Vec<u8> {
    record(7, content.as_ref(), 0)
}

fn end() -> Vec<u8> {
    ended(0, 0)
}

fn ended(status: u8, protocol_status: u8) -> Vec<u8> {
    record(3, &[0, 0, 0, status, protocol_status, 0, 0, 0], 0)
}

/// The records that were sent: type and content.
fn records(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut records = Vec::new();
    while let [1, kind, 0, 1, high, low, padding, _, rest @ ..] = bytes {
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        records.push((*kind, rest[..len].to_vec()));
        bytes = &rest[len + usize::from(*padding)..];
    }
    assert!(bytes.is_empty(), "{bytes:?}");
    records
}

fn stream(pair: &Pair, kind: u8) -> Vec<u8> {
    let records = records(&pair.sent);
    let of_kind: Vec<_> = records.into_iter().filter(|record| record.0 == kind).collect();
    let (last, rest) = of_kind.split_last().expect("a stream has an end");
    assert!(last.1.is_empty() && rest.iter().all(|it| !it.1.is_empty()), "only the last is empty");
    rest.iter().flat_map(|it| it.1.clone()).collect()
}

/// The variables that were sent, in their order.
fn variables(pair: &Pair) -> Vec<(String, String)> {
    let bytes = stream(pair, 4);
    let (mut rest, mut found) = (&*bytes, Vec::new());
    let length = |rest: &mut &[u8]| match **rest {
        [a @ 128..=255, b, c, d, ..] => {
            *rest = &rest[4..];
            u32::from_be_bytes([a & 127, b, c, d]) as usize
        }
        _ => {
            let short = rest[0];
            *rest = &rest[1..];
            usize::from(short)
        }
    };
    while !rest.is_empty() {
        let (name, value) = (length(&mut rest), length(&mut rest));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        found.push((text(&rest[..name]), text(&rest[name..][..value])));
        rest = &rest[name + value..];
    }
    found
}

fn variable(pair: &Pair, name: &str) -> Option<String> {
    let mut all = variables(pair).into_iter().filter(|(it, _)| it == name);
    let value = all.next().map(|(_, value)| value);
    assert!(all.next().is_none(), "{name} is there once");
    value
}

#[track_caller]
fn check_variables(head: &str, script: &ScriptRequest<'_>, expected: &[(&str, Option<&str>)]) {
    let pair = asked_of(&server(0), head, script);
    for (name, value) in expected {
        assert_eq!(variable(&pair, name).as_deref(), *value, "{name}");
    }
}

/// Replies in pieces of many sizes.
#[track_caller]
fn check_reply(request: &str, reply: &[u8], expected: (u16, Length, &str), content: &str) {
    for size in (1..30).chain([reply.len()]) {
        let mut pair = asked(request);
        reply.chunks(size).for_each(|piece| pair.receive(piece));
        assert_eq!(pair.client.failure, None, "in pieces of {size}");
        let (status, length, lines) = pair.client.heads.pop().expect("a head");
        assert_eq!((status, length, &*lines), expected, "in pieces of {size}");
        assert_eq!(String::from_utf8_lossy(&pair.client.content), content);
        assert!(pair.client.is_complete);
        assert_eq!(pair.over, Some(false), "connections are not kept by default");
    }
}

#[track_caller]
fn check_failure(reply: &[u8], failure: Failure, status: u16) {
    for size in [1, 3, reply.len().max(1)] {
        let mut pair = asked(GET);
        reply.chunks(size).for_each(|piece| pair.receive(piece));
        if pair.over.is_none() {
            pair.end();
        }
        assert_eq!(pair.client.failure, Some(failure), "in pieces of {size}");
        assert_eq!((failure.status(), pair.over), (status, Some(false)));
    }
}

/// Rule 1: the streams of a request, each with the empty record that ends it, also without a body.
#[test]
fn a_request_is_begun_and_its_streams_are_ended() {
    let pair = asked(GET);
    let records = records(&pair.sent);
    assert_eq!(records.first(), Some(&(1, vec![0, 1, 0, 0, 0, 0, 0, 0])), "a responder");
    assert_eq!(records.last(), Some(&(5, Vec::new())));
    assert_eq!(records.iter().filter(|record| record.0 == 5).count(), 1);
    assert_eq!(variable(&pair, "SCRIPT_FILENAME").unwrap(), "/srv/site/a.php");
}

/// Rule 1: variables that do not fit into a record, names and values of all lengths.
#[test]
fn variables_may_take_several_records() {
    let values = [0, 1, 127, 128, 255, 256, 70_000].map(|len| "v".repeat(len));
    let lines: String = values.iter().enumerate().map(|(n, v)| format!("X-{n}: {v}\r\n")).collect();
    let long = format!("X-{}: long\r\n", "n".repeat(200));
    let head = format!("GET /a.php HTTP/1.1\r\nHost: a\r\n{lines}{long}\r\n");
    let pair = asked(&head);
    assert!(records(&pair.sent).iter().filter(|record| record.0 == 4).count() >= 3);
    for (n, value) in values.iter().enumerate() {
        assert_eq!(variable(&pair, &format!("HTTP_X_{n}")).as_ref(), Some(value));
    }
    let name = format!("HTTP_X_{}", "N".repeat(200));
    assert_eq!(variable(&pair, &name).as_deref(), Some("long"));
}

/// Rule 1: a body, whose pieces and windows are of a few bytes.
#[test]
fn a_body_is_a_stream_however_it_comes() {
    for (window, piece) in [(1, 1), (3, 2), (usize::MAX, 7), (usize::MAX, usize::MAX)] {
        let head = "POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: 26\r\n\r\n";
        let mut pair = Pair::of_script(&server(0), head, &script());
        (pair.window, pair.client.piece_bytes_max) = (window, piece);
        pair.client.body = b"abcdefghijklm".to_vec();
        pair.client.is_whole = false;
        pair.drive();
        assert!(pair.call.deadline().is_none(), "the client's time");
        pair.client.body = b"nopqrstuvwxyz".to_vec();
        pair.client.is_whole = true;
        pair.drive();
        assert_eq!(stream(&pair, 5), b"abcdefghijklmnopqrstuvwxyz");
        assert_eq!(variable(&pair, "CONTENT_LENGTH").as_deref(), Some("26"));
        pair.receive(&[output(OK), end()].concat());
        assert!(pair.client.is_complete);
    }
}

#[test]
fn a_body_larger_than_a_record_is_several() {
    let head = "POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n";
    let mut pair = Pair::of_script(&server(0), head, &script());
    pair.client.body = vec![b'x'; 200_000];
    pair.drive();
    assert_eq!(stream(&pair, 5), vec![b'x'; 200_000]);
}

/// Rule 1: both streams interleaved, with padding, across any cut; the empty output at the end is
/// optional.
#[test]
fn a_reply_is_read_across_any_cut() {
    let reply = |with_end: bool| {
        let mut reply = [
            output("Content-"),
            error("Warning"),
            output("Type: text/html\r\n\r"),
            record(11, &[4; 8], 1),
            output("\n<p>"),
            error(": x\n"),
            output("ok"),
        ]
        .concat();
        if with_end {
            reply.extend(output(""));
        }
        reply.extend(end());
        reply
    };
    for with_end in [false, true] {
        let expected = (200, Length::Unknown, "Content-Type: text/html");
        check_reply(GET, &reply(with_end), expected, "<p>ok");
    }
}

/// Rule 1: what is not a record of request 1 is a failure of the application.
#[test]
fn what_is_no_record_of_the_request_is_answered_with_502() {
    let record = |why| Failure::Record(why);
    check_failure(b"HTTP/1.1 400 Bad Request\r\n\r\n", record(RecordError::Version(b'H')), 502);
    check_failure(&[1, 6, 0, 2, 0, 1, 0, 0, b'x'], record(RecordError::Request(2)), 502);
    check_failure(&[1, 3, 0, 1, 0, 4, 0, 0, 0], record(RecordError::EndLength(4)), 502);
}

/// Rule 2 and the statuses of `END_REQUEST`.
#[test]
fn a_server_may_refuse_a_request() {
    check_failure(&ended(0, 1), Failure::Declined(1), 502);
    check_failure(&ended(0, 2), Failure::Overloaded, 503);
    check_failure(&ended(0, 3), Failure::Declined(3), 502);
}

/// Rule 3: only where the operator says how many processes there are is a connection kept, and then
/// a reply ends with its last record.
#[test]
fn connections_are_kept_only_if_there_are_children() {
    for (children, flags) in [(0, 0), (4, 1)] {
        let mut pair = asked_of(&server(children), GET, &script());
        assert_eq!(records(&pair.sent)[0].1[2], flags);
        pair.receive(&[output(OK), end()].concat());
        assert_eq!(pair.over, Some(children > 0));
    }
}

/// Rule 3: bytes after a reply, padding that has not come, a body that is not whole.
#[test]
fn a_connection_with_anything_left_on_it_is_not_kept() {
    let mut more = asked_of(&server(4), GET, &script());
    more.receive(&[output(OK), end(), output("x")].concat());
    assert_eq!(more.over, Some(false));
    let mut padded = asked_of(&server(4), GET, &script());
    padded.receive(&[output(OK), record(3, &[0; 8], 5)[..18].to_vec()].concat());
    assert_eq!(padded.over, Some(false));
    let post = "POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n";
    let mut early = Pair::of_script(&server(4), post, &script());
    early.client.is_whole = false;
    early.drive();
    early.receive(&[output(OK), end()].concat());
    assert_eq!((early.over, early.client.is_complete), (Some(false), true));
}

/// Rule 3: a kept connection that had ended is replaced, if the request may be made twice.
#[test]
fn a_request_is_made_again_only_where_that_does_no_harm() {
    let reused = |head: &str, received: &[u8]| {
        let mut pair = Pair::of_script(&server(4), head, &script());
        pair.is_reused = true;
        pair.client.body = b"abc".to_vec();
        pair.drive();
        pair.receive(received);
        pair.end();
        pair
    };
    let again = reused(GET, b"");
    assert_eq!((again.connections, again.client.failure), (2, None));
    assert_eq!(variable(&again, "SCRIPT_NAME").as_deref(), Some("/a.php"), "all of it is sent");
    assert_eq!(reused(GET, &output("C")).client.failure, Some(Failure::CutShort));
    assert_eq!(reused(GET, &[1, 6]).client.failure, Some(Failure::Closed), "half a header");
    let post = "POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n";
    assert_eq!(reused(post, b"").client.failure, Some(Failure::Closed));
    let put = "PUT /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n";
    assert_eq!(reused(put, b"").client.failure, Some(Failure::Closed), "its body is gone");
}

/// Rule 3: without an `END_REQUEST` the process may have crashed, unless the length says that all is
/// there.
#[test]
fn a_reply_without_an_end_is_cut_short() {
    check_failure(&[output(OK), output("half")].concat(), Failure::CutShort, 502);
    check_failure(&output("Content-Length: 3\r\nStatus: 200\r\n\r\nab"), Failure::CutShort, 502);
    check_failure(b"", Failure::Closed, 502);
    check_failure(&error("only that"), Failure::Closed, 502);
    check_failure(&end(), Failure::Closed, 502);
    check_failure(&[output("Content-Ty"), end()].concat(), Failure::CutShort, 502);
    let mut whole = asked(GET);
    whole.receive(&output("Content-Length: 2\r\nContent-Type: a/b\r\n\r\nab"));
    whole.end();
    assert!(whole.client.is_complete && whole.over == Some(false));
}

/// Rule 5: standard error goes to operators line by line, with the target of the request, and never
/// to the client. caddy 4967 dropped it, docker-library/php 878 made it a 502.
#[test]
fn standard_error_is_reported_line_by_line() {
    let lines = reported("/a.php?x=1", &[error("PHP Warn"), error("ing: a\n\nb\r\nc\x1bd\n")]);
    let line = |text: &str| format!("fastcgi://app.test:3000: /a.php?x=1: {text}");
    assert_eq!(lines, [line("PHP Warning: a"), line("b"), line("c\\u{1b}d")]);
    assert_eq!(reported("/", &[error("no end")]), ["fastcgi://app.test:3000: /: no end"]);
}

/// What is reported of a request to `target` that is answered in order beside these records.
fn reported(target: &str, records: &[Vec<u8>]) -> Vec<String> {
    let server = server(0);
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let report: ReportDiagnostic = Arc::new(move |it| sink.lock().unwrap().push(it.to_string()));
    server.set_facilities(Facilities { report: Some(report), open_spool: None });
    let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut pair = asked_of(&server, &head, &script());
    records.iter().for_each(|record| pair.receive(record));
    pair.receive(&[output(OK), output("content"), end()].concat());
    assert_eq!(pair.client.content, b"content");
    let lines = lines.lock().unwrap();
    lines.clone()
}

/// Rule 5: what is reported of a request is bounded; the rest is read all the same.
#[test]
fn standard_error_is_bounded() {
    let line = [&[b'x'; 99][..], b"\n"].concat();
    let records: Vec<_> = (0..100).map(|_| error(line.repeat(100))).collect();
    let lines = reported("/", &records);
    let bytes: usize = lines.iter().map(|line| line.matches('x').count() + 1).sum();
    assert!((64 * 1024 - 200..=64 * 1024 + 1).contains(&bytes), "{bytes}");
    let long = reported("/", &[error(vec![b'y'; 10_000])]);
    assert_eq!(
        long.iter().map(|line| line.matches('y').count()).collect::<Vec<_>>(),
        [4096, 4096, 1808]
    );
}

/// Rule 3: a status beside 0 is only reported.
#[test]
fn the_status_of_an_application_is_only_reported() {
    let server = server(0);
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let report: ReportDiagnostic = Arc::new(move |it| sink.lock().unwrap().push(it.to_string()));
    server.set_facilities(Facilities { report: Some(report), open_spool: None });
    let mut pair = asked_of(&server, GET, &script());
    pair.receive(&[output(OK), ended(3, 0)].concat());
    assert!(pair.client.is_complete && pair.client.failure.is_none());
    assert_eq!(*lines.lock().unwrap(), ["fastcgi://app.test:3000: /a.php: it ended with status 3"]);
}

/// Rule 6: a body has a length, also one that came in chunks.
#[test]
fn a_body_of_chunks_has_the_length_that_was_found() {
    let chunked = "POST /a.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let found = ScriptRequest { body_bytes: Some(12), ..script() };
    let none: (&str, Option<&str>) = ("HTTP_CONTENT_LENGTH", None);
    let coding = ("HTTP_TRANSFER_ENCODING", None);
    check_variables(chunked, &found, &[("CONTENT_LENGTH", Some("12")), none, coding]);
    let known = "POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\
                 Content-Type: text/plain\r\n\r\n";
    let kind = ("CONTENT_TYPE", Some("text/plain"));
    let other = ("HTTP_CONTENT_TYPE", None);
    check_variables(known, &script(), &[("CONTENT_LENGTH", Some("5")), none, kind, other]);
    check_variables(GET, &script(), &[("CONTENT_LENGTH", Some("")), ("CONTENT_TYPE", Some(""))]);
}

/// Rule 8: the heads of scripts. Local redirects are sent to the client, as others are.
#[test]
fn the_head_of_a_script_becomes_that_of_a_reply() {
    let reply = |head: &str| [output(head), output("hello"), end()].concat();
    let check = |head: &str, status, length, fields| {
        check_reply(GET, &reply(head), (status, length, fields), "hello");
    };
    let unknown = Length::Unknown;
    check("Content-Type: a/b\n\n", 200, unknown, "Content-Type: a/b");
    check("Status: 404 Not Found\r\nX: y\r\n\r\n", 404, unknown, "X: y");
    check("status: 201\nContent-Type: a/b\n\n", 201, unknown, "Content-Type: a/b");
    check("Location: http://b.test/\r\n\r\n", 302, unknown, "Location: http://b.test/");
    check("Location: /other.php\r\n\r\n", 302, unknown, "Location: /other.php");
    check("Status: 303\r\nLocation: /x\r\n\r\n", 303, unknown, "Location: /x");
    check("HTTP/1.1 418 Teapot\r\nX: y\r\n\r\n", 418, unknown, "X: y");
    check("Content-Length: 5\r\nStatus: 200\r\n\r\n", 200, Length::Known(5), "");
    let hops = "Content-Type: a/b\r\nConnection: close, X\r\nKeep-Alive: 1\r\nX: y\r\n\
                Upgrade: h2c\r\nTransfer-Encoding: chunked\r\nZ: 1\r\n\r\n";
    check(hops, 200, unknown, "Content-Type: a/b\nZ: 1");
}

/// Rule 8: an interim response, of which others than 103 are dropped.
#[test]
fn early_hints_come_before_the_reply() {
    let hints = "Status: 103\r\nLink: </a>\r\n\r\nStatus: 102\r\n\r\nContent-Type: a/b\r\n\r\nok";
    for size in [1, 2, 5, 1000] {
        let mut pair = asked(GET);
        let reply = [output(hints), end()].concat();
        reply.chunks(size).for_each(|piece| pair.receive(piece));
        let heads: Vec<_> =
            pair.client.heads.iter().map(|head| (head.0, head.2.as_str())).collect();
        assert_eq!(heads, [(103, "Link: </a>"), (200, "Content-Type: a/b")]);
        assert_eq!(pair.client.content, b"ok");
    }
    let endless = "Status: 103\n\n".repeat(4000);
    check_failure(&output(endless), Failure::ScriptHead, 502);
}

/// Rule 8: neither a type, nor a status, nor a location; what is no head at all; what is too large.
#[test]
fn what_is_no_head_of_a_script_is_answered_with_502() {
    for head in [
        "X: y\r\n\r\n",
        "\r\n\r\n",
        "<html>\n\n",
        "Status: ok\r\n\r\n",
        "Status: 20\r\n\r\n",
        "Status: 2000\r\n\r\n",
        "Status: 200OK\r\n\r\n",
    ] {
        check_failure(&[output(head), end()].concat(), Failure::ScriptHead, 502);
    }
    check_failure(&output("Status: 101\r\n\r\n"), Failure::Switched, 502);
    let large: Vec<_> = (0..9).map(|_| output("X: ".to_owned() + &"x".repeat(9000))).collect();
    check_failure(&large.concat(), Failure::HeadTooLarge, 502);
    let twice = "Content-Type: a/b\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n";
    let mut pair = asked(GET);
    pair.receive(&output(twice));
    assert!(matches!(pair.client.failure, Some(Failure::Head(_))));
    let many = "A: b\r\n".repeat(101) + "Status: 200\r\n\r\n";
    let mut pair = asked(GET);
    pair.receive(&output(many));
    assert!(matches!(pair.client.failure, Some(Failure::Head(_))));
}

/// Rule 8: content beyond its length is cut, and the connection closed.
#[test]
fn content_beyond_its_length_is_cut() {
    let reply = [output("Content-Length: 2\r\nStatus: 200\r\n\r\nok!"), output("more"), end()];
    let mut pair = asked_of(&server(4), GET, &script());
    pair.receive(&reply.concat());
    assert_eq!((pair.client.content.as_slice(), pair.over), (&b"ok"[..], Some(false)));
}

/// Rule 8: some replies have no content, whatever is sent; the application is heard to its end.
#[test]
fn some_replies_have_no_content() {
    let reply = |head: &str| [output(head), output("dropped"), end()].concat();
    let head = "HEAD /a.php HTTP/1.1\r\nHost: a\r\n\r\n";
    let none = |status, announced| (status, Length::None(announced), "");
    check_reply(head, &reply("Status: 200\r\nContent-Length: 7\r\n\r\n"), none(200, Some(7)), "");
    check_reply(head, &reply("Status: 200\r\n\r\n"), none(200, None), "");
    check_reply(GET, &reply("Status: 204\r\n\r\n"), none(204, None), "");
    check_reply(GET, &reply("Status: 304\r\nContent-Length: 7\r\n\r\n"), none(304, None), "");
}

/// Rule 9: which script, and the rest of the path, which has nothing to do with the file (caddy
/// 2158, 2212, 3718).
#[test]
fn the_script_and_the_rest_of_the_path_are_told_apart() {
    let with_rest = ScriptRequest { path_info: b"/x/y", root: b"/app/", ..script() };
    check_variables(
        "GET /a.php/x/y?q=1&r HTTP/1.1\r\nHost: a\r\n\r\n",
        &with_rest,
        &[
            ("DOCUMENT_ROOT", Some("/app/")),
            ("SCRIPT_FILENAME", Some("/app/a.php")),
            ("SCRIPT_NAME", Some("/a.php")),
            ("PATH_INFO", Some("/x/y")),
            ("PATH_TRANSLATED", Some("/app/x/y")),
            ("REQUEST_URI", Some("/a.php/x/y?q=1&r")),
            ("QUERY_STRING", Some("q=1&r")),
        ],
    );
    let raw = "GET http://b.test:81/%61.php?x=%20? HTTP/1.1\r\nHost: b.test:81\r\n\r\n";
    check_variables(
        raw,
        &script(),
        &[
            ("PATH_INFO", None),
            ("PATH_TRANSLATED", None),
            ("REQUEST_URI", Some("/%61.php?x=%20?")),
            ("QUERY_STRING", Some("x=%20?")),
            ("HTTP_HOST", Some("b.test:81")),
        ],
    );
    let no_script = ScriptRequest { script_name: b"", path_info: b"/any", ..script() };
    check_variables(
        "GET /any HTTP/1.1\r\nHost: a\r\n\r\n",
        &no_script,
        &[
            ("SCRIPT_NAME", Some("")),
            ("SCRIPT_FILENAME", None),
            ("PATH_INFO", Some("/any")),
            ("QUERY_STRING", Some("")),
        ],
    );
}

/// Rule 10: what else a script is told.
#[test]
fn the_request_and_its_client_are_told() {
    check_variables(
        "DELETE /a.php HTTP/1.0\r\n\r\n",
        &script(),
        &[
            ("REQUEST_METHOD", Some("DELETE")),
            ("SERVER_PROTOCOL", Some("HTTP/1.0")),
            ("GATEWAY_INTERFACE", Some("CGI/1.1")),
            ("REDIRECT_STATUS", Some("200")),
            ("REMOTE_ADDR", Some(PEER)),
            ("REMOTE_PORT", Some("4711")),
            ("SERVER_NAME", Some("default.test")),
            ("SERVER_PORT", Some("80")),
            ("HTTP_HOST", Some("default.test")),
            ("REQUEST_SCHEME", Some("http")),
            ("HTTPS", None),
        ],
    );
    for (host, name, port) in [
        ("a.test:8080", "a.test", "8080"),
        ("a.test", "a.test", "80"),
        ("[::1]", "[::1]", "80"),
        ("[::1]:81", "[::1]", "81"),
    ] {
        let head = format!("GET /a.php HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let expected = [("SERVER_NAME", Some(name)), ("SERVER_PORT", Some(port))];
        check_variables(&head, &script(), &expected);
    }
}

/// Rule 10: names of fields that would become others', `Proxy` (httpoxy, CVE-2016-5385), hops, and
/// what a client says of itself.
#[test]
fn fields_that_could_mislead_a_script_are_dropped() {
    let head = "GET /a.php HTTP/1.1\r\nHost: a\r\nProxy: http://evil.test\r\nX_Forwarded_For: 1\r\n\
                X-Forwarded-For: 10.0.0.1\r\nForwarded: for=10.0.0.1\r\nX!Y: 1\r\nX.Y: 1\r\n\
                Connection: close, X-Hop\r\nX-Hop: 1\r\nUpgrade: h2c\r\nX-Forwarded-Proto: https\r\n\
                Accept-Language: de\r\naccept-language: en\r\nCookie: a=1\r\nCookie: b=2\r\n\
                Authorization: Basic x\r\nEmpty:\r\n\r\n";
    let pair = asked(head);
    let fields: Vec<_> = variables(&pair)
        .into_iter()
        .filter(|(name, _)| name.starts_with("HTTP"))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_eq!(
        fields,
        [
            "HTTP_HOST=a",
            "HTTP_ACCEPT_LANGUAGE=de, en",
            "HTTP_COOKIE=a=1; b=2",
            "HTTP_AUTHORIZATION=Basic x",
            "HTTP_EMPTY=",
        ]
    );
}

/// Rule 10: only a trusted proxy is believed.
#[test]
fn the_client_is_that_of_a_trusted_proxy() {
    let mut trusting = script();
    trusting.origin.is_trusted = true;
    let head = "GET /a.php HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 10.0.0.1, 198.51.100.3\r\n\
                X-Forwarded-Proto: https\r\n\r\n";
    check_variables(
        head,
        &trusting,
        &[
            ("REMOTE_ADDR", Some("198.51.100.3")),
            ("REMOTE_PORT", None),
            ("HTTPS", Some("on")),
            ("REQUEST_SCHEME", Some("https")),
            ("HTTP_X_FORWARDED_FOR", Some("10.0.0.1, 198.51.100.3")),
        ],
    );
    let nonsense = "GET /a.php HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: unknown\r\n\r\n";
    check_variables(nonsense, &trusting, &[("REMOTE_ADDR", Some(PEER)), ("HTTPS", None)]);
    check_variables(head, &script(), &[("REMOTE_ADDR", Some(PEER)), ("HTTPS", None)]);
}

#[test]
fn nothing_is_received_without_room() {
    let mut pair = asked(GET);
    pair.client.room = 4;
    pair.receive(&output(format!("{OK}hello")));
    assert!(!pair.call.wants_input(&mut pair.client));
    assert_eq!(pair.call.deadline(), None, "the client's time, not the application's");
    pair.client.room = 100;
    pair.drive();
    pair.receive(&end());
    assert!(pair.client.is_complete);
}

#[test]
fn an_application_has_its_time() {
    let mut silent = asked(GET);
    silent.advance(60_000);
    assert_eq!(silent.client.failure, Some(Failure::NoReply));
    let mut stopped = asked(GET);
    stopped.receive(&output(OK));
    stopped.advance(60_000);
    assert_eq!(stopped.client.failure, Some(Failure::Silent));
}

proptest! {
    /// However the records of a reply are cut, it becomes the same.
    #[test]
    fn a_reply_is_the_same_however_it_is_cut(
        pieces in prop::collection::vec(
            (any::<bool>(), prop::collection::vec(any::<u8>(), 0..40), any::<u8>()), 0..8),
        cuts in prop::collection::vec(1_usize..60, 1..40),
    ) {
        let mut reply = output(OK);
        let mut content = Vec::new();
        for (is_output, bytes, padding) in &pieces {
            reply.extend(record(if *is_output { 6 } else { 7 }, bytes, *padding));
            if *is_output {
                content.extend_from_slice(bytes);
            }
        }
        reply.extend(end());
        let mut pair = asked(GET);
        let mut rest = reply.as_slice();
        for cut in cuts.iter().cycle() {
            let (piece, more) = rest.split_at((*cut).min(rest.len()));
            pair.receive(piece);
            rest = more;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(&pair.client.content, &content);
        prop_assert!(pair.client.is_complete && pair.over == Some(false));
    }
}
