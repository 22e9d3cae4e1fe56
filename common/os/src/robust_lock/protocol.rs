//! What the number in a lock word means, and the steps from one value to the next. Pure: storing
//! words, waiting for them and checking holders is the business of a [`Place`], so that a model
//! checker can provide one.
//!
//! 0 is free; [`ORPHANED`] alone is free too, but its last holder died. Otherwise the lower bits
//! name the holder, and [`WAITERS`] says that a waiter sleeps or did.

/// The mark that a waiter may be asleep until the lock is free.
pub(super) const WAITERS: u32 = 1 << 31;
/// Free, and the last holder did not release it.
pub(super) const ORPHANED: u32 = 1 << 30;
/// The largest number of a holder.
pub(super) const OWNER_MAX: u32 = ORPHANED - 1;

/// The state of the data that the lock guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The last holder released it in order.
    Clean,
    /// The last holder died.
    Inherited,
}

/// A lock word and its surroundings.
pub(super) trait Place {
    fn load(&self) -> u32;
    /// Compares and exchanges; returns whether the word was exchanged.
    fn exchange(&self, current: u32, new: u32) -> bool;
    fn replace(&self, new: u32) -> u32;
    /// Sleeps while the word is `expected`, until woken or for a while.
    fn wait(&self, expected: u32);
    fn wake_one(&self);
    fn is_dead(&self, owner: u32) -> bool;
    /// The number of tries before the first sleep.
    fn spins(&self) -> u32;
}

pub(super) fn lock(place: &impl Place, me: u32) -> Taken {
    for _ in 0..=place.spins() {
        if place.exchange(0, me) {
            return Taken::Clean;
        }
        if place.load() & WAITERS != 0 {
            break;
        }
        std::hint::spin_loop();
    }
    lock_slowly(place, me)
}

/// Takes a lock that was not free at once. Other waiters may be asleep behind this one, so it takes
/// the lock with the mark that has its release wake one of them.
#[cold]
fn lock_slowly(place: &impl Place, me: u32) -> Taken {
    loop {
        let word = place.load();
        let owner = word & OWNER_MAX;
        if owner == 0 {
            if place.exchange(word, me | WAITERS) {
                return if word & ORPHANED == 0 { Taken::Clean } else { Taken::Inherited };
            }
            continue;
        }
        if word & WAITERS == 0 && !place.exchange(word, word | WAITERS) {
            continue;
        }
        place.wait(word | WAITERS);
        // Only one of several waiters that find the holder dead gets the lock; and a word that has
        // changed since then shows a holder that lived.
        if place.load() == word | WAITERS
            && place.is_dead(owner)
            && place.exchange(word | WAITERS, me | WAITERS)
        {
            return Taken::Inherited;
        }
    }
}

/// Releases the lock; `is_broken` says that what it guards may be in the middle of a change.
pub(super) fn unlock(place: &impl Place, is_broken: bool) {
    let word = place.replace(if is_broken { ORPHANED } else { 0 });
    if word & WAITERS != 0 {
        place.wake_one();
    }
}

/// Releases the lock if the dead `owner` holds it.
pub(super) fn release_dead(place: &impl Place, owner: u32) {
    loop {
        let word = place.load();
        if word & OWNER_MAX != owner {
            // The owner did not hold the lock, but it may have been woken and died before it could
            // take it.
            return place.wake_one();
        }
        if place.exchange(word, ORPHANED) {
            return place.wake_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    /// A futex for the model. It never returns by itself, so that a missing wake-up is found as a
    /// deadlock; only a death ends a wait, as the period of the real one does.
    struct Model {
        word: AtomicU32,
        sleepers: Mutex<()>,
        awake: Condvar,
        dead: AtomicU32,
        /// What the lock guards: true in the middle of a change.
        is_torn: AtomicBool,
        is_inside: AtomicBool,
    }

    impl Model {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                word: AtomicU32::new(0),
                sleepers: Mutex::new(()),
                awake: Condvar::new(),
                dead: AtomicU32::new(0),
                is_torn: AtomicBool::new(false),
                is_inside: AtomicBool::new(false),
            })
        }

        /// A critical section that must run alone, and that finds the data whole or is told that it
        /// is not.
        fn visit(&self, me: u32) {
            let taken = lock(self, me);
            self.enter(taken);
            self.is_torn.store(true, Ordering::Relaxed);
            self.is_torn.store(false, Ordering::Relaxed);
            self.is_inside.store(false, Ordering::Relaxed);
            unlock(self, false);
        }

        /// A critical section whose holder is killed in the middle of it.
        fn visit_and_die(&self, me: u32) {
            let taken = lock(self, me);
            self.enter(taken);
            self.is_torn.store(true, Ordering::Relaxed);
            self.is_inside.store(false, Ordering::Relaxed); // the dead are nowhere
            self.dead.store(me, Ordering::Release);
        }

        fn enter(&self, taken: Taken) {
            assert!(!self.is_inside.swap(true, Ordering::Relaxed), "two holders");
            let is_torn = self.is_torn.load(Ordering::Relaxed);
            assert_eq!(taken == Taken::Inherited, is_torn, "told wrongly");
        }
    }

    impl Place for Model {
        fn load(&self) -> u32 {
            self.word.load(Ordering::Acquire)
        }

        fn exchange(&self, current: u32, new: u32) -> bool {
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            self.word.compare_exchange(current, new, success, failure).is_ok()
        }

        fn replace(&self, new: u32) -> u32 {
            self.word.swap(new, Ordering::AcqRel)
        }

        fn wait(&self, expected: u32) {
            let sleepers = self.sleepers.lock().unwrap();
            let is_dead = self.dead.load(Ordering::Acquire) == expected & OWNER_MAX;
            if !is_dead && self.word.load(Ordering::Acquire) == expected {
                drop(self.awake.wait(sleepers).unwrap());
            }
        }

        fn wake_one(&self) {
            let _sleepers = self.sleepers.lock().unwrap();
            self.awake.notify_one();
        }

        fn is_dead(&self, owner: u32) -> bool {
            self.dead.load(Ordering::Acquire) == owner
        }

        fn spins(&self) -> u32 {
            0
        }
    }

    fn check(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(preemptions);
        model.check(test);
    }

    #[test]
    fn one_at_a_time_and_no_waiter_sleeps_for_ever() {
        check(3, || {
            let place = Model::new();
            let others = [2, 3].map(|me| {
                let place = Arc::clone(&place);
                thread::spawn(move || place.visit(me))
            });
            place.visit(1);
            others.into_iter().for_each(|other| other.join().unwrap());
            assert_eq!(place.load() & OWNER_MAX, 0);
        });
    }

    /// The supervisor releases the locks of the dead while other processes come and wait.
    #[test]
    fn locks_of_the_dead_are_released_and_one_waiter_is_told() {
        check(2, || {
            let place = Model::new();
            let other = Arc::clone(&place);
            let other = thread::spawn(move || other.visit(2));
            let dying = Arc::clone(&place);
            let dying = thread::spawn(move || dying.visit_and_die(1));
            dying.join().unwrap();
            release_dead(&*place, 1);
            place.visit(3);
            other.join().unwrap();
            assert!(!place.is_torn.load(Ordering::Relaxed));
        });
    }

    /// No supervisor releases the lock: a waiter notices by itself. A waiter asleep before the
    /// death wakes in the end, because its waits are limited; in the model it comes after the death
    /// instead.
    #[test]
    fn a_waiter_takes_over_from_the_dead() {
        check(3, || {
            let place = Model::new();
            place.visit_and_die(1);
            let others = [2, 3].map(|me| {
                let place = Arc::clone(&place);
                thread::spawn(move || place.visit(me))
            });
            others.into_iter().for_each(|other| other.join().unwrap());
            assert_eq!(place.load() & OWNER_MAX, 0);
        });
    }
}
