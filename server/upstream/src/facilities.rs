//! What applications need of the system, which is set from outside: this crate does no input and
//! output.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::script::Diagnostic;

/// Bodies of requests that an application has in files at a time, at most: each takes a descriptor,
/// and as much of a disk as a body may have.
const SPOOLS_MAX: usize = 64;

/// Reports what an application has written to standard error. It never waits.
pub type ReportDiagnostic = Arc<dyn Fn(&Diagnostic<'_>) + Send + Sync>;

/// A file without a name, for the body of a request.
pub trait SpoolFile: Send {
    /// Adds bytes at the end.
    ///
    /// # Errors
    /// Any error of the system, as that the disk is full.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Reads into a buffer from `offset` on, as many bytes as are there.
    ///
    /// # Errors
    /// Any error of the system.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

/// Makes such a file.
pub type OpenSpool = Arc<dyn Fn() -> io::Result<Box<dyn SpoolFile>> + Send + Sync>;

/// Has a program started that a message describes ([`crate::StartProgram`]). Returns a connection
/// to its standard input and output. It never waits: `WouldBlock` says that it may be tried again.
pub type StartPrograms = Arc<dyn Fn(&[u8]) -> io::Result<OwnedFd> + Send + Sync>;

/// What is set from outside.
#[derive(Clone, Default)]
pub struct Facilities {
    /// Without it, nothing is reported.
    pub report: Option<ReportDiagnostic>,
    /// Without it, bodies stay in memory.
    pub open_spool: Option<OpenSpool>,
    /// Without it, no program is started.
    pub start_programs: Option<StartPrograms>,
}

/// A file for a body, and its place among those of its application.
pub struct Spooled {
    file: Box<dyn SpoolFile>,
    count: Arc<AtomicUsize>,
}

impl Spooled {
    /// Makes a file unless `count` says that there are enough.
    pub(crate) fn open(open: &OpenSpool, count: &Arc<AtomicUsize>) -> io::Result<Self> {
        let is_full = count.fetch_add(1, Ordering::Relaxed) >= SPOOLS_MAX;
        let file = if is_full { Err(io::ErrorKind::QuotaExceeded.into()) } else { open() };
        let opened = file.map(|file| Self { file, count: Arc::clone(count) });
        if opened.is_err() {
            count.fetch_sub(1, Ordering::Relaxed);
        }
        opened
    }

    /// The file.
    pub fn file(&mut self) -> &mut dyn SpoolFile {
        &mut *self.file
    }
}

impl Drop for Spooled {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl SpoolFile for Nothing {
        fn append(&mut self, _: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            Ok(0)
        }
    }

    #[test]
    fn the_number_of_files_is_bounded() {
        let count = Arc::default();
        let open: OpenSpool = Arc::new(|| Ok(Box::new(Nothing)));
        let fails: OpenSpool = Arc::new(|| Err(io::ErrorKind::StorageFull.into()));
        assert!(Spooled::open(&fails, &count).is_err());
        let mut files: Vec<_> =
            (0..SPOOLS_MAX).map(|_| Spooled::open(&open, &count).unwrap()).collect();
        let refused = Spooled::open(&open, &count).err().map(|why| why.kind());
        assert_eq!(refused, Some(io::ErrorKind::QuotaExceeded));
        files.pop();
        assert!(Spooled::open(&open, &count).is_ok());
    }
}
