//! Files for bodies of requests whose length is not known: without a name, so that nothing is left
//! of them however the server ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::{AtomicU64, Ordering};

use upstream::SpoolFile;

struct Spool(File);

impl SpoolFile for Spool {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(&self.0, buffer, offset)
    }
}

/// Makes a file in the directory for temporary ones (TMPDIR), which only this process can open.
pub(crate) fn open() -> io::Result<Box<dyn SpoolFile>> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let directory = std::env::temp_dir();
    loop {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("ropewalk-body-{}-{number}", std::process::id()));
        let mut options = OpenOptions::new();
        match options.read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(Box::new(Spool(file)));
            }
            // Of a process that had this number and was killed in between.
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
            Err(why) => return Err(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_the_file_has_no_name() {
        let mut spool = open().unwrap();
        spool.append(b"hello ").unwrap();
        spool.append(b"world").unwrap();
        let mut buffer = [0; 20];
        assert_eq!(spool.read_at(&mut buffer, 4).unwrap(), 7);
        assert_eq!(&buffer[..7], b"o world");
        let prefix = format!("ropewalk-body-{}-", std::process::id());
        let names = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
        let is_ours = |name: std::ffi::OsString| name.to_string_lossy().starts_with(&prefix);
        assert!(!names.map(|entry| entry.file_name()).any(is_ours));
    }
}
