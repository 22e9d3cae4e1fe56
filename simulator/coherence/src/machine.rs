//! The machine that is simulated, as a TOML file describes it. Everything has a default: the
//! reference machine of Foglia et al. (2001) with eight processors and blocks of 128 bytes.
//!
//! The workload and the reported figures are elsewhere.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::TASKS_MAX;
use crate::error::MachineError;
use crate::protocol::{PROTOCOLS, Protocol, protocol};
use crate::record::GRANULE_BYTES;

/// The holders of a block are one bit for each processor.
pub(crate) const CPUS_MAX: u32 = 64;
/// The touched words of a block are one bit each.
pub(crate) const BLOCK_BYTES_MAX: u64 = 256;
/// A line's place among its ways takes four bits.
pub(crate) const WAYS_MAX: u32 = 16;

/// An example of the table that a machine file without a last-level cache lacks.
const NO_LLC: &str = "
# A last-level cache; there is none unless this table is there:
# [llc]
# cpus_per_group = 2
# size_kib = 6144
# ways = 24
# hit_cycles = 15
";
/// An example of the table that a machine file lacks where all memory is equally far.
const NO_NUMA: &str = "
# Memory nodes; all memory is equally far unless this table is there:
# [numa]
# nodes = 2
# remote_extra_cycles = 60
# placement = \"first-touch\" # or \"interleaved\"
";

/// A multiprocessor and its operating system's scheduler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Machine {
    /// Processors, 1 to 64.
    pub cpus: u32,
    /// The name of the coherence protocol.
    pub protocol: String,
    /// Each processor's cache.
    pub cache: CacheShape,
    /// The timing of a processor.
    pub cpu: Cpu,
    /// The bus.
    pub bus: Bus,
    /// The operating system's scheduler: which process runs where.
    pub scheduler: Scheduler,
    /// The references of the operating system.
    pub kernel: Kernel,
    /// The placement of frames of physical memory: at random, or one after the other.
    pub placement: Placement,
    /// A cache that groups of processors share, between their own caches and the bus; none if left
    /// out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub llc: Option<LastLevel>,
    /// Memory in several nodes; all of it is equally far if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa: Option<Numa>,
    /// The sources of values, by the table and the key. They do not influence the simulation.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub basis: BTreeMap<String, BTreeMap<String, Basis>>,
}

/// The source of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The value was measured.
    Measured,
    /// The value was fitted to published results.
    Fitted,
    /// The description of the machine, such as a paper, states the value.
    Paper,
    /// The value is a plausible choice.
    Chosen,
}

/// An inclusive cache shared by a group of consecutive processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastLevel {
    /// Processors of a group; the last group may have fewer.
    pub cpus_per_group: u32,
    /// The size in KiB.
    pub size_kib: u64,
    /// Ways of a set. The number of sets need not be a power of two.
    pub ways: u32,
    /// Cycles of a miss of a processor's own cache that is served inside the group.
    pub hit_cycles: u64,
}

/// Memory nodes. Consecutive processors are at one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numa {
    /// Nodes, each with its part of the processors and of memory.
    pub nodes: u32,
    /// Additional cycles for a block from another node's memory.
    pub remote_extra_cycles: u64,
    /// How pages are assigned to nodes.
    #[serde(default)]
    pub placement: NodePlacement,
}

/// How pages are assigned to nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodePlacement {
    /// The node of the processor that uses the page first.
    #[default]
    FirstTouch,
    /// Each in turn, in the order in which the trace uses the pages first.
    Interleaved,
}

/// A cache for instructions and data with replacement of the least recently used line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheShape {
    /// The size in KiB.
    pub size_kib: u64,
    /// Ways of a set.
    pub ways: u32,
    /// Bytes of a block: 32, 64, 128 or 256.
    pub block_bytes: u64,
}

/// The timing of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cpu {
    /// Cycles of a reference that hits.
    pub operation_cycles: u64,
    /// Writes that may wait for the bus while the processor goes on.
    pub write_buffer: usize,
}

/// The bus: times in processor cycles (Table 4 of the paper: latency + bytes / `bytes_per_cycle`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bus {
    /// Cycles of an INV.
    pub invalidate_cycles: u64,
    /// Cycles of a WR.
    pub write_cycles: u64,
    /// Cycles of an RB or RIB from memory, before the bytes.
    pub memory_latency_cycles: u64,
    /// Cycles of an RB or RIB from another cache, before the bytes.
    pub cache_latency_cycles: u64,
    /// Cycles of a UB, before the bytes.
    pub update_latency_cycles: u64,
    /// Bytes transferred per cycle.
    pub bytes_per_cycle: u64,
    /// The supplier of a block that memory has as well.
    pub clean_supplier: CleanSupplier,
    /// Whether the bus is held during the wait for memory, or free for others (split).
    pub memory_latency: MemoryLatency,
}

/// The supplier of a block that is in a cache and up to date in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CleanSupplier {
    /// A cache that has a copy (Illinois).
    AnyCopy,
    /// Memory; caches supply dirty blocks only (Pentium Pro).
    Memory,
}

/// What the bus does while memory looks for a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryLatency {
    /// The bus is held for the whole transaction.
    HoldsBus,
    /// The bus carries the request and the bytes, and others in between.
    Split,
}

/// The scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scheduler {
    /// Which ready process a free processor takes.
    pub policy: Policy,
    /// References after which another process may get the processor.
    pub slice_references: u64,
    /// With affinity: the number of slices by which a process may be ahead of the one that has had
    /// least.
    pub affinity_slack_slices: u64,
    /// System calls that make a process wait.
    pub blocking: Blocking,
    /// For how long a process waits, in cycles.
    pub blocked_cycles: u64,
    /// A lock that another task used less than this many cycles ago is taken to be held: the task
    /// gives up its processor. 0 disables this.
    pub lock_held_cycles: u64,
    /// When the run ends.
    pub until: Until,
    /// With [`Until::Busy`]: the run goes on only while this many tasks are left, even if there are
    /// fewer processors. Machines of several sizes then end with about the same part of the trace
    /// done. 0 and 1 add nothing.
    pub tasks_left: u32,
}

/// Which ready process a free processor takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Any of them.
    Random,
    /// One that it ran last, if there is one.
    Affinity,
}

/// System calls that make a process wait and give its processor to another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Blocking {
    /// No system calls.
    Never,
    /// System calls whose purpose it is to wait: select, poll, accept, futex, wait and their kind.
    Waiting,
    /// All system calls.
    Always,
}

/// When the run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// As soon as there are fewer tasks left than processors, or than there were at the beginning
    /// if those are fewer: all of it is under as much load as the trace can make.
    Busy,
    /// When the last task has ended.
    AllDone,
}

/// The references of the operating system, drawn for each system call.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kernel {
    /// Whether there are any; if not, only the traced references are simulated.
    pub enabled: bool,
    /// References of a system call on average; their number is drawn geometrically.
    pub references_mean: f64,
    /// The percentage of references that fetch instructions.
    pub code_percent: f64,
    /// The percentage of data references that write.
    pub write_percent: f64,
    /// The percentage of data references that go to structures that all processes use.
    pub shared_percent: f64,
    /// Pages of code.
    pub code_pages: u32,
    /// Pages of structures that all processes use.
    pub shared_pages: u32,
    /// Pages of each process that only the kernel uses: its stack and its descriptors.
    pub private_pages: u32,
    /// Instructions fetched in a row before a jump, on average.
    pub run_mean: f64,
    /// How much more popular the popular places of code are (Zipf's exponent).
    pub code_skew: f64,
    /// How much more popular the popular structures of all processes are (Zipf's exponent).
    pub structure_skew: f64,
    /// Bytes of a structure. Structures in one block share it falsely.
    pub structure_bytes: u32,
    /// The percentage of references to structures that go to the process's own, which no other
    /// process touches.
    pub own_percent: f64,
    /// References to a structure in a row, on average: a visit, from word to word.
    pub visit_mean: f64,
    /// The percentage of visits to structures that may write; all writes are theirs.
    pub writing_visits_percent: f64,
    /// A system call has one more reference for each of this many bytes that it moved; 0: the moved
    /// bytes make no difference.
    pub bytes_per_reference: f64,
}

/// How frames are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// At random, by the seed.
    Random,
    /// In the order of their first use in the trace.
    InOrder,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            cpus: 8,
            protocol: "mesi".into(),
            cache: CacheShape::default(),
            cpu: Cpu::default(),
            bus: Bus::default(),
            scheduler: Scheduler::default(),
            kernel: Kernel::default(),
            placement: Placement::Random,
            llc: None,
            numa: None,
            basis: BTreeMap::new(),
        }
    }
}

impl Default for CacheShape {
    fn default() -> Self {
        Self { size_kib: 2048, ways: 2, block_bytes: 128 }
    }
}

impl Default for Cpu {
    fn default() -> Self {
        Self { operation_cycles: 2, write_buffer: 8 }
    }
}

impl Default for Bus {
    fn default() -> Self {
        Self {
            invalidate_cycles: 5,
            write_cycles: 5,
            memory_latency_cycles: 64,
            cache_latency_cycles: 8,
            update_latency_cycles: 4,
            bytes_per_cycle: 8,
            clean_supplier: CleanSupplier::AnyCopy,
            memory_latency: MemoryLatency::HoldsBus,
        }
    }
}

impl Default for Scheduler {
    fn default() -> Self {
        Self {
            policy: Policy::Random,
            slice_references: 200_000,
            affinity_slack_slices: 4,
            blocking: Blocking::Waiting,
            blocked_cycles: 20_000,
            lock_held_cycles: 200,
            until: Until::Busy,
            tasks_left: 0,
        }
    }
}

impl Default for Kernel {
    fn default() -> Self {
        Self {
            enabled: true,
            references_mean: 1000.0,
            code_percent: 75.0,
            write_percent: 30.0,
            shared_percent: 20.0,
            code_pages: 64,
            shared_pages: 16,
            private_pages: 2,
            run_mean: 12.0,
            code_skew: 1.0,
            structure_skew: 1.0,
            structure_bytes: 32,
            own_percent: 70.0,
            visit_mean: 1.0,
            writing_visits_percent: 100.0,
            bytes_per_reference: 0.0,
        }
    }
}

impl Machine {
    /// Tables that a machine's file may lack.
    pub const OPTIONAL_TABLES: [&str; 2] = ["llc", "numa"];

    /// This machine as the whole text of a file. Tables that it does without are comments.
    pub fn to_toml(&self) -> String {
        let mut text = toml::to_string(self).expect("numbers and names are TOML");
        for (absent, table) in [(self.llc.is_none(), NO_LLC), (self.numa.is_none(), NO_NUMA)] {
            if absent {
                text.push_str(table);
            }
        }
        text
    }

    /// Checks that such a machine is possible.
    ///
    /// # Errors
    /// The first impossible value.
    pub fn check(&self) -> Result<(), MachineError> {
        range("cpus", self.cpus, 1, CPUS_MAX)?;
        let CacheShape { size_kib, ways, block_bytes } = self.cache;
        range("cache.ways", ways, 1, WAYS_MAX)?;
        range("cache.size_kib", size_kib, 1, 1 << 16)?;
        if !block_bytes.is_power_of_two() {
            let advice = "give 32, 64, 128 or 256";
            return Err(MachineError::value("cache.block_bytes", block_bytes, advice));
        }
        range("cache.block_bytes", block_bytes, GRANULE_BYTES, BLOCK_BYTES_MAX)?;
        let sets = size_kib * 1024 / block_bytes / u64::from(ways);
        if !sets.is_power_of_two() || sets * block_bytes * u64::from(ways) != size_kib * 1024 {
            let advice = format!(
                "{ways} ways of {block_bytes} bytes make no power of two of sets; change the size \
                 or the ways"
            );
            return Err(MachineError::value("cache.size_kib", size_kib, advice));
        }
        range("cpu.operation_cycles", self.cpu.operation_cycles, 1, 1000)?;
        range("cpu.write_buffer", self.cpu.write_buffer, 1, 64)?;
        self.bus.check()?;
        self.scheduler.check()?;
        self.kernel.check()?;
        self.llc.map_or(Ok(()), |llc| llc.check(self.cache))?;
        self.numa.map_or(Ok(()), |numa| numa.check(self.cpus))?;
        self.check_basis()?;
        self.protocol().map(|_| ())
    }

    /// The sources of the kernel's parameters: words, and the keys to which they apply. A value
    /// without a source in any file is a default, which is an assumption.
    pub fn kernel_basis(&self) -> Vec<(&'static str, Vec<String>)> {
        let [own, default] = [self.kernel, Kernel::default()].map(table);
        let said = self.basis.get("kernel");
        let mut all: BTreeMap<(usize, &'static str), Vec<String>> = BTreeMap::new();
        for (key, value) in own.iter().filter(|(key, _)| *key != "enabled") {
            let words = match said.and_then(|said| said.get(key)) {
                Some(Basis::Measured) => (0, "measured"),
                Some(Basis::Fitted) => (1, "fitted"),
                Some(Basis::Paper) => (2, "from the paper"),
                Some(Basis::Chosen) => (3, "chosen"),
                None if default.get(key) == Some(value) => (4, "assumed (default)"),
                None => (5, "typed or of a file that does not say why"),
            };
            all.entry(words).or_default().push(key.clone());
        }
        all.into_iter().map(|((_, words), keys)| (words, keys)).collect()
    }

    /// Checks that each value with a source exists.
    fn check_basis(&self) -> Result<(), MachineError> {
        if self.basis.is_empty() {
            return Ok(());
        }
        let whole = table(self);
        for (name, keys) in &self.basis {
            let inner = whole.get(name).and_then(toml::Value::as_table);
            let inner = inner.filter(|_| name != "basis");
            let absent = |key: String, absent: String| Err(MachineError::Basis { key, absent });
            let Some(inner) = inner else {
                return absent(format!("basis.{name}"), format!("table {name}"));
            };
            if let Some(key) = keys.keys().find(|key| !inner.contains_key(*key)) {
                return absent(format!("basis.{name}.{key}"), format!("{name}.{key}"));
            }
        }
        Ok(())
    }

    /// The protocol with this name.
    ///
    /// # Errors
    /// There is none.
    pub fn protocol(&self) -> Result<&'static Protocol, MachineError> {
        protocol(&self.protocol).ok_or_else(|| {
            let known = PROTOCOLS.map(|protocol| protocol.name).join(", ");
            let name = format!("\"{}\"", self.protocol);
            MachineError::value("protocol", name, format!("give one of {known}"))
        })
    }
}

impl Bus {
    fn check(&self) -> Result<(), MachineError> {
        let cycles = [
            ("invalidate", self.invalidate_cycles),
            ("write", self.write_cycles),
            ("memory_latency", self.memory_latency_cycles),
            ("cache_latency", self.cache_latency_cycles),
            ("update_latency", self.update_latency_cycles),
        ];
        for (name, value) in cycles {
            range(&format!("bus.{name}_cycles"), value, 0, 1 << 20)?;
        }
        range("bus.bytes_per_cycle", self.bytes_per_cycle, 1, 4096)
    }
}

impl Scheduler {
    /// The number of tasks that must be left for the run of a trace of `tasks` tasks to go on.
    pub fn tasks_needed(&self, cpus: u32, tasks: usize) -> usize {
        match self.until {
            Until::AllDone => 1,
            Until::Busy => (cpus.max(self.tasks_left) as usize).min(tasks),
        }
    }

    fn check(&self) -> Result<(), MachineError> {
        range("scheduler.tasks_left", self.tasks_left, 0, TASKS_MAX as u32)?;
        range("scheduler.slice_references", self.slice_references, 1, 1 << 40)?;
        range("scheduler.affinity_slack_slices", self.affinity_slack_slices, 0, 1 << 20)?;
        range("scheduler.blocked_cycles", self.blocked_cycles, 0, 1 << 40)?;
        range("scheduler.lock_held_cycles", self.lock_held_cycles, 0, 1 << 40)
    }
}

impl LastLevel {
    fn check(&self, own: CacheShape) -> Result<(), MachineError> {
        let Self { cpus_per_group, size_kib, ways, hit_cycles } = *self;
        range("llc.cpus_per_group", cpus_per_group, 1, CPUS_MAX)?;
        range("llc.size_kib", size_kib, 1, 1 << 20)?;
        range("llc.ways", ways, 1, 64)?;
        range("llc.hit_cycles", hit_cycles, 1, 1 << 20)?;
        let set_bytes = own.block_bytes * u64::from(ways);
        if size_kib * 1024 % set_bytes != 0 {
            let advice = format!(
                "not whole sets of {ways} ways of {} bytes; change the size or the ways",
                own.block_bytes
            );
            return Err(MachineError::value("llc.size_kib", size_kib, advice));
        }
        // The cache is inclusive: it also holds all blocks in a processor's own cache.
        if size_kib < own.size_kib {
            let advice = format!(
                "smaller than each processor's own cache, which it has to include; give \
                 {} (cache.size_kib) or more",
                own.size_kib
            );
            return Err(MachineError::value("llc.size_kib", size_kib, advice));
        }
        Ok(())
    }
}

impl Numa {
    fn check(&self, cpus: u32) -> Result<(), MachineError> {
        range("numa.nodes", self.nodes, 1, CPUS_MAX)?;
        if self.nodes > cpus {
            let advice = format!("each node has a processor, and there are cpus = {cpus}");
            return Err(MachineError::value("numa.nodes", self.nodes, advice));
        }
        range("numa.remote_extra_cycles", self.remote_extra_cycles, 0, 1 << 20)
    }
}

impl Kernel {
    fn check(&self) -> Result<(), MachineError> {
        let percents = [
            ("code_percent", self.code_percent),
            ("write_percent", self.write_percent),
            ("shared_percent", self.shared_percent),
            ("own_percent", self.own_percent),
        ];
        for (name, value) in percents {
            range(&format!("kernel.{name}"), value, 0.0, 100.0)?;
        }
        let writing = self.writing_visits_percent;
        range("kernel.writing_visits_percent", writing, self.write_percent.max(1.0), 100.0)?;
        // Less than 1 would be more references than bytes.
        let least = if self.bytes_per_reference == 0.0 { 0.0 } else { 1.0 };
        range("kernel.bytes_per_reference", self.bytes_per_reference, least, 1e6)?;
        range("kernel.visit_mean", self.visit_mean, 1.0, 1e4)?;
        range("kernel.references_mean", self.references_mean, 1.0, 1e6)?;
        range("kernel.run_mean", self.run_mean, 1.0, 1e4)?;
        range("kernel.code_skew", self.code_skew, 0.0, 4.0)?;
        range("kernel.structure_skew", self.structure_skew, 0.0, 4.0)?;
        range("kernel.code_pages", self.code_pages, 1, 1 << 12)?;
        range("kernel.shared_pages", self.shared_pages, 1, 1 << 12)?;
        range("kernel.private_pages", self.private_pages, 1, 64)?;
        range("kernel.structure_bytes", self.structure_bytes, 4, 4096)
    }
}

fn table(of: impl Serialize) -> toml::Table {
    toml::Table::try_from(of).expect("numbers and names are TOML")
}

fn range<T: PartialOrd + Copy + std::fmt::Display>(
    name: &str,
    value: T,
    low: T,
    high: T,
) -> Result<(), MachineError> {
    if low <= value && value <= high {
        return Ok(());
    }
    Err(MachineError::value(name, value, format!("give {low} to {high}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a machine as its file is read, but for the texts of mistakes.
    fn read(text: &str) -> Result<Machine, MachineError> {
        let machine: Machine = toml::from_str(text)
            .map_err(|why| MachineError::Text(why.message().replace('\n', ", ")))?;
        machine.check()?;
        Ok(machine)
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let why = read(text).expect_err(text).to_string();
        assert!(why.starts_with(expected), "{why}");
        assert!(!why.contains('\n'), "{why}");
    }

    #[test]
    fn an_empty_file_is_the_default_and_what_is_written_is_read() {
        assert_eq!(read(""), Ok(Machine::default()));
        let mut machine = Machine::default();
        machine.cache.ways = 4;
        machine.bus.memory_latency = MemoryLatency::Split;
        machine.scheduler.policy = Policy::Affinity;
        assert_eq!(read(&machine.to_toml()), Ok(machine.clone()));
        let uncommented = |line: &str| match line.strip_prefix("# ") {
            Some(rest) if rest.starts_with('[') || rest.contains(" = ") => format!("{rest}\n"),
            _ => format!("{line}\n"),
        };
        let all: String = machine.to_toml().lines().map(uncommented).collect();
        let all = read(&all).expect("the comments are tables");
        assert!(all.llc.is_some() && all.numa.is_some());
        assert_eq!(read(&all.to_toml()), Ok(all.clone()));
        assert!(!all.to_toml().contains('#'));
    }

    #[test]
    fn the_sources_of_the_kernels_values_are_listed() {
        let defaults = Machine::default().kernel_basis();
        assert_eq!(defaults.len(), 1, "{defaults:?}");
        assert_eq!((defaults[0].0, defaults[0].1.len()), ("assumed (default)", 15));
        let file = "[kernel]\nrun_mean = 9.0\nown_percent = 12.0\n\
                    [basis.kernel]\nrun_mean = \"measured\"\ncode_pages = \"chosen\"\n";
        let machine = read(file).expect("it is right");
        let told = machine.kernel_basis();
        let of =
            |words: &str| told.iter().find(|(own, _)| *own == words).map(|(_, keys)| &keys[..]);
        assert_eq!(of("measured"), Some(&["run_mean".to_owned()][..]));
        assert_eq!(of("chosen"), Some(&["code_pages".to_owned()][..]));
        let unsaid = of("typed or of a file that does not say why");
        assert_eq!(unsaid, Some(&["own_percent".to_owned()][..]));
        assert_eq!(of("assumed (default)").map(<[_]>::len), Some(12));
        assert_eq!(read(&machine.to_toml()), Ok(machine));
    }

    #[test]
    fn mistakes_are_one_line_that_names_the_key() {
        check("cpus = 65", "cpus = 65: give 1 to 64");
        check("cpus = 0", "cpus = 0: give 1 to 64");
        check("\ncups = 4", "unknown field `cups`");
        check("protocol = \"moesi\"", "protocol = \"moesi\": give one of mesi, amsd, pscr, dragon");
        check("[cache]\nblock_bytes = 48", "cache.block_bytes = 48: give 32, 64, 128 or 256");
        check("[cache]\nblock_bytes = 16", "cache.block_bytes = 16: give 32 to 256");
        check("[cache]\nways = 3", "cache.size_kib = 2048: 3 ways of 128 bytes");
        check("[cache]\nways = 17", "cache.ways = 17: give 1 to 16");
        check("[bus]\nbytes_per_cycle = 0", "bus.bytes_per_cycle = 0");
        check("[kernel]\ncode_percent = 101.0", "kernel.code_percent = 101: give 0 to 100");
        let llc = "[llc]\ncpus_per_group = 2\nsize_kib = 64\nhit_cycles = 9\nways = ";
        check(&format!("{llc}0"), "llc.ways = 0: give 1 to 64");
        check(&format!("{llc}3"), "llc.size_kib = 64: not whole sets of 3 ways of 128 bytes");
        check("[llc]\nways = 2", "missing field `cpus_per_group`");
        check(
            "[cache]\nsize_kib = 128\n[llc]\ncpus_per_group = 8\nsize_kib = 64\nhit_cycles = 9\nways = 2",
            "llc.size_kib = 64: smaller than each processor's own cache, which it has to include; \
             give 128 (cache.size_kib) or more",
        );
        check("[numa]\nnodes = 65\nremote_extra_cycles = 9", "numa.nodes = 65: give 1 to 64");
        check(
            "cpus = 2\n[numa]\nnodes = 3\nremote_extra_cycles = 9",
            "numa.nodes = 3: each node has a processor, and there are cpus = 2",
        );
        check("[kernel]\ncode_skew = nan", "kernel.code_skew = NaN: give 0 to 4");
        check("[kernel]\nstructure_skew = 5.0", "kernel.structure_skew = 5: give 0 to 4");
        let bytes = "[kernel]\nbytes_per_reference = 0.5";
        check(bytes, "kernel.bytes_per_reference = 0.5: give 1 to 1000000");
        check("[kernel]\nvisit_mean = 0.5", "kernel.visit_mean = 0.5: give 1 to 10000");
        check(
            "[kernel]\nwrite_percent = 40.0\nwriting_visits_percent = 20.0",
            "kernel.writing_visits_percent = 20: give 40 to 100",
        );
        check(
            "[basis.kernel]\nskew = \"measured\"",
            "basis.kernel.skew: a machine has no kernel.s",
        );
        check(
            "[basis.kernels]\nskew = \"fitted\"",
            "basis.kernels: a machine has no table kernels",
        );
        check("[basis.kernel]\nrun_mean = \"guessed\"", "unknown variant `guessed`");
        check("[kernel]\nskew = 2.5", "unknown field `skew`, expected one of `enabled`");
        check("[scheduler]\npolicy = \"fair\"", "unknown variant `fair`");
    }
}
