//! The output of a line writer: a file, a FIFO, or a standard stream.
//!
//! There is no buffer in between: lines come in buffers. A file is opened for appending, so that
//! lines stay whole beside those of another program.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use os::errors::Cause;
use os::socket::Readiness;

/// Why an output cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open {what} {path:?}: {}", reason(*.lacks_reader, .why))]
pub struct OutputError {
    /// The output: `the access log`.
    pub what: &'static str,
    /// The path, or `-`.
    pub path: String,
    /// Whether it is a FIFO without a reader.
    pub lacks_reader: bool,
    /// The error of the system call.
    pub why: io::Error,
}

/// What is wrong, and what to do.
fn reason(lacks_reader: bool, why: &io::Error) -> String {
    match why.kind() {
        _ if lacks_reader => "it is a FIFO; start its reader first".into(),
        io::ErrorKind::PermissionDenied => {
            "permission denied: let this user write it, or name another file".into()
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "its file system can only be read: name a file elsewhere".into()
        }
        io::ErrorKind::IsADirectory => "it is a directory: name a file in it".into(),
        _ => why.to_string(),
    }
}

/// An open output. Writing to it may block.
pub(crate) struct Output(File);

impl Output {
    /// Opens the output that `path` names: a file to append to, or standard output for `-`.
    ///
    /// # Errors
    /// Why `what` cannot be opened. A FIFO without a reader is refused and not waited for.
    pub(crate) fn open(what: &'static str, path: &str) -> Result<Self, OutputError> {
        let opened = match path {
            "-" => Self::standard(&io::stdout()),
            _ => os::files::open_appending(Path::new(path)).map(Self),
        };
        opened.map_err(|why| OutputError {
            what,
            path: path.into(),
            lacks_reader: Cause::from_error(&why) == Cause::NothingBehind && is_fifo(path),
            why,
        })
    }

    /// Opens a standard stream as a copy of its descriptor, so that a write that hangs holds no
    /// lock that other threads need.
    pub(crate) fn standard(stream: &impl AsFd) -> io::Result<Self> {
        stream.as_fd().try_clone_to_owned().map(|copy| Self(copy.into()))
    }
}

fn is_fifo(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

impl Write for Output {
    /// Writes, and waits even if the descriptor does not block, because its FIFO was opened so or
    /// because the program that started this one has set it so: the thread that calls this is there
    /// to wait.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                    os::socket::wait_ready(self.0.as_fd(), Readiness::Writable, u64::MAX)?;
                }
                outcome => return outcome,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // nothing is buffered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_that_cannot_be_written_is_answered_with_what_to_do() {
        let check = |kind: io::ErrorKind, expected: &str| {
            let (what, path) = ("the access log", "/a.log".into());
            let error = OutputError { what, path, lacks_reader: false, why: kind.into() };
            assert_eq!(
                error.to_string(),
                format!("cannot open the access log \"/a.log\": {expected}")
            );
        };
        check(
            io::ErrorKind::PermissionDenied,
            "permission denied: let this user write it, or name another file",
        );
        check(
            io::ErrorKind::ReadOnlyFilesystem,
            "its file system can only be read: name a file elsewhere",
        );
        check(io::ErrorKind::IsADirectory, "it is a directory: name a file in it");
    }
}
