//! Hashing a file for its entity tag, piece by piece: each job hashes one piece, so that a loop
//! that runs jobs itself serves other connections between two of them. When a hash is needed is
//! decided in `resolve.rs`.

use std::fmt;
use std::io;

use xxhash_rust::xxh3::Xxh3;

use crate::entity_tag::ContentHash;
use crate::resolve::Files;
use crate::resource::{FileRef, Identity};

/// The unfinished hash of an open file's content.
pub struct Hashing {
    file: FileRef,
    identity: Identity,
    /// How many bytes of the file have been hashed, from its start.
    len: u64,
    state: Box<Xxh3>,
}

/// The result of hashing a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hashed {
    /// The hash of the file's contents.
    Hash(ContentHash),
    /// The file was written to meanwhile: it has no hash.
    Changed,
}

impl Hashing {
    pub(crate) fn new(file: FileRef, identity: Identity) -> Self {
        Self { file, identity, len: 0, state: Box::new(Xxh3::new()) }
    }

    /// The file that is hashed, and its state.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The open file.
    #[must_use]
    pub fn file(&self) -> &FileRef {
        &self.file
    }

    /// The offset of the next bytes to hash.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.len
    }

    /// Hashes as much as `buffer` holds, and returns the hash if that was the rest. Later calls
    /// return it again.
    ///
    /// # Errors
    /// The error of a read.
    pub fn advance(&mut self, files: &dyn Files, buffer: &mut [u8]) -> io::Result<Option<Hashed>> {
        let mut at = 0;
        while at < buffer.len() && self.len < self.identity.len {
            let count = files.read_at(&self.file, &mut buffer[at..], self.len)?;
            if count == 0 {
                return Ok(Some(Hashed::Changed)); // the file has become shorter
            }
            (at, self.len) = (at + count, self.len + count as u64);
        }
        self.state.update(&buffer[..at]);
        if self.len < self.identity.len {
            return Ok(None);
        }
        let is_same = files.identity_of(&self.file)? == self.identity;
        let hash = ContentHash(self.state.digest());
        Ok(Some(if is_same { Hashed::Hash(hash) } else { Hashed::Changed }))
    }
}

impl fmt::Debug for Hashing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hashing").field("file", &self.file).field("len", &self.len).finish()
    }
}
