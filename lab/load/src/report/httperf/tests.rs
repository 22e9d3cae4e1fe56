//! Tests with golden files, of the peculiarities, and of the shape of the output of Debian's
//! httperf.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use testkit::tools::{HTTPERF, has};

use super::super::sample;
use super::*;

#[test]
fn golden() {
    sample::check_golden("httperf.txt", &render(&sample::run()));
    let mut plain = sample::empty();
    plain.setting.targets = vec!["http://[::1]:81".into()];
    sample::check_golden("httperf_empty.txt", &render(&plain));
}

#[test]
fn a_url_has_three_parts() {
    let check = |url: &str, expected: (&str, &str, &str)| assert_eq!(parts(url), expected, "{url}");
    check("http://host/a/b?c", ("host", "80", "/a/b?c"));
    check("http://host:8080", ("host", "8080", "/"));
    check("http://[::1]:81/", ("[::1]", "81", "/"));
    check("http://[::1]/", ("[::1]", "80", "/"));
}

#[test]
fn reply_rates_are_of_whole_samples_of_five_seconds() {
    let mut outcome = sample::empty();
    let interval = |replies| Interval { replies, ..Interval::default() };
    outcome.measures.series = [10, 10, 10, 10, 10, 20, 20, 20, 20, 20, 99].map(interval).into();
    let mut check = |window_s: u64, expected: &str| {
        outcome.window_us = window_s * 1_000_000;
        let text = render(&outcome);
        let line = text.lines().find(|line| line.starts_with("Reply rate")).unwrap();
        assert_eq!(line.split_once("]: ").unwrap().1, expected);
    };
    check(4, "min 0.0 avg 0.0 max 0.0 stddev 0.0 (0 samples)");
    check(9, "min 10.0 avg 10.0 max 10.0 stddev 0.0 (1 samples)");
    check(11, "min 10.0 avg 15.0 max 20.0 stddev 7.1 (2 samples)");
}

#[test]
fn every_error_but_a_wrong_status_is_in_the_total() {
    for kind in ErrorKind::ALL {
        let mut outcome = sample::empty();
        outcome.measures.errors.set(kind, 7);
        let text = render(&outcome);
        let lines: String = text.lines().filter(|line| line.starts_with("Errors:")).collect();
        let sevens = lines.matches(" 7").count();
        let expected = if kind == ErrorKind::BadStatus { 0 } else { 2 };
        assert_eq!(sevens, expected, "{kind}: the total and one field: {lines}");
    }
}

/// The output of Debian's httperf has equal lines with equal words; only the numbers differ.
#[test]
fn debians_httperf_prints_the_same_lines() {
    let Some(plain) = httperf(&["--num-conns=3", "--rate=100"]) else { return };
    assert_eq!(shape(&plain), shape(&render(&sample::empty())));
    let log = std::env::temp_dir().join(format!("ropewalk-httperf-{}.log", std::process::id()));
    std::fs::write(&log, "/a\n/b\n\n/c\n").unwrap();
    let sessions = httperf(&["--rate=100", &format!("--wsesslog=4,0,{}", log.display())]);
    std::fs::remove_file(&log).unwrap();
    assert_eq!(shape(&sessions.unwrap()), shape(&render(&sample::run())));
}

/// Runs httperf against a server in this process. None if it is not installed; CI has it.
fn httperf(arguments: &[&str]) -> Option<String> {
    if !has(&HTTPERF) {
        return None;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // It serves until the test's process ends.
    std::thread::spawn(move || listener.incoming().flatten().for_each(|peer| drop(serve(peer))));
    let output = Command::new("httperf")
        .args(["--server=127.0.0.1", "--uri=/", "--timeout=5", &format!("--port={port}")])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Answers one request after the other until the client has enough.
fn serve(mut peer: TcpStream) -> std::io::Result<()> {
    let mut buffer = [0; 4096];
    let mut request = Vec::new();
    loop {
        let len = peer.read(&mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        request.extend_from_slice(&buffer[..len]);
        if request.ends_with(b"\r\n\r\n") {
            request.clear();
            peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")?;
        }
    }
}

/// The command line is left out, each number is `N`, and a row of numbers is one.
fn shape(text: &str) -> Vec<String> {
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("httperf --"));
    lines.map(masked).collect()
}

fn masked(line: &str) -> String {
    let mut masked = String::new();
    let mut rest = line;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, number) = rest.split_at(start);
        let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
        if !(before == " " && masked.ends_with('N')) {
            masked.push_str(before);
            masked.push('N');
        }
        rest = &number[end..];
    }
    masked + rest
}
