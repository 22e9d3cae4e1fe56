//! From settings to the objects of a running server: the second stage of the configuration.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use engines::SendfileMode;
use file_cache::{Budget, Cache, PolicyKind};
use session::{Limits, Listings};
use site::check::SettingError;
use site::host::HostSettings;
use site::resource::Entry;
use site::{Site, SiteError};
use upstream::{ApplicationSettings, Protocol};

use crate::config::{
    AccessForm, Config, ConfigError, ConfigFault, LimitSettings, LogSettings, Settings,
    TimeoutSettings, host_key,
};
use crate::engine_choice::{self, EngineChoice};
use crate::layout::{Layout, Share};
use crate::partitions::{self, Machine, Partition};
use crate::{listeners, modes, spawner};

/// The parts of a server that need no descriptor.
pub(crate) struct Ready {
    pub(crate) site: Arc<Site>,
    /// What the site was made from: the settings, divided among the workers.
    pub(crate) hosts: Vec<HostSettings>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) partitions: Vec<Partition>,
    pub(crate) engine: EngineChoice,
    /// The workers of each partition, and the processes they are in.
    pub(crate) layout: Layout,
    pub(crate) sendfile: SendfileMode,
    /// The division of each process's descriptors.
    pub(crate) descriptors: Descriptors,
    /// Settings that make no difference, in lines for operators.
    pub(crate) without_effect: Vec<String>,
}

/// How descriptors are divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Descriptors {
    pub(crate) cache: usize,
    /// Listings under way, each with its directory; 0 where nothing is listed.
    pub(crate) listings: usize,
    /// Helper processes, each at the other end of a socket.
    pub(crate) helpers: usize,
    pub(crate) connections: usize,
    /// Connections to applications.
    pub(crate) calls: usize,
    /// Jobs that may run at once, each of which opens a file and its variants; none: any number.
    pub(crate) jobs: Option<usize>,
}

/// Descriptors for everything but connections and cached files: the standard streams, roots, the
/// log, and what jobs have open for a short time.
const DESCRIPTORS_RESERVED: u64 = 64;
/// Descriptors of a worker: its listeners, epoll set and wake-up call.
const DESCRIPTORS_PER_WORKER: u64 = 8;
/// A limit below this many times the overhead is tiny, and divided in another way.
const TINY_TIMES_OVERHEAD: u64 = 4;
/// Descriptors of a tiny limit for each job that may run at once; a job opens four files at most.
const TINY_LIMIT_PER_JOB: u64 = 32;
/// The least descriptor limit: with fewer descriptors, files cannot be opened while even a few
/// clients are connected.
const DESCRIPTORS_MIN: u64 = 32;
/// Listings under way unless the settings say otherwise. A listing of 100,000 names holds 2 MB or
/// more, but only while its client is slow to read: a directory of 400 names is listed at once.
const LISTINGS_USUAL: u64 = 64;
/// The part of the descriptors that connections to applications may take: one of so many.
const CALLS_SHARE: u64 = 4;
/// The largest number of connections that is divided up by default; the descriptor limit of a
/// container may be 2^30.
const CONNECTIONS_MAX: u64 = 1 << 20;

/// Makes everything ready, or returns why it cannot. The configuration names its engine.
pub(crate) fn make_ready(config: &Config, machine: &Machine) -> Result<Ready, ConfigError> {
    let settings = &config.settings;
    check_descriptor_limit(machine.descriptors_max)?;
    let partitions = partitions::divide(&settings.partitions, machine)
        .map_err(|why| config.unfit(partitions_key(settings), why))?;
    let engine = engine_choice::choose(config)?;
    let layout = Layout::new(settings, engine.spec, &engine.knobs, &partitions);
    modes::check_listeners(&layout, settings)
        .map_err(|why| config.unfit("socket.listeners", why))?;
    check_partition_addresses(&partitions, settings)
        .map_err(|why| config.unfit("partitions.listen", why))?;
    check_irq_affinity(&partitions, settings)
        .map_err(|why| config.unfit("partitions.set_irq_affinity", why))?;
    check_roots(config, &layout)?;
    // The ports of copies are counted up from the configured ones.
    layout.sets.iter().try_for_each(|set| listeners::addresses(config, *set).map(drop))?;
    let sendfile = modes::sendfile(settings.socket.sendfile, engine.spec, &layout)
        .map_err(|why| config.unfit("socket.sendfile", why))?;
    let mut without_effect = modes::without_effect(settings, engine.spec, &layout);
    without_effect.extend(engine.notices.iter().cloned());
    without_effect.extend(log_without_lines(&settings.log));
    let descriptors = Descriptors::divide(settings, machine.descriptors_max, &layout);
    let mut hosts = settings.hosts.clone();
    let callers = layout.shares.iter().map(Share::callers).sum();
    share_programs(&mut hosts, callers);
    share_children(&mut hosts, callers)
        .map_err(|(host, why)| config.unfit(&host_key(host, "route"), why))?;
    make_script_roots_absolute(&mut hosts);
    without_effect.extend(bound_calls(&mut hosts, descriptors.calls, &layout));
    Ok(Ready {
        site: Arc::new(site(config, hosts.clone())?),
        hosts,
        limits: Arc::new(limits(&settings.limits, &settings.timeouts)),
        descriptors,
        partitions,
        engine,
        layout,
        sendfile,
        without_effect,
    })
}

/// The message about a path for a log that is off.
fn log_without_lines(log: &LogSettings) -> Option<String> {
    let is_lost = log.access == AccessForm::Off && log.path != "-";
    is_lost.then(|| {
        "log.path makes no difference, because no access log is written: use --log combined, or \
         set log.access = \"combined\""
            .into()
    })
}

/// Checks the descriptor limit, which the operator sets outside the configuration.
fn check_descriptor_limit(max: u64) -> Result<(), ConfigError> {
    if max >= DESCRIPTORS_MIN {
        return Ok(());
    }
    let why = format!(
        "the descriptor limit is {max}: at least {DESCRIPTORS_MIN} are needed (ulimit -n, \
         LimitNOFILE=)"
    );
    Err(ConfigError::without_place(ConfigFault::Unfit(why)))
}

/// The applications that routes lead to, each once.
fn applications(hosts: &[HostSettings]) -> Vec<&ApplicationSettings> {
    let mut applications = Vec::new();
    for route in hosts.iter().flat_map(|host| &host.routes) {
        if !route.application.servers.is_empty() && !applications.contains(&&route.application) {
            applications.push(&route.application);
        }
    }
    applications
}

/// How many in a process have as many calls of an application each as it may have: its workers, or
/// the groups of them, and, as one, the threads that finish calls of clients that have left.
fn callers(hosts: &[HostSettings], layout: &Layout) -> u64 {
    let is_finished = applications(hosts).iter().any(|it| it.ignore_client_abort);
    callers_max(layout) + u64::from(is_finished)
}

/// Bounds the requests that are with applications at a time to `calls` for each process. Returns a
/// line for operators if that is less than the settings allow.
fn bound_calls(hosts: &mut [HostSettings], calls: usize, layout: &Layout) -> Option<String> {
    let each = fair_share(
        applications(hosts).iter().map(|application| application.limits.in_flight_max).collect(),
        calls as u64 / callers(hosts, layout).max(1),
    );
    let mut wanted = None;
    for route in hosts.iter_mut().flat_map(|host| &mut host.routes) {
        let limits = &mut route.application.limits;
        let is_used = !route.application.servers.is_empty();
        if is_used && limits.in_flight_max > each.max(1) {
            wanted = wanted.max(Some(limits.in_flight_max));
            limits.in_flight_max = each.max(1);
        }
    }
    wanted.map(|wanted| {
        format!(
            "in_flight_max of a route: {} and not {wanted} requests are with an application at a \
             time, for want of descriptors (ulimit -n, LimitNOFILE=)",
            each.max(1)
        )
    })
}

/// How much each gets of `total` at most, so that those who want less leave the rest to others.
fn fair_share(mut wanted: Vec<u64>, mut total: u64) -> u64 {
    wanted.sort_unstable();
    for (index, want) in wanted.iter().enumerate() {
        let each = total / (wanted.len() - index) as u64;
        if *want > each {
            return each;
        }
        total -= want;
    }
    u64::MAX
}

/// Divides the processes of FastCGI applications whose connections are kept among the workers, or
/// the groups of them, that have bounds of their own: with those that are in use and those that
/// rest, each has its share of connections at most, so that a connection always finds a process.
fn share_children(hosts: &mut [HostSettings], callers: usize) -> Result<(), (usize, String)> {
    for (index, host) in hosts.iter_mut().enumerate() {
        for route in &mut host.routes {
            let ApplicationSettings { limits, fastcgi, .. } = &mut route.application;
            let each = fastcgi.children / callers.max(1) as u64;
            if fastcgi.children > 0 && each == 0 {
                let (path, children) = (&route.path, fastcgi.children);
                let why = format!(
                    "children of the route {path:?}: {children} are too few for {callers} \
                     workers, each of which keeps connections of its own: have more, or keep none \
                     (children = 0)"
                );
                return Err((index, why));
            }
            if each > 0 {
                limits.in_flight_max = limits.in_flight_max.min(each);
            }
        }
    }
    Ok(())
}

/// Divides the CGI programs that may run at a time among the workers, or the groups of them, that
/// have bounds of their own.
fn share_programs(hosts: &mut [HostSettings], callers: usize) {
    for route in hosts.iter_mut().flat_map(|host| &mut host.routes) {
        let ApplicationSettings { limits, protocol, .. } = &mut route.application;
        if *protocol == Protocol::Cgi {
            limits.in_flight_max = (limits.in_flight_max / callers.max(1) as u64).max(1);
        }
    }
}

/// Makes the roots absolute that scripts are told: they have another current directory.
fn make_script_roots_absolute(hosts: &mut [HostSettings]) {
    for host in hosts {
        let mut protocols = host.routes.iter().map(|route| route.application.protocol);
        if protocols.any(|it| it != Protocol::Http)
            && let Ok(root) = std::path::absolute(&host.root)
        {
            host.root = root;
        }
    }
}

/// The largest number of workers in a process.
fn workers_max(layout: &Layout) -> u64 {
    layout.shares.iter().map(Share::workers).max().unwrap_or(1) as u64
}

/// The largest number of workers in a process, or of groups of them, that have bounds of
/// applications of their own.
fn callers_max(layout: &Layout) -> u64 {
    layout.shares.iter().map(Share::callers).max().unwrap_or(1) as u64
}

/// Creates the site. Settings that were read have been checked; those that a program has set may be
/// wrong.
fn site(config: &Config, hosts: Vec<HostSettings>) -> Result<Site, ConfigError> {
    Site::new(hosts).map_err(|SiteError { host, fault }| {
        let key = match &fault {
            SettingError::NoScript(_) => "front_controller",
            SettingError::ScriptPage(_) => "route",
            _ => return ConfigError::without_place(ConfigFault::Setting(fault)),
        };
        config.unfit(&host_key(host, key), fault.to_string())
    })
}

/// A site, and what it was made from.
pub(crate) type Made = (Vec<HostSettings>, Arc<Site>);

/// The site of a configuration, for workers that have had another one: that one if the hosts are
/// the same. Its first host has the index `first` if that is known already: other processes have
/// the same site.
pub(crate) fn next_site(
    config: &Config,
    ready: &Ready,
    (former_hosts, former): (&[HostSettings], &Arc<Site>),
    first: Option<usize>,
) -> Result<Arc<Site>, ConfigError> {
    if former_hosts == ready.hosts && first.is_none_or(|first| first == former.first()) {
        return Ok(Arc::clone(former));
    }
    let mut site = site(config, ready.hosts.clone())?;
    site.follow(former);
    first.into_iter().for_each(|first| site.begin_at(first));
    Ok(Arc::new(site))
}

/// What a second level of the cache is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CachePlan {
    policy: PolicyKind,
    budget: Budget,
    shards: usize,
}

impl CachePlan {
    /// A cache for `workers` workers. There are `caches` of them in the server, and `caches_here`
    /// in this process, which has its own descriptors.
    pub(crate) fn new(
        settings: &Settings,
        descriptors: usize,
        caches: usize,
        caches_here: usize,
        workers: usize,
    ) -> Self {
        /// Shards per worker, each with a lock: a few, so that two workers seldom need the same.
        const SHARDS_PER_WORKER: usize = 4;
        let budget = Budget {
            bytes: cache_bytes(settings.cache.bytes_max) as usize / caches,
            descriptors: descriptors / caches_here,
            entries: settings.cache.entries_max as usize / caches,
        };
        Self { policy: settings.cache.policy, budget, shards: workers * SHARDS_PER_WORKER }
    }

    pub(crate) fn make(self) -> Arc<Cache<Entry>> {
        Arc::new(Cache::new(self.policy, self.budget, self.shards))
    }
}

/// Memory for the cache of the whole server. A server that takes more than it may have is killed,
/// and what its cache holds is in the kernel's page cache as well: so the default is an eighth at
/// most.
fn cache_bytes(wanted: Option<u64>) -> u64 {
    const USUAL: u64 = 256 << 20;
    const MEMORY_SHARE: u64 = 8;
    let usable = || os::memory::usable_memory_bytes().unwrap_or(u64::MAX);
    wanted.unwrap_or_else(|| USUAL.min(usable() / MEMORY_SHARE))
}

impl Descriptors {
    /// Divides the descriptors of each process, all of which have the same limit: half for files
    /// and the rest for connections, unless the settings say otherwise, whose numbers are for the
    /// whole server. The descriptors of helpers are subtracted first.
    fn divide(settings: &Settings, limit: u64, layout: &Layout) -> Self {
        let helpers = layout.shares.iter().map(Share::helpers).max().unwrap_or(0);
        // With more helpers than descriptors the engine does not start, and reports why.
        let limit = limit.saturating_sub(helpers as u64).max(DESCRIPTORS_MIN);
        let processes = layout.shares.len() as u64;
        let workers = workers_max(layout);
        let share = |number: u64| number.div_ceil(processes);
        let overhead = DESCRIPTORS_RESERVED + DESCRIPTORS_PER_WORKER * workers;
        let is_tiny = limit < TINY_TIMES_OVERHEAD * overhead;
        // Of a tiny limit half is enough for the overhead. A third of the other half each is for
        // the cache, for connections, and for files that have left the cache and are still being
        // sent.
        let overhead = if is_tiny { overhead.min(limit / 2) } else { overhead };
        let third = (limit - overhead) / 3;
        let usual = if is_tiny { third } else { limit / 2 };
        let cache = settings.cache.descriptors_max.map_or(usual, share);
        let cache = cache.min(share(settings.cache.entries_max));
        let listings = match settings.hosts.iter().any(|host| host.listing) {
            true => settings.limits.listings_max.map_or(LISTINGS_USUAL.min(limit / 8), share),
            false => 0,
        };
        let sending = if is_tiny { third } else { 0 };
        let calls = applications(&settings.hosts);
        let callers = callers(&settings.hosts, layout);
        let calls = calls.iter().map(|it| it.limits.in_flight_max.saturating_mul(callers));
        let calls = calls.fold(0, u64::saturating_add);
        let calls = calls.min(limit / CALLS_SHARE);
        let left = limit.saturating_sub(overhead + cache + listings + sending + calls);
        // Even with listings, some connections must be possible.
        let left = left.max(limit / 8).clamp(1, CONNECTIONS_MAX);
        let connections = settings.limits.connections_max.map_or(left, share);
        Self {
            cache: cache as usize,
            listings: listings as usize,
            helpers,
            connections: connections as usize,
            calls: calls as usize,
            jobs: is_tiny.then_some((limit / TINY_LIMIT_PER_JOB).max(1) as usize),
        }
    }

    /// The number of descriptors that may be open at once, apart from the overhead.
    pub(crate) fn all(self) -> u64 {
        (self.cache + self.listings + self.helpers + self.connections + self.calls) as u64
    }

    /// A line for operators if the numbers exceed the limit.
    pub(crate) fn warning(self, limit: u64) -> Option<String> {
        let wanted = self.all();
        let helpers = match self.helpers {
            0 => String::new(),
            helpers => format!("{helpers} helper processes, "),
        };
        (wanted > limit).then(|| {
            format!(
                "{helpers}{} connections, {} cached files and {} listings need more descriptors \
                 than the limit of {limit}: raise it (ulimit -n, LimitNOFILE=) or expect pauses in \
                 accepting",
                self.connections, self.cache, self.listings
            )
        })
    }
}

/// Creates the counts of listings. Processes that are forked share them.
///
/// # Errors
/// There is no memory for them, or no descriptor.
pub(crate) fn listings(ready: &Ready) -> io::Result<Arc<Listings>> {
    let max = ready.descriptors.listings;
    if max == 0 || !ready.layout.are_forked() {
        return Ok(Listings::new(max));
    }
    let file = os::shared_memory::create_cells(max)?;
    Ok(Listings::shared(os::shared_memory::map_cells(file.as_fd())?))
}

pub(crate) fn limits(limits: &LimitSettings, timeouts: &TimeoutSettings) -> Limits {
    let mut head = Limits::default().head;
    head.head_bytes_max = limits.head_bytes_max as usize;
    head.request_line_bytes_max = limits.request_line_bytes_max as usize;
    head.fields_max = limits.fields_max as usize;
    Limits {
        head,
        requests_per_connection_max: limits.requests_per_connection_max as u32,
        unread_body_bytes_max: limits.unread_body_bytes_max,
        ranges_max: limits.ranges_max as usize,
        head_ms: timeouts.head_ms,
        head_bytes_per_s_min: timeouts.head_bytes_per_s_min,
        idle_ms: timeouts.idle_ms,
        write_ms: timeouts.write_ms,
        linger_ms: timeouts.linger_ms,
        ..Limits::default()
    }
}

fn check_partition_addresses(partitions: &[Partition], settings: &Settings) -> Result<(), String> {
    match settings.partitions.listen.len() {
        0 => Ok(()),
        lists if lists == partitions.len() => Ok(()),
        lists => Err(format!(
            "{lists} lists of addresses for {} partitions: give each partition one",
            partitions.len()
        )),
    }
}

/// Refuses to steer interrupts unless the CPUs and the interface are known.
fn check_irq_affinity(partitions: &[Partition], settings: &Settings) -> Result<(), String> {
    let settings = &settings.partitions;
    match settings.set_irq_affinity {
        true if partitions.iter().any(|partition| partition.cpus.is_empty()) => {
            Err("workers are not pinned here: name the CPUs of each partition (partitions.cpus)"
                .into())
        }
        true if partitions.len() > 1 && settings.listen.is_empty() => Err("interrupts follow \
             addresses: give each partition its own (partitions.listen)"
            .into()),
        _ => Ok(()),
    }
}

/// Refuses roots that are not UTF-8 where other processes, as workers and helpers, need the
/// configuration as a text.
fn check_roots(config: &Config, layout: &Layout) -> Result<(), ConfigError> {
    let has_helpers = layout.shares.iter().any(|share| share.helpers() > 0);
    let has_others = has_helpers || spawner::is_needed(&config.settings);
    if layout.processes.is_none() && !has_others {
        return Ok(());
    }
    let roots = config.settings.hosts.iter().map(|host| &host.root).enumerate();
    roots.filter(|(_, root)| root.to_str().is_none()).try_for_each(|(index, root)| {
        let why = format!(
            "{root:?} cannot be served by several processes, because its name is not UTF-8: rename \
             it, or choose an engine of one process"
        );
        Err(config.unfit(&host_key(index, "root"), why))
    })
}

fn partitions_key(settings: &Settings) -> &'static str {
    if settings.partitions.cpus.is_empty() { "partitions.count" } else { "partitions.cpus" }
}

#[cfg(test)]
mod tests {
    use engines::EngineSpec;
    use site::host::RouteSettings;
    use upstream::{Address, CallLimits, FastCgiSettings, ServerSettings};

    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_session() {
        let settings = Settings::default();
        let ours = limits(&settings.limits, &settings.timeouts);
        assert_eq!(format!("{ours:?}"), format!("{:?}", Limits::default()));
    }

    fn divide(
        spec: &EngineSpec,
        knobs: &engines::KnobValues,
        change: &dyn Fn(&mut Settings),
        limit: u64,
    ) -> Descriptors {
        let mut settings = Settings::default();
        change(&mut settings);
        let partitions = [Partition { cpus: vec![], width: 2 }];
        let layout = Layout::new(&settings, spec, knobs, &partitions);
        Descriptors::divide(&settings, limit, &layout)
    }

    #[test]
    fn helper_processes_cost_descriptors() {
        let spec = engines::find("event-loop-helpers").unwrap();
        let mut knobs = spec.default_knobs();
        knobs.set("helpers", 50).unwrap();
        let divided = divide(spec, &knobs, &|_| (), 1024);
        assert_eq!((divided.helpers, divided.cache, divided.connections), (0, 512, 432));
        knobs.choose("kind", "processes").unwrap();
        let divided = divide(spec, &knobs, &|_| (), 1024);
        assert_eq!((divided.helpers, divided.cache, divided.connections), (100, 462, 382));
        let many = divide(spec, &knobs, &|s| s.limits.connections_max = Some(500), 1024);
        let warning = many.warning(1024).unwrap();
        assert!(warning.starts_with("100 helper processes, 500 connections, "), "{warning}");
        knobs.set("helpers", 1000).unwrap();
        let divided = divide(spec, &knobs, &|_| (), 1024);
        assert_eq!((divided.cache, divided.connections), (5, 6));
    }

    #[test]
    fn descriptors() {
        let jobs = |limit: u64| (limit < 320).then_some((limit / 32) as usize);
        let divide = |change: &dyn Fn(&mut Settings), limit| {
            let spec = engines::find("event-loop-per-core").unwrap();
            divide(spec, &spec.default_knobs(), change, limit)
        };
        let check = |change: &dyn Fn(&mut Settings), limit, cache, connections| {
            let expected =
                Descriptors { cache, connections, jobs: jobs(limit), ..Descriptors::default() };
            assert_eq!(divide(change, limit), expected, "{limit}");
        };
        check(&|_| (), 1024, 512, 432);
        check(&|_| (), 20_000, 10_000, 9_920);
        check(&|_| (), 1 << 30, 100_000, 1 << 20);
        check(&|_| (), 64, 10, 12);
        check(&|_| (), 32, 5, 6);
        check(&|s| s.cache.descriptors_max = Some(0), 1024, 0, 944);
        check(&|s| s.limits.connections_max = Some(5000), 1024, 512, 5000);
        check(&|s| s.cache.entries_max = 0, 1024, 0, 944);
        check(&|s| s.engine.processes = 2, 1024, 512, 440);
        let halves = |s: &mut Settings| {
            s.engine.processes = 2;
            s.limits.connections_max = Some(5001);
            s.cache.descriptors_max = Some(200);
        };
        check(&halves, 1024, 100, 2501);
        let check = |listings_max, limit, listings, connections| {
            let list = |settings: &mut Settings| {
                let mut host = HostSettings::new("/".into());
                host.listing = true;
                settings.hosts.push(host);
                settings.limits.listings_max = listings_max;
            };
            let cache = if limit == 64 { 10 } else { limit as usize / 2 };
            let expected = Descriptors {
                cache,
                listings,
                connections,
                jobs: jobs(limit),
                ..Descriptors::default()
            };
            assert_eq!(divide(&list, limit), expected, "{limit}");
        };
        check(None, 1024, 64, 368);
        check(None, 64, 8, 8);
        check(Some(10), 1024, 10, 422);
    }

    #[test]
    fn programs_are_bounded_for_all_workers_together() {
        let check = |protocol, in_flight_max, callers, expected| {
            let limits = CallLimits { in_flight_max, ..CallLimits::default() };
            let application = ApplicationSettings { limits, protocol, ..Default::default() };
            let mut host = HostSettings::new("/".into());
            host.routes = vec![RouteSettings { application, ..RouteSettings::default() }];
            let mut hosts = [host];
            share_programs(&mut hosts, callers);
            assert_eq!(hosts[0].routes[0].application.limits.in_flight_max, expected);
        };
        check(Protocol::Cgi, 8, 2, 4);
        check(Protocol::Cgi, 8, 3, 2);
        check(Protocol::Cgi, 8, 100, 1);
        check(Protocol::Http, 8, 2, 8);
    }

    #[test]
    fn calls_of_applications_cost_descriptors() {
        let route = |port, in_flight_max, ignore_client_abort| {
            let address = Address::Tcp { host: "h".into(), port };
            let limits = CallLimits { in_flight_max, ..CallLimits::default() };
            let servers = vec![ServerSettings { address, weight: 1 }];
            let application = ApplicationSettings {
                servers,
                limits,
                ignore_client_abort,
                ..ApplicationSettings::default()
            };
            RouteSettings { path: "/**".into(), application, ..RouteSettings::default() }
        };
        let check = |finishes, engine, in_flight_max, limit, calls, connections, bounded| {
            let spec = engines::find(engine).unwrap();
            let mut host = HostSettings::new("/".into());
            host.routes = vec![route(1, in_flight_max, finishes), route(2, in_flight_max, false)];
            let host = std::cell::RefCell::new(host);
            let change = |settings: &mut Settings| settings.hosts.push(host.borrow().clone());
            let divided = divide(spec, &spec.default_knobs(), &change, limit);
            assert_eq!((divided.calls, divided.connections), (calls, connections), "{limit}");
            let partitions = [Partition { cpus: vec![], width: 2 }];
            let layout =
                Layout::new(&Settings::default(), spec, &spec.default_knobs(), &partitions);
            let mut hosts = [host.into_inner()];
            let line = bound_calls(&mut hosts, divided.calls, &layout);
            assert_eq!(line.is_some(), bounded != in_flight_max, "{line:?}");
            let routes = &hosts[0].routes;
            assert!(routes.iter().all(|it| it.application.limits.in_flight_max == bounded));
        };
        let loops = "event-loop-per-core";
        check(false, loops, 512, 20_000, 2048, 7872, 512);
        check(false, loops, 512, 1024, 256, 176, 64);
        check(false, loops, 1, 1024, 4, 428, 1);
        check(false, loops, 512, 32, 8, 4, 2);
        // The threads of a partition have their bounds together.
        check(false, "staged", 512, 1024, 256, 136, 128);
        // Calls that are finished without their clients have a place of their own.
        check(true, loops, 512, 20_000, 3072, 6848, 512);
        check(true, loops, 512, 1024, 256, 176, 42);
        check(true, loops, 1, 1024, 6, 426, 1);
    }

    #[test]
    fn what_one_leaves_is_for_others() {
        let check = |wanted: &[u64], total, expected: &[u64]| {
            let each = fair_share(wanted.to_vec(), total);
            let shares: Vec<u64> = wanted.iter().map(|want| each.min(*want)).collect();
            assert_eq!(shares, expected, "{total}");
        };
        check(&[], 9, &[]);
        check(&[512, 8], 520, &[512, 8]);
        check(&[512, 8], 519, &[511, 8]);
        check(&[512, 8, 512], 108, &[50, 8, 50]);
        check(&[512, 8], 15, &[7, 7]);
    }

    /// haproxy 2936: connections at rest and in use are as many as there are processes, at most.
    #[test]
    fn kept_connections_are_shared_among_the_workers() {
        let check = |children, in_flight_max, workers, expected: Result<u64, &str>| {
            let mut host = HostSettings::new("/".into());
            let limits = CallLimits { in_flight_max, ..CallLimits::default() };
            let fastcgi = FastCgiSettings { children, ..FastCgiSettings::default() };
            let application = ApplicationSettings { limits, fastcgi, ..Default::default() };
            host.routes =
                vec![RouteSettings { path: "*.php".into(), application, ..Default::default() }];
            let mut hosts = [HostSettings::new("/".into()), host];
            let shared = share_children(&mut hosts, workers);
            let bound = hosts[1].routes[0].application.limits.in_flight_max;
            match (shared, expected) {
                (Ok(()), Ok(expected)) => assert_eq!(bound, expected),
                (Err((1, why)), Err(expected)) => assert!(why.contains(expected), "{why}"),
                other => panic!("{other:?}"),
            }
        };
        check(0, 512, 4, Ok(512));
        check(8, 512, 4, Ok(2));
        check(11, 512, 4, Ok(2));
        check(4, 512, 4, Ok(1));
        check(400, 20, 4, Ok(20));
        check(3, 512, 4, Err("route \"*.php\": 3 are too few for 4 workers"));
    }
}
