//! Files that are open without need: files that are no longer requested, and files that have been
//! deleted.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use os::accounting;
use server::Server;
use testkit::{MemoryDisk, StalledFile, Temporary, at_a_time, comes_true};

use crate::harness::{connect, start};
use crate::serving::get;

/// The number of checks before a file counts as open for ever: a minute in all.
const LOOKS: usize = 120;
const LOOK: Duration = Duration::from_millis(500);

/// How many servers are tested at a time: each test sleeps nearly all the time.
const SLEEPERS: usize = 16;

const LEN: usize = 100_000;

/// Runs a test with servers of all engines.
fn for_every_engine(settings: &[&str], test: impl Fn(&Temporary, &mut Server) + Sync) {
    let names: Vec<&str> = crate::engines().into_iter().map(|spec| spec.name).collect();
    at_a_time(SLEEPERS, &names, |name| {
        let directory = Temporary::new();
        directory.file("site/asked.bin", vec![1; LEN]);
        directory.file("site/once.bin", vec![2; LEN]);
        let engine = format!("engine.name={name}");
        let mut server = start(&directory, &[&[engine.as_str()], settings].concat());
        test(&directory, &mut server);
        server.stop_gracefully(Duration::from_secs(10)).unwrap();
    });
}

/// Whether a process of the server has the file open, under this name or deleted.
pub(crate) fn is_open(server: &Server, path: &Path) -> bool {
    let path = path.to_str().unwrap();
    let mut targets = processes(server).into_iter().flat_map(|pid| {
        let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        links
            .filter_map(|link| fs::read_link(link.path()).ok()?.into_os_string().into_string().ok())
    });
    targets.any(|target| target.strip_suffix(" (deleted)").unwrap_or(&target) == path)
}

/// The processes of a server: its own, or the worker processes that it has started and all
/// processes that they have forked.
fn processes(server: &Server) -> Vec<u32> {
    let mut found = server.worker_processes();
    if found.is_empty() {
        return vec![std::process::id()];
    }
    let parents: Vec<(u32, u32)> =
        accounting::processes().map(|process| (process.pid, process.parent)).collect();
    let mut seen = 0;
    while let Some(&parent) = found.get(seen) {
        seen += 1;
        found.extend(parents.iter().filter(|(_, other)| *other == parent).map(|(pid, _)| *pid));
    }
    found
}

/// Requests another file until `path` is closed.
fn serve_until_closed(server: &mut Server, path: &Path) {
    let mut stream = connect(server);
    let mut response = vec![0; LEN];
    for _ in 0..LOOKS {
        if !is_open(server, path) {
            return;
        }
        server.do_housekeeping();
        stream.write_all(b"GET /asked.bin HTTP/1.1\r\nHost: h\r\nRange: bytes=-1\r\n\r\n").unwrap();
        assert!(os::uninterrupted(|| stream.read(&mut response)).unwrap() > 0);
        thread::sleep(LOOK);
    }
    panic!("{} is open still", path.display());
}

#[test]
fn a_deleted_file_is_closed_without_a_request_for_it() {
    for_every_engine(&["cache.descriptors_idle_ms=never"], |directory, server| {
        let path = directory.path().join("site/once.bin");
        assert!(get(server, "/once.bin").starts_with("HTTP/1.1 200 "));
        fs::remove_file(&path).unwrap();
        serve_until_closed(server, &path);
        assert!(get(server, "/once.bin").starts_with("HTTP/1.1 404 "));
    });
}

#[test]
fn a_file_without_requests_is_closed_and_opened_again() {
    let settings = ["cache.descriptors_idle_ms=1000", "cache.revalidate_ms=never"];
    for_every_engine(&settings, |directory, server| {
        for _ in 0..2 {
            assert!(get(server, "/once.bin").starts_with("HTTP/1.1 200 "));
            serve_until_closed(server, &directory.path().join("site/once.bin"));
        }
    });
}

/// What is mounted below the root can be unmounted while the server runs, once its files are not
/// requested any more.
#[test]
fn a_file_system_without_requests_can_be_unmounted() {
    let scratch = Temporary::new();
    if let Err(why) = MemoryDisk::new(scratch.path()) {
        return testkit::skip("unmounting below the root of a server", &why);
    }
    for_every_engine(&["cache.descriptors_idle_ms=1000"], |directory, server| {
        let place = directory.path().join("site/below");
        fs::create_dir(&place).unwrap();
        let disk = MemoryDisk::new(&place).unwrap();
        let path = directory.file("site/below/once.bin", vec![3; LEN]);
        assert!(get(server, "/below/once.bin").starts_with("HTTP/1.1 200 "));
        serve_until_closed(server, &path);
        // A process that another test has just forked has all descriptors until its program runs.
        assert!(comes_true(|| disk.unmount().is_ok()));
        assert!(!path.exists());
        assert!(get(server, "/asked.bin").starts_with("HTTP/1.1 200 "));
    });
}

/// A file system that does not answer is not asked whether a file has been deleted: a server that
/// waited for it could not be stopped, and a process that waited would hold a lock that others
/// need.
#[test]
fn a_file_system_that_does_not_answer_is_not_asked() {
    const PATIENCE: Duration = Duration::from_secs(60);
    let scratch = Temporary::new();
    let image = scratch.file("image", vec![2; LEN]);
    if let Err(why) = StalledFile::new(&image, &scratch.file("place", "")) {
        return testkit::skip("open files of a file system that stalls", &why);
    }
    for_every_engine(&["cache.descriptors_idle_ms=1000"], |directory, server| {
        let path = directory.path().join("site/once.bin");
        let stalled = StalledFile::new(&image, &path).unwrap();
        assert!(get(server, "/once.bin").starts_with("HTTP/1.1 200 "));
        stalled.gate().close();
        thread::scope(|scope| {
            let (done, is_done) = mpsc::channel::<()>();
            // A server that waits all the same must not wait for ever.
            let gate = stalled.gate();
            scope.spawn(move || {
                let _ = is_done.recv_timeout(PATIENCE);
                gate.open();
            });
            serve_until_closed(server, &path);
            drop(done);
        });
        assert_eq!(stalled.gate().visitors(), 0);
    });
}

/// A client that waits for the rest of a file gets it, however long that takes.
#[test]
fn what_is_being_sent_stays_open() {
    const LONG: usize = 64 << 20;
    crate::for_each_engine(|spec| {
        let directory = Temporary::new();
        let path = directory.file("site/long.bin", "");
        fs::File::options().write(true).open(&path).unwrap().set_len(LONG as u64).unwrap();
        let settings = [&format!("engine.name={}", spec.name), "cache.descriptors_idle_ms=1000"];
        let mut server = start(&directory, &settings);
        let mut stream = connect(&server);
        stream
            .write_all(b"GET /long.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            .unwrap();
        assert!(os::uninterrupted(|| stream.read(&mut [0; 100])).unwrap() > 0);
        fs::remove_file(&path).unwrap();
        for _ in 0..30 {
            server.do_housekeeping();
            thread::sleep(Duration::from_millis(100));
        }
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert!(rest.len() + 100 >= LONG, "{} bytes came", rest.len());
        server.stop_gracefully(Duration::from_secs(10)).unwrap();
    });
}
