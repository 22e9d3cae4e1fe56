//! Tests of every engine whose workers are threads: the connections of a thread that fails are
//! closed and counted off, and it is replaced at its listeners; one that fails again and again is
//! not. `src/parts/loops/tests.rs` tests the thread that replaces loops, `stages.rs` the stages,
//! which lose fewer connections.

mod bench;
#[path = "../../src/idle.rs"]
mod idle;
mod stages;

use std::net::TcpStream;

use engines::{EngineSpec, find};
use testkit::{undisturbed, wait_until};

use bench::{Bench, LARGE_BYTES, Setup, WHY, is_closed, request};

/// Places for two connections, and workers that can all be made to fail.
const TWO_PLACES: Setup =
    Setup { connections_max: 2, first_cpu: None, faulty: None, application: None };

/// The number of replacements of workers that failed for such a reason.
fn replaced(bench: &Bench, is_such: impl Fn(&str) -> bool) -> usize {
    let reason = |notice: &str| {
        notice.split_once(" failed and was replaced: ").is_some_and(|(_, why)| is_such(why))
    };
    bench.notices(reason)
}

/// The number of replacements of workers that failed by the faulty log.
fn replacements(bench: &Bench) -> usize {
    replaced(bench, |why| why == WHY)
}

/// Whether every thread of a cluster has been replaced `times` times: a thread that is late would
/// fail in the old cluster.
fn are_all_replaced(bench: &Bench, set: &[(&str, u64)], times: usize) -> bool {
    let threads = set.iter().find(|(knob, _)| *knob == "threads_per_cluster");
    let threads = threads.map_or(1, |(_, count)| *count as usize);
    replaced(bench, |_| true) >= times * threads
}

fn check(name: &str, set: &[(&str, u64)]) {
    let spec = find(name).unwrap();
    if (spec.obstacle)().is_some() {
        return check_refusal(spec);
    }
    check_replacement(spec, set);
    // On a busy machine five failures may take longer than the time in which they are too many.
    undisturbed(|| check_the_end(spec, set));
}

/// Checks the obstacle where the kernel has no rings: nothing can be replaced there.
fn check_refusal(spec: &EngineSpec) {
    assert!((spec.obstacle)().unwrap().contains("io_uring"));
}

fn check_replacement(spec: &EngineSpec, set: &[(&str, u64)]) {
    let bench = Bench::new(spec, set, &TWO_PLACES);
    for round in 1..=2 {
        let (mut resting, mut busy) = (bench.resting(), bench.connect());
        assert_eq!(request(&mut busy, "large"), LARGE_BYTES);
        bench.fail(1);
        wait_until(|| replacements(&bench) == round);
        wait_until(|| are_all_replaced(&bench, set, round));
        assert!(is_closed(&mut resting) && is_closed(&mut busy), "{} {round}", spec.name);
        wait_until(|| bench.open() == 0);
    }
    // There would be no place if the lost connections were still counted as open.
    let (first, second) = (bench.resting(), bench.resting());
    assert_eq!((bench.open(), bench.evicted()), (2, 0), "{}", spec.name);
    assert_eq!(bench.engine.failure(), None, "{}", spec.name);
    drop((first, second));
    bench.stop().unwrap();
}

/// Has a worker fail five times. An error if it was replaced every time.
fn check_the_end(spec: &EngineSpec, set: &[(&str, u64)]) -> Result<(), String> {
    let bench = Bench::new(spec, set, &TWO_PLACES);
    for round in 1..=5 {
        let mut resting = bench.resting();
        bench.fail(1);
        wait_until(|| replacements(&bench) == round || bench.engine.failure().is_some());
        let has_failed = bench.engine.failure().is_some();
        if round == 5 && !has_failed {
            bench.stop().unwrap();
            return Err(format!("{}: it was replaced after five failures", spec.name));
        }
        assert_eq!((has_failed, replacements(&bench)), (round == 5, round.min(4)));
        assert!(is_closed(&mut resting), "{} {round}", spec.name);
        wait_until(|| are_all_replaced(&bench, set, round.min(4)));
    }
    assert!(bench.engine.failure().unwrap().ends_with(WHY), "{:?}", bench.engine.failure());
    wait_until(|| bench.open() == 0);
    wait_until(|| TcpStream::connect(bench.address).is_err());
    assert!(bench.stop().unwrap_err().to_string().ends_with(WHY));
    Ok(())
}

#[test]
fn event_loop() {
    check("event-loop", &[]);
}

#[test]
fn event_loop_per_core() {
    check("event-loop-per-core", &[]);
}

#[test]
fn event_loop_helpers() {
    check("event-loop-helpers", &[]);
}

#[test]
fn threads() {
    check("threads", &[]);
    check("threads", &[("spawn", 0)]);
}

#[test]
fn threads_direct() {
    check("threads-direct", &[]);
}

#[test]
fn thread_pool() {
    check("thread-pool", &[("park_idle", 1)]);
    check("thread-pool", &[("park_idle", 0)]);
}

#[test]
fn fibers() {
    check("fibers", &[]);
    check("fibers", &[("park_idle", 1)]);
    check("fibers", &[("blocking_threads", 2)]);
}

#[test]
fn fibers_of_several_threads() {
    check("fibers", &[("threads_per_cluster", 3)]);
    check("fibers", &[("threads_per_cluster", 2), ("blocking_threads", 2)]);
}

/// A cluster does not serve on without its first thread, at whose listeners another is made.
#[test]
fn a_cluster_with_a_thread_that_cannot_begin_ends() {
    /// The number of a CPU that no machine lets this process use.
    const NO_CPU: usize = 1023;
    let spec = find("fibers").unwrap();
    let setup = Setup { first_cpu: Some(NO_CPU), ..TWO_PLACES };
    let bench = Bench::new(spec, &[("threads_per_cluster", 2)], &setup);
    // The engine ends without an order.
    wait_until(|| bench.engine.is_finished());
    let failure = bench.engine.failure().unwrap();
    assert!(failure.contains("cannot stay on CPU 1023: ") || failure.contains("could not begin"));
    assert!(TcpStream::connect(bench.address).is_err(), "its listener is open");
    bench.stop().unwrap_err();
}

#[test]
fn tasks() {
    check("tasks", &[]);
    check("tasks", &[("blocking_threads", 0)]);
}

#[test]
fn tasks_that_are_stolen() {
    check("tasks", &[("stealing", 1), ("workers", 3)]);
}

#[test]
fn rings() {
    check("rings", &[]);
    check("rings", &[("helpers", 2)]);
}
