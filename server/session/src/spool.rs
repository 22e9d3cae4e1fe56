//! Bodies whose length is not known, for applications that must be told it: gathered before the
//! application is called, in memory and then in a file, so that none of its processes waits for a
//! slow client (caddy 5236, php-src 7509).

use std::io;
use std::sync::Arc;

use site::routes::Script;
use upstream::{Application, Body, Spooled};

/// Bytes of a body that are kept in memory. A longer one is in a file.
const MEMORY_BYTES_MAX: usize = 64 * 1024;

/// Bytes that are read from the file at once.
const PIECE_BYTES: usize = 16 * 1024;

/// A body that is gathered, and then taken by the call.
pub(crate) struct Spool {
    pub(crate) application: Arc<Application>,
    pub(crate) script: Option<Script>,
    /// The body; or what has come of it since the file was last written to; or, once the body is
    /// whole, a piece of the file.
    memory: Vec<u8>,
    file: Option<Spooled>,
    /// Bytes of the body in the file.
    file_bytes: u64,
    /// The next bytes in memory to be taken.
    at: usize,
    /// Where in the file the next piece is.
    file_at: u64,
}

impl Spool {
    pub(crate) fn new(application: Arc<Application>, script: Option<Script>) -> Self {
        let (memory, file) = (Vec::new(), None);
        Self { application, script, memory, file, file_bytes: 0, at: 0, file_at: 0 }
    }

    /// The length of the body, as far as it has come.
    pub(crate) fn len(&self) -> u64 {
        self.file_bytes + self.memory.len() as u64
    }

    /// Adds bytes. If they cannot be kept, that is reported, and the status of the answer returned.
    pub(crate) fn append(&mut self, bytes: &[u8], target: &[u8]) -> Result<(), u16> {
        self.memory.extend_from_slice(bytes);
        if self.memory.len() > MEMORY_BYTES_MAX { self.flush(target) } else { Ok(()) }
    }

    /// The body is whole: it is taken from its beginning.
    pub(crate) fn end(&mut self, target: &[u8]) -> Result<(), u16> {
        if self.file.is_some() { self.flush(target) } else { Ok(()) }
    }

    fn flush(&mut self, target: &[u8]) -> Result<(), u16> {
        self.move_to_file().map_err(|why| {
            self.application.report_spool(target, &why);
            503
        })
    }

    fn move_to_file(&mut self) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.application.open_spool()?,
        };
        self.file.insert(file).file().append(&self.memory)?;
        self.file_bytes += self.memory.len() as u64;
        self.memory.clear();
        Ok(())
    }

    /// What there is of the body to be taken.
    pub(crate) fn body(&mut self) -> Body<'_> {
        match self.next() {
            Ok([]) => Body::End(b""),
            Ok(bytes) => Body::Bytes(bytes),
            Err(_) => Body::Broken(503),
        }
    }

    fn next(&mut self) -> io::Result<&[u8]> {
        if self.at == self.memory.len() && self.file_at < self.file_bytes {
            self.memory.resize(PIECE_BYTES, 0);
            let n = match &mut self.file {
                Some(file) => file.file().read_at(&mut self.memory, self.file_at)?,
                None => 0,
            };
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.memory.truncate(n);
            self.file_at += n as u64;
            self.at = 0;
        }
        Ok(&self.memory[self.at..])
    }

    pub(crate) fn advance(&mut self, n: usize) {
        self.at += n;
    }
}
