//! Properties of any trace, and exact results for small traces.

use coherence::protocol::PROTOCOLS;
use coherence::{
    Builder, LastLevel, Machine, MachineError, Miss, NodePlacement, Numa, Observer, Options,
    Outcome, Policy, Reference, Sharing, SimulationError, Until, Workload, simulate,
    simulate_observed,
};
use memory_trace::{Event, Process, Region, RegionKind};

use crate::traces::{process, random, small};

const STRICT: Options =
    Options { run_ahead_cycles: 0, three_c: false, rank: false, prefetch: |_| {} };

fn run(workload: &Workload, machine: &Machine, options: Options) -> Outcome {
    simulate(workload, machine, options, 7).expect("a machine that is right")
}

/// Processes whose pages are all their own.
fn private(processes: u32, events: &[Event]) -> Workload {
    let mut builder = Builder::new();
    for id in 1..=processes {
        builder.process(&Process { id, ..Process::default() });
        builder.events(events).expect("little memory");
    }
    builder.finish().expect("has references")
}

/// Two processes that read and write a word of a shared page now and then.
fn turns(first: u64, second: u64, rounds: u64) -> Workload {
    let mut builder = Builder::new();
    for (id, address) in (1..).zip([first, second]) {
        let shared = RegionKind::Shared;
        let name = String::new();
        let region = Region { start: 0, end: 0x1000, kind: shared, name, object: None };
        let parent = (id > 1).then_some(1);
        builder.process(&Process { id, parent, regions: vec![region], ..Process::default() });
        for round in 0..rounds {
            // Between these references they do other things, of different length.
            let pause = 60 + (round * u64::from(id) * 37 % 50);
            let mut events = vec![Event::load(0x10_0000, 4); pause as usize];
            events.extend([Event::load(address, 4), Event::store(address, 4)]);
            builder.events(&events).expect("little memory");
        }
    }
    builder.finish().expect("has references")
}

fn quiet(protocol: &str, cpus: u32) -> Machine {
    let mut machine = small(protocol, cpus, 32);
    machine.kernel.enabled = false;
    machine
}

#[test]
fn one_processor_has_no_coherence_traffic() {
    let workload = random(3, 5, 2000);
    for protocol in PROTOCOLS {
        let outcome = run(&workload, &small(protocol.name, 1, 32), Options::default());
        assert!(outcome.miss_percent(|_| true) > 1.0);
        assert_eq!(outcome.coherence_percent(|_| true), 0.0, "{}", protocol.name);
        let foreign = |miss: Miss| {
            miss.is_invalidation()
                || matches!(miss, Miss::Migrated | Miss::FirstHere | Miss::HandedOver)
        };
        assert_eq!(outcome.miss_percent(foreign), 0.0, "{}", protocol.name);
        assert!(outcome.bus.iter().all(|one| !one.from_cache));
    }
}

#[test]
fn identical_seeds_give_identical_outcomes_on_any_number_of_threads() {
    let workload = random(9, 6, 1500);
    let machine = small("amsd", 4, 64);
    let options = Options { rank: true, three_c: true, ..Options::default() };
    let alone = run(&workload, &machine, options);
    let together: Vec<Outcome> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..3).map(|_| scope.spawn(|| run(&workload, &machine, options))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(together.iter().all(|one| *one == alone));
    let other = simulate(&workload, &machine, options, 8).expect("right");
    assert_ne!(other.cycles, alone.cycles);
}

#[test]
fn private_data_in_a_cache_that_holds_all_is_shared_passively_or_not_at_all() {
    let events: Vec<Event> = (0..4000_u64)
        .map(|n| match n % 3 {
            0 => Event::store(n * 8 % 0x2000, 8),
            _ => Event::load(n * 24 % 0x2000, 8),
        })
        .collect();
    let workload = private(7, &events);
    for protocol in PROTOCOLS {
        let mut machine = quiet(protocol.name, 4);
        machine.cache.size_kib = 1 << 14;
        machine.cache.ways = 16;
        let outcome = run(&workload, &machine, STRICT);
        let passive = |miss: Miss| {
            let kinds = [Miss::Cold, Miss::Migrated, Miss::HandedOver, Miss::InvalidationPassive];
            kinds.contains(&miss)
        };
        assert_eq!(outcome.miss_percent(|miss| !passive(miss)), 0.0, "{}", protocol.name);
        assert_eq!(outcome.counts.misses_of(Miss::Cold), 7 * 0x2000 / 32);
        let useful = |kind| matches!(kind, Sharing::True | Sharing::False);
        assert_eq!(outcome.coherence_percent(useful), 0.0, "{}", protocol.name);
        let transactions = outcome.counts.coherence_of(Sharing::Passive);
        // PSCR must have none.
        assert_eq!(transactions == 0, protocol.name == "pscr", "{}", protocol.name);
    }
}

#[test]
fn words_decide_between_true_and_false_sharing() {
    let check = |first: u64, second: u64, kind: Sharing, miss: Miss| {
        let workload = turns(first, second, 200);
        for protocol in ["mesi", "amsd", "pscr", "dragon"] {
            let outcome = run(&workload, &quiet(protocol, 2), STRICT);
            let opposite = if kind == Sharing::True { Sharing::False } else { Sharing::True };
            // Which of the two has the block first does not depend on sharing.
            assert!(outcome.counts.coherence_of(opposite) <= 1, "{protocol} {kind:?}");
            let [yes, no] = match miss {
                Miss::InvalidationTrue => [miss, Miss::InvalidationFalse],
                _ => [miss, Miss::InvalidationTrue],
            };
            assert_eq!(outcome.counts.misses_of(no), 0, "{protocol} {kind:?}");
            let misses = outcome.counts.misses_of(yes);
            match protocol {
                "mesi" => assert!(misses > 50, "{kind:?}"),
                "amsd" => {}
                _ => assert_eq!(misses, 0, "{protocol} {kind:?}"),
            }
            if protocol != "amsd" {
                assert!(outcome.counts.coherence_of(kind) > 50, "{protocol} {kind:?}");
            }
        }
    };
    check(0x40, 0x40, Sharing::True, Miss::InvalidationTrue);
    check(0x40, 0x44, Sharing::False, Miss::InvalidationFalse);
}

/// AMSD exists for migratory sharing: its read misses carry the invalidation along.
#[test]
fn amsd_saves_the_invalidations_of_migratory_blocks() {
    let workload = turns(0x40, 0x40, 500);
    let transactions = |protocol: &str| {
        let outcome = run(&workload, &quiet(protocol, 2), STRICT);
        Sharing::ALL.map(|kind| outcome.counts.coherence_of(kind)).iter().sum::<u64>()
    };
    assert!(transactions("amsd") * 4 < transactions("mesi"));
}

#[test]
fn a_fully_associative_cache_has_no_conflicts_and_a_small_one_has_capacity_misses() {
    let mut generator = statistics::Generator::new(1);
    let mut load = || Event::load(generator.below(0x400) as u64 * 4, 4);
    let events: Vec<Event> = (0..6000).map(|_| load()).collect();
    let mut machine = quiet("mesi", 1);
    machine.placement = coherence::Placement::InOrder;
    (machine.cache.size_kib, machine.cache.block_bytes) = (1, 64);
    let options = Options { three_c: true, ..STRICT };
    machine.cache.ways = 16;
    let full = run(&private(1, &events), &machine, options);
    assert_eq!(full.counts.misses_of(Miss::Conflict), 0);
    assert!(full.counts.misses_of(Miss::Capacity) > 1000);
    // Two blocks of one set, far fewer than the cache holds.
    let two: Vec<Event> = (0..100).map(|n| Event::load(n % 2 * 1024, 4)).collect();
    machine.cache.ways = 1;
    let direct = run(&private(1, &two), &machine, options);
    assert_eq!(direct.counts.misses_of(Miss::Conflict), 98);
    assert_eq!(direct.counts.misses_of(Miss::Capacity), 0);
}

#[test]
fn time_is_work_delay_or_idleness() {
    let workload = random(5, 8, 1500);
    for (cpus, policy) in [(1, Policy::Random), (3, Policy::Affinity), (4, Policy::Random)] {
        let mut machine = small("mesi", cpus, 32);
        machine.scheduler.policy = policy;
        let outcome = run(&workload, &machine, Options::default());
        let waited: u64 = outcome.processors.iter().map(|one| one.delayed + one.idle).sum();
        let work = outcome.counts.all_references() * machine.cpu.operation_cycles;
        assert_eq!(waited + work, outcome.cycles * u64::from(cpus));
        let gsp = work as f64 / outcome.cycles as f64;
        assert!((outcome.gsp - gsp).abs() < 1e-9, "{} is not {gsp}", outcome.gsp);
        let traced: u64 = outcome.counts.references[0].iter().sum();
        assert_eq!(traced, workload.references());
        let fetched =
            outcome.bus.iter().filter(|one| one.transaction.abbreviation().starts_with('R'));
        let misses: u64 = Miss::ALL.iter().map(|class| outcome.counts.misses_of(*class)).sum();
        assert_eq!(fetched.map(|one| one.count).sum::<u64>(), misses);
    }
}

#[test]
fn a_run_may_end_when_processors_would_be_idle() {
    let workload = random(5, 4, 1500);
    let mut machine = small("mesi", 3, 32);
    let all = run(&workload, &machine, Options::default());
    machine.scheduler.until = Until::Busy;
    let busy = run(&workload, &machine, Options::default());
    assert!(busy.counts.all_references() < all.counts.all_references());
    assert!(busy.counts.all_references() > 1000);
}

/// The references that machines of each of these sizes make.
fn made(workload: &Workload, sizes: &[u32], tasks_left: u32) -> Vec<u64> {
    let made = |cpus: &u32| {
        let mut machine = small("mesi", *cpus, 32);
        machine.scheduler.until = Until::Busy;
        machine.scheduler.tasks_left = tasks_left;
        run(workload, &machine, Options::default()).counts.references[0].iter().sum()
    };
    sizes.iter().map(made).collect()
}

#[test]
fn more_processors_than_tasks_do_no_more_of_the_trace() {
    // Every second process of these has two threads.
    let workload = random(5, 2, 1500);
    assert_eq!(workload.tasks(), 3);
    let [three, four, eight] = made(&workload, &[3, 4, 8], 0)[..] else { panic!("three sizes") };
    assert!(three < workload.references());
    for more in [four, eight] {
        assert!(more.abs_diff(three) * 10 < three, "{more} {three}");
    }
}

#[test]
fn machines_of_several_sizes_can_do_about_the_same_part() {
    let workload = random(5, 8, 1500);
    let all = workload.references();
    let sizes = [1, 2, 4, 8];
    let apart = made(&workload, &sizes, 0);
    assert!(apart[0] == all && apart[3] * 10 < all * 9, "{apart:?} of {all}");
    let together = made(&workload, &sizes, 8);
    for one in &together {
        assert!(one.abs_diff(together[3]) * 10 < all, "{together:?} of {all}");
    }
}

#[test]
fn affinity_moves_processes_less() {
    let workload = random(6, 8, 3000);
    let migrations = |policy| {
        let mut machine = small("mesi", 4, 32);
        machine.scheduler.policy = policy;
        run(&workload, &machine, Options::default()).counts.migrations
    };
    assert!(migrations(Policy::Affinity) * 2 < migrations(Policy::Random));
}

#[test]
fn the_kernel_is_counted_apart_and_can_be_left_out() {
    let workload = random(6, 4, 1500);
    let mut machine = small("mesi", 4, 32);
    machine.cache.size_kib = 64;
    let with = run(&workload, &machine, Options::default());
    assert!(with.counts.references[1].iter().all(|count| *count > 0));
    assert!(with.counts.coherence[1].iter().flatten().sum::<u64>() > 0);
    machine.kernel.enabled = false;
    let without = run(&workload, &machine, Options::default());
    assert_eq!(without.counts.references[1], [0; 3]);
    assert_eq!(without.counts.misses[1], [[0; 2]; 12]);
    assert_eq!(with.counts.references[0], without.counts.references[0]);
}

#[test]
fn the_ranking_names_what_is_shared() {
    let mut builder = Builder::new();
    let symbol = |start: u64, end: u64, function: &str| memory_trace::Symbol {
        start,
        end,
        function: function.into(),
        file: None,
        line: None,
    };
    for id in 1..=4 {
        let mut process = process(id);
        process.symbols = vec![
            symbol(0x30_0000, 0x30_0040, "take_number"),
            symbol(0x20_0000, 0x20_0008, "next_number"),
        ];
        builder.process(&process);
        for n in 0..600 {
            let events = [
                Event::fetch(0x30_0000 + n % 16 * 4, 4),
                Event::load(0x20_0000, 4),
                Event::store(0x20_0000, 4),
                Event::fetch(0x30_1000, 4),
                Event::load(0x10_0000 + n % 8 * 8, 8),
            ];
            builder.events(&events).expect("little memory");
        }
    }
    let workload = builder.finish().expect("has references");
    let options = Options { rank: true, ..STRICT };
    let outcome = run(&workload, &quiet("mesi", 4), options);
    let ranking = outcome.ranking.expect("asked for");
    assert_eq!(ranking.functions[0].name, "process-1: take_number");
    assert_eq!(ranking.data[0].name, "process-1: next_number");
    assert!(ranking.data[0].invalidation_misses > 100);
    assert!(ranking.data.iter().any(|one| one.name == "process-3: Private"));
}

#[test]
fn impossible_machines_are_errors_of_one_line() {
    let workload = random(1, 2, 100);
    let error = |change: fn(&mut Machine)| {
        let mut machine = small("mesi", 2, 32);
        change(&mut machine);
        let why = simulate(&workload, &machine, STRICT, 1).expect_err("impossible");
        assert!(!why.to_string().contains('\n'), "{why}");
        match why {
            SimulationError::Machine(MachineError::Value { key, .. }) => key,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(error(|machine| machine.cpus = 0), "cpus");
    assert_eq!(error(|machine| machine.protocol = "none".into()), "protocol");
}

/// Two pairs of processors. Sharing between two processes costs the bus less if they run in one
/// pair.
#[test]
fn sharing_inside_a_group_needs_less_of_the_bus() {
    let workload = turns(0x40, 0x40, 400);
    let busy = |protocol: &str, cpus_per_group: u32| {
        let mut machine = quiet(protocol, 2);
        machine.llc = Some(LastLevel { cpus_per_group, size_kib: 64, ways: 16, hit_cycles: 6 });
        let outcome = run(&workload, &machine, STRICT);
        let transactions: u64 = outcome.bus.iter().map(|one| one.count).sum();
        let inside: u64 = outcome.counts.inside.iter().sum();
        (transactions, inside, outcome.cycles)
    };
    for protocol in PROTOCOLS {
        let (together, inside, sooner) = busy(protocol.name, 2);
        let (apart, alone, later) = busy(protocol.name, 1);
        assert!(together * 10 < apart && inside > 300, "{} {together} {apart}", protocol.name);
        assert!(alone * 10 < inside && sooner < later, "{} {sooner} {later}", protocol.name);
    }
}

#[test]
fn what_a_processor_has_replaced_is_found_in_the_cache_of_its_group() {
    let events: Vec<Event> = (0..6000_u64).map(|n| Event::store(n * 32 % 0x2000, 8)).collect();
    let workload = private(1, &events);
    let mut machine = quiet("mesi", 1);
    let without = run(&workload, &machine, STRICT);
    machine.llc = Some(LastLevel { cpus_per_group: 2, size_kib: 16, ways: 4, hit_cycles: 9 });
    let with = run(&workload, &machine, STRICT);
    let count = |outcome: &Outcome| outcome.bus.iter().map(|one| one.count).sum::<u64>();
    assert!(count(&without) > 10_000);
    assert_eq!((count(&with), with.counts.served_inside()), (256, 6000 - 256));
    assert_eq!(with.counts.misses_of(Miss::Inclusion), 0);
    assert!(with.cycles < without.cycles);
}

#[test]
fn where_pages_are_decides_how_many_accesses_are_remote() {
    let events: Vec<Event> = (0..4000_u64).map(|n| Event::load(n * 32 % 0x8000, 8)).collect();
    let workload = private(2, &events);
    let remote = |placement, remote_extra_cycles| {
        let mut machine = quiet("mesi", 2);
        machine.scheduler.slice_references = 1 << 20;
        machine.numa = Some(Numa { nodes: 2, remote_extra_cycles, placement });
        let outcome = run(&workload, &machine, STRICT);
        (outcome.counts.remote, outcome.cycles)
    };
    let (none, local) = remote(NodePlacement::FirstTouch, 50);
    let (half, mixed) = remote(NodePlacement::Interleaved, 50);
    assert_eq!((none, half), (0, 4000));
    assert!(mixed > local);
    assert_eq!(remote(NodePlacement::Interleaved, 0).1, local);
}

/// An observer that needs the order, so that no processor may do anything ahead.
struct Listener(u64);

impl Observer for Listener {
    fn reference(&mut self, _: &Reference) {
        self.0 += 1;
    }
}

#[test]
fn what_is_done_ahead_in_strict_order_changes_nothing() {
    let shapes = [(2, 32, 1), (3, 32, 2), (4, 64, 2), (4, 128, 4), (5, 32, 16), (12, 256, 2)];
    for protocol in PROTOCOLS {
        for (seed, (cpus, block, ways)) in (1..).zip(shapes) {
            for (size_kib, until) in [(2, Until::AllDone), (64, Until::Busy), (64, Until::AllDone)]
            {
                let workload = random(seed, 14, 600);
                let mut machine = small(protocol.name, cpus, block);
                (machine.cache.size_kib, machine.cache.ways) = (size_kib, ways);
                machine.scheduler.until = until;
                machine.scheduler.slice_references = 60 * seed;
                if seed > 3 {
                    let size_kib = 8 * size_kib;
                    let llc = LastLevel { cpus_per_group: 2, size_kib, ways: 16, hit_cycles: 7 };
                    machine.llc = Some(llc);
                    let placement = NodePlacement::FirstTouch;
                    machine.numa = Some(Numa { nodes: 2, remote_extra_cycles: 30, placement });
                }
                let options = Options { rank: true, ..STRICT };
                let mut listener = Listener(0);
                let plain = simulate_observed(&workload, &machine, options, seed, &mut listener);
                let ahead = simulate(&workload, &machine, options, seed);
                assert!(listener.0 > 1000);
                assert_eq!(ahead, plain, "{} {cpus} {block} {ways}", protocol.name);
            }
        }
    }
}
