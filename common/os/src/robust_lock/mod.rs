//! A lock in shared memory that survives its holder: a process killed while it holds a lock leaves
//! it to be taken over, and the process that takes it over is told that the data may be half
//! changed.
//!
//! The lock word names its holder, an incarnation of a process that [`Owners`] knows. A waiter that
//! has waited for long checks whether the holder lives; the process that reaps a dead one releases
//! its locks at once ([`Owners::release_dead`]). The C library's robust mutex would serve as well:
//! this lock is a number in a cell, like everything that processes share here, and a model checker
//! tries its steps.
//!
//! Waits are short by design (there is no fairness), and a wake-up that is lost because its
//! receiver was killed delays a waiter by one period at most. Not for threads of one process to
//! exclude one another: they count as one holder.

mod protocol;

use std::fs;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use protocol::{Place, Taken};

/// How often a waiter checks whether the holder lives.
const LOOK_NS: i64 = 20_000_000;

/// Tries before a waiter sleeps: the work done under these locks takes about a microsecond.
const SPINS: u32 = 100;

/// Cells for each process: its incarnation, its process number, its start time.
const CELLS_EACH: usize = 3;

/// The processes that may hold locks. Each has a slot, and each incarnation of a slot has a number.
#[derive(Clone, Copy)]
pub struct Owners {
    cells: &'static [AtomicU64],
}

/// One process as a holder of locks.
#[derive(Clone, Copy)]
pub struct Owner {
    number: u32,
    owners: Owners,
}

/// A lock that is held until this is dropped.
pub struct Held {
    word: &'static AtomicU64,
    owner: Owner,
    is_inherited: bool,
}

impl Owners {
    /// Cells needed for that many processes.
    #[must_use]
    pub const fn cells(slots: usize) -> usize {
        slots * CELLS_EACH
    }

    /// The processes whose slots are in `cells`, which were all 0 at the beginning.
    #[must_use]
    pub fn new(cells: &'static [AtomicU64]) -> Self {
        Self { cells }
    }

    /// Takes a slot for the calling process. `number` must be new: no incarnation in any slot has
    /// ever had it. It is at least 1 and at most [`Owner::NUMBER_MAX`].
    ///
    /// # Errors
    /// /proc cannot be read.
    pub fn enter(self, slot: usize, number: u32) -> io::Result<Owner> {
        assert!(
            (1..=Owner::NUMBER_MAX).contains(&number),
            "{number} is not the number of an incarnation"
        );
        let pid = std::process::id();
        let (_, started) = state_of(pid)?;
        let [incarnation, process, start] = self.slot(slot);
        process.store(pid.into(), Ordering::Relaxed);
        start.store(started, Ordering::Relaxed);
        // A process that sees the number sees the other cells, too.
        incarnation.store(number.into(), Ordering::Release);
        Ok(Owner { number, owners: self })
    }

    /// Releases whatever of `locks` the dead incarnation in this slot held, and empties the slot.
    /// Only when it is known to be dead. A process that was killed before it entered held nothing.
    pub fn release_dead(self, slot: usize, locks: impl Iterator<Item = &'static AtomicU64>) {
        let [incarnation, ..] = self.slot(slot);
        let number = incarnation.load(Ordering::Acquire) as u32;
        if number != 0 {
            locks.for_each(|word| protocol::release_dead(&Word { word, owners: self }, number));
            incarnation.store(0, Ordering::Release);
        }
    }

    /// Whether the incarnation with this number has ended. If this cannot be checked (no descriptor
    /// is left to open /proc with) it counts as living, and will be checked again.
    fn is_dead(self, number: u32) -> bool {
        let slots = self.cells.chunks_exact(CELLS_EACH);
        let slot = slots.into_iter().find(|slot| slot[0].load(Ordering::Acquire) as u32 == number);
        let Some([_, process, start]) = slot else {
            return true; // buried: its slot is empty, or another's
        };
        let (pid, started) = (process.load(Ordering::Relaxed), start.load(Ordering::Relaxed));
        match state_of(pid as u32) {
            Ok((state, since)) => since != started || matches!(state, b'Z' | b'X'),
            Err(why) => why.kind() == io::ErrorKind::NotFound,
        }
    }

    fn slot(self, slot: usize) -> [&'static AtomicU64; CELLS_EACH] {
        std::array::from_fn(|cell| &self.cells[slot * CELLS_EACH + cell])
    }
}

impl Owner {
    /// The largest number of an incarnation.
    pub const NUMBER_MAX: u32 = protocol::OWNER_MAX;

    /// Waits for the lock in `word`, which was 0 at the beginning.
    #[must_use]
    pub fn lock(self, word: &'static AtomicU64) -> Held {
        let is_inherited =
            protocol::lock(&Word { word, owners: self.owners }, self.number) == Taken::Inherited;
        Held { word, owner: self, is_inherited }
    }
}

impl Held {
    /// Whether the last holder died, so that the guarded data may be in the middle of a change.
    #[must_use]
    pub fn is_inherited(&self) -> bool {
        self.is_inherited
    }
}

impl Drop for Held {
    /// Releases the lock. If the holder panics, the next holder is told the same as after a death.
    fn drop(&mut self) {
        let word = Word { word: self.word, owners: self.owner.owners };
        protocol::unlock(&word, std::thread::panicking());
    }
}

/// A lock word in memory that processes share, with its value in the lower half, and the processes
/// that may hold it.
struct Word {
    word: &'static AtomicU64,
    owners: Owners,
}

impl Place for Word {
    fn load(&self) -> u32 {
        self.word.load(Ordering::Acquire) as u32
    }

    fn exchange(&self, current: u32, new: u32) -> bool {
        let (current, new) = (current.into(), new.into());
        self.word.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn replace(&self, new: u32) -> u32 {
        self.word.swap(new.into(), Ordering::AcqRel) as u32
    }

    fn wait(&self, expected: u32) {
        wait(self.word, expected, LOOK_NS);
    }

    fn wake_one(&self) {
        wake(self.word, 1);
    }

    fn is_dead(&self, owner: u32) -> bool {
        self.owners.is_dead(owner)
    }

    fn spins(&self) -> u32 {
        SPINS
    }
}

/// Sleeps until this word is woken or `timeout_ns` have passed; not at all unless its lower half is
/// `expected`.
pub(crate) fn wait(word: &AtomicU64, expected: u32, timeout_ns: i64) {
    let timeout =
        libc::timespec { tv_sec: timeout_ns / 1_000_000_000, tv_nsec: timeout_ns % 1_000_000_000 };
    // SAFETY: the address is that of the lower half of a live 64-bit atomic, aligned to 4; the
    // kernel only reads it, atomically. The timeout lives through the call. Not a private futex:
    // the word may be in memory that processes share. Whatever the call returns, the caller checks
    // the word again.
    unsafe {
        let address = lower_half(word);
        let none = ptr::null::<u32>();
        libc::syscall(libc::SYS_futex, address, libc::FUTEX_WAIT, expected, &timeout, none, 0);
    }
}

/// Wakes up to `count` waiters of this word.
pub(crate) fn wake(word: &AtomicU64, count: i32) {
    let none = ptr::null::<u32>();
    // SAFETY: the address is that of the lower half of a live 64-bit atomic; waking touches no
    // memory.
    unsafe {
        let address = lower_half(word);
        libc::syscall(libc::SYS_futex, address, libc::FUTEX_WAKE, count, none, none, 0);
    }
}

fn lower_half(word: &AtomicU64) -> *mut u32 {
    let halves = word.as_ptr().cast::<u32>();
    // In bounds either way: a 64-bit number has two halves.
    halves.wrapping_add(usize::from(cfg!(target_endian = "big")))
}

/// The state letter of a process, and when it started (proc_pid_stat(5), fields 3 and 22).
fn state_of(pid: u32) -> io::Result<(u8, u64)> {
    let text = fs::read(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may hold anything; the last one ends it.
    let name_end = text.iter().rposition(|&byte| byte == b')').unwrap_or(0);
    let mut fields = text[name_end..].split(|&byte| byte == b' ').skip(1);
    let state = fields.next().and_then(|field| field.first().copied());
    let start = fields.nth(18).and_then(|field| str::from_utf8(field).ok()?.parse().ok());
    let unreadable = || io::Error::new(io::ErrorKind::InvalidData, "cannot read /proc/pid/stat");
    state.zip(start).ok_or_else(unreadable)
}

#[cfg(test)]
mod tests;
