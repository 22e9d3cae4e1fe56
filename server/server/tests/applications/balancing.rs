//! Several servers of an application: which one gets a request, by each policy.

use std::io::Write;

use testkit::scripted::{Action, Reply, Scripted};
use testkit::{Temporary, comes_true};

use crate::harness::{Running, connect, site};
use crate::{GET, ask, in_front_of, nobody, scripted};

const POLICIES: [&str; 5] =
    ["auto", "round-robin", "least-requests", "two-choices", "client-address"];

/// Answers all requests but those for `/app/stall`.
fn willing() -> Scripted {
    scripted(|asked| match asked.target.as_str() {
        "/app/stall" => vec![Action::Stall],
        _ => vec![Action::Send(Reply::ok(b"here").bytes())],
    })
}

fn front_of_two(engine: &str, directory: &Temporary, keys: &str) -> (Running, [Scripted; 2]) {
    let applications = [willing(), willing()];
    let addresses = applications.each_ref().map(Scripted::address);
    let spec = engines::find(engine).unwrap();
    (in_front_of(spec, directory, &addresses, keys), applications)
}

/// How many requests each of two servers has had.
fn counts(applications: &[Scripted; 2]) -> [usize; 2] {
    applications.each_ref().map(|application| application.requests().len())
}

#[test]
fn no_policy_gives_a_request_up_while_a_server_can_be_reached() {
    let directory = site();
    testkit::side_by_side(&["event-loop", "threads", "processes"], |engine| {
        for policy in POLICIES {
            let application = willing();
            let servers = [nobody(), application.address(), nobody(), nobody()];
            let spec = engines::find(engine).unwrap();
            let server =
                in_front_of(spec, &directory, &servers, &format!(", balance = {policy:?}"));
            for _ in 0..8 {
                assert_eq!(ask(&mut connect(&server), GET).0, 200, "{engine}: {policy}");
            }
            assert_eq!(application.requests().len(), 8);
        }
    });
}

#[test]
fn the_server_with_fewer_requests_gets_the_next() {
    let directory = site();
    // Engines whose requests are all counted in one place.
    testkit::side_by_side(&["event-loop", "threads"], |engine| {
        for policy in ["least-requests", "two-choices"] {
            let keys = format!(", balance = {policy:?}");
            let (server, applications) = front_of_two(engine, &directory, &keys);
            let mut stalled = connect(&server);
            stalled.write_all(b"GET /app/stall HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            let has_arrived = || counts(&applications) != [0, 0];
            assert!(comes_true(has_arrived), "{engine}: {policy}");
            let busy = usize::from(counts(&applications)[1] == 1);
            let mut client = connect(&server);
            for _ in 0..6 {
                assert_eq!(ask(&mut client, GET).0, 200);
            }
            assert_eq!(counts(&applications)[1 - busy], 6, "{engine}: {policy}");
            // When its client has gone it is as good as the other one.
            drop(stalled);
            assert!(comes_true(|| {
                ask(&mut client, GET);
                counts(&applications)[busy] > 1
            }));
        }
    });
}

/// One client, or one client of a trusted proxy, has one server, on all workers alike.
#[test]
fn a_client_has_its_server() {
    let directory = site();
    testkit::side_by_side(&["event-loop-per-core", "processes"], |engine| {
        let keys = ", balance = \"client-address\", trusted = [\"127.0.0.1\"]";
        let (server, applications) = front_of_two(engine, &directory, keys);
        for number in 0..20 {
            let mut counted = counts(&applications);
            for _ in 0..3 {
                let request = format!(
                    "GET /app/ HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.{number}\r\n\r\n"
                );
                assert_eq!(ask(&mut connect(&server), &request).0, 200);
            }
            for (before, now) in counted.iter_mut().zip(counts(&applications)) {
                *before = now - *before;
            }
            assert!(counted.contains(&3), "{engine}: {counted:?}");
        }
        assert!(!counts(&applications).contains(&0), "each server has clients");
    });
}

#[test]
fn servers_have_requests_by_their_weight() {
    let directory = site();
    let keys = ", balance = \"round-robin\", weights = [3, 1]";
    let (server, applications) = front_of_two("event-loop", &directory, keys);
    let mut client = connect(&server);
    for _ in 0..40 {
        assert_eq!(ask(&mut client, GET).0, 200);
    }
    // The first of all is chosen at random.
    let counted = counts(&applications);
    assert!(counted == [30, 10] || counted == [29, 11], "{counted:?}");
}
