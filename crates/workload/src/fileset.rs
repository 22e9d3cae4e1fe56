//! Which files a file set has: names, sizes, classes.
//!
//! SPECweb99's static set: 36 files in each directory, four classes of nine, class c file n of
//! floor(1024 * 10^c * (n + 1) / 10) bytes.

use std::fmt;

use crate::content::Content;

/// Classes of a SPECweb99 directory.
pub const CLASSES: usize = 4;
/// Files of a class.
pub const FILES_PER_CLASS: usize = 9;

/// One file of a file set. Its path names it, its path and nothing else determines its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum File {
    /// `dirDDDDD/classC_N`, SPECweb99.
    Spec {
        /// From 0.
        directory: u32,
        /// 0 to 3.
        class: u8,
        /// 0 to 8.
        number: u8,
    },
    /// `sizeN`: a file of N bytes.
    Single {
        /// Its length.
        bytes: u64,
    },
}

impl File {
    /// The file that a URI path names, wherever the set is mounted: its last one or two segments
    /// decide. None if they are no file's name.
    #[must_use]
    pub fn locate(_path: &[u8]) -> Option<Self> {
        None
    }

    /// Its length in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match *self {
            Self::Spec { class, number, .. } => {
                1024 * 10_u64.pow(u32::from(class)) * (u64::from(number) + 1) / 10
            }
            Self::Single { bytes } => bytes,
        }
    }

    /// What is in it.
    #[must_use]
    pub fn content(&self) -> Content {
        Content::of(self.to_string().as_bytes())
    }
}

/// The path below the set's root.
impl fmt::Display for File {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Spec { directory, class, number } => {
                write!(out, "dir{directory:05}/class{class}_{number}")
            }
            Self::Single { bytes } => write!(out, "size{bytes}"),
        }
    }
}
