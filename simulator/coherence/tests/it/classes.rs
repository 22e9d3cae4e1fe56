//! Hand-made traces in which the cause of each miss is known.

use coherence::{
    Builder, CacheShape, Machine, Miss, Observer, Options, Outcome, Policy, Reference, Workload,
    simulate, simulate_observed,
};
use memory_trace::{Event, Process, Region, RegionKind};
use std::collections::HashSet;

use crate::traces::small;

/// A system call made in order to wait (poll).
const WAITS: Event = Event::SystemCall { number: 7 };
/// The address of the memory that processes have in common, if they have any.
const COMMON: u64 = 0x7000_0000;

/// Processes with these events, each at addresses of its own except for the shared mapping.
fn processes(each: &[Vec<Event>]) -> Workload {
    let mut builder = Builder::new();
    for (id, events) in (1..).zip(each) {
        let (start, end, kind) = (COMMON, COMMON + 0x1000, RegionKind::Shared);
        let shared = Region { start, end, kind, name: String::new(), object: None };
        let parent = (id > 1).then_some(1);
        builder.process(&Process { id, parent, regions: vec![shared], ..Process::default() });
        builder.events(events).expect("little memory");
    }
    builder.finish().expect("has references")
}

fn quiet(cpus: u32) -> Machine {
    let mut machine = small("mesi", cpus, 32);
    machine.kernel.enabled = false;
    // The task that has had least goes on, where the processor does not matter.
    machine.scheduler.policy = Policy::Affinity;
    machine.scheduler.affinity_slack_slices = 0;
    machine
}

/// Runs the workload in either order; the misses must be exactly these, by class.
fn check(workload: &Workload, machine: &Machine, expected: &[(Miss, u64)]) -> Outcome {
    let count = |class: Miss| {
        let known = expected.iter().find(|(known, _)| *known == class);
        known.map_or(0, |(_, count)| *count)
    };
    let expected = Miss::ALL.map(|class| (class, count(class)));
    let outcomes = [0, Options::RUN_AHEAD_CYCLES].map(|run_ahead_cycles| {
        let options = Options { run_ahead_cycles, ..Options::default() };
        let outcome = simulate(workload, machine, options, 1).expect("a machine that is right");
        let found = Miss::ALL.map(|class| (class, outcome.counts.misses_of(class)));
        assert_eq!(found, expected);
        outcome
    });
    outcomes[0].clone()
}

#[test]
fn who_has_the_set_next_makes_a_context_switch_miss() {
    // Two processes have ten references each in turn, six times; the cache has a line for each set.
    let mut machine = quiet(1);
    machine.scheduler.slice_references = 10;
    machine.cache = CacheShape { size_kib: 1, ways: 1, block_bytes: 32 };
    let loads = |address: u64| vec![Event::load(address, 4); 60];
    let same_set = processes(&[loads(0x10_0100), loads(0x10_0500)]);
    let outcome = check(&same_set, &machine, &[(Miss::Cold, 2), (Miss::ContextSwitch, 10)]);
    assert_eq!(outcome.counts.switches, 12);
    // With room for both there is no such miss, nor in two sets, nor if the process is alone.
    let other_set = processes(&[loads(0x10_0100), loads(0x10_0520)]);
    check(&other_set, &machine, &[(Miss::Cold, 2)]);
    let by_itself = [0x10_0100, 0x10_0500].map(|address| Event::load(address, 4)).repeat(6);
    let alone = processes(&[by_itself]);
    check(&alone, &machine, &[(Miss::Cold, 2), (Miss::Replaced, 10)]);
    machine.cache.ways = 2;
    check(&same_set, &machine, &[(Miss::Cold, 2)]);
}

/// The first process waits; a third takes its processor and keeps it; the second ends, so that the
/// first goes on on the second's processor.
fn moves(address: u64, before: Event) -> Workload {
    processes(&[
        vec![before, WAITS, Event::load(address, 4), Event::load(address, 4)],
        vec![Event::load(0x10_0200, 4); 20],
        vec![Event::load(0x10_0300, 4); 5000],
    ])
}

#[test]
fn a_process_that_moves_misses_its_own_block_and_a_shared_one_it_finds_elsewhere() {
    let mut machine = quiet(2);
    machine.scheduler.slice_references = 1 << 20;
    let cold = (Miss::Cold, 3);
    for (address, class) in [(0x10_0100, Miss::Migrated), (COMMON + 0x100, Miss::FirstHere)] {
        for before in [Event::load(address, 4), Event::store(address, 4)] {
            let workload = moves(address, before);
            let shared = class == Miss::FirstHere;
            let outcome = check(&workload, &machine, &[cold, (class, 1)]);
            assert_eq!(outcome.counts.migrations, 1, "{shared}");
        }
    }
    // Another block than before: no cache ever had it.
    let elsewhere = moves(0x10_0100, Event::load(0x10_0140, 4));
    check(&elsewhere, &machine, &[(Miss::Cold, 4)]);
}

#[test]
fn what_another_process_has_fetched_is_no_cold_miss() {
    // One processor each; both only read. The first has the block at once, the second later.
    let mut later = vec![Event::load(0x10_0200, 4); 500];
    later.push(Event::load(COMMON, 4));
    let mut first = vec![Event::load(COMMON, 4)];
    first.extend(vec![Event::load(COMMON, 4); 600]);
    let mut machine = quiet(2);
    machine.scheduler.slice_references = 1 << 20;
    let workload = processes(&[first, later]);
    check(&workload, &machine, &[(Miss::Cold, 2), (Miss::FirstHere, 1)]);
    machine.cpus = 1;
    check(&workload, &machine, &[(Miss::Cold, 2)]);
}

/// Which processor has accessed which block.
#[derive(Default)]
struct Visits(HashSet<(u32, u32)>);

impl Observer for Visits {
    fn reference(&mut self, reference: &Reference) {
        self.0.insert((reference.cpu, reference.block));
    }
}

#[test]
fn processes_that_move_at_random_miss_once_wherever_they_come() {
    // Caches that hold all, and blocks that are only read: each processor fetches each block once.
    for (first, class) in [(0x10_0000, Miss::Migrated), (COMMON, Miss::FirstHere)] {
        let loads = |n: u64| Event::load(first + n * 72 % 0x1000, 4);
        let workload = processes(&vec![(0..2000).map(loads).collect(); 5]);
        let mut machine = quiet(3);
        machine.scheduler.policy = Policy::Random;
        machine.cache = CacheShape { size_kib: 1 << 12, ways: 16, block_bytes: 32 };
        let mut visits = Visits::default();
        let strict = Options { run_ahead_cycles: 0, ..Options::default() };
        simulate_observed(&workload, &machine, strict, 1, &mut visits).expect("right");
        let blocks: HashSet<u32> = visits.0.iter().map(|(_, block)| *block).collect();
        let again = (visits.0.len() - blocks.len()) as u64;
        assert!(again > 100, "{again}");
        let outcome = simulate(&workload, &machine, strict, 1).expect("right");
        assert_eq!(outcome.counts.misses_of(Miss::Cold), blocks.len() as u64);
        assert_eq!(outcome.counts.misses_of(class), again);
        let all: u64 = Miss::ALL.iter().map(|class| outcome.counts.misses_of(*class)).sum();
        assert_eq!(all, visits.0.len() as u64);
    }
}
