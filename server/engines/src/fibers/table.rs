//! The table of a cluster's fibers: a slab that never moves, so that any thread finds any fiber
//! without a lock. A key is a slot's index and a generation, as in the slab of an event loop.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use os::fiber::Fiber;
use session::Tick;

use super::routine::Routine;
use super::state::{FiberEvents, FiberState, NEVER};
use crate::lock::lock;

/// Slots made at once.
const CHUNK: usize = 1024;

/// The place in which a fiber is stored.
pub(super) struct Slot {
    pub(super) state: FiberState,
    /// The deadline that the fiber had when it last rested.
    deadline: AtomicU64,
    /// When the fiber's entry in the wheel comes up. Changed only under the wheel's lock.
    scheduled: AtomicU64,
    /// Locked only by the owner of the fiber, so that the lock is never waited for.
    content: Mutex<SlotContent>,
}

/// The content of a slot.
pub(super) enum SlotContent {
    Vacant,
    /// A fiber with its stack.
    Fiber(Fiber<Routine>),
    /// A connection between two requests that has given its stack up. Boxed, so that a slot is as
    /// small as a fiber.
    Parked(Box<Routine>),
}

pub(super) struct FiberTable {
    chunks: Box<[OnceLock<Box<[Slot]>>]>,
    free: Mutex<Free>,
}

struct Free {
    /// Slots that were taken before and are free.
    left: Vec<u32>,
    /// The first slot that was never taken.
    fresh: u32,
    max: u32,
}

impl FiberTable {
    pub(super) fn new(max: usize) -> Self {
        // Descriptors are 31-bit numbers, so slots are fewer.
        let max = max.min(i32::MAX as usize);
        let chunks = (0..max.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect();
        Self { chunks, free: Mutex::new(Free { left: Vec::new(), fresh: 0, max: max as u32 }) }
    }

    /// Takes a slot for a fiber, owned by the caller. Returns its key; none if all are taken.
    pub(super) fn occupy(&self) -> Option<u64> {
        let index = lock(&self.free).take()?;
        let chunk = &self.chunks[index as usize / CHUNK];
        let slot = &chunk.get_or_init(new_chunk)[index as usize % CHUNK];
        slot.set_deadline(NEVER);
        slot.set_scheduled(NEVER);
        Some(u64::from(slot.state.occupy()) << 32 | u64::from(index))
    }

    /// Frees the slot of a fiber, which the caller owns.
    pub(super) fn vacate(&self, index: u32) {
        if let Some(slot) = self.get(index) {
            slot.state.vacate();
            lock(&self.free).left.push(index);
        }
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&Slot> {
        let chunk = self.chunks.get(index as usize / CHUNK)?.get()?;
        chunk.get(index as usize % CHUNK)
    }

    /// Has a fiber, owned by the caller, fetched into the CPU's cache.
    #[inline]
    pub(super) fn prefetch(&self, index: u32) {
        if let Some(slot) = self.get(index)
            && let SlotContent::Fiber(fiber) = &*slot.content()
        {
            fiber.prefetch();
        }
    }

    /// Adds events for the fiber with that key, if it is still there. Returns whether the caller
    /// has to run it.
    #[inline]
    pub(super) fn notify(&self, key: u64, events: FiberEvents) -> bool {
        let slot = self.get(key as u32);
        slot.is_some_and(|slot| slot.state.notify((key >> 32) as u32, events))
    }

    /// Adds events for all fibers, and adds the fibers that the caller has to run to `ready`.
    pub(super) fn notify_all(&self, events: FiberEvents, ready: &mut Vec<u32>) {
        let rested = |index: &u32| self.get(*index).is_some_and(|p| p.state.notify_any(events));
        ready.extend(self.indices().filter(rested));
    }

    /// All slots that were ever taken.
    pub(super) fn indices(&self) -> std::ops::Range<u32> {
        0..lock(&self.free).fresh
    }
}

impl Free {
    fn take(&mut self) -> Option<u32> {
        if let Some(index) = self.left.pop() {
            return Some(index);
        }
        let index = self.fresh;
        (index < self.max).then(|| {
            self.fresh += 1;
            index
        })
    }
}

impl Slot {
    pub(super) fn deadline(&self) -> Tick {
        Tick(self.deadline.load(Ordering::Relaxed))
    }

    pub(super) fn set_deadline(&self, deadline: Tick) {
        self.deadline.store(deadline.0, Ordering::Relaxed);
    }

    pub(super) fn scheduled(&self) -> Tick {
        Tick(self.scheduled.load(Ordering::Relaxed))
    }

    pub(super) fn set_scheduled(&self, moment: Tick) {
        self.scheduled.store(moment.0, Ordering::Relaxed);
    }

    /// Locks the content of the slot. Only for the owner of the fiber.
    #[inline]
    pub(super) fn content(&self) -> MutexGuard<'_, SlotContent> {
        // A panic in a fiber ends its cluster, and the content is dropped.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn new_chunk() -> Box<[Slot]> {
    let slot = |_| Slot {
        state: FiberState::vacant(),
        deadline: AtomicU64::new(NEVER.0),
        scheduled: AtomicU64::new(NEVER.0),
        content: Mutex::new(SlotContent::Vacant),
    };
    (0..CHUNK).map(slot).collect()
}
