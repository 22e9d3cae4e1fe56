//! The tutorial of the documentation, command by command.

use testkit::built;
use testkit::tools::{VALGRIND, has};
use testkit::tutorial::{follow, unlike};

#[test]
fn a_server_is_recorded_and_simulated_as_the_tutorial_says() {
    if !has(&VALGRIND) {
        return;
    }
    built("ropewalk-lab"); // is beside it, and loads what is recorded
    let page = "docs/simulator/README.md";
    let printed = follow(page, &built("ropewalk"));
    // Of a shorter trace all machines may simulate the same part.
    let parts = "the machines simulated different parts of the trace";
    assert_eq!(unlike(page, &printed, &[parts]), [""; 0], "{printed}");
    for text in ["1 processes, ", "System calls", "GSP"] {
        assert!(printed.contains(text), "{text:?} is not in:\n{printed}");
    }
}
