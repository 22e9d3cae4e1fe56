//! The tutorial of the documentation, command by command.

use testkit::built;
use testkit::tools::{VALGRIND, has};
use testkit::tutorial::follow;

#[test]
fn a_server_is_recorded_and_simulated_as_the_tutorial_says() {
    if !has(&VALGRIND) {
        return;
    }
    built("ropewalk-lab"); // is beside it, and loads what is recorded
    let printed = follow("docs/simulator/README.md", &built("ropewalk"));
    for text in ["1 processes, ", "System calls", "GSP"] {
        assert!(printed.contains(text), "{text:?} is not in:\n{printed}");
    }
}
