//! The files of a file set: names, sizes, classes.
//!
//! SPECweb99's static set: 36 files in each directory, four classes of nine, class c file n of
//! floor(1024 * 10^c * (n + 1) / 10) bytes. Beside them or instead, single files of a given length,
//! for experiments with one size.
//!
//! The popularity of the files is elsewhere, and so is writing them.

use std::fmt;
use std::str::FromStr;

use crate::content::Content;

mod presets;

pub use presets::{PRESETS, Preset};

/// The number of classes of a SPECweb99 directory.
pub const CLASSES: usize = 4;
/// The number of files of a class.
pub const FILES_PER_CLASS: usize = 9;
/// The number of files of a directory.
pub const FILES_PER_DIRECTORY: usize = CLASSES * FILES_PER_CLASS;
/// The sum of the lengths of a directory's files, in bytes.
pub const BYTES_PER_DIRECTORY: u64 = 5_119_484;
/// The number of values of [`File::kind`]: the files of a directory, and single files.
pub const KINDS: usize = FILES_PER_DIRECTORY + 1;
/// The largest number of directories: their numbers have five digits.
pub const DIRECTORIES_MAX: u32 = 100_000;
/// The longest file: the last byte of a longer one would have no offset.
pub const SINGLE_BYTES_MAX: u64 = i64::MAX as u64;

/// One file of a file set. Its path identifies it and alone determines its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum File {
    /// `dirDDDDD/classC_N`, SPECweb99.
    Spec {
        /// The number of the directory, from 0, below [`DIRECTORIES_MAX`].
        directory: u32,
        /// The class, 0 to 3.
        class: u8,
        /// The number in the class, 0 to 8.
        number: u8,
    },
    /// `sizeN`: a file of N bytes.
    Single {
        /// The length, at most [`SINGLE_BYTES_MAX`].
        bytes: u64,
    },
}

impl File {
    /// The file that a URI path names, wherever the set is mounted: its last one or two segments
    /// decide. None if they are not the name of a file. The path has neither query nor fragment.
    #[must_use]
    pub fn locate(path: &[u8]) -> Option<Self> {
        let (parent, name) = last_segment(path);
        match name.strip_prefix(b"size") {
            Some(digits) => Self::single(digits),
            None => Self::spec(last_segment(parent?).1, name),
        }
    }

    /// The length in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match *self {
            Self::Spec { class, number, .. } => {
                1024 * 10_u64.pow(u32::from(class)) * (u64::from(number) + 1) / 10
            }
            Self::Single { bytes } => bytes,
        }
    }

    /// The content of the file.
    #[must_use]
    pub fn content(&self) -> Content {
        Content::for_path(self.path().as_bytes())
    }

    /// The kind of the file among the [`KINDS`], for tables by file type: the place in its
    /// directory, class by class, or the last one for single files.
    #[must_use]
    pub fn kind(&self) -> usize {
        match *self {
            Self::Spec { class, number, .. } => {
                usize::from(class) * FILES_PER_CLASS + usize::from(number)
            }
            Self::Single { .. } => FILES_PER_DIRECTORY,
        }
    }

    /// The path below the set's root, without an allocation.
    #[must_use]
    pub fn path(&self) -> FilePath {
        let mut path = FilePath { bytes: [0; PATH_LEN_MAX], len: 0 };
        match *self {
            Self::Spec { directory, class, number } => {
                path.push(b"dir");
                path.push_digits(u64::from(directory), 5);
                path.push(b"/class");
                path.push_digits(u64::from(class), 1);
                path.push(b"_");
                path.push_digits(u64::from(number), 1);
            }
            Self::Single { bytes } => {
                path.push(b"size");
                path.push_digits(bytes, 1);
            }
        }
        path
    }

    fn single(digits: &[u8]) -> Option<Self> {
        let bytes = match digits {
            [b'0'] => 0,
            [b'1'..=b'9', ..] => number(digits)?,
            _ => return None,
        };
        (bytes <= SINGLE_BYTES_MAX).then_some(Self::Single { bytes })
    }

    fn spec(directory: &[u8], name: &[u8]) -> Option<Self> {
        let directory: &[u8; 5] = directory.strip_prefix(b"dir")?.try_into().ok()?;
        let &[class @ b'0'..=b'3', b'_', file @ b'0'..=b'8'] = name.strip_prefix(b"class")? else {
            return None;
        };
        // Five digits are below 2^32.
        let directory = number(directory)? as u32;
        Some(Self::Spec { directory, class: class - b'0', number: file - b'0' })
    }
}

/// The path below the set's root.
impl fmt::Display for File {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.path().as_str())
    }
}

/// A text that is not the path of a file of any set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a file of a file set (dirDDDDD/classC_N or sizeN)")]
pub struct NotAFile;

/// Parses the output of `Display`, and nothing else: the path below the root, without a prefix.
impl FromStr for File {
    type Err = NotAFile;

    fn from_str(text: &str) -> Result<Self, NotAFile> {
        let file = Self::locate(text.as_bytes()).ok_or(NotAFile)?;
        if file.path().as_str() == text { Ok(file) } else { Err(NotAFile) }
    }
}

/// The length of the longest path that the fields of [`File`] can make, in a set or not.
const PATH_LEN_MAX: usize = "dir4294967295/class255_255".len();

/// A file's path below its set's root.
#[derive(Clone, Copy, Debug)]
pub struct FilePath {
    bytes: [u8; PATH_LEN_MAX],
    len: usize,
}

impl FilePath {
    /// The path as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("letters, digits, a slash and an underscore")
    }

    fn push(&mut self, text: &[u8]) {
        self.bytes[self.len..self.len + text.len()].copy_from_slice(text);
        self.len += text.len();
    }

    /// Appends a number in decimal, with leading zeroes if it has fewer than `digits_min` digits.
    fn push_digits(&mut self, mut number: u64, digits_min: usize) {
        let digits = number.checked_ilog10().map_or(1, |log| log as usize + 1).max(digits_min);
        let end = self.len + digits;
        for digit in self.bytes[self.len..end].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        self.len = end;
    }
}

/// A file set: SPECweb99 directories from 0 on, single files, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSet {
    directories: u32,
    /// The lengths of single files, ascending, each once.
    singles: Vec<u64>,
}

/// Why a file set is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoSuchSet(String);

impl FileSet {
    /// SPECweb99 with this many directories.
    ///
    /// # Errors
    /// The number is 0, or more than [`DIRECTORIES_MAX`].
    pub fn directories(count: u64) -> Result<Self, NoSuchSet> {
        match u32::try_from(count) {
            Ok(directories @ 1..=DIRECTORIES_MAX) => Ok(Self { directories, singles: Vec::new() }),
            _ => Err(NoSuchSet(format!(
                "{count} directories: a set has from 1 to {DIRECTORIES_MAX}, for their names have \
                 five digits"
            ))),
        }
    }

    /// SPECweb99 with as many whole directories as fit `bytes`.
    ///
    /// # Errors
    /// Not even one fits, or more than [`DIRECTORIES_MAX`] do.
    pub fn at_most_bytes(bytes: u64) -> Result<Self, NoSuchSet> {
        if bytes < BYTES_PER_DIRECTORY {
            let why = format!("{bytes} bytes: one directory has {BYTES_PER_DIRECTORY}");
            return Err(NoSuchSet(why));
        }
        Self::directories(bytes / BYTES_PER_DIRECTORY)
    }

    /// SPECweb99 as its manager sizes it for a load: int(25 + (400000 / 122000 * load) / 5), which
    /// is a line speed of 400,000 bit/s over a mean reply of 122,000 bits, and 25 on top.
    ///
    /// # Errors
    /// More than [`DIRECTORIES_MAX`] directories.
    pub fn for_connections(connections: u64) -> Result<Self, NoSuchSet> {
        // 400000 / 122000 / 5 = 40 / 61; u128 cannot overflow.
        let directories = 25 + u128::from(connections) * 40 / 61;
        Self::directories(u64::try_from(directories).unwrap_or(u64::MAX))
    }

    /// Single files of these lengths; the order does not matter.
    ///
    /// # Errors
    /// There are no lengths, or one is above [`SINGLE_BYTES_MAX`].
    pub fn singles(lengths: &[u64]) -> Result<Self, NoSuchSet> {
        let mut singles = lengths.to_vec();
        singles.sort_unstable();
        singles.dedup();
        match singles.last() {
            None => Err(NoSuchSet("no files at all".into())),
            Some(&longest) if longest > SINGLE_BYTES_MAX => {
                Err(NoSuchSet(format!("no file can have {longest} bytes")))
            }
            Some(_) => Ok(Self { directories: 0, singles }),
        }
    }

    /// The number of SPECweb99 directories.
    #[must_use]
    pub fn directory_count(&self) -> u32 {
        self.directories
    }

    /// The lengths of the single files, ascending.
    #[must_use]
    pub fn single_lengths(&self) -> &[u64] {
        &self.singles
    }

    /// The number of files.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.spec_files() + self.singles.len() as u64
    }

    /// The sum of the files' lengths. Saturates, far beyond the size of any disk.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let spec = u64::from(self.directories) * BYTES_PER_DIRECTORY;
        self.singles.iter().fold(spec, |sum, &bytes| sum.saturating_add(bytes))
    }

    /// The file with that index below [`files`](Self::files): directory by directory, class by
    /// class, single files last.
    #[must_use]
    pub fn file(&self, index: u64) -> Option<File> {
        if index < self.spec_files() {
            let place = (index % FILES_PER_DIRECTORY as u64) as usize;
            return Some(File::Spec {
                directory: (index / FILES_PER_DIRECTORY as u64) as u32,
                class: (place / FILES_PER_CLASS) as u8,
                number: (place % FILES_PER_CLASS) as u8,
            });
        }
        let single = usize::try_from(index - self.spec_files()).ok()?;
        self.singles.get(single).map(|&bytes| File::Single { bytes })
    }

    /// All files in the order of their indices.
    pub fn iter(&self) -> impl Iterator<Item = File> + '_ {
        (0..self.files()).filter_map(|index| self.file(index))
    }

    /// Whether the file is one of the set.
    #[must_use]
    pub fn contains(&self, file: File) -> bool {
        match file {
            File::Spec { directory, class, number } => {
                directory < self.directories
                    && usize::from(class) < CLASSES
                    && usize::from(number) < FILES_PER_CLASS
            }
            File::Single { bytes } => self.singles.binary_search(&bytes).is_ok(),
        }
    }

    fn spec_files(&self) -> u64 {
        u64::from(self.directories) * FILES_PER_DIRECTORY as u64
    }
}

/// Splits off the part after the last slash; without a slash there is no parent.
fn last_segment(path: &[u8]) -> (Option<&[u8]>, &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (Some(&path[..slash]), &path[slash + 1..]),
        None => (None, path),
    }
}

/// Parses decimal digits only; none at all are no number.
fn number(digits: &[u8]) -> Option<u64> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    let all = digits
        .iter()
        .try_fold(0_u64, |number, byte| number.checked_mul(10)?.checked_add(digit(byte)?))?;
    (!digits.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests;
