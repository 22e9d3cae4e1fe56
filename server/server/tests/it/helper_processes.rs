//! Helper processes of a loop: when they are killed at any time, no request is lost.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use testkit::wait_until;

use crate::harness::{site, start};
use crate::knobs::every_case_holds;
use crate::processes::children;

/// Sends a request on a connection of its own and returns the response.
fn request(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn every_case_holds_with_helper_processes() {
    every_case_holds("event-loop-helpers", &[&["kind=processes", "helpers=1"]]);
}

#[test]
fn killed_helpers_lose_no_request() {
    let directory = site();
    // Every request needs a helper. The loop is a child of the test process, and its children are
    // helpers.
    let set = [
        "engine.name=event-loop-helpers",
        "engine.knobs.kind=processes",
        "engine.knobs.helpers=2",
        "engine.knobs.workers=1",
        "engine.processes=1",
        "cache.revalidate_ms=0",
    ];
    let server = start(&directory, &set);
    let (worker, address) = (server.worker_processes()[0], server.addresses()[0]);
    let before = children(worker);
    assert_eq!(before.len(), 2);
    let answered = [AtomicUsize::new(0), AtomicUsize::new(0)];
    thread::scope(|scope| {
        for count in &answered {
            scope.spawn(|| {
                for _ in 0..100 {
                    assert!(request(address).ends_with("<h1>Rope</h1>"));
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..4 {
            for pid in children(worker).into_iter().take(1) {
                // It may have been replaced already.
                let kill = format!("kill -s KILL {pid} 2>/dev/null");
                Command::new("sh").args(["-c", &kill]).status().unwrap();
                wait_until(|| !children(worker).contains(&pid));
            }
            // A request that loses two helpers is answered with 503: wait until none can meet both
            // kills.
            let now = || answered.each_ref().map(|count| count.load(Ordering::Relaxed));
            let before = now();
            wait_until(|| {
                now().iter().zip(before).all(|(now, before)| *now > before || *now == 100)
            });
        }
    });
    assert!(request(address).ends_with("<h1>Rope</h1>"));
    assert_eq!(server.worker_processes(), [worker]);
    let after = children(worker);
    assert!(after.iter().all(|pid| !before.contains(pid)) || after.len() < 3, "{after:?}");
    let summary = server.stop_gracefully(Duration::from_secs(10)).unwrap();
    assert_eq!((summary.requests, summary.connections), (201, 201));
    let is_there = |pid: &u32| fs::exists(format!("/proc/{pid}")).unwrap();
    assert!(!after.iter().any(is_there), "helpers end with their loop");
}
