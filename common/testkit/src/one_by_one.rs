//! Running tests without the usual harness, which runs them in threads: a process with threads
//! cannot make copies of itself. The output has the form of the usual harness.

use std::panic::catch_unwind;
use std::process::ExitCode;

use crate::skip::name_test;

/// The tests of a program by name, as [`one_by_one!`](macro@crate::one_by_one) lists them.
pub type Test = (&'static str, fn());

/// Runs tests in the calling thread: all, or those whose names contain the first argument of the
/// program that is not a flag. A test that fails does not keep the others from running.
pub fn one_by_one(tests: &[Test]) -> ExitCode {
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let outcome = run(tests, only.as_deref());
    println!("{}\n", outcome.line());
    if outcome.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

/// The status of a program of which tests have failed, equal to the usual harness's.
const FAILED: u8 = 101;

#[derive(Debug)]
struct Outcome {
    passed: usize,
    failed: Vec<&'static str>,
    filtered_out: usize,
}

fn run(tests: &[Test], only: Option<&str>) -> Outcome {
    let is_wanted = |(name, _): &&Test| only.is_none_or(|only| name.contains(only));
    let wanted: Vec<&Test> = tests.iter().filter(is_wanted).collect();
    let filtered_out = tests.len() - wanted.len();
    println!("\nrunning {} tests", wanted.len());
    let mut outcome = Outcome { passed: 0, failed: Vec::new(), filtered_out };
    for (name, test) in wanted {
        name_test(name);
        // The message of a panic has been printed when it is caught.
        match catch_unwind(test) {
            Ok(()) => {
                outcome.passed += 1;
                println!("test {name} ... ok");
            }
            Err(_) => {
                outcome.failed.push(name);
                println!("test {name} ... FAILED");
            }
        }
    }
    if !outcome.failed.is_empty() {
        println!("\nfailures:\n    {}", outcome.failed.join("\n    "));
    }
    outcome
}

impl Outcome {
    fn line(&self) -> String {
        let Self { passed, failed, filtered_out } = self;
        let verdict = if failed.is_empty() { "ok" } else { "FAILED" };
        let failed = failed.len();
        format!(
            "\ntest result: {verdict}. {passed} passed; {failed} failed; 0 ignored; 0 measured; \
             {filtered_out} filtered out"
        )
    }
}

/// The `main` of a program of tests, which are functions without arguments.
#[macro_export]
macro_rules! one_by_one {
    ($($test:ident),+ $(,)?) => {
        fn main() -> std::process::ExitCode {
            $crate::one_by_one(&[$((stringify!($test), $test)),+])
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn one_that_fails_keeps_none_from_running() {
        static RAN: AtomicUsize = AtomicUsize::new(0);
        fn good() {
            RAN.fetch_add(1, Ordering::Relaxed);
        }
        fn bad() {
            panic!("(this message is expected)");
        }
        let tests: [Test; 4] = [("one", good), ("bad", bad), ("bad_too", bad), ("another", good)];
        let outcome = run(&tests, None);
        assert_eq!(
            (RAN.load(Ordering::Relaxed), &outcome.failed[..]),
            (2, &["bad", "bad_too"][..])
        );
        let expected = "\ntest result: FAILED. 2 passed; 2 failed; 0 ignored; 0 measured; \
                        0 filtered out";
        assert_eq!(outcome.line(), expected);
        let expected = "\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; \
                        3 filtered out";
        assert_eq!(run(&tests, Some("other")).line(), expected);
    }
}
