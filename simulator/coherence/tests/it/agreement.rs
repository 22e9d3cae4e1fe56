//! The simulator agrees with the slow model event by event; and every row of every table is used.

use coherence::protocol::PROTOCOLS;
use coherence::{
    CleanSupplier, LastLevel, Machine, Miss, NodePlacement, Numa, Options, Outcome, Placement,
    simulate_observed,
};

use crate::model::Model;
use crate::traces::{random, small};

fn check(machine: &Machine, seed: u64, run_ahead_cycles: u64) -> (Model, Outcome) {
    let workload = random(seed, 6, 1000);
    let options = Options { run_ahead_cycles, ..Options::default() };
    let mut model = Model::new(machine);
    let outcome = simulate_observed(&workload, machine, options, seed, &mut model);
    let outcome = outcome.expect("a machine that is right");
    model.finish();
    assert!(model.references > 6000 && model.transactions > 300);
    let told: u64 = outcome.bus.iter().map(|one| one.count).sum();
    let inside: u64 = outcome.counts.inside.iter().sum();
    assert_eq!((told + inside, inside), (model.transactions, model.inside));
    assert_eq!(outcome.counts.remote, model.remote);
    (model, outcome)
}

/// Runs all shapes of one protocol and adds up the uses of each row.
fn check_protocol(name: &str) {
    let mut rows: [Vec<u64>; 2] = [Vec::new(), Vec::new()];
    for (seed, (cpus, block, ways)) in
        (1..).zip([(2, 32, 1), (3, 32, 2), (4, 64, 2), (4, 128, 4), (5, 256, 4), (6, 32, 16)])
    {
        for (ahead, size_kib) in [(0, 2), (50, 64), (1000, 2)] {
            let mut machine = small(name, cpus, block);
            machine.cache.size_kib = size_kib;
            machine.cache.ways = ways;
            if seed % 2 == 0 {
                machine.bus.clean_supplier = CleanSupplier::Memory;
            }
            let (model, outcome) = check(&machine, seed, ahead);
            assert!(ahead > 0 || outcome.counts.late == 0, "{name}: strict order was not kept");
            for (sum, one) in rows.iter_mut().zip(model.rows) {
                sum.resize(one.len(), 0);
                sum.iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
            }
        }
    }
    for (table, uses) in ["local", "snoop"].iter().zip(rows) {
        for (row, uses) in uses.iter().enumerate() {
            assert!(*uses > 0, "{name}: row {row} of the {table} table was never used");
        }
    }
}

#[test]
fn mesi_agrees_with_the_model() {
    check_protocol("mesi");
}

#[test]
fn amsd_agrees_with_the_model() {
    check_protocol("amsd");
}

#[test]
fn pscr_agrees_with_the_model() {
    check_protocol("pscr");
}

#[test]
fn dragon_agrees_with_the_model() {
    check_protocol("dragon");
}

/// Groups of two and four with caches of few lines and of many, and two nodes.
#[test]
fn groups_and_nodes_agree_with_the_model() {
    for protocol in PROTOCOLS {
        let shapes = [(2, 2, 6, 3), (4, 2, 8, 2), (5, 2, 6, 24), (8, 4, 12, 4), (6, 4, 1024, 16)];
        for (seed, (cpus, cpus_per_group, size_kib, ways)) in (21..).zip(shapes) {
            for (ahead, block) in [(0, 32), (0, 64), (200, 64)] {
                let mut machine = small(protocol.name, cpus, block);
                machine.placement = Placement::InOrder;
                machine.llc = Some(LastLevel { cpus_per_group, size_kib, ways, hit_cycles: 6 });
                if seed % 2 == 0 {
                    machine.bus.clean_supplier = CleanSupplier::Memory;
                }
                let placement = match block {
                    32 => NodePlacement::Interleaved,
                    _ => NodePlacement::FirstTouch,
                };
                machine.numa = Some(Numa { nodes: 2, remote_extra_cycles: 40, placement });
                let (model, outcome) = check(&machine, seed, ahead);
                let of = format!("{} {cpus} {cpus_per_group} {size_kib}", protocol.name);
                assert!(model.remote > 0 && model.inside > 100, "{of}");
                // A cache that holds everything replaces nothing.
                let taken = outcome.counts.taken;
                assert_eq!(taken == 0, size_kib == 1024, "{of}: {taken}");
                let inclusion = outcome.counts.misses_of(Miss::Inclusion);
                assert!(inclusion <= taken && (inclusion > 0 || taken == 0), "{of}");
            }
        }
    }
}

/// A new row must be exercised by the tests above: the number of rows is fixed here.
#[test]
fn the_tables_have_so_many_rows() {
    let rows = PROTOCOLS.map(|one| (one.name, one.local.len(), one.snoop.len()));
    let expected = [("mesi", 9, 7), ("amsd", 18, 14), ("pscr", 17, 8), ("dragon", 14, 6)];
    assert_eq!(rows, expected);
}
