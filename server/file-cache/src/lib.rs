//! A two-level cache of immutable entries with budgets of bytes, descriptors and entries. It holds
//! values under byte-string keys; it knows nothing of files, HTTP, time or threads.
//!
//! The **second level**, [`Cache`], is shared by the workers of a partition: shards with a lock
//! each, an eviction [`PolicyKind`], and a [`Budget`] that is honoured after every operation. The
//! **first level**, [`FirstLevel`], is one worker's own table of [`Hit`]s. A `Hit` is an
//! `Arc<Arc<Slot>>`: the outer count belongs to the worker, so that a hit takes no lock and writes
//! to no cache line that another worker writes to.
//!
//! The order of calls for one request:
//!
//! 1. `hash = cache.hash(key)`, once; all later calls take the hash.
//! 2. `first.get(hash, key)`, which nearly always finds the entry.
//! 3. `cache.get(hash, key)`, and on success `first.insert(slot)`.
//! 4. On a miss, the caller makes the value and calls `cache.insert(..)`, then
//!    `first.insert(slot)`.
//!
//! Now and then, and for a few slots at each insertion, a worker calls `first.sweep`, so that its
//! own table does not keep evicted entries, and their descriptors, alive. The caller decides
//! whether an entry is still current: it stores the time of the last check in [`Slot::validated`],
//! and replaces an entry that has changed by [`Cache::insert`].
//!
//! Entries with descriptors should be checked now and then ([`Cache::scan_part`]): a file that
//! is no longer requested need not stay open.
//!
//! An entry that leaves the cache, for whatever reason, is marked ([`Slot::is_evicted`]) and lives
//! as long as there are references to it. **Invariants:** no allocation on a hit; none on an
//! insertion into a full cache but the entry's own; no value is dropped while a lock is held.
//!
//! [`shared`] is another kind of level: bytes in memory that several processes share.

#![forbid(unsafe_code)]

mod budget;
mod cache;
mod first_level;
mod index;
mod policy;
mod shard;
pub mod shared;
mod slab;
mod slot;

pub use budget::{Budget, Cost, Usage};
pub use cache::{Cache, Round};
pub use first_level::{FirstLevel, Hit};
pub use policy::{PolicyKind, UnknownPolicy};
pub use slot::Slot;
