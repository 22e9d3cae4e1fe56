//! Files that are written whole or not at all: into a temporary one beside it, which is renamed.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Large enough that a system call costs nothing next to what is written.
const BUFFER_BYTES: usize = 256 * 1024;

/// Fills the file at `path` anew. Until all is written the old one, if any, stays as it is, and
/// if something fails it stays for good. Links are followed. What is no plain file (a pipe, a
/// device) is written to.
pub(crate) fn write<E: From<io::Error>>(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    // Of a file that does not exist yet there is nothing to follow.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
        return fill_all(File::options().write(true).open(&path)?, fill);
    }
    let temporary = temporary_name(&path)?;
    let written = File::create_new(&temporary)
        .map_err(E::from)
        .and_then(|file| fill_all(file, fill))
        .and_then(|()| fs::rename(&temporary, &path).map_err(E::from));
    if written.is_err() {
        let _ = fs::remove_file(&temporary); // the first failure is the one to tell
    }
    written
}

fn fill_all<E: From<io::Error>>(
    file: File,
    fill: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    let mut buffer = BufWriter::with_capacity(BUFFER_BYTES, file);
    fill(&mut buffer)?;
    Ok(buffer.flush()?)
}

/// In the same directory, hidden, and this process's own.
fn temporary_name(path: &Path) -> io::Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"));
    };
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.partial", std::process::id()));
    Ok(path.with_file_name(temporary))
}
