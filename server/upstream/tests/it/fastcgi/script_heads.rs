//! What the head of a script becomes, and what it writes to standard error.

use std::sync::{Arc, Mutex};

use upstream::{Facilities, Failure, Length, ReportDiagnostic};

use super::{
    GET, OK, asked, asked_of, check_failure, check_reply, end, ended, error, output, script, server,
};

/// Standard error goes to operators line by line, with the target of the request, and never
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
    server.set_facilities(Facilities { report: Some(report), ..Facilities::default() });
    let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut pair = asked_of(&server, &head, &script());
    records.iter().for_each(|record| pair.receive(record));
    pair.receive(&[output(OK), output("content"), end()].concat());
    assert_eq!(pair.client.content, b"content");
    let lines = lines.lock().unwrap();
    lines.clone()
}

/// What is reported of a request is bounded; the rest is read all the same.
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

/// A status beside 0 is only reported.
#[test]
fn the_status_of_an_application_is_only_reported() {
    let server = server(0);
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let report: ReportDiagnostic = Arc::new(move |it| sink.lock().unwrap().push(it.to_string()));
    server.set_facilities(Facilities { report: Some(report), ..Facilities::default() });
    let mut pair = asked_of(&server, GET, &script());
    pair.receive(&[output(OK), ended(3, 0)].concat());
    assert!(pair.client.is_complete && pair.client.failure.is_none());
    assert_eq!(*lines.lock().unwrap(), ["fastcgi://app.test:3000: /a.php: it ended with status 3"]);
}

/// The heads of scripts. Local redirects that have other fields are the client's, as others are.
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
    check("Location: /a\r\nX: y\r\n\r\n", 302, unknown, "Location: /a\nX: y");
    check("Location: //b.test/\r\n\r\n", 302, unknown, "Location: //b.test/");
    check("Location: /a#b\r\n\r\n", 302, unknown, "Location: /a#b");
    check("HTTP/1.1 302 Found\r\nLocation: /a\r\n\r\n", 302, unknown, "Location: /a");
    check("Status: 303\r\nLocation: /x\r\n\r\n", 303, unknown, "Location: /x");
    check("HTTP/1.1 418 Teapot\r\nX: y\r\n\r\n", 418, unknown, "X: y");
    check("Content-Length: 5\r\nStatus: 200\r\n\r\n", 200, Length::Known(5), "");
    let hops = "Content-Type: a/b\r\nConnection: close, X\r\nKeep-Alive: 1\r\nX: y\r\n\
                Upgrade: h2c\r\nTransfer-Encoding: chunked\r\nZ: 1\r\n\r\n";
    check(hops, 200, unknown, "Content-Type: a/b\nZ: 1");
}

/// RFC 3875 §6.2.2.
#[test]
fn a_location_alone_is_a_local_redirect() {
    let reply = [output("LOCATION: /a/b?c\n\ndropped"), end()].concat();
    for size in 1..=reply.len() {
        let mut pair = asked(GET);
        reply.chunks(size).for_each(|piece| pair.receive(piece));
        assert_eq!(pair.client.redirect.as_deref(), Some("/a/b?c"));
        assert!(pair.client.heads.is_empty() && pair.client.is_complete);
    }
}

/// An interim response, of which others than 103 are dropped.
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

/// Neither a type, nor a status, nor a location; what is no head at all; what is too large.
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

/// Content beyond its length is cut, and the connection closed.
#[test]
fn content_beyond_its_length_is_cut() {
    let reply = [output("Content-Length: 2\r\nStatus: 200\r\n\r\nok!"), output("more"), end()];
    let mut pair = asked_of(&server(4), GET, &script());
    pair.receive(&reply.concat());
    assert_eq!((pair.client.content.as_slice(), pair.over), (&b"ok"[..], Some(false)));
}

/// Some replies have no content, whatever is sent; the application is heard to its end.
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
