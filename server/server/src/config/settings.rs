//! The settings as the operator writes them: every key of the configuration with its default.
//!
//! Plain data. The names of the keys, their values and how they are printed are in `schema.rs`;
//! what the running server makes of them is in `crate::ready`.

use std::collections::BTreeMap;

use engines::SendfileMode;
use file_cache::PolicyKind;
use site::host::HostSettings;

use super::address::ListenAddress;

const KIB: u64 = 1 << 10;

/// Everything that can be configured.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where connections are accepted.
    pub listen: Vec<ListenAddress>,
    /// What is served, by host name.
    pub hosts: Vec<HostSettings>,
    /// The concurrency architecture.
    pub engine: EngineSettings,
    /// Which CPUs serve, and how they are grouped.
    pub partitions: PartitionSettings,
    /// The file cache.
    pub cache: CacheSettings,
    /// The limits of requests and connections.
    pub limits: LimitSettings,
    /// The timeouts.
    pub timeouts: TimeoutSettings,
    /// The access log.
    pub log: LogSettings,
    /// Options of the listening sockets.
    pub socket: SocketSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: vec![ListenAddress::LOCAL_8080],
            hosts: Vec::new(),
            engine: EngineSettings { name: AUTO.into(), processes: 0, knobs: BTreeMap::new() },
            partitions: PartitionSettings::default(),
            cache: CacheSettings::default(),
            limits: LimitSettings::default(),
            timeouts: TimeoutSettings::default(),
            log: LogSettings::default(),
            socket: SocketSettings::default(),
        }
    }
}

/// The engine name that leaves the choice to `crate::engine_choice`.
pub const AUTO: &str = "auto";

/// The value of a knob, as the operator wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnobSetting {
    /// A number.
    Number(u64),
    /// One of several words.
    Choice(String),
}

/// `[engine]`.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineSettings {
    /// A name from the table of engines, or [`AUTO`].
    pub name: String,
    /// Worker processes of each partition; 0 means the engine's default.
    pub processes: u64,
    /// Knobs that differ from the engine's defaults.
    pub knobs: BTreeMap<String, KnobSetting>,
}

/// `[partitions]`.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionSettings {
    /// What divides the allowed CPUs into groups, unless `cpus` lists the groups.
    pub by: Division,
    /// The number of groups that they are divided into by [`Division::Count`].
    pub count: u64,
    /// The CPUs of each partition; empty means by `count`.
    pub cpus: Vec<Vec<usize>>,
    /// Whether workers stay on the CPUs of their partition.
    pub pin: Pin,
    /// The addresses of each partition; empty means that all have those of `listen`.
    pub listen: Vec<Vec<ListenAddress>>,
    /// Whether the CPUs of the partition shall receive what arrives at the interfaces of these
    /// addresses.
    pub set_irq_affinity: bool,
}

impl Default for PartitionSettings {
    fn default() -> Self {
        let by = Division::Count;
        let (cpus, listen) = (Vec::new(), Vec::new());
        Self { by, count: 1, cpus, pin: Pin::Auto, listen, set_irq_affinity: false }
    }
}

/// Whether workers stay on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// A worker stays on its CPU as long as no other program makes it wait for that CPU.
    Auto,
    /// A worker stays on its CPU, whatever else runs there.
    Always,
    /// Workers run where the kernel schedules them.
    Never,
}

/// What divides the CPUs of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// A number of groups of about the same size.
    Count,
    /// CPUs that share a cache of the highest level.
    Cache,
    /// CPUs in the same socket.
    Socket,
    /// CPUs with the same nearest memory.
    Node,
}

/// `[cache]`. The budgets are for the whole server; each partition gets its share.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheSettings {
    /// Bodies up to this size are kept in memory.
    pub small_body_bytes_max: u64,
    /// Memory for heads and bodies; none means a part of the available memory.
    pub bytes_max: Option<u64>,
    /// Open files kept; none means half of the descriptor limit.
    pub descriptors_max: Option<u64>,
    /// The time in milliseconds without a request after which an open file is closed; none means
    /// never.
    pub descriptors_idle_ms: Option<u64>,
    /// Entries kept.
    pub entries_max: u64,
    /// The replacement policy.
    pub policy: PolicyKind,
    /// How stale an answer may be; none means that files never change.
    pub revalidate_ms: Option<u64>,
    /// Slots of each worker's own first level.
    pub first_level_slots_max: u64,
    /// The workers that share a second level.
    pub scope: CacheScope,
}

/// The workers that share a second level of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheScope {
    /// The partition, as with [`Self::Partition`].
    Auto,
    /// Each worker has a second level of its own.
    Worker,
    /// The workers of a partition that are in one process share one.
    Partition,
    /// All workers of a process share one.
    Process,
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self {
            small_body_bytes_max: 32 * KIB,
            bytes_max: None,
            descriptors_max: None,
            descriptors_idle_ms: Some(60_000),
            entries_max: 100_000,
            policy: PolicyKind::S3Fifo,
            revalidate_ms: Some(1000),
            first_level_slots_max: 8192,
            scope: CacheScope::Auto,
        }
    }
}

/// `[limits]`.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitSettings {
    /// Connections at a time; none means as many as the descriptors allow.
    pub connections_max: Option<u64>,
    /// Requests served on one connection before it is closed; 0 means no limit.
    pub requests_per_connection_max: u64,
    /// The size of a request head, from method to blank line.
    pub head_bytes_max: u64,
    /// The size of the request line.
    pub request_line_bytes_max: u64,
    /// The number of field lines of a head.
    pub fields_max: u64,
    /// The size up to which a request body that is not needed is read and dropped.
    pub unread_body_bytes_max: u64,
    /// The number of ranges in one request.
    pub ranges_max: u64,
    /// Listings under way at a time; none means a number that needs no larger descriptor limit.
    pub listings_max: Option<u64>,
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self {
            connections_max: None,
            requests_per_connection_max: 0,
            head_bytes_max: 16 * KIB,
            request_line_bytes_max: 8 * KIB,
            fields_max: 100,
            unread_body_bytes_max: 64 * KIB,
            ranges_max: 100,
            listings_max: None,
        }
    }
}

/// `[timeouts]`.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeoutSettings {
    /// The time from the first byte of a request to the end of its head.
    pub head_ms: u64,
    /// A head that arrives faster than this may take longer than `head_ms`.
    pub head_bytes_per_s_min: u64,
    /// The time that a keep-alive connection may be without a request.
    pub idle_ms: u64,
    /// The time that a response may wait while the client takes nothing of it.
    pub write_ms: u64,
    /// The time to wait for the client to close after the server has closed its side.
    pub linger_ms: u64,
    /// The time from SIGTERM to the end.
    pub drain_ms: u64,
}

impl Default for TimeoutSettings {
    fn default() -> Self {
        Self {
            head_ms: 10_000,
            head_bytes_per_s_min: 500,
            idle_ms: 60_000,
            write_ms: 30_000,
            linger_ms: 2_000,
            drain_ms: 10_000,
        }
    }
}

/// `[log]`.
#[derive(Clone, Debug, PartialEq)]
pub struct LogSettings {
    /// The form of a line, if lines are written at all.
    pub access: AccessForm,
    /// Where paths are reported to operators that were refused or could not be inspected.
    pub errors: ErrorLogging,
    /// The file of the access log, or `-` for standard output.
    pub path: String,
    /// Each worker's buffer.
    pub buffer_bytes: u64,
    /// Full buffers that may wait for the disk before lines are dropped.
    pub queue_buffers_max: u64,
}

impl LogSettings {
    /// Those of the access log alone.
    pub(crate) fn of_access(&self) -> Self {
        Self { errors: Self::default().errors, ..self.clone() }
    }
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            access: AccessForm::Off,
            errors: ErrorLogging::StandardError,
            path: "-".into(),
            buffer_bytes: 16 * KIB,
            queue_buffers_max: 64,
        }
    }
}

/// Where the error log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorLogging {
    /// Nowhere.
    Off,
    /// To standard error.
    StandardError,
}

/// The form of an access log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessForm {
    /// No access log.
    Off,
    /// Apache's combined log format with the duration in microseconds at the end.
    Combined,
    /// One JSON object a line.
    Json,
}

/// `[socket]`.
#[derive(Clone, Debug, PartialEq)]
pub struct SocketSettings {
    /// Connections that the kernel holds until they are accepted.
    pub backlog: u64,
    /// Seconds the kernel waits for a first byte before it wakes the server; 0 does not wait.
    pub defer_accept_s: u64,
    /// Bytes that the kernel takes for a connection before it has sent the earlier ones; 0: as many
    /// as its buffers hold.
    pub unsent_bytes_max: u64,
    /// Which workers have listeners of their own, and which an arrival wakes.
    pub listeners: ListenerMode,
    /// How files are sent.
    pub sendfile: SendfileChoice,
}

impl Default for SocketSettings {
    fn default() -> Self {
        Self {
            backlog: 4096,
            defer_accept_s: 1,
            unsent_bytes_max: 128 * 1024,
            listeners: ListenerMode::Auto,
            sendfile: SendfileChoice::Auto,
        }
    }
}

/// Which workers have listeners of their own, and which an arrival wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerMode {
    /// The engine's default mode.
    Auto,
    /// One listener for each address; an arrival wakes all workers that wait.
    Shared,
    /// One listener for each address; an arrival wakes one of the workers that wait.
    Exclusive,
    /// Listeners of their own for all workers that accept (SO_REUSEPORT); the kernel distributes
    /// connections among them by its hash.
    ReusePort,
    /// Listeners of their own for all workers that accept (SO_REUSEPORT); the kernel distributes
    /// connections among them by the CPU on which they arrive.
    ReusePortCpu,
}

impl ListenerMode {
    /// Whether the kernel distributes connections among several listeners.
    pub(crate) fn is_reuse_port(self) -> bool {
        matches!(self, Self::ReusePort | Self::ReusePortCpu)
    }
}

/// How files are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendfileChoice {
    /// The engine's default mode.
    Auto,
    /// The given mode, if the engine supports it.
    Mode(SendfileMode),
}
