//! Outcomes as rows of comma-separated values: one for each machine and seed.
//!
//! Each column's name and value are made together, so that they cannot be mixed up.

use coherence::protocol::Transaction;
use coherence::{Miss, Outcome, Sharing};

use super::show::scheduler;
use super::varied::{Varied, shown};

type Columns = Vec<(String, String)>;

/// Formats the rows; the first line names the columns.
pub(super) fn rows(outcomes: &[Outcome], varied: &Varied) -> String {
    let line = |cells: Vec<String>| cells.join(",") + "\n";
    let of = |one| columns(one, varied).into_iter();
    let head = outcomes.first().map(|one| of(one).map(|(name, _)| name).collect());
    let rows = outcomes.iter().map(|one| of(one).map(|(_, value)| value).collect());
    head.into_iter().chain(rows).map(line).collect()
}

/// The columns of a row. New columns are added at the end, for programs that read columns by
/// position.
fn columns(one: &Outcome, varied: &Varied) -> Columns {
    let mut columns = machine(one);
    columns.extend(classes(one, "", |modes| modes.iter().sum()));
    let counts = &one.counts;
    let more = [
        ("late", counts.late),
        ("served_inside", counts.served_inside()),
        ("told_inside", counts.coherence_inside()),
        ("taken", counts.taken),
        ("remote", counts.remote),
    ];
    columns.extend(more.map(|(name, value)| (name.to_owned(), value.to_string())));
    columns.extend(bus(one));
    for (mode, name) in ["_user", "_kernel"].into_iter().enumerate() {
        let references: u64 = counts.references[mode].iter().sum();
        columns.push((format!("references{name}"), references.to_string()));
        columns.extend(classes(one, name, |modes| modes[mode]));
    }
    columns.push(("trace_percent".into(), fraction(one.simulated_percent())));
    let values = varied.values(&one.machine);
    columns.extend(varied.keys().iter().cloned().zip(values.iter().map(shown)));
    columns
}

fn machine(one: &Outcome) -> Columns {
    let machine = &one.machine;
    let columns = [
        ("cpus", machine.cpus.to_string()),
        ("size_kib", machine.cache.size_kib.to_string()),
        ("ways", machine.cache.ways.to_string()),
        ("block_bytes", machine.cache.block_bytes.to_string()),
        ("scheduler", scheduler(machine).to_owned()),
        ("protocol", machine.protocol.clone()),
        ("seed", one.seed.to_string()),
        ("references", one.counts.all_references().to_string()),
        ("cycles", one.cycles.to_string()),
        ("gsp", fraction(one.gsp)),
        ("processor_utilisation", fraction(one.processor_utilisation())),
        ("bus_utilisation", fraction(one.bus_utilisation)),
        ("miss_percent", fraction(one.miss_percent(|_| true))),
        ("coherence_percent", fraction(one.coherence_percent(|_| true))),
    ];
    columns.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// Misses and coherence transactions by class: in user mode, in the kernel, or in both.
fn classes(one: &Outcome, suffix: &str, of: impl Fn([u64; 2]) -> u64) -> Columns {
    let counts = &one.counts;
    let misses = Miss::ALL.into_iter().map(|class| {
        let name = format!("miss_{}", class.name().replace('-', "_"));
        (name, counts.misses.map(|mode| mode[class as usize].iter().sum()))
    });
    let coherence = Sharing::ALL.into_iter().map(|kind| {
        let name = format!("coherence_{}", kind.name());
        (name, counts.coherence.map(|mode| mode[kind as usize].iter().sum()))
    });
    let both = misses.chain(coherence);
    both.map(|(name, modes)| (name + suffix, of(modes).to_string())).collect()
}

/// The part of the time for which each transaction occupied the bus, by the supplier of the block.
fn bus(one: &Outcome) -> Columns {
    let held = |transaction: Transaction, from_cache: bool| {
        let same = |bus: &&coherence::BusUse| {
            (bus.transaction, bus.from_cache) == (transaction, from_cache)
        };
        fraction(one.bus.iter().find(same).map_or(0.0, |bus| bus.utilisation))
    };
    let of = |transaction: Transaction| {
        let name = format!("bus_{}", transaction.abbreviation().to_lowercase());
        match transaction {
            fetch if fetch.fetches() => vec![
                (format!("{name}_memory"), held(transaction, false)),
                (format!("{name}_cache"), held(transaction, true)),
            ],
            _ => vec![(name, held(transaction, false))],
        }
    };
    Transaction::ALL.into_iter().flat_map(of).collect()
}

fn fraction(value: f64) -> String {
    format!("{value:.6}")
}
