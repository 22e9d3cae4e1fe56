//! Why a path was refused although something is there. Operators are told; clients only get the
//! status.

use std::fmt;
use std::io;

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

impl Refusal {
    /// What an error of opening means; none where nothing is there, or where it is a failure of the
    /// system's.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Some(Self::Permission),
            io::ErrorKind::CrossesDevices => Some(Self::OutsideRoot),
            _ => match error.raw_os_error() {
                Some(ELOOP) => Some(Self::SymbolicLink),
                Some(ENXIO | ENODEV) => Some(Self::NotRegular),
                _ => None,
            },
        }
    }
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

// Linux error numbers that `io::ErrorKind` has no stable name for.
pub(crate) const ENXIO: i32 = 6;
pub(crate) const ENODEV: i32 = 19;
pub(crate) const ELOOP: i32 = 40;
