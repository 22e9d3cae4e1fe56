//! What a trace says about itself and about its processes, apart from what they did.

/// What a trace says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// What made the trace, with its version: `valgrind-tool 1`, `import lackey`.
    pub recorder: String,
    /// What was traced, as it was typed.
    pub command: String,
    /// Whatever else should be known, as names and values: the machine, the workload, the load.
    pub notes: Vec<(String, String)>,
}

/// A process, or what an import takes for one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Process {
    /// Its number in the system that was traced; no other process of the trace has it.
    pub id: u32,
    /// The process that forked it, if that is in the trace, too.
    pub parent: Option<u32>,
    /// What it runs, with arguments.
    pub command: String,
    /// What is at which virtual addresses. Regions do not overlap. What is in none is private.
    pub regions: Vec<Region>,
    /// Names of code and data.
    pub symbols: Vec<Symbol>,
}

/// Whose memory a region is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RegionKind {
    /// The process's own.
    Private,
    /// Written and read by several processes.
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
    /// Whose it is.
    pub kind: RegionKind,
    /// A path, or `[heap]`, `[stack]`; may be empty.
    pub name: String,
    /// What is mapped at `start`. Pages of one object at one offset are one physical page for all
    /// processes.
    pub object: Option<Object>,
}

/// A place in a file or in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Object {
    /// The device of the file system.
    pub device: u64,
    /// The file's number there.
    pub inode: u64,
    /// Bytes from its beginning.
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
