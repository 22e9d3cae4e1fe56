//! Examines the files of a set on disk: which are missing or wrong, and which do not belong to it.
//!
//! Nothing is changed.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use workload::content::Mismatch;
use workload::fileset::{FILES_PER_DIRECTORY, File, FileSet};

use crate::Options;
use crate::error::Error;
use crate::make::final_name;
use crate::team::{Progress, Stage, Tally, share};

/// Why a file has to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The file is not there.
    #[error("missing")]
    Missing,
    /// The file is there and not a regular one, but for instance a link.
    #[error("not a regular file")]
    NotRegular,
    /// The file has this length, in bytes, and should have another.
    #[error("{0} bytes long")]
    Length(u64),
    /// Not all users may read the file, which has this mode.
    #[error("not readable by all users (mode {0:03o})")]
    Mode(u32),
    /// A byte is wrong.
    #[error("byte {} is {:#04x} instead of {:#04x}", .0.offset, .0.got, .0.expected)]
    Byte(Mismatch),
}

/// The state of a set on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// The missing or wrong files, in the order of the set.
    pub faults: Vec<(File, Fault)>,
    /// The number of files that are right.
    pub right: u64,
    /// The number of files in the tree that do not belong to the set.
    pub foreign: u64,
    /// The number of the set's directories that are missing.
    pub directories_missing: u64,
    /// Files that interrupted runs left behind.
    pub leftovers: Vec<PathBuf>,
}

impl Survey {
    /// The number of files that do not exist.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.faults.iter().filter(|(_, fault)| *fault == Fault::Missing).count() as u64
    }

    fn add(&mut self, other: Self) {
        self.faults.extend(other.faults);
        self.right += other.right;
        self.foreign += other.foreign;
        self.directories_missing += other.directories_missing;
        self.leftovers.extend(other.leftovers);
    }
}

/// Examines everything below `root`.
pub(crate) fn survey(
    root: &Path,
    set: &FileSet,
    options: Options,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Survey, Error> {
    let tally = Tally::new(Stage::Checking, set.files(), set.bytes());
    let examiner = Examiner { root, every_byte: options.every_byte, tally: &tally };
    let mut whole = examiner.root_entries(set)?;
    let directories = set.directory_count() as usize;
    let units = directories + set.single_lengths().len();
    let parts = share(options.threads, units, &tally, progress, |unit| {
        let first = unit.min(directories) * FILES_PER_DIRECTORY + unit.saturating_sub(directories);
        let files = if unit < directories { FILES_PER_DIRECTORY } else { 1 };
        let files = (first..first + files).filter_map(|index| set.file(index as u64));
        if unit < directories {
            examiner.directory(files.collect())
        } else {
            examiner.files(files.collect())
        }
    })?;
    parts.into_iter().for_each(|part| whole.add(part));
    Ok(whole)
}

/// The settings and the progress of an examination.
struct Examiner<'s> {
    root: &'s Path,
    every_byte: bool,
    tally: &'s Tally,
}

impl Examiner<'_> {
    /// Examines the entries of the root itself that do not belong to the set.
    fn root_entries(&self, set: &FileSet) -> Result<Survey, Error> {
        let is_directory_of_set =
            |name: &str| format!("{name}/class0_0").parse().is_ok_and(|file| set.contains(file));
        let is_file_of_set = |name: &str| name.parse().is_ok_and(|file| set.contains(file));
        let is_of_set = |name: &str| is_directory_of_set(name) || is_file_of_set(name);
        Ok(entries(self.root, is_of_set)?.unwrap_or_default())
    }

    /// Examines a directory of the set with all its files.
    fn directory(&self, files: Vec<File>) -> Result<Survey, Error> {
        let path = self.root.join(files[0].path().as_str());
        let path = path.parent().unwrap_or(self.root);
        let is_of_set = |name: &str| format!("dir00000/{name}").parse::<File>().is_ok();
        let Some(mut survey) = entries(path, is_of_set)? else {
            for file in &files {
                self.tally.add_file();
                self.tally.add_bytes(file.bytes());
            }
            let faults = files.into_iter().map(|file| (file, Fault::Missing)).collect();
            return Ok(Survey { faults, directories_missing: 1, ..Survey::default() });
        };
        survey.add(self.files(files)?);
        Ok(survey)
    }

    fn files(&self, files: Vec<File>) -> Result<Survey, Error> {
        let mut survey = Survey::default();
        let mut buffer = Vec::new();
        for file in files {
            let path = self.root.join(file.path().as_str());
            let fault = self.file(file, &path, &mut buffer);
            match fault.map_err(|why| Error::io("read", &path, why))? {
                Some(fault) => survey.faults.push((file, fault)),
                None => survey.right += 1,
            }
            self.tally.add_file();
        }
        Ok(survey)
    }

    fn file(&self, file: File, path: &Path, buffer: &mut Vec<u8>) -> io::Result<Option<Fault>> {
        let fault = match fs::symlink_metadata(path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => Some(Fault::Missing),
            Err(why) => return Err(why),
            Ok(status) if !status.is_file() => Some(Fault::NotRegular),
            Ok(status) if status.len() != file.bytes() => Some(Fault::Length(status.len())),
            Ok(status) if status.mode() & 0o444 != 0o444 => {
                Some(Fault::Mode(status.mode() & 0o777))
            }
            Ok(_) => None,
        };
        if fault.is_some() {
            self.tally.add_bytes(file.bytes());
            return Ok(fault);
        }
        self.content(file, path, buffer)
    }

    /// Compares the content of the file: all of it or samples.
    fn content(&self, file: File, path: &Path, buffer: &mut Vec<u8>) -> io::Result<Option<Fault>> {
        let (content, opened) = (file.content(), fs::File::open(path)?);
        let mut seen = 0;
        for (offset, len) in pieces(file.bytes(), self.every_byte) {
            buffer.resize(len, 0);
            match opened.read_exact_at(buffer, offset) {
                Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(Some(Fault::Length(opened.metadata()?.len())));
                }
                read => read?,
            }
            if let Err(mismatch) = content.check(offset, buffer) {
                return Ok(Some(Fault::Byte(mismatch)));
            }
            self.tally.add_bytes(len as u64);
            seen += len as u64;
        }
        self.tally.add_bytes(file.bytes() - seen);
        Ok(None)
    }
}

/// The pieces of a file to read: offset and length.
fn pieces(bytes: u64, every_byte: bool) -> Vec<(u64, usize)> {
    const PIECE_LEN: u64 = 1 << 20;
    const SAMPLE_LEN: u64 = 512;
    const SAMPLES: u64 = 5;
    /// The largest file that is read whole, because that costs less than reading several samples.
    const SMALL_BYTES: u64 = 16 << 10;

    let samples = !every_byte && bytes > SMALL_BYTES;
    let (len, count) = match samples {
        true => (SAMPLE_LEN, SAMPLES),
        false => (PIECE_LEN, bytes.div_ceil(PIECE_LEN)),
    };
    // The first sample is at the start, the last one at the end.
    let step = if samples { (bytes - SAMPLE_LEN) / (SAMPLES - 1) } else { PIECE_LEN };
    let offset = |number| if samples && number + 1 == count { bytes - len } else { number * step };
    let piece = |number| (offset(number), len.min(bytes - offset(number)) as usize);
    (0..count).map(piece).collect()
}

/// Examines the entries of a directory that do not belong to the set, None if there is no such
/// directory.
fn entries(directory: &Path, is_of_set: impl Fn(&str) -> bool) -> Result<Option<Survey>, Error> {
    let fail = |why| Error::io("list", directory, why);
    let listing = match fs::read_dir(directory) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        listing => listing.map_err(fail)?,
    };
    let mut survey = Survey::default();
    for entry in listing {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        if final_name(name).is_some() {
            survey.leftovers.push(entry.path());
        } else if !is_of_set(name) {
            survey.foreign += count_files(&entry).map_err(fail)?;
        }
    }
    Ok(Some(survey))
}

/// The number of files that an entry stands for: itself, or those below it.
fn count_files(entry: &fs::DirEntry) -> io::Result<u64> {
    if !entry.file_type()?.is_dir() {
        return Ok(1);
    }
    let mut count = 0;
    for below in fs::read_dir(entry.path())? {
        count += count_files(&below?)?;
    }
    Ok(count)
}
