//! The places of a cluster's fibers: a slab that never moves, so that any thread finds any fiber
//! without a lock. A key is a place and a generation, as in the slab of an event loop.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use os::fiber::Fiber;
use session::Tick;

use super::standing::{News, Standing};
use super::visit::Visit;

/// Places made at once.
const CHUNK: usize = 1024;

/// No deadline, or no entry in the wheel.
pub(super) const NEVER: Tick = Tick(u64::MAX);

/// Where a fiber is when it does not run.
pub(super) struct Place {
    pub(super) standing: Standing,
    /// The deadline of the fiber that rests here, as far as it was made known.
    deadline: AtomicU64,
    /// When the fiber's entry in the wheel comes up. Changed only under the wheel's lock.
    scheduled: AtomicU64,
    /// Locked only by the owner of the fiber: never waited for.
    stay: Mutex<Stay>,
}

/// What is in a place.
pub(super) enum Stay {
    Nobody,
    /// A fiber with its stack.
    Fiber(Fiber<Visit>),
    /// A life between two requests that has given its stack up.
    Parked(Visit),
}

pub(super) struct Places {
    chunks: Box<[OnceLock<Box<[Place]>>]>,
    free: Mutex<Free>,
}

struct Free {
    /// Places that were left.
    left: Vec<u32>,
    /// The first place that was never taken.
    fresh: u32,
    max: u32,
}

impl Places {
    pub(super) fn new(max: usize) -> Self {
        // Descriptors are 31-bit numbers, so places are fewer.
        let max = max.min(i32::MAX as usize);
        let chunks = (0..max.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect();
        Self { chunks, free: Mutex::new(Free { left: Vec::new(), fresh: 0, max: max as u32 }) }
    }

    /// Takes a place for a fiber, owned by the caller. Returns its key; none if all are taken.
    pub(super) fn occupy(&self) -> Option<u64> {
        let index = self.free().take()?;
        let chunk = &self.chunks[index as usize / CHUNK];
        let place = &chunk.get_or_init(new_chunk)[index as usize % CHUNK];
        place.set_deadline(NEVER);
        place.set_scheduled(NEVER);
        Some(u64::from(place.standing.occupy()) << 32 | u64::from(index))
    }

    /// The owner of a fiber gives its place back.
    pub(super) fn vacate(&self, index: u32) {
        if let Some(place) = self.get(index) {
            place.standing.vacate();
            self.free().left.push(index);
        }
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&Place> {
        let chunk = self.chunks.get(index as usize / CHUNK)?.get()?;
        chunk.get(index as usize % CHUNK)
    }

    /// Leaves news for the fiber with that key, if it is there still. Returns whether the caller
    /// must see to it that it runs.
    #[inline]
    pub(super) fn tell(&self, key: u64, news: News) -> bool {
        let place = self.get(key as u32);
        place.is_some_and(|place| place.standing.tell((key >> 32) as u32, news))
    }

    /// Leaves news for all fibers, and adds those that the caller must see to to `ready`.
    pub(super) fn tell_all(&self, news: News, ready: &mut Vec<u32>) {
        let fresh = self.free().fresh;
        let rested = |index: &u32| self.get(*index).is_some_and(|p| p.standing.tell_anyone(news));
        ready.extend((0..fresh).filter(rested));
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Place {
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

    /// What is there. Only for the owner of the fiber.
    #[inline]
    pub(super) fn stay(&self) -> MutexGuard<'_, Stay> {
        // A panic in a fiber ends the engine, and what is left is dropped.
        self.stay.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn new_chunk() -> Box<[Place]> {
    let place = |_| Place {
        standing: Standing::vacant(),
        deadline: AtomicU64::new(NEVER.0),
        scheduled: AtomicU64::new(NEVER.0),
        stay: Mutex::new(Stay::Nobody),
    };
    (0..CHUNK).map(place).collect()
}
