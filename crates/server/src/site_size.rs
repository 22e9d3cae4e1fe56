//! How large a site is: what `auto` compares with the memory of the machine.

use std::fs;
use std::path::{Path, PathBuf};

/// What was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SiteSize {
    /// Bytes of the files that were seen.
    pub(crate) bytes: u64,
    /// Whether all of them were: counting ends after a while.
    pub(crate) is_complete: bool,
}

/// Entries looked at, for a server that is to start at once: some milliseconds' worth.
pub(crate) const ENTRIES_MAX: usize = 5000;

impl SiteSize {
    /// Adds up the regular files below these folders. Links are not followed.
    pub(crate) fn of<'p>(roots: impl Iterator<Item = &'p Path>) -> Self {
        let mut folders: Vec<PathBuf> = roots.map(Path::to_owned).collect();
        let mut size = Self { bytes: 0, is_complete: true };
        let mut entries_left = ENTRIES_MAX;
        while let Some(folder) = folders.pop() {
            // What cannot be read is not served either.
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                if entries_left == 0 {
                    return Self { is_complete: false, ..size };
                }
                entries_left -= 1;
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
        let size = SiteSize::of([folder.path()].into_iter());
        assert_eq!(size, SiteSize { bytes: 8, is_complete: true });
    }

    #[test]
    fn counting_ends() {
        let folder = Temporary::new();
        for number in 0..=ENTRIES_MAX {
            folder.file(&format!("{number}"), "x");
        }
        let size = SiteSize::of([folder.path()].into_iter());
        assert_eq!(size, SiteSize { bytes: ENTRIES_MAX as u64, is_complete: false });
    }

    #[test]
    fn a_folder_that_is_not_there_is_empty() {
        let size = SiteSize::of([Path::new("/nonexistent")].into_iter());
        assert_eq!(size, SiteSize { bytes: 0, is_complete: true });
    }
}
