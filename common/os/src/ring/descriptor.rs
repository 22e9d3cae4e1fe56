//! Targets of operations: descriptors of the process, and places in the table of a ring ("direct
//! descriptors"), which are found there without the process's own table.
//!
//! A place is given up when its last share is dropped: this is noted, and the ring tells the kernel
//! at its next submission. Calls that are not operations need a descriptor of the process; a place
//! gets one, in addition, when it is first requested: [`super::Ring::ordinary`].

use std::cell::{OnceCell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use io_uring::types::{DestinationSlot, Fd, Fixed};
use io_uring::{IoUring, Probe, opcode, squeue};

use crate::call::error;

/// The largest number of places that the kernel accepts.
const PLACES_MAX: u32 = 1 << 20;

/// The target of an operation.
#[derive(Debug)]
pub struct Descriptor(Kind);

#[derive(Debug)]
enum Kind {
    Ordinary(OwnedFd),
    Direct(Place),
}

/// A place in the table of a ring.
#[derive(Debug)]
struct Place {
    index: u32,
    table: Table,
    ordinary: OnceCell<OwnedFd>,
}

/// The table of a ring: the places that were given up and that the kernel is still to be told of.
#[derive(Clone, Debug, Default)]
pub(super) struct Table(Rc<RefCell<Vec<u32>>>);

/// Where a descriptor of the process comes from.
pub(super) enum Ordinary<'a> {
    Here(BorrowedFd<'a>),
    /// A descriptor to be made from the place, and to be kept with it.
    Missing(Fixed, &'a OnceCell<OwnedFd>),
}

impl Table {
    /// Registers `places` with a ring; with 0 places there is no table.
    pub(super) fn new(uring: &IoUring, places: u32) -> io::Result<Option<Self>> {
        if places == 0 {
            return Ok(None);
        }
        let mut probe = Probe::new();
        uring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::FixedFdInstall::CODE) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "they need Linux 6.8"));
        }
        let limit = crate::limits::descriptor_limit()?; // the kernel's bound on tables as well
        let limit = u32::try_from(limit).unwrap_or(PLACES_MAX);
        uring.submitter().register_files_sparse(places.min(limit).min(PLACES_MAX))?;
        Ok(Some(Self::default()))
    }

    /// The descriptor for a place that the kernel has chosen.
    pub(super) fn take(&self, index: u32) -> Descriptor {
        Descriptor(Kind::Direct(Place { index, table: self.clone(), ordinary: OnceCell::new() }))
    }

    /// The entry that tells the kernel of the next place that was given up.
    pub(super) fn next_closing(&self) -> Option<squeue::Entry> {
        let index = self.0.borrow_mut().pop()?;
        Some(opcode::Close::new(Fixed(index)).build())
    }

    /// The destination of accepted connections: a free place that the kernel chooses.
    pub(super) fn destination() -> DestinationSlot {
        DestinationSlot::auto_target()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.table.0.borrow_mut().push(self.index);
    }
}

impl Descriptor {
    /// How entries for a ring with that table name the target. A place of another ring's table
    /// yields an invalid number: the operation fails (EBADF).
    #[inline]
    pub(super) fn target(&self, table: Option<&Table>) -> (Fd, squeue::Flags) {
        match &self.0 {
            Kind::Ordinary(descriptor) => (Fd(descriptor.as_raw_fd()), squeue::Flags::empty()),
            Kind::Direct(place) if place.is_in(table) => {
                (Fd(place.index.cast_signed()), squeue::Flags::FIXED_FILE)
            }
            Kind::Direct(_) => (Fd(-1), squeue::Flags::empty()),
        }
    }

    /// The descriptor of the process, or the data to make one from in the ring with that table.
    pub(super) fn ordinary(&self, table: Option<&Table>) -> io::Result<Ordinary<'_>> {
        match &self.0 {
            Kind::Ordinary(descriptor) => Ok(Ordinary::Here(descriptor.as_fd())),
            Kind::Direct(place) => match place.ordinary.get() {
                Some(descriptor) => Ok(Ordinary::Here(descriptor.as_fd())),
                None if place.is_in(table) => {
                    Ok(Ordinary::Missing(Fixed(place.index), &place.ordinary))
                }
                None => Err(error(libc::EBADF)),
            },
        }
    }

    /// Whether the target is a place in the table of a ring.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        matches!(self.0, Kind::Direct(_))
    }
}

impl Place {
    fn is_in(&self, table: Option<&Table>) -> bool {
        table.is_some_and(|table| Rc::ptr_eq(&table.0, &self.table.0))
    }
}

impl From<OwnedFd> for Descriptor {
    fn from(descriptor: OwnedFd) -> Self {
        Self(Kind::Ordinary(descriptor))
    }
}
