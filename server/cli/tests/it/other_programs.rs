//! Commands of other programs: `ropewalk` passes them on.

use std::fs;
use std::process::Command;

use testkit::{Temporary, built, finished};

use crate::ropewalk;
use crate::server_process::ROPEWALK;

/// With the arguments, the exit status and standard output of the other program.
#[test]
fn commands_of_the_simulator_are_passed_on() {
    let simulator = built("ropewalk-sim");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    for arguments in
        [&["help", "trace"][..], &["simulate", "--help"], &["trace", "info", "no such"]]
    {
        let direct = finished(Command::new(&simulator).args(arguments).current_dir(root));
        assert_eq!(finished(&mut ropewalk(arguments)), direct, "{arguments:?}");
    }
    let (status, _, error) = finished(&mut ropewalk(&["trace", "info", "no such"]));
    assert!(status == 1 && error.starts_with("ropewalk: no such: "), "{status} {error}");
    let (status, help, _) = finished(&mut ropewalk(&["--help"]));
    assert!(status == 0 && help.contains("\nCommands of ropewalk-sim:\n  simulate  "), "{help}");
}

#[test]
fn without_the_other_program_a_line_says_what_to_install() {
    let alone = Temporary::new();
    let copy = alone.path().join("ropewalk");
    fs::copy(ROPEWALK, &copy).unwrap();
    for command in ["simulate", "trace"] {
        let (status, out, error) = finished(Command::new(&copy).arg(command).env("PATH", ""));
        let expected =
            "ropewalk: ropewalk-sim is neither beside this program nor in PATH: install it";
        assert!(error.starts_with(expected) && error.lines().count() == 1, "{error}");
        assert_eq!((status, out.as_str()), (1, ""));
    }
}
