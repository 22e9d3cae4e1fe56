//! The quantities a report shows, and where a run has them. A run may lack any of them: what was
//! observed beside the server, most of all, depends on the machine.
//!
//! Not all that the lab observes: each CPU by itself, and the machine's own figures, stay in the
//! records.

use super::number;
use crate::record::{Figures, Run};
use load::error_kind::ErrorKind;

/// A quantity of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Measure {
    /// Good replies a second.
    Throughput,
    /// Good replies within the latency target, a second.
    Goodput,
    /// Part of the requests issued that failed.
    ErrorShare,
    /// Part of the requests due whose client gave up waiting.
    TimeoutShare,
    /// Part of the requests due with which the server kept up: neither failed nor left to wait.
    KeptUpShare,
    /// The server's processor time, microseconds a request served.
    CpuPerRequest,
    /// Part of the domain's processors that the server used.
    Utilisation,
    /// The server's memory, bytes.
    Memory,
    /// Mean response time, microseconds.
    MeanTime,
    /// Its median.
    P50,
    /// Its 99th percentile.
    P99,
    /// Its 99.9th percentile.
    P999,
    /// How far apart the timeouts of kinds of file lie, percentage points.
    Spread,
    /// Processor time in user mode, microseconds a request.
    UserTime,
    /// Processor time in system mode, microseconds a request.
    SystemTime,
    /// Soft interrupts on the servers' processors, microseconds a request.
    SoftirqTime,
    /// How busy the servers' processors were with anything.
    Busy,
    /// Bytes a second that the servers had the disk read.
    DiskBytes,
    /// Reads a second of the disk.
    DiskReads,
    /// Page cache charged to the servers, bytes.
    PageCache,
    /// Part of the time in which some thread of the servers waited for the disk.
    WaitedForDisk,
    /// Part of the time in which some thread of the servers waited for memory.
    WaitedForMemory,
    /// Threads that were ready and had no processor, in the mean.
    RunQueue,
    /// Context switches of threads that waited, a request.
    Waits,
    /// Context switches of threads that could have gone on, a request.
    Preemptions,
    /// System calls a request.
    SystemCalls,
    /// Cycles for each instruction.
    CyclesPerInstruction,
    /// Part of the cycles in which instructions were awaited.
    StalledForInstructions,
    /// Part of the cycles in which data or units were awaited.
    StalledForData,
    /// Part of the references to the last-level cache that it answered.
    CacheHits,
    /// Misses of the last-level cache, a request.
    CacheMisses,
    /// Cycles of the bus, a request.
    BusCycles,
    /// Bytes a second between memory and processors, of the whole machine.
    MemoryTraffic,
    /// Part of the files that was in memory before the server was started.
    FilesInMemory,
    /// Part of the files that stayed in memory though they were to leave it.
    FilesKept,
    /// How late the generator was at the 99th percentile, microseconds.
    Lag,
}

impl Measure {
    /// All, in the order of a table.
    pub(crate) const ALL: [Self; 13] = [
        Self::Throughput,
        Self::Goodput,
        Self::ErrorShare,
        Self::TimeoutShare,
        Self::KeptUpShare,
        Self::CpuPerRequest,
        Self::Utilisation,
        Self::Memory,
        Self::MeanTime,
        Self::P50,
        Self::P99,
        Self::P999,
        Self::Spread,
    ];

    /// What was observed beside the clients, in the order of a table.
    pub(crate) const OBSERVED: [Self; 23] = [
        Self::UserTime,
        Self::SystemTime,
        Self::SoftirqTime,
        Self::Busy,
        Self::DiskBytes,
        Self::DiskReads,
        Self::PageCache,
        Self::WaitedForDisk,
        Self::WaitedForMemory,
        Self::RunQueue,
        Self::Waits,
        Self::Preemptions,
        Self::SystemCalls,
        Self::CyclesPerInstruction,
        Self::StalledForInstructions,
        Self::StalledForData,
        Self::CacheHits,
        Self::CacheMisses,
        Self::BusCycles,
        Self::MemoryTraffic,
        Self::FilesInMemory,
        Self::FilesKept,
        Self::Lag,
    ];

    /// All there are.
    pub(crate) fn every() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().chain(Self::OBSERVED)
    }

    /// For the heads of columns that programs read.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Throughput => "throughput_per_s",
            Self::Goodput => "goodput_per_s",
            Self::ErrorShare => "error_share",
            Self::TimeoutShare => "timeout_share",
            Self::KeptUpShare => "kept_up_share",
            Self::CpuPerRequest => "cpu_us_per_request",
            Self::Utilisation => "cpu_utilisation",
            Self::Memory => "memory_bytes",
            Self::MeanTime => "mean_us",
            Self::P50 => "p50_us",
            Self::P99 => "p99_us",
            Self::P999 => "p99.9_us",
            Self::Spread => "spread_points",
            Self::UserTime => "cpu_user_us_per_request",
            Self::SystemTime => "cpu_system_us_per_request",
            Self::SoftirqTime => "softirq_us_per_request",
            Self::Busy => "cpus_busy_share",
            Self::DiskBytes => "block_read_bytes_per_s",
            Self::DiskReads => "block_reads_per_s",
            Self::PageCache => "page_cache_bytes",
            Self::WaitedForDisk => "pressure_io_some_share",
            Self::WaitedForMemory => "pressure_memory_some_share",
            Self::RunQueue => "run_queue_mean",
            Self::Waits => "switches_voluntary_per_request",
            Self::Preemptions => "switches_involuntary_per_request",
            Self::SystemCalls => "system_calls_per_request",
            Self::CyclesPerInstruction => "cycles_per_instruction",
            Self::StalledForInstructions => "stalled_frontend_share",
            Self::StalledForData => "stalled_backend_share",
            Self::CacheHits => "cache_hit_share",
            Self::CacheMisses => "cache_misses_per_request",
            Self::BusCycles => "bus_cycles_per_request",
            Self::MemoryTraffic => "memory_bytes_per_s",
            Self::FilesInMemory => "files_resident_share",
            Self::FilesKept => "files_kept_share",
            Self::Lag => "generator_lag_p99_us",
        }
    }

    /// For the heads of columns that people read, with its unit.
    pub(crate) fn head(self) -> &'static str {
        match self {
            Self::Throughput => "Throughput/s",
            Self::Goodput => "Goodput/s",
            Self::ErrorShare => "Failed",
            Self::TimeoutShare => "Timed out",
            Self::KeptUpShare => "Kept up with",
            Self::CpuPerRequest => "CPU, us/request",
            Self::Utilisation => "CPU used",
            Self::Memory => "Memory",
            Self::MeanTime => "Mean, ms",
            Self::P50 => "p50, ms",
            Self::P99 => "p99, ms",
            Self::P999 => "p99.9, ms",
            Self::Spread => "Spread, points",
            Self::UserTime => "User, us/request",
            Self::SystemTime => "System, us/request",
            Self::SoftirqTime => "Soft interrupts, us/request",
            Self::Busy => "CPUs busy",
            Self::DiskBytes => "Read from disk, MB/s",
            Self::DiskReads => "Disk reads/s",
            Self::PageCache => "Page cache",
            Self::WaitedForDisk => "Time waited for disk",
            Self::WaitedForMemory => "Time waited for memory",
            Self::RunQueue => "Run queue",
            Self::Waits => "Waits/request",
            Self::Preemptions => "Preemptions/request",
            Self::SystemCalls => "System calls/request",
            Self::CyclesPerInstruction => "Cycles/instruction",
            Self::StalledForInstructions => "Cycles stalled for instructions",
            Self::StalledForData => "Cycles stalled for data or units",
            Self::CacheHits => "Last-level cache hits",
            Self::CacheMisses => "Last-level misses/request",
            Self::BusCycles => "Bus cycles/request",
            Self::MemoryTraffic => "Memory traffic, MB/s",
            Self::FilesInMemory => "Files in memory before",
            Self::FilesKept => "Files not evicted",
            Self::Lag => "Generator's lag p99, ms",
        }
    }

    /// As people read it.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::ErrorShare
            | Self::TimeoutShare
            | Self::KeptUpShare
            | Self::Utilisation
            | Self::Busy
            | Self::WaitedForDisk
            | Self::WaitedForMemory
            | Self::StalledForInstructions
            | Self::StalledForData
            | Self::CacheHits
            | Self::FilesInMemory
            | Self::FilesKept => number::percent(value),
            Self::Memory | Self::PageCache => number::memory(value),
            Self::MeanTime | Self::P50 | Self::P99 | Self::P999 | Self::Lag => {
                number::figure(value / 1e3)
            }
            Self::DiskBytes | Self::MemoryTraffic => number::figure(value / 1e6),
            _ => number::figure(value),
        }
    }

    /// What `run` has of it; `cpus` is the number of processors of its domain, if known.
    pub(crate) fn of(self, run: &Run, cpus: Option<f64>) -> Option<f64> {
        let figures = run.figures.as_ref()?;
        let time = |name: &str| figures.times_us.get(name).copied();
        let value = match self {
            Self::Throughput => Some(figures.throughput_per_s),
            Self::Goodput => Some(figures.goodput_per_s),
            Self::ErrorShare => Some(figures.error_share),
            Self::TimeoutShare => Some(timed_out(figures)),
            Self::KeptUpShare => Some(figures.kept_up_share.min(figures.served_share)),
            Self::CpuPerRequest => run.cpu_us_per_request(),
            Self::Utilisation => run.utilisation(cpus),
            Self::Memory => observed(run, &MEMORY),
            Self::MeanTime => time("mean"),
            Self::P50 => time("p50"),
            Self::P99 => time("p99"),
            Self::P999 => time("p99.9"),
            Self::Spread => figures.unfair_points(),
            Self::Lag => Some(figures.lag_p99_us),
            _ => self.observed(run),
        };
        value.filter(|value| value.is_finite())
    }
}

impl Measure {
    /// Of what was observed beside the server.
    fn observed(self, run: &Run) -> Option<f64> {
        let value = |name: &str| run.observed.get(name).copied();
        let each = |name: &str| Some(value(name)? / replies(run)?);
        let a_second = |name: &str| Some(value(name)? / elapsed_s(run)?);
        let of_time = |name: &str| Some(value(name)? / 1e6 / elapsed_s(run)?);
        let of = |name: &str, all: &str| Some(value(name)? / value(all).filter(|n| *n > 0.0)?);
        match self {
            Self::UserTime => each("cpu_user_us"),
            Self::SystemTime => each("cpu_system_us"),
            Self::SoftirqTime => each("softirq_us"),
            Self::Busy => value("cpus_busy_share"),
            Self::DiskBytes => a_second("block_read_bytes"),
            Self::DiskReads => a_second("block_reads"),
            Self::PageCache => value("page_cache_bytes"),
            Self::WaitedForDisk => of_time("pressure_io_some_us"),
            Self::WaitedForMemory => of_time("pressure_memory_some_us"),
            Self::RunQueue => value("run_queue_mean"),
            Self::Waits => each("switches_voluntary"),
            Self::Preemptions => each("switches_involuntary"),
            Self::SystemCalls => each("system_calls"),
            Self::CyclesPerInstruction => value("cycles_per_instruction"),
            Self::StalledForInstructions => of("stalled_frontend_cycles", "cycles"),
            Self::StalledForData => of("stalled_backend_cycles", "cycles"),
            Self::CacheHits => Some(1.0 - of("cache_misses", "cache_references")?),
            Self::CacheMisses => each("cache_misses"),
            Self::BusCycles => each("bus_cycles"),
            Self::FilesInMemory => of("files_resident_bytes", "files_accessed_bytes"),
            Self::FilesKept => of("files_kept_bytes", "files_accessed_bytes"),
            Self::MemoryTraffic => {
                Some(a_second("memory_read_bytes")? + a_second("memory_written_bytes")?)
            }
            _ => None,
        }
    }
}

/// Of the requests due.
fn timed_out(figures: &Figures) -> f64 {
    let kinds = ErrorKind::ALL.into_iter().filter(|kind| kind.is_timeout());
    let count: u64 = kinds.filter_map(|kind| figures.errors.get(kind.name())).sum();
    count as f64 / figures.requests_due.max(1) as f64
}

/// Good replies while the server was observed, which is a little longer than the window.
fn replies(run: &Run) -> Option<f64> {
    let observed = |name: &str| run.observed.get(name).copied().filter(|value| *value > 0.0);
    let by_cost = || Some(observed("cpu_us")? / observed("cpu_us_per_request")?);
    let in_window = || Some(run.figures.as_ref()?.throughput_per_s * run.window_s);
    by_cost().or_else(in_window).filter(|replies| *replies > 0.0)
}

/// For how long it was observed.
fn elapsed_s(run: &Run) -> Option<f64> {
    run.observed.get("elapsed_us").map(|us| us / 1e6).filter(|seconds| *seconds > 0.0)
}

/// What the server itself holds, shared pages counted once; else what is resident.
const MEMORY: [&str; 3] = ["memory_bytes", "proportional_bytes", "resident_bytes"];

fn observed(run: &Run, names: &[&str]) -> Option<f64> {
    names.iter().find_map(|name| run.observed.get(*name).copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn what_was_observed_is_by_request_or_by_second() {
        let observed = [
            ("elapsed_us", 2e6),
            ("cpu_us", 9000.0),
            ("cpu_us_per_request", 30.0),
            ("system_calls", 1500.0),
            ("block_read_bytes", 4e6),
            ("pressure_io_some_us", 5e5),
            ("cycles", 100.0),
            ("stalled_backend_cycles", 40.0),
            ("cache_references", 10.0),
            ("cache_misses", 1.0),
            ("bus_cycles", 600.0),
            ("files_accessed_bytes", 200.0),
            ("files_resident_bytes", 80.0),
            ("files_kept_bytes", 0.0),
        ];
        let observed = observed.map(|(name, value)| (name.to_owned(), value));
        let figures = Some(Figures { lag_p99_us: 7.0, ..Figures::default() });
        let run = Run { observed: BTreeMap::from(observed), figures, ..Run::default() };
        let of = |measure: Measure| measure.of(&run, None);
        assert_eq!(of(Measure::SystemCalls), Some(5.0), "of 300 replies");
        assert_eq!(of(Measure::DiskBytes), Some(2e6));
        assert_eq!(of(Measure::WaitedForDisk), Some(0.25));
        assert_eq!(of(Measure::StalledForData), Some(0.4));
        assert_eq!(of(Measure::CacheHits), Some(0.9));
        assert_eq!(of(Measure::BusCycles), Some(2.0));
        assert_eq!((of(Measure::FilesInMemory), of(Measure::FilesKept)), (Some(0.4), Some(0.0)));
        assert_eq!((of(Measure::CyclesPerInstruction), of(Measure::Lag)), (None, Some(7.0)));
    }

    #[test]
    fn of_what_failed_some_timed_out() {
        let errors = [("timeout_waiting", 3), ("timeout_receiving", 2), ("reset", 7)];
        let errors = errors.map(|(kind, count)| (kind.to_owned(), count)).into();
        let figures = Some(Figures { requests_due: 100, errors, ..Figures::default() });
        let run = Run { figures, ..Run::default() };
        assert_eq!(Measure::TimeoutShare.of(&run, None), Some(0.05));
    }

    #[test]
    fn columns_have_names_of_their_own() {
        let keys: BTreeSet<&str> = Measure::every().map(Measure::key).collect();
        let heads: BTreeSet<&str> = Measure::every().map(Measure::head).collect();
        assert_eq!((keys.len(), heads.len()), (36, 36));
    }
}
