//! The process groups of programs, in memory that outlives the spawner: should it be killed, the
//! server ends what it has left.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use super::process::PROGRAMS_MAX;

/// The numbers of groups, a cell each; 0 in those that are free. Only the spawner writes them while
/// it lives.
#[derive(Clone, Copy)]
pub(super) struct Groups(&'static [AtomicU64]);

impl Groups {
    /// Makes the memory, and a file by which the spawner gets it.
    pub(super) fn create() -> io::Result<(OwnedFd, Self)> {
        let file = os::shared_memory::create_cells(PROGRAMS_MAX)?;
        let groups = Self::open(&file)?;
        Ok((file, groups))
    }

    pub(super) fn open(file: &OwnedFd) -> io::Result<Self> {
        os::shared_memory::map_cells(file.as_fd()).map(|cells| Self(cells.leak()))
    }

    pub(super) fn add(self, id: u32) {
        self.replace(0, id.into());
    }

    pub(super) fn remove(self, id: u32) {
        self.replace(id.into(), 0);
    }

    fn replace(self, from: u64, to: u64) {
        let cell = self.0.iter().find(|cell| cell.load(Ordering::Relaxed) == from);
        cell.iter().for_each(|cell| cell.store(to, Ordering::Relaxed));
    }

    /// Kills the groups of a spawner that has died.
    pub(super) fn kill_all(self) {
        let ids = self.0.iter().map(|cell| cell.swap(0, Ordering::Relaxed));
        let ids = ids.filter_map(|id| u32::try_from(id).ok()).filter(|id| *id > 0);
        ids.for_each(os::programs::kill_group_of_dead);
    }
}
