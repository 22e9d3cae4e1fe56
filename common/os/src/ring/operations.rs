//! The operations of a ring that have not ended, and what each of them keeps alive.

use std::rc::Rc;

use super::descriptor::Descriptor;

/// The name of one operation of a ring, never used for another one (up to 2^32 in the same place).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    index: u32,
    generation: u32,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Accept,
    Receive,
    Send,
    Poll,
    PollEnd,
}

/// What the kernel uses until the operation ends.
struct UnderWay {
    key: u64,
    kind: Kind,
    /// The bytes to be sent.
    bytes: Vec<u8>,
    descriptor: Rc<Descriptor>,
}

/// A place for an operation.
#[derive(Default)]
struct Place {
    generation: u32,
    under_way: Option<UnderWay>,
}

/// The operations that have not ended, by their names.
#[derive(Default)]
pub(super) struct Operations {
    places: Vec<Place>,
    free: Vec<u32>,
}

impl Operation {
    /// The operation as the one number that travels through the kernel: the generation in the upper
    /// 32 bits, the index in the lower.
    pub(super) fn number(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub(super) fn from_number(number: u64) -> Self {
        Self { index: number as u32, generation: (number >> 32) as u32 }
    }
}

impl Operations {
    pub(super) fn insert(
        &mut self,
        key: u64,
        kind: Kind,
        bytes: Vec<u8>,
        descriptor: Rc<Descriptor>,
    ) -> Operation {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            // A few for each descriptor, of which there are less than 2^30.
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[index as usize];
        place.under_way = Some(UnderWay { key, kind, bytes, descriptor });
        Operation { index, generation: place.generation }
    }

    /// The key and kind of an operation that has not ended.
    #[inline]
    pub(super) fn find(&self, operation: Operation) -> Option<(u64, Kind)> {
        let place = self.places.get(operation.index as usize)?;
        let under_way = place.under_way.as_ref()?;
        (place.generation == operation.generation).then_some((under_way.key, under_way.kind))
    }

    /// Removes an operation and drops what it has used; returns the bytes that it has sent.
    #[inline]
    pub(super) fn remove(&mut self, operation: Operation) -> Vec<u8> {
        let place = &mut self.places[operation.index as usize];
        let Some(UnderWay { bytes, descriptor, .. }) = place.under_way.take() else {
            return Vec::new();
        };
        drop(descriptor);
        place.generation = place.generation.wrapping_add(1);
        self.free.push(operation.index);
        bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.len() == self.free.len()
    }

    /// Keeps everything allocated for ever.
    pub(super) fn leak(self) {
        std::mem::forget(self);
    }
}
