//! Files that change while they are served: replaced, rewritten, deleted, created, shortened.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use engines::EngineSpec;
use server::Server;
use testkit::{Temporary, at_a_time};

use crate::harness::{connect, start};
use crate::serving::{self, get, try_get};

/// The time in milliseconds after which entries are checked again.
const REVALIDATE_MS: u64 = 200;

/// A file system's timestamps vouch for an entry once they are two seconds old.
const SETTLED: Duration = Duration::from_millis(2300);

/// How often a change is looked for before it counts as unnoticed: twenty seconds in all, because
/// the test is about whether a change is noticed and not about how fast a busy machine is.
const LOOKS: usize = 800;

/// How many servers are tested at a time: each test sleeps nearly all the time.
const SLEEPERS: usize = 16;

fn for_every_engine(test: impl Fn(&Temporary, &Server) + Sync) {
    // Bodies from memory, and from open files.
    let both = |spec: &EngineSpec| [65_536, 0].map(|bytes_max| (spec.name, bytes_max));
    let variants: Vec<(&str, usize)> = crate::engines().into_iter().flat_map(both).collect();
    at_a_time(SLEEPERS, &variants, |(engine, small_body_bytes_max)| {
        let engine = format!("engine.name={engine}");
        with(&[&engine], *small_body_bytes_max, &test);
    });
}

/// Runs `test` on a server with these settings, and on its site.
fn with(set: &[&str], small_body_bytes_max: usize, test: impl Fn(&Temporary, &Server)) {
    let directory = Temporary::new();
    directory.file("site/a.txt", "first version");
    directory.file("site/deep/er/b.txt", "first version");
    let settings = [
        format!("cache.revalidate_ms={REVALIDATE_MS}"),
        format!("cache.small_body_bytes_max={small_body_bytes_max}"),
    ];
    let server = start(&directory, &[set, &settings.each_ref().map(String::as_str)].concat());
    assert!(get(&server, "/a.txt").ends_with("first version"));
    assert!(get(&server, "/deep/er/b.txt").ends_with("first version"));
    assert!(get(&server, "/new.txt").starts_with("HTTP/1.1 404 "));
    test(&directory, &server);
    server.stop_gracefully(Duration::from_secs(10)).unwrap();
}

/// Checks that a server with these settings notices changes, with all bodies sent from open files.
pub(crate) fn changes_are_noticed(set: &[&str]) {
    with(set, 0, every_kind);
    with(set, 0, never_mixed);
}

/// Repeats a request until the response is as wanted.
fn wait_for(server: &Server, path: &str, wanted: impl Fn(&str) -> bool) {
    let mut last = String::new();
    for _ in 0..LOOKS {
        // A file that is shortened in place may cut the response off.
        last = try_get(server, path).unwrap_or_default();
        if wanted(&last) {
            return;
        }
        thread::sleep(Duration::from_millis(25));
    }
    panic!("{path}: the change was never noticed; last response:\n{last}");
}

/// Error pages are opened beneath the root like every other file. A page that leads out of it from
/// the start is refused by `check`.
#[test]
fn an_error_page_that_comes_to_lead_out_is_not_sent() {
    crate::for_each_engine(|spec| {
        let directory = Temporary::new();
        let page = directory.file("site/404.html", "its own page");
        directory.file("secret.html", "SECRET");
        let engine = format!("engine.name={}", spec.name);
        // The page is the one for 404 whether it is named or not.
        let servers = ["host.error_pages={404=\"/404.html\"}", "host.error_pages={}"]
            .map(|pages| start(&directory, &[&engine, pages, "cache.revalidate_ms=100"]));
        servers.iter().for_each(|it| assert!(get(it, "/missing").ends_with("its own page")));
        fs::remove_file(&page).unwrap();
        std::os::unix::fs::symlink("../secret.html", &page).unwrap();
        for server in servers {
            wait_for(&server, "/missing", |response| !response.ends_with("its own page"));
            let response = get(&server, "/missing");
            assert!(response.starts_with("HTTP/1.1 404 ") && !response.contains("SECRET"));
            server.stop_gracefully(Duration::from_secs(10)).unwrap();
        }
    });
}

/// Without a page for 404 in the configuration, the `404.html` of the root is it while it is there.
#[test]
fn the_page_of_a_root_for_404_comes_and_changes_and_goes() {
    for_every_engine(|directory, server| {
        for round in ["at once", "after the timestamps have settled"] {
            let wait_for_page = |page: &str| {
                let end = format!("\r\n\r\n{page}");
                wait_for(server, "/missing", |response| {
                    response.starts_with("HTTP/1.1 404 ") && response.ends_with(&end)
                });
            };
            if round != "at once" {
                thread::sleep(SETTLED);
                get(server, "/missing");
            }
            let page = directory.file("site/404.html", format!("first page {round}"));
            wait_for_page(&format!("first page {round}"));
            let draft = directory.file("site/.draft", format!("second page {round}"));
            fs::rename(draft, &page).unwrap();
            wait_for_page(&format!("second page {round}"));
            directory.file("site/404.html", format!("SECOND page {round}"));
            wait_for_page(&format!("SECOND page {round}"));
            fs::remove_file(page).unwrap();
            wait_for(server, "/missing", |response| response.contains("<h1>404 Not Found</h1>"));
        }
    });
}

/// All kinds of change, one after the other, each on entries that have settled and on entries that
/// have not.
#[test]
fn every_kind_of_change_is_noticed() {
    for_every_engine(every_kind);
}

fn every_kind(directory: &Temporary, server: &Server) {
    for round in ["at once", "after the timestamps have settled"] {
        let text = format!("second version, {round}");
        if round != "at once" {
            thread::sleep(SETTLED);
            get(server, "/a.txt");
            get(server, "/new.txt");
        }
        // An atomic replacement, as deployments and editors make it.
        let draft = directory.file("site/.draft", &text);
        fs::rename(draft, directory.path().join("site/a.txt")).unwrap();
        wait_for(server, "/a.txt", |response| response.ends_with(&text));
        // A new file where there was none, and its deletion.
        let new = directory.file("site/new.txt", &text);
        wait_for(server, "/new.txt", |response| response.ends_with(&text));
        fs::remove_file(new).unwrap();
        wait_for(server, "/new.txt", |response| response.starts_with("HTTP/1.1 404 "));
        // In place, keeping the length and so the directory as it was.
        let changed = text.replace("second", "SECOND");
        directory.file("site/a.txt", &changed);
        wait_for(server, "/a.txt", |response| response.ends_with(&changed));
        // Truncated in place.
        directory.file("site/a.txt", "short");
        wait_for(server, "/a.txt", |response| response.ends_with("\r\n\r\nshort"));
        // A directory above it replaced by another.
        let (deep, moved) = ("site/deep", format!("site/old {round}"));
        directory.file("site/next/er/b.txt", &text);
        fs::rename(directory.path().join(deep), directory.path().join(moved)).unwrap();
        fs::rename(directory.path().join("site/next"), directory.path().join(deep)).unwrap();
        wait_for(server, "/deep/er/b.txt", |response| response.ends_with(&text));
    }
}

#[test]
fn a_new_sibling_is_noticed() {
    for_every_engine(|directory, server| {
        thread::sleep(SETTLED);
        get(server, "/a.txt");
        directory.file("site/a.txt.gz", "not really gzip");
        wait_for(server, "/a.txt", |response| response.contains("Vary: Accept-Encoding\r\n"));
    });
}

/// Repeats a request with these fields until the response is as wanted.
fn wait_for_with(server: &Server, path: &str, fields: &str, wanted: impl Fn(&str) -> bool) {
    let mut last = String::new();
    for _ in 0..LOOKS {
        last = request(server, path, fields);
        if wanted(&last) {
            return;
        }
        thread::sleep(Duration::from_millis(25));
    }
    panic!("{path} with {fields:?}: never as it should be; last response:\n{last}");
}

fn request(server: &Server, path: &str, fields: &str) -> String {
    serving::request(connect(server), path, fields).unwrap()
}

fn tag(response: &str) -> &str {
    field(response, "ETag")
}

fn field<'r>(response: &'r str, name: &str) -> &'r str {
    find_field(response, name).expect(name)
}

fn find_field<'r>(response: &'r str, name: &str) -> Option<&'r str> {
    let (_, rest) = response.split_once(&format!("\r\n{name}: "))?;
    Some(rest.split_once("\r\n").expect("a line").0)
}

/// Writes a file and sets its time, as unpackers and copiers do.
fn write_dated(directory: &Temporary, name: &str, content: &[u8], ns: u64) {
    let file = File::options().write(true).open(directory.file(name, content)).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_nanos(ns)).unwrap();
}

/// Times that files get from elsewhere: those of npm's packages, of zip archives, of reproducible
/// builds, and of a copy that keeps its time to the nanosecond.
const FOREIGN_NS: [u64; 4] =
    [499_162_500_000_000_000, 315_532_800_000_000_000, 1_000_000_000, 1_600_000_000_123_456_789];

#[test]
fn other_bytes_of_the_same_size_and_time_have_another_tag() {
    for_every_engine(other_bytes_have_another_tag);
}

/// A file replaced by other bytes of the same size and time gets another tag, and no range of it is
/// spliced into the old bytes, on a server that hashes only files that are sent from memory.
#[test]
fn other_bytes_of_the_same_size_and_time_are_not_spliced_under_a_weak_tag() {
    crate::for_each_engine(|spec| {
        let engine = format!("engine.name={}", spec.name);
        with(&[&engine, "host.etag_hash_bytes_max=0"], 0, other_bytes_have_another_tag);
    });
}

fn other_bytes_have_another_tag(directory: &Temporary, server: &Server) {
    for (round, ns) in FOREIGN_NS.into_iter().enumerate() {
        let name = format!("package-{round}.json");
        let (file, path) = (format!("site/{name}"), format!("/{name}"));
        for (name, content) in [("", "{\"version\":\"1.0.1\"}"), (".gz", "gzipped 1.0.1")] {
            write_dated(directory, &format!("{file}{name}"), content.as_bytes(), ns);
        }
        // Requests of a browser, with and without compression.
        for fields in ["", "Accept-Encoding: gzip\r\n"] {
            let first = request(server, &path, fields);
            assert!(first.contains("1.0.1"), "{first}");
            let old = tag(&first).to_string();
            let changed = if fields.is_empty() { file.clone() } else { format!("{file}.gz") };
            let content = fs::read_to_string(directory.path().join(&changed)).unwrap();
            write_dated(directory, &changed, content.replace("1.0.1", "1.0.2").as_bytes(), ns);
            // A file that was rewritten in place may be sent with its old head until it is checked
            // again.
            let is_new = |response: &str| response.contains("1.0.2") && tag(response) != old;
            wait_for_with(server, &path, fields, is_new);
            // Another process may have seen the old file a moment ago.
            let is_whole = |response: &str| response.starts_with("HTTP/1.1 200 ");
            wait_for_with(server, &path, &format!("{fields}If-None-Match: {old}\r\n"), is_whole);
            // Of the file of 1 s past 1970 no date is sent.
            let date = find_field(&first, "Last-Modified");
            for validator in [&*old].into_iter().chain(date) {
                let rest = format!("{fields}Range: bytes=5-\r\nIf-Range: {validator}\r\n");
                wait_for_with(server, &path, &rest, is_whole);
            }
        }
    }
}

/// The date of a file that was written here stands for its bytes as soon as its times have settled,
/// but not if other bytes may have the same date.
#[test]
fn a_date_completes_what_was_written_here() {
    for_every_engine(|directory, server| {
        let with_date = |date: &str| format!("Range: bytes=6-\r\nIf-Range: {date}\r\n");
        let is_part = |response: &str| response.starts_with("HTTP/1.1 206 ");
        let first = get(server, "/a.txt");
        let date = field(&first, "Last-Modified").to_owned();
        wait_for_with(server, "/a.txt", &with_date(&date), |response| {
            is_part(response) && response.ends_with("\r\n\r\nversion")
        });
        // A copy that keeps its time to the nanosecond, within a minute of it.
        let path = directory.path().join("site/a.txt");
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let file = File::options().write(true).open(directory.file("site/a.txt", "Other version"));
        file.unwrap().set_modified(modified).unwrap();
        wait_for(server, "/a.txt", |response| response.ends_with("Other version"));
        thread::sleep(SETTLED);
        // A coding may have the date of another.
        for name in ["site/b.css", "site/b.css.gz"] {
            directory.file(name, "written together");
        }
        thread::sleep(SETTLED);
        let css = field(&get(server, "/b.css"), "Last-Modified").to_owned();
        for (path, date) in [("/a.txt", &date), ("/b.css", &css)].repeat(3) {
            let response = request(server, path, &with_date(date));
            assert!(!is_part(&response), "{response}");
        }
    });
}

#[test]
fn what_is_unchanged_keeps_its_tag() {
    for_every_engine(|directory, server| {
        write_dated(directory, "site/old.txt", b"0123456789", FOREIGN_NS[0]);
        let first = get(server, "/old.txt");
        let (tag, rest) = (tag(&first), "Range: bytes=5-\r\n");
        let check = |fields: &str, status: &str| {
            let response = request(server, "/old.txt", fields);
            assert!(response.starts_with(status), "{fields}{response}");
        };
        for _ in 0..2 {
            check(&format!("If-None-Match: {tag}\r\n"), "HTTP/1.1 304 ");
            check(&format!("{rest}If-Range: {tag}\r\n"), "HTTP/1.1 206 ");
            thread::sleep(SETTLED);
        }
        // The same bytes, written again: as by a reproducible build, or on another host.
        write_dated(directory, "site/again.txt", b"0123456789", FOREIGN_NS[1]);
        assert_eq!(self::tag(&get(server, "/again.txt")), tag);
    });
}

/// A precompressed sibling that is older than its file was made from an earlier version.
#[test]
fn a_sibling_older_than_its_file_is_left_out_and_reported() {
    const S: u64 = 1_000_000_000;
    const THEN: u64 = 1_600_000_000 * S;
    crate::for_each_engine(|spec| {
        let directory = Temporary::new();
        write_dated(&directory, "site/app.js", b"whole", THEN + 100 * S);
        write_dated(&directory, "site/app.js.br", b"squeezed", THEN);
        write_dated(&directory, "site/app.js.gz", b"packed", THEN + 40 * S);
        let server = start(&directory, &[&format!("engine.name={}", spec.name)]);
        let [old, new] = ["br", "gzip"].map(|coding| format!("Accept-Encoding: {coding}\r\n"));
        assert!(request(&server, "/app.js", &old).ends_with("whole"));
        assert!(request(&server, "/app.js", &new).ends_with("packed"));
        if server.worker_processes().is_empty() {
            let notices: Vec<_> = (0..3).flat_map(|_| server.take_notices()).collect();
            let [notices] = notices.as_slice() else { panic!("{notices:?}") };
            assert!(notices.starts_with("\"app.js.br\" is left out: "), "{notices}");
        }
        write_dated(&directory, "site/app.js.br", b"squeezed anew", THEN + 100 * S);
        wait_for_with(&server, "/app.js", &old, |response| response.ends_with("squeezed anew"));
        server.stop_gracefully(Duration::from_secs(10)).unwrap();
    });
}

/// The operator sets how much older a sibling may be.
#[test]
fn a_sibling_as_old_as_may_be_is_sent() {
    const S: u64 = 1_000_000_000;
    for (lag, expected) in [("100", "squeezed"), ("99", "whole"), ("any", "squeezed")] {
        let directory = Temporary::new();
        write_dated(&directory, "site/app.js", b"whole", 1_600_000_100 * S);
        write_dated(&directory, "site/app.js.br", b"squeezed", 1_600_000_000 * S);
        let server = start(&directory, &[&format!("host.precompressed_lag_s_max={lag}")]);
        let response = request(&server, "/app.js", "Accept-Encoding: br\r\n");
        assert!(response.ends_with(expected), "{lag}: {response}");
        server.stop_gracefully(Duration::from_secs(10)).unwrap();
    }
}

/// Cached entries are subject to the policy for links, too.
#[test]
fn a_directory_that_becomes_a_link_is_not_followed_to_what_is_cached() {
    for (policy, target) in [("beneath", OUT), ("never", OUT), ("never", WITHIN)] {
        let policy = format!("host.symlinks={policy}");
        let both = |spec: &EngineSpec| [65_536, 0].map(|bytes_max| (spec.name, bytes_max));
        let variants: Vec<(&str, usize)> = crate::engines().into_iter().flat_map(both).collect();
        at_a_time(SLEEPERS, &variants, |(engine, small_body_bytes_max)| {
            let engine = format!("engine.name={engine}");
            with(
                &[&engine, &policy, "host.listing=true"],
                *small_body_bytes_max,
                |site, server| {
                    becomes_a_link(site, server, target);
                },
            );
        });
    }
}

/// Where a link leads from within the site: out of it, or to another part of it.
const OUT: &str = "../elsewhere";
const WITHIN: &str = "elsewhere";

fn becomes_a_link(directory: &Temporary, server: &Server, target: &str) {
    directory.file("site/deep/index.html", "first version");
    fs::create_dir(directory.path().join("site/deep/listed")).unwrap();
    let paths = ["/deep/er/b.txt", "/deep/er", "/deep/", "/deep/listed/"];
    let wait_for_status = |status: &str| {
        for path in paths {
            wait_for(server, path, |response| response.starts_with(status));
        }
    };
    let request_again = || paths.map(|path| get(server, path));
    request_again();
    thread::sleep(SETTLED);
    request_again(); // the timestamps of the entries count from here on
    let (place, elsewhere) = ("site/deep", format!("site/{target}"));
    let [place, elsewhere] = [place, &elsewhere].map(|path| directory.path().join(path));
    fs::rename(&place, &elsewhere).unwrap();
    std::os::unix::fs::symlink(target, &place).unwrap();
    wait_for_status("HTTP/1.1 404 ");
    fs::remove_file(&place).unwrap();
    fs::rename(&elsewhere, &place).unwrap();
    for path in paths {
        wait_for(server, path, |response| !response.starts_with("HTTP/1.1 404 "));
    }
}

#[test]
fn a_dangling_link_is_served_once_its_target_exists() {
    for_every_engine(|directory, server| {
        std::os::unix::fs::symlink("deep/er/c.txt", directory.path().join("site/link")).unwrap();
        wait_for(server, "/link", |response| response.starts_with("HTTP/1.1 404 "));
        thread::sleep(SETTLED);
        get(server, "/link");
        directory.file("site/deep/er/c.txt", "there");
        wait_for(server, "/link", |response| response.ends_with("there"));
    });
}

#[test]
fn a_root_that_is_a_link_follows_it_to_the_next_release() {
    crate::for_each_engine(|spec| {
        let directory = Temporary::new();
        directory.file("one/index.html", "release one");
        directory.file("two/index.html", "release two");
        let link = directory.path().join("site");
        std::os::unix::fs::symlink("one", &link).unwrap();
        let settings = [format!("engine.name={}", spec.name)];
        let server = start(&directory, &settings.each_ref().map(String::as_str));
        assert!(get(&server, "/").ends_with("release one"));
        let next = directory.path().join("next");
        std::os::unix::fs::symlink("two", &next).unwrap();
        fs::rename(next, link).unwrap();
        wait_for(&server, "/", |response| response.ends_with("release two"));
        server.stop_gracefully(Duration::from_secs(10)).unwrap();
    });
}

#[test]
fn versions_are_never_mixed_while_a_file_is_replaced_under_load() {
    for_every_engine(never_mixed);
}

fn never_mixed(directory: &Temporary, server: &Server) {
    let versions = [b'a', b'b'].map(|byte| vec![byte; 300_000]);
    let path = directory.file("site/swap.bin", &versions[0]);
    for round in 0..60 {
        let draft = directory.file("site/.draft", &versions[round % 2]);
        fs::rename(draft, &path).unwrap();
        let response = get(server, "/swap.bin");
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(versions.iter().any(|version| body.as_bytes() == version), "a mixed version");
    }
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_ends_the_connection() {
    const LEN: u64 = 64 << 20;
    for_every_engine(|directory, server| {
        let path = directory.file("site/shrinks.bin", "");
        let file = File::options().write(true).open(path).unwrap();
        file.set_len(LEN).unwrap();
        let mut stream = connect(server);
        stream.write_all(b"GET /shrinks.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let mut head = [0; 17];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200 OK\r\n");
        file.set_len(1000).unwrap();
        let mut received = Vec::new();
        // A reset is an honest end too.
        let _ = stream.read_to_end(&mut received);
        assert!((received.len() as u64) < LEN, "{} bytes came", received.len());
        let body = received.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
        let is_the_files = |part: &[u8]| *part == [0; 4096][..part.len()];
        assert!(received[body..].chunks(4096).all(is_the_files), "bytes that are not the file's");
    });
}
