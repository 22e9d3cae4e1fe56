//! Descriptions of a trace and of its processes, apart from events.

/// The description of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// The program that made the trace, with its version: `valgrind-tool 1`, `import lackey`.
    pub recorder: String,
    /// The traced command, as it was typed.
    pub command: String,
    /// Other remarks, as names and values: the machine, the workload, the load.
    pub notes: Vec<(String, String)>,
}

/// A process; of an import, what is taken for one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Process {
    /// The process's number in the traced system; no other process of the trace has it.
    pub id: u32,
    /// The process that forked it, if that is in the trace, too.
    pub parent: Option<u32>,
    /// The command that it runs, with arguments.
    pub command: String,
    /// The mapped regions by virtual address. Regions do not overlap. Memory outside them is
    /// private.
    pub regions: Vec<Region>,
    /// Names of code and data.
    pub symbols: Vec<Symbol>,
}

/// How the memory of a region is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RegionKind {
    /// The process's own memory.
    Private,
    /// Memory written and read by several processes.
    Shared,
    /// Text or read-only data of a file: one physical page for all.
    File,
    /// One physical page for all until a process writes to it, which then has its own.
    CopyOnWrite,
}

/// A range of virtual addresses that is mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// The first address.
    pub start: u64,
    /// The address after the last one.
    pub end: u64,
    /// How the region is shared.
    pub kind: RegionKind,
    /// A path, or `[heap]`, `[stack]`; may be empty.
    pub name: String,
    /// The object mapped at `start`. Pages of one object at one offset are one physical page for
    /// all processes.
    pub object: Option<Object>,
}

/// A place in a file or in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Object {
    /// The device of the file system.
    pub device: u64,
    /// The file's number on the device.
    pub inode: u64,
    /// The offset in bytes from the object's beginning.
    pub offset: u64,
}

/// A name for a range of virtual addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// The first address.
    pub start: u64,
    /// The address after the last one.
    pub end: u64,
    /// The function, or the variable.
    pub function: String,
    /// The source file, where known.
    pub file: Option<String>,
    /// The line in it, where known, from 1.
    pub line: Option<u32>,
}
