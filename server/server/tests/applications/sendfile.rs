//! Files that an application names in place of content, on every engine.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};

use engines::EngineSpec;
use testkit::Temporary;
use testkit::scripted::{Action, Reply, Scripted};

use crate::harness::{Running, connect, for_each_engine, site, start, take_head};
use crate::{front, in_front_of, scripted};

/// A site, and beside it a directory of files that an application may name.
fn site_with_files() -> Temporary {
    let directory = site();
    directory.file("protected/a b.txt", "0123456789");
    directory.file("protected/inner/large.bin", vec![b'x'; 3_000_000]);
    directory.file("secret.txt", "secret");
    let link = directory.path().join("protected/out.txt");
    symlink(directory.path().join("secret.txt"), link).unwrap();
    directory
}

/// An application whose replies to `/app/0`, `/app/1` and so on have these fields, and content that
/// no client shall get.
fn names(fields: &[&str]) -> Scripted {
    let replies: Vec<Reply> = fields
        .iter()
        .map(|lines| lines.split('\n').fold(Reply::ok(b"content"), Reply::field))
        .collect();
    scripted(move |asked| {
        let number = asked.target.strip_prefix("/app/").unwrap().parse::<usize>().unwrap();
        let mut bytes = replies[number].bytes();
        if asked.head.starts_with("HEAD") {
            bytes.truncate(bytes.len() - b"content".len());
        }
        vec![Action::Send(bytes)]
    })
}

fn front_with_files(spec: &EngineSpec, directory: &Temporary, application: &Scripted) -> Running {
    let root = directory.path().join("protected");
    front(spec, directory, &[application], &format!(", sendfile_root = \"{}\"", root.display()))
}

/// Asks for a path and returns the head of the answer and its body.
fn get(client: &mut TcpStream, path: &str, fields: &str) -> (String, Vec<u8>) {
    write!(client, "GET {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n").unwrap();
    take(&mut BufReader::new(client), true)
}

fn take(stream: &mut impl BufRead, has_body: bool) -> (String, Vec<u8>) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).unwrap(), 0, "closed in {head:?}");
    }
    let body = if has_body { crate::body(&head, stream) } else { Vec::new() };
    (head, body)
}

fn value<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut fields = head.split("\r\n").filter_map(|line| line.split_once(": "));
    fields.find(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// lighttpd 59: its length is that of the file.
#[test]
fn a_named_file_is_answered_as_a_file_with_the_fields_of_the_application() {
    let directory = site_with_files();
    let file = directory.path().join("protected/a b.txt");
    let fields = format!(
        "X-Sendfile: {}\nContent-Type: text/x-app\nContent-Disposition: attachment\n\
         Cache-Control: private, max-age=9\nExpires: 0\nSet-Cookie: a=1\nSet-Cookie: b=2\nX-Own: 1",
        file.display()
    );
    for_each_engine(|spec| {
        let application = names(&[&fields, "X-Accel-Redirect: /a%20b.txt"]);
        let server = front_with_files(spec, &directory, &application);
        let mut client = connect(&server);
        let (head, body) = get(&mut client, "/app/0", "");
        assert!(head.starts_with("HTTP/1.1 200 ") && body == b"0123456789", "{head}");
        assert_eq!(value(&head, "X-Sendfile"), None);
        assert_eq!(value(&head, "X-Own"), None);
        assert_eq!(head.matches("Content-Type: ").count(), 1);
        assert_eq!(value(&head, "Content-Type"), Some("text/x-app"));
        assert_eq!(value(&head, "Content-Disposition"), Some("attachment"));
        assert_eq!(head.matches("Cache-Control: ").count(), 1);
        assert_eq!(value(&head, "Cache-Control"), Some("private, max-age=9"));
        assert!(head.contains("\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n"), "{head}");
        let tag = value(&head, "ETag").unwrap();
        let (same, _) = get(&mut client, "/app/0", &format!("If-None-Match: {tag}\r\n"));
        assert!(same.starts_with("HTTP/1.1 304 "), "{}: {same}", spec.name);
        assert_eq!(value(&same, "Cache-Control"), Some("private, max-age=9"));
        assert_eq!(value(&same, "Content-Type"), None);
        let (part, body) = get(&mut client, "/app/0", "Range: bytes=2-4\r\n");
        assert!(part.starts_with("HTTP/1.1 206 ") && body == b"234", "{}: {part}", spec.name);
        assert_eq!(value(&part, "Content-Range"), Some("bytes 2-4/10"));
        let (beyond, _) = get(&mut client, "/app/0", "Range: bytes=20-\r\n");
        assert!(beyond.starts_with("HTTP/1.1 416 "), "{}: {beyond}", spec.name);
        let (other, body) = get(&mut client, "/app/1", "");
        assert!(other.starts_with("HTTP/1.1 200 ") && body == b"0123456789", "{other}");
        assert_eq!(value(&other, "Content-Type"), Some("text/plain; charset=utf-8"));
        assert_eq!(value(&other, "Cache-Control"), Some("private, no-cache"));
        assert_eq!(application.connections().len(), 1, "{}: it is kept", spec.name);
    });
}

#[test]
fn no_file_elsewhere_is_sent() {
    let directory = site_with_files();
    let root = directory.path().join("protected").display().to_string();
    let fields = [
        (format!("X-Sendfile: {root}/../secret.txt"), 403),
        (format!("X-Sendfile: {root}/%2e%2e/secret.txt"), 403),
        (format!("X-Sendfile: {root}/%2e%2e%2fsecret.txt"), 403),
        (format!("X-Sendfile: {root}/%252e%252e/secret.txt"), 404),
        (format!("X-Sendfile: {root}-other/a"), 403),
        (format!("X-Sendfile: {root}"), 403),
        ("X-Sendfile: /etc/passwd".into(), 403),
        ("X-Sendfile: a.txt".into(), 403),
        ("X-Sendfile:".into(), 403),
        (format!("X-Sendfile: {root}/out.txt"), 404),
        (format!("X-Sendfile: {root}/inner"), 404),
        (format!("X-Sendfile: {root}/inner/"), 404),
        (format!("X-Sendfile: {root}/none.txt"), 404),
        ("X-Accel-Redirect: /../secret.txt".into(), 403),
        ("X-Accel-Redirect: /inner/%2e%2e/%2e%2e/secret.txt".into(), 403),
        ("X-Accel-Redirect: /out.txt".into(), 404),
        ("X-Accel-Redirect: http://h/a".into(), 403),
        (format!("X-Accel-Redirect: {root}/a%20b.txt"), 404),
    ];
    let lines: Vec<&str> = fields.iter().map(|(line, _)| line.as_str()).collect();
    for_each_engine(|spec| {
        let application = names(&lines);
        let server = front_with_files(spec, &directory, &application);
        let mut client = connect(&server);
        for (number, (line, status)) in fields.iter().enumerate() {
            let (head, body) = get(&mut client, &format!("/app/{number}"), "");
            let text = String::from_utf8(body).unwrap();
            assert!(
                head.starts_with(&format!("HTTP/1.1 {status} ")),
                "{}: {line}: {head}",
                spec.name
            );
            assert!(!text.contains("secret") && !text.contains("content"), "{line}: {text}");
            assert!(!head.contains("X-Sendfile") && !head.contains("X-Accel"), "{head}");
        }
    });
}

#[test]
fn a_name_goes_to_the_client_where_no_directory_is_configured() {
    let directory = site_with_files();
    for_each_engine(|spec| {
        let application = names(&["X-Sendfile: /a"]);
        let server = front(spec, &directory, &[&application], "");
        let (head, body) = get(&mut connect(&server), "/app/0", "");
        assert_eq!(value(&head, "X-Sendfile"), Some("/a"), "{}", spec.name);
        assert_eq!(body, b"content");
    });
}

/// Requests one after the other without a wait: each answer ends where the next begins.
#[test]
fn requests_after_a_named_file_are_answered() {
    let directory = site_with_files();
    for_each_engine(|spec| {
        let application = names(&["X-Accel-Redirect: /inner/large.bin"]);
        let server = front_with_files(spec, &directory, &application);
        let mut client = connect(&server);
        let large = " /app/0 HTTP/1.1\r\nHost: h\r\n\r\n";
        let posted = "POST /app/0 HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\
                      Range: bytes=0-1\r\nIf-None-Match: *\r\n\r\nbody";
        let small = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
        let requests = format!("GET{large}HEAD{large}{posted}{small}GET{large}");
        client.write_all(requests.as_bytes()).unwrap();
        let mut stream = BufReader::new(client);
        for (has_body, len) in [(true, 3_000_000), (false, 0), (true, 3_000_000), (true, 13)] {
            let (head, body) = take(&mut stream, has_body);
            assert!(head.starts_with("HTTP/1.1 200 "), "{}: {head}", spec.name);
            assert!(has_body || value(&head, "Content-Length") == Some("3000000"), "{head}");
            assert_eq!(body.len(), len, "{}", spec.name);
        }
        let (_, body) = take(&mut stream, true);
        assert!(body.len() == 3_000_000 && body.iter().all(|byte| *byte == b'x'), "{}", spec.name);
    });
}

/// An application that goes on and on after it has named a file: its connection is closed.
#[test]
fn content_beside_a_name_is_not_received_without_end() {
    let directory = site_with_files();
    let root = directory.path().join("protected");
    let key = format!(", sendfile_root = \"{}\"", root.display());
    for_each_engine(|spec| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = in_front_of(spec, &directory, &[listener.local_addr().unwrap()], &key);
        let application = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            take_head(&mut stream);
            let head = b"HTTP/1.1 200 OK\r\nX-Accel-Redirect: /a%20b.txt\r\n\
                         Content-Length: 1000000000000\r\n\r\n";
            stream.write_all(head).unwrap();
            while stream.write_all(&[b'y'; 65_536]).is_ok() {}
        });
        let mut client = connect(&server);
        let (head, body) = get(&mut client, "/app/0", "");
        assert!(head.starts_with("HTTP/1.1 200 ") && body == b"0123456789", "{head}");
        let (_, body) = get(&mut client, "/", "");
        assert_eq!(body, b"<h1>Rope</h1>", "{}", spec.name);
        application.join().unwrap();
    });
}

#[test]
fn a_reply_that_is_cut_short_names_no_file() {
    let directory = site_with_files();
    for_each_engine(|spec| {
        let application = scripted(|_| {
            let head = b"HTTP/1.1 200 OK\r\nX-Accel-Redirect: /a%20b.txt\r\n\
                         Content-Length: 9\r\n\r\nx";
            vec![Action::Send(head.to_vec()), Action::Close]
        });
        let server = front_with_files(spec, &directory, &application);
        let (head, _) = get(&mut connect(&server), "/app/0", "");
        assert!(head.starts_with("HTTP/1.1 502 "), "{}: {head}", spec.name);
    });
}

#[test]
fn programs_name_files_too() {
    let directory = site_with_files();
    let root = directory.path().join("protected").display().to_string();
    let script = format!(
        "#!/bin/sh\nprintf 'Content-Type: a/b\\r\\nX-Sendfile: {root}/a b.txt\\r\\n\\r\\n'; cat\n"
    );
    let program = directory.file("site/cgi-bin/tool", script);
    fs::set_permissions(program, Permissions::from_mode(0o755)).unwrap();
    let route = format!(
        "host.route=[{{ path = \"/cgi-bin/**\", cgi = true, sendfile_root = \"{root}/\" }}]"
    );
    for_each_engine(|spec| {
        let server = start(&directory, &[&format!("engine.name={}", spec.name), &route]);
        let mut client = connect(&server);
        let (head, body) = get(&mut client, "/cgi-bin/tool", "Range: bytes=8-\r\n");
        assert!(head.starts_with("HTTP/1.1 206 ") && body == b"89", "{}: {head}", spec.name);
        assert_eq!(value(&head, "Content-Type"), Some("a/b"));
        // A body in chunks is gathered before the program is started.
        let posted = "POST /cgi-bin/tool HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n\
                      4\r\nbody\r\n0\r\n\r\n";
        client.write_all(posted.as_bytes()).unwrap();
        let (head, body) = take(&mut BufReader::new(&mut client), true);
        assert!(
            head.starts_with("HTTP/1.1 200 ") && body == b"0123456789",
            "{}: {head}",
            spec.name
        );
    });
}
