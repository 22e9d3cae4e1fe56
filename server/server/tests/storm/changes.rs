//! Changes of the architecture in a storm: from every engine to every engine and to itself, while
//! two thousand clients check every byte. Nobody is closed, reset or cut short because of a change,
//! and nothing of the former engines is left.

use std::thread;
use std::time::Duration;

use server::Server;
use server::config::Config;
use testkit::{Temporary, circuit};

use crate::storm::{CLIENTS, config, files, storm_on};
use crate::swarm::Swarm;

/// The time between two changes.
const PAUSE: Duration = Duration::from_millis(50);

/// From each engine to each. Those that are processes take a while to start, and cannot move their
/// connections.
#[test]
fn no_client_notices_that_the_architecture_changes() {
    let engines = crate::under_test::engines();
    change_in_a_storm(&engines.iter().map(|spec| (spec.name, &[][..])).collect::<Vec<_>>());
}

/// From each kind of an engine to each: other ways to wait, to accept, and to divide the work.
#[test]
fn no_client_notices_that_knobs_change() {
    let all: [(&str, &[&str]); 8] = [
        ("event-loop", &["events=poll"]),
        ("event-loop-per-core", &["workers=3"]),
        ("event-loop-helpers", &["workers=2", "helpers=1"]),
        ("thread-pool", &["threads=8"]),
        ("thread-pool", &["threads=300", "park_idle=0"]),
        ("fibers", &["threads_per_cluster=2"]),
        ("tasks", &["stealing=1"]),
        ("rings", &["direct=1"]),
    ];
    let engines = crate::under_test::engines();
    let is_under_test = |name: &str| engines.iter().any(|spec| spec.name == name);
    let all: Vec<_> = all.into_iter().filter(|(name, _)| is_under_test(name)).collect();
    change_in_a_storm(&all);
}

fn change_in_a_storm(kinds: &[(&str, &[&str])]) {
    let _alone = crate::alone();
    os::limits::raise_descriptor_limit().unwrap();
    let (directory, files) = files();
    let before = os::limits::open_descriptors();
    let configs: Vec<Config> = kinds.iter().map(|it| config_of(&directory, it)).collect();
    let Some(first) = configs.first() else { return };
    let server = Server::start(first).unwrap();
    let swarm = Swarm::new(server.addresses()[0], &files, CLIENTS, 0xC4A6E);
    let tally = storm_on(server, swarm, "changes", |server| {
        for index in circuit(configs.len()).into_iter().skip(1) {
            thread::sleep(PAUSE);
            server.change(&configs[index]).unwrap();
        }
    });
    println!("{tally:?}");
    assert_eq!(os::limits::open_descriptors(), before, "descriptors");
}

fn config_of(directory: &Temporary, (name, knobs): &(&str, &[&str])) -> Config {
    let knobs = knobs.iter().map(|knob| format!("engine.knobs.{knob}"));
    // What cannot be moved may take its time as well.
    let fixed = [format!("engine.name={name}"), "timeouts.drain_ms=600000".into()];
    let set: Vec<String> = fixed.into_iter().chain(knobs).collect();
    config(directory, &set)
}
