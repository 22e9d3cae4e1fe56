//! The part of a server that runs in this process: its share of the workers, with their caches, log
//! and counters.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engines::jobs::Runner;
use engines::{
    Caretaker, ConnectionLimit, Engine, EngineSpec, MakeWorker, OpenFiles, PartitionStart,
    SendfileMode, Start, WorkerStart,
};
use file_cache::Cache;
use session::{Counters, Listings, Published, Revision, Revisions, Worker, WorkerParts};
use site::Site;
use site::resource::Entry;
use upstream::{Application, Facilities};

use crate::access_log::{LogTarget, Style, WorkerLog};
use crate::config::{CacheScope, CacheSettings, Config, Settings};
use crate::error_log;
use crate::forked::Forked;
use crate::helper_process;
use crate::layout::{Part, Share};
use crate::partitions::Machine;
use crate::processes::PlaceLedger;
use crate::ready::{self, CachePlan, Ready};
use crate::spawner;
use crate::spool;
use crate::start_error::StartError;

/// The number of slots in one set of a first level.
const FIRST_LEVEL_SLOTS_TINY: usize = 4;

/// The number of descriptors that the table of a serving process has room for from the beginning,
/// unless fewer may be open: 128 KiB of the kernel's memory. The room is made while there is one
/// thread: with several the kernel waits for all CPUs, some ten milliseconds.
pub(crate) const DESCRIPTORS_WIDENED: u64 = 16_384;

/// What workers are given that others of the server share with them.
pub(crate) struct Given {
    /// The way of lines about finished requests.
    pub(crate) access_log: LogTarget,
    pub(crate) errors: error_log::Budget,
    /// The socket at which programs are started, if a route leads to any.
    pub(crate) spawner: Option<OwnedFd>,
    /// The number of connections that are open in this process.
    pub(crate) open: Arc<AtomicUsize>,
    /// The caches of workers that serve the same site, to go on with.
    pub(crate) caches: Vec<PlannedCache>,
    /// The machine, if those that serve will be forked from this process.
    pub(crate) forked_on: Option<Machine>,
}

/// A share of the server, all of which is there but its engine.
pub(crate) struct Assembled {
    spec: &'static EngineSpec,
    start: Start,
    counters: Arc<CounterBook>,
    access_log: LogTarget,
    facilities: Facilities,
    caches: Vec<PlannedCache>,
    published: Arc<Published>,
    revisions: Vec<Arc<Revisions>>,
    forked: Option<Arc<Forked>>,
}

/// A second level of the cache, and what it was made from.
pub(crate) type PlannedCache = (CachePlan, Arc<Cache<Entry>>);

/// An engine that runs in this process.
pub(crate) struct Local {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) counters: Arc<CounterBook>,
    access_log: LogTarget,
    /// What applications need of the system.
    facilities: Facilities,
    connections_max: ConnectionLimit,
    caches: Vec<PlannedCache>,
    /// What its workers go by, and where those with each of the caches find it.
    published: Arc<Published>,
    revisions: Vec<Arc<Revisions>>,
    /// Where processes find it that were forked from this one.
    forked: Option<Arc<Forked>>,
    open_files: Caretaker,
    /// Caches that workers are still to let go of, and who closes their files.
    former: Vec<(Vec<PlannedCache>, Caretaker)>,
    runner: Arc<Runner>,
    /// The number of evictions when workers were last woken because of them.
    evictions_reported: u64,
}

impl Assembled {
    /// Assembles a share of the server, with the sets of listeners of the whole layout; sets of
    /// other shares may be empty.
    ///
    /// # Errors
    /// What could not be opened.
    pub(crate) fn new(
        config: &Config,
        ready: &Ready,
        share: &Share,
        sets: Vec<Vec<OwnedFd>>,
        given: Given,
        counters: CounterBook,
    ) -> Result<Self, StartError> {
        let settings = &config.settings;
        let facilities = Facilities {
            report: Some(error_log::diagnostic_logger(given.errors)),
            open_spool: Some(Arc::new(spool::open)),
            start_programs: given.spawner.map(spawner::starter),
        };
        equip(ready.site.applications(), &facilities);
        let runner = runner(settings, ready, given.errors)?;
        let counters = Arc::new(counters);
        let failed = StartError::system("make what processes share");
        let forked = given.forked_on.map(|it| Forked::new(it, ready, &runner, &facilities));
        let forked = forked.transpose().map_err(&failed)?;
        let (site, limits) = (Arc::clone(&ready.site), Arc::clone(&ready.limits));
        let source = forked.as_ref().map(Forked::source);
        let published = Published::new(Revision { site, limits }, source);
        let mut worker_builder = WorkerBuilder {
            settings,
            ready,
            share,
            listings: ready::listings(ready).map_err(&failed)?,
            published: &published,
            log: given.access_log.clone(),
            counters: Arc::clone(&counters),
            former: given.caches,
            caches: Vec::new(),
            revisions: Vec::new(),
        };
        let partitions = worker_builder.partitions(&sets)?;
        // The workers have copies: no other copy, here or in a forked process, may keep a listener
        // open.
        drop(sets);
        let WorkerBuilder { caches, revisions, .. } = worker_builder;
        let start = Start {
            partitions,
            runner,
            open: given.open,
            connections_max: ConnectionLimit::new(ready.descriptors.connections),
            sendfile: ready.sendfile,
            exclusive_wakeups: ready.layout.exclusive_wakeups,
            knobs: ready.engine.knobs.clone(),
            start_helper: helper_process::starter(config),
        };
        let spec = ready.engine.spec;
        let access_log = given.access_log;
        Ok(Self {
            spec,
            start,
            counters,
            access_log,
            facilities,
            caches,
            published,
            revisions,
            forked,
        })
    }

    /// Starts the engine. In processes that it forks all that this process has now stays as it is:
    /// the caller has no site any more, which would keep its roots open there.
    ///
    /// # Errors
    /// The engine does not start.
    pub(crate) fn start(self) -> Result<Local, StartError> {
        let Self {
            spec,
            start,
            counters,
            access_log,
            facilities,
            caches,
            published,
            revisions,
            forked,
        } = self;
        let (runner, connections_max) = (Arc::clone(&start.runner), start.connections_max.clone());
        let open_files = caretaker(&runner, &caches);
        let engine =
            (spec.start)(start).map_err(|why| StartError::Engine { name: spec.name, why })?;
        Ok(Local {
            engine,
            counters,
            access_log,
            facilities,
            connections_max,
            caches,
            published,
            revisions,
            forked,
            open_files,
            former: Vec::new(),
            runner,
            evictions_reported: 0,
        })
    }
}

impl Local {
    /// Has all workers go by another configuration, whose site follows theirs, and have at most so
    /// many connections, as far as there is room for them. Whatever request comes after this is
    /// answered by it. The caches stay if the site does.
    ///
    /// # Errors
    /// A root cannot be opened. Nothing has changed then.
    pub(crate) fn take_over(
        &mut self,
        config: &Config,
        ready: &Ready,
        site: &Arc<Site>,
    ) -> Result<(), StartError> {
        equip(site.applications(), &self.facilities);
        let written = self.forked.iter().try_for_each(|it| it.write(config, site));
        written.map_err(StartError::system("tell processes of another configuration"))?;
        let former = self.site();
        if !Arc::ptr_eq(&former, site) {
            self.runner.follow(Arc::clone(site)).map_err(StartError::Root)?;
            self.begin_caches();
            let retired = former.applications().iter().filter(|it| !site.has_application(it));
            retired.for_each(|it| it.retire());
        }
        drop(former);
        let (site, limits) = (Arc::clone(site), Arc::clone(&ready.limits));
        self.forked.iter().for_each(|it| it.keep((ready.hosts.clone(), Arc::clone(&site))));
        self.access_log.set_style(Style::of(&config.settings.log));
        self.published.publish(Revision { site, limits });
        self.connections_max.set(ready.descriptors.connections);
        self.engine.do_housekeeping();
        self.forget_former();
        Ok(())
    }

    /// Begins others in the place of the caches, which workers are still to let go of.
    fn begin_caches(&mut self) {
        let next: Vec<_> = self.caches.iter().map(|(plan, _)| (*plan, plan.make())).collect();
        let open_files = std::mem::replace(&mut self.open_files, caretaker(&self.runner, &next));
        for (revisions, (_, cache)) in self.revisions.iter().zip(&next) {
            revisions.set_cache(Arc::clone(cache));
        }
        self.former.push((std::mem::replace(&mut self.caches, next), open_files));
    }

    /// Lets go of former caches that no worker has any more. To free what is in them takes a while,
    /// which no worker is to wait for; where files are open in them a thread of their own does it.
    fn forget_former(&mut self) {
        /// One is here, and one is its caretaker's.
        const OURS: usize = 2;
        self.former.retain_mut(|(caches, open_files)| {
            open_files.close_due();
            caches.iter().any(|(_, cache)| Arc::strong_count(cache) > OURS)
        });
        self.runner.forget_former();
    }

    /// What its workers serve.
    pub(crate) fn site(&self) -> Arc<Site> {
        Arc::clone(&self.published.revision().site)
    }

    /// The caches, for workers that go on with the same site.
    pub(crate) fn caches(&self) -> Vec<PlannedCache> {
        self.caches.clone()
    }

    /// Has files closed that are open and not sent, except those of caches that others go on with.
    pub(crate) fn keep_no_files(&mut self, kept: &[PlannedCache]) {
        let is_kept = |cache: &Arc<_>| kept.iter().any(|(_, other)| Arc::ptr_eq(other, cache));
        let own = self.caches.iter().map(|(_, cache)| Arc::clone(cache));
        self.open_files =
            Caretaker::new(OpenFiles::not_kept(own.filter(|it| !is_kept(it)).collect()));
    }

    /// Takes the notices since the last call: failures that were handled, and files with problems.
    pub(crate) fn take_notices(&self) -> Vec<String> {
        let mut notices = self.engine.take_notices();
        notices.extend(self.runner.take_notices());
        notices
    }

    /// Closes files that are no longer requested, and wakes workers if an entry has left a cache
    /// since the last call, or one is to let go of a former cache: a worker that sleeps may still
    /// have files of it open. This waits for no disk.
    pub(crate) fn do_housekeeping(&mut self) {
        self.open_files.close_due();
        self.forget_former();
        let evictions = self.caches.iter().map(|(_, cache)| cache.evictions()).sum();
        let has_evicted = std::mem::replace(&mut self.evictions_reported, evictions) != evictions;
        if has_evicted || !self.former.is_empty() {
            self.engine.do_housekeeping();
        }
    }
}

fn runner(
    settings: &Settings,
    ready: &Ready,
    errors: error_log::Budget,
) -> Result<Arc<Runner>, StartError> {
    let runner = Runner::new(Arc::clone(&ready.site), settings.cache.small_body_bytes_max)
        .map_err(StartError::Root)?
        .with_trouble_report(error_log::trouble_logger(errors))
        .with_file_idle_us(settings.cache.descriptors_idle_ms.map(|ms| ms * 1000))
        .with_moment_us(Revalidation::from_settings(&settings.cache).moment_us);
    Ok(Arc::new(match ready.descriptors.jobs {
        Some(count) => runner.with_jobs_max(count),
        None => runner,
    }))
}

/// Gives applications what they need of the system, if they have not got it.
pub(crate) fn equip(applications: &[Arc<Application>], facilities: &Facilities) {
    applications.iter().for_each(|it| it.set_facilities(facilities.clone()));
}

/// Who closes the unused files of these caches.
fn caretaker(runner: &Runner, caches: &[PlannedCache]) -> Caretaker {
    let all = caches.iter().map(|(_, cache)| Arc::clone(cache)).collect();
    Caretaker::new(runner.open_files(all))
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
    /// The counters of all workers that have been made.
    pub(crate) fn all(&self) -> Vec<Arc<Counters>> {
        match self {
            Self::Own(list) => lock(list).clone(),
            Self::Shared(ledger) => ledger.counters(),
        }
    }

    /// Creates counters for one more worker.
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

/// Creates workers from the parts they share.
struct WorkerBuilder<'a> {
    settings: &'a Settings,
    ready: &'a Ready,
    share: &'a Share,
    listings: Arc<Listings>,
    published: &'a Arc<Published>,
    log: LogTarget,
    counters: Arc<CounterBook>,
    /// The caches of workers that serve the same site.
    former: Vec<PlannedCache>,
    caches: Vec<PlannedCache>,
    revisions: Vec<Arc<Revisions>>,
}

impl WorkerBuilder<'_> {
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
            // Where there are fewer sets than workers, workers copy the listeners of one set.
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

    /// Creates a factory for workers that share a cache.
    fn worker_factory(&mut self, workers: usize) -> WorkerFactory {
        let (ready, settings) = (self.ready, &self.settings.cache);
        let revisions = match self.revisions.first() {
            Some(first) if settings.scope == CacheScope::Process => Arc::clone(first),
            _ => self.revisions(workers),
        };
        WorkerFactory {
            revisions,
            listings: Arc::clone(&self.listings),
            first_level_slots_max: self.first_level_slots_max(),
            revalidate_us: Revalidation::from_settings(settings).interval_us,
            reads_files: ready.sendfile == SendfileMode::Off,
            log: self.log.clone(),
            counters: Arc::clone(&self.counters),
        }
    }

    /// The number of slots in a first level. Under a tiny limit of descriptors it is the smallest
    /// possible: an entry that has left the cache keeps its file open as long as it is in the first
    /// level of an idle worker.
    fn first_level_slots_max(&self) -> usize {
        let wanted = self.settings.cache.first_level_slots_max as usize;
        match self.ready.descriptors.jobs {
            Some(_) => wanted.min(FIRST_LEVEL_SLOTS_TINY),
            None => wanted,
        }
    }

    /// Where workers with one more cache find what they go by.
    fn revisions(&mut self, workers: usize) -> Arc<Revisions> {
        let revisions = Revisions::new(self.published, self.cache(workers));
        self.revisions.push(Arc::clone(&revisions));
        revisions
    }

    /// One more cache: a former one, if it is as this is to be.
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
        let plan =
            CachePlan::new(settings, ready.descriptors.cache, all, count(self.share), workers);
        let former = self.former.get(self.caches.len()).filter(|(of, _)| *of == plan);
        let cache = former.map_or_else(|| plan.make(), |(_, cache)| Arc::clone(cache));
        self.caches.push((plan, Arc::clone(&cache)));
        cache
    }
}

/// The intervals after which what is known of a path is checked again, in microseconds. Their sum
/// is what the configuration promises: what is known of a directory may be a moment old.
struct Revalidation {
    interval_us: u64,
    moment_us: u64,
}

impl Revalidation {
    fn from_settings(settings: &CacheSettings) -> Self {
        let Some(ms) = settings.revalidate_ms else {
            return Self { interval_us: u64::MAX, moment_us: 0 };
        };
        let moment_us = ms * 1000 / 16;
        Self { interval_us: ms * 1000 - moment_us, moment_us }
    }
}

/// Creates the workers of a partition, at the start and later.
struct WorkerFactory {
    revisions: Arc<Revisions>,
    listings: Arc<Listings>,
    first_level_slots_max: usize,
    revalidate_us: u64,
    reads_files: bool,
    log: LogTarget,
    counters: Arc<CounterBook>,
}

impl WorkerFactory {
    fn make(&self) -> Worker {
        let revision = self.revisions.revision();
        let mut worker = Worker::new(WorkerParts {
            site: Arc::clone(&revision.site),
            limits: Arc::clone(&revision.limits),
            listings: Arc::clone(&self.listings),
            cache: self.revisions.cache(),
            first_level_slots_max: self.first_level_slots_max,
            revalidate_us: self.revalidate_us,
            reads_files: self.reads_files,
            log: Some(Box::new(WorkerLog::new(self.log.clone()))),
            counters: self.counters.open(),
        });
        worker.follow(Arc::clone(&self.revisions));
        worker
    }
}
