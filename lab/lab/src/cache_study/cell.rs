//! The object of one measurement: a cell of the design.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The parts of the study, each a comparison of stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// LRU lists, under one lock (A.2, Figures A.3 and A.4).
    #[default]
    Lists,
    /// Locks, all keys cached (A.1).
    Locks,
    /// Values by copy and by reference, few keys, all cached (A.1).
    Copies,
    /// Levels of the server's cache, few keys, each requested in turn; not in the appendix.
    Levels,
    /// Policies of eviction; the appendix has LRU only.
    Policies,
    /// Policies of eviction when every other request is that of a crawler, which reads all keys in
    /// their order; the hits are those of the remaining requests.
    Crawler,
}

impl Part {
    /// All parts, in the order of the report.
    pub const ALL: [Self; 6] =
        [Self::Lists, Self::Locks, Self::Copies, Self::Levels, Self::Policies, Self::Crawler];

    /// The title in reports.
    pub fn title(self) -> &'static str {
        match self {
            Self::Lists => "Lists",
            Self::Locks => "Locks",
            Self::Copies => "Copies and references",
            Self::Levels => "Levels",
            Self::Policies => "Policies",
            Self::Crawler => "Policies beside a crawler",
        }
    }

    /// The stores that are compared; the first is the reference of the others.
    pub fn stores(self) -> &'static [Store] {
        match self {
            Self::Lists => &[Store::Lru, Store::BesideMap, Store::VecDeque, Store::LinkedList],
            Self::Locks => &[
                Store::Mutex,
                Store::ReadersWriter,
                Store::BucketMutexes,
                Store::LockFree,
                Store::Lru,
                Store::LruSharded,
                Store::Clock,
                Store::ClockSharded,
                Store::TwoLevels,
            ],
            Self::Copies => &[Store::Copy, Store::Reference, Store::OwnReference],
            Self::Levels => &[Store::TwoLevels, Store::Clock, Store::Lru, Store::Hash],
            Self::Policies | Self::Crawler => &[Store::Lru, Store::Clock, Store::S3Fifo],
        }
    }
}

/// The stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Store {
    /// The server's cache, one shard: an LRU list whose links are indices in the nodes of the hash
    /// table.
    #[default]
    Lru,
    /// The server's cache, LRU, 16 shards with a lock each.
    LruSharded,
    /// The server's cache, one shard, CLOCK.
    Clock,
    /// The server's cache, CLOCK, 16 shards with a lock each.
    ClockSharded,
    /// The server's cache, one shard, S3-FIFO.
    S3Fifo,
    /// The server's cache with a first level for each thread; the second is CLOCK.
    TwoLevels,
    /// A map, and a doubly linked list of keys beside it.
    BesideMap,
    /// A map, and a standard `VecDeque` in which stale entries are skipped.
    VecDeque,
    /// A map, and a standard `LinkedList` in which stale entries are skipped.
    LinkedList,
    /// A map under one mutex.
    Mutex,
    /// A map under one readers-writer lock.
    ReadersWriter,
    /// A mutex for each bucket.
    BucketMutexes,
    /// A map without locks (papaya).
    LockFree,
    /// The value is copied out of its bucket.
    Copy,
    /// A reference to the value is copied out of its bucket.
    Reference,
    /// The thread has a reference of its own (the first level).
    OwnReference,
    /// No store: only the name is hashed.
    Hash,
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lru => "file-cache, LRU",
            Self::LruSharded => "file-cache, LRU, 16 shards",
            Self::Clock => "file-cache, CLOCK",
            Self::ClockSharded => "file-cache, CLOCK, 16 shards",
            Self::S3Fifo => "file-cache, S3-FIFO",
            Self::TwoLevels => "file-cache, both levels",
            Self::BesideMap => "list beside the map",
            Self::VecDeque => "standard VecDeque",
            Self::LinkedList => "standard LinkedList",
            Self::Mutex => "map, one mutex",
            Self::ReadersWriter => "map, one readers-writer lock",
            Self::BucketMutexes => "map, a mutex for each bucket",
            Self::LockFree => "map, lock-free (papaya)",
            Self::Copy => "by copy",
            Self::Reference => "by reference",
            Self::OwnReference => "by a thread's own reference",
            Self::Hash => "hash of the name alone",
        })
    }
}

/// One measurement: a store, and the requests to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cell {
    /// The part of the study to which it belongs.
    pub part: Part,
    /// The store that is measured.
    pub store: Store,
    /// The number of keys.
    pub keys: u64,
    /// The percentage of the keys that the store has room for. With 100 no entry is ever evicted.
    pub cached_percent: f64,
    /// Zipf's exponent.
    pub alpha: f64,
    /// The number of threads that make requests at once.
    pub threads: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, store, keys, cached_percent, alpha, threads, value_bytes } = self;
        write!(
            f,
            "{}: {store}, {keys} keys of {value_bytes} bytes, {cached_percent} % cached, alpha \
             {alpha}, threads: {threads}",
            part.title()
        )
    }
}
