//! Bursts: the request for a page alone, then the requests for its embedded files, all at once.

use load::error_kind::ErrorKind;
use load::plan::ConnectionUse;
use testkit::scripted::{Action, Reply, Scripted};
use testkit::undisturbed;

use crate::setup::{
    MS, Step, errors, get, log, millis, plan, run_to_end, scripted, scripted_by_target, send,
    targets,
};

fn page() -> [Step; 5] {
    [
        get("/page"),
        get("/1").joined(),
        get("/2").joined(),
        get("/3").joined().pause_ms(30),
        get("/next"),
    ]
}

const ORDER: [&str; 5] = ["/page", "/1", "/2", "/3", "/next"];

fn reply() -> Reply {
    Reply::ok(b"ok")
}

/// The rest of the burst is sent when the first reply is complete, all of it before any further
/// reply.
#[test]
fn the_rest_follows_the_first_reply_at_once() {
    let server = scripted_by_target(|target| match target {
        // The reply comes in two halves, so that the client sees the first well before the second.
        "/page" => {
            let bytes = reply().bytes();
            let (head, body) = bytes.split_at(bytes.len() - 1);
            [head, body]
                .map(|part| vec![Action::Wait(millis(40)), Action::Send(part.to_vec())])
                .concat()
        }
        "/1" => vec![Action::Wait(millis(60)), send(&reply())],
        _ => vec![send(&reply())],
    });
    let outcome = run_to_end(&plan(server.address(), log(&[&page()])));
    assert_eq!(errors(&outcome), []);
    let seen = server.requests();
    assert_eq!(targets(&seen), ORDER);
    assert_eq!(server.connections().len(), 1);
    assert!(seen[1].at_us >= seen[0].at_us + 80 * MS, "sent before the first reply was complete");
    assert!(seen[4].at_us >= seen[3].at_us + 30 * MS, "the pause comes after the burst");
    // The embedded files were requested together: each took as long as the server waited before the
    // first.
    let times = &outcome.measures.times.uncorrected;
    assert_eq!(times.len(), 5);
    assert!(times.value_at_quantile(0.3) >= 59 * MS, "{}", times.value_at_quantile(0.3));
}

/// Replies to several requests may arrive in one packet or in pieces.
#[test]
fn replies_come_in_order_however_they_are_packed() {
    for singly in [false, true] {
        let server = Scripted::start(os::clock::now, move |asked| {
            let replies = match &*asked.target {
                "/page" | "/next" => reply().bytes(),
                "/1" => [reply().bytes(), Reply::ok(b"two").bytes(), reply().bytes()].concat(),
                _ => Vec::new(),
            };
            vec![if singly { Action::SendSingly(replies) } else { Action::Send(replies) }]
        });
        let outcome = run_to_end(&plan(server.address(), log(&[&page()])));
        assert_eq!(errors(&outcome), []);
        assert_eq!(outcome.measures.counts.body_bytes, 4 * 2 + 3);
        assert_eq!(targets(&server.requests()), ORDER);
    }
}

/// Requests sent and not answered have failed with the connection; the rest are never sent.
#[test]
fn a_server_that_closes_in_the_middle() {
    let server = scripted_by_target(|target| match target {
        "/2" => vec![Action::Wait(millis(20)), Action::Close],
        _ => vec![send(&reply())],
    });
    let outcome = run_to_end(&plan(server.address(), log(&[&page()])));
    assert_eq!(errors(&outcome), [(ErrorKind::ClosedEarly, 2)]);
    let counts = &outcome.measures.counts;
    assert_eq!((counts.requests, counts.replies, counts.requests_abandoned), (4, 2, 1));
    assert_eq!(counts.sessions_failed, 1);
    assert_eq!(outcome.measures.replies_per_session[2], 1);
}

/// A server announces with `Connection: close` that it will close in the middle of a burst.
#[test]
fn a_server_that_announces_the_end_in_the_middle() {
    let server = scripted_by_target(|target| match target {
        "/2" => vec![send(&reply().field("Connection: close")), Action::Close],
        _ => vec![send(&reply())],
    });
    let outcome = run_to_end(&plan(server.address(), log(&[&page()])));
    assert_eq!(errors(&outcome), [(ErrorKind::ClosedEarly, 1)]);
    let counts = &outcome.measures.counts;
    assert_eq!((counts.replies, counts.requests_abandoned), (3, 1));
}

#[test]
fn a_timeout_in_the_middle_fails_all_that_is_under_way() {
    let server = scripted_by_target(|target| match target {
        "/2" => vec![Action::Stall],
        _ => vec![send(&reply())],
    });
    let mut plan = plan(server.address(), log(&[&page()]));
    plan.timeout_us = 300 * MS;
    // A server that is kept from its CPU may not even answer the first request in time.
    undisturbed(|| {
        let outcome = run_to_end(&plan);
        if errors(&outcome) != [(ErrorKind::TimeoutWaiting, 2)] {
            return Err(format!("{:?}", errors(&outcome)));
        }
        assert_eq!(outcome.measures.lengths[5].timeouts, 1);
        Ok(())
    });
}

#[test]
fn a_wrong_status_in_the_middle_goes_on() {
    let server = scripted_by_target(|target| {
        vec![send(&if target == "/2" { Reply::status(404, b"?") } else { reply() })]
    });
    let outcome = run_to_end(&plan(server.address(), log(&[&page()])));
    assert_eq!(errors(&outcome), [(ErrorKind::BadStatus, 1)]);
    assert_eq!(targets(&server.requests()), ORDER);
}

/// With a connection for each request no request can be pipelined.
#[test]
fn without_connections_to_share_they_go_one_by_one() {
    let server = scripted(&[send(&reply().field("Connection: close")), Action::Close]);
    let mut plan = plan(server.address(), log(&[&page()]));
    plan.connection_use = ConnectionUse::Request;
    let outcome = run_to_end(&plan);
    assert_eq!(errors(&outcome), []);
    assert_eq!(targets(&server.requests()), ORDER);
    assert_eq!(server.connections().len(), 5);
}

/// More requests than the kernel's buffers hold, while the server already answers.
#[test]
fn a_burst_that_does_not_fit() {
    let server = scripted_by_target(|target| match target {
        "/1" => vec![send(&reply()), Action::Wait(millis(100))],
        _ => vec![send(&reply())],
    });
    let long = |uri: &str| get(uri).method("POST").body(&vec![b'x'; 5_000_000]).joined();
    let uris = ["/1", "/2", "/3", "/4", "/5"];
    let steps: Vec<Step> = [get("/page")].into_iter().chain(uris.map(long)).collect();
    let outcome = run_to_end(&plan(server.address(), log(&[&steps])));
    assert_eq!(errors(&outcome), []);
    assert_eq!(targets(&server.requests()), ["/page", "/1", "/2", "/3", "/4", "/5"]);
}
