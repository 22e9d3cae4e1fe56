//! Which requests share a connection, and the sources and targets of connections.

use std::net::{IpAddr, SocketAddr};

use load::error_kind::ErrorKind;
use load::plan::{ConnectionUse, Expected, ExpectedBody, Plan, Verify};
use testkit::scripted::{Action, Reply, Scripted};
use testkit::undisturbed;

use crate::setup::{
    closed, errors, get, log, millis, open, plan, run_to_end, scripted, send, target,
};

fn reply() -> Reply {
    Reply::ok(b"hello")
}

fn keeping() -> Scripted {
    scripted(&[send(&reply())])
}

/// Ten sessions of three requests by two clients.
fn ten_sessions(server: &Scripted, connection_use: ConnectionUse) -> Plan {
    let mut plan = plan(server.address(), log(&[&[get("/a"), get("/b"), get("/c")]]));
    (plan.sessions_max, plan.model) = (Some(10), closed(2));
    plan.connection_use = connection_use;
    plan
}

#[track_caller]
fn check(server: &Scripted, connection_use: ConnectionUse, connections: u64) {
    let outcome = run_to_end(&ten_sessions(server, connection_use));
    assert_eq!(errors(&outcome), []);
    assert_eq!(server.requests().len(), 30);
    assert_eq!(server.connections().len() as u64, connections);
    let counts = &outcome.measures.counts;
    assert_eq!((counts.connections, counts.connections_tried), (connections, connections));
    assert!((1..=2).contains(&counts.connections_open_max), "{counts:?}");
}

#[test]
fn one_for_each_session() {
    let server = keeping();
    check(&server, ConnectionUse::Session, 10);
    assert!(server.requests().iter().all(|asked| !asked.head.contains("Connection")));
}

#[test]
fn one_for_each_request() {
    let server = scripted(&[send(&reply().field("Connection: close")), Action::Close]);
    check(&server, ConnectionUse::Request, 30);
    assert!(server.requests().iter().all(|asked| asked.head.contains("Connection: close\r\n")));
}

/// A connection carries one request even if the server would keep it open.
#[test]
fn one_for_each_request_whatever_the_server_wants() {
    check(&keeping(), ConnectionUse::Request, 30);
}

#[test]
fn kept_from_session_to_session() {
    check(&keeping(), ConnectionUse::Keep, 2);
}

#[test]
fn closed_by_the_server_without_a_word() {
    // A server that is kept from its CPU closes later than while the client thinks: few sessions
    // with long pauses give it time.
    undisturbed(|| {
        let server = scripted(&[send(&reply()), Action::Close]);
        let mut plan = ten_sessions(&server, ConnectionUse::Session);
        plan.log = log(&[&[get("/a").pause_ms(400), get("/b").pause_ms(400), get("/c")]]).into();
        plan.sessions_max = Some(2);
        let outcome = run_to_end(&plan);
        if !errors(&outcome).is_empty() {
            let errors = errors(&outcome);
            return Err(format!("closing while the client thinks is no failure: {errors:?}"));
        }
        assert_eq!(server.connections().len(), 6);
        Ok(())
    });
}

/// Kept connections that the server has closed are replaced, for whichever session would have used
/// them.
#[test]
fn kept_connections_that_the_server_closes() {
    let check = |verify: Verify| {
        let server = scripted(&[send(&reply()), Action::Close]);
        let mut plan = plan(server.address(), log(&[&[get("/a")]]));
        let body = ExpectedBody::Stored(b"hello"[..].into());
        plan.expected = [Expected { bytes: Some(5), body, kind: 0 }].into();
        // The rate is so low that even a busy server has closed before the next request is due,
        // unless it is kept from its CPU.
        (plan.model, plan.sessions_max) = (open(2.0), Some(4));
        (plan.connection_use, plan.verify) = (ConnectionUse::Keep, verify);
        let outcome = run_to_end(&plan);
        if !errors(&outcome).is_empty() {
            return Err(format!("{:?}", errors(&outcome)));
        }
        assert_eq!(server.connections().len(), 4);
        Ok(())
    };
    undisturbed(|| check(Verify::None));
    undisturbed(|| check(Verify::Bytes));
}

/// A kept connection that the server closes after a wrong status is replaced, although clients keep
/// theirs after a wrong status.
#[test]
fn a_kept_connection_closed_after_a_wrong_status() {
    let wrong = Reply::status(404, b"no such page");
    let server = scripted(&[send(&wrong), Action::Wait(millis(1)), Action::Close]);
    let mut plan = ten_sessions(&server, ConnectionUse::Keep);
    plan.log = log(&[&[get("/a")]]).into();
    plan.verify = Verify::Bytes;
    let outcome = run_to_end(&plan);
    let counts = &outcome.measures.counts;
    // A request that is sent before the client notices the close fails like any other.
    let errors = &outcome.measures.errors;
    assert_eq!((counts.requests, errors.total()), (10, 10));
    assert_eq!(counts.status[4], errors.get(ErrorKind::BadStatus));
    assert!(counts.status[4] >= 1, "{errors:?}");
}

#[test]
fn an_open_run_keeps_connections_too() {
    undisturbed(|| {
        let server = keeping();
        let mut plan = plan(server.address(), log(&[&[get("/a"), get("/b")]]));
        (plan.model, plan.sessions_max) = (open(50.0), Some(10));
        plan.connection_use = ConnectionUse::Keep;
        let outcome = run_to_end(&plan);
        assert_eq!(errors(&outcome), []);
        let connections = server.connections().len();
        assert_eq!(connections as u64, outcome.measures.counts.connections);
        // One is enough unless a session is over 20 ms late.
        if connections < 10 { Ok(()) } else { Err(format!("{connections} connections")) }
    });
}

/// Session k goes to target k modulo their number, whichever client plays it.
#[test]
fn sessions_are_dealt_out_to_targets() {
    for connection_use in [ConnectionUse::Session, ConnectionUse::Request, ConnectionUse::Keep] {
        for model in [closed(1), closed(2), closed(4), open(500.0)] {
            let servers = [keeping(), keeping(), keeping()];
            let uris = ["/0", "/1", "/2", "/3", "/4", "/5"];
            let sessions = uris.map(|uri| [get(uri), get(uri)]);
            let sessions: Vec<_> = sessions.iter().map(|session| &session[..]).collect();
            let mut plan = plan(servers[0].address(), log(&sessions));
            plan.targets = servers.iter().map(|server| target(server.address())).collect();
            (plan.sessions_max, plan.model) = (Some(12), model);
            plan.connection_use = connection_use;
            assert_eq!(errors(&run_to_end(&plan)), []);
            for (index, server) in servers.iter().enumerate() {
                let mut asked: Vec<_> =
                    server.requests().iter().map(|asked| asked.target.clone()).collect();
                asked.sort();
                let ours = [uris[index], uris[index + 3]];
                let expected = ours.map(|uri| vec![uri; 4]).concat();
                assert_eq!(asked, expected, "{connection_use:?} {:?}", plan.model);
                let host = format!("Host: {}\r\n", server.address());
                assert!(server.requests().iter().all(|asked| asked.head.contains(&host)));
            }
        }
    }
}

#[test]
fn sessions_come_from_all_sources() {
    let server = keeping();
    let sources: [IpAddr; 3] =
        ["127.0.0.2", "127.0.0.3", "127.7.7.7"].map(|ip| ip.parse().unwrap());
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    (plan.sources, plan.sessions_max) = (sources.to_vec(), Some(9));
    assert_eq!(errors(&run_to_end(&plan)), []);
    let peers: Vec<IpAddr> = server.connections().iter().map(SocketAddr::ip).collect();
    assert_eq!(peers, [sources, sources, sources].concat());
}

/// A client keeps its connection during pauses.
#[test]
fn connection_lifetimes_include_pauses() {
    let server = keeping();
    let steps = [get("/a").pause_ms(60), get("/b").pause_ms(60), get("/c").pause_ms(1_000_000)];
    let outcome = run_to_end(&plan(server.address(), log(&[&steps])));
    let times = &outcome.measures.times.connection;
    assert_eq!(times.len(), 1);
    assert!(times.min() >= 119_000, "{}", times.min());
    assert!(outcome.measures.counts.connection_time_us >= 119_000);
}
