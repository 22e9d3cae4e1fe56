//! Hashing a file for its entity tag, piece by piece: a job is a piece, so that a loop which runs
//! jobs on the spot serves others between two of them. When a hash is needed is decided in
//! `resolve.rs`.

use std::fmt;
use std::io;

use xxhash_rust::xxh3::Xxh3;

use crate::entity_tag::ContentHash;
use crate::resolve::Files;
use crate::resource::{FileRef, Identity};

/// The hash of an open file's content, on its way.
pub struct Hashing {
    file: FileRef,
    identity: Identity,
    /// What of the file has been hashed: its first bytes.
    len: u64,
    state: Box<Xxh3>,
}

/// What the hash of a file has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hashed {
    /// The hash of the file's contents.
    Hash(ContentHash),
    /// The file was written to meanwhile: it has none.
    Changed,
}

impl Hashing {
    pub(crate) fn new(file: FileRef, identity: Identity) -> Self {
        Self { file, identity, len: 0, state: Box::new(Xxh3::new()) }
    }

    /// Which file in which state it is the hash of.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The open file.
    #[must_use]
    pub fn file(&self) -> &FileRef {
        &self.file
    }

    /// Which of its bytes come next.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.len
    }

    /// Hashes as much as `buffer` holds, and returns the hash if that was all: again and again, to
    /// all who ask.
    ///
    /// # Errors
    /// As reading gives them.
    pub fn go_on(&mut self, files: &dyn Files, buffer: &mut [u8]) -> io::Result<Option<Hashed>> {
        let mut at = 0;
        while at < buffer.len() && self.len < self.identity.len {
            let count = files.read_at(&self.file, &mut buffer[at..], self.len)?;
            if count == 0 {
                return Ok(Some(Hashed::Changed)); // it has become shorter
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
