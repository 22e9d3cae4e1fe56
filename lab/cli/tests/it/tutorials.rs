//! The tutorials of the documentation, command by command.

use testkit::tools::{CURL, has};
use testkit::tutorial::follow;

use crate::server_process::ropewalk_server;

#[test]
fn a_server_is_loaded_as_the_tutorial_says() {
    check("docs/load/README.md", &["Requests", "corrected", "every byte verified", "start_s,"]);
}

#[test]
fn servers_are_measured_as_the_tutorial_says() {
    check("docs/lab/README.md", &["nginx", "A loop and threads", "first/report.html"]);
}

fn check(page: &str, expected: &[&str]) {
    if !has(&CURL) {
        return;
    }
    let printed = follow(page, &ropewalk_server());
    for text in expected {
        assert!(printed.contains(text), "{text:?} is not in:\n{printed}");
    }
}
