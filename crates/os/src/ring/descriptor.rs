//! What operations are on: descriptors of the process, and places in the table of a ring ("direct
//! descriptors"), which are found there without the process's own table.
//!
//! A place is given up with the last share of it: it is noted, and the ring tells the kernel when
//! it next hands something over. What is no operation needs a descriptor of the process; a place
//! is given one when it is first asked for, beside the place: [`super::Ring::ordinary`].

use std::cell::{OnceCell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use io_uring::types::{DestinationSlot, Fd, Fixed};
use io_uring::{IoUring, Probe, opcode, squeue};

use crate::call::error;

/// The most places that the kernel takes.
const PLACES_MAX: u32 = 1 << 20;

/// What an operation is on.
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

/// The table of a ring, by what is to be told the kernel of it: the places given up.
#[derive(Clone, Debug, Default)]
pub(super) struct Table(Rc<RefCell<Vec<u32>>>);

/// What a descriptor of the process is made from.
pub(super) enum Ordinary<'a> {
    Here(BorrowedFd<'a>),
    /// To be made from the place, and to be kept with it.
    Missing(Fixed, &'a OnceCell<OwnedFd>),
}

impl Table {
    /// Registers `places` with a ring; none are no table.
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

    /// The place that the kernel has chosen.
    pub(super) fn take(&self, index: u32) -> Descriptor {
        Descriptor(Kind::Direct(Place { index, table: self.clone(), ordinary: OnceCell::new() }))
    }

    /// A place given up: the entry that tells the kernel.
    pub(super) fn next_closing(&self) -> Option<squeue::Entry> {
        let index = self.0.borrow_mut().pop()?;
        Some(opcode::Close::new(Fixed(index)).build())
    }

    /// Where the kernel is to put what is accepted.
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
    /// How entries for a ring with that table name it. A place of another ring's table is none: the
    /// operation fails (EBADF).
    #[inline]
    pub(super) fn target(&self, table: Option<&Table>) -> (Fd, squeue::Flags) {
        match &self.0 {
            Kind::Ordinary(descriptor) => (Fd(descriptor.as_raw_fd()), squeue::Flags::empty()),
            Kind::Direct(place) if place.is_of(table) => {
                (Fd(place.index.cast_signed()), squeue::Flags::FIXED_FILE)
            }
            Kind::Direct(_) => (Fd(-1), squeue::Flags::empty()),
        }
    }

    /// The descriptor of the process, or what it takes to make one in the ring with that table.
    pub(super) fn ordinary(&self, table: Option<&Table>) -> io::Result<Ordinary<'_>> {
        match &self.0 {
            Kind::Ordinary(descriptor) => Ok(Ordinary::Here(descriptor.as_fd())),
            Kind::Direct(place) => match place.ordinary.get() {
                Some(descriptor) => Ok(Ordinary::Here(descriptor.as_fd())),
                None if place.is_of(table) => {
                    Ok(Ordinary::Missing(Fixed(place.index), &place.ordinary))
                }
                None => Err(error(libc::EBADF)),
            },
        }
    }

    /// Whether it is a place in the table of a ring.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        matches!(self.0, Kind::Direct(_))
    }
}

impl Place {
    fn is_of(&self, table: Option<&Table>) -> bool {
        table.is_some_and(|table| Rc::ptr_eq(&table.0, &self.table.0))
    }
}

impl From<OwnedFd> for Descriptor {
    fn from(descriptor: OwnedFd) -> Self {
        Self(Kind::Ordinary(descriptor))
    }
}
