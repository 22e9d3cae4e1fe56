//! Waiting for what other threads and processes do in their own time.

use std::thread;
use std::time::Duration;

const TRIES: u32 = 4000;
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `condition` holds, and checks it every five milliseconds.
///
/// # Panics
/// When it has not become true within twenty seconds.
#[track_caller]
pub fn wait_until(condition: impl FnMut() -> bool) {
    assert!(comes_true(condition), "it has not come true in twenty seconds");
}

/// Whether `condition` becomes true within twenty seconds; it is checked every five milliseconds.
/// For a test that has more to say about a failure than [`wait_until`].
#[must_use]
pub fn comes_true(mut condition: impl FnMut() -> bool) -> bool {
    (0..TRIES).any(|_| {
        let holds = condition();
        if !holds {
            thread::sleep(PAUSE);
        }
        holds
    })
}

/// The number of attempts at a check that other programs on the machine may spoil: so many, because
/// where they spoil one they are likely to spoil the next as well.
const ATTEMPTS: u32 = 20;

/// Repeats a check that other programs on the machine may have spoilt, and passes if one attempt
/// does: for upper bounds on times, which a real fault never keeps.
///
/// # Panics
/// With the message of the last attempt.
#[track_caller]
pub fn undisturbed(mut attempt: impl FnMut() -> Result<(), String>) {
    let mut said = String::new();
    for _ in 0..ATTEMPTS {
        match attempt() {
            Ok(()) => return,
            Err(why) => said = why,
        }
    }
    panic!("in each of {ATTEMPTS} attempts, the last: {said}");
}
