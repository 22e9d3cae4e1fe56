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
    let printed = with_whole_calls(&follow_beside("examples", page, Path::new(ROPEWALK)));
    assert_eq!(unlike(page, &printed, &["ropewalk: serving "]), [""; 0], "{printed}");
    assert_eq!(printed.matches("\"GET /index.html ").count(), 2, "{printed}");
}

/// Joins each call that strace shows in two lines, because another was made meanwhile (strace(1)).
fn with_whole_calls(printed: &str) -> String {
    const UNFINISHED: &str = " <unfinished ...>";
    let mut lines: Vec<String> = Vec::new();
    for line in printed.lines() {
        let parts = line.split_once("<... ");
        let resumed = parts.and_then(|(who, rest)| Some((who, rest.split_once(" resumed>")?.1)));
        let is_its =
            |begun: &&mut String, who| begun.starts_with(who) && begun.ends_with(UNFINISHED);
        match resumed.and_then(|(who, rest)| {
            Some((lines.iter_mut().rev().find(|begun| is_its(begun, who))?, rest))
        }) {
            Some((begun, rest)) => begun.replace_range(begun.len() - UNFINISHED.len().., rest),
            None => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

#[test]
fn calls_that_others_interrupt_are_joined() {
    let shown = "7 openat2(9, \"a\" <unfinished ...>\n8 wait(1) = 0\n7 <... openat2 resumed>) = 17";
    assert_eq!(with_whole_calls(shown), "7 openat2(9, \"a\") = 17\n8 wait(1) = 0");
}
