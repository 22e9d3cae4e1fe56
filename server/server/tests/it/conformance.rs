//! Every conformance case against every engine, over real sockets.

use std::fs;

use server::Server;
use server::config::Arguments;
use testkit::case::Profile;
use testkit::{Client, Delivery, DocumentRoot, Suite, Temporary, runner};

use crate::harness::quietly;

/// Runs all cases of all profiles against one engine.
fn run(engine: &str) {
    let ran = run_with(engine, &[], |_| true);
    assert!(ran > 320, "only {ran} cases ran");
}

/// Profiles that differ in the cache's policy only. Neither knobs of engines nor modes of sockets
/// change what a policy does, so they are run with each engine as it is.
const OF_POLICIES: [&str; 2] = ["cache_clock", "cache_lru"];

/// Runs the cases of all profiles but [`OF_POLICIES`] against an engine with these settings.
/// Returns the number of cases.
pub(crate) fn run_variant(engine: &str, set: &[&str]) -> usize {
    run_with(engine, set, |profile| !OF_POLICIES.contains(&profile))
}

/// Runs the cases of some profiles against an engine with these settings. Returns the number of
/// cases.
pub(crate) fn run_with(engine: &str, set: &[&str], wanted: impl Fn(&str) -> bool) -> usize {
    let root = DocumentRoot::shared().unwrap();
    let suite = Suite::load().unwrap();
    let temporary = Temporary::new();
    let mut failures = Vec::new();
    let (mut ran, mut skipped) = (0, 0);
    for profile in suite.profiles.values().filter(|profile| wanted(&profile.name)) {
        let server = start(profile, &root, &temporary, engine, set);
        let client = Client::new(server.addresses()[0]);
        let report = runner::run(suite, profile, &client, root.permissions_hold(), Delivery::Whole);
        ran += report.ran;
        skipped += report.skipped.len();
        failures.extend(report.failures.into_iter().map(|failure| failure.to_string()));
        server.stop_gracefully(std::time::Duration::from_secs(10)).unwrap();
    }
    println!(
        "{engine} {set:?}: {ran} cases ran, {skipped} skipped: their files are readable by this user"
    );
    let count = failures.len();
    assert!(failures.is_empty(), "{engine} {set:?}: {count} failures\n{}", failures.join("\n"));
    ran
}

fn start(
    profile: &Profile,
    root: &DocumentRoot,
    directory: &Temporary,
    engine: &str,
    set: &[&str],
) -> Server {
    let path = directory.path().join("ropewalk.toml");
    fs::write(&path, profile.configuration(&root.site())).unwrap();
    let arguments = Arguments {
        config: Some(path),
        listen: vec!["127.0.0.1:0".into()],
        engine: Some(engine.into()),
        set: quietly(set).chain(crate::knobs()).collect(),
        ..Arguments::default()
    };
    let config =
        crate::under_test::load(&arguments).unwrap_or_else(|e| panic!("{}: {e}", profile.name));
    Server::start(&config).unwrap()
}

#[test]
fn every_case_holds_for_every_engine() {
    crate::for_each_engine(|spec| run(spec.name));
}

#[test]
fn and_for_every_event_mechanism() {
    for spec in crate::engines().into_iter().filter(|spec| spec.name == "event-loop") {
        testkit::side_by_side(&["epoll-level", "poll", "select"], |events| {
            run_variant(spec.name, &[&format!("engine.knobs.events={events}")]);
        });
    }
}
