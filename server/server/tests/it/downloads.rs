//! Files of which the kernel cannot tell that they are in memory, such as those of a tmpfs: an
//! engine with threads or processes that may wait for a disk leaves all sends to them, and the
//! event for the socket's room arrives meanwhile.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use server::Server;
use testkit::{Temporary, side_by_side, skip};

use crate::harness::start;
use crate::serving::try_get;

/// Downloads for each engine or setting, one after the other: a full socket whose event was missed
/// showed in 3 of 16.
const DOWNLOADS: usize = 48;

/// Many times what a socket's buffers hold.
const LEN: usize = 3 << 20;

fn content() -> &'static str {
    static CONTENT: OnceLock<String> = OnceLock::new();
    CONTENT.get_or_init(|| (0..LEN).map(|at| char::from(b'a' + (at % 23) as u8)).collect())
}

/// A site on a file system in memory, if this machine has one.
fn site_in_memory() -> Option<Temporary> {
    let parent = Path::new("/dev/shm");
    if !parent.is_dir() {
        skip("downloads from a file system in memory", "there is no tmpfs at /dev/shm");
        return None;
    }
    let directory = Temporary::below(parent);
    directory.file("site/file.txt", content());
    Some(directory)
}

fn downloads_come_whole(server: &Server, what: &str) {
    for number in 0..DOWNLOADS {
        let response = try_get(server, "/file.txt");
        let response = response.unwrap_or_else(|why| panic!("{what}, download {number}: {why}"));
        let body = response.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        assert!(body == content(), "{what}, download {number}: {} bytes", body.len());
    }
}

fn check(sets: &[Vec<String>]) {
    let Some(directory) = site_in_memory() else { return };
    side_by_side(sets, |set| {
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        let server = start(&directory, &set);
        downloads_come_whole(&server, &set.join(" "));
        server.stop_gracefully(Duration::from_secs(10)).unwrap();
    });
}

#[test]
fn downloads_from_a_file_system_in_memory_come_whole_with_every_engine() {
    let set = |spec: &&engines::EngineSpec| vec![format!("engine.name={}", spec.name)];
    check(&crate::engines().iter().map(set).collect::<Vec<_>>());
}

#[test]
fn downloads_from_a_file_system_in_memory_come_whole_wherever_calls_may_block() {
    let variants: &[(&str, &[&str])] = &[
        ("fibers", &["blocking_threads=2"]),
        ("fibers", &["blocking_threads=2", "threads_per_cluster=2"]),
        ("fibers", &["blocking_threads=1", "park_idle=1", "file_chunk_kib=16"]),
        ("tasks", &["blocking_threads=2"]),
        ("rings", &["helpers=2"]),
        ("rings", &["helpers=0"]),
        ("event-loop-helpers", &["kind=processes"]),
        ("event-loop-helpers", &["helpers=1", "file_chunk_kib=16"]),
        ("event-loop-helpers", &["events=epoll-level"]),
        ("thread-pool", &["threads=2"]),
        ("staged", &["pools=1"]),
    ];
    let is_under_test = |name| crate::engines().iter().any(|spec| spec.name == name);
    let set = |(name, knobs): &(&str, &[&str])| {
        let knobs = knobs.iter().map(|knob| format!("engine.knobs.{knob}"));
        knobs.chain([format!("engine.name={name}")]).collect()
    };
    let wanted = variants.iter().filter(|(name, _)| is_under_test(*name));
    check(&wanted.map(set).collect::<Vec<_>>());
}
