//! Checks that the file system has room for the missing files before writing begins.

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;

use os::files::Space;

use crate::error::Error;
use crate::examine::{Fault, Survey};

/// Checks that bytes and inodes suffice.
///
/// # Errors
/// Bytes or inodes are short. Other programs may take free space meanwhile; then writing fails.
pub(crate) fn check(root: &Path, survey: &Survey, threads: usize) -> Result<(), Error> {
    let space = fs::File::open(root).and_then(|directory| Space::from_file(directory.as_fd()));
    let space = space.map_err(|why| Error::io("ask for the free space of", root, why))?;
    let needed = bytes_needed(survey, threads, space.block_bytes);
    if needed > space.free_bytes {
        return Err(Error::Space { root: root.into(), needed, free: space.free_bytes });
    }
    let needed = survey.missing() + survey.directories_missing;
    match space.free_files {
        Some(free) if needed > free => Err(Error::Inodes { root: root.into(), needed, free }),
        _ => Ok(()),
    }
}

/// The bytes needed, in whole blocks. A replaced file exists twice for a moment, one on each
/// thread.
fn bytes_needed(survey: &Survey, threads: usize, block_bytes: u64) -> u64 {
    let on_disk = |bytes: u64| bytes.div_ceil(block_bytes).saturating_mul(block_bytes);
    let mut needed = survey.directories_missing.saturating_mul(block_bytes);
    let mut replaced_max = 0;
    for (file, fault) in &survey.faults {
        let bytes = on_disk(file.bytes());
        let there = match fault {
            Fault::Missing | Fault::NotRegular => 0,
            Fault::Length(bytes) => on_disk(*bytes),
            Fault::Mode(_) | Fault::Byte(_) => bytes,
        };
        needed = needed.saturating_add(bytes.saturating_sub(there));
        if there > 0 {
            replaced_max = bytes.max(replaced_max);
        }
    }
    needed.saturating_add(replaced_max.saturating_mul(threads.max(1) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::fileset::FileSet;

    #[test]
    fn whole_blocks_are_needed() {
        let set = FileSet::directories(1).unwrap();
        let all = |fault: fn(u64) -> Fault| {
            let faults = set.iter().map(|file| (file, fault(file.bytes()))).collect();
            bytes_needed(&Survey { faults, ..Survey::default() }, 2, 4096)
        };
        let missing = all(|_| Fault::Missing);
        assert_eq!(missing % 4096, 0);
        assert!((set.bytes()..set.bytes() + 36 * 4096).contains(&missing), "{missing}");
        // The largest takes 225 blocks.
        assert_eq!(all(|_| Fault::Mode(0)), 2 * 225 * 4096);
        assert_eq!(all(|bytes| Fault::Length(bytes / 2)) % 4096, 0);
        assert_eq!(all(|_| Fault::Length(1 << 40)), 2 * 225 * 4096);
    }
}
