//! The shared memory of the processes: the cache, its locks, and who may hold them.

use std::cell::RefCell;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU64;

use file_cache::Budget;
use file_cache::shared::{Keeper, Label, Layout, SharedCache};
use os::descriptors::Table;
use os::robust_lock::{Owner, Owners};
use os::shared_memory::{create_cells, map_cells};
use session::{Beyond, Stamp};
use site::resource::FileRef;

use super::lent::Lent;

/// Locks to collide on: a few for each process.
const SHARDS_PER_PROCESS: usize = 4;
/// A shard smaller than this is not worth its lock: larger entries would not fit.
const SHARD_BYTES_MIN: usize = 1 << 20;

/// What processes of one cache share.
#[derive(Clone, Copy)]
pub(super) struct Shelf {
    owners: Owners,
    cache: SharedCache,
    /// Where they share their descriptors.
    lent: Option<Lent>,
}

/// The shelf as one process reaches it.
pub(super) struct Reach {
    cache: SharedCache,
    hands: Hands,
}

/// Takes the locks for one process, and hands files over.
struct Hands {
    owner: Owner,
    lent: Option<Lent>,
    /// Files of the entry that is being put in, or was found.
    files: RefCell<Vec<FileRef>>,
}

impl Shelf {
    /// A new shelf for that many processes, which may share their descriptors: as many as the
    /// budget says are then open for all of them.
    pub(super) fn new(processes: usize, budget: Budget, table: Option<Table>) -> io::Result<Self> {
        let shards = (processes * SHARDS_PER_PROCESS).min(budget.bytes / SHARD_BYTES_MIN);
        let layout = Layout::new(budget.bytes, budget.entries, shards);
        // The shards are to begin on cache lines.
        let owner_cells = Owners::cells(processes).next_multiple_of(16);
        let file = create_cells(owner_cells + layout.cells())?;
        let (owners, cache) = map_cells(file.as_fd())?.split_at(owner_cells);
        let cache = SharedCache::new(cache, layout);
        let slots = Lent::slots_per_shard(cache.shards(), budget.descriptors);
        let lent = table.filter(|_| slots > 0).map(|table| {
            let file = create_cells(Lent::cells(cache.shards(), slots))?;
            Ok::<_, io::Error>(Lent::new(table, map_cells(file.as_fd())?, slots))
        });
        Ok(Self { owners: Owners::new(owners), cache, lent: lent.transpose()? })
    }

    /// The calling process, in a seat, with a number that no other has had.
    pub(super) fn enter(self, seat: usize, number: u32) -> io::Result<Reach> {
        let owner = self.owners.enter(seat, number)?;
        let hands = Hands { owner, lent: self.lent, files: RefCell::default() };
        Ok(Reach { cache: self.cache, hands })
    }

    /// Releases what the dead process in a seat held.
    pub(super) fn bury(self, seat: usize) {
        self.owners.bury(seat, self.cache.locks());
    }
}

impl Keeper for Hands {
    fn alone(&self, lock: &'static AtomicU64, section: &mut dyn FnMut(bool)) {
        let held = self.owner.lock(lock);
        section(held.is_inherited());
    }

    fn keep(&self, shard: usize, _: u64) -> u64 {
        self.lent.map_or(0, |lent| lent.lend(shard, &self.files.borrow()))
    }

    fn found(&self, tag: u64) {
        if let Some(lent) = self.lent {
            lent.copy(tag, &mut self.files.borrow_mut());
        }
    }

    fn departed(&self, tag: u64) {
        if let Some(lent) = self.lent {
            lent.take_back(tag);
        }
    }

    fn emptied(&self, shard: usize) {
        if let Some(lent) = self.lent {
            lent.empty(shard);
        }
    }
}

impl Beyond for Reach {
    fn find(
        &mut self,
        hash: u64,
        key: &[u8],
        bytes: &mut Vec<u8>,
        files: &mut Vec<FileRef>,
    ) -> Option<Stamp> {
        let label = self.cache.get(&self.hands, hash, key, bytes);
        files.append(self.hands.files.get_mut());
        label.map(stamp)
    }

    fn keeps_files(&self) -> bool {
        self.hands.lent.is_some()
    }

    fn stamp(&mut self, hash: u64) -> Option<Stamp> {
        self.cache.label(&self.hands, hash).map(stamp)
    }

    fn validate(&mut self, hash: u64, stamp: Stamp) {
        self.cache.validate(&self.hands, hash, stamp.version, stamp.validated);
    }

    fn insert(&mut self, hash: u64, key: &[u8], bytes: &[u8], files: Vec<FileRef>, stamp: Stamp) {
        *self.hands.files.get_mut() = files;
        let label = Label { version: stamp.version, validated: stamp.validated, tag: 0 };
        // An entry that is too large for the shelf is found out by each process for itself.
        self.cache.insert(&self.hands, hash, key, bytes, label);
        self.hands.files.get_mut().clear();
    }
}

fn stamp(label: Label) -> Stamp {
    Stamp { version: label.version, validated: label.validated }
}
