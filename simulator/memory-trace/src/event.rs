//! The events of a process, in the order in which they happen.

/// How memory is referred to. An instruction that modifies memory is a load and a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// The fetch of one instruction.
    Fetch,
    /// A read of data.
    Load,
    /// A write of data.
    Store,
}

/// One reference to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Access {
    /// Fetch, load or store.
    pub kind: AccessKind,
    /// The virtual address of the first byte.
    pub address: u64,
    /// The number of bytes; the reference may straddle blocks and pages.
    pub bytes: u16,
}

/// One event of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A reference to memory.
    Access(Access),
    /// A system call is made here; its work in the kernel is not in the trace.
    SystemCall {
        /// The system's number of the call.
        number: u32,
    },
    /// A system call that copies bytes to or from the process, or between files, ends here.
    Moved {
        /// The system's number of the call.
        number: u32,
        /// The number of bytes copied. Linux copies at most 2 GiB at once.
        bytes: u32,
    },
    /// A lock or a futex is used.
    Synchronise {
        /// The virtual address of the lock.
        address: u64,
    },
    /// The following events are those of this thread. A process begins with its first thread.
    SwitchThread {
        /// A number that no other thread of the process has.
        thread: u32,
    },
}

impl Event {
    /// The fetch of an instruction of `bytes` bytes.
    pub fn fetch(address: u64, bytes: u16) -> Self {
        Self::Access(Access { kind: AccessKind::Fetch, address, bytes })
    }

    /// A read of data.
    pub fn load(address: u64, bytes: u16) -> Self {
        Self::Access(Access { kind: AccessKind::Load, address, bytes })
    }

    /// A write of data.
    pub fn store(address: u64, bytes: u16) -> Self {
        Self::Access(Access { kind: AccessKind::Store, address, bytes })
    }
}
