//! Waiting for what others do in their own time.

use std::thread;
use std::time::Duration;

const TRIES: u32 = 4000;
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until `condition` holds, and asks every five milliseconds.
///
/// # Panics
/// When it has not come true in twenty seconds.
#[track_caller]
pub fn wait_until(condition: impl FnMut() -> bool) {
    assert!(comes_true(condition), "it has not come true in twenty seconds");
}

/// Whether `condition` comes to hold within twenty seconds, asked every five milliseconds: for a
/// test that has more to say about a failure than [`wait_until`].
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

/// How often what others on the machine may have spoilt is tried.
const ATTEMPTS: u32 = 6;

/// Tries it again if others on the machine may have spoilt it, and passes if one attempt does: for
/// bounds from above on what something takes, which nothing that is wrong ever keeps.
///
/// # Panics
/// With what the last attempt says.
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
