//! An engine with its knobs set: the tests of every engine hold for each setting.

use std::fs::File;
use std::os::fd::AsFd;
use std::time::Duration;

use server::Server;
use testkit::side_by_side;

use crate::harness::start;
use crate::overload::site;

/// Whether an engine is among those under test.
fn is_wanted(engine: &str) -> bool {
    crate::engines().iter().any(|spec| spec.name == engine)
}

fn settings(engine: &str, knobs: &[&str]) -> Vec<String> {
    let knobs = knobs.iter().map(|knob| format!("engine.knobs.{knob}"));
    knobs.chain([format!("engine.name={engine}")]).collect()
}

/// Runs `test` with one CPU and these knobs and settings, on a site whose large file is on the disk
/// only.
pub(crate) fn with_knobs(engine: &str, knobs: &[&str], more: &[&str], test: impl Fn(&Server)) {
    if !is_wanted(engine) {
        return;
    }
    let directory = site();
    let settings = settings(engine, knobs);
    let mut all: Vec<&str> = settings.iter().map(String::as_str).collect();
    all.push("partitions.cpus=[\"0\"]");
    all.extend_from_slice(more);
    let large = File::open(directory.path().join("site/large.bin")).unwrap();
    large.sync_all().unwrap(); // without this it cannot leave the page cache
    os::files::advise_dont_need(large.as_fd()).unwrap();
    let server = start(&directory, &all);
    test(&server);
    server.stop_gracefully(Duration::from_secs(10)).unwrap();
}

/// Runs the conformance suite with each of these settings.
pub(crate) fn every_case_holds(engine: &str, variants: &[&[&str]]) {
    if !is_wanted(engine) {
        return;
    }
    side_by_side(variants, |knobs| {
        let settings = settings(engine, knobs);
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let ran = crate::conformance::run_variant(engine, &settings);
        assert!(ran > 320, "only {ran} cases ran with {knobs:?}");
    });
}
