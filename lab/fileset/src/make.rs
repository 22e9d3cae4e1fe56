//! Writing files, which get their names when they are whole.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use os::file_lock::FileLock;
use os::files::NewFile;
use workload::fileset::File;

use crate::error::Error;
use crate::examine::Survey;
use crate::team::{Progress, Stage, Tally, share};
use crate::{Options, unit};

/// The prefix of the name of a file that is being written, in the directory it will be in, on file
/// systems without unnamed files.
const PARTIAL: &str = ".ropewalk-partial-";
/// All users may read: a server often runs as another user.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;
/// Bytes made and written at a time.
const CHUNK_LEN: usize = 1 << 20;

/// The name of the set's file for which a file of this name is the temporary one. None if this is
/// not a temporary name.
pub(crate) fn final_name(name: &str) -> Option<&str> {
    let name = name.strip_prefix(PARTIAL)?;
    let is_ours = File::locate(format!("dir00000/{name}").as_bytes()).is_some();
    is_ours.then_some(name)
}

/// Keeps other runs away from `root` for as long as the value lives. File systems without such
/// locks have to do without.
pub(crate) fn lock(root: &Path) -> Result<Option<FileLock>, Error> {
    let directory = fs::File::open(root).map_err(|why| Error::io("open", root, why))?;
    match FileLock::take(directory) {
        Err(fs::TryLockError::WouldBlock) => Err(Error::Busy(root.into())),
        taken => Ok(taken.ok()),
    }
}

/// Writes every file that the survey found missing or wrong.
pub(crate) fn make(
    root: &Path,
    survey: &Survey,
    options: Options,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(), Error> {
    let bytes = survey.faults.iter().map(|(file, _)| file.bytes()).sum();
    let tally = Tally::new(Stage::Writing, survey.faults.len() as u64, bytes);
    let units: Vec<&[_]> =
        survey.faults.chunk_by(|(one, _), (other, _)| unit(*one) == unit(*other)).collect();
    share(options.threads, units.len(), &tally, progress, |number| {
        let mut buffer = Vec::new();
        for (file, _) in units[number] {
            make_file(root, *file, &mut buffer, &tally)?;
        }
        Ok(())
    })?;
    Ok(())
}

fn make_file(root: &Path, file: File, buffer: &mut Vec<u8>, tally: &Tally) -> Result<(), Error> {
    let path = root.join(file.path().as_str());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let partial = path.with_file_name(format!("{PARTIAL}{name}"));
    let mut make = || {
        make_directory(path.parent().unwrap_or(root))?;
        let mut new = NewFile::create(&partial, FILE_MODE)?;
        write(new.file(), file, buffer, tally)?;
        new.finish(&path)
    };
    make().map_err(|why| Error::io("write", &path, why))?;
    tally.add_file();
    Ok(())
}

/// Creates a missing directory; an existing one keeps its permissions.
fn make_directory(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(why) => Err(why),
        // The mask of the process has been applied to the mode.
        Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(DIRECTORY_MODE)),
    }
}

fn write(to: &mut fs::File, file: File, buffer: &mut Vec<u8>, tally: &Tally) -> io::Result<()> {
    let content = file.content();
    let mut offset = 0;
    while offset < file.bytes() {
        let len = (file.bytes() - offset).min(CHUNK_LEN as u64) as usize;
        buffer.resize(len.max(buffer.len()), 0);
        content.fill(offset, &mut buffer[..len]);
        to.write_all(&buffer[..len])?;
        offset += len as u64;
        tally.add_bytes(len as u64);
    }
    // The mask of the process has been applied to the mode.
    to.set_permissions(fs::Permissions::from_mode(FILE_MODE))
}
