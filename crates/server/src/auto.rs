//! `--engine auto`: which architecture, by rule, from what is known before the first request: the
//! machine, the size of the site, and what the kernel can tell. A rule of today, which says why, so
//! that nobody has to trust it.

use crate::config::{AUTO, Config, Division, Settings};
use crate::doctor;
use crate::partitions::{self, Machine};
use crate::site_size::{ENTRIES_MAX, SiteSize};

/// A configuration in which nothing is left to the rule.
pub(crate) struct Resolved {
    pub(crate) config: Config,
    /// Why the rule chose what it chose; nothing if an operator named the engine.
    pub(crate) reasons: Vec<String>,
}

/// Applies the rule if the configuration asks for it. What an operator has set stays.
pub(crate) fn resolve(config: &Config, machine: &Machine) -> Resolved {
    let mut config = config.clone();
    if config.settings.engine.name != AUTO {
        return Resolved { config, reasons: Vec::new() };
    }
    let advice = advise(&Facts::gather(&config.settings, machine));
    config.settings.engine.name = advice.engine.into();
    if let Some(by) = advice.partitions_by {
        config.settings.partitions.by = by;
    }
    Resolved { config, reasons: advice.reasons.into() }
}

/// What the rule looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Facts {
    /// CPUs' worth of time that the process gets.
    cpus: usize,
    /// Memory nodes that its CPUs belong to.
    nodes: usize,
    /// How many partitions an operator wants, and CPUs' worth of the widest; none: as many as the
    /// rule says.
    wanted: Option<(usize, usize)>,
    site: SiteSize,
    /// The memory of the machine, or of its container.
    memory_bytes: u64,
    /// Whether the kernel says of a file whether it is in memory.
    can_probe: bool,
}

impl Facts {
    fn gather(settings: &Settings, machine: &Machine) -> Self {
        let roots = settings.hosts.iter().map(|host| host.root.as_path());
        let is_left_open = {
            let it = &settings.partitions;
            it.by == Division::Count && it.count == 1 && it.cpus.is_empty()
        };
        // What cannot be divided is refused later, with a reason.
        let divided = partitions::divide(&settings.partitions, machine).unwrap_or_default();
        let widest = divided.iter().map(|partition| partition.width).max().unwrap_or(1);
        Self {
            cpus: machine.parallelism.min(machine.cpus.len()),
            nodes: machine.topology.nodes.len(),
            wanted: (!is_left_open).then_some((divided.len(), widest)),
            site: SiteSize::of(roots.clone()),
            memory_bytes: os::memory::usable_memory_bytes().unwrap_or(u64::MAX),
            can_probe: roots.clone().all(doctor::tells_what_is_in_memory),
        }
    }

    /// CPUs' worth of the widest partition.
    fn width(&self) -> usize {
        self.wanted.map_or(self.cpus, |(_, widest)| widest)
    }
}

/// What the rule says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Advice {
    engine: &'static str,
    /// How to divide the CPUs; none if an operator has said so.
    partitions_by: Option<Division>,
    /// One about partitions, one about the engine, one about listeners and files.
    reasons: [String; 3],
}

/// The share of the memory that files may take before they are thought not to fit: the rest is
/// needed by sockets, by other programs, and by the kernel.
const MEMORY_SHARE: u64 = 2;

/// The rule. Static files that are in memory leave nothing for workers to share, so the loops share
/// nothing either. Files that do not fit make a loop wait for the disk, and everybody with it:
/// helpers do the waiting then.
fn advise(facts: &Facts) -> Advice {
    let fits = facts.site.is_complete && has_room(facts);
    let engine = match (fits, facts.width()) {
        (true, 1) => "event-loop",
        (true, _) => "event-loop-per-core",
        (false, _) => "event-loop-helpers",
    };
    let by = if facts.nodes > 1 { Division::Node } else { Division::Count };
    Advice {
        engine,
        partitions_by: facts.wanted.is_none().then_some(by),
        reasons: [partitions_reason(facts), engine_reason(facts, fits), files_reason(facts, fits)],
    }
}

/// Whether there is memory for the files that were counted.
fn has_room(facts: &Facts) -> bool {
    facts.site.bytes <= facts.memory_bytes / MEMORY_SHARE
}

fn partitions_reason(facts: &Facts) -> String {
    match (facts.wanted, facts.nodes, facts.cpus) {
        (Some((1, _)), ..) => "1 partition, as configured".into(),
        (Some((count, _)), ..) => format!("{count} partitions, as configured"),
        (None, 2.., _) => {
            format!("{} memory nodes: a partition for each, whose cache is near", facts.nodes)
        }
        (None, _, 1) => "1 CPU: one partition".into(),
        (None, _, cpus) => {
            format!("{cpus} CPUs at one memory: one partition, whose cache all share")
        }
    }
}

fn engine_reason(facts: &Facts, fits: bool) -> String {
    let (site, memory) = (size(facts.site), megabytes(facts.memory_bytes));
    let is_uncounted = !facts.site.is_complete && has_room(facts);
    match (fits, facts.width()) {
        (true, 1) => format!("{site} of files fit in {memory} of memory: one loop is enough"),
        (true, _) => {
            format!("{site} of files fit in {memory} of memory: a loop on each CPU shares nothing")
        }
        (false, _) if is_uncounted => format!(
            "more than {ENTRIES_MAX} entries, not counted further: files may not fit in {memory} \
             of memory, helpers wait for the disk"
        ),
        (false, _) => {
            format!("{site} of files may not fit in {memory} of memory: helpers wait for the disk")
        }
    }
}

fn files_reason(facts: &Facts, fits: bool) -> String {
    let listeners = match facts.width() {
        1 => "one listener",
        _ => "a listener for each loop",
    };
    match (fits, facts.can_probe) {
        (true, _) => format!("{listeners}; files are sent without asking whether they are there"),
        (false, true) => format!("{listeners}; files that are not in memory are fetched first"),
        (false, false) => format!(
            "{listeners}; this file system cannot say what is in memory: helpers fetch all larger \
             files"
        ),
    }
}

fn size(site: SiteSize) -> String {
    let at_least = if site.is_complete { "" } else { "more than " };
    format!("{at_least}{}", megabytes(site.bytes))
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes.div_ceil(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: Facts = Facts {
        cpus: 4,
        nodes: 1,
        wanted: None,
        site: SiteSize { bytes: 10_000_000, is_complete: true },
        memory_bytes: 8_000_000_000,
        can_probe: true,
    };

    fn check(facts: &Facts, engine: &str, by: Division, reasons: [&str; 3]) {
        let advice = advise(facts);
        assert_eq!((advice.engine, advice.partitions_by), (engine, Some(by)));
        assert_eq!(advice.reasons, reasons);
    }

    #[test]
    fn files_in_memory() {
        let files =
            "a listener for each loop; files are sent without asking whether they are there";
        check(
            &FACTS,
            "event-loop-per-core",
            Division::Count,
            [
                "4 CPUs at one memory: one partition, whose cache all share",
                "10 MB of files fit in 8000 MB of memory: a loop on each CPU shares nothing",
                files,
            ],
        );
        check(
            &Facts { cpus: 1, ..FACTS },
            "event-loop",
            Division::Count,
            [
                "1 CPU: one partition",
                "10 MB of files fit in 8000 MB of memory: one loop is enough",
                "one listener; files are sent without asking whether they are there",
            ],
        );
    }

    #[test]
    fn a_large_machine_is_divided() {
        let advice = advise(&Facts { nodes: 2, ..FACTS });
        assert_eq!(advice.partitions_by, Some(Division::Node));
        let expected = "2 memory nodes: a partition for each, whose cache is near";
        assert_eq!(advice.reasons[0], expected);
    }

    #[test]
    fn what_is_configured_stays() {
        let advice = advise(&Facts { nodes: 2, wanted: Some((4, 1)), ..FACTS });
        assert_eq!((advice.engine, advice.partitions_by), ("event-loop", None));
        assert_eq!(advice.reasons[0], "4 partitions, as configured");
    }

    #[test]
    fn files_that_may_not_fit() {
        let large = SiteSize { bytes: 4_000_000_001, is_complete: true };
        let endless = SiteSize { bytes: 1, is_complete: false };
        let both = SiteSize { is_complete: false, ..large };
        let check = |site, expected| {
            let advice = advise(&Facts { site, ..FACTS });
            assert_eq!((advice.engine, &*advice.reasons[1]), ("event-loop-helpers", expected));
        };
        check(
            large,
            "4001 MB of files may not fit in 8000 MB of memory: helpers wait for the disk",
        );
        check(
            endless,
            "more than 5000 entries, not counted further: files may not fit in 8000 MB of memory, \
             helpers wait for the disk",
        );
        check(
            both,
            "more than 4001 MB of files may not fit in 8000 MB of memory: helpers wait for the \
             disk",
        );
        let advice = advise(&Facts { site: endless, can_probe: false, ..FACTS });
        assert!(advice.reasons[2].contains("cannot say"), "{}", advice.reasons[2]);
    }
}
