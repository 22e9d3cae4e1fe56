//! The shared memory of the processes: the cache, its locks, and who may hold them.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use file_cache::Budget;
use file_cache::shared::{Keeper, Label, Layout, SharedCache};
use os::descriptors::Table;
use os::robust_lock::{Owner, Owners};
use os::shared_memory::{create_cells, map_cells};
use session::{Beyond, Stamp, Tick};
use site::resource::FileRef;

use super::open_file_table::OpenFileTable;
use crate::open_files::OpenFiles;

/// Locks to collide on: a few for each process.
const SHARDS_PER_PROCESS: usize = 4;
/// A shard smaller than this is not worth its lock: larger entries would not fit.
const SHARD_BYTES_MIN: usize = 1 << 20;

/// How often a process looks whether what is lent is wanted, and has not gone: at one of its shards
/// each time.
const LOOK_US: u64 = 1_000_000;

/// What processes of one cache share.
#[derive(Clone, Copy)]
pub(super) struct SharedMemory {
    processes: usize,
    owners: Owners,
    cache: SharedCache,
    /// Where they share their descriptors.
    open_files: Option<OpenFileTable>,
}

/// The shared memory as a level of one process's cache.
pub(super) struct SharedLevel {
    cache: SharedCache,
    locks_and_files: LocksAndFiles,
    /// The shards whose lent files this process looks after: every so many-th from one on.
    seat: usize,
    processes: usize,
    next_shard: usize,
    looked: Tick,
    file_idle_us: Option<u64>,
    /// What this process has open for itself, if only the thread of its loop may close that.
    own: Option<OpenFiles>,
}

/// Takes the locks for one process, and passes open files to and from the table of them.
struct LocksAndFiles {
    owner: Owner,
    open_files: Option<OpenFileTable>,
    /// Files of the entry that is being put in, or was found.
    files: RefCell<Vec<FileRef>>,
    /// What is lent no more, to be closed when no lock is held.
    ended: RefCell<Vec<OwnedFd>>,
}

impl SharedMemory {
    /// Memory for that many processes, which may share their descriptors: as many as the
    /// budget says are then open for all of them.
    pub(super) fn new(processes: usize, budget: Budget, table: Option<Table>) -> io::Result<Self> {
        let shards = (processes * SHARDS_PER_PROCESS).min(budget.bytes / SHARD_BYTES_MIN);
        let layout = Layout::new(budget.bytes, budget.entries, shards);
        // The shards are to begin on cache lines.
        let owner_cells = Owners::cells(processes).next_multiple_of(16);
        let file = create_cells(owner_cells + layout.cells())?;
        let (owners, cache) = map_cells(file.as_fd())?.split_at(owner_cells);
        let cache = SharedCache::new(cache, layout);
        let slots = OpenFileTable::slots_per_shard(cache.shards(), budget.descriptors);
        let open_files = table.filter(|_| slots > 0).map(|table| {
            let file = create_cells(OpenFileTable::cells(cache.shards(), slots))?;
            Ok::<_, io::Error>(OpenFileTable::new(table, map_cells(file.as_fd())?, slots))
        });
        let owners = Owners::new(owners);
        Ok(Self { processes, owners, cache, open_files: open_files.transpose()? })
    }

    /// For the calling process, in a seat, with a number that no other has had. Files that are lent
    /// and that nobody has asked for in so long are closed. `own` is looked after as well.
    pub(super) fn attach(
        self,
        seat: usize,
        number: u32,
        file_idle_us: Option<u64>,
        own: Option<OpenFiles>,
    ) -> io::Result<SharedLevel> {
        let owner = self.owners.enter(seat, number)?;
        let locks_and_files = LocksAndFiles {
            owner,
            open_files: self.open_files,
            files: RefCell::default(),
            ended: RefCell::default(),
        };
        Ok(SharedLevel {
            cache: self.cache,
            locks_and_files,
            seat,
            processes: self.processes,
            next_shard: seat,
            looked: Tick(0),
            file_idle_us,
            own,
        })
    }

    /// Releases what the dead process in a seat held.
    pub(super) fn release_dead(self, seat: usize) {
        self.owners.release_dead(seat, self.cache.locks());
    }
}

impl LocksAndFiles {
    /// Whether a file that is lent by this tag has no name any more.
    fn has_gone(&self, tag: u64) -> bool {
        self.open_files.is_some_and(|table| table.has_unlinked(tag))
    }
}

impl Keeper for LocksAndFiles {
    fn alone(&self, lock: &'static AtomicU64, section: &mut dyn FnMut(bool)) {
        let held = self.owner.lock(lock);
        section(held.is_inherited());
        drop(held);
        self.ended.borrow_mut().clear(); // closing may wait, but nobody for the lock
    }

    fn keep(&self, shard: usize, _: u64) -> u64 {
        let (files, mut ended) = (self.files.borrow(), self.ended.borrow_mut());
        self.open_files.map_or(0, |table| table.lend(shard, &files, &mut ended))
    }

    fn found(&self, tag: u64) {
        if let Some(table) = self.open_files {
            table.copy(tag, &mut self.files.borrow_mut());
        }
    }

    fn departed(&self, tag: u64) {
        if let Some(table) = self.open_files {
            table.take_back(tag, &mut self.ended.borrow_mut());
        }
    }

    fn emptied(&self, shard: usize) {
        if let Some(table) = self.open_files {
            table.empty(shard, &mut self.ended.borrow_mut());
        }
    }
}

impl Beyond for SharedLevel {
    fn find(
        &mut self,
        hash: u64,
        key: &[u8],
        bytes: &mut Vec<u8>,
        files: &mut Vec<FileRef>,
    ) -> Option<Stamp> {
        let label = self.cache.get(&self.locks_and_files, hash, key, bytes);
        files.append(self.locks_and_files.files.get_mut());
        label.map(stamp)
    }

    fn keeps_files(&self) -> bool {
        self.locks_and_files.open_files.is_some()
    }

    fn stamp(&mut self, hash: u64) -> Option<Stamp> {
        self.cache.label(&self.locks_and_files, hash).map(stamp)
    }

    fn validate(&mut self, hash: u64, stamp: Stamp) {
        self.cache.validate(&self.locks_and_files, hash, stamp.version, stamp.validated);
    }

    fn keep_house(&mut self, now: Tick) {
        if now.since(self.looked) < LOOK_US {
            return;
        }
        self.looked = now;
        self.own.iter_mut().for_each(OpenFiles::look_after);
        if !self.keeps_files() {
            return;
        }
        let shard = self.next_shard;
        if shard >= self.cache.shards() {
            return; // there are fewer than processes: others look after them
        }
        let next = shard + self.processes;
        self.next_shard = if next < self.cache.shards() { next } else { self.seat };
        // Who uses it looks at it again when it is due; if that is never, it is lent anew.
        let (files, idle_us) = (&self.locks_and_files, self.file_idle_us);
        let is_idle =
            |label: Label| idle_us.is_some_and(|us| now.since(Tick(label.validated)) > us);
        self.cache
            .take_back(files, shard, &mut |label| is_idle(label) || files.has_gone(label.tag));
    }

    fn insert(&mut self, hash: u64, key: &[u8], bytes: &[u8], files: Vec<FileRef>, stamp: Stamp) {
        *self.locks_and_files.files.get_mut() = files;
        let label = Label { version: stamp.version, validated: stamp.validated, tag: 0 };
        // An entry that is too large for it is found out by each process for itself.
        self.cache.insert(&self.locks_and_files, hash, key, bytes, label);
        self.locks_and_files.files.get_mut().clear();
    }
}

fn stamp(label: Label) -> Stamp {
    Stamp { version: label.version, validated: label.validated }
}
