//! The gate: a FUSE file system of one file, whose reads are answered while the gate is open and
//! held while it is closed; requests for its attributes, too, on demand. It speaks just enough of
//! the protocol (include/uapi/linux/fuse.h) for a loop device to be put on that file, and for a
//! server to send it.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Requests that the kernel sends; all others are answered with ENOSYS.
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const RELEASE: u32 = 18;
const INIT: u32 = 26;
/// Requests without an answer: FORGET, INTERRUPT, BATCH_FORGET.
const SILENT: [u32; 3] = [2, 36, 42];

const REQUEST_HEAD_BYTES: usize = 40;
const ENOSYS: i32 = 38;
const EIO: i32 = 5;

/// The largest request of the kernel: it refuses a read with a smaller buffer.
const REQUEST_BYTES_MAX: usize = 256 << 10;

/// A FUSE file system of one file, whose reads are answered while the gate is open and held while
/// it is closed.
#[derive(Debug)]
pub struct Gate {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    device: File,
    image: File,
    attributes: Attributes,
    state: Mutex<State>,
    has_visitor: Condvar,
}

/// Where the attributes of the file are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attributes {
    /// In the kernel, after the first answer.
    Remembered,
    /// Only in this process: every request for them has to pass the gate.
    Guarded,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    /// Requests that wait for the gate to open.
    held: Vec<Request>,
    /// How many requests have waited at the gate.
    visitors: usize,
}

/// The fields of a request that matter here.
#[derive(Debug)]
struct Request {
    opcode: u32,
    unique: u64,
    /// The offset of a read.
    offset: u64,
    size: u32,
}

impl Gate {
    /// An open gate before `image`, for the kernel at the other end of `device`.
    pub(super) fn new(device: File, image: File, attributes: Attributes) -> Self {
        let (state, has_visitor) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { device, image, attributes, state, has_visitor });
        let served = Arc::clone(&shared);
        Self { shared, thread: thread::spawn(move || served.serve()) }
    }

    /// Closes the gate: requests wait from now on.
    pub fn close(&self) {
        self.shared.state().is_closed = true;
    }

    /// Opens the gate, for requests that wait and for later ones.
    pub fn open(&self) {
        let held = {
            let mut state = self.shared.state();
            state.is_closed = false;
            std::mem::take(&mut state.held)
        };
        held.iter().for_each(|request| self.shared.let_pass(request));
    }

    /// How many requests have waited at the gate so far.
    #[must_use]
    pub fn visitors(&self) -> usize {
        self.shared.state().visitors
    }

    /// Waits until a request waits at the gate.
    ///
    /// # Panics
    /// If none comes within `patience`.
    pub fn await_visitor(&self, patience: Duration) {
        let is_empty = |state: &mut State| state.held.is_empty();
        let state = self.shared.state();
        let waited = self.shared.has_visitor.wait_timeout_while(state, patience, is_empty);
        let (_state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!timeout.timed_out(), "no request has come to read from the disk");
    }

    /// Waits until the kernel has let go of the device, for `patience` at most.
    pub(super) fn await_end(&self, patience: Duration) {
        const STEP: Duration = Duration::from_millis(5);
        let steps = patience.as_millis() / STEP.as_millis();
        for _ in 0..steps {
            if self.thread.is_finished() {
                return;
            }
            thread::sleep(STEP);
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers requests until the file system is unmounted.
    fn serve(&self) {
        let mut buffer = vec![0; REQUEST_BYTES_MAX];
        loop {
            match (&self.device).read(&mut buffer) {
                Ok(n) => self.handle(Request::parse(&buffer[..n])),
                Err(why) => match why.kind() {
                    ErrorKind::PermissionDenied => {
                        thread::sleep(Duration::from_millis(1)); // not mounted yet
                    }
                    // A request that was withdrawn.
                    ErrorKind::NotFound | ErrorKind::Interrupted | ErrorKind::WouldBlock => {}
                    _ => return, // unmounted
                },
            }
        }
    }

    fn handle(&self, request: Request) {
        match request.opcode {
            INIT => self.answer(&request, 0, &init()),
            OPEN => self.answer(&request, 0, &opened()),
            RELEASE => self.answer(&request, 0, &[]),
            READ => self.guard(request),
            GETATTR if self.attributes == Attributes::Guarded => self.guard(request),
            GETATTR => self.let_pass(&request),
            opcode if SILENT.contains(&opcode) => {}
            _ => self.answer(&request, -ENOSYS, &[]),
        }
    }

    /// Holds a request if the gate is closed.
    fn guard(&self, request: Request) {
        let mut state = self.state();
        if state.is_closed {
            state.held.push(request);
            state.visitors += 1;
            self.has_visitor.notify_all();
        } else {
            drop(state);
            self.let_pass(&request);
        }
    }

    fn let_pass(&self, request: &Request) {
        match request.opcode {
            GETATTR => self.answer(request, 0, &self.attributes()),
            _ => self.read(request),
        }
    }

    fn read(&self, request: &Request) {
        let mut bytes = vec![0; request.size as usize];
        match self.image.read_at(&mut bytes, request.offset) {
            Ok(n) => self.answer(request, 0, &bytes[..n]),
            Err(_) => self.answer(request, -EIO, &[]),
        }
    }

    /// Writes `struct fuse_out_header` and the requested data, in one write.
    fn answer(&self, request: &Request, error: i32, body: &[u8]) {
        let len = (16 + body.len()) as u32;
        let mut answer = Vec::with_capacity(16 + body.len());
        answer.extend_from_slice(&len.to_ne_bytes());
        answer.extend_from_slice(&error.to_ne_bytes());
        answer.extend_from_slice(&request.unique.to_ne_bytes());
        answer.extend_from_slice(body);
        let _ = (&self.device).write_all(&answer); // an error: the request was withdrawn
    }

    /// `struct fuse_attr_out` of the one file.
    fn attributes(&self) -> Vec<u8> {
        const FOREVER_S: u64 = 1 << 30;
        const MODE: u32 = 0o100_444;
        let valid_s = if self.attributes == Attributes::Remembered { FOREVER_S } else { 0 };
        let size = self.image.metadata().map_or(0, |metadata| metadata.len());
        let mut bytes = Vec::new();
        // For how long the attributes are valid; then inode, size, blocks, and the seconds of three
        // times.
        for word in [valid_s, 0, 1, size, size / 512, 0, 0, 0] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        // Nanoseconds of three times, mode, links, owner, group, device, block size, flags.
        for word in [0, 0, 0, MODE, 1, 0, 0, 0, 4096, 0] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

impl Request {
    fn parse(bytes: &[u8]) -> Self {
        let word = |at: usize| {
            let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u32::from_ne_bytes)
        };
        let long = |at: usize| {
            let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_ne_bytes)
        };
        // `struct fuse_in_header`, then `struct fuse_read_in`.
        Self {
            opcode: word(4),
            unique: long(8),
            offset: long(REQUEST_HEAD_BYTES + 8),
            size: word(REQUEST_HEAD_BYTES + 16),
        }
    }
}

/// `struct fuse_init_out`: version 7.31, no features, writes of a page that never come.
fn init() -> Vec<u8> {
    let mut bytes = Vec::new();
    // Major, minor, read-ahead, flags, two halves for background requests, bytes of a write, the
    // granularity of times, two halves, and what later versions have added.
    for word in [7_u32, 31, 0, 0, 0, 4096, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0] {
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// `struct fuse_open_out`: nothing of the file is kept in memory on this side (FOPEN_DIRECT_IO).
fn opened() -> Vec<u8> {
    [0_u32, 0, 1, 0].iter().flat_map(|word| word.to_ne_bytes()).collect()
}
