//! Requests to CGI programs: what starts them is told, and what their output becomes.

use upstream::{
    Address, Application, ApplicationSettings, Failure, Length, Origin, Protocol, Refusal,
    START_BYTES_MAX, ScriptRequest, ServerSettings, StartProgram,
};

use crate::memory::{PEER, Pair};

const GET: &str = "GET /cgi-bin/a/b HTTP/1.1\r\nHost: a.test\r\n\r\n";
const POST: &str = "POST /cgi-bin/a/b HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\n";

fn application(folder: &str) -> Application {
    let servers = vec![ServerSettings { address: Address::Programs(folder.into()), weight: 1 }];
    let protocol = Protocol::Cgi;
    Application::new(ApplicationSettings { servers, protocol, ..Default::default() }, 0)
}

fn script() -> ScriptRequest<'static> {
    ScriptRequest {
        origin: Origin { peer: PEER.parse().unwrap(), is_trusted: false, authority: "a" },
        peer_port: 4711,
        root: b"/srv/site",
        script_name: b"/cgi-bin/a",
        path_info: b"/b",
        body_bytes: None,
        asked: None,
    }
}

/// A call that has sent what it can.
fn asked(head: &str) -> Pair {
    let mut pair = Pair::of_program(application(""), head, &script()).unwrap();
    pair.drive();
    pair
}

#[test]
fn the_process_that_starts_programs_is_told_which_and_for_what() {
    let check = |folder: &str, program: &str, file: &str| {
        let pair = Pair::of_program(application(folder), POST, &script()).unwrap();
        let start = StartProgram::decode(pair.call.program().unwrap()).unwrap();
        assert_eq!((start.host, start.has_body), (3, true));
        let texts = [start.folder, start.program, start.target].map(String::from_utf8_lossy);
        assert_eq!(texts, [folder, program, "/cgi-bin/a/b"]);
        let variables: Vec<_> = start.variables().map(|it| it.to_str().unwrap()).collect();
        let file = format!("SCRIPT_FILENAME={file}");
        for expected in [&*file, "SCRIPT_NAME=/cgi-bin/a", "PATH_INFO=/b", "CONTENT_LENGTH=5"] {
            assert!(variables.contains(&expected), "{expected}: {variables:?}");
        }
    };
    check("", "cgi-bin/a", "/srv/site/cgi-bin/a");
    check("/usr/lib/cgi-bin", "a", "/usr/lib/cgi-bin/a");
    check("/usr/lib/cgi-bin/", "a", "/usr/lib/cgi-bin/a");
}

#[test]
fn a_body_is_sent_as_it_comes_and_its_end_is_told() {
    let mut pair = Pair::of_program(application(""), POST, &script()).unwrap();
    pair.client.is_whole = false;
    pair.client.body = b"ab".to_vec();
    pair.window = 1;
    pair.drive();
    assert_eq!((pair.sent_text(), pair.has_ended_sending), ("ab".into(), false));
    assert_eq!(pair.call.deadline(), None, "the client has the word");
    pair.client.body = b"cde".to_vec();
    pair.client.is_whole = true;
    pair.drive();
    assert_eq!((pair.sent_text(), pair.has_ended_sending), ("abcde".into(), true));
    assert!(pair.call.deadline().is_some(), "a reply is due");
    assert!(asked(GET).has_ended_sending, "nothing is all of it");
}

#[test]
fn the_end_of_the_output_is_the_end_of_the_reply() {
    let mut pair = asked(GET);
    pair.receive(b"Content-Type: text/plain\n\nhel");
    pair.receive(b"lo");
    assert!(!pair.client.is_complete);
    pair.end();
    assert!(pair.client.is_complete && pair.over == Some(false));
    let (status, length, _) = &pair.client.heads[0];
    assert_eq!((*status, *length, &*pair.client.content), (200, Length::Unknown, &b"hello"[..]));
}

#[test]
fn an_output_that_is_no_reply_has_its_failure() {
    for (output, failure) in [
        ("", Failure::Closed),
        ("Content-Type: text/plain\n", Failure::CutShort),
        ("Content-Type: text/plain\nContent-Length: 3\n\nab", Failure::CutShort),
        ("hello\n\n", Failure::ScriptHead),
        ("\u{4}", Failure::NotStarted(Refusal::Missing)),
        ("\u{3}", Failure::NotStarted(Refusal::Forbidden)),
        ("\u{5}", Failure::NotStarted(Refusal::Failed)),
    ] {
        let mut pair = asked(GET);
        if !output.is_empty() {
            pair.receive(output.as_bytes());
        }
        pair.end();
        assert_eq!(pair.client.failure, Some(failure), "{output:?}");
    }
    let mut pair = asked(GET);
    pair.receive(b"Content-Type: text/plain\n\n");
    pair.receive(b"\x04");
    pair.end();
    assert_eq!((pair.client.failure, &*pair.client.content), (None, &b"\x04"[..]));
}

#[test]
fn more_than_a_program_can_be_told_is_no_call() {
    let with = |bytes: usize| {
        let head = GET.replace("\r\n\r\n", &format!("\r\nX: {}\r\n\r\n", "x".repeat(bytes)));
        Pair::of_program(application(""), &head, &script())
    };
    assert!(with(START_BYTES_MAX - 2000).is_some());
    assert!(with(START_BYTES_MAX).is_none());
}
