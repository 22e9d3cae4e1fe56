//! The engine of tasks with its knobs turned: what holds for every engine holds whoever resumes
//! them and wherever their jobs run.

use std::io::Read;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use server::Server;
use testkit::side_by_side;

use crate::knobs::{every_case_holds, with_knobs};
use crate::overload::{counter, is_answered, misbehave};
use crate::serving::connect;

/// Threads that take tasks from each other; jobs on the spot; both, and a look at the sockets after
/// each task.
const VARIANTS: &[&[&str]] = &[
    &["stealing=1", "workers=2"],
    &["blocking_threads=0"],
    &["stealing=1", "workers=3", "blocking_threads=0", "polls_per_wait=1"],
];

/// Runs `test` with these knobs and settings.
fn with(knobs: &[&str], more: &[&str], test: impl Fn(&Server)) {
    with_knobs("tasks", knobs, more, test);
}

#[test]
fn every_case_holds_whoever_resumes_a_task() {
    every_case_holds("tasks", VARIANTS);
}

#[test]
fn bytes_are_right_whoever_resumes_a_task() {
    side_by_side(VARIANTS, |knobs| with(knobs, &[], misbehave));
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
