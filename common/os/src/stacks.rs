//! Stacks for fibers, from one mapping: small, with a guard page each, used again when given back.
//!
//! A guard page is a mark in the page table where the kernel can do that (`MADV_GUARD_INSTALL`,
//! Linux 6.13): any number of stacks is one mapping then. Older kernels split the mapping at every
//! guard page, two mappings for a stack, and `vm.max_map_count` (65,530 as a rule) bounds them all;
//! [`Stacks::take`] fails beyond. Memory of a stack that was never touched costs nothing. This
//! module allocates nothing but stacks, and runs nothing on them: see [`crate::fiber`].

use std::io;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use corosensei::stack::{MIN_STACK_SIZE, Stack as CoroutineStack, StackPointer};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::call::check;
use crate::memory::page_bytes;

/// Makes pages fault when they are touched, by a mark in the page table (Linux 6.13).
const MADV_GUARD_INSTALL: libc::c_int = 102;

/// Stacks of one size. Copies share them.
#[derive(Clone, Debug)]
pub struct Stacks {
    slab: Arc<Slab>,
}

/// One stack; when it is dropped it goes back to its [`Stacks`].
#[derive(Debug)]
pub struct Stack {
    slab: Arc<Slab>,
    index: usize, // < slab.count, and in no other Stack
}

/// How overflowing stacks are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// By marks in the page table: no bound on the number of stacks.
    Marked,
    /// By pages without permissions: `vm.max_map_count` bounds the number of stacks.
    Protected,
}

#[derive(Debug)]
struct Slab {
    /// The lowest address, that of the first guard page.
    start: usize,
    count: usize,
    /// Bytes from one stack to the next: a guard page and a stack.
    stride: usize,
    page: usize,
    guard: Guard,
    free: Mutex<Free>,
}

#[derive(Debug)]
struct Free {
    /// Stacks that were given back, the most recently used last.
    used: Vec<u32>,
    /// The first stack that was never taken: it has no guard page yet.
    fresh: usize,
}

impl Stacks {
    /// Room for `count` stacks of `bytes` each, rounded up to pages. Only address space is taken.
    ///
    /// # Errors
    /// There is not enough address space.
    pub fn new(count: usize, bytes: usize) -> io::Result<Self> {
        let page = page_bytes();
        let count = count.clamp(1, u32::MAX as usize);
        let stride = bytes.max(MIN_STACK_SIZE).next_multiple_of(page) + page;
        let len = count.checked_mul(stride).ok_or(io::ErrorKind::InvalidInput)?;
        let start = map(len)?;
        let free = Mutex::new(Free { used: Vec::new(), fresh: 0 });
        let mut slab = Slab { start, count, stride, page, guard: Guard::Marked, free };
        if slab.install_guard(0).is_err() {
            slab.guard = Guard::Protected;
        }
        Ok(Self { slab: Arc::new(slab) })
    }

    /// A stack; none if all are in use.
    ///
    /// # Errors
    /// No guard page can be made: without marks in the page table, `vm.max_map_count` is used up.
    pub fn take(&self) -> io::Result<Option<Stack>> {
        let mut free = self.slab.free();
        let index = match free.used.pop() {
            Some(index) => index as usize,
            None if free.fresh == self.slab.count => return Ok(None),
            None => {
                self.slab.install_guard(free.fresh)?;
                free.fresh += 1;
                free.fresh - 1
            }
        };
        Ok(Some(Stack { slab: Arc::clone(&self.slab), index }))
    }

    /// Prepares `count` stacks, so that taking one of them needs no call into the kernel.
    ///
    /// # Errors
    /// The errors of [`Stacks::take`].
    pub fn prepare(&self, count: usize) -> io::Result<()> {
        let mut ready = Vec::new();
        while ready.len() < count
            && let Some(stack) = self.take()?
        {
            stack.touch();
            ready.push(stack);
        }
        Ok(()) // dropped here, they are free and warm
    }

    /// How overflowing stacks are stopped.
    #[must_use]
    pub fn guard(&self) -> Guard {
        self.slab.guard
    }
}

impl Stack {
    /// Has the kernel provide the stack's first page.
    fn touch(&self) {
        let top = (self.base().get() - size_of::<u64>()) as *mut u64;
        // SAFETY: the topmost word of this stack, aligned because stacks end at page boundaries; no
        // other code uses it, because this is the only Stack with this index and it is borrowed.
        unsafe { top.write_volatile(0) }
    }
}

// SAFETY: the memory between limit and base is mapped for as long as the slab lives, which this
// value holds; no other Stack has the same index, so no other code uses it. The lowest page faults
// (`install_guard` succeeded before the index was given out), and above it lie at least
// MIN_STACK_SIZE bytes. Both ends are page boundaries, so aligned.
unsafe impl CoroutineStack for Stack {
    fn base(&self) -> StackPointer {
        address(self.slab.start + (self.index + 1) * self.slab.stride)
    }

    fn limit(&self) -> StackPointer {
        address(self.slab.start + self.index * self.slab.stride)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // Indices are bounded by `Stacks::new`.
        self.slab.free().used.push(self.index as u32);
    }
}

impl Slab {
    fn free(&self) -> MutexGuard<'_, Free> {
        // No list in there is ever in the middle of a change.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the lowest page of a stack fault when it is touched. Harmless if it does already.
    fn install_guard(&self, index: usize) -> io::Result<()> {
        let page = (self.start + index * self.stride) as *mut libc::c_void;
        // SAFETY: the page lies within this slab's mapping, at the low end of a stack that has
        // never been taken, so that nothing in it is lost.
        check(unsafe {
            match self.guard {
                Guard::Marked => libc::madvise(page, self.page, MADV_GUARD_INSTALL),
                Guard::Protected => libc::mprotect(page, self.page, libc::PROT_NONE),
            }
        })?;
        Ok(())
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: the mapping of `Stacks::new`; every Stack holds the slab, so none is left.
        let unmapped = unsafe { munmap(self.start as *mut _, self.count * self.stride) };
        debug_assert!(unmapped.is_ok(), "it was mapped just so");
    }
}

/// Address space for stacks. Huge pages would make one touched stack cost as much as a hundred.
fn map(len: usize) -> io::Result<usize> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::STACK;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that
    // exists; the advice concerns that mapping only.
    unsafe {
        let start = mmap_anonymous(std::ptr::null_mut(), len, access, flags)?;
        let _ = madvise(start, len, Advice::LinuxNoHugepage); // a kernel without them refuses: good
        Ok(start as usize)
    }
}

fn address(number: usize) -> StackPointer {
    NonZeroUsize::new(number).expect("nothing is mapped at address 0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use corosensei::Coroutine;
    use std::hint::black_box;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    const OVERFLOWING: &str = "ROPEWALK_OS_OVERFLOWING";

    #[test]
    fn stacks_are_given_out_once_and_again_when_they_are_back() {
        let stacks = Stacks::new(3, 1).unwrap();
        let mut taken: Vec<Stack> =
            (0..3).map(|_| stacks.take().unwrap().expect("there are three")).collect();
        assert!(stacks.take().unwrap().is_none());
        let mut bases: Vec<_> = taken.iter().map(CoroutineStack::base).collect();
        bases.sort_unstable();
        assert!(bases.windows(2).all(|pair| pair[0] < pair[1]));
        let back = taken.swap_remove(1);
        let base = back.base();
        drop(back);
        assert_eq!(stacks.take().unwrap().unwrap().base(), base);
    }

    #[test]
    fn a_hundred_thousand_stacks_are_no_matter_of_mappings() {
        let stacks = Stacks::new(100_000, 16 * 1024).unwrap();
        if stacks.guard() == Guard::Protected {
            return; // this kernel has a bound, as the head of this file says
        }
        let before = crate::memory::resident_bytes(std::process::id()).unwrap();
        let taken: Vec<_> = (0..100_000).map(|_| stacks.take().unwrap().unwrap()).collect();
        let after = crate::memory::resident_bytes(std::process::id()).unwrap();
        // No stack is touched yet: what has grown is the list above, and memory of other tests.
        assert!(after.saturating_sub(before) < 200 << 20, "{before} -> {after}");
        drop(taken);
    }

    #[test]
    fn prepared_stacks_are_taken_warm() {
        let stacks = Stacks::new(8, 4096).unwrap();
        stacks.prepare(100).unwrap();
        assert_eq!(stacks.slab.free().used.len(), 8);
        assert_eq!(stacks.slab.free().fresh, 8);
    }

    #[test]
    fn a_stack_that_overflows_ends_the_process() {
        for guard in ["marked", "protected"] {
            let this = std::env::current_exe().unwrap();
            let test = "stacks::tests::overflow_in_a_child";
            let mut child = Command::new(this);
            child.args(["--exact", test, "--ignored", "--nocapture"]).env(OVERFLOWING, guard);
            let status = child.output().unwrap().status;
            assert_eq!(status.signal(), Some(libc::SIGSEGV), "{guard}: {status}");
        }
    }

    #[test]
    #[ignore = "ends its process: run by the test above"]
    fn overflow_in_a_child() {
        let Ok(guard) = std::env::var(OVERFLOWING) else { return };
        let stacks = Stacks::new(2, 16 * 1024).unwrap();
        // The neighbour below is in use: without a guard its memory would be overwritten unseen.
        let _neighbour = stacks.take().unwrap().unwrap();
        let stack = stacks.take().unwrap().unwrap();
        if guard == "protected" {
            let page = stack.limit().get() as *mut libc::c_void;
            // SAFETY: the guard page of a stack of this test.
            check(unsafe { libc::mprotect(page, stacks.slab.page, libc::PROT_NONE) }).unwrap();
        }
        let mut fiber = Coroutine::<(), (), usize, _>::with_stack(stack, |_, ()| deep(1 << 20));
        fiber.resume(());
    }

    fn deep(levels: usize) -> usize {
        let frame = black_box([levels; 16]);
        if levels == 0 { frame[0] } else { deep(levels - 1) + black_box(frame)[1] }
    }
}
