//! The queues between stages. Stages whose threads do the work take from a [`Queue`], which they
//! sleep at; stages that wait in the kernel have an [`Inbox`], which they look into between waits.
//!
//! Both take and give whole batches, and wake somebody only if nobody is awake who will look: a
//! hand-over under load is a lock and no system call. Neither is bounded: what travels is
//! connections, and of those there are only so many.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::Duration;

use super::sync::{Condvar, Mutex, MutexGuard};

/// Work for the threads of a stage.
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
    helpers: Helpers,
}

/// How work in a queue is divided: the thread that takes leaves parts to threads that sleep, as far
/// as there are CPUs for them and it is worth a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Helpers {
    /// Threads that can run beside the one that takes.
    pub(super) max: usize,
    /// What is fewer than this is not divided.
    pub(super) part_min: usize,
}

struct State<T> {
    items: VecDeque<T>,
    /// Threads that sleep, or have been called and are not up yet: called <= asleep.
    asleep: usize,
    /// Threads that were called and are not up yet. Each will look at the queue before it sleeps
    /// again.
    called: usize,
    /// How often sleepers were woken without work.
    nudges: u32,
    is_closed: bool,
    figures: Figures,
}

/// What a queue has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    /// How many wait in it.
    pub(super) len: usize,
    /// The most that ever did.
    pub(super) longest: usize,
    /// Batches taken.
    pub(super) batches: u64,
    /// What was in them, together.
    pub(super) taken: u64,
}

/// How waiting for work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The wait ended with a batch of work.
    Batch,
    /// The wait ended without work: sleepers are to look around.
    Nudged,
    /// The time to wait passed without work.
    TimedOut,
    /// There will be no more.
    Closed,
}

impl<T> Queue<T> {
    pub(super) fn new(helpers: Helpers) -> Self {
        let state = State {
            items: VecDeque::new(),
            asleep: 0,
            called: 0,
            nudges: 0,
            is_closed: false,
            figures: Figures::default(),
        };
        Self { state: Mutex::new(state), filled: Condvar::new(), helpers }
    }

    /// Adds all of `items`. What is put into a closed queue is dropped.
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

    /// Adds up to `count` items to `batch`, and waits for the first if there is none. What others
    /// that sleep can do at the same time is left to them.
    pub(super) fn take(
        &self,
        count: usize,
        batch: &mut Vec<T>,
        patience: Option<Duration>,
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
            let is_patient;
            (state, is_patient) = self.sleep(state, patience);
            if !is_patient && state.items.is_empty() && !state.is_closed {
                return Taken::TimedOut;
            }
        }
        let len = state.items.len();
        let part = len.div_ceil(1 + state.asleep.min(self.helpers.max));
        let count = count.min(part.max(self.helpers.part_min)).min(len);
        batch.extend(state.items.drain(..count));
        state.figures.batches += 1;
        state.figures.taken += count as u64;
        // What is left is for another thread.
        self.call_if_needed(state);
        Taken::Batch
    }

    /// Has threads that sleep look around: there is no work, but something to let go of.
    pub(super) fn nudge(&self) {
        let mut state = self.lock();
        state.nudges = state.nudges.wrapping_add(1);
        drop(state);
        self.filled.notify_all();
    }

    /// Ends it: what is in it can still be taken, then threads are sent home.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_all();
    }

    /// Drops all that is in it.
    pub(super) fn clear(&self) {
        let items = std::mem::take(&mut self.lock().items);
        drop(items); // what that costs is not paid under the lock
    }

    pub(super) fn figures(&self) -> Figures {
        let state = self.lock();
        Figures { len: state.items.len(), ..state.figures }
    }

    /// How many threads sleep.
    #[cfg(test)]
    pub(super) fn sleepers(&self) -> usize {
        self.lock().asleep
    }

    /// Calls one more sleeper if there is work that nobody is on the way to. A call too many costs
    /// a look; one too few would leave work lying while a thread sleeps.
    fn call_if_needed(&self, mut state: MutexGuard<'_, State<T>>) {
        let is_needed = !state.items.is_empty() && state.called < state.asleep;
        state.called += usize::from(is_needed);
        drop(state);
        if is_needed {
            self.filled.notify_one();
        }
    }

    /// Returns whether patience lasted.
    fn sleep<'q>(
        &self,
        mut state: MutexGuard<'q, State<T>>,
        patience: Option<Duration>,
    ) -> (MutexGuard<'q, State<T>>, bool) {
        state.asleep += 1;
        let (mut state, is_patient) = match patience {
            None => (self.filled.wait(state).unwrap_or_else(PoisonError::into_inner), true),
            Some(patience) => {
                let woken = self.filled.wait_timeout(state, patience);
                let (state, waited) = woken.unwrap_or_else(PoisonError::into_inner);
                (state, !waited.timed_out())
            }
        };
        state.asleep -= 1;
        // Whoever wakes takes the place of one that was called, even if it was not called itself.
        state.called = state.called.saturating_sub(1);
        (state, is_patient)
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing that can panic happens in the middle of a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one thread is handed that waits for the kernel most of the time.
pub(super) struct Inbox<T> {
    state: Mutex<InboxState<T>>,
}

struct InboxState<T> {
    items: Vec<T>,
    sleep: Sleep,
    is_closed: bool,
    figures: Figures,
}

/// What an inbox's owner is woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sleep {
    /// The owner is woken for nothing: it will look before it sleeps.
    Awake,
    /// The owner is woken for whatever is put in.
    ForAll,
    /// The owner is woken for what is urgent. It looks at the rest when something else wakes it.
    ForUrgent,
}

impl<T> Inbox<T> {
    pub(super) fn new() -> Self {
        let figures = Figures::default();
        let (sleep, is_closed) = (Sleep::Awake, false);
        Self { state: Mutex::new(InboxState { items: Vec::new(), sleep, is_closed, figures }) }
    }

    /// Adds all of `items`, of which some are urgent or none. Returns whether the owner must be
    /// woken to see them. What is put into a closed inbox is dropped.
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

    /// Takes all there is into `batch`, which is empty.
    pub(super) fn take(&self, batch: &mut Vec<T>) {
        let mut state = self.lock();
        state.sleep = Sleep::Awake;
        if !state.items.is_empty() {
            std::mem::swap(&mut state.items, batch);
            state.figures.batches += 1;
            state.figures.taken += batch.len() as u64;
        }
    }

    /// Ends it, and drops all that is in it: its owner has ended.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let items = std::mem::take(&mut state.items);
        drop(state);
        drop(items);
    }

    /// Asks whether the owner may sleep: only if there is nothing. From then on whoever adds
    /// something wakes it, if it is to be woken for that.
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
