//! The deadlines of a cluster's fibers: the wheel that all its kernel threads share.
//!
//! An entry is corrected when it comes up, not when a deadline moves away: between two requests of
//! a connection the lock is not taken.

use std::sync::Mutex;

use session::Tick;

use super::state::{FiberEvents, NEVER};
use super::table::{FiberTable, Slot};
use crate::lock::lock;
use crate::parts::loops::wheel::Wheel;

pub(super) struct Timers {
    inner: Mutex<Inner>,
}

struct Inner {
    wheel: Wheel,
    due: Vec<(u64, Tick)>,
    /// The moment until which the poller sleeps at most; 0 while it does not sleep.
    asleep_until: Tick,
}

impl Timers {
    pub(super) fn new(now: Tick) -> Self {
        let inner = Inner { wheel: Wheel::new(now), due: Vec::new(), asleep_until: Tick(0) };
        Self { inner: Mutex::new(inner) }
    }

    /// Has the fiber come up when its deadline has passed. Returns whether the poller would sleep
    /// too long and must be woken.
    #[inline]
    #[must_use]
    pub(super) fn schedule(&self, slot: &Slot, key: u64) -> bool {
        let deadline = slot.deadline();
        // An entry that comes up before the deadline is put back then.
        if deadline == NEVER || slot.scheduled() <= deadline {
            return false;
        }
        let mut inner = lock(&self.inner);
        if inner.wheel.moment(deadline) < slot.scheduled() {
            let moment = inner.wheel.add(key, deadline);
            slot.set_scheduled(moment);
            return moment < inner.asleep_until;
        }
        false
    }

    /// Notifies all fibers whose deadline has passed, and adds those that rested to `ready`.
    pub(super) fn expire(&self, table: &FiberTable, now: Tick, ready: &mut Vec<u32>) {
        let mut inner = lock(&self.inner);
        inner.asleep_until = Tick(0);
        if inner.wheel.next_check().is_none_or(|moment| moment > now) {
            return;
        }
        let mut due = std::mem::take(&mut inner.due);
        inner.wheel.take_due(now, &mut due);
        for (key, moment) in due.drain(..) {
            let Some(slot) = inner.come_up(table, key, moment) else { continue };
            if slot.deadline() > now {
                inner.put_back(slot, key);
            } else if table.notify(key, FiberEvents::EXPIRED) {
                ready.push(key as u32);
            }
        }
        inner.due = due;
    }

    /// Evicts the fiber that has been idle longest. The caller owns it then and has to run it.
    pub(super) fn evict_least_recent(&self, table: &FiberTable) -> Option<u32> {
        let mut inner = lock(&self.inner);
        let mut due = std::mem::take(&mut inner.due);
        let (mut evicted, mut skip) = (None, 0);
        while evicted.is_none()
            && let Some(ahead) = inner.wheel.take_ahead(skip, &mut due)
        {
            skip = ahead + 1;
            due.retain(|(key, moment)| inner.come_up(table, *key, *moment).is_some());
            let deadline = |key: u64| table.get(key as u32).map_or(NEVER, Slot::deadline);
            due.sort_by_key(|(key, _)| deadline(*key));
            for (key, moment) in due.drain(..) {
                let Some(slot) = table.get(key as u32) else { continue };
                let is_its_time = slot.deadline() <= moment || Wheel::is_last(ahead);
                let may_go = evicted.is_none() && is_its_time;
                if may_go && slot.state.evict((key >> 32) as u32) {
                    evicted = Some(key as u32);
                } else {
                    inner.put_back(slot, key);
                }
            }
        }
        inner.due = due;
        evicted
    }

    /// Records that the poller is about to sleep, at most until `until`. Returns the moment until
    /// which it may, which is earlier if a deadline is.
    pub(super) fn sleep(&self, until: Option<Tick>) -> Option<Tick> {
        let mut inner = lock(&self.inner);
        let until = [inner.wheel.next_check(), until].into_iter().flatten().min();
        inner.asleep_until = until.unwrap_or(NEVER);
        until
    }
}

impl Inner {
    /// The slot of an entry that comes up, unless its fiber has gone or has a later entry.
    fn come_up<'p>(&self, table: &'p FiberTable, key: u64, moment: Tick) -> Option<&'p Slot> {
        let slot = table.get(key as u32)?;
        let is_it = slot.state.generation() == (key >> 32) as u32;
        if !is_it || slot.scheduled() != moment {
            return None;
        }
        slot.set_scheduled(NEVER);
        Some(slot)
    }

    fn put_back(&mut self, slot: &Slot, key: u64) {
        if slot.deadline() != NEVER {
            slot.set_scheduled(self.wheel.add(key, slot.deadline()));
        }
    }
}
