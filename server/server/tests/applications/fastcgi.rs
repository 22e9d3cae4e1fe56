//! Scripts over FastCGI, on every engine that calls applications.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use engines::EngineSpec;
use testkit::{Temporary, comes_true};

use crate::fastcgi_server::{Asked, Does, FastCgiServer, end, record, reply};
use crate::harness::{Running, connect, site, start, take_head};
use crate::{answer, ask, for_each_engine, takes_event};

const HTML: &str = "Content-Type: text/html";

/// A site with scripts, whose text no client must get.
fn scripts() -> Temporary {
    let directory = site();
    for script in ["a.php", "index.php", "sub/index.php", "picture.jpg", "page.php.html"] {
        directory.file(&format!("site/{script}"), "<?php secret ?>");
    }
    directory
}

/// A FastCGI server and one of sites in front of it.
struct Pair {
    php: FastCgiServer,
    server: Running,
}

impl Pair {
    fn start(
        spec: &EngineSpec,
        directory: &Temporary,
        keys: &str,
        script: impl Fn(&Asked) -> Vec<Does> + Send + Sync + 'static,
    ) -> Self {
        let path = directory.path().join(format!("{}.sock", spec.name));
        let php = FastCgiServer::start(path, script);
        let route = format!(
            "host.route=[{{ path = \"**.php\", fastcgi = \"unix:{}\"{keys} }}]",
            php.path().display()
        );
        let server = start(
            directory,
            &[
                &format!("engine.name={}", spec.name),
                &route,
                "host.index=[\"index.php\", \"index.html\"]",
                "host.html_suffix=true",
                "host.redirect=[{ from = \"/old.php\", to = \"/new\" }]",
            ],
        );
        Self { php, server }
    }

    fn connect(&self) -> TcpStream {
        connect(&self.server)
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")
}

#[test]
fn scripts_are_run_and_files_are_sent() {
    let directory = scripts();
    for_each_engine(|spec| {
        let pair = Pair::start(spec, &directory, "", |asked| {
            let told = ["SCRIPT_NAME", "PATH_INFO", "REQUEST_URI", "QUERY_STRING"];
            let told = told.map(|name| asked.variable(name)).join(" ");
            reply(HTML, told.as_bytes())
        });
        let mut client = pair.connect();
        for (target, expected) in [
            ("/a.php?b=c", "/a.php - /a.php?b=c b=c"),
            ("/%61.php", "/a.php - /%61.php "),
            ("/a.php/x/y?q", "/a.php /x/y /a.php/x/y?q q"),
            ("/", "/index.php - / "),
            ("/sub/?q", "/sub/index.php - /sub/?q q"),
            ("/index.html", "<h1>Rope</h1>"),
        ] {
            let answered = ask(&mut client, &get(target));
            assert_eq!(answered, (200, expected.into()), "{}: {target}", spec.name);
        }
        let requests = pair.php.requests();
        assert_eq!(requests.len(), 5);
        let root = directory.path().join("site").display().to_string();
        let first = &requests[0];
        assert_eq!(first.variable("DOCUMENT_ROOT"), root);
        assert_eq!(first.variable("SCRIPT_FILENAME"), format!("{root}/a.php"));
        assert_eq!(first.variable("PATH_TRANSLATED"), "-");
        assert_eq!(requests[2].variable("PATH_TRANSLATED"), format!("{root}/x/y"));
        assert_eq!(first.variable("REMOTE_ADDR"), "127.0.0.1");
        let port = client.local_addr().unwrap().port().to_string();
        assert_eq!(first.variable("REMOTE_PORT"), port);
        assert_eq!((first.variable("HTTP_HOST"), first.variable("SERVER_PORT")), ("h", "80"));
        // By default each request has a connection of its own: a process has one at a time.
        assert_eq!(pair.php.connections(), 5, "{}", spec.name);
        let summary = pair.server.stop_gracefully(Duration::from_secs(10)).unwrap();
        assert_eq!(summary.requests, 6, "{}", spec.name);
    });
}

/// An application in a container has the site elsewhere: it is told so, and the script is looked up
/// in the site all the same.
#[test]
fn an_application_may_have_the_site_elsewhere() {
    let directory = scripts();
    for_each_engine(|spec| {
        let pair = Pair::start(spec, &directory, ", root = \"/app\"", |asked| {
            let told = ["DOCUMENT_ROOT", "SCRIPT_FILENAME", "PATH_TRANSLATED"];
            reply(HTML, told.map(|name| asked.variable(name)).join(" ").as_bytes())
        });
        let mut client = pair.connect();
        let told = (200, "/app /app/a.php /app/x/y".into());
        assert_eq!(ask(&mut client, &get("/a.php/x/y")), told, "{}", spec.name);
        assert_eq!(ask(&mut client, &get("/none.php")).0, 404, "{}", spec.name);
    });
}

/// Only what is a file is run (CVE-2019-11043, caddy 4614 and their kin), and the text of a script
/// is never sent: not by another name, by no method, and not for a directory.
#[test]
fn what_is_no_script_is_not_run_and_no_script_is_sent() {
    let directory = scripts();
    std::fs::create_dir(directory.path().join("site/dir.php")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", directory.path().join("site/out.php")).unwrap();
    for_each_engine(|spec| {
        let pair = Pair::start(spec, &directory, ", methods = [\"GET\"]", |_| reply(HTML, b"run"));
        for (method, target, status) in [
            ("GET", "/none.php", 404),
            ("GET", "/picture.jpg/x.php", 404),
            ("GET", "/page.php", 404),
            ("GET", "/dir.php", 404),
            ("GET", "/dir.php/x", 404),
            ("GET", "/out.php", 404),
            ("GET", "/old.php", 301),
            ("GET", "/.hidden.php", 404),
            ("GET", "/a.php%00", 400),
            ("GET", "/a.php%0a/x.php", 400),
            ("GET", "/a.php%2fx", 400),
            ("POST", "/a.php", 404),
            ("HEAD", "/a.php", 404),
            ("GET", "/a.php", 200),
        ] {
            let mut client = pair.connect();
            let head = format!("{method} {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n");
            client.write_all(format!("{head}\r\n").as_bytes()).unwrap();
            let mut got = String::new();
            client.read_to_string(&mut got).unwrap();
            assert!(got.starts_with(&format!("HTTP/1.1 {status} ")), "{}: {head} {got}", spec.name);
            assert!(!got.contains("secret"), "{}: {head}", spec.name);
        }
        assert_eq!(pair.php.requests().len(), 1, "{}", spec.name);
    });
}

/// Bodies larger than all buffers on the way, in both directions, while the client does not read.
#[test]
fn large_bodies_pass_in_both_directions() {
    let directory = scripts();
    let body: Vec<u8> = (0..2_000_000_u32).map(|n| b'a' + (n % 23) as u8).collect();
    for_each_engine(|spec| {
        let pair = Pair::start(spec, &directory, "", |asked| reply(HTML, &asked.body));
        let mut client = pair.connect();
        let head = format!(
            "POST /a.php HTTP/1.1\r\nHost: h\r\nContent-Type: text/x\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        client.write_all(head.as_bytes()).unwrap();
        client.write_all(&body).unwrap();
        std::thread::sleep(Duration::from_millis(50)); // sockets and queues fill
        let (status, got) = answer(&mut BufReader::new(&mut client));
        assert!(status == 200 && got.as_bytes() == body, "{}", spec.name);
        let asked = &pair.php.requests()[0];
        assert_eq!(asked.variable("CONTENT_LENGTH"), body.len().to_string());
        assert_eq!(asked.variable("CONTENT_TYPE"), "text/x");
        assert_eq!(ask(&mut client, &get("/index.html")).0, 200, "the connection goes on");
    });
}

/// A body that waits while the script is looked up, which is then not there.
#[test]
fn the_body_for_a_missing_script_is_dropped() {
    let directory = scripts();
    for_each_engine(|spec| {
        let pair = Pair::start(spec, &directory, "", |_| reply(HTML, b"run"));
        let mut client = pair.connect();
        for path in ["/none.php", "/a.php"] {
            let head = format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n");
            client.write_all(head.as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(20));
            let status = ask(&mut client, "hello").0;
            assert_eq!(status, if path == "/a.php" { 200 } else { 404 }, "{}", spec.name);
        }
        let large = "POST /a.php HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999\r\n\r\n";
        assert_eq!(ask(&mut client, large).0, 413, "{}", spec.name);
    });
}

/// Ends, nonsense and refusals, by the query.
fn failing(asked: &Asked) -> Vec<Does> {
    match asked.variable("QUERY_STRING") {
        "close" => vec![Does::Close],
        "http" => vec![Does::Send(b"HTTP/1.1 200 OK\r\n\r\n".to_vec())],
        "other" => vec![Does::Send(vec![1, 6, 0, 2, 0, 1, 0, 0, b'x'])],
        "head" => reply("X: y", b""),
        "error" => vec![Does::Send(record(7, b"PHP Fatal error")), Does::Send(end(0))],
        "full" => vec![Does::Send(end(2))],
        "stall" => vec![Does::Stall],
        "moved" => reply("Location: http://h/elsewhere", b""),
        "teapot" => reply("Status: 418 Teapot", b""),
        _ => reply(HTML, b"ok"),
    }
}

#[test]
fn failures_have_their_status_and_the_server_goes_on() {
    let (directory, another) = (scripts(), scripts());
    for_each_engine(|spec| {
        // Only a request that is to be late may be: on a busy machine each of them takes its time.
        let pair = Pair::start(spec, &directory, "", failing);
        let impatient = Pair::start(spec, &another, ", first_byte_ms = 200", failing);
        let (mut client, mut hurried) = (pair.connect(), impatient.connect());
        for (query, status) in [
            ("close", 502),
            ("http", 502),
            ("other", 502),
            ("head", 502),
            ("error", 502),
            ("full", 503),
            ("stall", 504),
            ("moved", 302),
            ("teapot", 418),
            ("ok", 200),
        ] {
            let client = if status == 504 { &mut hurried } else { &mut client };
            let answered = ask(client, &get(&format!("/a.php?{query}"))).0;
            assert_eq!(answered, status, "{}: {query}", spec.name);
        }
    });
}

/// A process that crashes in the middle of its reply.
#[test]
fn a_reply_without_its_end_is_broken_off() {
    let directory = scripts();
    for_each_engine(|spec| {
        let pair = Pair::start(spec, &directory, "", |_| {
            let output = format!("{HTML}\r\n\r\nhalf");
            vec![Does::Send(record(6, output.as_bytes())), Does::Close]
        });
        let mut client = pair.connect();
        client.write_all(get("/a.php").as_bytes()).unwrap();
        let mut got = Vec::new();
        let end = client.read_to_end(&mut got);
        assert!(end.is_err(), "{}: an orderly end would look whole: {got:?}", spec.name);
    });
}

/// docker-library/php 878: warnings are not content, and no failure.
#[test]
fn standard_error_never_reaches_the_client() {
    let directory = scripts();
    for_each_engine(|spec| {
        let pair = Pair::start(spec, &directory, "", |_| {
            let warning = record(7, &b"PHP Warning: x\n".repeat(4000));
            let parts = [
                warning.clone(),
                record(6, b"Content-Type: a/b\r\nContent-Le"),
                warning.clone(),
                record(6, b"ngth: 2\r\n\r\no"),
                warning,
                record(6, b"k"),
                record(6, b""),
                end(0),
            ];
            vec![Does::Send(parts.concat())]
        });
        let mut client = pair.connect();
        for _ in 0..3 {
            assert_eq!(ask(&mut client, &get("/a.php")), (200, "ok".into()), "{}", spec.name);
        }
    });
}

/// haproxy 2936: a kept connection is a process that no other connection gets.
#[test]
fn connections_are_kept_where_the_operator_says_how_many_there_are() {
    let directory = scripts();
    for_each_engine(|spec| {
        let pair = Pair::start(spec, &directory, ", children = 64", |_| reply(HTML, b"ok"));
        let mut client = pair.connect();
        for _ in 0..5 {
            assert_eq!(ask(&mut client, &get("/a.php")).0, 200, "{}", spec.name);
        }
        // A call may begin before the connection of the last one is at rest.
        let keeps = spec.name != "processes";
        assert_eq!(pair.php.connections() < 5, keeps, "{}", spec.name);
    });
}

/// haproxy 2936: a connection at rest is a process that no other request gets.
#[test]
fn no_more_connections_are_kept_than_there_are_processes() {
    let directory = scripts();
    for_each_engine(|spec| {
        let keys = ", children = 14, idle_ms = 60000";
        let pair = Pair::start(spec, &directory, keys, |_| reply(HTML, b"ok"));
        let mut clients: Vec<TcpStream> = (0..30).map(|_| pair.connect()).collect();
        // All at a time, so that as many connections are made as may be.
        for client in &mut clients {
            client.write_all(get("/a.php").as_bytes()).unwrap();
        }
        for client in &mut clients {
            assert_eq!(answer(&mut BufReader::new(client)).0, 200, "{}", spec.name);
        }
        assert!(comes_true(|| pair.php.open() <= 14), "{}: {}", spec.name, pair.php.open());
    });
}

/// nginx-php-fpm 143, caddy 4025, puma 1449: a socket in the file system refuses at once when its
/// backlog is full (connect(2), EAGAIN).
#[test]
fn a_full_backlog_is_waited_for_and_then_answered_with_503() {
    let directory = scripts();
    for_each_engine(|spec| {
        let path = directory.path().join(format!("{}.sock", spec.name));
        let listener = UnixListener::bind(&path).unwrap();
        os::socket::set_backlog(listener.as_fd(), 1).unwrap();
        let _waiting: Vec<_> =
            std::iter::from_fn(|| os::socket::connect_unix(&path).ok()).collect();
        let route = format!(
            "host.route=[{{ path = \"**.php\", fastcgi = \"unix:{}\", connect_ms = 200 }}]",
            path.display()
        );
        let server = start(&directory, &[&format!("engine.name={}", spec.name), &route]);
        let mut client = connect(&server);
        assert_eq!(ask(&mut client, &get("/a.php")).0, 503, "{}", spec.name);
        assert_eq!(ask(&mut client, &get("/index.html")).0, 200, "{}", spec.name);
    });
}

/// cherokee 84: a process is not kept busy for a client that has gone.
#[test]
fn a_client_that_leaves_takes_its_request_with_it() {
    let directory = scripts();
    for_each_engine(|spec| {
        let pair = Pair::start(spec, &directory, "", |_| vec![Does::Stall]);
        let mut client = pair.connect();
        client.write_all(get("/a.php").as_bytes()).unwrap();
        assert!(comes_true(|| pair.php.requests().len() == 1));
        drop(client);
        assert!(comes_true(|| pair.php.open() == 0), "{}", spec.name);
    });
}

#[test]
fn an_event_arrives_before_the_script_ends() {
    let directory = scripts();
    for_each_engine(|spec| {
        let pair = Pair::start(spec, &directory, "", |_| {
            let head = record(6, b"Content-Type: text/event-stream\r\n\r\n");
            vec![Does::Send(head), Does::Send(record(6, b"data: 1\n\n")), Does::Stall]
        });
        let mut client = pair.connect();
        client.write_all(get("/a.php").as_bytes()).unwrap();
        takes_event(&mut client, spec);
    });
}

/// Programs without script files: all of a path is theirs.
#[test]
fn without_a_suffix_the_whole_path_is_the_applications() {
    let directory = site();
    for_each_engine(|spec| {
        let path = directory.path().join(format!("{}.sock", spec.name));
        let application = FastCgiServer::start(path, |asked| {
            let told = ["SCRIPT_NAME", "PATH_INFO", "SCRIPT_FILENAME"];
            reply(HTML, told.map(|name| asked.variable(name)).join("|").as_bytes())
        });
        let route = format!(
            "host.route=[{{ path = \"/app/**\", fastcgi = \"unix:{}\", suffix = \"\" }}]",
            application.path().display()
        );
        let server = start(&directory, &[&format!("engine.name={}", spec.name), &route]);
        let mut client = connect(&server);
        let answered = ask(&mut client, &get("/app/a%20b.php/c"));
        assert_eq!(answered, (200, "|/app/a b.php/c|-".into()), "{}", spec.name);
        assert_eq!(ask(&mut client, &get("/")).0, 200);
    });
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

const CHUNKED: &str = "POST /a.php HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n";

/// caddy 5236, php-src 7509: without a length a script reads nothing, or waits for ever. So the
/// body is gathered first, in memory or in a file, while no process waits for it.
#[test]
fn a_body_in_chunks_is_gathered_and_has_a_length() {
    let directory = scripts();
    for_each_engine(|spec| {
        let pair = Pair::start(spec, &directory, "", |asked| {
            let length = asked.variable("CONTENT_LENGTH").as_bytes();
            reply(HTML, &[length, b" ", &asked.body].concat())
        });
        let mut client = pair.connect();
        for size in [0, 1, 65_536, 65_537, 1_000_000] {
            let body: Vec<u8> = (0..size).map(|n| b'a' + (n % 23) as u8).collect();
            client.write_all(format!("{CHUNKED}\r\n").as_bytes()).unwrap();
            let half = body.len() / 2;
            for (part, piece) in [&body[..half], &body[half..]].into_iter().enumerate() {
                piece.chunks(7_777).for_each(|it| client.write_all(&chunk(it)).unwrap());
                if part == 0 {
                    std::thread::sleep(Duration::from_millis(20));
                    let is_free = || pair.php.open() == 0;
                    assert!(comes_true(is_free), "{}: no process waits", spec.name);
                }
            }
            client.write_all(b"0\r\nTrailer: x\r\n\r\n").unwrap();
            let (status, got) = answer(&mut BufReader::new(&mut client));
            let expected = [format!("{size} ").as_bytes(), &body].concat();
            assert!(status == 200 && got.as_bytes() == expected, "{}: {size}", spec.name);
        }
        let summary = pair.server.stop_gracefully(Duration::from_secs(10)).unwrap();
        assert_eq!(summary.requests, 5, "{}", spec.name);
    });
}

#[test]
fn a_client_that_waits_is_invited_before_its_body_is_gathered() {
    let directory = scripts();
    for_each_engine(|spec| {
        let pair = Pair::start(spec, &directory, "", |asked| reply(HTML, &asked.body));
        // The second script has been looked up.
        for _ in 0..2 {
            let mut client = pair.connect();
            let head = format!("{CHUNKED}Expect: 100-continue\r\n\r\n");
            client.write_all(head.as_bytes()).unwrap();
            assert_eq!(take_head(&mut client), b"HTTP/1.1 100 Continue\r\n\r\n", "{}", spec.name);
            let body = [&chunk(b"abc")[..], b"0\r\n\r\n"].concat();
            client.write_all(&body).unwrap();
            let answered = answer(&mut BufReader::new(&mut client));
            assert_eq!(answered, (200, "abc".into()), "{}", spec.name);
        }
    });
}

/// What cannot be gathered: it is too long, it is broken, or its client leaves.
#[test]
fn a_body_that_is_not_whole_reaches_no_script() {
    let directory = scripts();
    for_each_engine(|spec| {
        let pair = Pair::start(spec, &directory, ", body_bytes_max = 100000", |asked| {
            reply(HTML, asked.variable("CONTENT_LENGTH").as_bytes())
        });
        let send = |body: &[u8]| {
            let mut client = pair.connect();
            let request = [CHUNKED.as_bytes(), b"\r\n", body].concat();
            client.write_all(&request).unwrap();
            client
        };
        let status = |body: &[u8]| answer(&mut BufReader::new(send(body))).0;
        assert_eq!(status(&[&chunk(&[b'x'; 100_000])[..], b"0\r\n\r\n"].concat()), 200);
        assert_eq!(status(&chunk(&[b'x'; 100_001])), 413, "{}", spec.name);
        assert_eq!(status(b"nonsense\r\n"), 400, "{}", spec.name);
        drop(send(&chunk(b"half")));
        let counters = || pair.server.counters();
        let recorded = || counters().iter().map(|it| it.requests.get()).sum::<u64>();
        assert!(comes_true(|| recorded() == 4), "{}: {}", spec.name, recorded());
        let summary = pair.server.stop_gracefully(Duration::from_secs(10)).unwrap();
        assert_eq!((summary.requests, pair.php.requests().len()), (4, 1), "{}", spec.name);
    });
}

/// The script for what does not exist: any method, and its body; what exists is sent by files.
#[test]
fn a_front_controller_answers_for_what_does_not_exist() {
    let directory = scripts();
    for_each_engine(|spec| {
        let path = directory.path().join(format!("{}.sock", spec.name));
        let php = FastCgiServer::start(path, |asked| {
            let told = ["REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "REQUEST_URI"];
            let told = told.map(|name| asked.variable(name)).join(" ");
            reply(HTML, [told.as_bytes(), b" ", &asked.body].concat().as_slice())
        });
        let server = start(
            &directory,
            &[
                &format!("engine.name={}", spec.name),
                &format!(
                    "host.route=[{{ path = \"**.php\", fastcgi = \"unix:{}\" }}]",
                    php.path().display()
                ),
                "host.front_controller=/index.php",
            ],
        );
        let mut client = connect(&server);
        let post = |target: &str| {
            format!("POST {target} HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")
        };
        for (request, status, expected) in [
            (get("/"), 200, "<h1>Rope</h1>"),
            (get("/picture.jpg"), 200, "<?php secret ?>"),
            (get("/blog/1?a"), 200, "GET /index.php - /blog/1?a "),
            (get("/sub/"), 200, "GET /index.php - /sub/ "),
            (post("/blog/2"), 200, "POST /index.php - /blog/2 abc"),
            (post("/blog/2"), 200, "POST /index.php - /blog/2 abc"),
            (post("/a.php/b"), 200, "POST /a.php /b /a.php/b abc"),
            (get("/none.php"), 404, ""),
            (post("/picture.jpg"), 405, ""),
            (get("/blog/3"), 200, "GET /index.php - /blog/3 "),
        ] {
            let (got, body) = ask(&mut client, &request);
            assert_eq!(got, status, "{}: {request}", spec.name);
            assert!(status != 200 || body == expected, "{}: {request}: {body}", spec.name);
        }
    });
}

/// While the front controller does not exist, requests are answered as without it.
#[test]
fn without_its_file_there_is_no_front_controller() {
    let directory = site();
    for_each_engine(|spec| {
        let server = start(
            &directory,
            &[
                &format!("engine.name={}", spec.name),
                "host.route=[{ path = \"**.php\", fastcgi = \"unix:/nowhere\" }]",
                "host.front_controller=/index.php",
            ],
        );
        let mut client = connect(&server);
        assert_eq!(ask(&mut client, &get("/blog/1")).0, 404, "{}", spec.name);
        let post = "POST /blog HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(ask(&mut client, post).0, 405, "{}", spec.name);
        assert_eq!(ask(&mut client, &get("/")).0, 200, "{}", spec.name);
    });
}

/// Worker processes read the configuration once more.
#[test]
fn worker_processes_call_scripts_too() {
    let directory = scripts();
    let path = directory.path().join("processes.sock");
    let php = FastCgiServer::start(path, |_| reply(HTML, b"ok"));
    let route = format!(
        "host.route=[{{ path = \"**.php\", fastcgi = \"unix:{}\" }}]",
        php.path().display()
    );
    let server = start(
        &directory,
        &["engine.name=event-loop", "engine.processes=2", &route, "host.front_controller=/a.php"],
    );
    for _ in 0..8 {
        let answered = ask(&mut connect(&server), &get("/no/file"));
        assert_eq!(answered, (200, "ok".into()));
    }
}
