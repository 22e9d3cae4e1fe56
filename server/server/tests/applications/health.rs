//! Servers that are asked for their health: who gets requests, and what the status says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use server::Server;
use testkit::comes_true;
use testkit::scripted::{Action, Reply, Scripted};
use testkit::sockets::{ESTABLISHED, TcpSocket, tcp_sockets};

use crate::harness::{connect, site, start};
use crate::{GET, ask, in_front_of, nobody, scripted};

const KEYS: &str = ", balance = \"round-robin\", health = \"/up?a\", health_ms = 10";

/// An application that says by a switch whether it is well, and answers all other requests.
fn patient() -> (Scripted, Arc<AtomicBool>) {
    let is_well = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&is_well);
    let application = scripted(move |asked| {
        let reply = match asked.target.as_str() {
            "/up?a" if !switch.load(Ordering::Relaxed) => Reply::status(503, b"ill"),
            _ => Reply::ok(b"here"),
        };
        vec![Action::Send(reply.bytes())]
    });
    (application, is_well)
}

fn says(server: &Server, text: &str) -> bool {
    server.status().iter().any(|line| line.contains(text))
}

/// The requests for the application that it has had, but for checks.
fn asked(application: &Scripted) -> usize {
    application.requests().iter().filter(|asked| asked.target.starts_with("/app/")).count()
}

/// Whether there comes a moment from which on one of the applications gets all requests for a
/// while. On a busy machine checks may be late, and a server down that is well.
fn all_go_to(server: &Server, chosen: &Scripted) -> bool {
    comes_true(|| {
        let before = asked(chosen);
        (0..16).for_each(|_| assert_eq!(ask(&mut connect(server), GET).0, 200));
        asked(chosen) == before + 16
    })
}

/// What one process finds out holds for the workers of all, whatever they are (apisix 4102, caddy
/// 6152, traefik 11306).
#[test]
fn a_server_that_falls_gets_nothing_until_it_rises() {
    let directory = site();
    let engines = ["event-loop", "threads", "processes", "event-loop-shared-cache"];
    testkit::side_by_side(&engines, |engine| {
        let [(first, is_first_well), (second, is_second_well)] = [patient(), patient()];
        let servers = [first.address(), second.address()];
        let server = in_front_of(engines::find(engine).unwrap(), &directory, &servers, KEYS);
        let down = |of: &Scripted| format!("1 of them down (http://{})", of.address());
        is_first_well.store(false, Ordering::Relaxed);
        assert!(comes_true(|| says(&server, &down(&first))), "{engine}: {:?}", server.status());
        assert!(all_go_to(&server, &second), "{engine}");
        // The last ones are never left out.
        is_second_well.store(false, Ordering::Relaxed);
        assert!(comes_true(|| says(&server, "2 servers, 2 of them down")), "{engine}");
        let before = [asked(&first), asked(&second)];
        assert!(comes_true(|| {
            assert_eq!(ask(&mut connect(&server), GET).0, 200);
            asked(&first) > before[0] && asked(&second) > before[1]
        }));
        is_first_well.store(true, Ordering::Relaxed);
        assert!(comes_true(|| says(&server, &down(&second))), "{engine}");
        assert!(all_go_to(&server, &first), "{engine}");
    });
}

/// An application that answers all requests but checks, with which it does something else.
fn ill(check: &'static [Action]) -> Scripted {
    scripted(|asked| match asked.target.as_str() {
        "/up?a" => check.to_vec(),
        _ => vec![Action::Send(Reply::ok(b"here").bytes())],
    })
}

/// A check is over in time and its connection closed, whatever the server does.
#[test]
fn what_is_no_answer_in_time_is_a_fall() {
    let directory = site();
    let endless = [&b"HTTP/1.1 200 OK\r\nA: "[..], &[b'b'; 100_000]].concat();
    let bad = [
        vec![Action::Stall],
        vec![Action::Close],
        vec![Action::Send(b"SSH-2.0-x\r\n\r\n".to_vec()), Action::Stall],
        vec![Action::Send(endless), Action::Stall],
    ];
    let bad = bad.map(|check| ill(check.leak()));
    let (well, _) = patient();
    let servers: Vec<_> = bad.iter().map(Scripted::address).collect();
    let servers = [&servers[..], &[nobody(), well.address()]].concat();
    let server = in_front_of(engines::find("event-loop").unwrap(), &directory, &servers, KEYS);
    assert!(comes_true(|| says(&server, "6 servers, 5 of them down")), "{:?}", server.status());
    assert!(all_go_to(&server, &well));
    let head = &well.requests()[0].head;
    assert!(head.contains(&format!("\r\nHost: {}\r\n", well.address())), "{head}");
    // One check of each is under way at a time, and connections are closed.
    let strange = &bad[2];
    let checks = || strange.requests().iter().filter(|asked| asked.target == "/up?a").count();
    assert!(comes_true(|| checks() > 20));
    let port = strange.address().port();
    let is_open = |it: &TcpSocket| it.state == ESTABLISHED && it.remote_port == port;
    let open = || tcp_sockets().into_iter().filter(is_open).count();
    assert!(open() <= 4, "{} connections", open());
    server.stop_gracefully(Duration::from_secs(10)).unwrap();
    assert!(comes_true(|| open() == 0 && well.open() == 0), "{} connections", open());
}

/// Each check takes a descriptor of those that the server has for itself.
#[test]
fn a_few_servers_are_asked_at_a_time() {
    let directory = site();
    let silent = scripted(|_| vec![Action::Stall]);
    let servers = [silent.address(); 40];
    let spec = engines::find("event-loop").unwrap();
    let server = in_front_of(spec, &directory, &servers, ", health = \"/up?a\"");
    assert!(comes_true(|| silent.requests().len() == 16));
    assert_eq!(ask(&mut connect(&server), "GET / HTTP/1.1\r\nHost: h\r\n\r\n").0, 200);
    assert_eq!(silent.connections().len(), 16);
}

/// What is due longest is asked first: the others are due again as soon as they are given up.
#[test]
fn silent_servers_do_not_keep_others_from_being_asked() {
    let directory = site();
    let silent = scripted(|_| vec![Action::Stall]);
    let servers = [&[silent.address(); 16][..], &[nobody()]].concat();
    let spec = engines::find("event-loop").unwrap();
    let keys = ", health = \"/up?a\", health_ms = 500";
    let server = in_front_of(spec, &directory, &servers, keys);
    assert!(comes_true(|| says(&server, "17 servers, 17 of them down")), "{:?}", server.status());
}

#[test]
fn servers_are_not_asked_unless_a_route_says_so() {
    let directory = site();
    let (application, _) = patient();
    let spec = engines::find("event-loop").unwrap();
    let server = in_front_of(spec, &directory, &[application.address()], "");
    assert_eq!(ask(&mut connect(&server), GET).0, 200);
    assert_eq!(application.requests().len(), 1);
    assert!(says(&server, &format!("http://{}: 1 server, 0 tunnels open", application.address())));
}

/// Names are looked up by the process that was started, and reach those that it has started.
#[test]
fn a_server_can_have_a_name_on_engines_of_processes() {
    let directory = site();
    testkit::side_by_side(&["processes", "event-loop-shared-cache"], |engine| {
        let (application, _) = patient();
        let port = application.address().port();
        let route =
            format!("host.route=[{{ path = \"/app/**\", proxy = \"http://localhost:{port}\" }}]");
        let server = start(&directory, &[&format!("engine.name={engine}"), &route]);
        for _ in 0..4 {
            assert_eq!(ask(&mut connect(&server), GET).0, 200, "{engine}");
        }
    });
}
