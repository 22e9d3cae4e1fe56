//! Local redirects of scripts (RFC 3875 §6.2.2), on every engine.

use std::fs;
use std::io::{BufReader, Write};
use std::time::Duration;

use testkit::scripted::{Action, Reply};

use crate::fastcgi_server::{Asked, Does, FastCgiServer, record, reply};
use crate::harness::{connect, for_each_engine, site, start, take_head};
use crate::{answer, ask, scripted};

/// Scripts that redirect to what their query says, or tell of their request.
fn script(asked: &Asked) -> Vec<Does> {
    if asked.variable("QUERY_STRING") == "endless" {
        return reply("Location: /a.php?endless", b"");
    }
    if asked.variable("QUERY_STRING") == "stalls" {
        let head = b"Location: /b.php\r\n\r\n".to_vec();
        let output = [head, vec![b'x'; 40_000], vec![b'x'; 40_000]];
        let sent = output.map(|bytes| Does::Send(record(6, &bytes)));
        return sent.into_iter().chain([Does::Stall]).collect();
    }
    if let Some(target) = asked.variable("QUERY_STRING").strip_prefix("to=") {
        return reply(&format!("Location: {target}"), b"for clients");
    }
    let told = ["REQUEST_METHOD", "REQUEST_URI", "SCRIPT_NAME", "QUERY_STRING"];
    let told = told.map(|name| asked.variable(name)).join(" ");
    let body = String::from_utf8_lossy(&asked.body);
    reply("Content-Type: text/plain", format!("{told} [{body}]").as_bytes())
}

#[test]
fn a_local_redirect_is_answered_as_a_request_for_its_path() {
    let directory = site();
    directory.file("site/a.php", "secret");
    directory.file("site/b.php", "secret");
    directory.file("site/.hidden", "secret");
    for_each_engine(|spec| {
        let php = FastCgiServer::start(directory.path().join(format!("{}.php", spec.name)), script);
        let application = scripted(|asked| {
            vec![Action::Send(
                Reply::ok(format!("{} {}", asked.method, asked.target).as_bytes()).bytes(),
            )]
        });
        // The place of one call is free for the next.
        let route = format!(
            "host.route=[{{ path = \"**.php\", fastcgi = \"unix:{}\", in_flight_max = 1 }}, \
             {{ path = \"/app/**\", proxy = \"http://{}\" }}]",
            php.path().display(),
            application.address()
        );
        let log = directory.path().join(format!("{}.log", spec.name));
        let log_path = format!("log.path={}", log.display());
        let engine = format!("engine.name={}", spec.name);
        let server = start(&directory, &[&engine, &route, "log.access=combined", &log_path]);
        let mut client = connect(&server);
        let told = "GET /a.php?to=/b.php?x /b.php x []";
        for (request, status, content) in [
            ("GET /a.php?to=/", 200, "<h1>Rope</h1>"),
            ("GET /a.php?to=/b.php?x", 200, told),
            ("POST /a.php?to=/b.php?x", 200, told),
            ("POST /a.php?to=/app/c%2fd?e", 200, "GET /app/c%2fd?e"),
            ("GET /a.php?to=/.hidden", 404, ""),
            ("GET /a.php?to=/none", 404, ""),
            (
                "GET /a.php?to=/a.php?to=/a.php?to=/b.php",
                200,
                "GET /a.php?to=/a.php?to=/a.php?to=/b.php /b.php  []",
            ),
            ("GET /a.php?to=//evil.test/", 302, ""),
            // Of more content than is received beside a redirect the end is not waited for.
            ("GET /a.php?stalls", 200, "GET /a.php?stalls /b.php  []"),
        ] {
            let body =
                if request.starts_with("POST") { "Content-Length: 3\r\n\r\nabc" } else { "\r\n" };
            let (is, got) = ask(&mut client, &format!("{request} HTTP/1.1\r\nHost: h\r\n{body}"));
            assert!(is == status && got.contains(content), "{}: {request}: {is}: {got}", spec.name);
            assert!(!got.contains("secret") && got.contains("for clients") == (is == 302), "{got}");
        }
        client.write_all(b"HEAD /a.php?to=/ HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let head = String::from_utf8(take_head(&mut client)).unwrap();
        assert!(
            head.starts_with("HTTP/1.1 200 ") && head.contains("\r\nContent-Length: 13\r\n"),
            "{head}"
        );
        // Requests that are there already follow in their order.
        let pipelined = ["/a.php?to=/b.php", "/", "/a.php?to=/"];
        for path in pipelined {
            write!(client, "GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        }
        let mut reader = BufReader::new(&client);
        assert!(answer(&mut reader).1.contains(" /b.php "), "{}", spec.name);
        assert_eq!(
            [answer(&mut reader), answer(&mut reader)],
            [(200, "<h1>Rope</h1>".into()), (200, "<h1>Rope</h1>".into())]
        );
        let asked = php.requests().len();
        let endless = ask(&mut client, "GET /a.php?endless HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!((endless.0, php.requests().len() - asked), (502, 11), "{}", spec.name);
        drop(client);
        server.stop_gracefully(Duration::from_secs(10)).unwrap();
        let lines = fs::read_to_string(&log).unwrap();
        assert!(
            lines.contains("\"POST /a.php?to=/b.php?x HTTP/1.1\" 200 "),
            "{}: {lines}",
            spec.name
        );
        assert!(lines.contains("\"GET /a.php?to=/none HTTP/1.1\" 404 "), "{}: {lines}", spec.name);
        assert_eq!(lines.lines().count(), 14, "{lines}");
    });
}
