//! The raw records: eight bytes each, as `recorders/valgrind/references.c` writes them.

/// What a record is about. The numbers are the tool's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An instruction is fetched.
    Fetch,
    /// Data are read.
    Load,
    /// Data are written.
    Store,
    /// One instruction reads and writes the same bytes.
    Modify,
    /// The value is the number of a system call.
    SystemCall,
    /// The value is the address of an atomic operation or of a futex.
    Synchronise,
    /// The value is the number of the thread that runs from here on.
    Thread,
    /// A conditional access that did not happen.
    Nothing,
    /// The value is where memory was allocated; the next two records say more.
    Allocated,
    /// The value is how many bytes were.
    Bytes,
    /// The value is the number of the place from which they were asked for.
    Site,
    /// The value is where what is given back was allocated.
    Freed,
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// What it is about.
    pub kind: Kind,
    /// An address or a number.
    pub value: u64,
    /// How many bytes are accessed.
    pub bytes: u16,
}

impl Record {
    /// How many references to memory this is.
    #[must_use]
    pub fn references(&self) -> u64 {
        match self.kind {
            Kind::Fetch | Kind::Load | Kind::Store => 1,
            Kind::Modify => 2,
            _ => 0,
        }
    }

    /// None if the kind is not one of these.
    pub(crate) fn of(raw: u64) -> Option<Self> {
        let kind = match raw & 15 {
            1 => Kind::Fetch,
            2 => Kind::Load,
            3 => Kind::Store,
            4 => Kind::Modify,
            5 => Kind::SystemCall,
            6 => Kind::Synchronise,
            7 => Kind::Thread,
            8 => Kind::Nothing,
            9 => Kind::Allocated,
            10 => Kind::Bytes,
            11 => Kind::Site,
            12 => Kind::Freed,
            _ => return None,
        };
        Some(Self { kind, value: raw >> 16, bytes: (raw >> 4 & 0xfff) as u16 })
    }
}

/// The records of one file, up to the zeroes that end it.
pub fn records(bytes: &[u8]) -> impl Iterator<Item = Record> + '_ {
    let raw = bytes.as_chunks().0.iter().map(|chunk| u64::from_le_bytes(*chunk));
    raw.map_while(Record::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_end_with_zeroes_or_with_the_file() {
        let fetch: u64 = 0x1234_5678_9abc << 16 | 15 << 4 | 1;
        let modify: u64 = 0x10 << 16 | 8 << 4 | 4;
        let mut bytes = [fetch.to_le_bytes(), modify.to_le_bytes(), [0; 8]].concat();
        let expected = [
            Record { kind: Kind::Fetch, value: 0x1234_5678_9abc, bytes: 15 },
            Record { kind: Kind::Modify, value: 0x10, bytes: 8 },
        ];
        assert_eq!(records(&bytes).collect::<Vec<_>>(), expected);
        bytes.extend([1, 0]);
        assert_eq!(records(&bytes[..16]).map(|record| record.references()).sum::<u64>(), 3);
        assert_eq!(records(&bytes[..15]).count(), 1);
        assert_eq!(records(&bytes).count(), 2);
    }
}
