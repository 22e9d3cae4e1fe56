//! Files that are written whole or not at all, even if the program is ended meanwhile.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use os::files::NewFile;

/// Large enough that a system call costs nothing compared with writing the data.
const BUFFER_BYTES: usize = 256 * 1024;
/// The permissions of a new file, before the mask of the process.
const MODE: u32 = 0o666;

/// Replaces the contents of the file at `path`. Until everything is written the old file, if any,
/// stays as it is, and if something fails it stays for good. Links are followed. A path that is not
/// a regular file (a pipe, a device) is written to directly.
///
/// # Errors
/// The error of `fill`, or why the file cannot be written.
pub fn write<E: From<io::Error>>(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<&mut File>) -> Result<(), E>,
) -> Result<(), E> {
    // If the file does not exist yet there is no link to follow.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
        return fill_all(&mut File::options().write(true).open(&path)?, fill);
    }
    let mut new = NewFile::create(&temporary_name(&path)?, MODE)?;
    fill_all(new.file(), fill)?;
    Ok(new.finish(&path)?)
}

fn fill_all<E: From<io::Error>>(
    file: &mut File,
    fill: impl FnOnce(&mut BufWriter<&mut File>) -> Result<(), E>,
) -> Result<(), E> {
    let mut buffer = BufWriter::with_capacity(BUFFER_BYTES, file);
    fill(&mut buffer)?;
    Ok(buffer.flush()?)
}

/// The temporary name for `path`: in the same directory, hidden, and this process's own.
fn temporary_name(path: &Path) -> io::Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"));
    };
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.partial", std::process::id()));
    Ok(path.with_file_name(temporary))
}
