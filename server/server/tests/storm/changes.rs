//! Changes of the architecture in a storm: from every engine to every engine and to itself, while
//! two thousand clients check every byte. Nobody is closed, reset or cut short because of a change,
//! and nothing of the former engines is left.

use std::thread;
use std::time::Duration;

use server::Server;
use server::config::Config;
use testkit::Temporary;

use crate::storm::{CLIENTS, config, files, storm_on};
use crate::swarm::Swarm;

/// Engines that give their connections away and take those of others, with settings by which they
/// have unlike numbers of workers and listeners.
const MOVING: &[(&str, &[&str])] = &[
    ("event-loop", &[]),
    ("event-loop", &["events=poll"]),
    ("event-loop-per-core", &["workers=3"]),
    ("event-loop-helpers", &["workers=2", "helpers=1"]),
    ("threads", &[]),
    ("thread-pool", &["threads=8"]),
    ("thread-pool", &["threads=300", "park_idle=0"]),
    ("staged", &[]),
    ("fibers", &[]),
    ("fibers", &["threads_per_cluster=2"]),
    ("tasks", &[]),
    ("tasks", &["stealing=1"]),
    ("rings", &[]),
    ("rings", &["direct=1"]),
];

/// The time between two changes.
const PAUSE: Duration = Duration::from_millis(50);

#[test]
fn no_client_notices_that_the_architecture_changes() {
    let _alone = crate::alone();
    os::limits::raise_descriptor_limit().unwrap();
    let (directory, files) = files();
    let before = os::limits::open_descriptors();
    let configs: Vec<Config> = MOVING.iter().map(|it| config_of(&directory, it)).collect();
    let server = Server::start(&configs[0]).unwrap();
    let swarm = Swarm::new(server.addresses()[0], &files, CLIENTS, 0xC4A6E);
    let order = circuit(configs.len());
    let seconds = (PAUSE * order.len() as u32).as_secs() + 1;
    let tally = storm_on(server, swarm, seconds, "changes", |server| {
        for index in order.iter().skip(1) {
            thread::sleep(PAUSE);
            server.change(&configs[*index]).unwrap();
        }
    });
    println!("{tally:?}");
    assert_eq!(os::limits::open_descriptors(), before, "descriptors");
}

fn config_of(directory: &Temporary, (name, knobs): &(&str, &[&str])) -> Config {
    let knobs = knobs.iter().map(|knob| format!("engine.knobs.{knob}"));
    let set: Vec<String> = [format!("engine.name={name}")].into_iter().chain(knobs).collect();
    config(directory, &set)
}

/// An order in which each of `count` things follows each, itself too, once; the first follows the
/// last.
fn circuit(count: usize) -> Vec<usize> {
    let beginning_with = |first| {
        let later = (first + 1..count).flat_map(move |second| [first, second]);
        [first].into_iter().chain(later)
    };
    (0..count).flat_map(beginning_with).collect()
}

#[test]
fn a_circuit_has_each_pair_once() {
    let order = circuit(14);
    let mut pairs: Vec<_> = order.iter().zip(order.iter().cycle().skip(1)).collect();
    pairs.sort();
    pairs.dedup();
    assert_eq!((order.len(), pairs.len()), (14 * 14, 14 * 14));
}
