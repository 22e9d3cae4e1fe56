//! Why a path was refused although something is there. Operators are told; clients only get the
//! status.

use std::fmt;

/// Why something that is there is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The server's user may not read it, or not search a directory that leads to it.
    Permission,
    /// A link or a mount leads out of the root.
    OutsideRoot,
    /// A symbolic link where none is followed, or one that leads in a circle.
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
