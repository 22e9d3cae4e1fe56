//! What a script is told of its request.

use upstream::ScriptRequest;

use super::{GET, asked, asked_of, records, script, server, variable, variables};
use crate::memory::PEER;

#[track_caller]
fn check_variables(head: &str, script: &ScriptRequest<'_>, expected: &[(&str, Option<&str>)]) {
    let pair = asked_of(&server(0), head, script);
    for (name, value) in expected {
        assert_eq!(variable(&pair, name).as_deref(), *value, "{name}");
    }
}

/// Variables that do not fit into a record, names and values of all lengths.
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

/// A body has a length, also one that came in chunks.
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

/// Which script, and the rest of the path, which has nothing to do with the file (caddy
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

/// What else a script is told.
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

/// Names of fields that would become others', `Proxy` (httpoxy, CVE-2016-5385), hops, and
/// what a client says of itself.
#[test]
fn fields_that_could_mislead_a_script_are_dropped() {
    let head = "GET /a.php HTTP/1.1\r\nHost: a\r\nProxy: http://evil.test\r\nX_Forwarded_For: 1\r\n\
                X-Forwarded-For: 10.0.0.1\r\nForwarded: for=10.0.0.1\r\nX!Y: 1\r\nX.Y: 1\r\n\
                Connection: close, X-Hop\r\nX-Hop: 1\r\nUpgrade: h2c\r\n\
                X-Forwarded-Proto: https\r\n\
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

/// Only a trusted proxy is believed.
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
