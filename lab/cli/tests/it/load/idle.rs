//! Connections that rest beside the load: the server has them while it is measured, and closed ones
//! are counted.

use std::process::Stdio;
use std::thread;
use std::time::Duration;

use testkit::{Temporary, undisturbed};

use super::{load, read_json, succeeds};
use crate::ropewalk;
use crate::server_process::served;
use testkit::ServerProcess;

const IDLE: usize = 30;
/// The options of a load that uses one or two connections.
const BESIDE: [&str; 6] = ["--idle", "30", "--rate", "20", "--lag-bound", "60s"];

fn server(more: &[&str]) -> (Temporary, ServerProcess) {
    let directory = Temporary::new();
    succeeds(&["fileset", directory.path().to_str().unwrap(), "--single", "1000"]);
    let server = served(directory.path(), more);
    (directory, server)
}

#[test]
fn the_server_has_them_while_it_is_measured() {
    let (_directory, server) = server(&[]);
    let before = server.descriptors();
    let mut command = ropewalk(&["load", &server.url("/size1000"), "-q", "--duration", "100s"]);
    let mut child = command.args(BESIDE).stdin(Stdio::null()).spawn().unwrap();
    while server.descriptors() < before + IDLE + 1 {
        assert!(child.try_wait().unwrap().is_none(), "it ended without them");
        thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn connections_that_the_server_closes_are_counted() {
    let scratch = Temporary::new();
    for (idle_ms, closed) in [("600000", 0), ("100", IDLE)] {
        let idle_ms = format!("timeouts.idle_ms={idle_ms}");
        let (_directory, server) = server(&["--set", &idle_ms]);
        let url = server.url("/size1000");
        let arguments = [&[&*url, "--duration", "2s"][..], &BESIDE].concat();
        // A server that is kept from its CPU closes them too late.
        undisturbed(|| {
            let (_, out, json) = load(&scratch, &arguments);
            let counts = &json["counts"];
            assert_eq!(counts["idle_connections"], IDLE);
            if counts["idle_closed"] != closed {
                return Err(out);
            }
            let said = format!("30 rested beside the load, {closed} of them closed");
            assert!(out.contains(&said), "{out}");
            Ok(())
        });
    }
}

/// A program that asked for the load decides by the file whether the server is to blame.
#[test]
fn where_there_is_no_run_the_file_says_whose_fault_it_is() {
    let scratch = Temporary::new();
    for (more, status, at_fault) in
        [(["--idle", "3"], 1, "server"), (["--start-at", "1"], 3, "too_late")]
    {
        let json = scratch.path().join("outcome.json");
        let mut command = ropewalk(&["load", "http://127.0.0.1:1/", "-q"]);
        let ended = command.args(more).arg("--json").arg(&json).output().unwrap();
        let error = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(status), "{error}");
        assert!(error.starts_with(&format!("ropewalk: {}", more[0])), "{error}");
        let document = read_json(&json).unwrap();
        assert!(document["no_run"].get(at_fault).is_some(), "{document}");
        assert!(error.contains(document["why"].as_str().unwrap()), "{error} {document}");
    }
}
