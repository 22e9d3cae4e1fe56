//! Tests of what is read, what is refused, and that written logs are read back.

use proptest::prelude::*;

use super::split::read_with_threads;
use super::{LogError, Notes, WriteError, read, read_with_notes, write};
use crate::request_log::{RequestLog, Template};

/// The example of httperf's manual page, with one more burst in its second session.
const MANUAL: &str = "\
# Comment lines start with a # as the first
# character.  # anywhere else is not a comment.

# session 1 definition (this is a comment)
/foo.html think=2.0
  /pict1.gif
  /pict2.gif
/foo2.html method=POST contents='Post data'
 /pict3.gif
 /pict4.gif

# session 2 definition
/foo3.html method=POST contents=\"Multiline\\
data\"
/foo4.html method=HEAD
";

/// A log as text: sessions separated by ` | `, `+` joins, followed by the pause in milliseconds.
fn summary(log: &RequestLog) -> String {
    let session = |index: usize| {
        let start = log.start_us(index).map(|us| format!("@{us} ")).unwrap_or_default();
        let requests: Vec<String> = log.session(index).iter().map(|r| request(log, *r)).collect();
        start + &requests.join(" ")
    };
    (0..log.sessions()).map(session).collect::<Vec<_>>().join(" | ")
}

fn request(log: &RequestLog, request: crate::request_log::Request) -> String {
    let template = &log.templates()[request.template()];
    let joins = if request.joins() { "+" } else { "" };
    let uri = String::from_utf8_lossy(&template.uri);
    let method = if &*template.method == "GET" { "" } else { &template.method };
    let body = if template.body.is_empty() {
        String::new()
    } else {
        format!("<{}>", template.body.escape_ascii())
    };
    let firm = template.reply_bytes.map(|n| format!("={n}")).unwrap_or_default();
    let seen = template.seen_bytes.map(|n| format!("~{n}")).unwrap_or_default();
    format!("{joins}{method}{uri}{body}{firm}{seen}:{}", request.pause_us() / 1000)
}

#[test]
fn requests_are_left_out_and_sessions_cut() {
    let text = b"#@ start=1\n/a think=7\n/gone\n  /b\n/c\n\n#@ start=2\n/gone\n\n#@ start=3\n/a\n";
    let log = read(text, 0).unwrap();
    assert_eq!(summary(&log), "@0 /a:7000 /gone:0 +/b:0 /c:0 | @1000000 /gone:0 | @2000000 /a:0");
    let is_there = log.templates().iter().map(|template| &*template.uri != b"/gone");
    let is_there: Vec<bool> = is_there.collect();
    let whole = log.selected(&is_there, 9);
    assert_eq!(summary(&whole), "@0 /a:7000 /b:0 /c:0 | @2000000 /a:0");
    assert_eq!((whole.templates().len(), whole.longest_session()), (3, 3));
    let cut = log.selected(&is_there, 2);
    assert_eq!(summary(&cut), "@0 /a:7000 /b:0 | @0 /c:0 | @2000000 /a:0");
    assert_eq!(cut.longest_session(), 2);
    assert_eq!(log.selected(&[true; 4], 9), log);
    assert_eq!(log.selected(&[false; 4], 9).sessions(), 0);
}

#[test]
fn pauses_are_cut() {
    let mut log = read(b"/a think=7\n/b think=0.2\n/c\n\n/a\n/b\n  /c\n", 0).unwrap();
    assert_eq!(summary(&log), "/a:7000 /b:200 /c:0 | /a:0 /b:0 +/c:0");
    assert!(log.has_pauses());
    log.cut_pauses(1_000_000);
    assert_eq!(summary(&log), "/a:1000 /b:200 /c:0 | /a:0 /b:0 +/c:0");
    log.cut_pauses(0);
    assert_eq!(summary(&log), "/a:0 /b:0 /c:0 | /a:0 /b:0 +/c:0");
    assert!(!log.has_pauses());
    // The pause after the last request of a session does not count.
    assert!(!read(b"/a\n/b think=7\n\n/c think=7\n", 0).unwrap().has_pauses());
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let log = read(text.as_bytes(), 50_000).unwrap();
    assert_eq!(summary(&log), expected, "{text:?}");
    for count in 2..6 {
        if let Some((builder, _)) = read_with_threads(text.as_bytes(), 50_000, count) {
            assert_eq!(builder.finish().unwrap(), log, "{text:?} in {count} parts");
        }
    }
}

#[track_caller]
fn check_error(text: &str, expected: &str) {
    let error = read(text.as_bytes(), 0).unwrap_err();
    assert_eq!(error.to_string(), expected, "{text:?}");
    assert!(read_with_threads(text.as_bytes(), 0, 3).is_none(), "{text:?} in parts");
}

#[test]
fn the_manual_s_example() {
    check(
        MANUAL,
        "/foo.html:0 +/pict1.gif:0 +/pict2.gif:2000 POST/foo2.html<Post data>:0 +/pict3.gif:0 \
         +/pict4.gif:50 | POST/foo3.html<Multiline\\ndata>:50 HEAD/foo4.html:50",
    );
}

#[test]
fn lines_and_sessions() {
    check("", "");
    check("\n \n\t\n", "");
    check("# only\n#comments", "");
    check("/a", "/a:50");
    check("/a\n/b\n", "/a:50 /b:50");
    check("/a\n\n\n \n/b\n\n", "/a:50 | /b:50");
    check("\n\n/a\r\n\r\n/b\r\n", "/a:50 | /b:50");
    check("/a\n# within a session\n/b\n", "/a:50 /b:50");
    check(" /a\n /b\n\n /c\n", "/a:0 +/b:50 | /c:50");
    check("/a\n#/b\n #/c\n", "/a:0 +#/c:50");
    check("no/slash x\n".trim_end_matches(" x\n"), "no/slash:50");
    check("/\u{fc}\n", "/\u{fc}:50");
}

#[test]
fn arguments() {
    check("/a think=0.000000\n/b think=3\n/c think=1.5", "/a:0 /b:3000 /c:1500");
    check("/a  think=0.5  \n", "/a:500");
    check("/a\tthink=1e-2\n", "/a:10");
    check("/a think=1 think=2\n", "/a:2000");
    check("/a think=1\n /b\n\n/c\n", "/a:0 +/b:1000 | /c:50");
    check("/a think=1\n /b think=2\n /c\n", "/a:0 +/b:0 +/c:2000");
    check("/a method=HEAD think=0\n/a method=PATCH\n", "HEAD/a:0 PATCH/a:50");
    check("/a size=1000\n/a size=0\n/a", "/a=1000:50 /a=0:50 /a:50");
}

#[test]
fn contents() {
    check("/a contents=x\n", "/a<x>:50");
    check("/a contents='x y' think=1\n", "/a<x y>:1000");
    check("/a contents=\"it's\"\n", "/a<it\\'s>:50");
    check("/a contents='say \"x\"'\n", "/a<say \\\"x\\\">:50");
    check("/a contents=a'b c'\"d e\"f\n", "/a<ab cd ef>:50");
    check("/a contents='\\n\\r\\t\\\\\\'\\\"\\x'\n", "/a<\\n\\r\\t\\\\\\'\\\"x>:50");
    check("/a contents=a\\ b think=2\n", "/a<a b>:2000");
    check("/a contents='' think=2\n", "/a:2000");
    check("/a contents='x'\r\n/b\r\n", "/a<x>:50 /b:50");
    check("/a contents='x\\\n\\\n# y' think=1\n/b", "/a<x\\n\\n# y>:1000 /b:50");
    check("/a contents=x\\\n\n\n/b", "/a<x\\n>:50 | /b:50");
}

#[test]
fn the_additions_of_others_and_ours() {
    let text = "session port=80 ssl=0\n/a timeout=3\n\nsession\nsession think=1\n#@ what\n/b";
    check(text, "/a:50 | session:50 session:1000 /b:50");
    let notes = read_with_notes(text.as_bytes(), 0, 1).unwrap().1;
    let expected = Notes { session_lines: 1, timeouts: 1, directives: 1, uris_without_slash: 1 };
    assert_eq!(notes, expected);
    assert_eq!(notes.to_string().lines().count(), 4);
    check("#@ start=1.5\n/a\n\n#@ start=2\n/b\n", "@0 /a:50 | @500000 /b:50");
    check("#@ reply_bytes=7\n/a\n/a\n#@ reply_bytes=8\n/a think=1\n", "/a=7:50 /a:50 /a=8:1000");
    check("#@ seen_bytes=7\n/a\n/a\n#@ seen_bytes=8\n/a size=9\n", "/a~7:50 /a:50 /a=9:50");
}

#[test]
fn what_is_wrong_is_shown() {
    check_error("/a\n/b thnik=1\n", {
        "line 2, column 4: `thnik=1` is not method=, think=, contents=, size= or timeout= with a \
         value"
    });
    check_error("/a think=x\n", "line 1, column 10: `x` is no think time");
    check_error("/a think=-1\n", "line 1, column 10: `-1` is no think time");
    check_error("/a think=1s\n", "line 1, column 10: `1s` is no think time");
    check_error("/a method=get\n", "line 1, column 11: `get` is no method");
    check_error("/a method=GETS\n", "line 1, column 11: `GETS` is no method");
    check_error("/a size=-1\n", "line 1, column 9: `-1` is no size");
    check_error("/a contents='x\n", "line 1, column 13: the quote is not closed");
    check_error("/a contents=x\\", "line 1, column 13: the log ends after a backslash");
    check_error("/a contents='x\\\ny' z=1\n", {
        "line 2, column 4: `z=1` is not method=, think=, contents=, size= or timeout= with a value"
    });
    check_error("/a\n\n/\x01\n", "line 3, column 2: a control character, 0x01");
    check_error("/a\n#@ start=1\n", {
        "line 2, column 1: start= stands within a session, not before it"
    });
    check_error("#@ start=1\n\n/a\n", "line 1, column 1: no session follows this directive");
    check_error("#@ start=x\n/a\n", "line 1, column 1: `x` is no start time");
    check_error("/a\n#@ reply_bytes=1\n", {
        "line 2, column 1: no request follows this directive"
    });
    check_error("#@ seen_bytes=x\n/a\n", "line 1, column 1: `x` is no number of bytes");
    check_error("#@ start=2\n/a\n\n#@ start=1\n/b\n\n", {
        "line 6, column 1: session 2 starts before the one that precedes it"
    });
    check_error("/a\n/b think=99999\n", {
        "line 2, column 1: a pause of 99999 s; the longest is 34359 s"
    });
}

#[test]
fn what_is_written_is_what_httperf_wants() {
    let log = read(MANUAL.as_bytes(), 50_000).unwrap();
    let mut out = Vec::new();
    write(&log, &mut out, "made by hand\nin two lines").unwrap();
    let expected = "# made by hand\n# in two lines\n/foo.html\n\t/pict1.gif\n\t/pict2.gif think=2\n\
        /foo2.html method=POST contents=\"Post data\"\n\t/pict3.gif\n\t/pict4.gif think=0.05\n\n\
        /foo3.html method=POST contents=\"Multiline\\ndata\" think=0.05\n\
        /foo4.html method=HEAD think=0.05\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[track_caller]
fn check_refused(template: Template, reason: &str) {
    let mut builder = RequestLog::builder();
    builder.push(Template::get(b"/"), false, 0);
    builder.end_session();
    builder.push(Template::get(b"/"), false, 0);
    builder.push(template, false, 0);
    let log = builder.finish().unwrap();
    let error = write(&log, &mut Vec::new(), "").unwrap_err();
    assert!(matches!(error, WriteError::Inexpressible { session: 1, request: 1, .. }));
    let expected = "request 2 of session 2 cannot be written in httperf's format: ";
    assert_eq!(error.to_string(), format!("{expected}{reason}"));
}

#[test]
fn what_the_format_cannot_express_is_refused() {
    check_refused(Template::get(b""), "the URI is empty");
    check_refused(Template::get(b"/a b"), "the URI `/a b` holds white space");
    check_refused(Template::get(b"/a\nb"), "the URI `/a\\nb` holds white space");
    check_refused(Template::get(b"/\x7f"), "the URI `/\\x7f` holds a control character");
    check_refused(Template::get(b"#a"), "the URI `#a` begins with #, as comments do");
    let method = |name: &str| Template { method: name.into(), ..Template::get(b"/") };
    check_refused(method("get"), "the method `get` is no known one");
    check_refused(method("GETS"), "the method `GETS` is no known one");
    check_refused(method(""), "the method `` is no known one");
    let body = Template { body: b"a\0"[..].into(), ..Template::get(b"/") };
    check_refused(body, "the body of the URI `/` holds a NUL");
}

fn template() -> impl Strategy<Value = Template> {
    let plain = "[!-\"$-~\u{80}-\u{ff}][!-~\u{80}-\u{ff}]{0,12}";
    let uri = prop_oneof!["/[a-c]", plain, Just("session".to_owned())];
    let method = prop::sample::select(vec!["GET", "GET", "GET", "POST", "HEAD", "PATCH"]);
    let body = prop_oneof![Just(Vec::new()), prop::collection::vec(1..=255_u8, 0..20)];
    let length = prop::option::of((any::<bool>(), 0..9_u64));
    (uri, method, body, length).prop_map(|(uri, method, body, length)| Template {
        method: method.into(),
        uri: uri.into_bytes().into(),
        body: body.into(),
        reply_bytes: length.filter(|of| of.0).map(|of| of.1),
        seen_bytes: length.filter(|of| !of.0).map(|of| of.1),
    })
}

/// Any log that can be built by pushing.
fn log() -> impl Strategy<Value = RequestLog> {
    let pause =
        prop_oneof![Just(0), 0..3_000_000_u64, 0..=crate::request_log::Request::PAUSE_US_MAX];
    let request = (template(), any::<bool>(), pause);
    let session = (prop::collection::vec(request, 1..6), 0..2_000_000_u64);
    (prop::collection::vec(session, 0..8), any::<bool>()).prop_map(|(sessions, timed)| {
        let mut builder = RequestLog::builder();
        let mut now_us = 0;
        for (requests, gap_us) in sessions {
            now_us += gap_us;
            if timed {
                builder.start_us(now_us);
            }
            for (template, joins, pause_us) in requests {
                builder.push(template, joins, pause_us);
            }
            builder.end_session();
        }
        builder.finish().unwrap()
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(log in log(), parts in 1..5_usize, think in 0..9_u64) {
        let mut text = Vec::new();
        write(&log, &mut text, "a header").unwrap();
        let again = read(&text, think).unwrap();
        prop_assert_eq!(&again, &log, "{}", text.escape_ascii());
        if let Some((builder, _)) = read_with_threads(&text, think, parts) {
            prop_assert_eq!(builder.finish().unwrap(), log);
        }
    }

    #[test]
    fn parts_or_whole_is_the_same(
        text in "([/#a\\\\'\" \n]|\n\n|\\\\\n|#@ start=1\n| contents=){0,60}",
    ) {
        let whole: Result<RequestLog, LogError> = read(text.as_bytes(), 0);
        for count in 2..5 {
            let parts = read_with_threads(text.as_bytes(), 0, count);
            prop_assert_eq!(parts.is_some(), whole.is_ok());
            if let Some((builder, _)) = parts {
                prop_assert_eq!(&builder.finish().unwrap(), whole.as_ref().unwrap());
            }
        }
    }
}
