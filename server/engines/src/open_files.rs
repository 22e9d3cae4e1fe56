//! Closes cached files that are open without use: files that were not requested for a while, files
//! of former hosts, and files that were deleted or replaced. An open file holds the space of a
//! deleted one, and keeps its file system mounted.
//!
//! Only the caches release files here. The caller wakes the workers that sleep and may still hold
//! an entry that has left, and a response that is sent from a file keeps it open to its end.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::{io, thread};

use file_cache::{Cache, Round, Slot};
use os::files::is_unlinked;
use session::host_of;
use site::resource::Entry;

use crate::lock::lock;

/// The time between two scans, in microseconds. Each scans a part of each cache.
const SCAN_US: u64 = 1_000_000;
/// The shortest time between two scans: a caller that comes once a second may be a little early.
const SCAN_US_MIN: u64 = SCAN_US / 10 * 9;

/// The number of scans in a round through a cache, and so the number of seconds for which a deleted
/// file stays open at most.
const SCANS_PER_ROUND: u64 = 8;

/// The caches of a process, whose unused open files are closed.
pub struct OpenFiles {
    caches: Vec<(Arc<Cache<Entry>>, Round)>,
    scans_per_round: u64,
    /// The number of rounds without a request after which a file is closed.
    rests_max: Option<u16>,
    /// The index of the first host that there is.
    first_host: Arc<AtomicUsize>,
    scanned_us: u64,
}

/// Closes unused open files on a thread of its own, which is started when there are open files: on
/// a file system that does not answer, even closing may wait. Neither calling nor dropping the
/// caretaker ever waits.
pub struct Caretaker {
    files: Arc<Mutex<OpenFiles>>,
    /// Calls the thread, if it has been started. There is room for one call.
    call: Option<SyncSender<()>>,
}

impl Caretaker {
    /// A caretaker for `files`.
    #[must_use]
    pub fn new(files: OpenFiles) -> Self {
        Self { files: Arc::new(Mutex::new(files)), call: None }
    }

    /// Has the thread close the files that are due. To be called about once a second; more often
    /// does no harm.
    pub fn close_due(&mut self) {
        if self.call.is_none() && lock(&self.files).has_open() {
            // If no thread can be started now, the next call tries again.
            self.call = self.start().ok();
        }
        // A call is dropped while another is queued. A thread that has panicked is replaced.
        let has_ended = |error| matches!(error, TrySendError::Disconnected(()));
        self.call.take_if(|call| call.try_send(()).is_err_and(has_ended));
    }

    fn start(&self) -> io::Result<SyncSender<()>> {
        let (call, calls) = sync_channel(1);
        let files = Arc::clone(&self.files);
        let scan = move || calls.iter().for_each(|()| lock(&files).close_due());
        thread::Builder::new().name("open-files".into()).spawn(scan)?;
        Ok(call)
    }
}

impl OpenFiles {
    /// The open files of `caches`, to be closed when they were not requested for `idle_us`
    /// microseconds, or are of hosts with indices below `first_host`; none keeps files open that
    /// were not deleted or replaced.
    #[must_use]
    pub fn new(
        caches: Vec<Arc<Cache<Entry>>>,
        idle_us: Option<u64>,
        first_host: Arc<AtomicUsize>,
    ) -> Self {
        let scans = |us: u64| us.div_ceil(SCAN_US);
        // A round must be short compared with a short idle time.
        let scans_per_round =
            idle_us.map_or(SCANS_PER_ROUND, |us| (scans(us) / 4).clamp(1, SCANS_PER_ROUND));
        // One round more: the last request may have come just after the first scan.
        let rests = |us| scans(us).div_ceil(scans_per_round) + 1;
        Self {
            caches: caches.into_iter().map(|cache| (cache, Round::default())).collect(),
            scans_per_round,
            rests_max: idle_us.map(|us| u16::try_from(rests(us)).unwrap_or(u16::MAX)),
            first_host,
            scanned_us: os::clock::now(),
        }
    }

    /// The open files of `caches`, to be closed at once, whenever they were requested.
    #[must_use]
    pub fn not_kept(caches: Vec<Arc<Cache<Entry>>>) -> Self {
        let caches = caches.into_iter().map(|cache| (cache, Round::default())).collect();
        let (rests_max, first_host) = (Some(0), Arc::default());
        Self { caches, scans_per_round: 1, rests_max, first_host, scanned_us: 0 }
    }

    /// Closes the files that are due. To be called about once a second; more often does no harm.
    pub fn close_due(&mut self) {
        let now = os::clock::now();
        if now.saturating_sub(self.scanned_us) >= SCAN_US_MIN {
            self.scanned_us = now;
            self.scan();
        }
    }

    /// Whether the caches have files open.
    #[must_use]
    pub fn has_open(&self) -> bool {
        self.caches.iter().any(|(cache, _)| cache.usage().descriptors > 0)
    }

    fn scan(&mut self) {
        let (rests_max, first_host) = (self.rests_max, self.first_host.load(Ordering::Relaxed));
        let mut leaves = |slot: &Slot<Entry>| {
            let rests = slot.count_check();
            rests_max.is_some_and(|most| rests >= most)
                || host_of(slot.key()) < first_host
                || has_gone(slot.value())
        };
        for (cache, round) in &mut self.caches {
            if cache.usage().descriptors > 0 {
                cache.scan_part(round, self.scans_per_round as usize, &mut leaves);
            }
        }
    }
}

fn has_gone(entry: &Entry) -> bool {
    entry.files().any(|file| is_unlinked(file.as_fd()))
}
