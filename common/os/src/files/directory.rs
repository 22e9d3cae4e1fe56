//! Listing a directory (getdents64) in large steps and without an allocation per name.
//!
//! The names are not sorted, and the files that they name are not looked at.

use crate::call::{check_len, error, uninterrupted};
use rustix::fs::{SeekFrom, seek};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Names per system call: 64 KiB are about 2,000 of them.
const BUFFER_BYTES: usize = 64 << 10;

/// What a directory says a name stands for, without looking at the file itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link, to whatever.
    Symlink,
    /// A device, a FIFO or a socket.
    Other,
    /// Unknown: this file system does not say; read the file's status to find out.
    Unknown,
}

/// A name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry<'d> {
    /// The name: not empty, without `/` and NUL, of any encoding.
    pub name: &'d [u8],
    /// The kind of file that the name stands for.
    pub kind: EntryKind,
}

/// Begins to list the open directory from its start. The descriptor's position is the reader's
/// until it is dropped: two readers need two descriptors.
pub fn read_directory(directory: BorrowedFd<'_>) -> io::Result<DirectoryReader<'_>> {
    DirectoryReader::new(directory, BUFFER_BYTES)
}

/// Reads the names in a directory, in no particular order. Names that are added or removed
/// meanwhile may be seen or not.
#[derive(Debug)]
pub struct DirectoryReader<'f> {
    directory: BorrowedFd<'f>,
    buffer: Box<[u8]>,
    start: usize, // records in buffer[start..end] are still to be returned; start <= end
    end: usize,
}

impl<'f> DirectoryReader<'f> {
    /// A reader at the start of `directory`, with a buffer of `buffer_bytes`; a record takes at
    /// most 280 bytes.
    pub(super) fn new(directory: BorrowedFd<'f>, buffer_bytes: usize) -> io::Result<Self> {
        seek(directory, SeekFrom::Start(0))?;
        let buffer = vec![0; buffer_bytes].into_boxed_slice();
        Ok(Self { directory, buffer, start: 0, end: 0 })
    }

    /// The next name; `.` and `..` are left out. None at the end.
    pub fn next_entry(&mut self) -> io::Result<Option<DirectoryEntry<'_>>> {
        loop {
            if self.start == self.end && !self.fill()? {
                return Ok(None);
            }
            let record = record(&self.buffer[self.start..self.end]).ok_or(error(libc::EIO))?;
            let names = self.start + NAME..self.start + NAME + record.name_len;
            self.start += record.len;
            if !matches!(&self.buffer[names.clone()], b"." | b"..") {
                return Ok(Some(DirectoryEntry { name: &self.buffer[names], kind: record.kind }));
            }
        }
    }

    /// Whether there are further records.
    fn fill(&mut self) -> io::Result<bool> {
        self.start = 0;
        self.end = 0;
        self.end = uninterrupted(|| {
            // SAFETY: pointer and length describe the buffer, exclusively borrowed for the call;
            // any bytes are valid u8s.
            let returned = unsafe {
                let (pointer, len) = (self.buffer.as_mut_ptr(), self.buffer.len());
                libc::syscall(libc::SYS_getdents64, self.directory.as_raw_fd(), pointer, len)
            };
            check_len(returned as libc::ssize_t)
        })?;
        Ok(self.end > 0)
    }
}

// struct linux_dirent64 (getdents64(2)): inode u64, offset u64, record length u16, type u8, name.
const LEN: usize = 16;
const TYPE: usize = 18;
const NAME: usize = 19;

struct Record {
    len: usize,
    name_len: usize,
    kind: EntryKind,
}

/// The first record of `bytes`; None if it is malformed.
fn record(bytes: &[u8]) -> Option<Record> {
    let len = usize::from(u16::from_ne_bytes(bytes.get(LEN..TYPE)?.try_into().ok()?));
    let name = bytes.get(NAME..len)?;
    let name_len = name.iter().position(|&byte| byte == 0)?;
    Some(Record { len, name_len, kind: kind(bytes[TYPE]) })
}

fn kind(raw: u8) -> EntryKind {
    match raw {
        libc::DT_REG => EntryKind::Regular,
        libc::DT_DIR => EntryKind::Directory,
        libc::DT_LNK => EntryKind::Symlink,
        libc::DT_UNKNOWN => EntryKind::Unknown,
        _ => EntryKind::Other,
    }
}
