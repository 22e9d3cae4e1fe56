//! The size of a log that was given, before it was read and after: a server that is measured may
//! write it.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

/// The size of the log that was typed. The log is read once, before the servers are started.
#[derive(Debug)]
pub struct LogSize {
    path: PathBuf,
    bytes: u64,
}

impl LogSize {
    /// Takes the size of the log; none of what is no file.
    #[must_use]
    pub fn new(path: &Path) -> Option<Self> {
        let meta = fs::metadata(path).ok().filter(Metadata::is_file)?;
        Some(Self { path: path.to_owned(), bytes: meta.len() })
    }

    /// Says that the log has grown since, if it has: it is then that of a server that was compared.
    #[must_use]
    pub fn growth(&self) -> Option<String> {
        let grown = fs::metadata(&self.path).ok()?.len().checked_sub(self.bytes)?;
        let path = self.path.display();
        (grown > 0).then(|| {
            format!(
                "{path} has grown by {grown} bytes during the comparison: one of the servers \
                 writes it, so that it now has the comparison's requests as well; give the next \
                 one a copy: head -c {} {path} > mine.log",
                self.bytes
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_has_grown_is_told_with_what_it_had() {
        let own = testkit::Temporary::new();
        let path = own.file("access.log", "one\n");
        let size = LogSize::new(&path).expect("it is a file");
        assert_eq!(size.growth(), None);
        fs::write(&path, "one\ntwo\n").expect("it is ours");
        let told = size.growth().expect("it has grown");
        assert!(told.contains("has grown by 4 bytes") && told.contains("head -c 4 "), "{told}");
        assert!(LogSize::new(own.path()).is_none(), "a folder has no lines");
    }
}
