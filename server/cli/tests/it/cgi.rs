//! CGI programs of `ropewalk serve`: what they say on standard error, and the process that starts
//! them.

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use testkit::{Temporary, comes_true};

use crate::processes::{children, is_running};
use crate::server_process::{ROPEWALK, ServerProcess, TIME_TO_END, for_each_engine, serve};

/// A site beside a directory of programs.
fn programs(programs: &[(&str, &str)]) -> Temporary {
    let directory = Temporary::new();
    directory.file("site/index.html", "<h1>Rope</h1>");
    for (name, script) in programs {
        let path = directory.file(&format!("bin/{name}"), format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    directory
}

fn start(directory: &Temporary, arguments: &[&str]) -> ServerProcess {
    let mut command = std::process::Command::new(ROPEWALK);
    let command = serve(&mut command, &directory.path().join("site"));
    let bin = directory.path().join("bin");
    ServerProcess::start(command.arg("--cgi-bin").arg(bin).args(arguments).args(TIME_TO_END))
}

fn spawner(server: &ServerProcess) -> Option<u32> {
    children(server.pid()).into_iter().find(|pid| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments.split(|byte| *byte == 0).any(|argument| argument == b"spawner")
    })
}

/// Begins a request to a program that hangs. Returns its connection and the program's process.
fn hang(server: &ServerProcess, directory: &Temporary, file: &str) -> (TcpStream, u32) {
    let mut client = server.connect();
    let request = format!("GET /cgi-bin/hang?{file} HTTP/1.1\r\nHost: h\r\n\r\n");
    client.write_all(request.as_bytes()).unwrap();
    let path = directory.path().join("site").join(file);
    let told = || fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n'));
    assert!(comes_true(told), "{file}");
    let program = fs::read_to_string(&path).unwrap().trim().parse().unwrap();
    assert!(is_running(program));
    (client, program)
}

#[test]
fn standard_error_is_in_the_error_log() {
    let directory = programs(&[
        ("fine", "printf 'Content-Type: text/plain\\n\\nfine'"),
        ("said", "printf 'one\\ntw\\033o' >&2; printf 'Content-Type: text/plain\\n\\n'; exit 3"),
        ("much", "printf 'Content-Type: text/plain\\n\\n'; head -c 300000 /dev/zero >&2"),
        ("killed", "kill -9 $$"),
    ]);
    directory.file("bin/text", "");
    for_each_engine(|arguments| {
        let server = start(&directory, arguments);
        for (target, status) in [
            ("/cgi-bin/killed", 502),
            ("/cgi-bin/said?a", 200),
            ("/cgi-bin/text", 403),
            ("/cgi-bin/missing", 404),
            // How a program ended is known a moment after its reply.
            ("/cgi-bin/fine", 200),
            ("/cgi-bin/fine", 200),
        ] {
            assert_eq!(server.status(target), status, "{arguments:?}: {target}");
        }
        let lines = server.stop();
        let text = directory.path().join("bin/text").display().to_string();
        for expected in [
            "cgi: /cgi-bin/said?a: one".into(),
            "cgi: /cgi-bin/said?a: tw\\u{1b}o".into(),
            "cgi: /cgi-bin/said?a: it ended with status 3".into(),
            format!(
                "cgi: /cgi-bin/text: 403: {text:?} is not started: Permission denied (os error 13)"
            ),
            "cgi: /cgi-bin/killed: it was killed by signal 9".into(),
        ] {
            let line = format!("ropewalk: {expected}");
            assert!(lines.contains(&line), "{arguments:?}: {line}\n{lines:#?}");
        }
        let about = |what: &str| lines.iter().any(|line| line.contains(what));
        assert!(!about("/cgi-bin/fine") && !about(": 404: "), "{lines:#?}");
        let refused = lines.iter().filter(|line| line.contains(": 403: "));
        assert_eq!(refused.count(), 1, "{lines:#?}");
    });
    // More than is reported is read all the same.
    let server = start(&directory, &["--engine", "event-loop"]);
    assert_eq!(server.status("/cgi-bin/much"), 200);
}

/// The spawner is deaf to signals but those that kill it, and is replaced then.
#[test]
fn a_spawner_that_dies_is_replaced() {
    let directory = programs(&[
        ("fine", "printf 'Content-Type: text/plain\\n\\nfine'"),
        ("hang", "echo $$ > \"$DOCUMENT_ROOT/$QUERY_STRING\"; exec sleep 60"),
    ]);
    for_each_engine(|arguments| {
        let server = start(&directory, arguments);
        assert_eq!(server.status("/cgi-bin/fine"), 200, "{arguments:?}");
        let first = spawner(&server).unwrap();
        ["TERM", "INT", "HUP"].into_iter().for_each(|name| os::signals::send(name, &[first]));
        assert_eq!(server.status("/cgi-bin/fine"), 200, "{arguments:?}");
        assert!(is_running(first));
        let (_client, program) = hang(&server, &directory, &format!("left-{}", arguments.join("")));
        // With an answer to a later request it has noted the program that hangs.
        assert_eq!(server.status("/cgi-bin/fine"), 200, "{arguments:?}");
        os::signals::send("KILL", &[first]);
        // The request waits for the next one.
        assert_eq!(server.status("/cgi-bin/fine"), 200, "{arguments:?}");
        assert!(spawner(&server).is_some_and(|pid| pid != first), "{arguments:?}");
        assert!(comes_true(|| !is_running(program)), "{arguments:?}: it was left");
        let lines = server.stop();
        let about = |line: &String| line.contains("the spawner of CGI programs (pid ");
        assert_eq!(lines.iter().filter(|line| about(line)).count(), 1, "{lines:#?}");
    });
}

/// A descriptor that the server was started with, as a service manager's listener, is none of a
/// program's.
#[test]
fn programs_inherit_nothing() {
    let list = "printf 'Content-Type: text/plain\\n\\n'; ls -l /proc/$$/fd";
    let directory = programs(&[("list", list)]);
    let mine = directory.file("mine", "");
    let mut command = std::process::Command::new(ROPEWALK);
    let command = serve(&mut command, &directory.path().join("site"));
    command.arg("--cgi-bin").arg(directory.path().join("bin")).args(TIME_TO_END);
    os::inheritance::pass_on(command, vec![File::open(&mine).unwrap().into()]);
    let server = ServerProcess::start(command);
    let inherited = fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().flatten();
    let links = inherited.filter_map(|entry| fs::read_link(entry.path()).ok());
    assert_eq!(links.filter(|link| *link == mine).count(), 1, "the server has it");
    let mut client = server.connect();
    let request = b"GET /cgi-bin/list HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    client.write_all(request).unwrap();
    let mut listed = String::new();
    client.read_to_string(&mut listed).unwrap();
    assert!(listed.contains(" 2 -> pipe:"), "{listed}");
    assert!(!listed.contains("mine"), "{listed}");
}

/// However a server ends, its programs end with it.
#[test]
fn programs_end_with_a_server_that_is_killed() {
    let directory =
        programs(&[("hang", "echo $$ > \"$DOCUMENT_ROOT/$QUERY_STRING\"; exec sleep 60")]);
    for_each_engine(|arguments| {
        let server = start(&directory, arguments);
        let spawner = spawner(&server).unwrap();
        let (client, program) = hang(&server, &directory, &format!("pid-{}", arguments.join("")));
        os::signals::send("KILL", &[server.pid()]);
        // Worker processes whose supervisor has gone finish what they have under way.
        drop(client);
        assert!(comes_true(|| !is_running(program) && !is_running(spawner)), "{arguments:?}");
    });
}
