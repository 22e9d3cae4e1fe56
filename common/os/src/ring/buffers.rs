//! The buffers of a ring, from which the kernel takes one when it has received bytes to put into
//! it.
//!
//! A buffer is the kernel's or lent to the caller, never both. Their number does not grow: when all
//! are lent an operation that needs one ends with ENOBUFS.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;

use crate::call::error;

/// The one group of buffers of a ring.
pub(super) const GROUP: u16 = 0;

/// The ring of entries begins at a page, and 64 KiB are the largest pages there are.
const ALIGNMENT: usize = 64 * 1024;

/// The largest number of buffers that the kernel accepts.
const COUNT_MAX: u16 = 1 << 15;

/// Received bytes, in a buffer that is the caller's until it is given back to the ring.
#[derive(Debug)]
#[must_use = "a buffer that is not given back is lost to the ring"]
pub struct Received {
    pub(super) id: u16,
}

/// The holder of a buffer: the kernel or the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Kernel,
    /// The caller, with this many bytes in the buffer.
    Caller(u32),
}

/// The buffers and the ring of entries by which they are provided to the kernel: one piece of
/// memory, entries first.
pub(super) struct BufferRing {
    memory: NonNull<u8>,
    layout: Layout,
    /// A power of two.
    count: u16,
    buffer_bytes: u32,
    /// Entries written so far.
    tail: u16,
    holders: Vec<Holder>,
    is_leaked: bool,
}

impl BufferRing {
    /// Registers buffers with a ring, which must be dropped before they are, unless they are
    /// leaked.
    pub(super) fn new(uring: &IoUring, count: u16, buffer_bytes: u32) -> io::Result<Self> {
        let count = count.clamp(1, COUNT_MAX).next_power_of_two();
        let buffer_bytes = buffer_bytes.max(1);
        let bytes = usize::from(count) * (size_of::<BufRingEntry>() + buffer_bytes as usize);
        let layout = Layout::from_size_align(bytes, ALIGNMENT).map_err(|_| error(libc::ENOMEM))?;
        // SAFETY: the layout is not empty.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) });
        let memory = memory.ok_or_else(|| error(libc::ENOMEM))?;
        let holders = vec![Holder::Caller(0); usize::from(count)];
        let mut buffers =
            Self { memory, layout, count, buffer_bytes, tail: 0, holders, is_leaked: false };
        // SAFETY: the memory begins with as many entries, and lives until the ring is gone.
        unsafe {
            let address = memory.as_ptr() as u64;
            uring.submitter().register_buf_ring_with_flags(address, count, GROUP, 0)?;
        }
        (0..count).for_each(|id| buffers.provide(id));
        Ok(buffers)
    }

    /// Handles the completion of a receive: the kernel has put `len` bytes into the buffer `id`.
    #[inline]
    pub(super) fn lend(
        &mut self,
        id: Option<u16>,
        outcome: io::Result<u32>,
    ) -> io::Result<Option<Received>> {
        let Some(id) = id else { return outcome.map(|_| None) };
        let len = outcome.as_ref().map_or(0, |len| *len).min(self.buffer_bytes);
        self.holders[usize::from(id)] = Holder::Caller(len);
        if len == 0 {
            self.provide(id);
            return outcome.map(|_| None);
        }
        Ok(Some(Received { id }))
    }

    /// The bytes in a buffer; empty if it was lent by another ring.
    #[inline]
    pub(super) fn bytes(&self, received: &Received) -> &[u8] {
        match self.holders.get(usize::from(received.id)) {
            Some(Holder::Caller(len)) => {
                // SAFETY: the buffer lies within the memory, which is initialised; the kernel has
                // written `len` bytes of it at most, and does not touch it before `provide`,
                // which needs this structure exclusively.
                unsafe { std::slice::from_raw_parts(self.address(received.id), *len as usize) }
            }
            _ => &[],
        }
    }

    /// Provides a buffer to the kernel, unless the kernel has it already.
    #[inline]
    pub(super) fn provide(&mut self, id: u16) {
        let Some(holder @ Holder::Caller(_)) = self.holders.get_mut(usize::from(id)) else {
            return;
        };
        *holder = Holder::Kernel;
        let (address, len) = (self.address(id) as u64, self.buffer_bytes);
        let index = usize::from(self.tail & (self.count - 1));
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the memory begins with `count` entries, aligned as the kernel wants them, and
        // `index` is below that. The kernel reads an entry only after it has seen the new tail,
        // which lies in the first entry, in a field that nothing else writes. There is room for the
        // entry because there are as many as buffers, and this buffer was not in the ring.
        unsafe {
            let entries = self.memory.as_ptr().cast::<BufRingEntry>();
            let entry = &mut *entries.add(index);
            entry.set_addr(address);
            entry.set_len(len);
            entry.set_bid(id);
            let tail = BufRingEntry::tail(entries).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }

    /// Keeps the memory allocated for ever.
    pub(super) fn leak(&mut self) {
        self.is_leaked = true;
    }

    fn address(&self, id: u16) -> *const u8 {
        let entries = usize::from(self.count) * size_of::<BufRingEntry>();
        let at = entries + usize::from(id) * self.buffer_bytes as usize;
        // SAFETY: buffers of ids below `count` lie within the memory.
        unsafe { self.memory.as_ptr().add(at) }
    }
}

impl Drop for BufferRing {
    fn drop(&mut self) {
        if !self.is_leaked {
            // SAFETY: it was allocated with this layout, and the ring is gone, or was never made.
            unsafe { dealloc(self.memory.as_ptr(), self.layout) };
        }
    }
}
