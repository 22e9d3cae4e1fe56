//! Observations beside a run: the difference of two snapshots, one before and one after it.
//!
//! A snapshot reads files of the kernel and counters that are open already. It takes about a
//! millisecond, some 50 microseconds of it for each thread of the server ([`Observed::look_us`]
//! records the time). Nothing is attached to the server and nothing is sampled. Only counting
//! system calls costs time while servers run, so it is done on request only. Observations that the
//! machine does not offer are named with the reason. Figures per request are left to the caller.

mod block;
mod cpu;
mod figures;
mod hardware;
mod interference;
mod others;
mod pressure;
mod threads;
mod traffic;
mod window;

use crate::group::{Group, as_root};
use crate::memory;
use crate::testbed::{Device, Enclosure};
use block::Blocks;
use hardware::Counters;
use os::accounting::Cpu;
use os::memory::field_bytes;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use threads::Threads;

pub use cpu::CoreUse;
pub use hardware::Hardware;
pub(crate) use interference::{CpuUsage, Machine, interference, interference_in, worst};
pub use interference::{Disturbed, INTERFERENCE_MAX, INTERFERENCE_REPORTED};
pub use others::Others;
pub use pressure::Pressure;
pub(crate) use window::WindowUse;

/// The servers to observe, and the resources that they use.
#[derive(Debug, Clone, Default)]
pub struct Watched<'a> {
    /// The servers.
    pub groups: Vec<&'a Group>,
    /// The applications behind them.
    pub applications: Vec<&'a Group>,
    /// The control groups around all servers, if there are any.
    pub enclosure: Option<&'a Enclosure>,
    /// The CPUs that they use.
    pub cpus: Vec<usize>,
    /// The disk of the file set.
    pub device: Option<Device>,
    /// Whether system calls are counted, which costs each of them a fraction of a microsecond.
    pub system_calls: bool,
}

/// Observes servers. Counters stay open until this value is dropped.
#[derive(Debug)]
pub struct Observer<'a> {
    watched: Watched<'a>,
    counters: Counters,
    not_available: Vec<String>,
}

/// The state of everything that is observed, at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    at_us: u64,
    took_us: u64,
    cpu_ns: u64,
    application_ns: u64,
    split_us: Option<(u64, u64)>,
    cores: Vec<Cpu>,
    blocks: Blocks,
    threads: Option<Threads>,
    group_pressure: Pressure,
    machine_pressure: Pressure,
    hardware: hardware::Readings,
}

/// The difference of two snapshots. A field whose name ends in a unit is in this unit; numbers are
/// of the servers unless the name says otherwise.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The time from one snapshot to the other.
    pub elapsed_us: u64,
    /// How long the second snapshot took.
    pub look_us: u64,
    /// Processor time of the servers.
    pub cpu_us: u64,
    /// Processor time of the applications behind the servers; none where there are none.
    pub application_cpu_us: Option<u64>,
    /// Processor time of the servers in user mode.
    pub cpu_user_us: Option<u64>,
    /// Processor time of the servers in system mode.
    pub cpu_system_us: Option<u64>,
    /// Time in soft interrupts (the network, mostly) on the servers' CPUs, in steps of 10 ms. It is
    /// charged to the interrupted thread, or to none.
    pub softirq_us: Option<u64>,
    /// The share of time that the servers' CPUs were busy with any work, 0 to 1; within the window
    /// alone where that is known, also for each CPU.
    pub cpus_busy_share: Option<f64>,
    /// How each CPU that this process may use spent its time.
    pub cores: Vec<CoreUse>,
    /// Memory at the end; a page that n processes share counts 1/n in each.
    pub resident_bytes: u64,
    /// The part of the resident memory that no file backs.
    pub own_bytes: u64,
    /// Page cache charged to the servers at the end.
    pub page_cache_bytes: Option<u64>,
    /// Page cache of the whole machine at the end.
    pub machine_page_cache_bytes: Option<u64>,
    /// Bytes read from the disk for the servers.
    pub block_read_bytes: Option<u64>,
    /// Operations that read from the disk for the servers.
    pub block_reads: Option<u64>,
    /// Bytes read from the disk of the file set for all processes.
    pub device_read_bytes: Option<u64>,
    /// Operations that read from the disk of the file set for all processes.
    pub device_reads: Option<u64>,
    /// How long the disk of the file set was busy.
    pub device_busy_ms: Option<u64>,
    /// Threads at the end.
    pub threads: Option<u64>,
    /// Threads that ended in between; their share is missing in the next three fields.
    pub threads_ended: Option<u64>,
    /// Context switches because a thread waited for something.
    pub switches_voluntary: Option<u64>,
    /// Context switches because another thread was to run.
    pub switches_involuntary: Option<u64>,
    /// How long threads were ready while no CPU was free. Divided by the elapsed time it is the
    /// mean length of the run queue.
    pub run_queue_wait_us: Option<u64>,
    /// Threads of the whole machine that ran or were ready at the end.
    pub machine_runnable: Option<u64>,
    /// The machine's load average of one minute at the end.
    pub machine_load_1m: Option<f64>,
    /// System calls, if they were counted.
    pub system_calls: Option<u64>,
    /// How long the servers were held up for want of resources.
    pub pressure: Pressure,
    /// How long any task on the machine was held up.
    pub machine_pressure: Pressure,
    /// The processor's counts on the servers' CPUs.
    pub hardware: Hardware,
    /// The observations that are missing in the fields above, each with the reason.
    pub not_available: Vec<String>,
}

impl<'a> Observer<'a> {
    /// Opens the counters. Counters that cannot be opened are reported as not available.
    pub fn new(watched: Watched<'a>) -> Self {
        let unified = watched.enclosure.and_then(Enclosure::unified);
        let mut not_available = Vec::new();
        let counters =
            Counters::open(&watched.cpus, unified, watched.system_calls, &mut not_available);
        for group in &watched.groups {
            not_available.extend(group.accounting().caveat().map(str::to_owned));
        }
        not_available.dedup();
        Self { watched, counters, not_available }
    }

    /// Takes a snapshot.
    pub fn snapshot(&self) -> Snapshot {
        let begun_us = os::clock::now();
        let processes = self.processes();
        let unified = self.watched.enclosure.and_then(Enclosure::unified);
        let group_pressure = match unified {
            Some(folder) => Pressure::read(|kind| folder.join(format!("{kind}.pressure"))),
            None => Pressure::default(),
        };
        let mut snapshot = Snapshot {
            hardware: self.counters.read(),
            at_us: begun_us,
            took_us: 0,
            cpu_ns: self.watched.groups.iter().map(|group| group.cpu_ns()).sum(),
            application_ns: self.watched.applications.iter().map(|group| group.cpu_ns()).sum(),
            split_us: cpu::split_us(unified, &self.watched.groups),
            cores: cpu::read(),
            blocks: Blocks::read(&self.watched, &processes),
            threads: threads::read(&processes),
            group_pressure,
            machine_pressure: Pressure::read(|kind| format!("/proc/pressure/{kind}").into()),
        };
        snapshot.took_us = os::clock::now() - begun_us;
        snapshot
    }

    /// Takes another snapshot, and reads the use of memory, which takes longer; returns the
    /// observations since `first`.
    pub fn since(&self, first: &Snapshot) -> Observed {
        let last = self.snapshot();
        let mut observed = between(first, &last, &self.watched);
        let used = memory::used_by(&self.processes());
        observed.resident_bytes = used.proportional_bytes;
        observed.own_bytes = used.own_bytes;
        let counted = self.watched.enclosure.and_then(Enclosure::memory);
        observed.page_cache_bytes = counted.and_then(page_cache_bytes);
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let shared_bytes = field_bytes(&meminfo, "Shmem:").unwrap_or(0);
        let cached_bytes = field_bytes(&meminfo, "Cached:");
        observed.machine_page_cache_bytes =
            cached_bytes.map(|bytes| bytes.saturating_sub(shared_bytes));
        (observed.machine_load_1m, observed.machine_runnable) = load();
        observed.not_available = self.not_available.clone();
        observed.name_what_is_missing(&self.watched);
        observed
    }

    /// Whether the CPUs of the servers are known.
    pub(crate) fn knows_cpus(&self) -> bool {
        !self.watched.cpus.is_empty()
    }

    /// Replaces the use of the CPUs between the snapshots by their use within the window alone, if
    /// the window was watched.
    pub(crate) fn narrow(
        &self,
        observed: &mut Observed,
        seen: Option<&WindowUse>,
        (began_unix_us, window_us): (u64, u64),
    ) {
        match seen.and_then(|seen| seen.cores(began_unix_us, window_us)) {
            Some(cores) => {
                observed.cpus_busy_share = busy_share(&cores, &self.watched.cpus);
                observed.cores = cores;
            }
            None => observed.not_available.push(
                "how busy CPUs were within the window alone: its beginning or its end was missed"
                    .into(),
            ),
        }
    }

    fn processes(&self) -> Vec<u32> {
        self.watched.groups.iter().flat_map(|group| group.processes()).collect()
    }
}

impl Observed {
    /// Cycles per instruction, where both were counted.
    pub fn cycles_per_instruction(&self) -> Option<f64> {
        let (cycles, instructions) = (self.hardware.cycles?, self.hardware.instructions?);
        (instructions > 0).then(|| cycles as f64 / instructions as f64)
    }

    /// The mean number of the servers' threads that were ready and had no CPU.
    pub fn run_queue_mean(&self) -> Option<f64> {
        let wait_us = self.run_queue_wait_us? as f64;
        (self.elapsed_us > 0).then(|| wait_us / self.elapsed_us as f64)
    }

    fn name_what_is_missing(&mut self, watched: &Watched<'_>) {
        let no_group = format!("no control group of the unified hierarchy{}", as_root());
        let reasons = [
            (self.cpu_user_us.is_none(), "user and system time: no control group shows them"),
            (self.page_cache_bytes.is_none(), "page cache of the servers: no group counts memory"),
            (self.device_reads.is_none(), "reads of the disk: the files lie on no known disk"),
            (self.block_read_bytes.is_none(), "block reads: neither a group nor /proc/PID/io"),
            (self.block_reads.is_none(), "numbers of block reads: no group counts them"),
            (
                self.softirq_us.is_none(),
                "soft interrupts and counters: no CPUs of servers are named",
            ),
            (self.threads.is_none(), "context switches and run queue: too many threads to look at"),
            (self.run_queue_wait_us.is_none(), "run queue: the kernel keeps no schedstat"),
            (
                self.machine_pressure == Pressure::default(),
                "pressure: the kernel keeps none (psi=1)",
            ),
        ];
        let missing = reasons.iter().filter(|(is_missing, _)| *is_missing);
        self.not_available.extend(missing.map(|(_, why)| (*why).to_owned()));
        let is_alone = watched.enclosure.and_then(Enclosure::unified).is_none();
        if is_alone {
            self.not_available.push(format!("pressure on the servers: {no_group}"));
        }
        if !watched.system_calls {
            self.not_available.push("system calls: not requested (system_calls = true)".into());
        }
    }
}

/// Reads the page cache charged to a group, in bytes, from its `memory.stat`.
pub(crate) fn page_cache_bytes(folder: &Path) -> Option<u64> {
    parse_page_cache(&fs::read_to_string(folder.join("memory.stat")).ok()?)
}

/// Parses the bytes of page cache in the text of a `memory.stat`. Shared memory of processes, which
/// the kernel counts as file pages too, is left out: no file backs it from which it could be read
/// again.
pub(crate) fn parse_page_cache(stat: &str) -> Option<u64> {
    // The names of version 2, and those of version 1 that include the groups below.
    [("file ", "shmem "), ("total_cache ", "total_shmem ")].into_iter().find_map(|(all, shared)| {
        let value =
            |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok());
        Some(value(all)?.saturating_sub(value(shared).unwrap_or(0)))
    })
}

fn between(first: &Snapshot, last: &Snapshot, watched: &Watched<'_>) -> Observed {
    let cores = cpu::between(&first.cores, &last.cores);
    let of_servers = cores.iter().filter(|core| watched.cpus.contains(&core.cpu));
    let softirq = of_servers.map(|core| core.softirq_us).reduce(|a, b| a + b);
    let split = first.split_us.zip(last.split_us);
    let split = split.map(|(a, b)| (b.0.saturating_sub(a.0), b.1.saturating_sub(a.1)));
    let blocks = Blocks::between(&first.blocks, &last.blocks);
    let threads = first.threads.as_ref().zip(last.threads.as_ref());
    let threads = threads.map(|(first, last)| threads::between(first, last));
    Observed {
        elapsed_us: last.at_us - first.at_us,
        look_us: last.took_us,
        cpu_us: last.cpu_ns.saturating_sub(first.cpu_ns) / 1000,
        application_cpu_us: (!watched.applications.is_empty())
            .then(|| last.application_ns.saturating_sub(first.application_ns) / 1000),
        cpu_user_us: split.map(|(user, _)| user),
        cpu_system_us: split.map(|(_, system)| system),
        softirq_us: softirq,
        cpus_busy_share: busy_share(&cores, &watched.cpus),
        cores,
        block_read_bytes: blocks.read_bytes,
        block_reads: blocks.reads,
        device_read_bytes: blocks.device.map(|done| done.read_bytes),
        device_reads: blocks.device.map(|done| done.reads),
        device_busy_ms: blocks.device.map(|done| done.busy_ms),
        threads: threads.as_ref().map(|it| it.count),
        threads_ended: threads.as_ref().map(|it| it.ended),
        switches_voluntary: threads.as_ref().map(|it| it.voluntary),
        switches_involuntary: threads.as_ref().map(|it| it.involuntary),
        run_queue_wait_us: threads.as_ref().and_then(|it| it.wait_us),
        pressure: Pressure::between(&first.group_pressure, &last.group_pressure),
        machine_pressure: Pressure::between(&first.machine_pressure, &last.machine_pressure),
        hardware: hardware::between(&first.hardware, &last.hardware),
        system_calls: hardware::system_calls_between(&first.hardware, &last.hardware),
        ..Observed::default()
    }
}

/// The mean busy share of these CPUs; none if `cpus` is empty.
fn busy_share(cores: &[CoreUse], cpus: &[usize]) -> Option<f64> {
    let shares = cores.iter().filter(|core| cpus.contains(&core.cpu)).map(CoreUse::busy_share);
    let (count, sum) = shares.fold((0, 0.0), |(count, sum), share| (count + 1, sum + share));
    (count > 0).then(|| sum / f64::from(count))
}

/// Reads the load average of a minute, and the number of threads that run or are ready, from
/// `/proc/loadavg`.
pub(crate) fn load() -> (Option<f64>, Option<u64>) {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    parse_load(&text)
}

fn parse_load(text: &str) -> (Option<f64>, Option<u64>) {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let runnable = fields.get(3).and_then(|field| field.split_once('/')?.0.parse().ok());
    (fields.first().and_then(|field| field.parse().ok()), runnable)
}

#[cfg(test)]
mod tests;
