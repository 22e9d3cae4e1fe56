//! Memory that several processes see: cells for numbers, texts that no process can change, and a
//! text that one process replaces.
//!
//! All are anonymous files (memfd), passed on as descriptors. Only whole 64-bit numbers are
//! shared, each of which is always consistent: there are no locks here.

use crate::call::uninterrupted;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Seals without which a mapping could lose its pages while it is in use.
const FIXED_SIZE: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Creates a file of `count` cells, all 0, whose size can never change. Cells that no process
/// touches take no memory.
pub fn create_cells(count: usize) -> io::Result<OwnedFd> {
    let file = create("ropewalk-cells")?;
    file.set_len((count * size_of::<AtomicU64>()) as u64)?;
    fcntl_add_seals(&file, FIXED_SIZE)?;
    Ok(file.into())
}

/// Cells that are mapped for as long as this lives.
pub struct Cells(&'static [AtomicU64]);

impl Cells {
    /// The cells, for as long as the process lives.
    #[must_use]
    pub fn leak(self) -> &'static [AtomicU64] {
        ManuallyDrop::new(self).0
    }
}

impl Deref for Cells {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        self.0
    }
}

impl Drop for Cells {
    fn drop(&mut self) {
        let start = self.0.as_ptr().cast_mut().cast();
        // SAFETY: there is no reference to the mapping: those that `deref` gives end before this,
        // and `leak`, which gives another, keeps this from being called.
        let unmapped = unsafe { munmap(start, size_of_val(self.0)) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// Maps the cells of a file that [`create_cells`] made, maybe in another process.
pub fn map_cells(file: BorrowedFd<'_>) -> io::Result<Cells> {
    let refused = || io::Error::new(io::ErrorKind::InvalidInput, "not a file of cells");
    if !fcntl_get_seals(file)?.contains(FIXED_SIZE) {
        return Err(refused());
    }
    let bytes = File::from(file.try_clone_to_owned()?).metadata()?.len() as usize;
    let count = bytes / size_of::<AtomicU64>();
    if count == 0 {
        return Err(refused());
    }
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
    let start = unsafe {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        mmap(ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0)?
    };
    // SAFETY: the mapping is aligned to a page, covers `count` cells, and stays for as long as the
    // value below, which alone has this reference. The seals keep the file at its size, so that
    // every page stays there. Every bit pattern is a number, and all processes that map the file
    // come through here and use atomic operations only; a process that writes to the file instead
    // can change numbers, which any of them may do anyway.
    Ok(Cells(unsafe { slice::from_raw_parts(start.cast::<AtomicU64>(), count) }))
}

/// Creates a file with this text, which can be read any number of times and never be changed.
pub fn create_text(text: &str) -> io::Result<OwnedFd> {
    let mut file = create("ropewalk-text")?;
    file.write_all(text.as_bytes())?;
    fcntl_add_seals(&file, FIXED_SIZE | SealFlags::WRITE)?;
    Ok(file.into())
}

/// Reads the whole text of a file, from its beginning, wherever other processes have read to.
pub fn read_text(file: BorrowedFd<'_>) -> io::Result<String> {
    let file = File::from(file.try_clone_to_owned()?);
    let mut bytes = vec![0; file.metadata()?.len() as usize];
    uninterrupted(|| file.read_exact_at(&mut bytes, 0))?;
    String::from_utf8(bytes).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))
}

/// A text that one process replaces, and that those which are forked from it read. It has a number,
/// which each of them can compare at no cost.
pub struct SharedText {
    file: File,
    cells: &'static [AtomicU64],
}

// The cells: the number of the text that counts, and of the last two where each is in the file, how
// long it is, and its mark. The last one is in the first or the second place; the next is written
// into the other.
const NUMBER: usize = 0;
const PLACES: usize = 1;
const PLACE_CELLS: usize = 3;
const SHARED_TEXT_CELLS: usize = PLACES + 2 * PLACE_CELLS;

impl SharedText {
    /// A place without a text, whose number is 0. It is mapped for as long as the process lives.
    ///
    /// # Errors
    /// There is no memory, or no descriptor.
    pub fn new() -> io::Result<Self> {
        let cells = map_cells(create_cells(SHARED_TEXT_CELLS)?.as_fd())?.leak();
        Ok(Self { file: create("ropewalk-shared-text")?, cells })
    }

    /// The number of the text that counts.
    #[must_use]
    pub fn number(&self) -> &'static AtomicU64 {
        &self.cells[NUMBER]
    }

    /// Writes the next text and its `mark`, which count when the number is one more. Only for one
    /// thread of all processes.
    ///
    /// # Errors
    /// There is no memory.
    pub fn write(&self, text: &str, mark: u64) -> io::Result<()> {
        let number = self.number().load(Ordering::Relaxed).wrapping_add(1);
        // Who still reads in the place of this one finds that another counts.
        fence(Ordering::Release);
        let [start, len, _] = self.place(number.wrapping_sub(1)).each_ref().map(load);
        // Others may be reading the last one.
        let at = if start >= text.len() as u64 { 0 } else { start + len };
        uninterrupted(|| self.file.write_all_at(text.as_bytes(), at))?;
        let cells = self.place(number).iter().zip([at, text.len() as u64, mark]);
        cells.for_each(|(cell, value)| cell.store(value, Ordering::Relaxed));
        Ok(())
    }

    /// Reads the text that counts, and its mark.
    ///
    /// # Errors
    /// There is none yet, or it is no text.
    pub fn read(&self) -> io::Result<(String, u64)> {
        loop {
            let number = self.number().load(Ordering::Acquire);
            let [start, len, mark] = self.place(number).each_ref().map(load);
            let mut bytes = vec![0; len as usize];
            let outcome = uninterrupted(|| self.file.read_exact_at(&mut bytes, start));
            fence(Ordering::Acquire);
            // As long as this one counts no process writes in its place.
            if self.number().load(Ordering::Relaxed) != number {
                continue;
            }
            outcome?;
            let text = String::from_utf8(bytes);
            let text = text.map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
            return match len {
                0 => Err(io::ErrorKind::NotFound.into()),
                _ => Ok((text, mark)),
            };
        }
    }

    fn place(&self, number: u64) -> &[AtomicU64; PLACE_CELLS] {
        let start = PLACES + (number % 2) as usize * PLACE_CELLS;
        self.cells[start..start + PLACE_CELLS].try_into().expect("there are so many")
    }
}

fn load(cell: &AtomicU64) -> u64 {
    cell.load(Ordering::Relaxed)
}

fn create(name: &str) -> io::Result<File> {
    Ok(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn what_one_mapping_adds_another_sees() {
        let file = create_cells(1000).unwrap();
        let (one, other) = (map_cells(file.as_fd()).unwrap(), map_cells(file.as_fd()).unwrap());
        assert_eq!((one.len(), other.len()), (1000, 1000));
        one[999].fetch_add(7, Ordering::Relaxed);
        assert_eq!(other[999].load(Ordering::Relaxed), 7);
        assert_ne!(one.as_ptr(), other.as_ptr());
        let kept = one.leak();
        drop((other, file));
        assert_eq!(kept[999].load(Ordering::Relaxed), 7);
    }

    #[test]
    fn cells_that_are_dropped_are_not_mapped_any_more() {
        let file = File::from(create_cells(8).unwrap());
        // No other file has this inode while this one is open.
        let inode = std::os::unix::fs::MetadataExt::ino(&file.metadata().unwrap());
        let maps = || std::fs::read_to_string("/proc/self/maps").unwrap();
        let is_mapped = || maps().contains(&format!(" {inode} "));
        let cells = map_cells(file.as_fd()).unwrap();
        assert!(is_mapped());
        drop(cells);
        assert!(!is_mapped());
    }

    #[test]
    fn a_file_that_could_shrink_is_not_mapped() {
        let path = std::env::temp_dir().join(format!("os-no-cells-{}", std::process::id()));
        std::fs::write(&path, [0; 64]).unwrap();
        let plain = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(map_cells(plain.as_fd()).is_err());
        assert!(map_cells(create_cells(0).unwrap().as_fd()).is_err());
        let cells = File::from(create_cells(8).unwrap());
        assert!(cells.set_len(0).is_err());
    }

    #[test]
    fn a_text_is_read_from_its_beginning_and_stays() {
        let file = create_text("[engine]\n").unwrap();
        for _ in 0..2 {
            assert_eq!(read_text(file.as_fd()).unwrap(), "[engine]\n");
        }
        assert!(File::from(file).write_all(b"x").is_err());
    }

    #[test]
    fn a_shared_text_counts_when_its_number_does() {
        let shared = SharedText::new().unwrap();
        assert!(shared.read().is_err());
        shared.write("first", 7).unwrap();
        assert!(shared.read().is_err());
        shared.number().store(1, Ordering::Release);
        shared.write("another", 8).unwrap();
        assert_eq!(shared.read().unwrap(), ("first".into(), 7));
        shared.number().store(2, Ordering::Release);
        assert_eq!(shared.read().unwrap(), ("another".into(), 8));
    }

    #[test]
    fn no_shared_text_is_of_two() {
        const SEEN_MIN: usize = 100;
        let text = |number: u64| number.to_string().repeat(1 + (number % 1000) as usize);
        let shared = SharedText::new().unwrap();
        let publish = |number: u64| {
            shared.write(&text(number), number).unwrap();
            shared.number().store(number, Ordering::Release);
        };
        publish(1);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope
                .spawn(|| (2..).take_while(|_| !is_over.load(Ordering::Relaxed)).for_each(publish));
            let mut seen = HashSet::new();
            while seen.len() < SEEN_MIN {
                let (found, mark) = shared.read().unwrap();
                assert!(found == text(mark), "{mark}");
                seen.insert(mark);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let bytes = shared.file.metadata().unwrap().len();
        assert!(bytes < 50_000, "{bytes}: room is used again");
    }
}
