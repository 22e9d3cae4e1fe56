//! Tests with real clients: curl, wrk, h2load, and Chromium, which loads every page of
//! `examples/site`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use testkit::Temporary;
use testkit::tools::{CHROMIUM, CURL, H2LOAD, WRK};

use crate::REPOSITORY;
use crate::machine::{has, run};
use crate::server_process::{ServerProcess, served};

/// A server of `examples/site` with further arguments.
fn start(arguments: &[&str]) -> ServerProcess {
    served(Path::new("examples/site"), arguments)
}

fn site_file(path: &str) -> Vec<u8> {
    std::fs::read(Path::new(REPOSITORY).join("examples/site").join(path)).unwrap()
}

/// A server with curl as its client.
struct Curl {
    server: ServerProcess,
    directory: Temporary,
}

impl Curl {
    /// Checks the status and the size of a download, with `arguments` before the URL.
    #[track_caller]
    fn check(&self, arguments: &[&str], path: &str, status: u16, len: usize) {
        let mut curl = self.command(arguments);
        let (ok, out, error) = run(curl.arg(self.server.url(path)));
        assert!(ok, "{arguments:?} {path}: {error}");
        assert_eq!(out, format!("{status} {len}"), "{arguments:?} {path}");
    }

    /// Checks the status of a download of any size, with `arguments` before the URL.
    #[track_caller]
    fn status(&self, arguments: &[&str], path: &str, status: u16) {
        let mut curl = self.command(arguments);
        let (ok, out, error) = run(curl.arg(self.server.url(path)));
        assert!(ok, "{arguments:?} {path}: {error}");
        assert!(out.starts_with(&format!("{status} ")), "{arguments:?} {path}: {out}");
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut curl = Command::new("curl");
        curl.args(["--disable", "--silent", "--show-error", "--max-time", "20"]);
        curl.args(["--output", "body", "--write-out", "%{http_code} %{size_download}"]);
        curl.args(arguments).current_dir(self.directory.path());
        curl
    }

    fn body(&self) -> Vec<u8> {
        std::fs::read(self.directory.path().join("body")).unwrap()
    }
}

fn curl() -> Option<Curl> {
    has(&CURL).then(|| Curl { server: start(&[]), directory: Temporary::new() })
}

#[test]
fn curl_gets_files_and_parts_of_them() {
    let Some(curl) = curl() else { return };
    let page = site_file("index.html");
    curl.check(&[], "/", 200, page.len());
    assert_eq!(curl.body(), page);
    let table = site_file("downloads/strands.csv");
    curl.check(&[], "/downloads/strands.csv", 200, table.len());
    assert_eq!(curl.body(), table);
    let part = |range: &str, first: usize, len: usize| {
        curl.check(&["--range", range], "/downloads/strands.csv", 206, len);
        assert_eq!(curl.body(), table[first..first + len], "{range}");
    };
    part("0-99", 0, 100);
    part("-100", table.len() - 100, 100);
    part("700000-", 700_000, table.len() - 700_000);
    // A download that was cut off is continued where it ended.
    curl.directory.file("body", &table[..1000]);
    let resume = ["--continue-at", "-"];
    curl.check(&resume, "/downloads/strands.csv", 206, table.len() - 1000);
    assert_eq!(curl.body(), table);
}

#[test]
fn curl_asks_for_heads_old_versions_and_what_is_not_there() {
    let Some(curl) = curl() else { return };
    let page = site_file("index.html").len();
    curl.check(&["--http1.0"], "/", 200, page);
    curl.check(&["--location"], "/craft", 200, site_file("craft/index.html").len());
    curl.status(&["--head"], "/", 200);
    assert!(String::from_utf8_lossy(&curl.body()).contains(&format!("Content-Length: {page}\r\n")));
    curl.status(&[], "/no-such", 404);
    curl.status(&["--data", "a=b"], "/", 405);
    curl.status(&["--request", "OPTIONS"], "/", 204);
    curl.status(&["--request", "PROPFIND"], "/", 501);
    curl.status(&["--path-as-is"], "/../../etc/passwd", 400);
}

#[test]
fn curl_decodes_what_it_can() {
    let Some(curl) = curl() else { return };
    let style = site_file("assets/site.css");
    let (_, version, _) = run(Command::new("curl").arg("--version"));
    let codings = [("brotli", "br"), ("zstd", "zstd"), ("libz", "gzip")];
    for (_, coding) in codings.iter().filter(|(feature, _)| version.contains(feature)) {
        let accept = format!("Accept-Encoding: {coding}");
        let arguments = ["--compressed", "--header", &accept, "--dump-header", "head"];
        curl.status(&arguments, "/assets/site.css", 200);
        assert_eq!(curl.body(), style, "{coding}");
        let head = std::fs::read_to_string(curl.directory.path().join("head")).unwrap();
        assert!(head.contains(&format!("Content-Encoding: {coding}\r\n")), "{head}");
    }
}

#[test]
fn curl_asks_only_for_what_is_new() {
    let Some(curl) = curl() else { return };
    let len = site_file("images/coil.png").len();
    let tag = ["--etag-save", "tag", "--etag-compare", "tag"];
    curl.directory.file("tag", "");
    curl.check(&tag, "/images/coil.png", 200, len);
    curl.check(&tag, "/images/coil.png", 304, 0);
    curl.check(&["--time-cond", "Sat, 01 Jan 2000 00:00:00 GMT"], "/images/coil.png", 200, len);
    curl.directory.file("stamp", ""); // curl sends this file's time in If-Modified-Since
    curl.check(&["--time-cond", "stamp"], "/images/coil.png", 304, 0);
    curl.status(&["--time-cond", "-Sat, 01 Jan 2000 00:00:00 GMT"], "/images/coil.png", 412);
}

/// curl waits for 100 (Continue) before a large body; it gets the final answer at once.
#[test]
fn curl_need_not_send_an_unwanted_body() {
    let Some(curl) = curl() else { return };
    // The body is much larger than what the server reads of an unwanted body, and no larger than
    // what it drops after the answer: a client that sends more is cut off, and may have had no time
    // to read the answer.
    let body = curl.directory.file("large", vec![b'x'; 1_000_000]);
    let data = format!("@{}", body.display());
    let expect = ["--data-binary", &data, "--header", "Expect: 100-continue"];
    let (ok, out, error) = run(curl
        .command(&expect)
        .args(["--expect100-timeout", "15", "--write-out", " %{size_upload}"])
        .arg(curl.server.url("/")));
    assert!(ok, "{error}");
    assert_eq!(out, " 0", "nothing was sent");
    curl.status(&["--data-binary", &data, "--header", "Expect:"], "/", 405);
}

#[test]
fn curl_asks_a_hundred_times_over_one_connection() {
    let Some(curl) = curl() else { return };
    let mut command = curl.command(&["--write-out", "%{http_code} %{num_connects}\n"]);
    let paths = ["/", "/assets/site.css", "/images/coil.png", "/downloads/strands.csv", "/no-such"];
    for path in paths.iter().cycle().take(100) {
        command.args(["--output", "body", &curl.server.url(path)]);
    }
    let (ok, out, error) = run(&mut command);
    assert!(ok, "{error}");
    let lines: Vec<&str> = out.lines().collect();
    let count = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!((lines.len(), count("200 "), count("404 ")), (100, 80, 20), "{out}");
    assert_eq!((count(" 1"), count(" 0")), (1, 99), "{out}");
}

#[test]
fn wrk_finds_no_error() {
    if !has(&WRK) {
        return;
    }
    let server = start(&[]);
    for path in ["/", "/downloads/strands.csv"] {
        // A response that takes longer than the timeout is an error, of which a busy machine has
        // many after wrk's two seconds.
        let load =
            ["--threads", "2", "--connections", "20", "--duration", "1s", "--timeout", "60s"];
        let (ok, out, error) = run(Command::new("wrk").args(load).arg(server.url(path)));
        assert!(ok, "{error}");
        assert!(out.contains(" requests in "), "{out}");
        assert!(!out.contains("Socket errors") && !out.contains("Non-2xx"), "{out}");
    }
}

#[test]
fn h2load_succeeds_every_time() {
    if !has(&H2LOAD) {
        return;
    }
    let server = start(&[]);
    let load = ["--h1", "--requests=2000", "--clients=20"];
    let (ok, out, error) = run(Command::new("h2load").args(load).arg(server.url("/")));
    assert!(ok, "{error}");
    let expected = "2000 total, 2000 started, 2000 done, 2000 succeeded, 0 failed, 0 errored";
    assert!(out.contains(expected), "{out}");
    assert!(out.contains("2000 2xx, 0 3xx, 0 4xx, 0 5xx"), "{out}");
}

/// The pages of the site, with their files.
const PAGES: [(&str, &str); 4] = [
    ("/", "index.html"),
    ("/strands.html", "strands.html"),
    ("/craft/", "craft/index.html"),
    ("/404.html", "404.html"),
];

#[test]
fn chromium_loads_every_resource_of_every_page() {
    if !has(&CHROMIUM) {
        return;
    }
    for (path, file) in PAGES {
        let directory = Temporary::new();
        let log = directory.path().join("access.log");
        let to_log = format!("log.path={}", log.display());
        let server = start(&["--log", "json", "--set", &to_log]);
        let printed = browse(&server.url(path), directory.path());
        server.stop();
        let console: Vec<_> = printed.lines().filter(|line| line.contains("CONSOLE")).collect();
        assert!(console.is_empty(), "{path}: {console:?}");
        let fetched = statuses(&std::fs::read_to_string(log).unwrap());
        for resource in resources(file).iter().map(String::as_str).chain([path]) {
            let status = fetched.get(resource);
            assert!(matches!(status, Some(200 | 206 | 304)), "{path}: {resource} {status:?}");
        }
        assert!(fetched.values().all(|status| *status < 400), "{path}: {fetched:?}");
    }
}

/// Renders a page in a window high enough for all of it; returns the browser's output.
fn browse(url: &str, directory: &Path) -> String {
    let flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
                 --disable-background-networking --disable-component-update --disable-sync \
                 --disable-dev-shm-usage --enable-logging=stderr --v=0 --window-size=1280,6000";
    let profile = format!("--user-data-dir={}", directory.join("profile").display());
    let picture = directory.join("page.png");
    let screenshot = format!("--screenshot={}", picture.display());
    let mut chromium = Command::new("timeout");
    chromium.args(["300", "chromium"]).args(flags.split_whitespace());
    let (ok, _, error) = run(chromium.args([&profile, &screenshot, url]));
    assert!(ok && picture.exists(), "{url}: {error}");
    error
}

/// The last status by path, from the access log.
fn statuses(log: &str) -> BTreeMap<String, u64> {
    let entry = |line: &str| {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        let target = entry["target"].as_str().unwrap_or_else(|| panic!("{line}")).to_owned();
        (target, entry["status"].as_u64().unwrap())
    };
    log.lines().map(entry).collect()
}

/// The files that a page needs: the ones named in `src`, its icon and style sheets, and the fonts
/// that these name.
fn resources(page: &str) -> Vec<String> {
    let text = |file: &str| String::from_utf8(site_file(file)).unwrap();
    let html = text(page);
    let links = html.lines().filter(|line| line.contains("<link"));
    let linked: Vec<&str> = links.flat_map(|line| quoted(line, "href=\"")).collect();
    let styles = linked.iter().filter(|link| link.ends_with(".css"));
    let styles: Vec<String> = styles.map(|style| text(style.trim_start_matches('/'))).collect();
    let fonts = styles.iter().flat_map(|style| quoted(style, "url(\""));
    let all = quoted(&html, "src=\"").chain(linked.iter().copied()).chain(fonts);
    let all: Vec<String> = all.map(str::to_owned).collect();
    assert!(all.len() >= 5, "{page} has lost its resources: {all:?}");
    all
}

/// The texts between each `before` and the next quote.
fn quoted<'t>(text: &'t str, before: &'t str) -> impl Iterator<Item = &'t str> {
    text.split(before).skip(1).filter_map(|rest| rest.split('"').next())
}
