//! The raw records: eight bytes each, as `recorders/valgrind/references.c` writes them.

/// The kind of a record. The numbers are the tool's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
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
    /// The value is where memory was allocated; the next two records hold its size and site.
    Allocated,
    /// The value is the number of allocated bytes.
    Bytes,
    /// The value is the number of the place from which the memory was requested.
    Site,
    /// The value is where the freed memory was allocated.
    Freed,
    /// The value is how many bytes a system call moved, which ends here; its number takes the place
    /// of an access's size.
    Moved,
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    /// The kind of the record.
    pub(crate) kind: Kind,
    /// An address or a number.
    pub(crate) value: u64,
    /// The number of bytes accessed.
    pub(crate) bytes: u16,
}

impl Record {
    /// The number of references to memory that the record stands for.
    pub(crate) fn references(&self) -> u64 {
        match self.kind {
            Kind::Fetch | Kind::Load | Kind::Store => 1,
            Kind::Modify => 2,
            _ => 0,
        }
    }

    /// Decodes `raw`; none if its kind is not one of these.
    pub(crate) fn decode(raw: u64) -> Option<Self> {
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
            14 => Kind::Moved,
            _ => return None,
        };
        Some(Self { kind, value: raw >> 16, bytes: (raw >> 4 & 0xfff) as u16 })
    }
}
