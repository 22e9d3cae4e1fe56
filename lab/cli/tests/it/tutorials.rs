//! The tutorials of the documentation, command by command.

use testkit::tools::{CURL, NGINX, has};
use testkit::tutorial::follow;

use crate::server_process::ropewalk_server;

#[test]
fn a_server_is_loaded_as_the_tutorial_says() {
    check("docs/load/README.md", &["Requests", "corrected", "every byte verified", "start_s,"]);
}

#[test]
fn servers_are_measured_as_the_tutorial_says() {
    if !has(&NGINX) {
        return;
    }
    let expected =
        ["nginx", "A / B [95 %]", "Verdict: ", "A loop and threads", "first/report.html"];
    check("docs/lab/README.md", &expected);
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
