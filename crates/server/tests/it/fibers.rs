//! The engine of fibers with its knobs turned: what holds for every engine holds however fibers are
//! scheduled, and each knob shows.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use server::Server;
use testkit::side_by_side;

use crate::knobs::{every_case_holds, with_knobs};
use crate::overload::{counter, is_answered, misbehave};
use crate::serving::{connect, get};

/// Kernel threads that share fibers; fibers made at the start only; stacks only while they are
/// needed; kernel threads that may block; and all that together.
const VARIANTS: &[&[&str]] = &[
    &["threads_per_cluster=2", "acceptors=2", "poller_yields=2"],
    &["spawn_on_demand=0", "prespawned=32"],
    &["park_idle=1", "stack_kib=64"],
    &["blocking_threads=2"],
    &["threads_per_cluster=3", "clusters=2", "blocking_threads=2", "park_idle=1"],
];

/// Runs `test` with these knobs and settings.
fn with(knobs: &[&str], more: &[&str], test: impl Fn(&Server)) {
    with_knobs("fibers", knobs, more, test);
}

#[test]
fn every_case_holds_however_fibers_are_scheduled() {
    every_case_holds("fibers", VARIANTS);
}

#[test]
fn bytes_are_right_however_fibers_are_scheduled() {
    side_by_side(VARIANTS, |knobs| with(knobs, &[], misbehave));
}

#[test]
fn a_full_cluster_closes_the_connection_that_has_rested_longest() {
    let full = |server: &Server| {
        let mut streams: Vec<TcpStream> = (0..4).map(|_| connect(server)).collect();
        for stream in &mut streams {
            assert!(is_answered(stream));
            thread::sleep(Duration::from_millis(300)); // longer than a bucket of the timer wheel
        }
        assert!(is_answered(&mut streams[0]));
        assert!(is_answered(&mut connect(server)));
        assert_eq!(streams[1].read(&mut [0; 16]).unwrap(), 0, "the second is closed");
        assert_eq!(counter(server, |c| c.connections_evicted.get()), 1);
    };
    let max = &["limits.connections_max=4"][..];
    let variants = [
        (&["spawn_on_demand=0", "prespawned=4"][..], &[][..]),
        (&["threads_per_cluster=2"], max),
        (&["park_idle=1"], max),
    ];
    side_by_side(&variants, |(knobs, more)| with(knobs, more, full));
}

#[test]
fn deadlines_are_kept_by_threads_that_share_fibers() {
    let deadlines = ["timeouts.head_ms=300", "timeouts.idle_ms=300", "socket.defer_accept_s=0"];
    with(&["threads_per_cluster=2", "park_idle=1"], &deadlines, |server| {
        let (mut silent, mut idle) = (connect(server), connect(server));
        assert!(is_answered(&mut idle));
        assert_eq!(silent.read(&mut [0; 16]).unwrap(), 0);
        assert_eq!(idle.read(&mut [0; 16]).unwrap(), 0);
        assert_eq!(counter(server, |c| c.connections_expired.get()), 2);
    });
}

#[test]
fn responses_under_way_finish_wherever_their_fibers_are() {
    side_by_side(VARIANTS, |knobs| {
        with(knobs, &[], |server| {
            let mut streams: Vec<TcpStream> = (0..8).map(|_| connect(server)).collect();
            for stream in &mut streams {
                let request = b"GET /large.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
                stream.write_all(request).unwrap();
            }
            assert!(get(server, "/").ends_with("<h1>Rope</h1>"));
            for mut stream in streams {
                let mut response = Vec::new();
                stream.read_to_end(&mut response).unwrap();
                assert!(response.len() > 20_000_000, "{knobs:?}: {} bytes", response.len());
            }
        });
    });
}
