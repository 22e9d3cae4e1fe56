//! Why a path was refused although a file is there. This is reported to operators; clients only get
//! the status.

use std::fmt;

/// Why a file that exists is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The server's user may not read it, or not search a directory that leads to it.
    Permission,
    /// A link or a mount leads out of the root.
    OutsideRoot,
    /// A symbolic link where links are not followed, or a cycle of links.
    SymbolicLink,
    /// A pipe, a socket or a device.
    NotRegular,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Permission => "permission denied",
            Self::OutsideRoot => "it leads out of the root",
            Self::SymbolicLink => {
                "a symbolic link that is not followed (symlinks), or a circle of them"
            }
            Self::NotRegular => "not a regular file",
        })
    }
}
