//! Listings of directories that are large.

use std::fs::{self, File};
use std::io::Read;
use std::time::Duration;

use engines::ENGINES;
use testkit::Temporary;

use crate::serving::{connect, get, start};

const ENTRIES: usize = 100_000;

#[test]
fn a_hundred_thousand_entries_are_listed_whole_and_in_order() {
    let directory = Temporary::new();
    fs::create_dir_all(directory.path().join("site/many")).unwrap();
    for number in 0..ENTRIES {
        // Made in an order that is not the one they are listed in.
        let name = format!("site/many/{:06}.txt", number * 7919 % ENTRIES);
        File::create(directory.path().join(name)).unwrap();
    }
    for spec in ENGINES {
        let engine = format!("engine.name={}", spec.name);
        let server = start(&directory, &[&engine, "host.listing=true", "partitions.cpus=[\"0\"]"]);
        // Somebody who never reads on must not keep others from being served.
        let mut stalled = connect(&server);
        std::io::Write::write_all(
            &mut stalled,
            b"GET /many/ HTTP/1.1\r\nHost: h\r\nAccept: application/json\r\n\r\n",
        )
        .unwrap();
        stalled.read_exact(&mut [0; 100]).unwrap();
        let page = get(&server, "/many/");
        let names = page.match_indices("href=\"./").map(|(at, _)| &page[at + 8..at + 18]);
        let mut expected = 0;
        for name in names {
            assert_eq!(name, format!("{expected:06}.txt"));
            expected += 1;
        }
        assert_eq!(expected, ENTRIES);
        drop(stalled);
        server.stop_gracefully(Duration::from_secs(10)).unwrap();
    }
}
