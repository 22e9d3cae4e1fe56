//! Where lines go: a file, a FIFO, or a standard stream.
//!
//! Written without a buffer in between: lines come in buffers. A file is opened for appending, so
//! that lines stay whole beside those of another program.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use os::errors::Cause;
use os::socket::Readiness;

/// Why an output cannot be opened.
#[derive(Debug)]
pub struct OutputError {
    /// What it is: `the access log`.
    pub what: &'static str,
    /// The path, or `-`.
    pub path: String,
    /// Whether it is a FIFO that nobody reads.
    pub lacks_reader: bool,
    /// What the system says.
    pub why: io::Error,
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, path, lacks_reader, why } = self;
        write!(f, "cannot open {what} {path:?}: ")?;
        match lacks_reader {
            true => f.write_str("it is a FIFO; start its reader first"),
            false => why.fmt(f),
        }
    }
}

impl std::error::Error for OutputError {}

/// An open output. Writing to it may wait.
pub(crate) struct Output(File);

impl Output {
    /// The output that `path` names: a file to append to, or standard output for `-`.
    ///
    /// # Errors
    /// Why `what` cannot be opened. A FIFO that nobody reads is refused and not waited for.
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

    /// A standard stream: a copy of its descriptor, so that a write that hangs holds no lock that
    /// others want.
    pub(crate) fn standard(stream: &impl AsFd) -> io::Result<Self> {
        stream.as_fd().try_clone_to_owned().map(|copy| Self(copy.into()))
    }
}

fn is_fifo(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

impl Write for Output {
    /// A descriptor that does not block, because its FIFO was opened so or because whoever started
    /// this program has set it so, is waited for all the same: this thread is there to wait.
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
        Ok(()) // nothing is held back
    }
}
