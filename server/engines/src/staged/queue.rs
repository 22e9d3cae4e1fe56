//! The queues between stages. The threads of working stages take from a [`Queue`], at which they
//! sleep; stages that wait in the kernel have an [`Inbox`], which they check between waits.
//!
//! Both pass whole batches, and wake a thread only if none is awake that will check the queue: a
//! hand-over under load is a lock and no system call. Neither is bounded: the items are
//! connections, whose number is limited.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::Duration;

use super::sync::{Condvar, Mutex, MutexGuard};

/// Work for the threads of a stage.
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
    division: Division,
}

/// How work in a queue is divided: the thread that takes leaves parts to sleeping threads, as far
/// as there are CPUs for them and a part is worth a wake-up call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Division {
    /// The number of threads that can run beside the one that takes.
    pub(super) max: usize,
    /// The smallest part: fewer items than this are not divided.
    pub(super) part_min: usize,
}

struct State<T> {
    items: VecDeque<T>,
    /// The number of threads that sleep, or were called and are not awake yet: called <= asleep.
    asleep: usize,
    /// The number of threads that were called and are not awake yet. Each will check the queue
    /// before it sleeps again.
    called: usize,
    /// How often sleepers were woken without work.
    nudges: u32,
    is_closed: bool,
    figures: Figures,
}

/// The statistics of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// The number of items in the queue.
    pub(super) len: usize,
    /// The largest number of items that were ever in it.
    pub(super) longest: usize,
    /// The number of batches taken.
    pub(super) batches: u64,
    /// The number of items in all batches together.
    pub(super) taken: u64,
}

impl Figures {
    /// What the status says of a stage with this queue.
    pub(super) fn show(self, stage: &str) -> String {
        let Self { len, longest, batches, taken } = self;
        let mean = taken as f64 / batches.max(1) as f64;
        format!(
            "{stage}: {len} in its queue (at most {longest}), {taken} taken in {batches} batches \
             of {mean:.1}"
        )
    }
}

/// The outcome of waiting for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The wait ended with a batch of work.
    Batch,
    /// The wait ended without work: sleepers are to do their housekeeping.
    Nudged,
    /// The time to wait passed without work.
    TimedOut,
    /// The queue is closed and empty.
    Closed,
}

impl<T> Queue<T> {
    pub(super) fn new(division: Division) -> Self {
        let state = State {
            items: VecDeque::new(),
            asleep: 0,
            called: 0,
            nudges: 0,
            is_closed: false,
            figures: Figures::default(),
        };
        Self { state: Mutex::new(state), filled: Condvar::new(), division }
    }

    /// Adds all of `items`. If the queue is closed they are dropped.
    pub(super) fn push(&self, items: &mut Vec<T>) {
        if items.is_empty() {
            return;
        }
        let mut state = self.lock();
        if state.is_closed {
            drop(state);
            return items.clear();
        }
        state.items.extend(items.drain(..));
        state.figures.longest = state.figures.longest.max(state.items.len());
        self.call_if_needed(state);
    }

    /// Moves up to `count` items to `batch`, and waits for the first if there is none. Parts that
    /// sleeping threads can work on at the same time are left to them.
    pub(super) fn take(
        &self,
        count: usize,
        batch: &mut Vec<T>,
        timeout: Option<Duration>,
    ) -> Taken {
        let mut state = self.lock();
        let nudges = state.nudges;
        while state.items.is_empty() {
            if state.is_closed {
                return Taken::Closed;
            }
            if state.nudges != nudges {
                return Taken::Nudged;
            }
            let is_in_time;
            (state, is_in_time) = self.sleep(state, timeout);
            if !is_in_time && state.items.is_empty() && !state.is_closed {
                return Taken::TimedOut;
            }
        }
        let len = state.items.len();
        let part = len.div_ceil(1 + state.asleep.min(self.division.max));
        let count = count.min(part.max(self.division.part_min)).min(len);
        batch.extend(state.items.drain(..count));
        state.figures.batches += 1;
        state.figures.taken += count as u64;
        // The remaining items are for another thread.
        self.call_if_needed(state);
        Taken::Batch
    }

    /// Wakes the sleeping threads without work, for their housekeeping.
    pub(super) fn nudge(&self) {
        let mut state = self.lock();
        state.nudges = state.nudges.wrapping_add(1);
        drop(state);
        self.filled.notify_all();
    }

    /// Closes the queue: the items in it can still be taken, then `take` returns
    /// [`Taken::Closed`].
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_all();
    }

    /// Drops all items.
    pub(super) fn clear(&self) {
        let items = std::mem::take(&mut self.lock().items);
        drop(items); // not under the lock: it may take long
    }

    pub(super) fn figures(&self) -> Figures {
        let state = self.lock();
        Figures { len: state.items.len(), ..state.figures }
    }

    /// The number of threads that sleep.
    #[cfg(test)]
    pub(super) fn sleepers(&self) -> usize {
        self.lock().asleep
    }

    /// Calls one more sleeper if there is work and not all sleepers are called. One call too many
    /// costs a check; one too few would leave work lying while a thread sleeps.
    fn call_if_needed(&self, mut state: MutexGuard<'_, State<T>>) {
        let is_needed = !state.items.is_empty() && state.called < state.asleep;
        state.called += usize::from(is_needed);
        drop(state);
        if is_needed {
            self.filled.notify_one();
        }
    }

    /// Sleeps until the thread is woken or `timeout` is over. Returns false if it is over.
    fn sleep<'q>(
        &self,
        mut state: MutexGuard<'q, State<T>>,
        timeout: Option<Duration>,
    ) -> (MutexGuard<'q, State<T>>, bool) {
        state.asleep += 1;
        let (mut state, is_in_time) = match timeout {
            None => (self.filled.wait(state).unwrap_or_else(PoisonError::into_inner), true),
            Some(timeout) => {
                let woken = self.filled.wait_timeout(state, timeout);
                let (state, waited) = woken.unwrap_or_else(PoisonError::into_inner);
                (state, !waited.timed_out())
            }
        };
        state.asleep -= 1;
        // A thread that wakes counts as one that was called, even if it was not.
        state.called = state.called.saturating_sub(1);
        (state, is_in_time)
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Poisoning is ignored: no code that can panic runs in the middle of a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The items handed to one thread that waits in the kernel most of the time.
pub(super) struct Inbox<T> {
    state: Mutex<InboxState<T>>,
}

struct InboxState<T> {
    items: Vec<T>,
    sleep: Sleep,
    is_closed: bool,
    figures: Figures,
}

/// The items that an inbox's owner is woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sleep {
    /// The owner is not woken: it is awake, and will check the inbox before it sleeps.
    Awake,
    /// The owner is woken for any item.
    ForAll,
    /// The owner is woken for urgent items. It takes the others when something else wakes it.
    ForUrgent,
}

impl<T> Inbox<T> {
    pub(super) fn new() -> Self {
        let figures = Figures::default();
        let (sleep, is_closed) = (Sleep::Awake, false);
        Self { state: Mutex::new(InboxState { items: Vec::new(), sleep, is_closed, figures }) }
    }

    /// Adds all of `items`; `is_urgent` tells whether some are urgent. Returns whether the owner
    /// must be woken to take them. If the inbox is closed the items are dropped.
    #[must_use]
    pub(super) fn push(&self, items: &mut Vec<T>, is_urgent: bool) -> bool {
        if items.is_empty() {
            return false;
        }
        let mut state = self.lock();
        if state.is_closed {
            drop(state);
            items.clear();
            return false;
        }
        state.items.append(items);
        state.figures.longest = state.figures.longest.max(state.items.len());
        let wakes = match state.sleep {
            Sleep::Awake => false,
            Sleep::ForAll => true,
            Sleep::ForUrgent => is_urgent,
        };
        if wakes {
            state.sleep = Sleep::Awake;
        }
        wakes
    }

    /// Moves all items into `batch`, which must be empty.
    pub(super) fn take(&self, batch: &mut Vec<T>) {
        let mut state = self.lock();
        state.sleep = Sleep::Awake;
        if !state.items.is_empty() {
            std::mem::swap(&mut state.items, batch);
            state.figures.batches += 1;
            state.figures.taken += batch.len() as u64;
        }
    }

    /// Closes the inbox, whose owner has ended, and drops all items.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let items = std::mem::take(&mut state.items);
        drop(state);
        drop(items);
    }

    /// Whether the owner may sleep: only if the inbox is empty. From then on a thread that adds an
    /// item wakes the owner, if it is to be woken for that.
    #[must_use]
    pub(super) fn may_sleep(&self, how: Sleep) -> bool {
        let mut state = self.lock();
        state.sleep = if state.items.is_empty() { how } else { Sleep::Awake };
        state.items.is_empty()
    }

    pub(super) fn figures(&self) -> Figures {
        let state = self.lock();
        Figures { len: state.items.len(), ..state.figures }
    }

    fn lock(&self) -> MutexGuard<'_, InboxState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
