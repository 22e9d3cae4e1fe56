//! Listings of large directories.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use server::Server;
use testkit::{Temporary, at_a_time, comes_true};

use crate::harness::start;
use crate::serving;

const ENTRIES: usize = 100_000;

/// How long a client waits: a listing keeps a CPU busy for a long time before its first byte.
const PATIENCE: Duration = Duration::from_secs(200);

#[test]
fn a_hundred_thousand_entries_are_listed_whole_and_in_order() {
    let directory = Temporary::new();
    fs::create_dir_all(directory.path().join("site/many")).unwrap();
    directory.file("site/few/one.txt", "");
    // The entries are made in an order other than that of the listing.
    let names = (0..ENTRIES).map(|number| format!("{:06}.txt", number * 7919 % ENTRIES));
    fill(&directory, names);
    let names: Vec<&str> = crate::engines().iter().map(|spec| spec.name).collect();
    // Each test keeps a CPU busy for a long time.
    at_a_time(2, &names, |name| {
        let engine = format!("engine.name={name}");
        let set = [
            &engine,
            "host.listing=true",
            "limits.listings_max=2",
            CPU,
            "timeouts.write_ms=600000", // a client that reads nothing stays to the end
        ];
        let server = start(&directory, &set);
        // A client that stops reading must not keep others from being served.
        let mut stalled = vec![begin(&server)];
        let page = get(&server, "/many/");
        let names = page.match_indices("href=\"./").map(|(at, _)| &page[at + 8..at + 18]);
        let mut expected = 0;
        for name in names {
            assert_eq!(name, format!("{expected:06}.txt"));
            expected += 1;
        }
        assert_eq!(expected, ENTRIES);
        // A second stalled client leaves no room for a third listing.
        stalled.push(begin(&server));
        let refusal = get(&server, "/many/");
        assert!(refusal.starts_with("HTTP/1.1 503 "), "{refusal}");
        assert!(refusal.contains("\r\nRetry-After: 1\r\n"), "{refusal}");
        drop(stalled);
        let is_free = || get(&server, "/few/").starts_with("HTTP/1.1 200 OK\r\n");
        assert!(comes_true(is_free), "{name}: their places are free again");
        server.stop_gracefully(Duration::from_secs(10)).unwrap();
    });
}

/// Makes these entries in the folder `many`: names of a few files, because some file systems slow
/// down all that happens on them after a hundred thousand files have been removed.
fn fill(directory: &Temporary, names: impl Iterator<Item = String>) {
    let many = directory.path().join("site/many");
    let mut file = PathBuf::new();
    for (number, name) in names.enumerate() {
        if number % LINKS_MAX == 0 {
            file = many.join(name);
            File::create(&file).unwrap();
        } else {
            fs::hard_link(&file, many.join(name)).unwrap();
        }
    }
}

/// Every file system that is used for temporary files allows so many names of a file.
const LINKS_MAX: usize = 10_000;

/// A single worker.
const CPU: &str = "partitions.cpus=[\"0\"]";

/// More than the kernel takes from a server for a client that does not read.
const LONG_NAMES: usize = 20_000;

/// Engines with the knobs under which others than their loops prepare what comes next.
const ELSEWHERE: [(&str, &str); 4] = [
    ("event-loop-helpers", "engine.knobs.kind=processes"),
    ("rings", "engine.knobs.helpers=1"),
    ("fibers", "engine.knobs.blocking_threads=1"),
    ("tasks", "engine.knobs.blocking_threads=0"),
];

#[test]
fn a_client_that_reads_more_slowly_than_the_server_sends_gets_all_of_a_listing() {
    let directory = Temporary::new();
    fs::create_dir_all(directory.path().join("site/many")).unwrap();
    fill(&directory, (0..LONG_NAMES).map(|number| format!("{number:0200}")));
    let specs = crate::engines();
    let is_tested = |name: &str| specs.iter().any(|spec| spec.name == name);
    // A client that is forgotten is cut off after this time, at the latest after half a minute.
    let engines = specs.iter().map(|spec| (spec.name, "timeouts.write_ms=10000"));
    let elsewhere = ELSEWHERE.into_iter().filter(|(name, _)| is_tested(name));
    let cases: Vec<_> = engines.chain(elsewhere).collect();
    at_a_time(2, &cases, |(name, knob)| {
        let engine = format!("engine.name={name}");
        let server = start(&directory, &[&engine, knob, "host.listing=true", CPU]);
        let mut client = begin(&server);
        let mut buffer = vec![0; 200_000];
        let mut page = Vec::new();
        std::thread::sleep(Duration::from_millis(300)); // the socket fills
        while !page.ends_with(b"\r\n0\r\n\r\n") {
            let n = client.read(&mut buffer).unwrap_or_else(|why| panic!("{name} {knob}: {why}"));
            assert!(n > 0, "{name} {knob}: it ends after {} bytes", page.len());
            page.extend_from_slice(&buffer[..n]);
            std::thread::sleep(Duration::from_millis(1));
        }
        let page = String::from_utf8(page).unwrap();
        assert_eq!(page.matches("\"name\":\"").count(), LONG_NAMES, "{name} {knob}");
        server.stop_gracefully(Duration::from_secs(10)).unwrap();
    });
}

fn connect(server: &Server) -> TcpStream {
    let stream = crate::harness::connect(server);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The whole response to a request on a connection of its own.
fn get(server: &Server, path: &str) -> String {
    serving::request(connect(server), path, "").unwrap()
}

/// A client that reads the beginning of a listing and no more.
fn begin(server: &Server) -> TcpStream {
    let mut stream = connect(server);
    let request = b"GET /many/ HTTP/1.1\r\nHost: h\r\nAccept: application/json\r\n\r\n";
    stream.write_all(request).unwrap();
    stream.read_exact(&mut [0; 100]).unwrap();
    stream
}
