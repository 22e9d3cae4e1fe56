//! All engines count in the same way the calls that they hand out to threads or processes that may
//! wait for a disk.

use std::fs::File;
use std::os::fd::AsFd;
use std::time::Duration;

use server::Server;
use testkit::Temporary;

use crate::harness::start;
use crate::serving::get;

/// Engines that hand out calls that may block, with the knobs that make them do it.
const HANDING_OUT: [(&str, &[&str]); 5] = [
    ("event-loop-helpers", &[]),
    ("event-loop-helpers", &["engine.knobs.kind=processes"]),
    ("rings", &["engine.knobs.helpers=1"]),
    ("fibers", &["engine.knobs.blocking_threads=1"]),
    ("tasks", &["engine.knobs.blocking_threads=1"]),
];

/// Engines that can hand out calls that may block, with the knobs under which their own threads
/// make them.
const BY_THEMSELVES: [(&str, &[&str]); 3] =
    [("rings", &[]), ("fibers", &[]), ("tasks", &["engine.knobs.blocking_threads=0"])];

const LARGE: usize = 1 << 20;

/// A site with a small file, and with a large one that is not in memory, if the file system can
/// drop it.
fn site() -> (Temporary, bool) {
    let directory = Temporary::new();
    directory.file("site/small", "small");
    directory.file("site/large", vec![b'l'; LARGE]);
    let file = File::open(directory.path().join("site/large")).unwrap();
    file.sync_all().unwrap();
    os::files::advise_dont_need(file.as_fd()).unwrap();
    let is_cold = os::files::resident_bytes(file.as_fd(), LARGE as u64).unwrap() == 0;
    (directory, is_cold)
}

fn with(engine: &str, set: &[&str], test: impl Fn(&Server, bool)) {
    if !crate::engines().iter().any(|spec| spec.name == engine) {
        return;
    }
    let (directory, is_cold) = site();
    let name = format!("engine.name={engine}");
    // Without this, a file would be hashed for its tag, by a number of jobs that depends on its
    // size. A file that is known would be checked again, by a further job, a while later.
    let every = [&name, "partitions.cpus=[\"0\"]", "host.etag_hash_bytes_max=0"];
    let all = [&every[..], &["cache.revalidate_ms=never"], set].concat();
    let server = start(&directory, &all);
    test(&server, is_cold);
    server.stop_gracefully(Duration::from_secs(10)).unwrap();
}

fn counted(server: &Server) -> (u64, u64) {
    let sum =
        |field: fn(&session::Counters) -> u64| server.counters().iter().map(|c| field(c)).sum();
    (sum(|counters| counters.jobs_handed_out.get()), sum(|counters| counters.cold_sends.get()))
}

#[test]
fn jobs_and_cold_sends_are_counted_wherever_they_are_handed_out() {
    for (engine, set) in HANDING_OUT {
        let set = [set, &["socket.sendfile=probe"]].concat();
        with(engine, &set, |server, is_cold| {
            assert!(get(server, "/small").ends_with("small"));
            assert_eq!(counted(server), (1, 0), "{engine}");
            assert!(get(server, "/small").ends_with("small"));
            assert_eq!(counted(server), (1, 0), "{engine}: it is known");
            assert!(get(server, "/large").len() > LARGE);
            let (jobs, cold_sends) = counted(server);
            assert_eq!(jobs, 2, "{engine}");
            match is_cold {
                true => assert!(cold_sends > 0, "{engine}: it was not in memory"),
                false => println!("{engine}: the file system keeps the large file in memory"),
            }
            let line = format!(
                "{jobs} jobs handed out, {cold_sends} sends that would have waited for the disk"
            );
            assert!(server.status().contains(&line), "{engine}: {:?}", server.status());
        });
    }
}

#[test]
fn what_is_not_handed_out_is_not_counted() {
    for (engine, set) in BY_THEMSELVES {
        with(engine, set, |server, _| {
            assert!(get(server, "/small").ends_with("small"));
            assert!(get(server, "/large").len() > LARGE);
            assert_eq!(counted(server), (0, 0), "{engine}");
        });
    }
}
