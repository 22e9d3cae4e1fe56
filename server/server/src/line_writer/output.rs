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

fn reason(lacks_reader: bool, why: &io::Error) -> String {
    match lacks_reader {
        true => "it is a FIFO; start its reader first".into(),
        false => why.to_string(),
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
