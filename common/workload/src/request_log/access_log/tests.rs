//! Tests of the formats that are read, and of the sessions that they become.

use super::*;

/// A log as text: sessions separated by ` | `, each with its start in seconds; `+` joins; pauses in
/// seconds; `=` before a length, `~` before one that was seen once.
fn summary(log: &RequestLog) -> String {
    let seconds = |us: u64| us as f64 / 1e6;
    let session = |index: usize| {
        let requests = log.session(index).iter().map(|request| {
            let template = &log.templates()[request.template()];
            let joins = if request.joins() { "+" } else { "" };
            let method = template.method.strip_prefix("GET").unwrap_or(&template.method);
            let uri = String::from_utf8_lossy(&template.uri);
            let firm = template.reply_bytes.map(|n| format!("={n}")).unwrap_or_default();
            let seen = template.seen_bytes.map(|n| format!("~{n}")).unwrap_or_default();
            format!(" {joins}{method}{uri}{firm}{seen}:{}", seconds(request.pause_us()))
        });
        format!("@{}{}", seconds(log.start_us(index).unwrap()), requests.collect::<String>())
    };
    (0..log.sessions()).map(session).collect::<Vec<_>>().join(" | ")
}

#[track_caller]
fn check_with(options: &ImportOptions, text: &str, expected: &str) -> ImportReport {
    let (log, report) = import(text.as_bytes(), options).unwrap();
    assert_eq!(summary(&log), expected);
    assert_eq!(log.requests() as u64, report.requests);
    report
}

#[track_caller]
fn check(text: &str, expected: &str) -> ImportReport {
    check_with(&ImportOptions::default(), text, expected)
}

/// A line of the combined format.
fn line(client: &str, time: &str, request: &str, status: u16, bytes: u64, agent: &str) -> String {
    format!(
        "{client} - - [10/Oct/2000:{time}] \"{request} HTTP/1.1\" {status} {bytes} \"-\" \
         \"{agent}\"\n"
    )
}

fn get(client: &str, time: &str, path: &str) -> String {
    line(client, &format!("{time} +0000"), &format!("GET {path}"), 200, 7, "x")
}

#[test]
fn the_common_format() {
    let report = check(
        "127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] \"GET /apache_pb.gif HTTP/1.0\" 200 2326\n",
        "@0 /apache_pb.gif~2326:0",
    );
    assert_eq!(report.format, Some(Format::Common));
    assert_eq!(report.span_unix_us, Some((971_211_336_000_000, 971_211_336_000_000)));
    assert_eq!(report.status, [0, 0, 1, 0, 0, 0]);
    assert!(report.whole_seconds);
}

#[test]
fn the_combined_format_and_ours() {
    let report = check(
        "::1 - - [10/Oct/2000:13:55:36 +0000] \"GET /a?b=\\x22c\\\"\\xC3 HTTP/1.1\" 304 - \
         \"http://x/\" \"Mo \\\"z\\\"\" 1234\n",
        "@0 /a?b=\"c\"\u{fffd}:0",
    );
    assert_eq!(report.format, Some(Format::Combined));
}

/// A line as Ropewalk's server writes it.
fn ours(time: &str, peer: &str, method: &str, target: &str, bytes: u64, agent: &str) -> String {
    format!(
        "{{\"time\":\"2026-01-02T03:04:{time}Z\",\"peer\":\"{peer}\",\"method\":\"{method}\",\
         \"target\":\"{target}\",\"version\":\"HTTP/1.1\",\"host\":\"x\",\"status\":200,\
         \"bytes\":{bytes},\"referer\":null,\"user_agent\":{agent},\"duration_us\":12}}\n"
    )
}

#[test]
fn our_json() {
    let text = [
        ours("05.250000", "127.0.0.1:40000", "GET", "/a", 5, "\"u\""),
        ours("06.000000", "127.0.0.1:40001", "HEAD", "/b", 0, "\"u\""),
        ours("06.000000", "[::1]:40001", "GET", "/a", 5, "null"),
    ];
    let report = check(&text.concat(), "@0 /a=5:0.75 HEAD/b:0 | @0.75 /a=5:0");
    assert_eq!((report.format, report.lines, report.clients), (Some(Format::Json), 3, 2));
    assert!(!report.whole_seconds);
}

#[test]
fn the_json_of_others() {
    let caddy = concat!(
        r#"{"level":"info","ts":1646861401.5241024,"logger":"http.log.access","#,
        r#""msg":"handled request","request":{"remote_ip":"127.0.0.1","remote_port":"41342","#,
        r#""client_ip":"127.0.0.1","proto":"HTTP/2.0","method":"GET","host":"localhost","#,
        r#""uri":"/c","headers":{"User-Agent":["curl/7.82.0"]}},"bytes_read":0,"#,
        r#""user_id":"","duration":0.000929675,"size":10900,"status":200}"#,
    );
    check(caddy, "@0 /c~10900:0");
    let nginx = concat!(
        r#"{"time_local":"10/Oct/2000:13:55:36 -0700","remote_addr":"::1","#,
        r#""request":"GET /n HTTP/1.1","status":"200","body_bytes_sent":"12","#,
        r#""http_user_agent":"x"}"#,
    );
    check(nginx, "@0 /n~12:0");
    let nginx = concat!(
        r#"{"msec":"971211336.123","remote_addr":"::1","request_method":"GET","#,
        r#""request_uri":"/n","status":404,"bytes_sent":99}"#,
    );
    check(nginx, "@0 /n:0");
}

#[test]
fn the_target_is_what_was_asked_for() {
    let check_target = |fields: &str, expected: &str| {
        let line = format!("{{\"msec\":1,\"remote_addr\":\"::1\",\"status\":404,{fields}}}");
        check(&line, &format!("@0 {expected}:0"));
    };
    // nginx's $uri has been rewritten.
    let rewritten = r#""request_method":"GET","uri":"/index.php""#;
    check_target(&format!(r#"{rewritten},"request":"GET /a%20b?c HTTP/1.1""#), "/a%20b?c");
    check_target(&format!(r#"{rewritten},"request_uri":"/a%20b?c""#), "/a%20b?c");
    check_target(rewritten, "/index.php");
    check_target(&format!(r#"{rewritten},"request":"handled it""#), "/index.php");
    check_target(r#""request":"HEAD /old""#, "HEAD/old");
}

#[test]
fn the_client_stands_behind_the_virtual_host() {
    let requests =
        [get("site:80 10.0.0.1", "10:00:00", "/1"), get("site:80 ::2", "10:00:01", "/2")];
    check(&requests.concat(), "@0 /1~7:0 | @1 /2~7:0");
    // Addresses, and names of users, that look like the combined format's parts.
    let requests = [
        get("::80", "10:00:00", "/1"),
        get("2001:db8::80", "10:00:01", "/2"),
        get("::80", "10:00:02", "/3"),
        get("a:b", "10:00:03", "/4"),
    ];
    check(&requests.concat(), "@0 /1~7:2 /3~7:0 | @1 /2~7:0 | @3 /4~7:0");
}

#[test]
fn lines_without_a_client_are_counted() {
    let line = |client: &str, uri: &str| {
        format!("{{\"ts\":1,{client}\"method\":\"GET\",\"uri\":\"{uri}\",\"status\":404}}\n")
    };
    let known = line("\"client_ip\":\"::1\",", "/c");
    let report = check(&[line("", "/a"), line("", "/b"), known].concat(), "@0 /a:0 /b:0 | @0 /c:0");
    assert_eq!(report.without_client, 2);
    assert!(report.to_string().contains("\n2 lines without a client address"), "{report}");
}

#[test]
fn sessions_are_told_by_address_agent_and_silence() {
    let text = [
        get("a", "10:00:00", "/1"),
        get("b", "10:00:01", "/2"),
        line("a", "10:00:02 +0000", "GET /3", 200, 7, "another"),
        get("a", "10:00:05", "/4"),
        get("a", "10:30:05", "/5"),
        get("a", "11:00:06", "/6"),
    ];
    let report =
        check(&text.concat(), "@0 /1~7:5 /4~7:1800 /5~7:0 | @1 /2~7:0 | @2 /3~7:0 | @3606 /6~7:0");
    assert_eq!((report.clients, report.pauses_shortened), (3, 0));
    let short = ImportOptions { think_us_max: 3_000_000, ..ImportOptions::default() };
    let report = check_with(
        &short,
        &text.concat(),
        "@0 /1~7:3 /4~7:3 /5~7:0 | @1 /2~7:0 | @2 /3~7:0 | @3606 /6~7:0",
    );
    assert_eq!(report.pauses_shortened, 2);
}

#[test]
fn lines_out_of_order_and_time_zones() {
    let text = [
        line("a", "12:00:09 +0200", "GET /late", 200, 7, "x"),
        line("a", "10:00:03 +0000", "GET /middle", 200, 7, "x"),
        line("a", "04:30:01 -0530", "GET /early", 200, 7, "x"),
        line("a", "10:00:03 +0000", "GET /after", 200, 7, "x"),
    ];
    let report = check(&text.concat(), "@0 /early~7:2 /middle~7:0 /after~7:6 /late~7:0");
    assert_eq!(report.out_of_order, 3);
}

#[test]
fn bursts_if_asked() {
    let text = [
        get("a", "10:00:00", "/page"),
        get("a", "10:00:00", "/a.css?v=1"),
        get("a", "10:00:01", "/b.PNG"),
        get("a", "10:00:01", "/data"),
        get("a", "10:00:01", "/c.js"),
        get("a", "10:00:05", "/d.js"),
    ]
    .concat();
    check(&text, "@0 /page~7:0 /a.css?v=1~7:1 /b.PNG~7:0 /data~7:0 /c.js~7:4 /d.js~7:0");
    let bursts = ImportOptions { bursts: true, ..ImportOptions::default() };
    let expected = "@0 /page~7:0 +/a.css?v=1~7:0 +/b.PNG~7:0 /data~7:0 +/c.js~7:4 /d.js~7:0";
    check_with(&bursts, &text, expected);
}

#[test]
fn lengths_are_relied_on_if_seen_twice_and_always_equal() {
    let ask = |status, bytes| line("a", "10:00:00 +0000", "GET /a", status, bytes, "x");
    check(&[ask(200, 7), ask(200, 8), ask(200, 8)].concat(), "@0 /a:0 /a:0 /a:0");
    check(&[ask(304, 0), ask(200, 8), ask(206, 3)].concat(), "@0 /a~8:0 /a~8:0 /a~8:0");
    check(&[ask(200, 7), ask(200, 7), ask(200, 8)].concat(), "@0 /a:0 /a:0 /a:0");
}

#[test]
fn what_is_left_out_is_counted() {
    let at = "10:00:00 +0000";
    let text = [
        "nonsense\n".to_owned(),
        line("a", at, "GET /a", 200, 7, "x"),
        line("a", at, "POST /a", 200, 7, "x"),
        line("a", at, "PUT /a", 200, 7, "x"),
        line("a", at, "PUT /a", 200, 7, "x"),
        line("a", at, "GET http://x/b", 404, 7, "x"),
        "\n".to_owned(),
        line("a", at, "GET b", 404, 7, "x"),
        line("a", at, "GET /a\\x0ab", 404, 7, "x"),
        line("a", at, "-", 408, 0, "x").replace("- HTTP/1.1", "-"),
        line("a", at, "\\x16\\x03\\x01 x", 400, 0, "x"),
        line("a", "10:61:00 +0000", "GET /a", 200, 7, "x"),
        line("a", at, "GET /a", 200, 7, "x").replace("\" 200", "\" 2x0"),
        "a - - [10/Oct/2000:10:00:00 +0000] \"GET /a\n".to_owned(),
        "{\"time\":1}\n".to_owned(),
        "more nonsense".to_owned(),
    ];
    let report = check(&text.concat(), "@0 /a~7:0 /b:0");
    assert_eq!(report.other_methods, [("PUT".to_owned(), 2), ("POST".to_owned(), 1)]);
    let expected = [
        ("not a line of an access log", 2, 1),
        ("the URI has no path", 1, 8),
        ("the URI holds white space or control characters", 1, 9),
        ("no request: the connection was opened and closed, or was no HTTP", 2, 10),
        ("the time cannot be read", 1, 12),
        ("the status is no number", 1, 13),
        ("the request is not in quotes", 1, 14),
        ("another format than the lines before", 1, 15),
    ];
    let malformed: Vec<_> =
        report.malformed.iter().map(|m| (m.reason.to_string(), m.lines, m.first_line)).collect();
    assert_eq!(malformed, expected.map(|(reason, lines, first)| (reason.to_owned(), lines, first)));
    assert!(report.to_string().contains("2 PUT left out"));
    let good = ImportOptions { good_only: true, ..ImportOptions::default() };
    let report = check_with(&good, &text.concat(), "@0 /a~7:0");
    assert_eq!((report.redirected, report.failed), (0, 1));
    let moved = line("a", at, "GET /b", 301, 0, "x") + &line("a", at, "GET /c", 304, 0, "x");
    let report = check_with(&good, &moved, "@0 /c:0");
    assert_eq!((report.redirected, report.failed), (1, 0));
}

#[test]
fn json_that_lacks_something() {
    let check_reason = |text: &str, reason: &str| {
        let report = check(text, "");
        assert_eq!(report.malformed[0].reason.to_string(), reason, "{text}");
        assert_eq!(report.to_string(), "no line of 1 is one of an access log\n");
    };
    check_reason("{", "not JSON");
    check_reason("{}", "no time");
    check_reason(r#"{"time":1}"#, "no request");
    check_reason(r#"{"time":1,"method":"GET","uri":"/"}"#, "the status is no number");
    check_reason(
        r#"{"time":"x","method":"GET","uri":"/","status":200}"#,
        "the time cannot be read",
    );
    check_reason(r#"{"time":1e300,"method":"GET","uri":"/","status":200}"#, {
        "the time cannot be read"
    });
}

#[test]
fn what_is_imported_can_be_written_and_read() {
    let text = [get("a", "10:00:00", "/1"), get("b", "10:00:01", "/2?x=#\u{e4}")].concat();
    let (log, _) = import(text.as_bytes(), &ImportOptions::default()).unwrap();
    let mut out = Vec::new();
    crate::request_log::wsesslog::write(&log, &mut out, "").unwrap();
    assert_eq!(crate::request_log::wsesslog::read(&out, 0).unwrap(), log);
}
