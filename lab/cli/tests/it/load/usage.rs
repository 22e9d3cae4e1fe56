//! Mistakes in the arguments: exit status 2 and one line that says what to do.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;
use testkit::Temporary;

use super::refuses;
use crate::run;

const URL: &str = "http://127.0.0.1:1/";

/// Checks that the arguments are refused; there is no server, because no request may be sent.
#[track_caller]
fn check(arguments: &[&str], parts: &[&str]) {
    refuses(2, arguments, parts);
}

#[test]
fn urls() {
    check(&["https://127.0.0.1/"], &["https://127.0.0.1/", "TLS is not supported"]);
    check(&["ftp://127.0.0.1/"], &["the scheme is not http"]);
    check(&["http://127.0.0.1:70000/"], &["the port is not 1 to 65535"]);
    check(&["http:///x"], &["it names no host"]);
    check(&["http://::1/"], &["an IPv6 address stands in brackets"]);
    check(&["--connections", "2"], &["no server is named"]);
    check(&[URL, "--source", "::1"], &["--source ::1", "of the other IP version"]);
    check(&[URL, "--source", "here"], &["--source here", "an IP address"]);
    check(&[URL, "--host", "a b"], &["--host \"a b\""]);
}

#[test]
fn rates_and_their_ends() {
    check(&[URL, "--rate", "5", "--connections", "3"], &["--connections", "--rate"]);
    check(&[URL, "--rate", "5", "--request-rate", "3"], &["--rate", "--request-rate"]);
    check(&[URL, "--rate", "0"], &["--rate 0", "nothing is ever due"]);
    check(&[URL, "--rate", "fast"], &["--rate fast"]);
    check(&[URL, "--rate", "5..10"], &["a ramp needs a duration"]);
    check(&[URL, "--arrivals", "poisson"], &["--arrivals", "--rate"]);
    check(&[URL, "--arrivals", "trace"], &["does not say when its sessions began"]);
    check(&[URL, "--speed", "2", "--rate", "5"], &["--speed", "--arrivals trace"]);
    check(&[URL, "--connections", "0"], &["--connections", "at least 1"]);
    check(&[URL, "--duration", "10"], &["--duration 10", "without a unit"]);
    check(&[URL, "--duration", "0s"], &["--duration", "more than 0"]);
    check(&[URL, "--interval", "1ms"], &["--interval", "at least 10ms"]);
    check(&[URL, "--timeout", "0s"], &["--timeout", "more than 0"]);
}

#[test]
fn verification() {
    let page = "http://127.0.0.1:1/page.html";
    check(&[page, "--verify", "bytes"], &["/page.html", "--files"]);
    check(&[page, "--verify", "bytes", "--files", "/no/such"], &["--files", "/no/such/page.html"]);
}

#[test]
fn headers_shares_and_threads() {
    check(&[URL, "--header", "bad"], &["--header \"bad\"", "'Name: value'"]);
    check(&[URL, "--header", "a b: c"], &["--header", "no name of a header"]);
    check(&[URL, "--header", "Connection: close"], &["--header", "--connection"]);
    check(&[URL, "--header", "A: b\r\nC: d"], &["--header", "control character"]);
    check(&[URL, "--share", "3/2"], &["--share 3/2", "I/N"]);
    check(&[URL, "--share", "half"], &["--share half", "I/N"]);
    check(&[URL, "--start-at", "tomorrow"], &["--start-at tomorrow", "seconds since 1970"]);
    check(&[URL, "--threads", "0"], &["--threads", "at least 1"]);
    check(&[URL, "--cpus", "99999"], &["--cpus 99999", "not there"]);
    check(&[URL, "--find-limit", "p99"], &["--find-limit", "p99=50ms"]);
    check(&[URL, "--find-limit", "p99=50ms", "--connections", "5"], &["leave one out"]);
    for option in [&["--share", "1/2"][..], &["--start-at", "9999999999"], &["--series", "-"]] {
        let search = [&[URL, "--find-limit", "p99=50ms"], option].concat();
        check(&search, &["--find-limit", option[0], "single runs"]);
    }
}

/// Such files are reported before the run, not after it.
#[test]
fn files_that_cannot_be_written() {
    let both =
        ["--json - and --series -: standard output takes one of them: give the other a file"];
    check(&[URL, "--series", "-", "--json", "-"], &both);
    for (first, second) in [("--spectrum", "--series"), ("--interval-log", "--httperf")] {
        let why = format!("{first} - and {second} -: standard output takes one of them");
        check(&[URL, second, "-", first, "-"], &[&why]);
    }
    let no_directory = [URL, "--sessions", "1", "--json", "/no/such/file"];
    check(&no_directory, &["--json /no/such/file", "no such directory"]);
    check(&[URL, "--sessions", "1", "--series", "/"], &["--series /", "this is a directory"]);
    check(&["merge", "/no/such", "--json", "/"], &["--json /", "this is a directory"]);
}

#[test]
fn options_that_would_be_without_effect() {
    for (arguments, part) in [
        (&["load", URL, "--default-think", "1s"][..], "--log <FILE>"),
        (&["load", URL, "--think-max", "1s"], "--log <FILE>"),
        (&["load", "merge", "/no/such", "--interval", "1s"], "unknown option \"--interval\""),
    ] {
        let (status, _, error) = run(arguments);
        assert!(status == 2 && error.contains(part), "{arguments:?}: {error}");
    }
}

/// What is typed may be right where the system does not give what it names: status 1, and a
/// document that says so.
#[test]
fn what_the_system_does_not_give_is_no_mistake_of_the_user() {
    let directory = Temporary::new();
    let files = directory.path().join("files");
    fs::create_dir(&files).unwrap();
    // The kernel refuses to read it, to root as well.
    let refused = "/proc/self/mem";
    symlink(refused, files.join("a")).unwrap();
    let (files, json) = (files.to_str().unwrap(), directory.path().join("json"));
    let read = |arguments: &[&str], why: &str| {
        let json_at = ["--json", json.to_str().unwrap()];
        refuses(1, &[arguments, &json_at].concat(), &[why]);
        let document: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        let said = document["no_run"]["system"].as_str().unwrap();
        assert!(said.contains(why), "{document}");
        fs::remove_file(&json).unwrap();
    };
    let nowhere = "http://nowhere.invalid/";
    read(&[nowhere], nowhere);
    read(&[nowhere, "--find-limit", "p99=50ms"], nowhere);
    read(&[URL, "--log", refused], refused);
    let copies = ["http://127.0.0.1:1/a", "--verify", "bytes", "--files", files];
    read(&copies, "--files: no copy of /a: ");
    check(&[URL, "--log", files], &[files, "Is a directory"]);
    read(&["merge", refused], refused);
    for arguments in [&["study", refused][..], &["log", "describe", refused]] {
        let (status, _, errors) = run(arguments);
        assert!(status == 1 && errors.contains(refused), "{arguments:?}: {status} {errors}");
    }
    check(&[URL, "--source", "192.0.2.1"], &["--source 192.0.2.1: Cannot assign"]);
}

#[test]
fn logs() {
    let directory = Temporary::new();
    let log = directory.path().join("log");
    let path = log.to_str().unwrap();
    check(&[URL, "--log", path], &[path, "there is no such file"]);
    fs::write(&log, "# nothing\n\n").unwrap();
    check(&[URL, "--log", path], &[path, "there is no request in it"]);
    fs::write(&log, "/a\n/b think=long\n").unwrap();
    check(&[URL, "--log", path], &[path, "line 2", "long"]);
    fs::write(&log, "/a\n").unwrap();
    check(&["http://127.0.0.1:1/a", "--log", path], &["the URL names a server only"]);
    let trace = [URL, "--log", path, "--arrivals", "trace"];
    check(&trace, &["does not say when its sessions began", "ropewalk log import"]);
    fs::write(&log, "#@ start=0\n/a\n").unwrap();
    check(&[&trace[..], &["--rate", "5"]].concat(), &["has its own rate"]);
    check(&[&trace[..], &["--speed", "0"]].concat(), &["--speed"]);
    check(&[URL, "--log", path, "--verify", "bytes"], &["/a is no file of a file set"]);
}

/// The arguments may be right, but the files that they name are not outcomes that can be merged.
#[test]
fn files_that_cannot_be_merged() {
    let directory = Temporary::new();
    let file = directory.file("other.json", "{}");
    refuses(2, &["merge", "/no/such"], &["/no/such: there is no such file: name an outcome"]);
    refuses(2, &["merge", file.to_str().unwrap()], &["other.json", "not an outcome"]);
}
