//! Every conformance case against every engine, over real sockets.

use std::fs;

use server::Server;
use server::config::{Arguments, Config};
use testkit::case::Profile;
use testkit::{Client, Delivery, DocumentRoot, Suite, Temporary, runner};

/// Runs all cases of all profiles against one engine.
fn run(engine: &str, delivery: Delivery<'_>) {
    let root = DocumentRoot::temporary().unwrap();
    let suite = Suite::load().unwrap();
    let temporary = Temporary::new();
    let mut failures = Vec::new();
    let (mut ran, mut skipped) = (0, 0);
    for profile in suite.profiles.values() {
        let server = start(profile, &root, &temporary, engine);
        let client = Client::new(server.addresses()[0]);
        let report = runner::run(&suite, profile, &client, root.permissions_hold(), delivery);
        ran += report.ran;
        skipped += report.skipped.len();
        failures.extend(report.failures.into_iter().map(|failure| failure.to_string()));
        server.stop_gracefully(std::time::Duration::from_secs(10)).unwrap();
    }
    println!("{engine}: {ran} cases ran, {skipped} skipped: their files are readable by this user");
    assert!(ran > 320, "only {ran} cases ran");
    assert!(failures.is_empty(), "{engine}: {} failures\n{}", failures.len(), failures.join("\n"));
}

fn start(profile: &Profile, root: &DocumentRoot, directory: &Temporary, engine: &str) -> Server {
    let path = directory.path().join("ropewalk.toml");
    fs::write(&path, profile.configuration(&root.site())).unwrap();
    let arguments = Arguments {
        config: Some(path),
        listen: vec!["127.0.0.1:0".into()],
        engine: Some(engine.into()),
        ..Arguments::default()
    };
    let config = Config::load(&arguments).unwrap_or_else(|e| panic!("{}: {e}", profile.name));
    Server::start(&config).unwrap()
}

#[test]
fn every_case_holds_for_every_engine() {
    for spec in crate::engines() {
        run(spec.name, Delivery::Whole);
    }
}
