//! CGI programs, on every engine.

use std::fs::{self, Permissions};
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use engines::EngineSpec;
use os::accounting;
use testkit::{Temporary, comes_true, wait_until};

use crate::harness::{Running, connect, for_each_engine, site, start, take_head};
use crate::{answer, ask, for_all_engines_at_once};

const TEXT: &str = "echo 'Content-Type: text/plain'; echo;";

/// Programs, by name. Those that are to be found later tell the numbers of their processes in a
/// file that the query names.
const PROGRAMS: &[(&str, &str)] = &[
    ("environment", "env | sort; echo \"arguments: $#\"; pwd"),
    ("echo", "exec cat"),
    ("length", "echo \"$CONTENT_LENGTH\"; wc -c"),
    ("deaf", "echo unheard"),
    ("event", "echo one; sleep 60"),
    ("background", "exec >&-; sleep 60"),
    ("slow", "sleep 0.5; echo late"),
];

/// Programs that write their own head, or none.
const OTHERS: &[(&str, &str)] = &[
    ("silent", "exit 1"),
    ("killed", "kill -9 $$"),
    ("nonsense", "echo hello; echo; echo world"),
    ("headless", "echo 'Content-Type: text/plain'"),
    ("moved", "printf 'Location: http://a.test/b\\n\\n'"),
    ("local", "printf 'Location: /?c\\r\\n\\r\\n'"),
    ("local_for_client", "printf 'Location: /b?c\\nSet-Cookie: d\\n\\n'"),
    ("status", "printf 'Status: 418 teapot\\nContent-Type: text/plain\\nX-Own: yes\\n\\nshort'"),
    ("error", "echo 'a secret' >&2; printf 'Content-Type: text/plain\\n\\nfine'"),
    ("hang", "sleep 60 & echo $$ $! > \"$DOCUMENT_ROOT/$QUERY_STRING\"; wait"),
    (
        "stubborn",
        "trap '' TERM; sleep 60 & echo $$ $! > \"$DOCUMENT_ROOT/$QUERY_STRING\"; wait; sleep 60",
    ),
    (
        "told",
        "trap 'touch \"$DOCUMENT_ROOT/$QUERY_STRING-told\"' TERM; \
         all=$$; while [ ${#all} -lt 300 ]; do sleep 60 & all=\"$all $!\"; done; \
         echo $all > \"$DOCUMENT_ROOT/$QUERY_STRING\"; while :; do sleep 60; done",
    ),
    (
        "tidy",
        "trap 'touch \"$DOCUMENT_ROOT/$QUERY_STRING-tidied\"; exit' TERM; \
         sleep 60 & echo $$ $! > \"$DOCUMENT_ROOT/$QUERY_STRING\"; wait",
    ),
    (
        "patient",
        "echo $$ > \"$DOCUMENT_ROOT/$QUERY_STRING\"; sleep 0.3; \
         touch \"$DOCUMENT_ROOT/$QUERY_STRING-done\"",
    ),
    (
        "parent",
        "printf 'Content-Type: text/plain\\n\\nleft'; (exec sleep 60) & \
         echo $! > \"$DOCUMENT_ROOT/$QUERY_STRING\"",
    ),
];

/// A site with programs: in its root, and in a directory elsewhere.
fn programs() -> Temporary {
    let directory = site();
    let of_text = PROGRAMS.iter().map(|(name, rest)| (*name, format!("{TEXT} {rest}")));
    let others = OTHERS.iter().map(|(name, script)| (*name, (*script).to_owned()));
    for (name, script) in of_text.chain(others) {
        program(&directory, &format!("site/cgi-bin/{name}"), &script);
    }
    program(&directory, "elsewhere/tool", &format!("{TEXT} echo \"$SCRIPT_FILENAME\"; pwd"));
    directory
}

fn program(directory: &Temporary, name: &str, script: &str) -> PathBuf {
    let path = directory.file(name, format!("#!/bin/sh\n# secret\n{script}\n"));
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

fn serve(spec: &EngineSpec, directory: &Temporary, keys: &str) -> Running {
    let elsewhere = directory.path().join("elsewhere");
    let route = format!(
        "host.route=[{{ path = \"/cgi-bin/**\", cgi = true{keys} }}, \
         {{ path = \"/tools/**\", cgi = \"{}\"{keys} }}]",
        elsewhere.display()
    );
    start(directory, &[&format!("engine.name={}", spec.name), &route])
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")
}

/// The processes of a program that has told of them in a file of the site.
fn processes(directory: &Temporary, file: &str) -> Vec<u32> {
    let path = directory.path().join("site").join(file);
    let read = || fs::read_to_string(&path).unwrap_or_default();
    assert!(comes_true(|| read().ends_with('\n')), "{file}");
    read().split_whitespace().map(|number| number.parse().unwrap()).collect()
}

fn run(processes: &[u32]) -> bool {
    let runs = |pid: u32| accounting::process(pid).is_some_and(|process| !process.has_ended);
    processes.iter().any(|pid| runs(*pid))
}

/// CVE-2012-1823: no part of the query is an argument. CVE-2016-5385: `Proxy` is dropped.
#[test]
fn programs_are_told_of_their_request() {
    let directory = programs();
    let root = directory.path().join("site").display().to_string();
    for_each_engine(|spec| {
        let server = serve(spec, &directory, "");
        let mut client = connect(&server);
        let request = "GET /cgi-bin/environment/a/%62?-s+-d%20x HTTP/1.1\r\nHost: h:81\r\n\
                       Proxy: evil\r\nX-One: 1\r\nX_Two: 2\r\nCookie: a\r\nCookie: b\r\n\r\n";
        let (status, told) = ask(&mut client, request);
        let told: Vec<&str> = told.lines().collect();
        let port = format!("REMOTE_PORT={}", client.local_addr().unwrap().port());
        let expected = [
            "CONTENT_LENGTH=".into(),
            "CONTENT_TYPE=".into(),
            format!("DOCUMENT_ROOT={root}"),
            "GATEWAY_INTERFACE=CGI/1.1".into(),
            "HTTP_COOKIE=a; b".into(),
            "HTTP_HOST=h:81".into(),
            "HTTP_X_ONE=1".into(),
            "PATH=/usr/local/bin:/usr/bin:/bin".into(),
            "PATH_INFO=/a/b".into(),
            format!("PATH_TRANSLATED={root}/a/b"),
            format!("PWD={root}/cgi-bin"), // the shell's own
            "QUERY_STRING=-s+-d%20x".into(),
            "REDIRECT_STATUS=200".into(),
            "REMOTE_ADDR=127.0.0.1".into(),
            port,
            "REQUEST_METHOD=GET".into(),
            "REQUEST_SCHEME=http".into(),
            "REQUEST_URI=/cgi-bin/environment/a/%62?-s+-d%20x".into(),
            format!("SCRIPT_FILENAME={root}/cgi-bin/environment"),
            "SCRIPT_NAME=/cgi-bin/environment".into(),
            "SERVER_NAME=h".into(),
            "SERVER_PORT=81".into(),
            "SERVER_PROTOCOL=HTTP/1.1".into(),
            "SERVER_SOFTWARE=ropewalk".into(),
            "arguments: 0".into(),
            format!("{root}/cgi-bin"),
        ];
        assert_eq!((status, told), (200, expected.iter().map(String::as_str).collect()));
        let elsewhere = directory.path().join("elsewhere").display().to_string();
        let expected = format!("{elsewhere}/tool\n{elsewhere}\n");
        assert_eq!(ask(&mut client, &get("/tools/tool")), (200, expected), "{}", spec.name);
        assert_eq!(ask(&mut client, &get("/")), (200, "<h1>Rope</h1>".into()));
    });
}

#[test]
fn replies_have_the_status_that_programs_give_them() {
    let directory = programs();
    for_each_engine(|spec| {
        let server = serve(spec, &directory, "");
        let mut client = connect(&server);
        for (name, status, field) in [
            ("moved", 302, "\r\nLocation: http://a.test/b\r\n"),
            ("local", 200, "\r\n\r\n<h1>Rope</h1>"),
            ("local_for_client", 302, "\r\nLocation: /b?c\r\n"),
            ("status", 418, "\r\nX-Own: yes\r\n"),
            ("silent", 502, "\r\n"),
            ("killed", 502, "\r\n"),
            ("nonsense", 502, "\r\n"),
            ("headless", 502, "\r\n"),
            ("error", 200, "\r\n"),
        ] {
            let request = get(&format!("/cgi-bin/{name}"))
                .replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
            let mut client = connect(&server);
            client.write_all(request.as_bytes()).unwrap();
            let mut got = String::new();
            client.read_to_string(&mut got).unwrap();
            let line = format!("HTTP/1.1 {status} ");
            assert!(got.starts_with(&line) && got.contains(field), "{}: {name}: {got}", spec.name);
            assert!(!got.contains("\r\nStatus:") && !got.contains("secret"), "{got}");
        }
        assert_eq!(ask(&mut client, &get("/cgi-bin/status")), (418, "short".into()));
        let summary = server.stop_gracefully(Duration::from_secs(10)).unwrap();
        assert_eq!((summary.requests, summary.aborted), (10, false), "{}", spec.name);
    });
}

/// Only programs of the directory are started, and none of them is ever sent as a file.
#[test]
fn what_is_no_program_is_not_started_and_no_program_is_sent() {
    let directory = programs();
    let bin = directory.path().join("site/cgi-bin");
    program(&directory, "site/cgi-bin/.hidden", TEXT);
    program(&directory, "site/cgi-bin/folder/inner", TEXT);
    fs::write(bin.join("text"), "secret").unwrap();
    fs::set_permissions(bin.join("text"), Permissions::from_mode(0o644)).unwrap();
    let interpreted = "#!/no/such/interpreter\nsecret";
    fs::write(bin.join("uninterpreted"), interpreted).unwrap();
    fs::set_permissions(bin.join("uninterpreted"), Permissions::from_mode(0o755)).unwrap();
    symlink(directory.path().join("elsewhere/tool"), bin.join("out")).unwrap();
    symlink("echo", bin.join("in")).unwrap();
    for_each_engine(|spec| {
        let server = serve(spec, &directory, ", methods = [\"GET\", \"PUT\"]");
        for (method, target, status) in [
            ("GET", "/cgi-bin/none", 404),
            ("GET", "/cgi-bin/", 404),
            ("GET", "/cgi-bin/text", 403),
            ("GET", "/cgi-bin/text/echo", 403),
            ("GET", "/cgi-bin/folder", 403),
            ("GET", "/cgi-bin/folder/inner", 403),
            ("GET", "/cgi-bin/folder%2finner", 404),
            ("GET", "/cgi-bin/uninterpreted", 502),
            ("GET", "/cgi-bin/.hidden", 404),
            ("GET", "/cgi-bin/out", 404),
            ("GET", "/cgi-bin/../cgi-bin/in", 200),
            ("GET", "/cgi-bin/echo%00", 400),
            ("GET", "/cgi-bin/echo/%0a", 400),
            ("GET", "/tools/../../etc/passwd", 400),
            ("GET", "/tools/%2e%2e/index.html", 200),
            ("POST", "/cgi-bin/echo", 404),
            ("HEAD", "/cgi-bin/echo", 404),
            ("GET", "/cgi-bin/echo", 200),
        ] {
            let mut client = connect(&server);
            let head = format!("{method} {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n");
            client.write_all(format!("{head}\r\n").as_bytes()).unwrap();
            let mut got = String::new();
            client.read_to_string(&mut got).unwrap();
            assert!(got.starts_with(&format!("HTTP/1.1 {status} ")), "{}: {head} {got}", spec.name);
            assert!(!got.contains("secret") && !got.contains("root:"), "{}: {head}", spec.name);
        }
    });
}

/// Bodies larger than all buffers on the way, in both directions, while the client does not read.
#[test]
fn large_bodies_pass_in_both_directions() {
    let directory = programs();
    let body: Vec<u8> = (0..2_000_000_u32).map(|n| b'a' + (n % 23) as u8).collect();
    for_each_engine(|spec| {
        let server = serve(spec, &directory, "");
        let mut client = connect(&server);
        for program in ["echo", "deaf"] {
            let head = format!(
                "POST /cgi-bin/{program} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            client.write_all(head.as_bytes()).unwrap();
            // A program that hears nothing may have answered before, and its connection closed.
            let sent = client.write_all(&body);
            assert!(sent.is_ok() || program == "deaf");
            if program == "echo" {
                thread::sleep(Duration::from_millis(50)); // sockets and queues fill
            }
            let (status, got) = answer(&mut BufReader::new(&mut client));
            let expected = if program == "echo" { &*body } else { b"unheard\n" };
            assert!(status == 200 && got.as_bytes() == expected, "{}: {program}", spec.name);
        }
    });
}

/// caddy 5236: a program must be told the length of the body that it gets.
#[test]
fn a_body_in_chunks_is_gathered_and_has_a_length() {
    let directory = programs();
    for_each_engine(|spec| {
        let server = serve(spec, &directory, ", body_bytes_max = 300000");
        let mut client = connect(&server);
        for (size, expected) in [(3, 200), (200_000, 200), (300_001, 413)] {
            let head =
                "POST /cgi-bin/length HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
            client.write_all(head.as_bytes()).unwrap();
            let body = vec![b'x'; size];
            let mut chunk = format!("{size:x}\r\n").into_bytes();
            chunk.extend_from_slice(&body);
            chunk.extend_from_slice(b"\r\n0\r\n\r\n");
            client.write_all(&chunk).unwrap();
            let (status, told) = answer(&mut BufReader::new(&mut client));
            assert_eq!(status, expected, "{}: {size}", spec.name);
            assert!(status != 200 || told == format!("{size}\n{size}\n"), "{}: {told}", spec.name);
        }
    });
}

#[test]
fn what_a_program_says_arrives_at_once() {
    let directory = programs();
    for_each_engine(|spec| {
        let server = serve(spec, &directory, "");
        let mut client = connect(&server);
        client.write_all(get("/cgi-bin/event").as_bytes()).unwrap();
        let head = String::from_utf8(take_head(&mut client)).unwrap();
        assert!(head.contains("\r\nTransfer-Encoding: chunked\r\n"), "{head}");
        let mut event = [0; 9];
        client.read_exact(&mut event).unwrap();
        assert_eq!(&event, b"4\r\none\n\r\n", "{}", spec.name);
    });
}

/// The end of the output is the end of the reply, whatever the program does then.
#[test]
fn a_program_that_goes_on_without_output_has_answered() {
    let directory = programs();
    for_each_engine(|spec| {
        let server = serve(spec, &directory, ", silence_ms = 20000");
        let asked = os::clock::now();
        let answered = ask(&mut connect(&server), &get("/cgi-bin/background"));
        assert_eq!(answered, (200, String::new()), "{}", spec.name);
        assert!(os::clock::now() - asked < 15_000_000, "{}", spec.name);
    });
}

/// Nothing is left of a program that does not answer in time, nor of one that does not end when it
/// is asked to.
#[test]
fn a_program_that_hangs_is_ended_with_all_its_processes() {
    let directory = programs();
    for_all_engines_at_once(|spec| {
        let server = serve(spec, &directory, ", first_byte_ms = 1000");
        let mut client = connect(&server);
        for program in ["hang", "stubborn", "tidy"] {
            let file = format!("{program}-{}", spec.name);
            let answered = ask(&mut client, &get(&format!("/cgi-bin/{program}?{file}")));
            assert_eq!(answered.0, 504, "{}: {program}", spec.name);
            let processes = processes(&directory, &file);
            assert_eq!(processes.len(), 2);
            assert!(comes_true(|| !run(&processes)), "{}: {program}", spec.name);
        }
        let tidied = directory.path().join(format!("site/tidy-{}-tidied", spec.name));
        assert!(comes_true(|| tidied.exists()), "{}: SIGTERM gives it time to tidy up", spec.name);
        assert_eq!(ask(&mut client, &get("/cgi-bin/deaf")).0, 200);
    });
}

#[test]
fn a_client_that_leaves_takes_its_program_with_it() {
    let directory = programs();
    for_each_engine(|spec| {
        let server = serve(spec, &directory, "");
        let file = format!("left-{}", spec.name);
        let mut client = connect(&server);
        client.write_all(get(&format!("/cgi-bin/hang?{file}")).as_bytes()).unwrap();
        let processes = processes(&directory, &file);
        assert!(run(&processes));
        drop(client);
        assert!(comes_true(|| !run(&processes)), "{}", spec.name);
    });
}

/// Where the route says so, a program may finish.
#[test]
fn a_program_may_finish_though_its_client_leaves() {
    let directory = programs();
    for_all_engines_at_once(|spec| {
        let server = serve(spec, &directory, ", ignore_client_abort = true");
        let file = format!("patient-{}", spec.name);
        let mut client = connect(&server);
        client.write_all(get(&format!("/cgi-bin/patient?{file}")).as_bytes()).unwrap();
        let processes = processes(&directory, &file);
        drop(client);
        let done = directory.path().join(format!("site/{file}-done"));
        assert!(comes_true(|| done.exists()), "{}", spec.name);
        assert!(comes_true(|| !run(&processes)), "{}", spec.name);
    });
}

/// A child that holds the output keeps the reply open for a second, and is ended then.
#[test]
fn what_a_program_leaves_is_ended_soon() {
    let directory = programs();
    for_each_engine(|spec| {
        let server = serve(spec, &directory, "");
        let file = format!("parent-{}", spec.name);
        let answered = ask(&mut connect(&server), &get(&format!("/cgi-bin/parent?{file}")));
        assert_eq!(answered, (200, "left".into()), "{}", spec.name);
        let processes = processes(&directory, &file);
        assert!(comes_true(|| !run(&processes)), "{}", spec.name);
    });
}

#[test]
fn a_stop_ends_all_programs() {
    let directory = programs();
    for_each_engine(|spec| {
        let server = serve(spec, &directory, "");
        let file = format!("stop-{}", spec.name);
        let mut client = connect(&server);
        client.write_all(get(&format!("/cgi-bin/stubborn?{file}")).as_bytes()).unwrap();
        let processes = processes(&directory, &file);
        assert!(run(&processes));
        let summary = server.stop_gracefully(Duration::from_millis(50)).unwrap();
        assert!(summary.aborted, "{}", spec.name);
        assert!(!run(&processes), "{}: the stop has waited for them", spec.name);
    });
}

/// However long the machine stands still before programs are killed that do not end by themselves.
#[test]
fn a_stop_waits_for_programs_whose_spawner_was_held_up() {
    const PROGRAMS: usize = 8;
    /// More than a spawner waits for programs.
    const HELD_UP_US: u64 = 3_500_000;
    let directory = programs();
    let server = serve(engines::find("event-loop").unwrap(), &directory, "");
    let begin = |number: usize| {
        let mut client = connect(&server);
        client.write_all(get(&format!("/cgi-bin/told?told-{number}")).as_bytes()).unwrap();
        client
    };
    let clients: Vec<TcpStream> = (0..PROGRAMS).map(begin).collect();
    let of = |number: usize| processes(&directory, &format!("told-{number}"));
    let all: Vec<u32> = (0..PROGRAMS).flat_map(of).collect();
    assert!(run(&all));
    let spawner = accounting::process(all[0]).unwrap().parent;
    thread::scope(|scope| {
        let stop = scope.spawn(|| server.stop_gracefully(Duration::from_millis(50)));
        let is_told = |number| directory.path().join(format!("site/told-{number}-told")).exists();
        assert!(comes_true(|| (0..PROGRAMS).all(is_told)));
        os::signals::send("STOP", &[spawner]);
        let until_us = os::clock::now() + HELD_UP_US;
        wait_until(|| os::clock::now() > until_us);
        let _busy = testkit::Busy::after((0..40).map(|_| || ()));
        os::signals::send("CONT", &[spawner]);
        assert!(stop.join().unwrap().unwrap().aborted);
        assert!(!run(&all), "the stop has waited for them");
    });
    drop(clients);
}

#[test]
fn programs_at_a_time_are_bounded() {
    let directory = programs();
    for_each_engine(|spec| {
        let server = serve(spec, &directory, ", in_flight_max = 1, queue_max = 0");
        let mut clients: Vec<TcpStream> = (0..12).map(|_| connect(&server)).collect();
        for client in &mut clients {
            client.write_all(get("/cgi-bin/slow").as_bytes()).unwrap();
        }
        let statuses: Vec<u16> =
            clients.into_iter().map(|client| answer(&mut BufReader::new(client)).0).collect();
        let count = |status| statuses.iter().filter(|it| **it == status).count();
        assert!(count(200) > 0 && count(503) > 0, "{}: {statuses:?}", spec.name);
        assert_eq!(count(200) + count(503), 12, "{}: {statuses:?}", spec.name);
    });
}

#[test]
fn more_than_a_program_can_be_told_is_refused() {
    let directory = programs();
    for_each_engine(|spec| {
        let route = "host.route=[{ path = \"/cgi-bin/**\", cgi = true }]";
        let engine = format!("engine.name={}", spec.name);
        let server = start(&directory, &[&engine, route, "limits.head_bytes_max=1048576"]);
        for (size, status) in [(60_000, 200), (200_000, 431)] {
            let field = "x".repeat(size);
            let request =
                get("/cgi-bin/deaf").replace("\r\n\r\n", &format!("\r\nX: {field}\r\n\r\n"));
            assert_eq!(ask(&mut connect(&server), &request).0, status, "{}: {size}", spec.name);
        }
    });
}
