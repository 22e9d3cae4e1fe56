//! Outcomes as a table and as JSON.
//!
//! The table has a line for each machine: means over its seeds, with their confidence intervals.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use coherence::{
    Counts, LastLevel, Machine, Miss, NodePlacement, Numa, Outcome, Ranked, Ranking,
    Scheduler as Scheduling, Sharing, Until, Workload, scalable_to,
};
use serde_json::{Map, Value, json};
use statistics::Mean;

use crate::system_calls;

use super::lists::Scheduler;
use super::spec;
use super::varied::Varied;

/// Confidence of the intervals.
const CONFIDENCE: f64 = 0.95;

/// The head of the table: what was simulated, and the models of what was not traced.
pub(super) fn head(
    trace: &Path,
    workload: &Workload,
    machine: &Machine,
    varied: &Varied,
) -> String {
    let kernel = &machine.kernel;
    let drawn = match kernel.enabled {
        false => "user references only: no kernel was simulated".into(),
        true => format!(
            "kernel references are drawn: {} for a system call, {} % code, {} % of data shared",
            kernel.references_mean, kernel.code_percent, kernel.shared_percent
        ),
    };
    format!(
        "{}: {} tasks, {} references, {} pages\n{drawn}\n{}",
        trace.display(),
        workload.tasks(),
        workload.references(),
        workload.pages(),
        [kernel_basis(workload, machine), levels_beyond(machine), listed(varied)]
            .into_iter()
            .flatten()
            .map(|what| format!("{what}\n"))
            .collect::<String>()
    )
}

/// The basis of the kernel that is drawn: where its parameters come from, and the traced system
/// calls for which it is drawn.
pub(super) fn kernel_basis(workload: &Workload, machine: &Machine) -> Option<String> {
    let basis = machine.kernel_basis();
    let basis = basis.iter().map(|(words, keys)| format!("{words}: {}", keys.join(", ")));
    let basis = basis.collect::<Vec<_>>().join("; ");
    let drawn = match machine.kernel.bytes_per_reference {
        0.0 => "each makes as much of the kernel be drawn, whichever it is".into(),
        bytes => format!("for each one reference more is drawn for {bytes} bytes that it moved"),
    };
    let traced = system_calls::sentence(workload.system_calls()).map_or_else(
        || "no system calls were traced, so there is no kernel".into(),
        |traced| format!("{traced}; {drawn}"),
    );
    machine.kernel.enabled.then(|| format!("its parameters are {basis}\n{traced}"))
}

/// A note that some values in the head may be those of the first machine only.
pub(super) fn listed(varied: &Varied) -> Option<String> {
    let keys = varied.keys().join(", ");
    let note = "for these the lines above show the first machine's values";
    (!varied.is_empty()).then(|| format!("--set lists {keys}: {note}"))
}

/// Describes the levels between the processors' own caches and memory, if there are any.
pub(super) fn levels_beyond(machine: &Machine) -> Option<String> {
    let llc = machine.llc.map(|llc| {
        let LastLevel { cpus_per_group, size_kib, ways, hit_cycles } = llc;
        let cache = spec::cache(size_kib, ways);
        format!("last-level cache of {cache} for each {cpus_per_group} CPUs, {hit_cycles} cycles")
    });
    let numa = machine.numa.map(|numa| {
        let placed = match numa.placement {
            NodePlacement::FirstTouch => "a page is where it is used first",
            NodePlacement::Interleaved => "pages are at each in turn",
        };
        let Numa { nodes, remote_extra_cycles, .. } = numa;
        format!("{nodes} memory nodes, {remote_extra_cycles} cycles more between them, {placed}")
    });
    let parts: Vec<String> = llc.into_iter().chain(numa).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// When runs end on machines with these numbers of processors, as the end of a sentence.
pub(super) fn end_condition(
    scheduler: &Scheduling,
    cpus: impl Iterator<Item = u32>,
    tasks: usize,
) -> String {
    if scheduler.until == Until::AllDone {
        return "when all tasks are done".into();
    }
    let needed: BTreeSet<usize> = cpus.map(|cpus| scheduler.tasks_needed(cpus, tasks)).collect();
    match (needed.first(), needed.last()) {
        (Some(least), Some(most)) if least < most => {
            format!("when fewer of the {tasks} tasks are left than processors ({least} to {most})")
        }
        (_, most) => {
            let most = most.copied().unwrap_or(tasks);
            format!("when fewer than {most} of the {tasks} tasks are left")
        }
    }
}

/// A warning if the machines simulated different parts of the trace: the smallest and the largest
/// are given in percent.
pub(super) fn different_parts(least: f64, most: f64) -> Option<&'static str> {
    /// A part of the trace that is larger by more than this many percentage points may be of
    /// another kind.
    const POINTS_MAX: f64 = 5.0;
    let warning = "the machines simulated different parts of the trace: what differs between them \
                   may differ between the parts";
    (most - least > POINTS_MAX).then_some(warning)
}

/// A note if the largest machine has more processors than the trace has tasks.
pub(super) fn idle_processors(most: u32, tasks: usize) -> Option<String> {
    let verb = if tasks == 1 { "task" } else { "tasks" };
    (most as usize > tasks)
        .then(|| format!("the trace has {tasks} {verb}: further processors have nothing to do"))
}

/// Describes how much of the trace was simulated, and what that means for a comparison.
fn parts(workload: &Workload, outcomes: &[Outcome], seeds: usize) -> String {
    let Some(first) = outcomes.first() else { return String::new() };
    let cpus = || outcomes.iter().map(|one| one.machine.cpus);
    let parts = outcomes.chunks(seeds).map(|group| mean(group, Outcome::simulated_percent));
    let (least, most) =
        parts.fold((f64::INFINITY, 0.0), |(low, high), part| (low.min(part), f64::max(high, part)));
    let end = end_condition(&first.machine.scheduler, cpus(), workload.tasks());
    let idle = idle_processors(cpus().max().unwrap_or(0), workload.tasks());
    let lines = [Some(format!("a run ends {end}")), idle]
        .into_iter()
        .flatten()
        .chain(different_parts(least, most).map(str::to_owned));
    lines.fold(String::from("\n"), |text, line| text + &line + "\n")
}

/// The table; for a single machine also the details of its misses and its bus; the ranking.
pub(super) fn outcomes(
    workload: &Workload,
    outcomes: &[Outcome],
    seeds: usize,
    top: usize,
    varied: &Varied,
) -> String {
    let mut text = format!(
        "{:>4}  {:8} {:>5}  {:9}  {:8} {:>6} {:6} {:>7} {:>6} {:>7} {:>9} {:>9} {:>8}{}\n",
        "CPUs",
        "cache",
        "block",
        "scheduler",
        "protocol",
        "GSP",
        "",
        "CPU %",
        "bus %",
        "miss %",
        "inval. %",
        "coher. %",
        "trace %",
        if varied.is_empty() { "" } else { "  set" }
    );
    for group in outcomes.chunks(seeds) {
        text += &row(group, varied);
    }
    text += &parts(workload, outcomes, seeds);
    text += &scalability(outcomes, seeds, varied);
    if outcomes.len() == seeds
        && let Some(first) = outcomes.first()
    {
        text += &details(first, outcomes);
    }
    if top > 0 {
        for group in outcomes.chunks(seeds) {
            text += &ranking(group, top, varied);
        }
    }
    text
}

fn row(group: &[Outcome], varied: &Varied) -> String {
    let machine = &group[0].machine;
    let gsp: Vec<f64> = group.iter().map(|one| one.gsp).collect();
    let spread = Mean::from_sample(&gsp).map_or(String::new(), |mean| {
        let interval = mean.interval(CONFIDENCE);
        format!("±{:.2}", (interval.high - interval.low) / 2.0)
    });
    format!(
        "{:4}  {:8} {:5}  {:9}  {:8} {:6.2} {:6} {:7.1} {:6.1} {:7.3} {:9.4} {:9.4} {:8.1}{}\n",
        machine.cpus,
        cache(machine),
        machine.cache.block_bytes,
        scheduler(machine),
        machine.protocol,
        mean(group, |one| one.gsp),
        spread,
        mean(group, |one| one.processor_utilisation() * 100.0),
        mean(group, |one| one.bus_utilisation * 100.0),
        mean(group, |one| one.miss_percent(|_| true)),
        mean(group, |one| one.miss_percent(Miss::is_invalidation)),
        mean(group, |one| one.coherence_percent(|_| true)),
        mean(group, Outcome::simulated_percent),
        with_label("  ", machine, varied)
    )
}

/// Appends the values that `--set` lists; adds nothing if it lists nothing.
fn with_label(before: &str, machine: &Machine, varied: &Varied) -> String {
    match varied.is_empty() {
        true => String::new(),
        false => format!("{before}{}", varied.label(machine)),
    }
}

fn cache(machine: &Machine) -> String {
    spec::cache(machine.cache.size_kib, machine.cache.ways)
}

pub(super) fn scheduler(machine: &Machine) -> &'static str {
    Scheduler::from_policy(machine.scheduler.policy).name()
}

fn mean(group: &[Outcome], of: impl Fn(&Outcome) -> f64) -> f64 {
    group.iter().map(of).sum::<f64>() / group.len().max(1) as f64
}

/// Lists to how many processors each kind of machine scales, if several numbers were simulated.
fn scalability(outcomes: &[Outcome], seeds: usize, varied: &Varied) -> String {
    let mut curves: BTreeMap<String, Vec<(u32, f64)>> = BTreeMap::new();
    for group in outcomes.chunks(seeds) {
        let machine = &group[0].machine;
        let block = machine.cache.block_bytes;
        let name = format!(
            "{}, {} bytes, {}, {}{}",
            cache(machine),
            block,
            scheduler(machine),
            machine.protocol,
            with_label(", ", machine, varied)
        );
        curves.entry(name).or_default().push((machine.cpus, mean(group, |one| one.gsp)));
    }
    let mut text = String::new();
    for (name, mut curve) in curves {
        curve.sort_by_key(|(cpus, _)| *cpus);
        curve.dedup_by_key(|(cpus, _)| *cpus);
        let [.., (most, _)] = curve[..] else { continue };
        if curve.len() < 2 {
            continue;
        }
        let found = match scalable_to(&curve) {
            Some(cpus) => format!("scales to {cpus} CPUs: one more adds less than 0.5 to GSP"),
            None => format!("scales beyond {most} CPUs"),
        };
        let _ = writeln!(text, "{name}: {found}");
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// Details of one machine: the transactions of the bus, the classes of misses and of coherence
/// transactions.
fn details(first: &Outcome, group: &[Outcome]) -> String {
    let mut text = bus(first, group);
    text += "\nmisses per 100 references     user     kernel\n";
    for class in Miss::ALL {
        let count = |one: &Outcome, mode: usize| one.counts.misses[mode][class as usize];
        text += &mode_counts(class.name(), group, count);
    }
    text += "\ncoherence transactions per 100 references\n";
    for kind in Sharing::ALL {
        let count = |one: &Outcome, mode: usize| one.counts.coherence[mode][kind as usize];
        text += &mode_counts(kind.name(), group, count);
    }
    let _ = writeln!(
        text,
        "\n{:.1} % of the trace was simulated; {:.0} context switches, {:.0} of them to another \
         processor;\n{:.0} transactions found a copy whose processor had run ahead",
        mean(group, Outcome::simulated_percent),
        mean(group, |one| one.counts.switches as f64),
        mean(group, |one| one.counts.migrations as f64),
        mean(group, |one| one.counts.late as f64)
    );
    text + &groups_and_nodes(first, group)
}

/// The counts of last-level caches, and the memory nodes that blocks came from; empty without
/// these.
fn groups_and_nodes(first: &Outcome, group: &[Outcome]) -> String {
    let mut text = String::new();
    let rate = |of: fn(&Counts) -> u64| mean(group, |one| percent(one, of(&one.counts)));
    let part = |of: fn(&Outcome) -> (u64, u64)| {
        mean(group, |one| {
            let (part, all) = of(one);
            part as f64 * 100.0 / all.max(1) as f64
        })
    };
    if first.machine.llc.is_some() {
        let served = |one: &Outcome| {
            let misses = Miss::ALL.iter().map(|class| one.counts.misses_of(*class)).sum();
            (one.counts.served_inside(), misses)
        };
        let _ = writeln!(
            text,
            "\nlast-level cache per 100 references\n{:24} {:9.4}   {:.1} % of all misses\n\
             {:24} {:9.4}\n{:24} {:9.4}",
            "misses served inside",
            rate(Counts::served_inside),
            part(served),
            "told inside only",
            rate(Counts::coherence_inside),
            "copies taken away",
            rate(|counts| counts.taken)
        );
    }
    if first.machine.numa.is_some() {
        let _ = writeln!(
            text,
            "\n{:24} {:9.4}   {:.1} % of all blocks from memory",
            "blocks of another node",
            rate(|counts| counts.remote),
            part(|one| (one.counts.remote, one.from_memory()))
        );
    }
    text
}

fn bus(first: &Outcome, group: &[Outcome]) -> String {
    let mut text = String::from("\nbus           from     % of time   per 100 references\n");
    for bus in &first.bus {
        let same = |one: &Outcome| {
            let key = (bus.transaction, bus.from_cache);
            one.bus.iter().find(|other| (other.transaction, other.from_cache) == key).copied()
        };
        let time = mean(group, |one| same(one).map_or(0.0, |bus| bus.utilisation * 100.0));
        let count = mean(group, |one| percent(one, same(one).map_or(0, |bus| bus.count)));
        let name = bus.transaction.abbreviation();
        let from = match (bus.from_cache, bus.transaction.fetches()) {
            (_, false) => "",
            (true, _) => "cache",
            (false, _) => "memory",
        };
        let _ = writeln!(text, "{name:13} {from:8} {time:8.2} {count:14.4}");
    }
    text
}

/// A line with the counts of user mode and kernel; empty for an event that never happened.
fn mode_counts(
    name: &str,
    group: &[Outcome],
    count: impl Fn(&Outcome, usize) -> [u64; 2],
) -> String {
    let [user, kernel] =
        [0, 1].map(|mode| mean(group, |one| percent(one, count(one, mode).into_iter().sum())));
    if user + kernel == 0.0 {
        return String::new();
    }
    format!("{name:24} {user:9.4} {kernel:10.4}\n")
}

fn percent(outcome: &Outcome, count: u64) -> f64 {
    count as f64 * 100.0 / outcome.counts.all_references().max(1) as f64
}

/// The ranking of functions and data, by sums over the seeds.
fn ranking(group: &[Outcome], top: usize, varied: &Varied) -> String {
    let rankings: Vec<&Ranking> = group.iter().filter_map(|one| one.ranking.as_ref()).collect();
    let ranking = Ranking::sum(&rankings);
    let machine = &group[0].machine;
    let seeds: Vec<String> = group.iter().map(|one| one.seed.to_string()).collect();
    let mut text = format!(
        "\n{} CPUs, {}, {} bytes, {}, {}{}, seeds {}\n",
        machine.cpus,
        cache(machine),
        machine.cache.block_bytes,
        scheduler(machine),
        machine.protocol,
        with_label(", ", machine, varied),
        seeds.join(", ")
    );
    for (what, ranked) in [("code", &ranking.functions), ("data", &ranking.data)] {
        text += "  misses  after inval.  coherence  falsely shared  ";
        text += what;
        text.push('\n');
        for Ranked { name, misses, invalidation_misses, transactions, false_sharing } in
            ranked.iter().take(top)
        {
            let _ = writeln!(
                text,
                "{misses:8} {invalidation_misses:13} {transactions:10} {false_sharing:15}  {name}"
            );
        }
    }
    text
}

/// All data of each outcome as JSON.
pub(super) fn json(
    trace: &Path,
    workload: &Workload,
    outcomes: &[Outcome],
    varied: &Varied,
) -> String {
    let outcomes: Vec<Value> = outcomes.iter().map(|one| outcome_json(one, varied)).collect();
    let all = json!({
        "trace": trace.display().to_string(),
        "tasks": workload.tasks(),
        "references": workload.references(),
        "pages": workload.pages(),
        "system_calls": system_calls::list(workload.system_calls()),
        "miss_classes": Miss::ALL.map(Miss::name),
        "sharing": Sharing::ALL.map(Sharing::name),
        "varied": varied.keys(),
        "outcomes": outcomes,
    });
    let mut text = serde_json::to_string_pretty(&all).expect("numbers and names are JSON");
    text.push('\n');
    text
}

/// An outcome as JSON, with the values that `--set` lists, if it lists any.
fn outcome_json(outcome: &Outcome, varied: &Varied) -> Value {
    let mut json = serde_json::to_value(outcome).expect("numbers and names are JSON");
    if !varied.is_empty() {
        let values = varied.values(&outcome.machine);
        let set: Map<String, Value> =
            varied.keys().iter().cloned().zip(values.iter().map(|value| json!(value))).collect();
        json["set"] = Value::Object(set);
    }
    json
}
