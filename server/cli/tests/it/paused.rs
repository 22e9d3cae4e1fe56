//! A server that did not run for a while, because its machine or its container was paused, serves
//! the clients that have sent something meanwhile, whatever deadlines have passed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use os::socket::Readiness;

use crate::REPOSITORY;
use crate::server_process::{ServerProcess, for_each_engine, served, take_until};

const REQUEST: &[u8] = b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n";

/// Limits on silence, and a pause beyond them.
const SHORT: [&str; 6] = [
    "--set",
    "timeouts.head_ms=1000",
    "--set",
    "timeouts.idle_ms=1000",
    "--set",
    "socket.defer_accept_s=0",
];
const PAUSE: Duration = Duration::from_millis(1300);

#[test]
fn what_came_during_a_pause_counts_though_the_deadline_has_passed() {
    for_each_engine(|arguments| {
        let site = Path::new(REPOSITORY).join("examples/site");
        let server = served(&site, &[arguments, &SHORT[..]].concat());
        // On a busy machine a client may be silent for too long before the pause.
        testkit::undisturbed(|| check(&server, arguments));
    });
}

/// An error if a client was silent for too long before the pause.
fn check(server: &ServerProcess, arguments: &[&str]) -> Result<(), String> {
    let mut beginning = server.connect();
    let mut resting = server.connect();
    resting.write_all(REQUEST).unwrap();
    take_until(&mut resting, b"\r\n\r\n");
    // The server comes to wait for both.
    std::thread::sleep(Duration::from_millis(100));
    signal("STOP", server);
    let sent = beginning.write_all(&REQUEST[..20]).and(resting.write_all(REQUEST));
    let is_open = sent.is_ok() && has_no_input(&beginning) && has_no_input(&resting);
    std::thread::sleep(PAUSE);
    signal("CONT", server);
    if !is_open {
        return Err(format!("{arguments:?}: a client was silent for too long"));
    }
    assert_eq!(start(&mut resting), "HTTP/1.1 200 ", "{arguments:?}: a whole request");
    assert_eq!(start(&mut beginning), "HTTP/1.1 408 ", "{arguments:?}: a part of a head");
    Ok(())
}

fn has_no_input(client: &TcpStream) -> bool {
    !os::socket::wait_ready(client.as_fd(), Readiness::Readable, 0).unwrap()
}

/// The beginning of the next response.
fn start(client: &mut TcpStream) -> String {
    let mut start = [0; 13];
    match os::uninterrupted(|| client.read(&mut start)) {
        Ok(read) => String::from_utf8_lossy(&start[..read]).into_owned(),
        Err(why) => why.to_string(),
    }
}

/// Signals the server and the processes that it has started.
fn signal(name: &str, server: &ServerProcess) {
    let mut group = vec![server.pid()];
    let all: Vec<_> = os::accounting::processes().collect();
    for depth in 0.. {
        let Some(&parent) = group.get(depth) else { break };
        group.extend(all.iter().filter(|one| one.parent == parent).map(|one| one.pid));
    }
    os::signals::send(name, &group);
}
