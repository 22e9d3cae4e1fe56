//! The size of a site, which `auto` compares with the memory of the machine.

use std::fs;
use std::path::{Path, PathBuf};

/// The result of counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SiteSize {
    /// Bytes of the files that were counted.
    pub(crate) bytes: u64,
    /// Regular files that were counted.
    pub(crate) files: u64,
    /// Whether all files were counted: counting ends after a while.
    pub(crate) is_complete: bool,
}

/// How long counting may take, in microseconds, because the server is to start at once: some
/// 100,000 entries that the kernel has in memory. A bound on their number would say nothing about
/// their size.
const COUNTING_US_MAX: u64 = 200_000;

/// How many files a site is taken to have whose files could not all be counted: few have more.
pub(crate) const FILES_EXPECTED: u64 = 1_000_000;

/// The least number of files whose mean size says something about the others: those at the top of
/// a site, which come first, are pages, and need not be like those in its folders.
const SAMPLE_MIN: u64 = 1_000;

impl SiteSize {
    /// The bytes that the files are expected to have together: those counted, or where counting
    /// ended, those of [`FILES_EXPECTED`] files of their mean size. None if too few were counted.
    pub(crate) fn bytes_expected(&self) -> Option<u64> {
        if self.is_complete {
            return Some(self.bytes);
        }
        let files = self.files.max(FILES_EXPECTED);
        self.mean_bytes().map(|mean| mean.saturating_mul(files))
    }

    /// The mean size of a file, if enough were counted.
    pub(crate) fn mean_bytes(&self) -> Option<u64> {
        (self.files >= SAMPLE_MIN).then(|| self.bytes.div_ceil(self.files))
    }

    /// Adds up the sizes of the regular files below these folders, for a limited time. Links are
    /// not followed.
    pub(crate) fn measure<'p>(roots: impl Iterator<Item = &'p Path>) -> Self {
        let end = os::clock::now() + COUNTING_US_MAX;
        Self::count(roots, |_| os::clock::now() >= end)
    }

    /// Adds up the sizes of the regular files below `roots` until `is_enough` returns true, which
    /// is called before each entry with the number of files counted; the size is then incomplete.
    /// Links are not followed.
    fn count<'p>(
        roots: impl Iterator<Item = &'p Path>,
        mut is_enough: impl FnMut(u64) -> bool,
    ) -> Self {
        let mut folders: Vec<PathBuf> = roots.map(Path::to_owned).collect();
        let mut size = Self { bytes: 0, files: 0, is_complete: true };
        while let Some(folder) = folders.pop() {
            // A folder that cannot be read is not served either.
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                if is_enough(size.files) {
                    return Self { is_complete: false, ..size };
                }
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    Ok(kind) if kind.is_file() => {
                        size.files += 1;
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
        let size = SiteSize::count([folder.path()].into_iter(), |_| false);
        assert_eq!(size, SiteSize { bytes: 8, files: 2, is_complete: true });
    }

    /// Many files may be small, so their number is no reason to stop.
    #[test]
    fn counting_ends_and_not_because_there_are_many() {
        let folder = Temporary::new();
        (0..20).for_each(|number| drop(folder.file(&format!("{number}"), "x")));
        let size = SiteSize::count([folder.path()].into_iter(), |files| files == 10);
        assert_eq!(size, SiteSize { bytes: 10, files: 10, is_complete: false });
        (20..5_100).for_each(|number| drop(folder.file(&format!("{number}"), "")));
        let size = SiteSize::count([folder.path()].into_iter(), |_| false);
        assert_eq!(size, SiteSize { bytes: 20, files: 5_100, is_complete: true });
    }

    #[test]
    fn a_folder_that_is_not_there_is_empty() {
        let size = SiteSize::measure([Path::new("/nonexistent")].into_iter());
        assert_eq!(size, SiteSize { bytes: 0, files: 0, is_complete: true });
    }
    /// Folders and few files say nothing about what was not counted.
    #[test]
    fn what_was_not_counted_is_expected_to_be_like_the_rest() {
        let check = |bytes, files, is_complete, expected| {
            let size = SiteSize { bytes, files, is_complete };
            assert_eq!(size.bytes_expected(), expected, "{size:?}");
        };
        check(123, 2, true, Some(123));
        check(0, 0, true, Some(0));
        check(0, 0, false, None);
        check(999, 999, false, None);
        check(0, 1_000, false, Some(0));
        check(1_001, 1_000, false, Some(2_000_000));
        check(50_000_000, 10_000_000, false, Some(50_000_000));
        check(u64::MAX, 1_000, false, Some(u64::MAX));
    }
}
