//! Bodies whose length is not known, for applications that must be told it: gathered before the
//! application is called, in memory and then in a file, so that none of its processes waits for a
//! slow client (caddy 5236, php-src 7509).

use std::io;
use std::sync::Arc;

use http1::Parsed;
use site::routes::Script;
use upstream::{Application, Body, Spooled};

use crate::application::TOO_LARGE;
use crate::connection::{Connection, State};
use crate::exchange::{Exchange, Then};
use crate::job::Job;
use crate::reply::Reply;
use crate::response::{Prepared, Request, Response};
use crate::worker::Worker;

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
    fn len(&self) -> u64 {
        self.file_bytes + self.memory.len() as u64
    }

    /// Adds bytes. If they cannot be kept, that is reported, and the status of the answer returned.
    fn append(&mut self, bytes: &[u8], target: &[u8]) -> Result<(), u16> {
        self.memory.extend_from_slice(bytes);
        if self.memory.len() > MEMORY_BYTES_MAX { self.flush(target) } else { Ok(()) }
    }

    /// The body is whole: it is taken from its beginning.
    fn end(&mut self, target: &[u8]) -> Result<(), u16> {
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

impl Connection {
    /// Takes what has arrived of a body that is gathered, and has the application called when it is
    /// whole.
    #[cold]
    pub(crate) fn gather(&mut self, w: &mut Worker) {
        if self.state != State::Spooling {
            return;
        }
        match self.response(w).gather(w) {
            Prepared::Body => self.renew_deadline(w),
            prepared => self.follow(w, prepared),
        }
    }
}

impl Reply {
    /// Takes what has arrived of a body that is gathered. When it is whole, the application's call
    /// is prepared, or the answer if it cannot be kept; until then it is [`Prepared::Body`].
    pub fn gather(&mut self, w: &mut Worker) -> Prepared {
        self.response().gather(w)
    }

    /// Prepares the answer to a client whose body has not come in time.
    pub fn fail_body(&mut self, w: &mut Worker) -> Prepared {
        self.response().call_failed(w, 408)
    }
}

impl Response<'_> {
    fn gather(&mut self, w: &mut Worker) -> Prepared {
        match self.exchange.gather_arrived() {
            Ok(true) => self.call_with_spool(w),
            Ok(false) => Prepared::Body,
            Err(status) => self.call_failed(w, status),
        }
    }

    fn call_with_spool(&mut self, w: &mut Worker) -> Prepared {
        let bytes = std::mem::take(&mut self.exchange.head);
        let host = self.exchange.draft.host;
        let spool = self.exchange.stream_mut().and_then(|stream| stream.spool.as_mut());
        let Some(spool) = spool else { return Prepared::Nothing };
        let (application, script) = (Arc::clone(&spool.application), spool.script.take());
        let body_bytes = Some(spool.len());
        let parsed = http1::parse_head(&bytes, 0, &w.limits.head);
        let Ok(Parsed::Complete(head)) = &parsed else { unreachable!("the head was read before") };
        let request = Request { bytes: &bytes, head, host };
        let call = self.make_call(w, request, application, script.as_ref(), body_bytes);
        drop(parsed);
        self.exchange.head = bytes;
        let Some(call) = call else { return self.call_failed(w, TOO_LARGE) };
        self.exchange.job = Some(Job::Application(Box::new(call)));
        Prepared::Job
    }
}

impl Exchange {
    /// Returns whether the body is whole, or the status of the answer if it cannot be.
    fn gather_arrived(&mut self) -> Result<bool, u16> {
        loop {
            let ahead = self.body_ahead().map_err(http1::BodyError::status)?;
            let (input, at) = (&self.input, self.input_at);
            let Then::Application(stream) = &mut self.then else { return Err(400) };
            let Some(spool) = &mut stream.spool else { return Err(400) };
            let target = target(&self.head);
            if self.skipper.is_none() {
                return spool.end(target).map(|()| true);
            }
            if spool.len() + ahead as u64 > stream.body_bytes_max {
                return Err(413);
            }
            if ahead == 0 {
                return Ok(false);
            }
            spool.append(&input[at..at + ahead], target)?;
            self.take_body(ahead);
        }
    }
}

/// The target in the first line of a head that was read.
fn target(head: &[u8]) -> &[u8] {
    head.split(|byte| *byte == b' ').nth(1).unwrap_or_default()
}
