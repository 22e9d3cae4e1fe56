//! One test for many variants of its subject, several of them at a time: a test of a server mostly
//! waits. The harness runs tests side by side, but not the parts of one test.

use std::cell::Cell;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

/// How many at a time: more than most machines have CPUs, but so few that none waits long for one.
const AT_A_TIME: usize = 6;

/// How many at a time in one process, however many tests the harness runs side by side: their
/// servers share its descriptors, and select(2) knows only the first 1,024.
const IN_A_PROCESS: usize = 20;

/// Runs `test` with each of `variants`, in any order. A variant that fails does not keep the others
/// from running.
///
/// # Panics
/// If some have failed: with their names. Each has printed before what was wrong.
pub fn side_by_side<V: Debug + Sync>(variants: &[V], test: impl Fn(&V) + Sync) {
    at_a_time(AT_A_TIME, variants, test);
}

/// Runs `test` with each of `variants`, `count` at a time and in any order: more where each mostly
/// waits, fewer where each needs much of the machine. A variant that fails does not keep the others
/// from running.
///
/// # Panics
/// If some have failed: with their names. Each has printed before what was wrong.
pub fn at_a_time<V: Debug + Sync>(count: usize, variants: &[V], test: impl Fn(&V) + Sync) {
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    // A variant that has variants of its own has a permit already.
    let is_within = IS_VARIANT.get();
    let work = || {
        let _permit = (!is_within).then(Permit::take);
        IS_VARIANT.set(true);
        while let Some(variant) = variants.get(next.fetch_add(1, Ordering::Relaxed)) {
            if catch_unwind(AssertUnwindSafe(|| test(variant))).is_err() {
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.push(format!("{variant:?}"));
            }
        }
    };
    thread::scope(|scope| {
        (0..count.min(variants.len())).for_each(|_| drop(scope.spawn(work)));
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (count, all) = (failed.len(), variants.len());
    assert!(failed.is_empty(), "{count} of {all} failed: {}", failed.join(", "));
}

thread_local! {
    static IS_VARIANT: Cell<bool> = const { Cell::new(false) };
}

static TAKEN: Mutex<usize> = Mutex::new(0);
static GIVEN_BACK: Condvar = Condvar::new();

/// Held by a thread that tests one variant after the other.
struct Permit;

impl Permit {
    /// Waits until a permit is free, and takes it.
    fn take() -> Self {
        let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |taken: &mut usize| *taken == IN_A_PROCESS;
        *GIVEN_BACK.wait_while(taken, is_full).unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        GIVEN_BACK.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variant_is_tested_once_whatever_becomes_of_the_others() {
        let times: Vec<AtomicUsize> = (0..50).map(|_| AtomicUsize::new(0)).collect();
        let variants: Vec<usize> = (0..50).collect();
        let outcome = catch_unwind(|| {
            side_by_side(&variants, |variant| {
                times[*variant].fetch_add(1, Ordering::Relaxed);
                assert!(![7, 30].contains(variant), "(this message is expected)");
            });
        });
        assert!(times.iter().all(|times| times.load(Ordering::Relaxed) == 1));
        let message = outcome.unwrap_err();
        let message = message.downcast_ref::<String>().unwrap();
        assert!(message.starts_with("2 of 50 failed: "), "{message}");
        assert!(message.contains("30") && message.contains('7'), "{message}");
    }

    #[test]
    fn they_are_tested_at_the_same_time() {
        let barrier = std::sync::Barrier::new(AT_A_TIME);
        side_by_side(&[(); AT_A_TIME], |()| {
            barrier.wait();
        });
        side_by_side(&[0_u8; 0], |_| panic!("there is none"));
    }
}
