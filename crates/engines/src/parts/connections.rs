//! The connections of one event loop: a slab of slots whose keys tell a connection from an earlier
//! one in the same slot, and the timer entries of each.

use std::os::fd::OwnedFd;

use os::epoll::Interest;
use session::{Connection, Phase, Tick};

use super::step::Ready;
use super::wheel::Wheel;

/// A connection and its socket, with whatever else its loop knows of that.
pub(crate) struct Slot<Socket = OwnedFd> {
    pub(crate) connection: Connection,
    pub(crate) socket: Socket,
    pub(crate) ready: Ready,
    /// When the slot's entry in the wheel comes up.
    scheduled: Tick,
    /// What the socket is watched for.
    pub(crate) watched: Interest,
    /// Whether work of the connection is with helpers: until it is back nothing else happens to it.
    pub(crate) is_out: bool,
    /// Whether the connection waits in a queue for its turn, or for a helper.
    pub(crate) is_queued: bool,
}

/// Slots and their timers.
pub(crate) struct Connections<Socket = OwnedFd> {
    slots: Vec<(u32, Option<Slot<Socket>>)>,
    free: Vec<u32>,
    wheel: Wheel,
    due: Vec<(u64, Tick)>,
}

impl<Socket> Connections<Socket> {
    pub(crate) fn new(now: Tick) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), wheel: Wheel::new(now), due: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds a connection. Its key is unique among all that this loop has had, up to 2^32 in a slot.
    pub(crate) fn insert(&mut self, connection: Connection, socket: Socket) -> u64 {
        let slot = Slot {
            connection,
            socket,
            ready: Ready::default(),
            scheduled: Tick(u64::MAX),
            watched: Interest::NONE,
            is_out: false,
            is_queued: false,
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            // Descriptors are 31-bit numbers, so slots are fewer.
            (self.slots.len() - 1) as u32
        });
        let (generation, place) = &mut self.slots[index as usize];
        *place = Some(slot);
        u64::from(*generation) << 32 | u64::from(index)
    }

    /// The connection with that key, unless it has gone.
    #[inline]
    pub(crate) fn get(&mut self, key: u64) -> Option<&mut Slot<Socket>> {
        let (generation, slot) = self.slots.get_mut(key as u32 as usize)?;
        if u64::from(*generation) != key >> 32 {
            return None;
        }
        slot.as_mut()
    }

    /// Takes a connection out; its key will never mean another.
    pub(crate) fn remove(&mut self, key: u64) -> Option<Slot<Socket>> {
        let index = key as u32;
        let (generation, place) = self.slots.get_mut(index as usize)?;
        if u64::from(*generation) != key >> 32 {
            return None;
        }
        let slot = place.take()?;
        // The last generation is left out: keys of listeners and wake-ups begin there.
        *generation = (*generation + 1) % (u32::MAX - 1);
        self.free.push(index);
        Some(slot)
    }

    /// All keys in use.
    pub(crate) fn keys(&self) -> Vec<u64> {
        let keys = self.slots.iter().enumerate().filter(|(_, (_, slot))| slot.is_some());
        keys.map(|(index, (generation, _))| u64::from(*generation) << 32 | index as u64).collect()
    }

    /// Sees to it that the connection comes up when its deadline has passed.
    #[inline]
    pub(crate) fn schedule(&mut self, key: u64) {
        let (generation, slot) = &mut self.slots[key as u32 as usize];
        debug_assert_eq!(u64::from(*generation), key >> 32, "only living connections");
        let Some(slot) = slot else { return };
        let Some(deadline) = slot.connection.deadline() else { return };
        if self.wheel.moment(deadline) < slot.scheduled {
            slot.scheduled = self.wheel.add(key, deadline);
        }
    }

    /// The keys of all connections whose deadline has passed.
    pub(crate) fn take_expired(&mut self, now: Tick) -> Vec<u64> {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.take_due(now, &mut due);
        let expired =
            self.sift(&mut due, |slot| slot.connection.deadline().is_some_and(|d| d <= now));
        self.due = due;
        expired
    }

    /// The keys of the idle connections that have rested longest, at least one if there is any.
    pub(crate) fn take_least_recent(&mut self) -> Vec<u64> {
        let mut due = std::mem::take(&mut self.due);
        let mut found = Vec::new();
        let mut skip = 0;
        while found.is_empty()
            && let Some(ahead) = self.wheel.take_ahead(skip, &mut due)
        {
            let moment = due[0].1;
            found = self.sift(&mut due, |slot| {
                let deadline = slot.connection.deadline();
                let is_its_time = deadline.is_some_and(|d| d <= moment || Wheel::is_last(ahead));
                slot.connection.phase() == Phase::Idle && is_its_time
            });
            skip = ahead + 1;
        }
        self.due = due;
        found
    }

    /// When [`Connections::take_expired`] is worth calling again.
    pub(crate) fn next_look(&self) -> Option<Tick> {
        self.wheel.next_look()
    }

    /// Splits entries that came up into those that are wanted, returned, and the rest, put back.
    fn sift(
        &mut self,
        due: &mut Vec<(u64, Tick)>,
        wanted: impl Fn(&Slot<Socket>) -> bool,
    ) -> Vec<u64> {
        let mut keys = Vec::new();
        for (key, moment) in due.drain(..) {
            let (generation, Some(slot)) = &mut self.slots[key as u32 as usize] else { continue };
            if u64::from(*generation) != key >> 32 || slot.scheduled != moment {
                continue; // an entry of a connection that has gone, or one that was replaced
            }
            slot.scheduled = Tick(u64::MAX);
            if wanted(slot) {
                keys.push(key);
            } else if let Some(deadline) = slot.connection.deadline() {
                slot.scheduled = self.wheel.add(key, deadline);
            }
        }
        keys
    }
}
