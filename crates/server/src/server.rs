//! A running server: start it, ask where it listens, stop it. No signals here, so that a test can
//! have several.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engines::jobs::Runner;
use engines::{Engine, MakeWorker, PartitionStart, Plan, Start, WorkerStart};
use file_cache::Cache;
use session::{AccessLog, Counters, Limits, Listings, Worker, WorkerParts};
use site::Site;
use site::resource::Entry;

use crate::access_log::{Log, LogEnds, Reopener};
use crate::config::{Config, Settings, cpus};
use crate::listeners::{self, Listeners};
use crate::partitions::{Machine, Partition};
use crate::ready::{self, Ready, make_ready};
use crate::report;

/// A server that runs until it is told to stop.
pub struct Server {
    engine: Box<dyn Engine>,
    addresses: Vec<SocketAddr>,
    description: String,
    log: Option<Log>,
    counters: Arc<CounterBook>,
    /// The second level of each partition.
    caches: Vec<Arc<Cache<Entry>>>,
    /// What had left them when workers were last told of it.
    evictions_told: u64,
}

/// What a server did while it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Connections accepted.
    pub connections: u64,
    /// Responses finished or broken off.
    pub requests: u64,
    /// Access log lines that could not be written.
    pub log_lines_dropped: u64,
    /// Whether connections had to be cut off.
    pub aborted: bool,
}

impl Server {
    /// Opens everything the configuration names and starts to serve. When it returns, clients can
    /// connect.
    ///
    /// # Errors
    /// One line: what could not be opened or started, and what to do.
    pub fn start(config: &Config) -> Result<Self, String> {
        let settings = &config.settings;
        let machine = Machine::this();
        let ready = make_ready(config, &machine)?;
        if let Some(warning) = ready.descriptors.warning(machine.descriptors_max) {
            report(&warning);
        }
        let sets = ready.plans.iter().map(listener_sets).sum();
        let listeners = listeners::open(&settings.listen, &settings.socket, sets)?;
        let runner = Runner::new(Arc::clone(&ready.site), settings.cache.small_body_bytes_max)
            .map_err(|why| format!("cannot open a root: {why}"))?;
        let log = Log::open(&settings.log)?;
        let description = describe(settings, &ready, &listeners.addresses);
        let addresses = listeners.addresses.clone();
        let mut assembly = Assembly {
            settings,
            ready: &ready,
            log: log.as_ref(),
            counters: Arc::default(),
            caches: vec![],
        };
        let partitions = assembly.partitions(listeners)?;
        let Assembly { counters, caches, .. } = assembly;
        let start = Start {
            partitions,
            runner: Arc::new(runner),
            connections_max: ready.descriptors.connections,
            sendfile: ready.engine.spec.sendfile[0],
            exclusive_wakeups: false,
            knobs: ready.engine.knobs.clone(),
        };
        let spec = ready.engine.spec;
        let engine =
            (spec.start)(start).map_err(|why| format!("cannot start {}: {why}", spec.name))?;
        Ok(Self { engine, addresses, description, log, counters, caches, evictions_told: 0 })
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// One line: what is served where and how.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The counters of all workers it has had until now.
    #[must_use]
    pub fn counters(&self) -> Vec<Arc<Counters>> {
        self.counters.lock().clone()
    }

    /// Something that reopens the access log, if there is one.
    #[must_use]
    pub fn log_reopener(&self) -> Option<Reopener> {
        self.log.as_ref().map(Log::reopener)
    }

    /// Which worker has ended against its will, and why; none while all is well. The others serve
    /// on until they are stopped.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.engine.failure()
    }

    /// Wakes workers if something has left the cache since the last call: one that sleeps may have
    /// it open still. Call it about once a second.
    pub fn keep_house(&mut self) {
        let evictions = self.caches.iter().map(|cache| cache.evictions()).sum();
        if std::mem::replace(&mut self.evictions_told, evictions) != evictions {
            self.engine.keep_house();
        }
    }

    /// Stops accepting, lets responses finish for at most `patience`, and cuts off the rest.
    ///
    /// # Errors
    /// What ended a worker against its will.
    pub fn stop_gracefully(self, patience: Duration) -> Result<Summary, String> {
        /// Short enough that nobody waits for it, long enough to cost nothing.
        const TURN: Duration = Duration::from_millis(5);
        self.stop(patience, || {
            std::thread::sleep(TURN);
            false
        })
    }

    /// The same, but `hurry` is asked again and again, sleeps a little each time, and may end the
    /// patience.
    pub(crate) fn stop(
        mut self,
        patience: Duration,
        mut hurry: impl FnMut() -> bool,
    ) -> Result<Summary, String> {
        let end = os::clock::now().saturating_add(patience.as_micros() as u64);
        self.engine.stop_accepting();
        self.engine.drain();
        let mut aborted = false;
        while !self.engine.is_finished() {
            if hurry() || os::clock::now() >= end {
                self.engine.abort();
                aborted = true;
                break;
            }
        }
        let joined = self.engine.join();
        let counters = self.counters.lock().clone();
        let sum = |counter: fn(&Counters) -> u64| counters.iter().map(|c| counter(c)).sum();
        let summary = Summary {
            connections: sum(|counters| counters.connections_accepted.get()),
            requests: sum(|counters| counters.requests.get()),
            log_lines_dropped: self.log.map_or(0, Log::close),
            aborted,
        };
        joined.map(|()| summary).map_err(|why| format!("a worker failed: {why}"))
    }
}

/// Puts workers together from what they share.
struct Assembly<'a> {
    settings: &'a Settings,
    ready: &'a Ready,
    log: Option<&'a Log>,
    counters: Arc<CounterBook>,
    caches: Vec<Arc<Cache<Entry>>>,
}

impl Assembly<'_> {
    fn partitions(&mut self, listeners: Listeners) -> Result<Vec<PartitionStart>, String> {
        let failed = |why| format!("cannot share a listener: {why}");
        let mut sets = listeners.sets.into_iter();
        let mut starts = Vec::new();
        for (partition, plan) in self.ready.partitions.iter().zip(&self.ready.plans) {
            let own: Vec<_> = sets.by_ref().take(listener_sets(plan)).collect();
            let shop = Arc::new(self.shop(plan));
            let mut workers = workers(&shop, partition, plan);
            for (index, worker) in workers.iter_mut().enumerate() {
                // A plan without own listeners has one set, which all workers copy.
                let set = own[index % own.len()].iter();
                worker.listeners = set
                    .map(std::os::fd::OwnedFd::try_clone)
                    .collect::<Result<_, _>>()
                    .map_err(failed)?;
            }
            let more: MakeWorker = Arc::new(move || shop.make());
            starts.push(PartitionStart { cpus: partition.cpus.clone(), workers, more });
        }
        Ok(starts)
    }

    fn shop(&mut self, plan: &Plan) -> Shop {
        let ready = self.ready;
        let (descriptors, partitions) = (ready.descriptors.cache, ready.partitions.len());
        let cache = ready::cache(self.settings, descriptors, partitions, plan.workers);
        self.caches.push(Arc::clone(&cache));
        let settings = &self.settings.cache;
        Shop {
            site: Arc::clone(&ready.site),
            limits: Arc::clone(&ready.limits),
            listings: Arc::clone(&ready.listings),
            cache,
            first_level_slots_max: settings.first_level_slots_max as usize,
            revalidate_us: settings.revalidate_ms.map_or(u64::MAX, |ms| ms * 1000),
            log: self.log.map(Log::ends),
            counters: Arc::clone(&self.counters),
        }
    }
}

fn workers(shop: &Shop, partition: &Partition, plan: &Plan) -> Vec<WorkerStart> {
    let cpu = |index: usize| match partition.cpus.len() {
        0 => None,
        count => Some(partition.cpus[index % count]),
    };
    let start = |index| WorkerStart { worker: shop.make(), cpu: cpu(index), listeners: Vec::new() };
    (0..plan.workers).map(start).collect()
}

/// Where the workers of a partition are made, at the start and later.
struct Shop {
    site: Arc<Site>,
    limits: Arc<Limits>,
    listings: Arc<Listings>,
    cache: Arc<Cache<Entry>>,
    first_level_slots_max: usize,
    revalidate_us: u64,
    log: Option<LogEnds>,
    counters: Arc<CounterBook>,
}

impl Shop {
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

/// The counters of all workers.
#[derive(Default)]
struct CounterBook(Mutex<Vec<Arc<Counters>>>);

impl CounterBook {
    /// Counters for one more worker.
    fn open(&self) -> Arc<Counters> {
        let counters = Arc::new(Counters::default());
        self.lock().push(Arc::clone(&counters));
        counters
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Counters>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many sets of listeners a partition with this plan needs.
fn listener_sets(plan: &Plan) -> usize {
    if plan.listeners_per_worker { plan.workers } else { 1 }
}

/// `serving examples/site at http://127.0.0.1:8080 with event-loop-per-core (2 workers …)`.
fn describe(settings: &Settings, ready: &Ready, addresses: &[SocketAddr]) -> String {
    let what = match settings.hosts.as_slice() {
        [host] => host.root.display().to_string(),
        hosts => format!("{} hosts", hosts.len()),
    };
    let places: Vec<String> = addresses.iter().map(|at| format!("http://{at}")).collect();
    let (name, places) = (ready.engine.spec.name, places.join(" and "));
    let reason = ready.engine.reason.iter().map(|reason| format!("; {reason}")).collect::<String>();
    format!("serving {what} at {places} with {name} ({}{reason})", describe_workers(ready))
}

fn describe_workers(ready: &Ready) -> String {
    let workers: usize = ready.plans.iter().map(|plan| plan.workers).sum();
    let noun = if workers == 1 { "worker" } else { "workers" };
    let lists = ready.partitions.iter().map(|partition| cpus::show(&partition.cpus));
    match lists.collect::<Vec<_>>().join(" | ").as_str() {
        list if list.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("{workers} {noun} on CPUs {list}")
        }
        _ => format!("{workers} {noun}, not pinned"),
    }
}
