//! Tests without the usual harness, which runs them in threads: a process with threads cannot make
//! copies of itself.

/// The tests of a program by name, as [`one_by_one!`](macro@crate::one_by_one) lists them.
pub type Test = (&'static str, fn());

/// Runs tests in the thread that calls it: all, or those whose names contain the first argument of
/// the program that is no flag. The first that fails ends the program.
pub fn one_by_one(tests: &[Test]) {
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    for (name, test) in tests {
        if only.as_ref().is_none_or(|only| name.contains(only.as_str())) {
            test();
            println!("test {name} ... ok");
        }
    }
}

/// The `main` of a program of tests, which are functions without arguments.
#[macro_export]
macro_rules! one_by_one {
    ($($test:ident),+ $(,)?) => {
        fn main() {
            $crate::one_by_one(&[$((stringify!($test), $test)),+]);
        }
    };
}
