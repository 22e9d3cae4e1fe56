//! Waiting for what others do in their own time.

use std::thread;
use std::time::Duration;

const TRIES: u32 = 4000;
const PAUSE: Duration = Duration::from_millis(5);

/// Asks every five milliseconds.
///
/// # Panics
/// When it has not come true in twenty seconds.
#[track_caller]
pub fn wait_until(condition: impl FnMut() -> bool) {
    assert!(comes_true(condition), "it has not come true in twenty seconds");
}

/// The same for who has more to say about it.
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
