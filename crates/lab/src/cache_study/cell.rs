//! What one measurement is of.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What is compared with what.
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
    /// Levels of the server's cache, few keys, each asked for in turn; not in the appendix.
    Levels,
    /// Which entry leaves; the appendix has LRU only.
    Policies,
    /// Which entry leaves when every other request is a crawler's, which reads all keys in their
    /// order; the hits are those of the other requests.
    Crawler,
}

impl Part {
    /// In the order of reading.
    pub const ALL: [Self; 6] =
        [Self::Lists, Self::Locks, Self::Copies, Self::Levels, Self::Policies, Self::Crawler];

    /// For people.
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

    /// Who is compared; the first is who the others are compared with.
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

/// Who answers.
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
    /// A map, and a standard `VecDeque` in which what is stale is skipped.
    VecDeque,
    /// A map, and a standard `LinkedList` in which what is stale is skipped.
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
    /// A reference to the value is.
    Reference,
    /// The thread has a reference of its own (the first level).
    OwnReference,
    /// No store: the name is hashed, and that is all.
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

/// One measurement: a store, and what is asked of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cell {
    /// What it belongs to.
    pub part: Part,
    /// Who answers.
    pub store: Store,
    /// How many keys there are.
    pub keys: u64,
    /// How many of them the store has room for, in percent. 100: nothing is ever evicted.
    pub cached_percent: f64,
    /// Zipf's exponent.
    pub alpha: f64,
    /// Threads that ask at once.
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
