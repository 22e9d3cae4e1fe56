//! The size of a site, which `auto` compares with the memory of the machine.

use std::fs;
use std::path::{Path, PathBuf};

/// The result of counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SiteSize {
    /// Bytes of the files that were counted.
    pub(crate) bytes: u64,
    /// Files, folders and other entries that were counted.
    pub(crate) entries: u64,
    /// Whether all entries were counted: counting ends after a while.
    pub(crate) is_complete: bool,
}

/// How long counting may take, in microseconds, because the server is to start at once: some
/// 100,000 entries that the kernel has in memory. A bound on their number would say nothing about
/// their size.
const COUNTING_US_MAX: u64 = 200_000;

impl SiteSize {
    /// Adds up the sizes of the regular files below these folders, for a limited time. Links are
    /// not followed.
    pub(crate) fn measure<'p>(roots: impl Iterator<Item = &'p Path>) -> Self {
        let end = os::clock::now() + COUNTING_US_MAX;
        Self::count(roots, |_| os::clock::now() >= end)
    }

    /// Adds up the sizes of the regular files below `roots` until `is_enough` returns true, which
    /// is called before each entry with the number of entries counted; the size is then incomplete.
    /// Links are not followed.
    fn count<'p>(
        roots: impl Iterator<Item = &'p Path>,
        mut is_enough: impl FnMut(u64) -> bool,
    ) -> Self {
        let mut folders: Vec<PathBuf> = roots.map(Path::to_owned).collect();
        let mut size = Self { bytes: 0, entries: 0, is_complete: true };
        while let Some(folder) = folders.pop() {
            // A folder that cannot be read is not served either.
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                if is_enough(size.entries) {
                    return Self { is_complete: false, ..size };
                }
                size.entries += 1;
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    Ok(kind) if kind.is_file() => {
                        size.bytes += entry.metadata().map_or(0, |status| status.len());
                    }
                    _ => {}
                }
            }
        }
        size
    }
}

#[cfg(test)]
mod tests {
    use testkit::Temporary;

    use super::*;

    #[test]
    fn files_of_all_folders_are_added_up() {
        let folder = Temporary::new();
        folder.file("a", "12345");
        folder.file("b/c", "123");
        std::os::unix::fs::symlink("/", folder.path().join("everything")).unwrap();
        let size = SiteSize::measure([folder.path()].into_iter());
        assert_eq!(size, SiteSize { bytes: 8, entries: 4, is_complete: true });
    }

    /// Many files may be small, so their number is no reason to stop.
    #[test]
    fn counting_ends_and_not_because_there_are_many() {
        let folder = Temporary::new();
        (0..20).for_each(|number| drop(folder.file(&format!("{number}"), "x")));
        let size = SiteSize::count([folder.path()].into_iter(), |entries| entries == 10);
        assert_eq!(size, SiteSize { bytes: 10, entries: 10, is_complete: false });
        (20..5_100).for_each(|number| drop(folder.file(&format!("{number}"), "")));
        let size = SiteSize::count([folder.path()].into_iter(), |_| false);
        assert_eq!(size, SiteSize { bytes: 20, entries: 5_100, is_complete: true });
    }

    #[test]
    fn a_folder_that_is_not_there_is_empty() {
        let size = SiteSize::measure([Path::new("/nonexistent")].into_iter());
        assert_eq!(size, SiteSize { bytes: 0, entries: 0, is_complete: true });
    }
}
