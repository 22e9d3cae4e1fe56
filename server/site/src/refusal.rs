//! Why a path was refused although a file is there. This is reported to operators; clients only get
//! the status.

/// Why a file that exists is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The server's user may not read it, or not search a directory that leads to it.
    #[error("permission denied")]
    Permission,
    /// A link or a mount leads out of the root.
    #[error("it leads out of the root")]
    OutsideRoot,
    /// A symbolic link where links are not followed, or a cycle of links.
    #[error("a symbolic link that is not followed (symlinks), or a circle of them")]
    SymbolicLink,
    /// A pipe, a socket or a device.
    #[error("not a regular file")]
    NotRegular,
}
