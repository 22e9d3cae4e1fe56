//! The engine of tasks with its knobs set: the tests of every engine hold whichever thread resumes
//! a task and wherever jobs run.

use server::Server;
use testkit::side_by_side;

use crate::knobs::{every_case_holds, with_knobs};
use crate::overload::{longest_resting_connection_makes_room, misbehave};

/// Threads that take tasks from each other; jobs on the threads of the loops; and both.
const VARIANTS: &[&[&str]] = &[
    &["stealing=1", "workers=2"],
    &["blocking_threads=0"],
    &["stealing=1", "workers=3", "blocking_threads=0"],
];

/// Runs `test` with these knobs and settings.
fn with(knobs: &[&str], more: &[&str], test: impl Fn(&Server)) {
    with_knobs("tasks", knobs, more, test);
}

#[test]
fn every_case_holds_whichever_thread_resumes_a_task() {
    every_case_holds("tasks", VARIANTS);
}

#[test]
fn bytes_are_right_whichever_thread_resumes_a_task() {
    side_by_side(VARIANTS, |knobs| with(knobs, &[], misbehave));
}

#[test]
fn threads_that_share_tasks_know_which_has_rested_longest() {
    let knobs = ["stealing=1", "workers=2"];
    with(&knobs, &["limits.connections_max=4"], longest_resting_connection_makes_room);
}
