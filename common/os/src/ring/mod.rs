//! A completion queue (io_uring): operations are submitted to the kernel together, and their
//! results are read from memory.
//!
//! Everything an operation uses belongs to the [`Ring`] until the kernel reports that the operation
//! is over: a share of the descriptor, and the bytes to be sent. Received bytes lie in buffers of
//! the ring, which the kernel chooses when there is something to put into one; each is lent to the
//! caller as a [`Received`] until it is given back. So there is nothing that a caller could free
//! too early.
//!
//! A ring belongs to the thread that makes it: the kernel works for it only while that thread waits
//! (DEFER_TASKRUN), and refuses all other threads (SINGLE_ISSUER). Some time after a ring is
//! dropped, its thread is interrupted once more: a thread with other work, whose calls the
//! interruption could break off, had better make no ring.
//!
//! Connections may be accepted into a table of the ring's own ([`Sizes::direct`]), where operations
//! find them and other calls do not.
//!
//! The ring is not a runtime: it knows no connections, and an operation that ends is not begun
//! again.

mod buffers;
mod descriptor;
mod operations;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::rc::Rc;

use io_uring::types::{CancelBuilder, Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};

use crate::call::error;
use crate::errors::Cause;
use buffers::BufferRing;
use descriptor::{Ordinary, Table};
use operations::{Kind, Operations};

pub use buffers::Received;
pub use descriptor::Descriptor;
pub use operations::Operation;

/// The size of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Operations submitted to the kernel in one call; more are submitted in several calls.
    pub entries: u32,
    /// Buffers to receive into; rounded up to a power of two.
    pub buffers: u16,
    /// The size of each buffer, in bytes.
    pub buffer_bytes: u32,
    /// Places in a table of the ring's own, into which connections are accepted; 0: they are
    /// accepted as descriptors of the process. The limit on descriptors bounds the table, too. A
    /// connection that arrives when the table is full has no other place: it is closed.
    pub direct: u32,
}

impl Sizes {
    /// The smallest sizes that are allowed.
    pub const LEAST: Self = Self { entries: 1, buffers: 1, buffer_bytes: 64, direct: 0 };
}

/// Completions that fit the queue for each submission that does: one operation may complete many
/// times.
const COMPLETIONS_PER_ENTRY: u32 = 4;

/// Buffers of finished sends kept for the next ones.
const SPARE_MAX: usize = 1024;

/// The largest buffer that is kept, in bytes.
const SPARE_BYTES_MAX: usize = 8192;

/// How a ring is set up.
type Builder = io_uring::Builder<squeue::Entry, cqueue::Entry>;

/// Marks completions that nothing waits for.
const UNAWAITED: u64 = u64::MAX;

/// Marks the completion that [`Ring::ordinary`] waits for.
const INSTALLED: u64 = u64::MAX - 1;

/// Something that has happened.
#[derive(Debug)]
pub enum Event {
    /// A connection was accepted, or none could be.
    Accepted {
        /// The operation's key.
        key: u64,
        /// The connection, a non-blocking socket.
        result: io::Result<Descriptor>,
        /// Whether the operation has ended.
        is_last: bool,
    },
    /// Something was received; nothing at the end of the stream.
    Received {
        /// The operation's key.
        key: u64,
        /// The buffer with the bytes; none at the end of the stream.
        result: io::Result<Option<Received>>,
        /// Whether the operation has ended.
        is_last: bool,
    },
    /// A prefix of the bytes was sent.
    Sent {
        /// The operation's key.
        key: u64,
        /// The number of bytes sent.
        result: io::Result<usize>,
    },
    /// A descriptor is ready, or waiting for its readiness was cancelled.
    Ready {
        /// The operation's key.
        key: u64,
    },
    /// A connection has ended, or its peer sends no more, or waiting for that was cancelled.
    Ended {
        /// The operation's key.
        key: u64,
        /// Whether the connection has an error, or both of its sides are shut down.
        is_gone: bool,
    },
}

/// A ring, its operations and its buffers.
pub struct Ring {
    /// Keeps the ring in its thread: it is neither `Send` nor `Sync`.
    is_local: PhantomData<*const ()>,
    // The kernel's side goes first: fields are dropped in this order. Memory that it may still use
    // then is never freed: see `drop`.
    uring: IoUring,
    buffers: BufferRing,
    operations: Operations,
    table: Option<Table>,
    /// Completions read while another one was awaited.
    set_aside: VecDeque<cqueue::Entry>,
    /// Submissions for which there was no room.
    spilled: VecDeque<squeue::Entry>,
    /// Empty buffers for sending.
    spare: Vec<Vec<u8>>,
}

/// Checks whether this process may have a ring of that size with everything that [`Ring`] needs.
///
/// # Errors
/// One line: what is missing.
pub fn check(sizes: Sizes) -> io::Result<()> {
    let attempt = move || Ring::new(sizes)?.wait(Some(0)).map_err(|why| explain(&why));
    let outcome = std::thread::spawn(attempt).join();
    outcome.unwrap_or_else(|_| Err(io::Error::other("the check of io_uring panicked")))
}

impl Ring {
    /// Makes a ring of the calling thread, which alone may call the ring's other functions.
    ///
    /// # Errors
    /// One line: what the kernel refuses, and what that means.
    pub fn new(sizes: Sizes) -> io::Result<Self> {
        let uring = set_up(sizes.entries).map_err(|why| explain(&why))?;
        if !uring.params().is_feature_ext_arg() || !uring.params().is_feature_nodrop() {
            return Err(explain(&error(libc::EINVAL)));
        }
        let buffers = BufferRing::new(&uring, sizes.buffers, sizes.buffer_bytes)
            .map_err(|why| io::Error::new(why.kind(), format!("no ring of buffers: {why}")))?;
        let table = Table::new(&uring, sizes.direct)
            .map_err(|why| io::Error::new(why.kind(), format!("no direct descriptors: {why}")))?;
        Ok(Self {
            is_local: PhantomData,
            uring,
            buffers,
            operations: Operations::default(),
            table,
            set_aside: VecDeque::new(),
            spilled: VecDeque::new(),
            spare: Vec::new(),
        })
    }

    /// Accepts connections as non-blocking sockets: one, or `many` until it is cancelled or fails.
    pub fn accept(&mut self, key: u64, listener: &Rc<Descriptor>, many: bool) -> Operation {
        // Places that were given up are released before others are taken.
        self.close_places();
        let (is_direct, no_address) = (self.table.is_some(), std::ptr::null_mut());
        let for_exec = if is_direct { 0 } else { libc::SOCK_CLOEXEC }; // a place is never inherited
        let flags = libc::SOCK_NONBLOCK | for_exec;
        self.begin(key, Kind::Accept, Vec::new(), listener, |fd| match many {
            true => {
                opcode::AcceptMulti::new(fd).allocate_file_index(is_direct).flags(flags).build()
            }
            false => opcode::Accept::new(fd, no_address, no_address.cast())
                .file_index(is_direct.then(Table::destination))
                .flags(flags)
                .build(),
        })
    }

    /// Receives when something arrives: once, or `many` times until the stream ends, the buffers
    /// run out (ENOBUFS), it is cancelled or fails.
    pub fn receive(&mut self, key: u64, socket: &Rc<Descriptor>, many: bool) -> Operation {
        self.begin(key, Kind::Receive, Vec::new(), socket, |fd| match many {
            true => opcode::RecvMulti::new(fd, buffers::GROUP).build(),
            false => opcode::Recv::new(fd, std::ptr::null_mut(), 0)
                .buf_group(buffers::GROUP)
                .build()
                .flags(squeue::Flags::BUFFER_SELECT),
        })
    }

    /// Sends a prefix of the concatenated `parts`, which are copied. `more`: further bytes follow
    /// at once, so that the last, partly filled packet may wait for them.
    pub fn send(
        &mut self,
        key: u64,
        socket: &Rc<Descriptor>,
        parts: [&[u8]; 2],
        more: bool,
    ) -> Operation {
        let mut bytes = self.spare.pop().unwrap_or_default();
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        let flags = libc::MSG_NOSIGNAL | if more { libc::MSG_MORE } else { 0 };
        // Sending a prefix is allowed by the contract, and the kernel's own bound on one call is
        // lower.
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let start = bytes.as_ptr(); // on the heap: it stays where it is
        self.begin(key, Kind::Send, bytes, socket, |fd| {
            opcode::Send::new(fd, start, len).flags(flags).build()
        })
    }

    /// Waits, once, until `descriptor` is readable.
    pub fn poll_readable(&mut self, key: u64, descriptor: &Rc<Descriptor>) -> Operation {
        self.poll(key, descriptor, libc::POLLIN)
    }

    /// Waits, once, until `socket` takes more bytes.
    pub fn poll_writable(&mut self, key: u64, socket: &Rc<Descriptor>) -> Operation {
        self.poll(key, socket, libc::POLLOUT)
    }

    /// Waits, once, until the connection of `socket` has an error, or one of its sides is shut
    /// down, without receiving or sending.
    pub fn poll_end(&mut self, key: u64, socket: &Rc<Descriptor>) -> Operation {
        self.begin(key, Kind::PollEnd, Vec::new(), socket, |fd| opcode::PollAdd::new(fd, 0).build())
    }

    fn poll(&mut self, key: u64, descriptor: &Rc<Descriptor>, events: libc::c_short) -> Operation {
        self.begin(key, Kind::Poll, Vec::new(), descriptor, |fd| {
            opcode::PollAdd::new(fd, u32::from(events.cast_unsigned())).build()
        })
    }

    /// Requests the end of an operation. It ends with an event like any other, which may report
    /// that the operation was done before it could be cancelled. An operation that has ended is not
    /// touched.
    pub fn cancel(&mut self, operation: Operation) {
        if self.operations.find(operation).is_some() {
            let entry = opcode::AsyncCancel::new(operation.number()).build().user_data(UNAWAITED);
            self.push(&entry.flags(squeue::Flags::SKIP_SUCCESS));
        }
    }

    /// Submits the requested operations and waits until something has happened, for at most
    /// `timeout_us` microseconds. It may return early and without an event.
    ///
    /// # Errors
    /// The kernel's, about the ring and not about any operation.
    pub fn wait(&mut self, timeout_us: Option<u64>) -> io::Result<()> {
        self.close_places();
        loop {
            self.unspill();
            let is_last = self.spilled.is_empty();
            let entered = self.enter(if is_last { timeout_us } else { Some(0) });
            match entered {
                Ok(()) if !is_last => {}
                Err(why) if !ends_wait_only(&why) => return Err(why),
                _ => return Ok(()),
            }
        }
    }

    /// The next event; none until the next [`Ring::wait`]. An operation whose last event this is
    /// has ended: its share of the descriptor is released.
    #[inline]
    pub fn next_event(&mut self) -> Option<Event> {
        loop {
            let completion = match self.set_aside.pop_front() {
                Some(completion) => completion,
                None => self.uring.completion().next()?,
            };
            if let Some(event) = self.complete(&completion) {
                return Some(event);
            }
        }
    }

    /// The bytes that were received.
    #[inline]
    #[must_use]
    pub fn bytes(&self, received: &Received) -> &[u8] {
        self.buffers.bytes(received)
    }

    /// Provides the buffer to the kernel again.
    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "the bytes must not be read after this")]
    pub fn give_back(&mut self, received: Received) {
        self.buffers.provide(received.id);
    }

    /// A descriptor of the process, for calls that are not operations. A direct descriptor gets one
    /// by a system call of its own at the first request, and has both from then on.
    ///
    /// # Errors
    /// The process has no descriptor left, or this is a direct one of another ring.
    pub fn ordinary<'a>(&mut self, descriptor: &'a Descriptor) -> io::Result<BorrowedFd<'a>> {
        match descriptor.ordinary(self.table.as_ref())? {
            Ordinary::Here(descriptor) => Ok(descriptor),
            Ordinary::Missing(place, made) => {
                let installed = self.install(place)?;
                Ok(made.get_or_init(|| installed).as_fd())
            }
        }
    }

    /// Submits everything, with the request to make a descriptor at the end, which is carried out
    /// at once. Other completions are set aside.
    fn install(&mut self, place: Fixed) -> io::Result<OwnedFd> {
        self.push(&opcode::FixedFdInstall::new(place, 0).build().user_data(INSTALLED));
        loop {
            self.unspill();
            let submitted = self.uring.submit();
            let mut installed = None;
            for completion in self.uring.completion() {
                match completion.user_data() {
                    INSTALLED => installed = Some(completion.result()),
                    _ => self.set_aside.push_back(completion),
                }
            }
            if let Some(result) = installed {
                return match result {
                    failed @ ..0 => Err(error(-failed)),
                    made => Ok(owned(made.unsigned_abs())),
                };
            }
            match submitted {
                Err(why) if !ends_wait_only(&why) => return Err(why),
                // The completions that filled the queue have been read.
                _ => {}
            }
        }
    }

    /// Tells the kernel which places of the table were given up.
    #[inline]
    fn close_places(&mut self) {
        while let Some(closing) = self.table.as_ref().and_then(Table::next_closing) {
            self.push(&closing.user_data(UNAWAITED).flags(squeue::Flags::SKIP_SUCCESS));
        }
    }

    #[inline]
    fn begin(
        &mut self,
        key: u64,
        kind: Kind,
        bytes: Vec<u8>,
        descriptor: &Rc<Descriptor>,
        entry: impl FnOnce(Fd) -> squeue::Entry,
    ) -> Operation {
        let (fd, flags) = descriptor.target(self.table.as_ref());
        let operation = self.operations.insert(key, kind, bytes, Rc::clone(descriptor));
        self.push(&entry(fd).flags(flags).user_data(operation.number()));
        operation
    }

    #[inline]
    fn push(&mut self, entry: &squeue::Entry) {
        // Entries that have spilled go first: a cancellation must not overtake what it cancels.
        // SAFETY: the entry points to memory, and names a descriptor, of its operation, which lives
        // until the kernel has reported its end. The bytes are on the heap and stay where they are;
        // no other code can reach them.
        if !self.spilled.is_empty() || unsafe { self.uring.submission().push(entry) }.is_err() {
            self.spilled.push_back(entry.clone());
        }
    }

    /// Moves spilled entries into the queue, as many as fit.
    fn unspill(&mut self) {
        while let Some(entry) = self.spilled.front() {
            // SAFETY: as in `push`.
            if unsafe { self.uring.submission().push(entry) }.is_err() {
                return;
            }
            self.spilled.pop_front();
        }
    }

    fn enter(&mut self, timeout_us: Option<u64>) -> io::Result<()> {
        let count = self.uring.submission().len() as u32; // at most the 32,768 entries of a ring
        let is_idle = self.set_aside.is_empty() && self.uring.completion().is_empty();
        let is_waiting = timeout_us != Some(0) && is_idle;
        let flags = (EnterFlags::GETEVENTS | EnterFlags::EXT_ARG).bits();
        let timeout = timeout_us.unwrap_or(0);
        let (seconds, rest_us) = (timeout / 1_000_000, timeout % 1_000_000);
        let timeout = Timespec::new().sec(seconds).nsec(rest_us as u32 * 1000);
        let mut arguments = SubmitArgs::new();
        if timeout_us.is_some() {
            arguments = arguments.timespec(&timeout);
        }
        let submitter = self.uring.submitter();
        // SAFETY: the argument is the structure that EXT_ARG announces; it and the time that it
        // points to outlive the call.
        unsafe { submitter.enter(count, is_waiting.into(), flags, Some(&arguments)) }.map(drop)
    }

    #[inline]
    fn complete(&mut self, completion: &cqueue::Entry) -> Option<Event> {
        let operation = Operation::from_number(completion.user_data());
        let (key, kind) = self.operations.find(operation)?; // a cancellation is none
        let is_last = !cqueue::more(completion.flags());
        let result = match completion.result() {
            failed @ ..0 => Err(error(-failed)),
            count => Ok(count.unsigned_abs()),
        };
        let event = match kind {
            Kind::Accept => {
                let result = result.map(|number| match &self.table {
                    None => owned(number).into(),
                    Some(table) => table.take(number),
                });
                Event::Accepted { key, result, is_last }
            }
            Kind::Receive => {
                let id = cqueue::buffer_select(completion.flags());
                Event::Received { key, result: self.buffers.lend(id, result), is_last }
            }
            Kind::Send => Event::Sent { key, result: result.map(|count| count as usize) },
            Kind::Poll => Event::Ready { key },
            Kind::PollEnd => {
                let gone = u32::from((libc::POLLERR | libc::POLLHUP).cast_unsigned());
                Event::Ended { key, is_gone: result.is_ok_and(|mask| mask & gone != 0) }
            }
        };
        if is_last {
            self.end(operation);
        }
        Some(event)
    }

    /// Handles the end of an operation, with which the kernel is done.
    #[inline]
    fn end(&mut self, operation: Operation) {
        let mut bytes = self.operations.remove(operation);
        if (1..=SPARE_BYTES_MAX).contains(&bytes.capacity()) && self.spare.len() < SPARE_MAX {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// Ends all operations. Returns whether the kernel is done with all of them.
    fn end_operations(&mut self) -> bool {
        /// Each turn waits until something has happened: operations end soon after they are
        /// cancelled.
        const TURNS_MAX: usize = 100;
        const TURN_US: u64 = 10_000;
        for _ in 0..TURNS_MAX {
            while self.next_event().is_some() {}
            if self.operations.is_empty() {
                return true;
            }
            let submitted = self.wait(Some(0));
            let all = CancelBuilder::any();
            // It is an error, too, if there is nothing to cancel.
            let _ = self.uring.submitter().register_sync_cancel(None, all);
            if submitted.and_then(|()| self.wait(Some(TURN_US))).is_err() {
                return false;
            }
        }
        false
    }
}

impl Drop for Ring {
    /// Leaks the memory that the kernel may still read or write if operations do not end.
    fn drop(&mut self) {
        if !self.end_operations() {
            self.buffers.leak();
            std::mem::take(&mut self.operations).leak();
        }
        if self.table.is_some() {
            let _ = self.wait(Some(0)); // places are given up now, and not some time later
        }
    }
}

fn set_up(entries: u32) -> io::Result<IoUring> {
    let build = |change: fn(&mut Builder) -> &mut Builder| {
        let mut builder = IoUring::builder();
        builder
            .setup_single_issuer()
            .setup_coop_taskrun()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_clamp()
            .setup_cqsize(entries.saturating_mul(COMPLETIONS_PER_ENTRY));
        change(&mut builder).build(entries)
    };
    // Linux 6.6 can do without an array of indices between the caller and the entries.
    match build(Builder::setup_no_sqarray) {
        Err(why) if why.kind() == ErrorKind::InvalidInput => build(|builder| builder),
        built => built,
    }
}

/// Whether the ring is as good as before: the timeout has passed, a signal came, or the kernel
/// wants completions to be read first.
fn ends_wait_only(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::Interrupted | ErrorKind::ResourceBusy | ErrorKind::WouldBlock)
        || Cause::from_error(why) == Cause::TimeOver
}

fn explain(why: &io::Error) -> io::Error {
    let text = match why.kind() {
        ErrorKind::PermissionDenied => {
            "io_uring is not permitted here (a container's system call filter, or \
             kernel.io_uring_disabled)"
        }
        ErrorKind::Unsupported => "this kernel has no io_uring, or a system call filter hides it",
        ErrorKind::InvalidInput => "this kernel's io_uring is older than Linux 6.1 (DEFER_TASKRUN)",
        kind => return io::Error::new(kind, format!("io_uring cannot be set up: {why}")),
    };
    io::Error::new(why.kind(), text)
}

fn owned(descriptor: u32) -> OwnedFd {
    // SAFETY: a successful operation has made this descriptor, below 2^31, and nothing else knows
    // it.
    unsafe { OwnedFd::from_raw_fd(descriptor.cast_signed()) }
}
