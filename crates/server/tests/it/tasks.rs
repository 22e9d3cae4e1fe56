//! The engine of tasks with its knobs turned: what holds for every engine holds whoever resumes
//! them and wherever their jobs run.

use std::io::Read;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use server::Server;

use crate::overload::{counter, is_answered, misbehave, site};
use crate::serving::{connect, start};

/// Threads that take tasks from each other; jobs on the spot; both, and a look at the sockets after
/// each task.
const VARIANTS: &[&[&str]] = &[
    &["stealing=1", "workers=2"],
    &["blocking_threads=0"],
    &["stealing=1", "workers=3", "blocking_threads=0", "polls_per_wait=1"],
];

/// Whether this engine is among those under test.
fn is_wanted() -> bool {
    crate::engines().iter().any(|spec| spec.name == "tasks")
}

fn settings(knobs: &[&str]) -> Vec<String> {
    let knobs = knobs.iter().map(|knob| format!("engine.knobs.{knob}"));
    knobs.chain(["engine.name=tasks".to_owned()]).collect()
}

/// Runs `test` with one CPU and these knobs and settings.
fn with(knobs: &[&str], more: &[&str], test: impl Fn(&Server)) {
    if !is_wanted() {
        return;
    }
    let directory = site();
    let settings = settings(knobs);
    let mut all: Vec<&str> = settings.iter().map(String::as_str).collect();
    all.push("partitions.cpus=[\"0\"]");
    all.extend_from_slice(more);
    let server = start(&directory, &all);
    test(&server);
    server.stop_gracefully(Duration::from_secs(10)).unwrap();
}

#[test]
fn every_case_holds_whoever_resumes_a_task() {
    for knobs in VARIANTS.iter().filter(|_| is_wanted()) {
        let settings = settings(knobs);
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let ran = crate::conformance::run_with("tasks", &settings, |_| true);
        assert!(ran > 320, "only {ran} cases ran");
    }
}

#[test]
fn bytes_are_right_whoever_resumes_a_task() {
    VARIANTS.iter().for_each(|knobs| with(knobs, &[], misbehave));
}

#[test]
fn threads_that_share_tasks_know_which_has_rested_longest() {
    with(&["stealing=1", "workers=2"], &["limits.connections_max=4"], |server| {
        let mut streams: Vec<TcpStream> = (0..4).map(|_| connect(server)).collect();
        for stream in &mut streams {
            assert!(is_answered(stream));
            thread::sleep(Duration::from_millis(20));
        }
        assert!(is_answered(&mut streams[0]));
        assert!(is_answered(&mut connect(server)));
        assert_eq!(streams[1].read(&mut [0; 16]).unwrap(), 0, "the second is closed");
        assert_eq!(counter(server, |c| c.connections_evicted.get()), 1);
    });
}
