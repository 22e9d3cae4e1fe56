//! The files that a load requests, the most popular first: their sizes, how much of them is in
//! memory, and their eviction.

use load::expected::file_for_uri;
use os::files::Held;
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The files that are requested.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accessed {
    /// The files with their lengths, the most popular first.
    files: Vec<(PathBuf, u64)>,
    /// The number of requested paths that lead to no file.
    missing: usize,
}

impl Accessed {
    /// Finds the files below `root` for request targets (as in a request log: `/a%20b?c`), each
    /// with its number of requests. Targets that lead to no file are counted as missing.
    pub fn of_requests<'a>(
        root: &Path,
        requests: impl IntoIterator<Item = (&'a [u8], u64)>,
    ) -> Self {
        let mut counts = HashMap::<PathBuf, u64>::new();
        let mut missing = 0;
        for (target, count) in requests {
            match file_for_uri(target, root) {
                Some(file) => *counts.entry(file).or_default() += count,
                None => missing += 1,
            }
        }
        let mut counts: Vec<(PathBuf, u64)> = counts.into_iter().collect();
        counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let mut accessed = Self::of_paths(counts.into_iter().map(|(path, _)| path));
        accessed.missing += missing;
        accessed
    }

    /// Finds all files below a folder, in the order of their names: all are taken to be equally
    /// popular.
    ///
    /// # Errors
    /// When a folder cannot be read.
    pub fn of_folder(root: &Path) -> Result<Self, String> {
        let mut paths = Vec::new();
        list(root, &mut paths).map_err(|why| format!("{}: {why}", root.display()))?;
        paths.sort();
        Ok(Self::of_paths(paths.into_iter()))
    }

    fn of_paths(paths: impl Iterator<Item = PathBuf>) -> Self {
        let mut accessed = Self::default();
        for path in paths {
            match fs::metadata(&path).ok().filter(fs::Metadata::is_file) {
                Some(status) => accessed.files.push((path, status.len())),
                None => accessed.missing += 1,
            }
        }
        accessed
    }

    /// The number of files.
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// The most popular file.
    pub fn first(&self) -> Option<&Path> {
        self.files.first().map(|(path, _)| path.as_path())
    }

    /// The number of requested paths that lead to no file.
    pub fn missing(&self) -> usize {
        self.missing
    }

    /// The bytes that the files take in the page cache: whole pages.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, length)| in_pages(*length)).sum()
    }

    /// The bytes of the files that are in memory now.
    ///
    /// # Errors
    /// When one cannot be opened any more.
    pub fn resident_bytes(&self) -> Result<u64, String> {
        self.files.iter().map(|(path, length)| resident(path, *length)).sum()
    }

    /// Makes the kernel drop the files from memory. Pages that are not on the disk yet are written
    /// first, for they would stay; pages that a process has mapped do stay.
    ///
    /// # Errors
    /// When one cannot be opened any more.
    pub fn evict(&self) -> Result<(), String> {
        self.files.iter().try_for_each(|(path, length)| {
            let explain = |why| format!("{}: {why}", path.display());
            let file = File::open(path).map_err(explain)?;
            os::files::advise_dont_need(file.as_fd()).map_err(explain)?;
            // Writing back costs a flush of the disk, so it is done only for files that have
            // stayed.
            if os::files::resident_bytes(file.as_fd(), *length).map_err(explain)? > 0 {
                file.sync_data().map_err(explain)?;
                os::files::advise_dont_need(file.as_fd()).map_err(explain)?;
            }
            Ok(())
        })
    }

    /// Holds all files in memory until the returned value is dropped: some machines evict pages
    /// that have not been touched for a while, though there is room (DAMON).
    ///
    /// # Errors
    /// When this process may not lock so much memory.
    pub fn hold(&self) -> Result<Vec<Held>, String> {
        let files = self.files.iter().filter(|(_, length)| *length > 0);
        let held = files.map(|(path, length)| {
            let held = File::open(path).and_then(|file| Held::new(file.as_fd(), *length));
            held.map_err(|why| format!("{}: {why}", path.display()))
        });
        held.collect()
    }

    /// Selects the most popular files that take at most `bytes` together. Returns their names, each
    /// with a NUL byte behind it, and the bytes that they take.
    pub(crate) fn most_popular(&self, bytes: u64) -> (Vec<u8>, u64) {
        let (mut list, mut sum) = (Vec::new(), 0);
        for (path, length) in &self.files {
            // A large file that does not fit leaves room for smaller, less popular ones.
            if sum + in_pages(*length) <= bytes {
                sum += in_pages(*length);
                list.extend_from_slice(path.as_os_str().as_bytes());
                list.push(0);
            }
        }
        (list, sum)
    }

    /// Files for tests, in a folder beside the program, which is on a disk; removed when dropped.
    #[cfg(test)]
    pub(crate) fn example(name: &str, count: usize, bytes: usize) -> (Self, Removed) {
        let here = std::env::current_exe().expect("it runs");
        let folder = here.with_extension(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the target directory is writable");
        for number in 0..count {
            fs::write(folder.join(format!("{number:03}")), vec![7; bytes]).expect("there is room");
        }
        (Self::of_folder(&folder).expect("it is there"), Removed(folder))
    }
}

/// A folder that is removed when this value is dropped.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Removed(pub(crate) PathBuf);

#[cfg(test)]
impl Drop for Removed {
    fn drop(&mut self) {
        // The folder lies in the target directory: a leftover does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn resident(path: &Path, length: u64) -> Result<u64, String> {
    let explain = |why| format!("{}: {why}", path.display());
    let file = File::open(path).map_err(explain)?;
    os::files::resident_bytes(file.as_fd(), length).map_err(explain)
}

fn in_pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(os::memory::page_bytes() as u64)
}

fn list(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => list(&entry.path(), found)?,
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_in_the_order_of_their_popularity() {
        let (all, folder) = Accessed::example("popularity", 3, 5000);
        assert_eq!((all.count(), all.bytes()), (3, 3 * 8192));
        let asked = ["/002", "/001?x=1", "/gone", "/%30%302", "/../002", "/001", "/000"];
        let asked = asked.map(|target| (target.as_bytes(), if target == "/000" { 9 } else { 1 }));
        let files = Accessed::of_requests(&folder.0, asked);
        let names: Vec<&Path> = files.files.iter().map(|(path, _)| path.as_path()).collect();
        assert_eq!(names, ["000", "001", "002"].map(|name| folder.0.join(name)));
        assert_eq!(files.missing(), 2);
        let (list, bytes) = files.most_popular(10_000);
        assert_eq!(list, [folder.0.join("000").as_os_str().as_bytes(), b"\0"].concat());
        assert_eq!(bytes, 8192);
        fs::create_dir(folder.0.join("d")).expect("it is ours");
        fs::write(folder.0.join("d/index.html"), "home").expect("it is ours");
        let index = Accessed::of_requests(&folder.0, [(&b"/d/?q"[..], 1)]);
        assert_eq!((index.count(), index.bytes(), index.missing()), (1, 4096, 0));
    }

    #[test]
    fn evicted_files_are_not_in_memory() {
        let (files, _folder) = Accessed::example("evicted", 5, 10_000);
        assert_eq!(files.resident_bytes(), Ok(files.bytes()));
        assert_eq!(files.evict(), Ok(()));
        assert_eq!(files.resident_bytes(), Ok(0));
    }
}
