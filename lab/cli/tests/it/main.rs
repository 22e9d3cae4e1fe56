//! The command from the outside: its output, its exit status, and signals; real clients and other
//! servers.

mod beside_others;
mod cache_study;
mod compare;
mod differential;
mod documentation;
mod experiments;
mod fileset;
mod httperf_logs;
mod lab;
mod load;
mod log;
mod machine;
mod printing;
mod report;
mod server_process;
mod servers;
mod study;
mod terminal;
mod tune;

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The command, in the root of the repository. The server is beside it, built as the tests are.
fn ropewalk(arguments: &[&str]) -> Command {
    server_process::ropewalk_server();
    let mut command = Command::new(server_process::ROPEWALK_LAB);
    command.args(arguments).current_dir(REPOSITORY);
    command
}

/// Starts a command, and returns it once there are `lines` lines in a list of its records.
fn start_until(command: &mut Command, list: &Path, lines: usize) -> Child {
    let mut child = command.spawn().unwrap();
    while fs::read_to_string(list).unwrap_or_default().lines().count() < lines {
        let is_over = child.try_wait().unwrap().is_some();
        assert!(!is_over, "it ended before there were {lines} lines in {}", list.display());
        thread::sleep(Duration::from_millis(20));
    }
    child
}

/// Runs the command to its end; returns exit status, standard output, standard error.
fn run(arguments: &[&str]) -> (i32, String, String) {
    compared(|| {
        let (status, out, err) = testkit::finished(&mut ropewalk(arguments));
        (err.clone(), (status, out, err))
    })
}

/// What a command has done, which is run again if its comparison came to nothing: within a second a
/// busy machine may let a server answer nothing. `run` returns what it has said, too.
fn compared<T>(run: impl Fn() -> (String, T)) -> T {
    let mut done = None;
    testkit::undisturbed(|| {
        let (said, outcome) = run();
        done = Some(outcome);
        match said.contains("there is nothing to compare") {
            true => Err(said),
            false => Ok(()),
        }
    });
    done.expect("it has been run")
}
