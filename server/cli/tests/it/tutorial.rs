//! The tutorial of the documentation, command by command.

use std::path::Path;

use testkit::tools::{CURL, has};
use testkit::tutorial::{follow, unlike};

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
