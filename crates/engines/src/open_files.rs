//! Cached files that are open for nobody: those that were not asked for in a while, and those that
//! have gone, deleted or replaced. What is open holds the space of a deleted file, and the file
//! system that it is on.
//!
//! Only the caches let go here. Workers that sleep on what has left are woken by who calls this,
//! and a response that is sent from a file has it open to its end.

use std::os::fd::AsFd;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::{io, thread};

use file_cache::{Cache, Round, Slot};
use os::files::is_unlinked;
use site::resource::Entry;

use crate::lock::lock;

/// What is done at a time, once a second.
const LOOK_US: u64 = 1_000_000;
/// A tenth earlier is not too early: whoever calls once a second may be a little early, too.
const LOOK_US_MIN: u64 = LOOK_US / 10 * 9;

/// A round through a cache takes so many looks: that long a file that has gone is open at most.
const LOOKS_PER_ROUND: u64 = 8;

/// The caches of a process, whose open files are looked after.
pub struct OpenFiles {
    caches: Vec<(Arc<Cache<Entry>>, Round)>,
    looks_per_round: u64,
    /// The number of rounds in which a file has not been asked for after which it is closed.
    rests_max: Option<u16>,
    looked_us: u64,
}

/// Looks after open files on a thread of its own, which is started when there are some: on a file
/// system that does not answer even closing may wait. Its caller never does, nor who drops it.
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

    /// Has closed what is due. To be called about once a second; more often does no harm.
    pub fn look_after(&mut self) {
        if self.call.is_none() && lock(&self.files).are_there() {
            // Where there is no thread to be had now there may be one in a second.
            self.call = self.start().ok();
        }
        // It is not called twice while it looks. One that has panicked is replaced.
        let has_ended = |error| matches!(error, TrySendError::Disconnected(()));
        self.call.take_if(|call| call.try_send(()).is_err_and(has_ended));
    }

    fn start(&self) -> io::Result<SyncSender<()>> {
        let (call, calls) = sync_channel(1);
        let files = Arc::clone(&self.files);
        let look = move || calls.iter().for_each(|()| lock(&files).look_after());
        thread::Builder::new().name("open-files".into()).spawn(look)?;
        Ok(call)
    }
}

impl OpenFiles {
    /// Files that nobody has asked for in `idle_us` are closed; none keeps them open.
    #[must_use]
    pub fn new(caches: Vec<Arc<Cache<Entry>>>, idle_us: Option<u64>) -> Self {
        let looks = |us: u64| us.div_ceil(LOOK_US);
        // A short time is not to be missed by a long round.
        let looks_per_round =
            idle_us.map_or(LOOKS_PER_ROUND, |us| (looks(us) / 4).clamp(1, LOOKS_PER_ROUND));
        // Between two looks, somebody may have asked just after the first one.
        let rests = |us| looks(us).div_ceil(looks_per_round) + 1;
        Self {
            caches: caches.into_iter().map(|cache| (cache, Round::default())).collect(),
            looks_per_round,
            rests_max: idle_us.map(|us| u16::try_from(rests(us)).unwrap_or(u16::MAX)),
            looked_us: os::clock::now(),
        }
    }

    /// Closes what is due. To be called about once a second; more often does no harm.
    pub fn look_after(&mut self) {
        let now = os::clock::now();
        if now.saturating_sub(self.looked_us) >= LOOK_US_MIN {
            self.looked_us = now;
            self.look();
        }
    }

    /// Whether files are open that have to be looked after.
    #[must_use]
    pub fn are_there(&self) -> bool {
        self.caches.iter().any(|(cache, _)| cache.usage().descriptors > 0)
    }

    fn look(&mut self) {
        let rests_max = self.rests_max;
        let mut leaves = |slot: &Slot<Entry>| {
            let rests = slot.count_check();
            rests_max.is_some_and(|most| rests >= most) || has_gone(slot.value())
        };
        for (cache, round) in &mut self.caches {
            if cache.usage().descriptors > 0 {
                cache.scan_part(round, self.looks_per_round as usize, &mut leaves);
            }
        }
    }
}

fn has_gone(entry: &Entry) -> bool {
    entry.files().any(|file| is_unlinked(file.as_fd()))
}
