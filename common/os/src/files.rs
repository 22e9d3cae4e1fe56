//! Opening files below a directory without leaving it, and reading them and their metadata.
//!
//! This module knows nothing of URLs: paths are bytes, relative to a [`Root`], already decoded and
//! canonical. What a path may be is decided twice, by the caller's own rules and by the kernel
//! here, so that a mistake in one of the two is not yet an escape.

mod directory;
mod new_file;
mod open;
mod read;
mod residency;
mod root;
mod space;
mod status;
#[cfg(test)]
mod tests;
mod walk;

pub use directory::{DirectoryEntry, DirectoryReader, EntryKind, read_directory};
pub use new_file::NewFile;
pub use open::{check_writable, open_appending, openat2_available};
pub use read::{
    LOOKED_AT_MAX, NowaitRead, advise_dont_need, advise_random, advise_will_need, read_at,
    read_at_nowait, read_nowhere_nowait,
};
pub use residency::{Held, resident_bytes};
pub use root::{Root, Symlinks};
pub use space::Space;
pub use status::{FileKind, FileStatus, is_unlinked};
