//! The error log with every engine: it names refused requests, at a limited rate.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, UNIX_EPOCH};

use testkit::{Temporary, side_by_side};

use crate::server_process::{ROPEWALK, ServerProcess, TIME_TO_END, for_each_engine, serve, served};
use crate::where_it_runs::as_ordinary_user;

#[test]
fn each_kind_of_refusal_is_a_line_with_path_and_reason() {
    let directory = Temporary::new();
    let site = directory.path().join("site");
    directory.file("site/hall/index.html", "<h1>Hall</h1>");
    directory.file("site/closed.txt", "closed");
    for (name, mode) in [("hall", 0o711), ("closed.txt", 0o000)] {
        fs::set_permissions(site.join(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    symlink("/etc/passwd", site.join("out.txt")).unwrap();
    symlink("circle", site.join("circle")).unwrap();
    let _socket = UnixListener::bind(site.join("socket")).unwrap();
    if as_ordinary_user(&directory).is_none() {
        return;
    }
    let link = "a symbolic link that is not followed (symlinks), or a circle of them";
    let refused = [
        ("closed.txt", 403, "permission denied"),
        ("out.txt", 404, "it leads out of the root"),
        ("circle", 404, link),
        ("socket", 404, "not a regular file"),
    ];
    for_each_engine(|arguments| {
        let mut command = as_ordinary_user(&directory).expect("it was there just now");
        let command = serve(&mut command, &site).args(arguments).args(TIME_TO_END);
        let server = ServerProcess::start(command);
        assert_eq!(server.status("/hall/"), 200, "{arguments:?}");
        assert_eq!(server.status("/missing"), 404, "{arguments:?}");
        for (name, status, _) in refused {
            assert_eq!(server.status(&format!("/{name}")), status, "{arguments:?}: {name}");
        }
        let lines = server.stop();
        let mut told: Vec<&String> =
            lines.iter().filter(|line| line.starts_with("ropewalk: refused ")).collect();
        told.sort();
        let expect = |(name, _, why): &(&str, u16, &str)| {
            format!("ropewalk: refused {:?}: {why}", site.join(name))
        };
        let mut expected: Vec<String> = refused.iter().map(expect).collect();
        expected.sort();
        assert_eq!(told, expected.iter().collect::<Vec<_>>(), "{arguments:?}");
    });
}

/// Where links are not followed, a plain one within the root is a line, too.
#[test]
fn a_link_that_is_not_followed_is_a_line() {
    let directory = Temporary::new();
    let site = directory.path().join("site");
    directory.file("site/there.txt", "there");
    let link = site.join("link.txt");
    symlink("there.txt", &link).unwrap();
    let why = "a symbolic link that is not followed (symlinks), or a circle of them";
    let line = format!("ropewalk: refused {link:?}: {why}");
    for_each_engine(|arguments| {
        let never = ["--set", "host.symlinks=\"never\""];
        let server = served(&site, &[&never[..], arguments, &TIME_TO_END].concat());
        assert_eq!(server.status("/there.txt"), 200, "{arguments:?}");
        assert_eq!(server.status("/link.txt"), 404, "{arguments:?}");
        let lines = server.stop();
        assert_eq!(lines.iter().filter(|it| **it == line).count(), 1, "{arguments:?}: {lines:?}");
    });
}

/// A compressed file that is older than the file that it stands for is not sent, and each process
/// says so once.
#[test]
fn a_compressed_file_that_is_left_out_is_a_line() {
    let directory = Temporary::new();
    let site = directory.path().join("site");
    directory.file("site/app.js", "whole");
    let old = fs::File::create(site.join("app.js.gz")).unwrap();
    old.set_modified(UNIX_EPOCH + Duration::from_secs(1_600_000_000)).unwrap();
    let head = "GET /app.js HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n";
    for_each_engine(|arguments| {
        let mut command = Command::new(ROPEWALK);
        let command = serve(&mut command, &site).args(arguments).args(TIME_TO_END);
        let server = ServerProcess::start(command);
        let mut stream = server.connect();
        for _ in 0..3 {
            stream.write_all(head.as_bytes()).unwrap();
            let mut response = Vec::new();
            while !response.ends_with(b"\r\n\r\nwhole") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                response.push(byte[0]);
            }
        }
        drop(stream);
        let lines = server.stop();
        let is_told = |line: &&String| line.starts_with("ropewalk: \"app.js.gz\" is left out: ");
        assert_eq!(lines.iter().filter(is_told).count(), 1, "{arguments:?}: {lines:?}");
    });
}

/// What scripts write to standard error is in the error log, a line each with the request's target,
/// and not in the answer (caddy 4967).
#[test]
fn standard_error_of_scripts_is_in_the_error_log() {
    let directory = Temporary::new();
    directory.file("site/a.php", "");
    let socket = directory.path().join("php.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || listener.incoming().for_each(|it| complain(it.unwrap())));
    let path = socket.display().to_string();
    for_each_engine(|arguments| {
        let set = [&["--php", &path][..], arguments, &TIME_TO_END].concat();
        let server = served(&directory.path().join("site"), &set);
        let answered = server.fetch("/a.php?b");
        assert_eq!((answered.status, &*answered.body), (200, &b"ok"[..]), "{arguments:?}");
        let lines = server.stop();
        let line = |text: &str| format!("ropewalk: unix:{path}: /a.php?b: {text}");
        for expected in [line("PHP Warning: x"), line("two"), line("it ended with status 7")] {
            assert!(lines.contains(&expected), "{arguments:?}: {expected}: {lines:?}");
        }
    });
}

/// A file that an application names and that is not sent is a line with the request's target.
#[test]
fn files_that_are_named_in_vain_are_in_the_error_log() {
    let directory = Temporary::new();
    directory.file("site/index.html", "");
    directory.file("files/a.txt", "a");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().for_each(|it| name_a_file(it.unwrap())));
    let root = directory.path().join("files").display().to_string();
    let route = format!(
        "host.route=[{{ path = \"/app/**\", proxy = \"http://{address}\", \
         sendfile_root = \"{root}\" }}]"
    );
    for_each_engine(|arguments| {
        let set = [&["--set", &route][..], arguments, &TIME_TO_END].concat();
        let server = served(&directory.path().join("site"), &set);
        assert_eq!(server.status("/app/a.txt"), 200, "{arguments:?}");
        assert_eq!(server.status("/app/b.txt"), 404, "{arguments:?}");
        assert_eq!(server.status("/app/x%2fb.txt"), 403, "{arguments:?}");
        let lines = server.stop();
        let line = |target: &str, text: &str| {
            format!(
                "ropewalk: http://{address}: {target}: a file that it names is not sent: {text}"
            )
        };
        for expected in [
            line("/app/b.txt", "there is no such file: /b.txt"),
            line("/app/x%2fb.txt", "encoded slash in path: /x%2fb.txt"),
        ] {
            assert!(lines.contains(&expected), "{arguments:?}: {expected}: {lines:?}");
        }
        let told = lines.iter().filter(|line| line.contains("it names")).count();
        assert_eq!(told, 2, "{arguments:?}: {lines:?}");
    });
}

/// Of several servers the line names the one that has failed.
#[test]
fn a_server_that_fails_is_named_in_the_error_log() {
    let directory = Temporary::new();
    directory.file("site/index.html", "");
    let [good, bad] = ["HTTP/1.1 204 Well", "nonsense"].map(|reply| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 1024]);
                let _ = write!(stream, "{reply}\r\n\r\n");
            }
        });
        address
    });
    let route = format!(
        "host.route=[{{ path = \"/app/**\", proxy = [\"http://{good}\", \"http://{bad}\"] }}]"
    );
    for_each_engine(|arguments| {
        let set = [&["--set", &route][..], arguments, &TIME_TO_END].concat();
        let server = served(&directory.path().join("site"), &set);
        let mut statuses = (0..1000).map(|_| server.status("/app/a"));
        assert!(statuses.any(|status| status == 502), "{arguments:?}");
        let lines = server.stop();
        let failures: Vec<&String> = lines.iter().filter(|it| it.contains("its reply")).collect();
        let is_named = |line: &&String| line.contains(&format!("http://{bad}: 502: its reply: "));
        assert!(!failures.is_empty() && failures.iter().all(is_named), "{arguments:?}: {lines:?}");
    });
}

/// A server that is passed over is a line, although no request fails.
#[test]
fn a_server_that_is_passed_over_is_in_the_error_log() {
    let directory = Temporary::new();
    directory.file("site/index.html", "");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let good = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 204 Well\r\n\r\n");
        }
    });
    let nobody = "http://127.0.0.1:1";
    let route = format!(
        "host.route=[{{ path = \"/app/**\", proxy = [\"{nobody}\", \"http://{good}\"], \
         balance = \"round-robin\" }}]"
    );
    for_each_engine(|arguments| {
        let set = [&["--set", &route][..], arguments, &TIME_TO_END].concat();
        let server = served(&directory.path().join("site"), &set);
        (0..8).for_each(|_| assert_eq!(server.status("/app/a"), 204, "{arguments:?}"));
        let lines = server.stop();
        let line = format!(
            "ropewalk: {nobody}: it accepts no connections: another server or address is tried"
        );
        assert!(lines.contains(&line), "{arguments:?}: {lines:?}");
    });
}

/// A server that falls, and rises again, is a line each time.
#[test]
fn what_checks_of_health_find_is_in_the_error_log() {
    let directory = Temporary::new();
    directory.file("site/index.html", "");
    side_by_side(&["event-loop", "processes"], |engine| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (begin, may_begin) = channel();
        let (arrived, arrivals) = channel();
        std::thread::spawn(move || {
            let mut failing = 0;
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = (arrived.send(()), stream.read(&mut [0; 1024]));
                failing = may_begin.try_recv().unwrap_or(failing);
                let status = if failing > 0 { "500 Failed" } else { "204 Well" };
                let _ = write!(stream, "HTTP/1.1 {status}\r\n\r\n");
                failing -= i32::from(failing > 0);
            }
        });
        let route = format!(
            "host.route=[{{ path = \"/app/**\", proxy = \"http://{address}\", \
             health = \"/up\", health_ms = 20 }}]"
        );
        let set = [&["--set", &route, "--engine", engine][..], &TIME_TO_END].concat();
        let server = served(&directory.path().join("site"), &set);
        begin.send(3).unwrap();
        arrivals.try_iter().for_each(drop);
        // One that may be answered already, three that fail, two that succeed, and one after which
        // what these have found is known.
        (0..7).for_each(|_| arrivals.recv_timeout(Duration::from_secs(20)).unwrap());
        let lines = server.stop();
        let found: Vec<&String> = lines.iter().filter(|line| line.contains("health")).collect();
        let line = |text: &str| format!("ropewalk: http://{address}: {text}");
        let expected = [
            line("down: its health checks fail: its answer was 500"),
            line("up again: its health checks succeed"),
        ];
        // On a busy machine it may be late three times in a row, and fall again.
        assert_eq!(found[..found.len().min(2)], expected.each_ref(), "{engine}");
    });
}

/// Answers a request below `/app` with the name of the file that its path has below that.
fn name_a_file(mut stream: TcpStream) {
    let mut head = vec![0; 16 * 1024];
    let len = stream.read(&mut head).unwrap_or(0);
    let head = String::from_utf8_lossy(&head[..len]).into_owned();
    let Some(path) = head.split(' ').nth(1).and_then(|path| path.strip_prefix("/app")) else {
        return;
    };
    let fields = "Connection: close\r\nContent-Length: 0";
    let reply = format!("HTTP/1.1 200 OK\r\nX-Accel-Redirect: {path}\r\n{fields}\r\n\r\n");
    let _ = stream.write_all(reply.as_bytes());
}

/// Answers a request over FastCGI whatever it is, with lines on standard error.
fn complain(mut stream: UnixStream) {
    let record = |kind: u8, content: &[u8]| {
        [&[1, kind, 0, 1, 0, content.len() as u8, 0, 0], content].concat()
    };
    let _ = stream.read(&mut [0; 16 * 1024]);
    let reply = [
        record(7, b"PHP Warning: x\ntw"),
        record(6, b"Content-Type: a/b\r\n\r\nok"),
        record(7, b"o\n"),
        record(3, &[0, 0, 0, 7, 0, 0, 0, 0]),
    ];
    let _ = stream.write_all(&reply.concat());
}

/// With any number of processes ten lines a second are written, and the others counted.
#[test]
fn ten_lines_a_second_are_written_and_the_others_counted() {
    const REFUSED: usize = 200;
    const CONNECTIONS: usize = 4;
    const LINES_PER_S: u64 = 10;
    let directory = Temporary::new();
    let site = directory.path().join("site");
    directory.file("site/index.html", "<h1>Rope</h1>");
    (0..REFUSED).for_each(|number| symlink("/", site.join(format!("out-{number}"))).unwrap());
    for_each_engine(|arguments| {
        let mut command = Command::new(ROPEWALK);
        let command = serve(&mut command, &site).args(arguments).args(TIME_TO_END);
        let server = ServerProcess::start(command);
        let began_us = os::clock::now();
        // Each of the processes that may serve at a time has one connection.
        let connect = |_| BufReader::new(server.connect());
        let mut streams: Vec<_> = (0..CONNECTIONS).map(connect).collect();
        for number in 0..REFUSED {
            let head = request_page(&mut streams[number % CONNECTIONS], &format!("/out-{number}"));
            assert!(head.starts_with("HTTP/1.1 404 "), "{arguments:?}: {head}");
        }
        let seconds = (os::clock::now() - began_us) / 1_000_000 + 2; // the test covers parts of two
        drop(streams);
        let lines = server.stop();
        let written = lines.iter().filter(|line| line.starts_with("ropewalk: refused ")).count();
        assert!(
            (1..=seconds * LINES_PER_S).contains(&(written as u64)),
            "{arguments:?}: {lines:?}"
        );
        let left_out: usize = lines.iter().map(|line| number_left_out(line)).sum();
        assert_eq!(written + left_out, REFUSED, "{arguments:?}: {lines:?}");
    });
}

/// Responses, the access log and all other messages are those of a server that has one.
#[test]
fn without_an_error_log_nothing_else_changes() {
    let directory = Temporary::new();
    let site = directory.path().join("site");
    directory.file("site/index.html", "<h1>Rope</h1>");
    symlink("/", site.join("out")).unwrap();
    symlink("circle", site.join("circle")).unwrap();
    for_each_engine(|arguments| {
        let logs = Temporary::new();
        let [with, without] = ["stderr", "off"].map(|errors| {
            let log = logs.path().join(errors);
            let set = [format!("log.errors={errors}"), format!("log.path={}", log.display())];
            let log_arguments = ["--log", "combined", "--set", &set[0], "--set", &set[1]];
            let mut command = Command::new(ROPEWALK);
            let command = serve(&mut command, &site).args(arguments).args(TIME_TO_END);
            let server = ServerProcess::start(command.args(log_arguments));
            let statuses = ["/", "/out", "/circle", "/missing"].map(|path| server.status(path));
            let port = server.address().port().to_string();
            let lines = server.stop().into_iter().map(|line| line.replace(&port, "PORT"));
            let is_of_error_log = |line: &String| line.starts_with("ropewalk: refused ");
            let (refused, others): (Vec<_>, Vec<_>) = lines.partition(is_of_error_log);
            (refused.len(), (statuses, logged(&log), others))
        });
        assert_eq!((with.0, without.0), (2, 0), "{arguments:?}");
        assert_eq!(with.1.0, [200, 404, 404, 404], "{arguments:?}");
        assert_eq!(with.1, without.1, "{arguments:?}");
    });
}

/// The requests in an access log, without dates and durations, in alphabetical order: each worker
/// hands its lines over when it has time.
fn logged(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let request = |line: &str| {
        let (_, request) = line.split_once("] ").unwrap();
        let (request, _duration_us) = request.rsplit_once(' ').unwrap();
        request.to_owned()
    };
    let mut requests: Vec<String> = text.lines().map(request).collect();
    requests.sort();
    requests
}

/// Requests `path` and reads the answer, which is a page of the server's own; returns its first
/// line.
fn request_page(stream: &mut BufReader<TcpStream>, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
    stream.get_mut().write_all(request.as_bytes()).unwrap();
    let (mut head, mut line) = (String::new(), String::new());
    stream.read_line(&mut head).unwrap();
    while !line.starts_with("<h1>") {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "{path}: {head}");
    }
    head
}

/// The number of lines left out, as a line reports at its end, or the last line of all.
fn number_left_out(line: &str) -> usize {
    let before = line.split_once(" more such lines were left out before this)");
    let at_last = line.split_once(" lines of the error log were left out at the end");
    let Some((text, _)) = before.or(at_last) else { return 0 };
    let digits = text.rsplit(|byte: char| !byte.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap()
}
