//! The application stage of `staged`: its threads, and the calls that wait while others are out.

use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use server::Server;
use testkit::scripted::{Action, Reply, Scripted};
use testkit::{Temporary, comes_true};

use crate::harness::{Running, connect, site, start};
use crate::{GET, answer, ask, scripted};

/// A server in whose application stage are so many threads.
fn stages(directory: &Temporary, application: &Scripted, threads: usize, keys: &str) -> Running {
    let address = application.address();
    let route =
        format!("host.route=[{{ path = \"/app/**\", proxy = [\"http://{address}\"]{keys} }}]");
    let threads = format!("engine.knobs.application_threads={threads}");
    start(directory, &["engine.name=staged", &threads, &route])
}

/// The line of the stage in the status.
fn line(server: &Server) -> Option<String> {
    server.status().into_iter().find(|line| line.trim_start().starts_with("application: "))
}

/// A call that waits is woken by the end of another thread's.
#[test]
fn the_threads_of_a_stage_have_their_bounds_together() {
    let directory = site();
    let application = scripted(|_| {
        let reply = Reply::ok(b"late").bytes();
        vec![Action::Wait(Duration::from_millis(2)), Action::Send(reply)]
    });
    for threads in [1, 4] {
        let server = stages(&directory, &application, threads, ", in_flight_max = 2");
        let mut clients: Vec<TcpStream> = (0..24).map(|_| connect(&server)).collect();
        for _ in 0..4 {
            clients.iter_mut().for_each(|client| client.write_all(GET.as_bytes()).unwrap());
            for client in &mut clients {
                let got = answer(&mut BufReader::new(client));
                assert_eq!(got, (200, "late".into()), "{threads}");
            }
        }
        assert!(application.under_way_max() <= 2, "{threads}");
        let line = line(&server).unwrap();
        assert!(line.contains(" 96 taken in "), "{line}");
        assert!(line.ends_with(&format!("; {threads} threads")), "{line}");
    }
}

#[test]
fn a_site_of_files_has_no_threads_for_applications() {
    let directory = site();
    let server = start(&directory, &["engine.name=staged"]);
    assert_eq!(ask(&mut connect(&server), "GET / HTTP/1.1\r\nHost: h\r\n\r\n").0, 200);
    assert_eq!(line(&server), None);
}

/// Its client has gone before there is a place for it.
#[test]
fn a_request_that_waits_is_given_up_with_its_client() {
    let directory = site();
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    let application = scripted(|asked| {
        if asked.target == "/app/first" {
            assert!(comes_true(|| IS_OVER.load(Ordering::Relaxed)));
        }
        vec![Action::Send(Reply::ok(b"there").bytes())]
    });
    let server = stages(&directory, &application, 2, ", in_flight_max = 1");
    let mut first = connect(&server);
    first.write_all(b"GET /app/first HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert!(comes_true(|| application.connections().len() == 1));
    let taken = |count: usize| {
        let expected = format!(" {count} taken in ");
        comes_true(|| line(&server).unwrap().contains(&expected))
    };
    let requests = || server.counters().iter().map(|counters| counters.requests.get()).sum::<u64>();
    let [mut leaves, mut stays] = [connect(&server), connect(&server)];
    leaves.write_all(GET.as_bytes()).unwrap();
    assert!(taken(2));
    stays.write_all(GET.as_bytes()).unwrap();
    assert!(taken(3));
    assert_eq!(requests(), 0);
    drop(leaves);
    assert!(comes_true(|| requests() == 1), "it is logged when it has gone");
    IS_OVER.store(true, Ordering::Relaxed);
    for client in [&mut first, &mut stays] {
        assert_eq!(answer(&mut BufReader::new(client)), (200, "there".into()));
    }
    assert_eq!(application.requests().len(), 2);
}
