//! Commands of other programs: `ropewalk` passes them on.

use std::fs;
use std::process::{Command, Stdio};

use testkit::{Temporary, built, comes_true, finished, install};

use crate::server_process::ROPEWALK;
use crate::{REPOSITORY, ropewalk};

/// With the arguments, the exit status and both outputs of the other program.
#[test]
fn commands_of_other_programs_are_passed_on() {
    let check = |program: &str, commands: &[&[&str]]| {
        let program = built(program);
        for arguments in commands {
            let direct = finished(Command::new(&program).args(*arguments).current_dir(REPOSITORY));
            assert_eq!(finished(&mut ropewalk(arguments)), direct, "{arguments:?}");
        }
    };
    check("ropewalk-sim", &[&["help", "trace"], &["simulate", "--help"], &["trace", "info", "no"]]);
    check("ropewalk-lab", &[&["help", "load"], &["membench", "--area=1"], &["report", "no such"]]);
    let (status, _, error) = finished(&mut ropewalk(&["trace", "info", "no such"]));
    assert!(status == 2 && error.starts_with("ropewalk: no such: "), "{status} {error}");
    let (status, help, _) = finished(&mut ropewalk(&["--help"]));
    for program in ["ropewalk-lab:\n  load  ", "ropewalk-sim:\n  simulate  "] {
        assert!(status == 0 && help.contains(&format!("\nCommands of {program}")), "{help}");
    }
}

#[test]
fn a_mistake_names_the_command_as_it_was_typed() {
    let check = |program: &str, arguments: &[&str], command: &str| {
        let program = built(program);
        let hint = |of: &mut Command| {
            let (status, _, error) = finished(of);
            let (_, hint) = error.rsplit_once(": see ").unwrap_or_else(|| panic!("{error}"));
            (status, hint.to_owned())
        };
        let expected = |name: &str| (2, format!("`{name} {command} --help`\n"));
        let name = program.file_name().unwrap().to_str().unwrap();
        assert_eq!(hint(Command::new(&program).args(arguments)), expected(name));
        assert_eq!(hint(&mut ropewalk(arguments)), expected("ropewalk"));
    };
    check("ropewalk-lab", &["servers", "--jsn"], "servers");
    check("ropewalk-sim", &["trace", "inof"], "trace");
}

/// The process becomes the other program, so that a signal reaches that.
#[test]
fn the_process_becomes_the_other_program() {
    built("ropewalk-lab");
    let mut import = ropewalk(&["log", "import", "-", "-o", "-"]);
    let mut child = import.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let name = format!("/proc/{}/comm", child.id());
    assert!(comes_true(|| fs::read_to_string(&name).is_ok_and(|name| name == "ropewalk-lab\n")));
    os::signals::send("KILL", &[child.id()]);
    assert!(!child.wait().unwrap().success());
}

#[test]
fn without_the_other_program_a_line_says_what_to_install() {
    let alone = Temporary::new();
    let copy = alone.path().join("ropewalk");
    install(ROPEWALK.as_ref(), &copy);
    for (command, program) in
        [("simulate", "sim"), ("trace", "sim"), ("load", "lab"), ("peers", "lab")]
    {
        let (status, out, error) = finished(Command::new(&copy).arg(command).env("PATH", ""));
        let expected = format!(
            "ropewalk: ropewalk-{program} is neither beside this program nor in PATH: install "
        );
        assert!(error.starts_with(&expected) && error.lines().count() == 1, "{error}");
        assert_eq!((status, out.as_str()), (1, ""));
    }
}
