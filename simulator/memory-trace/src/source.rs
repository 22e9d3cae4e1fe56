//! The source of a trace: a file, or bytes in memory. Any number of readers share it, each with its
//! own position.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{Fault, TraceError};
use crate::frame::{HEAD_BYTES, Head};

#[derive(Debug)]
enum Bytes {
    File(File),
    Memory(Vec<u8>),
}

/// A trace's bytes and their name.
#[derive(Debug)]
pub(crate) struct Source {
    bytes: Bytes,
    length: u64,
    path: PathBuf,
}

impl Source {
    pub(crate) fn open(path: &Path) -> Result<Self, TraceError> {
        let fault = |why| TraceError::new(path, None, Fault::Io(why));
        let file = File::open(path).map_err(fault)?;
        let meta = file.metadata().map_err(fault)?;
        if !meta.is_file() {
            let why = "is no file: a trace is read at several places at once, so it must be one";
            return Err(fault(io::Error::new(io::ErrorKind::InvalidData, why)));
        }
        Ok(Self { bytes: Bytes::File(file), length: meta.len(), path: path.to_owned() })
    }

    pub(crate) fn memory(bytes: Vec<u8>) -> Self {
        let length = bytes.len() as u64;
        Self { bytes: Bytes::Memory(bytes), length, path: PathBuf::from("(memory)") }
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn error(&self, offset: u64, fault: Fault) -> TraceError {
        TraceError::with_offset(&self.path, offset, fault)
    }

    pub(crate) fn nowhere(&self, fault: Fault) -> TraceError {
        TraceError::new(&self.path, None, fault)
    }

    /// Reads bytes that are within the length, unless the file became shorter.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), TraceError> {
        let outcome = match &self.bytes {
            Bytes::File(file) => file.read_exact_at(into, offset),
            Bytes::Memory(bytes) => copy(bytes, offset, into),
        };
        outcome.map_err(|why| {
            let ended = why.kind() == io::ErrorKind::UnexpectedEof;
            self.error(offset, if ended { Fault::Truncated("part") } else { Fault::Io(why) })
        })
    }

    /// The head of the frame at `offset`, if it and its payload lie before `end`.
    pub(crate) fn head(&self, offset: u64, end: u64) -> Result<Head, TraceError> {
        if offset.checked_add(HEAD_BYTES as u64).is_none_or(|after| after > end) {
            return Err(self.error(offset, Fault::Truncated("head of a block")));
        }
        let mut bytes = [0; HEAD_BYTES];
        self.read(offset, &mut bytes)?;
        let damaged = || self.error(offset, Fault::Damaged("head of a block"));
        let head = Head::from_bytes(&bytes).ok_or_else(damaged)?;
        if offset + HEAD_BYTES as u64 + u64::from(head.stored) > end {
            return Err(self.error(offset, Fault::Truncated("block")));
        }
        Ok(head)
    }

    /// The payload of the frame at `offset`, checked and decompressed.
    pub(crate) fn payload(&self, offset: u64, head: &Head) -> Result<Vec<u8>, TraceError> {
        let mut stored = vec![0; head.stored as usize];
        self.read(offset + HEAD_BYTES as u64, &mut stored)?;
        head.open(&stored).ok_or_else(|| self.error(offset, Fault::Damaged("block")))
    }
}

fn copy(bytes: &[u8], offset: u64, into: &mut [u8]) -> io::Result<()> {
    let start = usize::try_from(offset).ok();
    let part = start.and_then(|start| bytes.get(start..start.checked_add(into.len())?));
    into.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
    Ok(())
}
