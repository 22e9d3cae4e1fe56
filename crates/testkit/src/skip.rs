//! What is absent on this machine is said where nobody can miss it, and counted; where `CI=true` it
//! must be there.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Says that a check is left out and what it needs. Written around the capture of the test
/// harness, which would swallow it in a run that passes.
///
/// # Panics
/// In CI, which has everything.
pub fn skip(check: &str, needs: &str) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    let line = format!("\nskipped (number {count}): {check}: needs {needs}\n");
    let _ = std::io::stderr().write_all(line.as_bytes()); // nobody listens
    refuse(&line, in_ci());
}

/// Whether everything must be there.
#[must_use]
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

fn refuse(line: &str, is_everything_there: bool) {
    assert!(!is_everything_there, "CI must have it: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_fails_in_ci_and_nowhere_else() {
        refuse("skipped", false);
        let refused = std::panic::catch_unwind(|| refuse("skipped: a test", true));
        let message = refused.unwrap_err();
        let message = message.downcast_ref::<String>().unwrap();
        assert!(message.contains("CI must have it: skipped: a test"), "{message}");
    }
}
