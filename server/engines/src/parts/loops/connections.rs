//! The connections of one loop: a slab of slots whose keys tell a connection from an earlier
//! one in the same slot, and the timer entries of each. The loop decides what a slot holds.

use std::os::fd::OwnedFd;

use os::epoll::Interest;
use session::{Connection, Phase, Tick};

use super::step::Ready;
use super::wheel::Wheel;

/// A connection and its socket, with the state that its loop keeps for them.
pub(crate) struct Slot<Socket = OwnedFd> {
    pub(crate) connection: Connection,
    pub(crate) socket: Socket,
    pub(crate) ready: Ready,
    /// The events that the socket is watched for.
    pub(crate) watched: Interest,
    /// Whether the connection waits in a queue for its turn, or for a helper.
    pub(crate) is_queued: bool,
    /// The connection to the application that answers the request; see `call_loop.rs`.
    pub(crate) upstream: u64,
}

/// The link of a slot without a call; no key of a connection is as large.
pub(crate) const NO_UPSTREAM: u64 = u64::MAX;

/// The content of a slot, as timers use it.
pub(crate) trait Timed {
    /// The moment at which the connection is to come up; none if it has no deadline.
    fn deadline(&self) -> Option<Tick>;

    /// Whether the connection may be closed to make room.
    fn is_idle(&self) -> bool;
}

impl<Socket> Timed for Slot<Socket> {
    fn deadline(&self) -> Option<Tick> {
        self.connection.deadline()
    }

    fn is_idle(&self) -> bool {
        self.connection.phase() == Phase::Idle
    }
}

/// Slots and their timers.
pub(crate) struct Connections<S = Slot> {
    slots: Vec<Place<S>>,
    free: Vec<u32>,
    wheel: Wheel,
    due: Vec<(u64, Tick)>,
    /// The keys of the connections that can go on when others have had their turn.
    yielded: Vec<u64>,
    /// The buffer for the next of these keys, while the last are gone through.
    spare: Vec<u64>,
}

/// The place of a slot, which may be empty.
struct Place<S> {
    generation: u32,
    /// When the slot's entry in the wheel comes up.
    scheduled: Tick,
    slot: Option<S>,
}

impl<Socket> Connections<Slot<Socket>> {
    /// Adds a connection that was just accepted.
    pub(crate) fn welcome(&mut self, connection: Connection, socket: Socket) -> u64 {
        self.insert(Slot {
            connection,
            socket,
            ready: Ready::default(),
            watched: Interest::NONE,
            is_queued: false,
            upstream: NO_UPSTREAM,
        })
    }

    /// Queues a connection that can go on when others have had their turn.
    pub(crate) fn queue(&mut self, key: u64) {
        let Some(slot) = self.get(key) else { return };
        if !std::mem::replace(&mut slot.is_queued, true) {
            self.yielded.push(key);
        }
        self.schedule(key);
    }

    /// Takes the keys of the connections whose turn it is again. Their buffer is given back with
    /// [`Connections::keep_buffer`].
    pub(crate) fn take_yielded(&mut self) -> Vec<u64> {
        let mut keys = std::mem::replace(&mut self.yielded, std::mem::take(&mut self.spare));
        keys.retain(|key| self.get(*key).map(|slot| slot.is_queued = false).is_some());
        keys
    }

    /// Keeps a buffer for the next keys.
    pub(crate) fn keep_buffer(&mut self, mut keys: Vec<u64>) {
        keys.clear();
        self.spare = keys;
    }

    /// Whether connections wait for their turn.
    pub(crate) fn has_yielded(&self) -> bool {
        !self.yielded.is_empty()
    }
}

impl<S: Timed> Connections<S> {
    pub(crate) fn new(now: Tick) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            wheel: Wheel::new(now),
            due: Vec::new(),
            yielded: Vec::new(),
            spare: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The key that [`Connections::insert`] will return next.
    pub(crate) fn next_key(&self) -> u64 {
        let index = self.free.last().map_or(self.slots.len(), |&index| index as usize);
        let generation = self.slots.get(index).map_or(0, |place| place.generation);
        u64::from(generation) << 32 | index as u64
    }

    /// Fills a slot and returns its key, which is unique among all that this loop has had, up to
    /// 2^32 in a slot.
    pub(crate) fn insert(&mut self, slot: S) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Place { generation: 0, scheduled: Tick(u64::MAX), slot: None });
            // Descriptors are 31-bit numbers, so slots are fewer.
            (self.slots.len() - 1) as u32
        });
        let place = &mut self.slots[index as usize];
        place.scheduled = Tick(u64::MAX);
        place.slot = Some(slot);
        u64::from(place.generation) << 32 | u64::from(index)
    }

    /// The content of the slot with that key, unless it has been removed.
    #[inline]
    pub(crate) fn get(&mut self, key: u64) -> Option<&mut S> {
        let place = self.slots.get_mut(key as u32 as usize)?;
        if u64::from(place.generation) != key >> 32 {
            return None;
        }
        place.slot.as_mut()
    }

    /// Empties a slot and returns its content. The key will never mean another connection.
    pub(crate) fn remove(&mut self, key: u64) -> Option<S> {
        let index = key as u32;
        let place = self.slots.get_mut(index as usize)?;
        if u64::from(place.generation) != key >> 32 {
            return None;
        }
        let slot = place.slot.take()?;
        // The last generation is left out: keys of listeners and wake-ups begin there.
        place.generation = (place.generation + 1) % (u32::MAX - 1);
        self.free.push(index);
        Some(slot)
    }

    /// All keys in use.
    pub(crate) fn keys(&self) -> Vec<u64> {
        let used = self.slots.iter().enumerate().filter(|(_, place)| place.slot.is_some());
        used.map(|(index, place)| u64::from(place.generation) << 32 | index as u64).collect()
    }

    /// Has the connection come up when its deadline has passed.
    #[inline]
    pub(crate) fn schedule(&mut self, key: u64) {
        let place = &mut self.slots[key as u32 as usize];
        debug_assert_eq!(u64::from(place.generation), key >> 32, "only living connections");
        let Some(deadline) = place.slot.as_ref().and_then(S::deadline) else { return };
        if self.wheel.moment(deadline) < place.scheduled {
            place.scheduled = self.wheel.add(key, deadline);
        }
    }

    /// Takes the keys of all connections whose deadline has passed.
    pub(crate) fn take_expired(&mut self, now: Tick) -> Vec<u64> {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.take_due(now, &mut due);
        let expired = self.sift(&mut due, |slot| slot.deadline().is_some_and(|d| d <= now));
        self.due = due;
        expired
    }

    /// Takes the key of the connection that has been idle longest. Connections that have been idle
    /// about as long stay, to be next. A connection whose client has sent a request is not idle,
    /// though the loop has not received the request yet: one that has input (`has_input`) is passed
    /// over.
    pub(crate) fn take_least_recent(
        &mut self,
        mut has_input: impl FnMut(&S) -> bool,
    ) -> Option<u64> {
        let mut due = std::mem::take(&mut self.due);
        let mut found = None;
        let mut skip = 0;
        while found.is_none()
            && let Some(ahead) = self.wheel.take_ahead(skip, &mut due)
        {
            let moment = due[0].1;
            let mut rested = self.sift(&mut due, |slot| {
                let deadline = slot.deadline();
                let is_its_time = deadline.is_some_and(|d| d <= moment || Wheel::is_last(ahead));
                slot.is_idle() && is_its_time
            });
            rested.sort_by_key(|&key| self.get(key).and_then(|slot| slot.deadline()));
            let mut rests = |key: u64| self.get(key).is_some_and(|slot| !has_input(slot));
            found = rested.iter().copied().find(|&key| rests(key));
            rested.into_iter().filter(|&key| Some(key) != found).for_each(|key| self.schedule(key));
            skip = ahead + 1;
        }
        self.due = due;
        found
    }

    /// The moment at which [`Connections::take_expired`] is worth calling again.
    pub(crate) fn next_check(&self) -> Option<Tick> {
        self.wheel.next_check()
    }

    /// Returns the keys of the entries in `due` that are `wanted`, and puts the others back into
    /// the wheel.
    fn sift(&mut self, due: &mut Vec<(u64, Tick)>, wanted: impl Fn(&S) -> bool) -> Vec<u64> {
        let mut keys = Vec::new();
        for (key, moment) in due.drain(..) {
            let place = &mut self.slots[key as u32 as usize];
            let Some(slot) = &place.slot else { continue };
            if u64::from(place.generation) != key >> 32 || place.scheduled != moment {
                continue; // an entry of a connection that has gone, or one that was replaced
            }
            place.scheduled = Tick(u64::MAX);
            if wanted(slot) {
                keys.push(key);
            } else if let Some(deadline) = slot.deadline() {
                place.scheduled = self.wheel.add(key, deadline);
            }
        }
        keys
    }
}
