//! The tutorials of the documentation, command by command.

use testkit::tools::{CURL, NGINX, has};
use testkit::tutorial::{follow, follow_beside, unlike};

use crate::server_process::ropewalk_server;

#[test]
fn a_server_is_loaded_as_the_tutorial_says() {
    let expected = ["Requests", "corrected", "hello", "every byte verified", "start_s,"];
    // Under other work a search may end at the generator's own limit.
    let of_the_machine =
        ["* Mostly the generator's own lag", "holds", "broke", "The server sustains "];
    check("docs/load/README.md", &expected, &of_the_machine);
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

/// The measurement itself takes five minutes.
#[test]
fn a_study_is_estimated_as_the_page_of_studies_says() {
    let page = "docs/studies/README.md";
    let printed = follow_beside("experiments", page, &ropewalk_server());
    assert_eq!(unlike(page, &printed, &[]), [""; 0], "{printed}");
    assert!(printed.contains("3 servers, 1 workload, "), "{printed}");
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
