//! The counts of worker processes, in memory that outlives them: the counters of their workers and
//! of the access log.
//!
//! A few cells are for the whole server; then come those of what its own process finds out about
//! applications for all ([`crate::applications`]). Then each place (a worker process and those that
//! replace it) has a range of cells: a few for itself, then the counters of one worker after the
//! other. There are no locks: a process may be killed at any instruction.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use session::{Counter, Counters};

use crate::access_log::StyleCell;
use crate::error_log::Budget;
use crate::report;

/// The number of workers of one place that can be counted: threads that are made on demand have a
/// worker each. Cells without a worker take no memory.
const WORKERS_MAX: usize = 1 << 14;

/// Cells before those of the first place; a multiple of a cache line.
const SERVER_CELLS: usize = 16;

/// The cell of the access log's style, after those of the error log.
const LOG_STYLE: usize = Budget::CELLS;

/// Cells of a place before those of its workers; a multiple of a cache line.
const OWN_CELLS: usize = 16;

const PLACE_CELLS: usize = OWN_CELLS + WORKERS_MAX * Counters::CELLS;

// The own cells of a place.
/// The number of workers that the current process has made.
const MADE: usize = 0;
/// The largest number of workers that any process of the place has made.
const USED: usize = 1;
const LINES_WRITTEN: usize = 2;
const LINES_DROPPED: usize = 3;

/// All cells.
#[derive(Clone, Copy)]
pub(crate) struct Ledger {
    cells: &'static [AtomicU64],
    /// How many are for findings.
    finding_cells: usize,
}

/// The cells of one place.
#[derive(Clone, Copy)]
pub(crate) struct PlaceLedger(&'static [AtomicU64]);

impl Ledger {
    /// Creates a ledger, with the file that other processes map.
    pub(crate) fn create(places: usize, finding_cells: usize) -> io::Result<(OwnedFd, Self)> {
        let cells = SERVER_CELLS + finding_cells + places * PLACE_CELLS;
        let file = os::shared_memory::create_cells(cells)?;
        let ledger = Self::open(std::os::fd::AsFd::as_fd(&file), finding_cells)?;
        Ok((file, ledger))
    }

    /// Opens a ledger that another process has created.
    pub(crate) fn open(file: BorrowedFd<'_>, finding_cells: usize) -> io::Result<Self> {
        let cells = os::shared_memory::map_cells(file)?.leak();
        match cells.len().checked_sub(SERVER_CELLS + finding_cells) {
            Some(_) => Ok(Self { cells, finding_cells }),
            None => Err(io::Error::new(io::ErrorKind::InvalidInput, "too few cells")),
        }
    }

    /// Makes everything 0 again, for other processes; those that have counted here have ended.
    pub(crate) fn clear(self) {
        let places = self.cells.len() - self.places().count() * PLACE_CELLS;
        let used = self.places().flat_map(|place| {
            let used = place.0[USED].load(Ordering::Relaxed) as usize;
            &place.0[..OWN_CELLS + used * Counters::CELLS]
        });
        // The others were never written, and take no memory.
        let cells = self.cells[..places].iter().chain(used);
        cells.for_each(|cell| cell.store(0, Ordering::Relaxed));
    }

    /// Whether it has room for the same as another.
    pub(crate) fn is_alike(self, places: usize, finding_cells: usize) -> bool {
        (self.places().count(), self.finding_cells) == (places, finding_cells)
    }

    /// The cells of one place; none if there is no such place.
    pub(crate) fn place(self, index: usize) -> Option<PlaceLedger> {
        self.places().nth(index)
    }

    /// The budget of the error log, which all places share.
    pub(crate) fn error_budget(self) -> Budget {
        Budget::in_cells(&self.cells[..Budget::CELLS])
    }

    /// What all places write into the access log.
    pub(crate) fn log_style(self) -> StyleCell<'static> {
        StyleCell::new(&self.cells[LOG_STYLE])
    }

    /// The cells for what is found out about applications.
    pub(crate) fn findings(self) -> &'static [AtomicU64] {
        &self.cells[SERVER_CELLS..][..self.finding_cells]
    }

    /// The counters of all workers that have existed.
    pub(crate) fn counters(self) -> Vec<Arc<Counters>> {
        self.places().flat_map(PlaceLedger::counters).collect()
    }

    /// The number of log lines of all places that could not be handed on.
    pub(crate) fn lines_dropped(self) -> u64 {
        self.places().map(|place| place.lines_dropped().get()).sum()
    }

    fn places(self) -> impl Iterator<Item = PlaceLedger> {
        let places = &self.cells[SERVER_CELLS + self.finding_cells..];
        places.chunks_exact(PLACE_CELLS).map(PlaceLedger)
    }
}

impl PlaceLedger {
    /// Creates counters for one more worker of the process. They continue from what a worker of an
    /// earlier process has counted there.
    pub(crate) fn open(self) -> Counters {
        let index = self.0[MADE].fetch_add(1, Ordering::Relaxed) as usize;
        if index == WORKERS_MAX {
            report(&format!(
                "a process has more than {WORKERS_MAX} workers: the rest is not counted"
            ));
        }
        if index >= WORKERS_MAX {
            return Counters::default();
        }
        self.0[USED].fetch_max(index as u64 + 1, Ordering::Relaxed);
        self.counters_of(index)
    }

    /// The counters of all workers the place has had.
    pub(crate) fn counters(self) -> Vec<Arc<Counters>> {
        let used = self.0[USED].load(Ordering::Relaxed) as usize;
        (0..used).map(|index| Arc::new(self.counters_of(index))).collect()
    }

    /// The number of log lines that were handed on to be written.
    pub(crate) fn lines_written(self) -> Counter {
        Counter::shared(&self.0[LINES_WRITTEN])
    }

    /// The number of log lines that could not be handed on.
    pub(crate) fn lines_dropped(self) -> Counter {
        Counter::shared(&self.0[LINES_DROPPED])
    }

    /// Settles the counts of a process that has ended: none of its connections is open any more,
    /// and lines that it had not handed on when it was killed are lost.
    pub(crate) fn account_for_end(self) {
        let counters = self.counters();
        counters.iter().for_each(|counters| counters.forget_connections());
        let logged: u64 = counters.iter().map(|counters| counters.logged.get()).sum();
        let known = self.lines_written().get() + self.lines_dropped().get();
        self.lines_dropped().add_together(logged.saturating_sub(known));
    }

    /// Makes the counters ready for the next process at this place.
    pub(crate) fn begin_anew(self) {
        self.0[MADE].store(0, Ordering::Relaxed);
    }

    fn counters_of(self, index: usize) -> Counters {
        let start = OWN_CELLS + index * Counters::CELLS;
        Counters::shared(&self.0[start..start + Counters::CELLS])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_outlive_the_process_and_go_on() {
        let (file, ledger) = Ledger::create(2, 3).unwrap();
        let there = Ledger::open(std::os::fd::AsFd::as_fd(&file), 3).unwrap();
        let (place, here) = (there.place(1).unwrap(), ledger.place(1).unwrap());
        let (one, two) = (place.open(), place.open());
        one.requests.add(5);
        one.connections_open.add(1);
        two.requests.add(8);
        [&one, &two].into_iter().zip([5, 6]).for_each(|(it, count)| it.logged.add(count));
        place.lines_written().add_together(8);
        let requests = |place: PlaceLedger| {
            place.counters().iter().map(|counters| counters.requests.get()).sum::<u64>()
        };
        assert_eq!(requests(here), 13);
        here.account_for_end();
        assert_eq!(here.lines_dropped().get(), 3, "two requests were before the log was on");
        here.account_for_end();
        assert_eq!(here.lines_dropped().get(), 3, "settled once");
        assert_eq!(one.connections_open.get(), 0);
        here.begin_anew();
        let again = place.open();
        again.requests.add(1);
        assert_eq!((requests(here), here.counters().len()), (14, 2));
        assert_eq!(requests(ledger.place(0).unwrap()), 0);
        assert!(ledger.place(2).is_none());
        assert_eq!(ledger.findings().len(), 3);
        there.findings()[2].store(1, Ordering::Relaxed);
        assert_eq!(ledger.findings()[2].load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_ledger_that_is_cleared_is_as_new() {
        let (_file, ledger) = Ledger::create(2, 3).unwrap();
        assert!(ledger.is_alike(2, 3) && !ledger.is_alike(1, 3) && !ledger.is_alike(2, 0));
        ledger.findings()[2].store(1, Ordering::Relaxed);
        let place = ledger.place(1).unwrap();
        let counters = [place.open(), place.open()];
        counters.iter().for_each(|counters| counters.requests.add(5));
        place.lines_dropped().add_together(8);
        ledger.clear();
        assert!(ledger.cells.iter().all(|cell| cell.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn more_workers_than_cells_are_served_all_the_same() {
        let (_file, ledger) = Ledger::create(1, 0).unwrap();
        let place = ledger.place(0).unwrap();
        place.0[MADE].store(WORKERS_MAX as u64 - 1, Ordering::Relaxed);
        place.open().requests.add(1);
        place.open().requests.add(1);
        assert_eq!(place.counters().len(), WORKERS_MAX);
    }
}
