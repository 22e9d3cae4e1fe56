//! A two-level cache of immutable entries with budgets of bytes, descriptors and entries. It holds
//! what it is given under byte-string keys; it knows nothing of files, HTTP, time or threads.
//!
//! The **second level**, [`Cache`], is shared by the workers of a partition: shards with a lock
//! each, an eviction [`PolicyKind`], and a [`Budget`] that is honoured after every operation. The
//! **first level**, [`FirstLevel`], is one worker's own table of [`Hit`]s. A `Hit` is an
//! `Arc<Arc<Slot>>`: the outer count belongs to the worker, so that a hit takes no lock and writes
//! to no cache line that another worker writes to.
//!
//! The order of calls for one request:
//!
//! 1. `hash = cache.hash(key)`, once; everything below is given the hash.
//! 2. `first.get(hash, key)`: nearly always the end of it.
//! 3. `cache.get(hash, key)`, and on success `first.insert(slot)`.
//! 4. On a miss, the caller makes the value and calls `cache.insert(..)`, then
//!    `first.insert(slot)`.
//!
//! Once every so often, and a little at each insertion, a worker calls `first.sweep`, so that its
//! own table does not keep evicted entries, and their descriptors, alive. Whether an entry is still
//! true is the caller's question: [`Slot::validated`] is where it keeps the answer's age, and
//! [`Cache::insert`] replaces what has changed.
//!
//! Entries with descriptors are worth a look now and then ([`Cache::look_through`]): what nobody
//! asks for need not be open.
//!
//! An entry that leaves the cache, for whatever reason, is marked ([`Slot::is_evicted`]) and lives
//! on for those who still hold it. **Invariants:** no allocation on a hit; none on an insertion
//! into a full cache but the entry's own; no value is dropped while a lock is held.

//! [`shared`] is a level of another kind: bytes in memory that several processes share.

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
