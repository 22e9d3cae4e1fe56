//! Gateways: threads beside event loops, which have connections while applications answer. (All
//! other tests of applications hold with them, too: `ROPEWALK_TEST_ENGINES=event-loop
//! ROPEWALK_TEST_KNOBS=gateway=1`.)

use std::io::{BufReader, Read, Write};
use std::time::Duration;

use server::Server;
use testkit::Temporary;
use testkit::comes_true;
use testkit::scripted::{Action, Reply, Scripted};

use crate::harness::{Running, connect, site, start};
use crate::{GET, answer, ask, scripted};

const ENGINES: [&str; 4] =
    ["event-loop", "event-loop-per-core", "event-loop-copies", "event-loop-shared-listener"];

const FILE: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

fn with_gateway(engine: &str, directory: &Temporary, application: &Scripted) -> Running {
    let address = application.address();
    let route = format!("host.route=[{{ path = \"/app/**\", proxy = [\"http://{address}\"] }}]");
    let engine = format!("engine.name={engine}");
    // A file that is looked at again is a job, and jobs are the loop's.
    start(directory, &[&engine, "engine.knobs.gateway=1", "cache.revalidate_ms=never", &route])
}

/// Asserts how many requests the loop has answered, and its gateway. A response may be there before
/// it is counted.
fn assert_answered(server: &Server, expected: &[u64]) {
    let answered = || -> Vec<u64> {
        server.counters().iter().map(|counters| counters.requests.get()).collect()
    };
    assert!(comes_true(|| answered() == expected), "{:?} and not {expected:?}", answered());
}

#[test]
fn a_connection_is_with_the_gateway_only_while_its_application_answers() {
    let directory = site();
    let application = scripted(|_| vec![Action::Send(Reply::ok(b"app").bytes())]);
    let server = with_gateway("event-loop", &directory, &application);
    let mut client = connect(&server);
    for round in 1..=3 {
        assert_eq!(ask(&mut client, FILE), (200, "<h1>Rope</h1>".into()));
        assert_eq!(ask(&mut client, GET), (200, "app".into()));
        assert_answered(&server, &[round, round]); // files by one, replies by the other
        // On its way back it is with neither.
        let open = || -> u64 {
            server.counters().iter().map(|counters| counters.connections_open.get()).sum()
        };
        assert!(comes_true(|| open() == 1), "{}", open());
    }
    // Sent at once, they are answered in their order. A file in between that is in memory needs no
    // way back.
    client.write_all([FILE, GET, GET, FILE, GET].concat().as_bytes()).unwrap();
    let mut reader = BufReader::new(&client);
    for expected in ["<h1>Rope</h1>", "app", "app", "<h1>Rope</h1>", "app"] {
        assert_eq!(answer(&mut reader), (200, expected.into()));
    }
    assert_answered(&server, &[4, 7]);
}

#[test]
fn a_site_of_files_has_no_gateway() {
    let directory = site();
    let server = start(&directory, &["engine.name=event-loop", "engine.knobs.gateway=1"]);
    assert_eq!(ask(&mut connect(&server), FILE).0, 200);
    assert_answered(&server, &[1]);
}

#[test]
fn what_is_with_a_gateway_is_finished_before_a_stop() {
    let directory = site();
    testkit::side_by_side(&ENGINES, |engine| {
        let application = scripted(|_| {
            let pause = Action::Wait(Duration::from_millis(300));
            vec![pause, Action::Send(Reply::ok(b"late").bytes())]
        });
        let server = with_gateway(engine, &directory, &application);
        let mut clients: Vec<_> = (0..4).map(|_| connect(&server)).collect();
        clients.iter_mut().for_each(|client| client.write_all(GET.as_bytes()).unwrap());
        assert!(comes_true(|| application.requests().len() == 4), "{engine}");
        let stopping = std::thread::spawn(move || server.stop_gracefully(Duration::from_secs(20)));
        for client in clients {
            assert_eq!(answer(&mut BufReader::new(client)), (200, "late".into()), "{engine}");
        }
        assert!(!stopping.join().unwrap().unwrap().aborted, "{engine}");
    });
}

#[test]
fn what_is_with_a_gateway_is_cut_off_when_patience_ends() {
    let directory = site();
    testkit::side_by_side(&ENGINES, |engine| {
        let application = scripted(|_| vec![Action::Stall]);
        let server = with_gateway(engine, &directory, &application);
        let mut client = connect(&server);
        client.write_all(GET.as_bytes()).unwrap();
        assert!(comes_true(|| application.requests().len() == 1), "{engine}");
        let summary = server.stop_gracefully(Duration::from_millis(100)).unwrap();
        assert!(summary.aborted, "{engine}");
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest); // in order or not
        assert_eq!(rest, b"", "{engine}");
    });
}
