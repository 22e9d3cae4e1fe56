//! The tutorials of the documentation, command by command.

use testkit::tools::{CURL, NGINX, has};
use testkit::tutorial::{follow, unlike};

use crate::server_process::ropewalk_server;

#[test]
fn a_server_is_loaded_as_the_tutorial_says() {
    let expected = ["Requests", "corrected", "every byte verified", "start_s,"];
    check("docs/load/README.md", &expected, &["* Mostly the generator's own lag"]);
}

#[test]
fn servers_are_measured_as_the_tutorial_says() {
    if !has(&NGINX) {
        return;
    }
    let expected =
        ["nginx", "A / B [95 %]", "Verdict: ", "A loop and threads", "first/report.html"];
    let of_the_machine =
        ["apache-event", "processes with a pool", "Mind: ", "Verdict: ", "| CPU per request"];
    check("docs/lab/README.md", &expected, &of_the_machine);
}

/// `varying`: what the page shows and not every machine prints.
fn check(page: &str, expected: &[&str], varying: &[&str]) {
    if !has(&CURL) {
        return;
    }
    let printed = follow(page, &ropewalk_server());
    for text in expected {
        assert!(printed.contains(text), "{text:?} is not in:\n{printed}");
    }
    assert_eq!(unlike(page, &printed, varying), [""; 0], "{printed}");
}
