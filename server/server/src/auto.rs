//! `--engine auto`: chooses an architecture by rule, from what is known before the first request:
//! the machine, the size of the site, and what the kernel can report. The rule states its reasons,
//! so that an operator can check it.

use engines::SendfileMode;

use crate::config::{AUTO, Config, Division, SendfileChoice, Settings};
use crate::doctor;
use crate::layout::Layout;
use crate::modes::{as_configured, describe_listeners};
use crate::partitions::{self, Machine};
use crate::site_size::{FILES_EXPECTED, SiteSize};

/// A configuration in which nothing is left to the rule.
pub(crate) struct Resolved {
    pub(crate) config: Config,
    /// What the rule chose and why; none if the operator named the engine.
    pub(crate) choice: Option<Choice>,
}

/// Applies the rule if the configuration asks for it. Settings of the operator stay.
pub(crate) fn resolve(config: &Config, machine: &Machine) -> Resolved {
    let mut config = config.clone();
    if config.settings.engine.name != AUTO {
        return Resolved { config, choice: None };
    }
    let choice = Choice::new(Facts::gather(&config.settings, machine));
    config.settings.engine.name = choice.engine.into();
    if let Some(by) = choice.partitions_by {
        config.settings.partitions.by = by;
    }
    if let Some(mode) = choice.sendfile {
        config.settings.socket.sendfile = SendfileChoice::Mode(mode);
    }
    Resolved { config, choice: Some(choice) }
}

/// The input of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Facts {
    /// CPUs' worth of time that the process gets.
    cpus: usize,
    /// Memory nodes that its CPUs belong to.
    nodes: usize,
    /// How many partitions the operator wants, and CPUs' worth of the widest; none: as many as the
    /// rule says.
    wanted: Option<(usize, usize)>,
    site: SiteSize,
    /// The memory of the machine, or of its container.
    memory_bytes: u64,
    /// Whether the kernel can report if a file is in memory (`RWF_NOWAIT`).
    can_probe: bool,
    /// How the operator wants files to be sent; none: as the rule says.
    sendfile: Option<SendfileMode>,
}

impl Facts {
    fn gather(settings: &Settings, machine: &Machine) -> Self {
        let roots = settings.hosts.iter().map(|host| host.root.as_path());
        let is_left_open = {
            let it = &settings.partitions;
            it.by == Division::Count && it.count == 1 && it.cpus.is_empty()
        };
        // Partitions that cannot be formed are refused later, with a reason.
        let divided = partitions::divide(&settings.partitions, machine).unwrap_or_default();
        let widest = divided.iter().map(|partition| partition.width).max().unwrap_or(1);
        Self {
            cpus: machine.parallelism.min(machine.cpus.len()),
            nodes: machine.topology.nodes.len(),
            wanted: (!is_left_open).then_some((divided.len(), widest)),
            site: SiteSize::measure(roots.clone()),
            memory_bytes: os::memory::usable_memory_bytes().unwrap_or(u64::MAX),
            can_probe: roots.clone().all(doctor::supports_nowait_reads),
            sendfile: match settings.socket.sendfile {
                SendfileChoice::Auto => None,
                SendfileChoice::Mode(mode) => Some(mode),
            },
        }
    }

    /// Whether the files are expected to fit in memory.
    fn fits(&self) -> bool {
        self.site.bytes_expected().is_some_and(|bytes| self.has_room(bytes))
    }

    /// Whether there is memory for so many bytes of files.
    fn has_room(&self, bytes: u64) -> bool {
        bytes <= self.memory_bytes / MEMORY_SHARE
    }

    /// CPUs' worth of the widest partition.
    fn width(&self) -> usize {
        self.wanted.map_or(self.cpus, |(_, widest)| widest)
    }
}

/// What the rule chose, and the facts it was chosen from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    facts: Facts,
    engine: &'static str,
    /// How to divide the CPUs; none if the operator has set it.
    partitions_by: Option<Division>,
    /// How to send files; none if the operator has set it, or for the engine's default.
    sendfile: Option<SendfileMode>,
}

/// The divisor of the memory that files may take before they are expected not to fit: the rest is
/// needed by sockets, by other programs, and by the kernel.
const MEMORY_SHARE: u64 = 2;

/// The engines the rule chooses from: a loop, a loop on each CPU, loops with helpers, and threads.
const LOOP: &str = "event-loop";
const LOOPS: &str = "event-loop-per-core";
const HELPERS: &str = "event-loop-helpers";
const POOL: &str = "thread-pool";

impl Choice {
    /// Applies the rule. Static files that are in memory leave nothing for workers to share, so the
    /// loops share nothing either. Files that do not fit make a loop wait for the disk, and all of
    /// its connections with it: helpers do the waiting then, if the kernel can tell which reads
    /// would wait. If not, each send gets a thread that may wait; its socket does not block, so
    /// that no thread waits for a slow reader.
    fn new(facts: Facts) -> Self {
        let engine = match (facts.sendfile, facts.fits()) {
            (Some(SendfileMode::Blocking), _) => POOL,
            (Some(SendfileMode::Probe), _) => HELPERS,
            (_, true) if facts.width() == 1 => LOOP,
            (_, true) => LOOPS,
            (None, false) if facts.can_probe => HELPERS,
            (None | Some(SendfileMode::NonBlocking | SendfileMode::Off), false) => POOL,
        };
        let by = if facts.nodes > 1 { Division::Node } else { Division::Count };
        let is_open = facts.sendfile.is_none() && engine == POOL;
        Self {
            engine,
            partitions_by: facts.wanted.is_none().then_some(by),
            sendfile: is_open.then_some(SendfileMode::NonBlocking),
            facts,
        }
    }

    /// One line about partitions, one about the engine, and one about listeners and files, as they
    /// have come to be.
    pub(crate) fn reasons(
        &self,
        settings: &Settings,
        layout: &Layout,
        sendfile: SendfileMode,
        are_inherited: bool,
    ) -> [String; 3] {
        let listeners = describe_listeners(settings.socket.listeners, layout, are_inherited);
        let files = format!("{listeners}; {}", self.files_reason(sendfile));
        [partitions_reason(&self.facts), self.engine_reason(), files]
    }

    fn engine_reason(&self) -> String {
        let facts = &self.facts;
        let why = match (facts.sendfile, self.engine) {
            (_, LOOP) => "one loop is enough",
            (_, LOOPS) => "a loop on each CPU shares nothing",
            (Some(SendfileMode::Blocking), _) => "sends that block have a thread each",
            (Some(SendfileMode::Probe), _) => "helpers wait for what a probe does not find",
            (_, HELPERS) => "helpers wait for the disk",
            _ => "threads of a pool wait for the disk",
        };
        format!("{}: {why}", self.site_reason())
    }

    /// What is known of the site's size, and whether it fits.
    fn site_reason(&self) -> String {
        let (site, memory) = (self.facts.site, megabytes(self.facts.memory_bytes));
        let fit = if self.facts.fits() { "fit" } else { "may not fit" };
        if site.is_complete || !self.facts.has_room(site.bytes) {
            return format!("{} of files {fit} in {memory} of memory", size(site));
        }
        let counted = format!("more than {} files", site.files);
        let Some(mean) = site.mean_bytes() else {
            return format!("{counted}, not counted further, {fit} in {memory} of memory");
        };
        format!(
            "{counted} of {mean} bytes on average, {FILES_EXPECTED} of which {fit} in {memory} of \
             memory"
        )
    }

    fn files_reason(&self, mode: SendfileMode) -> String {
        let facts = &self.facts;
        let text = match (mode, facts.can_probe) {
            (SendfileMode::NonBlocking, false) if !facts.fits() && facts.sendfile.is_none() => {
                "this file system cannot say what is in memory, so files are sent without asking"
            }
            (SendfileMode::NonBlocking, _) => {
                "files are sent without asking whether they are in memory"
            }
            (SendfileMode::Blocking, _) => "one call sends a whole file, and waits for its reader",
            (SendfileMode::Off, _) => "files are read, and sent from memory",
            (SendfileMode::Probe, true) => "files that are not in memory are fetched first",
            (SendfileMode::Probe, false) => {
                "this file system cannot say what is in memory: helpers fetch all larger files"
            }
        };
        format!("{text}{}", as_configured(facts.sendfile.is_some()))
    }
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

fn size(site: SiteSize) -> String {
    let at_least = if site.is_complete { "" } else { "more than " };
    format!("{at_least}{}", megabytes(site.bytes))
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes.div_ceil(1_000_000))
}

#[cfg(test)]
mod tests;
