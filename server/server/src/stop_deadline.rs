//! How long a stop may take: requests under way have until a deadline, unless the operator cuts the
//! wait short. Beyond that only what hangs takes time: workers and CGI programs together have
//! [`WORKERS_END_US`], the access logs and standard error [`FINAL_WRITE_US`] each.

/// How long, in microseconds, the access log and standard error are waited for even when all other
/// time is used up: they need far less, unless they hang.
pub(crate) const FINAL_WRITE_US: u64 = 500_000;

/// How long, in microseconds, workers may take to end after the order to cut off all connections.
/// They need some milliseconds, unless a file system does not answer: threads that wait for it
/// cannot be ended, only left to the end of the process.
pub(crate) const WORKERS_END_US: u64 = 7_000_000;

/// The moment until which a stop waits, or the operator's order not to.
pub(crate) struct StopDeadline<'h> {
    end_us: u64,
    is_cut_short: Box<dyn FnMut() -> bool + 'h>,
    has_passed: bool,
}

impl<'h> StopDeadline<'h> {
    /// Creates a deadline `us` microseconds from now. `is_cut_short` is called again and again,
    /// sleeps a little each time, and brings the deadline forward to now by returning true.
    pub(crate) fn new(us: u64, is_cut_short: impl FnMut() -> bool + 'h) -> Self {
        Self::until(os::clock::now().saturating_add(us), is_cut_short)
    }

    /// Creates a deadline at a moment of the server's clock.
    pub(crate) fn until(end_us: u64, is_cut_short: impl FnMut() -> bool + 'h) -> Self {
        Self { end_us, is_cut_short: Box::new(is_cut_short), has_passed: false }
    }

    /// Creates a deadline that has passed, for a stop that has nothing to wait for.
    pub(crate) fn passed() -> Self {
        Self::new(0, || false)
    }

    /// Whether the deadline has passed for everything except writing the last lines.
    pub(crate) fn has_passed(&mut self) -> bool {
        self.has_passed =
            self.has_passed || (self.is_cut_short)() || os::clock::now() >= self.end_us;
        self.has_passed
    }

    /// Whether the deadline for a writer of last lines has passed: the deadline itself has, and
    /// [`FINAL_WRITE_US`] have passed since `since_us`, when the wait began.
    pub(crate) fn has_passed_for_final_write(&mut self, since_us: u64) -> bool {
        self.has_passed() && os::clock::now() >= since_us + FINAL_WRITE_US
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_cut_short_for_good() {
        let mut asked = 0;
        let mut deadline = StopDeadline::new(u64::MAX, || {
            asked += 1;
            asked == 3
        });
        assert_eq!([(); 5].map(|()| deadline.has_passed()), [false, false, true, true, true]);
        drop(deadline);
        assert_eq!(asked, 3, "asked no more often than needed");
    }

    /// What hangs adds so much to a stop as the documentation says: all workers, and two outputs.
    #[test]
    fn the_bound_of_a_stop_is_documented() {
        let added_s = (WORKERS_END_US + 2 * FINAL_WRITE_US).div_ceil(1_000_000);
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/serve/configuration.md");
        let page = std::fs::read_to_string(page).unwrap();
        let words: Vec<&str> = page.split_whitespace().collect();
        let said = format!("a stop takes `drain_ms` and {added_s} seconds at most");
        assert!(words.join(" ").contains(&said), "{said}");
    }

    #[test]
    fn a_deadline_passes_by_itself() {
        let mut deadline = StopDeadline::passed();
        assert!(deadline.has_passed());
        while !deadline.has_passed_for_final_write(0) {
            std::thread::yield_now(); // the clock began with the process
        }
        assert!(!deadline.has_passed_for_final_write(u64::MAX / 2), "they have not begun");
    }
}
