//! The quantities that a report shows, and their sources in a run. A run may lack any of them:
//! above all the observations beside the server depend on the machine.
//!
//! Not all observations of the lab are shown: those of each CPU, and those of the whole machine,
//! stay in the records.

use super::number::Quantity;
use crate::record::{Figures, Run};
use load::error_kind::ErrorKind;

/// A quantity and its properties.
struct Row {
    /// The head of columns that programs read.
    key: &'static str,
    /// The head of columns that people read, with the unit.
    head: &'static str,
    /// Formats a value for people.
    show: fn(f64) -> Quantity,
    /// Reads the value of a run.
    value: fn(&ObservedRun<'_>) -> Option<f64>,
}

/// Defines an enumeration of the rows of a table, and a list of the variants of each of its parts.
macro_rules! measures {
    ($($(#[$about_part:meta])* $part:ident {
        $($(#[$about:meta])* $name:ident: $key:literal, $head:literal, $show:expr, $value:expr;)*
    })*) => {
        /// A quantity of a run.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Measure {
            $($($(#[$about])* $name,)*)*
        }

        impl Measure {
            $($(#[$about_part])* pub(crate) const $part: &[Self] = &[$(Self::$name),*];)*

            fn row(self) -> Row {
                match self {
                    $($(Self::$name => {
                        Row { key: $key, head: $head, show: $show, value: $value }
                    })*)*
                }
            }
        }
    };
}

measures! {
    /// The measures of clients and server, in the order of a table.
    ALL {
        /// Good replies per second.
        Throughput: "throughput_per_s", "Throughput/s", Quantity::figure,
            |observed| Some(observed.clients.throughput_per_s);
        /// Good replies within the latency target, per second.
        Goodput: "goodput_per_s", "Goodput/s", Quantity::figure,
            |observed| Some(observed.clients.goodput_per_s);
        /// The part of the issued requests that failed.
        ErrorShare: "error_share", "Failed", Quantity::percent,
            |observed| Some(observed.clients.error_share);
        /// The part of the due requests whose client gave up waiting.
        TimeoutShare: "timeout_share", "Timed out", Quantity::percent,
            |observed| Some(timed_out(observed.clients));
        /// The part of the due requests that were served without a growing backlog.
        KeptUpShare: "kept_up_share", "Kept up with", Quantity::percent,
            |observed| Some(kept_up(observed.clients));
        /// The server's processor time, in microseconds per request served.
        CpuPerRequest: "cpu_us_per_request", "CPU, us/request", Quantity::figure,
            |observed| observed.run.cpu_us_per_request();
        /// The part of the testbed's processors that the server used.
        Utilisation: "cpu_utilisation", "CPU used", Quantity::percent,
            |observed| observed.run.utilisation(observed.cpus);
        /// The server's memory, in bytes.
        Memory: "memory_bytes", "Memory", Quantity::memory,
            |observed| MEMORY.iter().find_map(|name| observed.value(name));
        /// The mean response time, in microseconds.
        MeanTime: "mean_us", "Mean, ms", thousandths, |observed| observed.time("mean");
        /// The median response time, in microseconds.
        P50: "p50_us", "p50, ms", thousandths, |observed| observed.time("p50");
        /// The 99th percentile of the response time, in microseconds.
        P99: "p99_us", "p99, ms", thousandths, |observed| observed.time("p99");
        /// The 99.9th percentile of the response time, in microseconds.
        P999: "p99.9_us", "p99.9, ms", thousandths, |observed| observed.time("p99.9");
        /// The difference in timeouts between kinds of file, in percentage points.
        Spread: "spread_points", "Spread, points", Quantity::figure,
            |observed| observed.clients.unfair_points();
    }
    /// The observations beside the clients, in the order of a table.
    OBSERVED {
        /// Processor time in user mode, in microseconds per request.
        UserTime: "cpu_user_us_per_request", "User, us/request", Quantity::figure,
            |observed| observed.each("cpu_user_us");
        /// Processor time in system mode, in microseconds per request.
        SystemTime: "cpu_system_us_per_request", "System, us/request", Quantity::figure,
            |observed| observed.each("cpu_system_us");
        /// Soft interrupts on the servers' processors, in microseconds per request.
        SoftirqTime: "softirq_us_per_request", "Soft interrupts, us/request", Quantity::figure,
            |observed| observed.each("softirq_us");
        /// The share of time in which the servers' processors were busy with any work.
        Busy: "cpus_busy_share", "CPUs busy", Quantity::percent,
            |observed| observed.value("cpus_busy_share");
        /// Bytes per second read from the disk for the servers.
        DiskBytes: "block_read_bytes_per_s", "Read from disk, MB/s", millions,
            |observed| observed.a_second("block_read_bytes");
        /// Reads per second from the disk for the servers.
        DiskReads: "block_reads_per_s", "Disk reads/s", Quantity::figure,
            |observed| observed.a_second("block_reads");
        /// The page cache charged to the servers, in bytes.
        PageCache: "page_cache_bytes", "Page cache", Quantity::memory,
            |observed| observed.value("page_cache_bytes");
        /// The part of the time in which some thread of the servers waited for the disk.
        WaitedForDisk: "pressure_io_some_share", "Time waited for disk", Quantity::percent,
            |observed| observed.share_of_time("pressure_io_some_us");
        /// The part of the time in which some thread of the servers waited for memory.
        WaitedForMemory: "pressure_memory_some_share", "Time waited for memory", Quantity::percent,
            |observed| observed.share_of_time("pressure_memory_some_us");
        /// The mean number of threads that were ready and had no processor.
        RunQueue: "run_queue_mean", "Run queue", Quantity::figure,
            |observed| observed.value("run_queue_mean");
        /// Context switches of threads that waited, per request.
        Waits: "switches_voluntary_per_request", "Waits/request", Quantity::figure,
            |observed| observed.each("switches_voluntary");
        /// Context switches of threads that could have continued, per request.
        Preemptions: "switches_involuntary_per_request", "Preemptions/request", Quantity::figure,
            |observed| observed.each("switches_involuntary");
        /// System calls per request.
        SystemCalls: "system_calls_per_request", "System calls/request", Quantity::figure,
            |observed| observed.each("system_calls");
        /// Cycles per instruction.
        CyclesPerInstruction: "cycles_per_instruction", "Cycles/instruction", Quantity::figure,
            |observed| observed.value("cycles_per_instruction");
        /// The part of the cycles in which instructions were awaited.
        StalledForInstructions: "stalled_frontend_share",
            "Cycles stalled for instructions", Quantity::percent,
            |observed| observed.part("stalled_frontend_cycles", "cycles");
        /// The part of the cycles in which data or units were awaited.
        StalledForData: "stalled_backend_share",
            "Cycles stalled for data or units", Quantity::percent,
            |observed| observed.part("stalled_backend_cycles", "cycles");
        /// The part of the references to the last-level cache that it answered.
        CacheHits: "cache_hit_share", "Last-level cache hits", Quantity::percent,
            |observed| Some(1.0 - observed.part("cache_misses", "cache_references")?);
        /// Misses of the last-level cache, per request.
        CacheMisses: "cache_misses_per_request", "Last-level misses/request", Quantity::figure,
            |observed| observed.each("cache_misses");
        /// Cycles of the bus, per request.
        BusCycles: "bus_cycles_per_request", "Bus cycles/request", Quantity::figure,
            |observed| observed.each("bus_cycles");
        /// Bytes per second between memory and processors, of the whole machine.
        MemoryTraffic: "memory_bytes_per_s", "Memory traffic, MB/s", millions,
            |observed| observed.memory_traffic();
        /// The part of the files that was in memory before the server was started.
        FilesInMemory: "files_resident_share", "Files in memory before", Quantity::percent,
            |observed| observed.part("files_resident_bytes", "files_accessed_bytes");
        /// The part of the files that stayed in memory after the eviction.
        FilesKept: "files_kept_share", "Files not evicted", Quantity::percent,
            |observed| observed.part("files_kept_bytes", "files_accessed_bytes");
        /// The 99th percentile of the generator's lag, in microseconds.
        Lag: "generator_lag_p99_us", "Generator's lag p99, ms", thousandths,
            |observed| Some(observed.clients.lag_p99_us);
        /// The generator's processor time, in microseconds per request served.
        ClientCpuPerRequest: "client_cpu_us_per_request",
            "Clients' CPU, us/request", Quantity::figure,
            |observed| Some(observed.clients.client_cpu_us_per_request);
    }
}

impl Measure {
    /// Returns all measures.
    pub(crate) fn every() -> impl Iterator<Item = Self> {
        Self::ALL.iter().chain(Self::OBSERVED).copied()
    }

    /// The head of columns that programs read.
    pub(crate) fn key(self) -> &'static str {
        self.row().key
    }

    /// The head of columns that people read, with the unit.
    pub(crate) fn head(self) -> &'static str {
        self.row().head
    }

    /// Formats a value for people.
    pub(crate) fn show(self, value: f64) -> Quantity {
        (self.row().show)(value)
    }

    /// Reads the value of `run`; `cpus` is the number of processors of its testbed, if known.
    pub(crate) fn value(self, run: &Run, cpus: Option<f64>) -> Option<f64> {
        let observed = ObservedRun { run, clients: run.figures.as_ref()?, cpus };
        (self.row().value)(&observed).filter(|value| value.is_finite())
    }

    /// Whether the value of `run` is a response time that is mostly the generator's own lag.
    pub(crate) fn is_mostly_own_lag(self, run: &Run) -> bool {
        let name = match self {
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            _ => return false,
        };
        run.figures.as_ref().is_some_and(|figures| figures.mostly_own_lag.contains(name))
    }
}

fn thousandths(value: f64) -> Quantity {
    Quantity::figure(value / 1e3)
}

fn millions(value: f64) -> Quantity {
    Quantity::figure(value / 1e6)
}

/// A run, the figures of its clients, and the processors of its testbed.
struct ObservedRun<'r> {
    run: &'r Run,
    clients: &'r Figures,
    cpus: Option<f64>,
}

impl ObservedRun<'_> {
    /// A response time.
    fn time(&self, name: &str) -> Option<f64> {
        self.clients.times_us.get(name).copied()
    }

    /// An observation beside the server.
    fn value(&self, name: &str) -> Option<f64> {
        self.run.observed.get(name).copied()
    }

    fn above_0(&self, name: &str) -> Option<f64> {
        self.value(name).filter(|value| *value > 0.0)
    }

    fn each(&self, name: &str) -> Option<f64> {
        Some(self.value(name)? / self.replies()?)
    }

    fn a_second(&self, name: &str) -> Option<f64> {
        Some(self.value(name)? / self.elapsed_s()?)
    }

    fn share_of_time(&self, name: &str) -> Option<f64> {
        Some(self.value(name)? / 1e6 / self.elapsed_s()?)
    }

    fn part(&self, name: &str, all: &str) -> Option<f64> {
        Some(self.value(name)? / self.above_0(all)?)
    }

    fn memory_traffic(&self) -> Option<f64> {
        Some(self.a_second("memory_read_bytes")? + self.a_second("memory_written_bytes")?)
    }

    /// Good replies while the server was observed, which is a little longer than the window.
    fn replies(&self) -> Option<f64> {
        let by_cost = || Some(self.above_0("cpu_us")? / self.above_0("cpu_us_per_request")?);
        let in_window = || self.clients.throughput_per_s * self.run.window_s;
        Some(by_cost().unwrap_or_else(in_window)).filter(|replies| *replies > 0.0)
    }

    /// How long the server was observed, in seconds.
    fn elapsed_s(&self) -> Option<f64> {
        self.above_0("elapsed_us").map(|us| us / 1e6)
    }
}

/// The part of the due requests that timed out.
fn timed_out(figures: &Figures) -> f64 {
    let kinds = ErrorKind::ALL.into_iter().filter(|kind| kind.is_timeout());
    let count: u64 = kinds.filter_map(|kind| figures.errors.get(kind.name())).sum();
    count as f64 / figures.requests_due.max(1) as f64
}

fn kept_up(figures: &Figures) -> f64 {
    figures.kept_up_share.min(figures.served_share)
}

/// The observations of the server's memory in the order of preference: its own memory with shared
/// pages counted once, else its resident memory.
const MEMORY: [&str; 3] = ["memory_bytes", "proportional_bytes", "resident_bytes"];

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
        let of = |measure: Measure| measure.value(&run, None);
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
        assert_eq!(Measure::TimeoutShare.value(&run, None), Some(0.05));
    }

    #[test]
    fn columns_have_names_of_their_own() {
        let keys: BTreeSet<&str> = Measure::every().map(Measure::key).collect();
        let heads: BTreeSet<&str> = Measure::every().map(Measure::head).collect();
        assert_eq!((keys.len(), heads.len()), (37, 37));
    }
}
