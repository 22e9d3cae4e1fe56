//! Every engine in a storm: two thousand clients at once, among them some that vanish, some that
//! reset, some that close one side early and some that read slowly; every byte is checked.
//!
//! After the storm the server stops while many connections rest, its counters agree with the
//! clients, and no descriptor is left. An engine that serves fewer connections at a time than there
//! are clients lets the others wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use engines::EngineSpec;
use server::Server;
use server::config::{Arguments, Config};
use session::Counters;
use testkit::Temporary;
use workload::content::Content;

use crate::swarm::{Swarm, Tally};

pub(crate) const CLIENTS: usize = 2000;

/// Sizes around the limits between bodies that are copied, kept in memory, and sent from files.
const SIZES: &[usize] =
    &[0, 1, 137, 1 << 10, 4000, 20_000, 32 << 10, (32 << 10) + 1, 50_000, 200_000, 1 << 20];

/// How many seconds each engine is stormed, unless the environment variable
/// `ROPEWALK_STORM_SECONDS` says otherwise.
const SECONDS: u64 = 3;

/// Engines at a time: for much of a storm its clients rest, or a server stops.
const AT_A_TIME: usize = 2;

/// Files of each size.
const FILES_PER_SIZE: usize = 3;

#[test]
fn every_byte_is_right_and_nothing_is_left_after_a_storm() {
    let _alone = crate::alone();
    os::limits::raise_descriptor_limit().unwrap();
    let seconds = std::env::var("ROPEWALK_STORM_SECONDS").map_or(SECONDS, |s| s.parse().unwrap());
    let (directory, files) = files();
    let engines: Vec<_> = crate::under_test::engines().into_iter().enumerate().collect();
    for together in engines.chunks(AT_A_TIME) {
        let before = crate::Open::now();
        testkit::at_a_time(AT_A_TIME, together, |(number, spec)| {
            let seed = 0x5EED + *number as u64;
            storm(&directory, &files, spec, seconds, seed);
        });
        let names: Vec<_> = together.iter().map(|(_, spec)| spec.name).collect();
        before.assert_as_before(&format!("{names:?}"));
    }
}

/// The site, and the names and sizes of its files. The content of a file follows from its name.
pub(crate) fn files() -> (Temporary, Vec<(String, usize)>) {
    let directory = Temporary::new();
    let names = SIZES.iter().flat_map(|&size| {
        (0..FILES_PER_SIZE).map(move |number| (format!("{size}-{number}.bin"), size))
    });
    let files: Vec<_> = names.collect();
    for (name, size) in &files {
        let mut bytes = vec![0; *size];
        Content::for_path(name.as_bytes()).fill(0, &mut bytes);
        directory.file(&format!("site/{name}"), bytes);
    }
    (directory, files)
}

fn start(directory: &Temporary, spec: &EngineSpec) -> Server {
    let set = [format!("engine.name={}", spec.name), "partitions.cpus=[\"0\"]".into()];
    Server::start(&config(directory, &set)).unwrap()
}

/// The configuration of a server whose clients may take their time.
pub(crate) fn config(directory: &Temporary, set: &[String]) -> Config {
    let usual = [
        format!("limits.connections_max={}", CLIENTS + 500),
        "socket.defer_accept_s=0".into(), // accept silent clients too
        "timeouts.head_ms=600000".into(), // half a head may wait for this test to go on,
        "timeouts.write_ms=600000".into(), // and a reply on its way
    ];
    let arguments = Arguments {
        directory: Some(directory.path().join("site")),
        listen: vec!["127.0.0.1:0".into()],
        set: usual.into_iter().chain(set.to_vec()).chain(crate::under_test::knobs()).collect(),
        ..Arguments::default()
    };
    crate::under_test::load(&arguments).unwrap()
}

fn storm(
    directory: &Temporary,
    files: &[(String, usize)],
    spec: &EngineSpec,
    seconds: u64,
    seed: u64,
) {
    let server = start(directory, spec);
    let swarm = Swarm::new(server.addresses()[0], files, CLIENTS, seed);
    let tally = storm_on(server, swarm, &format!("{}, seed {seed:#x}", spec.name), |_| {
        thread::sleep(Duration::from_secs(seconds));
    });
    println!("{}: seed {seed:#x}: {tally:?}", spec.name);
}

/// Has a swarm storm a server while `meanwhile` goes on, then stops the server while many
/// connections rest, and checks that what both have counted agrees. `name` is for messages.
pub(crate) fn storm_on(
    mut server: Server,
    mut swarm: Swarm,
    name: &str,
    mut meanwhile: impl FnMut(&mut Server),
) -> Tally {
    let [is_over, is_stopped] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let (settled, is_settled) = mpsc::channel();
    let (over, stopped) = (Arc::clone(&is_over), Arc::clone(&is_stopped));
    let clients = thread::spawn(move || {
        swarm.storm(&over);
        swarm.settle();
        let _ = settled.send(()); // the receiver may have failed
        swarm.rest_until(&stopped)
    });
    meanwhile(&mut server);
    is_over.store(true, Ordering::Release);
    // On an error the swarm has panicked, which is reported when its thread is joined.
    let _ = is_settled.recv();
    let counters = server.counters();
    let summary = server.stop_gracefully(Duration::from_secs(20));
    is_stopped.store(true, Ordering::Release);
    let tally = clients.join().unwrap();
    // Clients that have failed count no further: the counters say nothing then.
    assert!(tally.failures.is_empty(), "{name}: {:#?}", tally.failures);
    let summary = summary.unwrap();
    assert!(!summary.aborted, "{name}: connections were cut off");
    assert_eq!(summary.log_lines_dropped, 0, "{name}");
    add_up(name, &counters, &tally);
    tally
}

/// Checks that the counters of the server agree with what the clients have seen.
fn add_up(name: &str, counters: &[Arc<Counters>], tally: &Tally) {
    // A connection may be counted up by one worker and down by another: only the sum is meaningful.
    let sum = |field: fn(&Counters) -> u64| {
        counters.iter().map(|counters| field(counters)).fold(0, u64::wrapping_add)
    };
    assert_eq!(sum(|c| c.connections_open.get()), 0, "{name}: open");
    let accepted = sum(|c| c.connections_accepted.get());
    assert!(accepted <= tally.connected, "{name}: accepted {accepted} of {}", tally.connected);
    let requests = sum(|c| c.requests.get());
    let (answered, sent) = (tally.requests.answered(), tally.requests.sent());
    assert!((answered..=sent).contains(&requests), "{name}: {requests} requests, {tally:?}");
    let body_bytes = sum(|c| c.body_bytes.get());
    assert!(body_bytes >= tally.body_bytes, "{name}: {body_bytes} bytes of bodies, {tally:?}");
    let refused = sum(|c| c.responses[3].get() + c.responses[4].get());
    assert_eq!(refused, 0, "{name}: nothing that was asked for is wrong");
    assert_eq!(sum(|c| c.bodies_cut_short.get()), 0, "{name}: no file became shorter");
    let sent_away = sum(|c| c.connections_evicted.get() + c.connections_expired.get());
    assert!(tally.dismissed <= sent_away, "{name}: closed for no reason: {tally:?}");
}
