//! Errors: which page is sent, which fields come with it, and what a HEAD request gets.

use std::sync::Arc;

use session::{Limits, Op};
use site::Site;
use site::fields::HeaderRule;
use site::host::HostSettings;

use crate::memory::{MemoryFiles, Pair};

const MISSING: &[u8] = b"GET /missing HTTP/1.1\r\nHost: h\r\n\r\n";
const LISTING: &[u8] = b"GET /list/ HTTP/1.1\r\nHost: h\r\n\r\n";

/// A pair on a host with a page for each of these statuses, whose responses all have `X-Rule`.
fn pair() -> Pair {
    let mut settings = HostSettings::new("/".into());
    settings.listing = true;
    settings.error_pages = [404, 408, 414, 503].map(|status| (status, format!("/{status}"))).into();
    settings.headers = vec![HeaderRule {
        path: "**".into(),
        name: "X-Rule".into(),
        value: "yes".into(),
        ..HeaderRule::default()
    }];
    let site = Arc::new(Site::new(vec![settings]).expect("good settings"));
    let files = [
        ("404", &b"page of 404"[..]),
        ("408", b"page of 408"),
        ("414", b"page of 414"),
        ("503", b"page of 503"),
        ("list/a", b"a"),
    ];
    Pair::on_site(site, MemoryFiles::new(&files), Limits::default())
}

/// Checks the status and the page after it, and that the head has the field of the rule and
/// `field`.
#[track_caller]
fn check(pair: &Pair, status: u16, page: &str, field: &str) {
    let text = String::from_utf8_lossy(&pair.received).into_owned();
    assert_eq!(pair.statuses(), [status], "{text}");
    let (head, body) = text.split_once("\r\n\r\n").expect("a whole head");
    assert!(head.contains("\r\nX-Rule: yes\r\n") && head.contains(field), "{head}");
    assert!(if page.is_empty() { body.is_empty() } else { body.contains(page) }, "{text}");
}

#[test]
fn a_head_that_took_too_long_gets_its_page() {
    let mut pair = pair();
    pair.send(b"GET / HTTP/1.1\r\n");
    pair.advance(60_000);
    check(&pair, 408, "page of 408", "Connection: close");
    assert!(pair.is_shut);
}

/// The driver of the connection may check its deadline again before it takes the job.
#[test]
fn the_page_of_a_head_that_took_too_long_has_time_of_its_own() {
    let mut pair = pair();
    pair.send(b"GET / HTTP/1.1\r\n");
    let due = pair.connection.deadline().expect("the time of the head");
    pair.worker.set_time(due, 1_700_000_000_000_000);
    pair.connection.expire(&mut pair.worker);
    assert!(matches!(pair.connection.next(), Op::Job));
    assert!(pair.connection.deadline() > Some(due));
    pair.drive();
    check(&pair, 408, "page of 408", "Connection: close");
}

#[test]
fn an_incomplete_head_request_gets_no_content() {
    let mut pair = pair();
    pair.send(b"HEAD / HTTP/1.1\r\nHost: h");
    pair.advance(60_000);
    check(&pair, 408, "", "Content-Length: 11");
}

#[test]
fn a_line_that_is_too_long_gets_its_page_when_its_job_has_run() {
    let mut pair = pair();
    pair.holds_jobs = true;
    pair.send(&[b"GET /", &b"a".repeat(9000)[..]].concat());
    pair.send(b"whatever follows");
    assert!(pair.received.is_empty());
    pair.finish_job();
    pair.drive();
    check(&pair, 414, "page of 414", "Connection: close");
    assert!(pair.is_shut);
}

#[test]
fn a_page_that_has_gone_is_replaced_by_ours() {
    let mut pair = pair();
    pair.files.remove("404");
    pair.send(MISSING);
    check(&pair, 404, "<h1>404 Not Found</h1>", "");
}

/// Where no page is named, the file `404.html` of the root is it. Like a page that is named, and
/// whether it is there or not, it is looked for once and then remembered.
#[test]
fn the_page_of_the_root_costs_no_job_of_its_own() {
    for (files, page) in [
        (&[("404.html", &b"page of the root"[..])][..], "page of the root"),
        (&[("other.html", b"other")], "<h1>404 Not Found</h1>"),
    ] {
        let mut pair = Pair::new(MemoryFiles::new(files), Limits::default());
        for (path, jobs) in [("/missing", 2), ("/missing", 0), ("/else", 1), ("/else", 0)] {
            let before = pair.counters.cache_misses.get();
            pair.received.clear();
            pair.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
            let text = String::from_utf8_lossy(&pair.received).into_owned();
            assert!(text.starts_with("HTTP/1.1 404 ") && text.contains(page), "{text}");
            assert_eq!(pair.counters.cache_misses.get() - before, jobs, "{path}, {page}");
        }
    }
}

#[test]
fn a_page_whose_job_fails_is_replaced_by_ours() {
    let mut pair = pair();
    pair.holds_jobs = true;
    pair.send(MISSING);
    pair.finish_job();
    pair.drive();
    pair.fail_job();
    pair.drive();
    check(&pair, 404, "<h1>404 Not Found</h1>", "");
}

#[test]
fn a_listing_too_many_gets_the_page_of_503() {
    let mut pair = pair();
    // A listing for another client is in progress, which has not taken all of it.
    pair.holds_jobs = true;
    pair.send(LISTING);
    pair.finish_job();
    pair.drive();
    let under_way = pair.held.take();
    pair.reconnect();
    pair.holds_jobs = false;
    pair.send(LISTING);
    check(&pair, 503, "page of 503", "Retry-After: 1");
    drop(under_way);
}

#[test]
fn a_job_that_fails_begins_no_other() {
    let mut pair = pair();
    pair.holds_jobs = true;
    pair.send(b"GET /list/a HTTP/1.1\r\nHost: h\r\n\r\n");
    pair.fail_job();
    pair.drive();
    check(&pair, 503, "<h1>503 Service Unavailable</h1>", "Retry-After: 1");
    pair.holds_jobs = false;
    pair.received.clear();
    pair.send(b"GET /503 HTTP/1.1\r\nHost: h\r\n\r\n");
    pair.advance(5_000);
    pair.received.clear();
    pair.holds_jobs = true;
    pair.send(b"GET /list/a HTTP/1.1\r\nHost: h\r\n\r\n");
    pair.fail_job();
    pair.drive();
    check(&pair, 503, "page of 503", "Retry-After: 1");
}

#[test]
fn a_body_that_is_broken_already_is_reported_with_the_answer() {
    let head = b"GET /404 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut pair = pair();
    pair.send(&[&head[..], b"5\nhello\r\n"].concat());
    check(&pair, 200, "page of 404", "Connection: close");
    assert!(pair.is_shut);
    // A broken part that arrives later is not waited for.
    pair.reconnect();
    pair.send(head);
    assert!(!String::from_utf8_lossy(&pair.received).contains("Connection: close"));
    pair.send(b"5\nhello\r\n");
    check(&pair, 200, "page of 404", "");
    assert!(pair.is_shut);
}
