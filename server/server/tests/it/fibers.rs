//! The engine of fibers with its knobs set: the tests of every engine hold however fibers are
//! scheduled, and each knob has an effect.

use server::Server;
use testkit::side_by_side;

use crate::knobs::{every_case_holds, with_knobs};
use crate::overload::{
    SHORT_SILENCE, downloads_under_way_finish, longest_resting_connection_makes_room, misbehave,
    silence_ends_connections,
};

/// Kernel threads that share fibers; fibers made at the start only, one for each connection of the
/// tests; stacks only while they are needed; kernel threads that may block; and several of these
/// together.
const VARIANTS: &[&[&str]] = &[
    &["threads_per_cluster=2", "acceptors=2"],
    &["spawn_on_demand=0", "prespawned=128"],
    &["park_idle=1", "stack_kib=64"],
    &["blocking_threads=2"],
    &["threads_per_cluster=3", "clusters=2", "blocking_threads=2", "park_idle=1"],
];

/// Runs `test` with these knobs and settings.
fn with(knobs: &[&str], more: &[&str], test: impl Fn(&Server)) {
    with_knobs("fibers", knobs, more, test);
}

#[test]
fn every_case_holds_however_fibers_are_scheduled() {
    every_case_holds("fibers", VARIANTS);
}

#[test]
fn bytes_are_right_however_fibers_are_scheduled() {
    side_by_side(VARIANTS, |knobs| with(knobs, &[], misbehave));
}

#[test]
fn a_full_cluster_closes_the_connection_that_has_rested_longest() {
    let max = &["limits.connections_max=4"][..];
    let variants = [
        (&["spawn_on_demand=0", "prespawned=4"][..], &[][..]),
        (&["threads_per_cluster=2"], max),
        (&["park_idle=1"], max),
    ];
    side_by_side(&variants, |(knobs, more)| {
        with(knobs, more, longest_resting_connection_makes_room);
    });
}

#[test]
fn deadlines_are_kept_by_threads_that_share_fibers() {
    let knobs = ["threads_per_cluster=2", "park_idle=1"];
    with(&knobs, &SHORT_SILENCE, silence_ends_connections);
}

#[test]
fn responses_under_way_finish_wherever_their_fibers_are() {
    side_by_side(VARIANTS, |knobs| with(knobs, &[], downloads_under_way_finish));
}
