//! The tutorials of the documentation, command by command.

use std::path::Path;

use testkit::tools::{CURL, STRACE, has};
use testkit::tutorial::{follow, follow_beside, unlike};

use crate::server_process::ROPEWALK;

#[test]
fn a_site_is_served_as_the_tutorial_says() {
    if !has(&CURL) {
        return;
    }
    let page = "docs/serve/README.md";
    let printed = follow(page, Path::new(ROPEWALK));
    assert_eq!(unlike(page, &printed, &["ropewalk: serving "]), [""; 0], "{printed}");
    let printed = printed.to_lowercase();
    let expected = [
        "<h1>hello</h1>",
        "cache-control: no-cache",
        "cache-control: public, max-age=31536000, immutable",
        "http/1.1 404 not found",
        "<h1>not here</h1>",
        "<h1>hello again</h1>",
        "content-encoding: gzip",
        "\"href\":\"./one.txt\"",
        "http/1.1 301 moved permanently",
        "\"target\":\"/old\"",
    ];
    for text in expected {
        assert!(printed.contains(text), "{text:?} is not in:\n{printed}");
    }
}

#[test]
fn a_request_is_seen_at_work_as_the_page_of_internals_says() {
    if !has(&CURL) || !has(&STRACE) {
        return;
    }
    let page = "docs/internals/README.md";
    let printed = follow_beside("examples", page, Path::new(ROPEWALK));
    assert_eq!(unlike(page, &printed, &["ropewalk: serving "]), [""; 0], "{printed}");
    assert_eq!(printed.matches("\"GET /index.html ").count(), 2, "{printed}");
}
