//! A worker: the state that one thread (or process, or fiber scheduler) keeps for all its
//! connections.

use std::net::SocketAddr;
use std::sync::Arc;

use file_cache::Cache;
use http1::{Parsed, format_date};
use site::Site;
use site::resource::{DATE_LEN, Entry};
use upstream::{Application, Tick};

use crate::access_log::{AccessLog, Record};
use crate::counters::Counters;
use crate::exchange::{Exchange, sent_head};
use crate::limits::Limits;
use crate::listings::Listings;
use crate::lookup::EntryCache;
use crate::revision::{Newest, Published, Revision, Revisions};
use crate::shared_level::SharedLevel;

/// The parts of a worker.
pub struct WorkerParts {
    /// The hosts and their rules.
    pub site: Arc<Site>,
    /// The bounds of every connection.
    pub limits: Arc<Limits>,
    /// The current listings, counted for all workers of a server together.
    pub listings: Arc<Listings>,
    /// The second level of the cache, shared by the workers of a partition.
    pub cache: Arc<Cache<Entry>>,
    /// The bound on the worker's own first level.
    pub first_level_slots_max: usize,
    /// How old an entry may grow before it is checked in the file system, in microseconds;
    /// `u64::MAX` for trees that never change.
    pub revalidate_us: u64,
    /// Whether the bytes of files pass through user space, so that they are asked for by
    /// [`crate::Op::Read`].
    pub reads_files: bool,
    /// The log of finished responses, if there can be one.
    pub log: Option<Box<dyn AccessLog>>,
    /// The worker's counters.
    pub counters: Arc<Counters>,
}

/// The counts of a worker: its counters, and the current listings in its name. In memory that
/// processes share they outlive a process that works with the worker.
#[derive(Clone)]
pub struct Account {
    counters: Arc<Counters>,
    listings: Arc<Listings>,
    number: u64,
}

impl Account {
    /// Takes back the counts of open connections and listings after a process has ended: it may
    /// have been killed.
    pub fn forget_process(&self) {
        self.counters.forget_connections();
        self.listings.forget(self.number);
    }
}

/// The state that one thread keeps for all its connections: the clock, the first level of the
/// cache, spare buffers. It holds nothing that belongs to one connection.
pub struct Worker {
    /// Those of the revision, at hand.
    pub(crate) site: Arc<Site>,
    pub(crate) limits: Arc<Limits>,
    /// The revision that it goes by, and its number.
    pub(crate) revision: Arc<Revision>,
    pub(crate) revision_number: u64,
    revisions: Arc<Revisions>,
    pub(crate) listings: Arc<Listings>,
    /// The worker's number among the workers that share the listings.
    pub(crate) number: u64,
    pub(crate) cache: EntryCache,
    /// Whether its second level stays when it goes by another revision.
    keeps_cache: bool,
    reads_files: bool,
    log: Option<Box<dyn AccessLog>>,
    /// Whether the log is on.
    is_logging: bool,
    /// The worker's counters.
    pub counters: Arc<Counters>,
    /// The canonical path of the current request, when it had to be decoded.
    pub(crate) path_scratch: Vec<u8>,
    #[expect(
        clippy::vec_box,
        reason = "they move into connections and back: a pointer, not 300 bytes"
    )]
    spare: Vec<Box<Exchange>>,
    now: Tick,
    unix_us: u64,
    date: [u8; DATE_LEN],
    log_flushed: Tick,
}

/// Spare buffers that workers pass on to each other, where requests begin with one worker and end
/// with another: without this the first worker would always allocate new ones and the last one free
/// them.
#[derive(Default)]
pub struct Spares(#[expect(clippy::vec_box, reason = "as in a worker")] Vec<Box<Exchange>>);

/// The largest number of buffers that are kept for other workers.
const SPARES_MAX: usize = 512;

/// The number of exchanges that are kept for reuse; more are only needed while so many responses
/// are blocked.
const SPARE_MAX: usize = 64;

/// The interval of housekeeping for the log and the cache, in milliseconds.
pub const HOUSEKEEPING_MS: u64 = 250;

impl Worker {
    /// Creates a worker whose clock is at 1970: call [`Worker::set_time`] before anything else.
    #[must_use]
    pub fn new(mut parts: WorkerParts) -> Self {
        let (site, limits) = (Arc::clone(&parts.site), Arc::clone(&parts.limits));
        let published = Published::new(Revision { site, limits }, None);
        let revisions = Revisions::new(&published, Arc::clone(&parts.cache));
        let revision = published.revision();
        Self {
            site: parts.site,
            limits: parts.limits,
            revision,
            revision_number: 0,
            revisions,
            number: parts.listings.add_worker(),
            listings: parts.listings,
            cache: EntryCache::new(parts.first_level_slots_max, parts.cache, parts.revalidate_us),
            keeps_cache: false,
            reads_files: parts.reads_files,
            is_logging: parts.log.as_mut().is_some_and(|log| log.renew()),
            log: parts.log,
            counters: parts.counters,
            path_scratch: Vec::with_capacity(256),
            spare: Vec::with_capacity(SPARE_MAX),
            now: Tick(0),
            unix_us: 0,
            date: format_date(0),
            log_flushed: Tick(0),
        }
    }

    /// The second level of the worker's cache.
    #[must_use]
    pub fn cache(&self) -> &Arc<Cache<Entry>> {
        &self.cache.second
    }

    /// Replaces the worker's second level by one that it keeps, whatever revision it goes by: no
    /// two have a host with the same index. Only before its first connection.
    pub fn use_cache(&mut self, second: Arc<Cache<Entry>>) {
        self.cache.second = second;
        self.keeps_cache = true;
    }

    /// Has the worker go by the newest of these revisions, now and whenever there is another.
    pub fn follow(&mut self, revisions: Arc<Revisions>) {
        self.revisions = revisions;
        self.take_over();
    }

    /// Goes by the newest revision from now on. No request may be half begun. Returns whether it is
    /// another.
    #[inline]
    pub fn keep_current(&mut self) -> bool {
        let is_another = self.revisions.number() != self.revision_number;
        if is_another {
            self.take_over();
        }
        is_another
    }

    #[cold]
    fn take_over(&mut self) {
        let Newest { number, revision, cache } = self.revisions.newest();
        self.site = Arc::clone(&revision.site);
        self.limits = Arc::clone(&revision.limits);
        self.revision = revision;
        self.revision_number = number;
        self.is_logging = self.log.as_mut().is_some_and(|log| log.renew());
        if !self.keeps_cache {
            self.cache.replace_second(cache);
        }
    }

    /// Gives the worker a level that processes share. All workers that share it must hash alike
    /// ([`Cache::emptied`]). Only before its first connection.
    pub fn set_shared_level(&mut self, shared: Box<dyn SharedLevel>) {
        self.cache.shared = Some(shared);
    }

    /// Sets the worker's time: once per turn of an event loop, once per operation of a blocking
    /// thread. `unix_us` is microseconds since 1970.
    #[inline]
    pub fn set_time(&mut self, now: Tick, unix_us: u64) {
        if unix_us / 1_000_000 != self.unix_us / 1_000_000 {
            self.date = format_date(unix_us.cast_signed() / 1_000_000);
        }
        self.now = now;
        self.unix_us = unix_us;
        if now.since(self.log_flushed) >= HOUSEKEEPING_MS * 1000 {
            self.log_flushed = now;
            self.do_housekeeping();
        }
    }

    /// The moment that [`Worker::set_time`] has set.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Tick {
        self.now
    }

    /// The applications that routes of the hosts lead to.
    #[must_use]
    pub fn applications(&self) -> &[Arc<Application>] {
        self.site.applications()
    }

    /// What the numbers of applications are less than, whatever revisions come.
    #[must_use]
    pub fn application_numbers_max(&self) -> usize {
        self.site.application_numbers_max()
    }

    /// The bounds of every connection.
    #[must_use]
    pub fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// When [`Worker::set_time`] has buffered log records to flush even if no connection has work
    /// to do. An engine that sleeps without a bound has to wake then.
    #[must_use]
    pub fn next_look(&self) -> Option<Tick> {
        self.is_logging().then(|| self.now.plus_ms(HOUSEKEEPING_MS))
    }

    /// Counts a response, and records it if the log is on.
    #[inline]
    pub(crate) fn record(&mut self, exchange: &Exchange, peer: SocketAddr) {
        let draft = exchange.draft;
        self.counters.requests.add(1);
        self.counters.body_bytes.add(draft.body_bytes);
        let class = usize::from(draft.status / 100).clamp(1, 5);
        self.counters.responses[class - 1].add(1);
        let (unix_us, duration_us) = (self.unix_us(), self.now().since(draft.started));
        // Another worker may have begun the response, and known of the revision before.
        if draft.revision > self.revision_number {
            self.keep_current();
        }
        // What a client has asked whose address was of no interest came before the log was on.
        let is_logged = draft.is_logged && peer.port() != 0;
        let Some(log) = self.log.as_mut().filter(|_| is_logged) else { return };
        let limits = exchange.limits_or(&self.limits).head;
        let mut head = match http1::parse_head(&exchange.head, 0, &limits) {
            Ok(Parsed::Complete(head)) => Some(head),
            _ => None,
        };
        if draft.redirects > 0 {
            head = head.and_then(|head| sent_head(&exchange.head, &head, &limits));
        }
        let head = head.as_ref();
        let is_taken = log.record(&Record {
            peer,
            unix_us,
            method: head.map_or(&[], |h| h.method_bytes),
            target: head.map_or(&[], |h| h.target_bytes),
            version: if draft.is_http10 { "HTTP/1.0" } else { "HTTP/1.1" },
            host: head.and_then(|h| h.host),
            status: draft.status,
            body_bytes: draft.body_bytes,
            referer: head.and_then(|h| h.field(http1::FieldName::Referer)),
            user_agent: head.and_then(|h| h.field(http1::FieldName::UserAgent)),
            duration_us,
        });
        self.counters.logged.add(u64::from(is_taken));
    }

    /// Whether requests are recorded in a log: only then are the clients' addresses needed. It may
    /// change when the worker goes by another revision.
    #[must_use]
    pub fn is_logging(&self) -> bool {
        self.is_logging
    }

    /// The current time in seconds since 1970.
    pub(crate) fn unix_seconds(&self) -> i64 {
        (self.unix_us / 1_000_000).cast_signed()
    }

    pub(crate) fn unix_us(&self) -> u64 {
        self.unix_us
    }

    /// The value of `Date` for the current time (RFC 9110 §6.6.1).
    #[inline]
    pub(crate) fn date(&self) -> &[u8; DATE_LEN] {
        &self.date
    }

    /// Takes an exchange with empty buffers.
    #[inline]
    pub(crate) fn take_exchange(&mut self) -> Box<Exchange> {
        let mut exchange = self.spare.pop().unwrap_or_default();
        exchange.reads_files = self.reads_files;
        exchange
    }

    /// Takes an exchange back.
    #[inline]
    pub(crate) fn return_exchange(&mut self, mut exchange: Box<Exchange>) {
        if self.spare.len() < SPARE_MAX {
            exchange.reset();
            self.spare.push(exchange);
        }
    }

    /// Keeps `count` spare buffers (64 at most): missing ones are taken from `others`, and surplus
    /// ones are moved there.
    pub fn share_spares(&mut self, others: &mut Spares, count: usize) {
        let count = count.min(SPARE_MAX);
        while self.spare.len() > count && others.0.len() < SPARES_MAX {
            others.0.extend(self.spare.pop());
        }
        let missing = count.saturating_sub(self.spare.len()).min(others.0.len());
        self.spare.extend(others.0.drain(others.0.len() - missing..));
    }

    /// The counts of this worker.
    #[must_use]
    pub fn account(&self) -> Account {
        Account {
            counters: Arc::clone(&self.counters),
            listings: Arc::clone(&self.listings),
            number: self.number,
        }
    }

    /// Replaces the worker's account. Only before its first connection.
    pub fn use_account(&mut self, account: &Account) {
        self.counters = Arc::clone(&account.counters);
        self.listings = Arc::clone(&account.listings);
        self.number = account.number;
    }

    /// Hands log records over and releases entries that have left the cache. A worker does so by
    /// itself when [`Worker::set_time`] is called; for a worker that sleeps it must be called now
    /// and then.
    pub fn do_housekeeping(&mut self) {
        self.keep_current();
        if let Some(log) = &mut self.log {
            log.flush();
        }
        // Evicted entries hold memory and descriptors until the last worker has released them.
        let evictions = self.cache.second.evictions();
        self.cache.first.sweep(evictions, usize::MAX);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(log) = &mut self.log {
            log.flush();
        }
    }
}
