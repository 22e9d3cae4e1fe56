//! Checks that this machine lacks something for are reported prominently, and counted; where
//! `CI=true` nothing may be missing.
//!
//! A test program knows only what it has left out itself. `cargo xtask test` names a file in
//! [`SKIPPED`], to which all test programs append, and reports at the end what all have left out.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The variable of the environment that names the file of [`Skipped`] checks.
pub const SKIPPED: &str = "ROPEWALK_SKIPPED";

/// What separates the fields of a line in the file.
const SEPARATOR: char = '\t';

/// A check that was left out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skipped {
    /// What this machine lacks, with the command that brings it.
    pub why: String,
    /// Package, program and test: `ropewalk-lab it report::the_page_in_a_browser`.
    pub test: String,
    /// What was not checked.
    pub check: String,
}

/// Reports that a check is left out and why, in words that say what would fix it. The report is
/// written around the capture of the test harness, which would swallow it in a run that passes.
///
/// # Panics
/// In CI, which has everything.
#[track_caller]
pub fn skip(check: &str, why: &str) {
    leave_out(check, why);
    refuse(check, why, in_ci());
}

/// Reports that a check is left out and why, and lets it pass in CI, too: for what CI may lack
/// because the machine and not its packages decides.
#[track_caller]
pub fn leave_out(check: &str, why: &str) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    let line = format!("\nskipped (number {count}): {check}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes()); // standard error is closed
    let test = test(Location::caller());
    let skipped = Skipped { why: why.to_owned(), test, check: check.to_owned() };
    if let Some(path) = std::env::var_os(SKIPPED) {
        let added = File::options().append(true).open(&path);
        // One call for each line: other programs write, too.
        let added = added.and_then(|mut file| file.write_all(skipped.line().as_bytes()));
        added.unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    }
}

/// Why an ordinary user cannot do what a check needs.
pub const NEEDS_ROOT: &str = "it takes root's rights";

/// Whether root runs the tests.
#[must_use]
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Whether this is CI, where nothing may be missing.
#[must_use]
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

fn refuse(check: &str, why: &str, is_everything_there: bool) {
    assert!(!is_everything_there, "CI must have it: {check}: {why}");
}

/// The test that runs, where tests run one by one.
static CURRENT: Mutex<Option<&str>> = Mutex::new(None);

/// Records which test begins, where the harness gives it no thread of its own.
pub(crate) fn name_test(name: &'static str) {
    *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = Some(name);
}

fn test(place: &Location<'_>) -> String {
    let current = *CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    format!("{} {}", program(), name(std::thread::current().name(), current, place))
}

/// The package, and the program if it has another name.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    let file = path.file_stem().unwrap_or_default().to_string_lossy();
    // Cargo adds a hash of what it was built from.
    let program = file.rsplit_once('-').map_or(&*file, |(name, _)| name);
    match std::env::var("CARGO_PKG_NAME") {
        Ok(package) if package.replace('-', "_") != program => format!("{package} {program}"),
        _ => program.to_owned(),
    }
}

/// The name of the running test. The harness gives each test a thread of its name. Threads that a
/// test has started have no name: there the place in the source stands in.
fn name(thread: Option<&str>, current: Option<&str>, place: &Location<'_>) -> String {
    let named = thread.filter(|name| *name != "main").or(current);
    named.map_or_else(|| place.to_string(), str::to_owned)
}

impl Skipped {
    fn line(&self) -> String {
        let fields = [&self.why, &self.test, &self.check];
        let fields = fields.map(|field| field.replace([SEPARATOR, '\n'], " "));
        fields.join(&SEPARATOR.to_string()) + "\n"
    }

    /// Reads the checks from the text of the file that [`SKIPPED`] names, sorted by reason.
    #[must_use]
    pub fn read(text: &str) -> Vec<Self> {
        let of_line = |line: &str| {
            let mut fields = line.split(SEPARATOR).map(str::to_owned);
            let mut next = || fields.next();
            Some(Self { why: next()?, test: next()?, check: next()? })
        };
        let mut all: Vec<Self> = text.lines().filter_map(of_line).collect();
        all.sort();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_fails_in_ci_and_nowhere_else() {
        refuse("a test", "no luck", false);
        let refused = std::panic::catch_unwind(|| refuse("a test", "no luck", true));
        let message = refused.unwrap_err();
        let message = message.downcast_ref::<String>().unwrap();
        assert_eq!(message, "CI must have it: a test: no luck");
    }

    #[test]
    fn what_was_left_out_is_read_back_in_order() {
        let skipped = |why: &str, check: &str| {
            let (why, check) = (why.to_owned(), check.to_owned());
            Skipped { why, test: "testkit skip::tests::it".to_owned(), check }
        };
        let all = [skipped("root", "b\tc"), skipped("git", "a"), skipped("root", "a\nb")];
        let text: String = all.iter().map(Skipped::line).collect();
        let expected = [skipped("git", "a"), skipped("root", "a b"), skipped("root", "b c")];
        assert_eq!(Skipped::read(&text), expected);
        assert_eq!(Skipped::read("half a line"), []);
    }

    #[test]
    fn a_test_is_known_by_its_thread_or_its_place() {
        let place = Location::caller();
        let expected = "testkit skip::tests::a_test_is_known_by_its_thread_or_its_place";
        assert_eq!(test(place), expected);
        assert_eq!(name(Some("main"), Some("forked"), place), "forked");
        assert_eq!(name(None, None, place), place.to_string());
    }
}
