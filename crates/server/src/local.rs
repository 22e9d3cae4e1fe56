//! What of a server runs in this process: its share of the workers, with their caches, log and
//! counters.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engines::jobs::Runner;
use engines::{Caretaker, Engine, MakeWorker, PartitionStart, Start, WorkerStart};
use file_cache::Cache;
use session::{AccessLog, Counters, Limits, Listings, Worker, WorkerParts};
use site::Site;
use site::resource::Entry;

use crate::access_log::LogEnds;
use crate::config::{CacheScope, CacheSettings, Config, Settings};
use crate::error_log;
use crate::helper_process;
use crate::layout::{Part, Share};
use crate::processes::PlaceLedger;
use crate::ready::{self, Ready};
use crate::start_error::StartError;

/// One set of a first level.
const FIRST_LEVEL_SLOTS_TINY: usize = 4;

/// The number of descriptors that the table of a process that serves has room for from the
/// beginning, unless fewer may be open: 128 KiB of the kernel's memory. The room is made while
/// there is one thread: with several the kernel waits for all CPUs, some ten milliseconds.
pub(crate) const DESCRIPTORS_WIDENED: u64 = 16_384;

/// Where workers write what they have done, and what they could not.
pub(crate) struct Logs {
    pub(crate) access: Option<LogEnds>,
    pub(crate) errors: error_log::Budget,
}

/// An engine that runs in this process.
pub(crate) struct Local {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) counters: Arc<CounterBook>,
    caches: Vec<Arc<Cache<Entry>>>,
    open_files: Caretaker,
    runner: Arc<Runner>,
    /// What had left the caches when workers were last told of it.
    evictions_told: u64,
}

impl Local {
    /// Starts a share of the server, with the sets of listeners of the whole layout; those that
    /// belong to others may be empty.
    ///
    /// # Errors
    /// What could not be opened or started.
    pub(crate) fn start(
        config: &Config,
        ready: &Ready,
        share: &Share,
        sets: Vec<Vec<OwnedFd>>,
        logs: Logs,
        counters: CounterBook,
    ) -> Result<Self, StartError> {
        let settings = &config.settings;
        let runner = Runner::new(Arc::clone(&ready.site), settings.cache.small_body_bytes_max)
            .map_err(StartError::Root)?
            .with_trouble_report(error_log::teller(settings.log.errors, logs.errors))
            .with_file_idle_us(settings.cache.descriptors_idle_ms.map(|ms| ms * 1000))
            .with_moment_us(Revalidation::of(&settings.cache).moment_us);
        let runner = match ready.descriptors.jobs {
            Some(count) => runner.with_jobs_max(count),
            None => runner,
        };
        let runner = Arc::new(runner);
        let counters = Arc::new(counters);
        let caches = Vec::new();
        let mut assembly = Assembly {
            settings,
            ready,
            share,
            log: logs.access,
            counters: Arc::clone(&counters),
            caches,
        };
        let partitions = assembly.partitions(&sets)?;
        // The workers have copies: only they keep a listener open, whoever is forked from here.
        drop(sets);
        let start = Start {
            partitions,
            runner: Arc::clone(&runner),
            connections_max: ready.descriptors.connections,
            sendfile: ready.sendfile,
            exclusive_wakeups: ready.layout.exclusive_wakeups,
            knobs: ready.engine.knobs.clone(),
            start_helper: helper_process::starter(config),
        };
        let (spec, caches) = (ready.engine.spec, assembly.caches);
        let open_files = Caretaker::new(runner.open_files(caches.clone()));
        let engine =
            (spec.start)(start).map_err(|why| StartError::Engine { name: spec.name, why })?;
        Ok(Self { engine, counters, caches, open_files, runner, evictions_told: 0 })
    }

    /// What has gone wrong and was mended, and what is wrong with files, since the last call.
    pub(crate) fn take_notices(&self) -> Vec<String> {
        let mut notices = self.engine.take_notices();
        notices.extend(self.runner.take_notices());
        notices
    }

    /// Has files closed that nobody asks for, and wakes workers if something has left a cache since
    /// the last call: one that sleeps may have it open still. It waits for no disk.
    pub(crate) fn do_housekeeping(&mut self) {
        self.open_files.close_due();
        let evictions = self.caches.iter().map(|cache| cache.evictions()).sum();
        if std::mem::replace(&mut self.evictions_told, evictions) != evictions {
            self.engine.do_housekeeping();
        }
    }
}

/// The counters of all workers of this process.
pub(crate) enum CounterBook {
    /// The counters are in the memory of the process.
    Own(Mutex<Vec<Arc<Counters>>>),
    /// The counters are in memory that outlives the process.
    Shared(PlaceLedger),
}

impl Default for CounterBook {
    fn default() -> Self {
        Self::Own(Mutex::default())
    }
}

impl CounterBook {
    /// The counters of all workers until now.
    pub(crate) fn all(&self) -> Vec<Arc<Counters>> {
        match self {
            Self::Own(list) => lock(list).clone(),
            Self::Shared(ledger) => ledger.counters(),
        }
    }

    /// Counters for one more worker.
    fn open(&self) -> Arc<Counters> {
        match self {
            Self::Own(list) => {
                let counters = Arc::new(Counters::default());
                lock(list).push(Arc::clone(&counters));
                counters
            }
            Self::Shared(ledger) => Arc::new(ledger.open()),
        }
    }
}

fn lock(list: &Mutex<Vec<Arc<Counters>>>) -> MutexGuard<'_, Vec<Arc<Counters>>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts workers together from what they share.
struct Assembly<'a> {
    settings: &'a Settings,
    ready: &'a Ready,
    share: &'a Share,
    log: Option<LogEnds>,
    counters: Arc<CounterBook>,
    caches: Vec<Arc<Cache<Entry>>>,
}

impl Assembly<'_> {
    fn partitions(&mut self, sets: &[Vec<OwnedFd>]) -> Result<Vec<PartitionStart>, StartError> {
        let share = self.share;
        share.parts.iter().map(|part| self.partition(part, sets)).collect()
    }

    fn partition(
        &mut self,
        part: &Part,
        sets: &[Vec<OwnedFd>],
    ) -> Result<PartitionStart, StartError> {
        let failed = StartError::system("share a listener");
        let worker_factory = Arc::new(self.worker_factory(part.plan.workers));
        let mut workers = Vec::new();
        let unpinned_cpus: Arc<[usize]> = part.unpinned_cpus.as_slice().into();
        for index in 0..part.plan.workers {
            // Where there are fewer sets than workers, they copy them.
            let set = &sets[part.sets.start + index % part.sets.len()];
            let listeners = set.iter().map(OwnedFd::try_clone).collect::<Result<_, _>>();
            let worker = match self.settings.cache.scope {
                CacheScope::Worker if index > 0 => self.worker_factory(1).make(),
                _ => worker_factory.make(),
            };
            let cpu = part.cpus.get(index % part.cpus.len().max(1)).copied();
            let (unpinned_cpus, listeners) =
                (Arc::clone(&unpinned_cpus), listeners.map_err(&failed)?);
            workers.push(WorkerStart { worker, cpu, unpinned_cpus, listeners });
        }
        let more: MakeWorker = Arc::new(move || worker_factory.make());
        Ok(PartitionStart { cpus: part.cpus.clone(), workers, more })
    }

    /// Where workers that share a cache are made.
    fn worker_factory(&mut self, workers: usize) -> WorkerFactory {
        let (ready, settings) = (self.ready, &self.settings.cache);
        let cache = match self.caches.first() {
            Some(first) if settings.scope == CacheScope::Process => Arc::clone(first),
            _ => self.cache(workers),
        };
        WorkerFactory {
            site: Arc::clone(&ready.site),
            limits: Arc::clone(&ready.limits),
            listings: Arc::clone(&ready.listings),
            cache,
            first_level_slots_max: self.first_level_slots_max(),
            revalidate_us: Revalidation::of(settings).interval_us,
            log: self.log.clone(),
            counters: Arc::clone(&self.counters),
        }
    }

    /// Under a tiny limit of descriptors as few as there can be: what has left the cache is open as
    /// long as it is in the first level of a worker that nobody needs.
    fn first_level_slots_max(&self) -> usize {
        let wanted = self.settings.cache.first_level_slots_max as usize;
        match self.ready.descriptors.jobs {
            Some(_) => wanted.min(FIRST_LEVEL_SLOTS_TINY),
            None => wanted,
        }
    }

    /// One more cache.
    fn cache(&mut self, workers: usize) -> Arc<Cache<Entry>> {
        let (settings, ready) = (self.settings, self.ready);
        let count = |share: &Share| match settings.cache.scope {
            CacheScope::Worker => share.workers(),
            CacheScope::Auto | CacheScope::Partition => share.parts.len(),
            CacheScope::Process => 1,
        };
        let all = ready.layout.shares.iter().map(count).sum();
        let workers = match settings.cache.scope {
            CacheScope::Worker => 1,
            CacheScope::Auto | CacheScope::Partition => workers,
            CacheScope::Process => self.share.workers(),
        };
        let cache =
            ready::cache(settings, ready.descriptors.cache, all, count(self.share), workers);
        self.caches.push(Arc::clone(&cache));
        cache
    }
}

/// When what is known of a path is looked at again, in microseconds. Together they are what the
/// configuration promises: what is seen of a directory may be a moment old.
struct Revalidation {
    interval_us: u64,
    moment_us: u64,
}

impl Revalidation {
    fn of(settings: &CacheSettings) -> Self {
        let Some(ms) = settings.revalidate_ms else {
            return Self { interval_us: u64::MAX, moment_us: 0 };
        };
        let moment_us = ms * 1000 / 16;
        Self { interval_us: ms * 1000 - moment_us, moment_us }
    }
}

/// Makes the workers of a partition, at the start and later.
struct WorkerFactory {
    site: Arc<Site>,
    limits: Arc<Limits>,
    listings: Arc<Listings>,
    cache: Arc<Cache<Entry>>,
    first_level_slots_max: usize,
    revalidate_us: u64,
    log: Option<LogEnds>,
    counters: Arc<CounterBook>,
}

impl WorkerFactory {
    fn make(&self) -> Worker {
        Worker::new(WorkerParts {
            site: Arc::clone(&self.site),
            limits: Arc::clone(&self.limits),
            listings: Arc::clone(&self.listings),
            cache: Arc::clone(&self.cache),
            first_level_slots_max: self.first_level_slots_max,
            revalidate_us: self.revalidate_us,
            log: self.log.as_ref().map(|log| Box::new(log.worker()) as Box<dyn AccessLog>),
            counters: self.counters.open(),
        })
    }
}
