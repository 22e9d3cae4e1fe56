//! The applications of a partition whose clients are served apart: the connections that are kept
//! for the next request, and the bounds that hold for all calls together.
//!
//! Kept connections belong to no thread: of a hundred threads each would keep one, and a server
//! such as php-fpm serves one connection with each of its processes. They are looked at before
//! they are used, and not when there is something at them.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::Waker;

use session::Tick;
use upstream::{Application, Call, CallLimits, Failure, Protocol, Tried};

use super::joint::Line;
use super::servers::Servers;
use crate::engine::ConnectionLimit;
use crate::lock::lock;

/// All applications of a partition. The sockets of kept connections are `S`.
pub(crate) struct CallPool<S = OwnedFd> {
    /// By the numbers of the applications.
    usages: Box<[Slot<S>]>,
    /// How many numbers of applications have come up.
    numbers: AtomicUsize,
    bounds: Bounds,
    /// Wakes the caller of [`CallPool::close_kept`]; none if it is called often enough.
    closer: Option<Waker>,
    /// When [`CallPool::close_kept`] is to be called, as its caller knows it; `u64::MAX` if never.
    next_close: AtomicU64,
}

/// What one application may have of the engine, whatever its own bounds allow, so that requests for
/// files never wait for an application.
pub(crate) struct Bounds {
    threads: usize,
    connections: ConnectionLimit,
    /// Whether a call that waits holds no thread.
    parks: bool,
    /// Places are shared with other processes.
    others: Option<Box<dyn SharedPlaces>>,
}

/// Places for calls that several processes share. Each process has one call at a time.
pub(crate) trait SharedPlaces: Send + Sync {
    /// Takes a place among those of all processes, if the application has so many.
    fn take(&self, application: usize, in_flight_max: u64) -> bool;

    /// Begins to wait for a place, unless `waiting_max` others do, or `calls_max` have calls.
    fn wait(&self, application: usize, waiting_max: u64, calls_max: u64) -> bool;

    /// Gives the place back, or waits no longer.
    fn leave(&self);
}

/// What is known of an application, once one has this number.
type Slot<S> = OnceLock<Box<Mutex<Usage<S>>>>;

struct Usage<S> {
    servers: Servers<Kept<S>>,
    in_flight: u64,
    waiting: VecDeque<Waiting>,
}

struct Kept<S> {
    line: Line<S>,
    until: Tick,
}

/// A call that waits until another is over.
struct Waiting {
    is_admitted: Arc<AtomicBool>,
    waker: Waker,
}

/// What becomes of a call that is to begin.
pub(crate) enum Entered<S> {
    Now(Place<S>),
    Waits(Ticket<S>),
    /// As many wait as may.
    Full,
}

/// The place of a call among those of its application, until it is dropped.
pub(crate) struct Place<S> {
    pool: Arc<CallPool<S>>,
    application: usize,
    /// The server that has the call.
    server: Option<usize>,
}

/// The turn of a call that waits for a place.
pub(crate) struct Ticket<S> {
    pool: Arc<CallPool<S>>,
    application: usize,
    is_admitted: Arc<AtomicBool>,
    is_used: bool,
    /// How long it may wait.
    pub(crate) until: Tick,
}

impl Bounds {
    /// Of `threads` threads, and of as many connections as may be open, at most half are for one
    /// application. A call that waits holds its thread, unless it `parks`.
    pub(crate) fn of_threads(threads: usize, connections: &ConnectionLimit, parks: bool) -> Self {
        Self { threads, connections: connections.clone(), parks, others: None }
    }

    /// Of `processes` processes at most half are for one application.
    pub(crate) fn of_processes(processes: usize, others: Box<dyn SharedPlaces>) -> Self {
        let bounds = Self::of_threads(processes, &ConnectionLimit::new(usize::MAX), false);
        Self { others: Some(others), ..bounds }
    }

    /// Calls that are with an application, at most.
    fn in_flight_max(&self) -> u64 {
        (self.threads.min(self.connections.now()) as u64 / 2).max(1)
    }

    /// Calls that are with it or wait for a place, at most: each holds at least a connection.
    fn calls_max(&self) -> u64 {
        match self.parks {
            true => (self.connections.now() as u64 / 2).max(1),
            false => self.in_flight_max(),
        }
    }
}

impl<S> CallPool<S> {
    /// The applications, within `bounds`; others may come, whose numbers are less than
    /// `numbers_max`. The `closer` is woken when something is kept for which
    /// [`CallPool::close_kept`] has to be called sooner than its caller knows.
    pub(crate) fn new(
        applications: &[Arc<Application>],
        numbers_max: usize,
        bounds: Bounds,
        closer: Option<Waker>,
    ) -> Arc<Self> {
        let numbers = applications.iter().map(|application| application.number() + 1).max();
        // Without any there will be none.
        let numbers = numbers.map_or(0, |numbers| numbers.max(numbers_max));
        let pool = Self {
            usages: (0..numbers).map(|_| OnceLock::new()).collect(),
            numbers: AtomicUsize::new(0),
            bounds,
            closer,
            next_close: AtomicU64::new(u64::MAX),
        };
        applications.iter().for_each(|application| pool.learn(application));
        Arc::new(pool)
    }

    /// Has an application be one of these.
    fn learn(&self, application: &Arc<Application>) {
        let number = application.number();
        let usage = &self.usages[number];
        if usage.get().is_some() {
            return;
        }
        self.numbers.fetch_max(number + 1, Ordering::Release);
        usage.get_or_init(|| {
            let (servers, waiting) = (Servers::new(application), VecDeque::new());
            Box::new(Mutex::new(Usage { servers, in_flight: 0, waiting }))
        });
        // It may have come in the place of others, for which nothing is kept whatever the time.
        for mut usage in self.all() {
            usage.close_kept(Tick(0));
        }
    }

    fn usage(&self, application: usize) -> MutexGuard<'_, Usage<S>> {
        lock(self.usages[application].get().expect("a call of it has entered"))
    }

    fn all(&self) -> impl Iterator<Item = MutexGuard<'_, Usage<S>>> {
        let numbers = self.numbers.load(Ordering::Acquire);
        self.usages[..numbers].iter().filter_map(OnceLock::get).map(|usage| lock(usage))
    }

    /// Gets a place for a call, or has it wait for one: then it is woken when it has one.
    pub(crate) fn enter(
        self: &Arc<Self>,
        called: &Arc<Application>,
        waker: impl FnOnce() -> Waker,
        now: Tick,
    ) -> Entered<S> {
        self.learn(called);
        let (application, limits) = (called.number(), called.limits());
        let mut usage = self.usage(application);
        let in_flight_max = self.in_flight_max(limits);
        if let Some(others) = &self.bounds.others {
            if others.take(application, in_flight_max) {
                return Entered::Now(self.place(application));
            }
            let CallLimits { queue_max, .. } = *limits;
            return match others.wait(application, queue_max, self.bounds.calls_max()) {
                true => Entered::Waits(self.ticket(application, limits, now)),
                false => Entered::Full,
            };
        }
        if usage.in_flight < in_flight_max {
            usage.in_flight += 1;
            return Entered::Now(self.place(application));
        }
        let waiting = usage.waiting.len() as u64;
        if waiting >= limits.queue_max || usage.in_flight + waiting >= self.bounds.calls_max() {
            return Entered::Full;
        }
        let ticket = self.ticket(application, limits, now);
        let is_admitted = Arc::clone(&ticket.is_admitted);
        usage.waiting.push_back(Waiting { is_admitted, waker: waker() });
        Entered::Waits(ticket)
    }

    fn in_flight_max(&self, limits: &CallLimits) -> u64 {
        limits.in_flight_max.min(self.bounds.in_flight_max())
    }

    fn place(self: &Arc<Self>, application: usize) -> Place<S> {
        Place { pool: Arc::clone(self), application, server: None }
    }

    fn ticket(self: &Arc<Self>, application: usize, limits: &CallLimits, now: Tick) -> Ticket<S> {
        Ticket {
            pool: Arc::clone(self),
            application,
            is_admitted: Arc::default(),
            is_used: false,
            until: now.plus_ms(limits.queue_ms),
        }
    }

    /// Whether a call that waits has to look by itself whether it has a place: other processes do
    /// not wake it.
    pub(crate) fn has_shared_places(&self) -> bool {
        self.bounds.others.is_some()
    }

    /// Takes the call from the `server` that has it, and gives its place to the call that has
    /// waited longest.
    fn leave(&self, application: usize, server: Option<usize>) {
        let mut usage = self.usage(application);
        server.into_iter().for_each(|server| usage.servers.end(server));
        if let Some(others) = &self.bounds.others {
            return others.leave();
        }
        match usage.waiting.pop_front() {
            Some(next) => {
                next.is_admitted.store(true, Ordering::Release);
                drop(usage); // a waker has locks of its own
                next.waker.wake();
            }
            None => usage.in_flight -= 1,
        }
    }

    /// Chooses a server for a call that has this place, and takes a connection to it that was kept,
    /// if there is one.
    pub(crate) fn choose(
        &self,
        place: &mut Place<S>,
        call: &Call,
        tried: &mut Tried,
        now: Tick,
    ) -> Option<(usize, Option<Line<S>>)>
    where
        S: AsFd,
    {
        let (server, mut next) = self.choose_unseen(place, call, tried, now)?;
        // Others do not wait meanwhile: a thread that waits for a lock costs more than a request.
        while let Some(kept) = next {
            if kept.until > now && !kept.line.is_unsound() {
                return Some((server, Some(kept.line)));
            }
            next = self.usage(place.application).servers.kept[server].pop();
        }
        Some((server, None))
    }

    /// Chooses a server. What was kept may have ended meanwhile.
    fn choose_unseen(
        &self,
        place: &mut Place<S>,
        call: &Call,
        tried: &mut Tried,
        now: Tick,
    ) -> Option<(usize, Option<Kept<S>>)> {
        let servers = &mut self.usage(place.application).servers;
        place.server.take().into_iter().for_each(|server| servers.end(server));
        let chosen = servers.choose(call.client(), tried, now)?;
        servers.begin(chosen.0);
        place.server = Some(chosen.0);
        Some(chosen)
    }

    /// Keeps a connection for the next call.
    pub(crate) fn keep(&self, application: usize, server: usize, line: Line<S>, now: Tick) {
        let mut usage = self.usage(application);
        let servers = &mut usage.servers;
        // Of many processes each would keep a process of the application for itself.
        let is_fastcgi = servers.application.settings().protocol == Protocol::FastCgi;
        let is_for_nobody = servers.application.is_retired();
        if is_for_nobody || is_fastcgi && self.bounds.others.is_some() {
            return;
        }
        let until = now.plus_ms(servers.application.limits().idle_ms);
        servers.kept[server].push(Kept { line, until });
        drop(usage);
        if self.next_close.fetch_min(until.0, Ordering::AcqRel) > until.0
            && let Some(closer) = &self.closer
        {
            closer.wake_by_ref();
        }
    }

    /// Notes that a server could not be reached.
    pub(crate) fn note_failure(&self, application: usize, server: usize, now: Tick) {
        self.usage(application).servers.note_failure(server, now);
    }

    /// Notes how a call of a server has ended.
    pub(crate) fn note_end(
        &self,
        application: usize,
        server: usize,
        failure: Option<Failure>,
        now: Tick,
    ) {
        self.usage(application).servers.note_end(server, failure, now);
    }

    /// Closes the connections that no call has used in time, or will use. Returns when it is to be
    /// called again; none if nothing is kept.
    pub(crate) fn close_kept(&self, now: Tick, is_ending: bool) -> Option<Tick> {
        if self.usages.is_empty() {
            return None;
        }
        let now = if is_ending { Tick(u64::MAX) } else { now };
        self.next_close.store(u64::MAX, Ordering::Release); // before the search: none is missed
        let next = self.all().filter_map(|mut usage| usage.close_kept(now)).min();
        if let Some(next) = next {
            self.next_close.fetch_min(next.0, Ordering::AcqRel);
        }
        next
    }
}

impl<S> Usage<S> {
    fn close_kept(&mut self, now: Tick) -> Option<Tick> {
        let now = if self.servers.application.is_retired() { Tick(u64::MAX) } else { now };
        let kept = &mut self.servers.kept;
        kept.iter_mut().for_each(|kept| kept.retain(|one| one.until > now));
        kept.iter().flatten().map(|one| one.until).min()
    }
}

impl<S> Drop for Place<S> {
    fn drop(&mut self) {
        self.pool.leave(self.application, self.server);
    }
}

impl<S> Ticket<S> {
    /// Whether the call was woken, since it has a place.
    pub(crate) fn is_admitted(&self) -> bool {
        self.is_admitted.load(Ordering::Acquire)
    }

    /// The place, if the call has one by now.
    pub(crate) fn take(&mut self) -> Option<Place<S>> {
        let has_place = match &self.pool.bounds.others {
            Some(others) => {
                let usage = self.pool.usage(self.application);
                let limits = usage.servers.application.limits();
                others.take(self.application, self.pool.in_flight_max(limits))
            }
            None => self.is_admitted(),
        };
        self.is_used |= has_place;
        has_place.then(|| self.pool.place(self.application))
    }
}

impl<S> Drop for Ticket<S> {
    fn drop(&mut self) {
        if self.is_used {
            return;
        }
        let mut usage = self.pool.usage(self.application);
        let is_it = |waiting: &Waiting| Arc::ptr_eq(&waiting.is_admitted, &self.is_admitted);
        match usage.waiting.iter().position(is_it) {
            Some(at) => {
                usage.waiting.remove(at);
            }
            // It has a place that it does not need any more.
            None => {
                drop(usage);
                self.pool.leave(self.application, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::slice;

    use upstream::{Address, ApplicationSettings, ServerSettings};

    use super::*;

    fn application(number: usize, limits: CallLimits) -> Arc<Application> {
        let address = Address::Tcp { host: "127.0.0.1".into(), port: 1 };
        let servers = vec![ServerSettings { address, weight: 1 }];
        let settings = ApplicationSettings { servers, limits, ..ApplicationSettings::default() };
        Arc::new(Application::new(settings, number))
    }

    /// Bounds of so many threads, each of which serves a connection.
    fn of_threads(threads: usize, parks: bool) -> Bounds {
        Bounds::of_threads(threads, &ConnectionLimit::new(threads), parks)
    }

    fn pool(in_flight_max: u64, queue_max: u64, bounds: Bounds) -> Arc<CallPool> {
        let limits = CallLimits { in_flight_max, queue_max, ..CallLimits::default() };
        CallPool::new(&[application(0, limits)], 0, bounds, None)
    }

    fn enter(pool: &Arc<CallPool>) -> Entered<OwnedFd> {
        let called = Arc::clone(&pool.usage(0).servers.application);
        pool.enter(&called, || Waker::noop().clone(), Tick(0))
    }

    #[test]
    fn places_are_passed_on_in_the_order_of_waiting() {
        let pool = pool(1, 2, of_threads(1000, false));
        let Entered::Now(place) = enter(&pool) else { panic!("there is a place") };
        let (Entered::Waits(mut first), Entered::Waits(mut second)) = (enter(&pool), enter(&pool))
        else {
            panic!("two may wait")
        };
        assert!(matches!(enter(&pool), Entered::Full));
        assert!(first.take().is_none());
        drop(place);
        assert!(second.take().is_none());
        let place = first.take().expect("it has waited longest");
        let Entered::Waits(third) = enter(&pool) else { panic!("one may wait again") };
        drop(second);
        drop(place);
        drop(third); // it has a place, and does not use it
        let Entered::Now(_place) = enter(&pool) else { panic!("all have left") };
    }

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Closer(AtomicU64);

    impl std::task::Wake for Closer {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_closer_is_woken_when_a_kept_connection_is_due_sooner_than_it_knows() {
        let idle = |idle_ms| CallLimits { idle_ms, ..CallLimits::default() };
        let applications = [application(0, idle(1000)), application(1, idle(100))];
        let closer = Arc::new(Closer::default());
        let waker = Waker::from(Arc::clone(&closer));
        let pool = CallPool::new(&applications, 0, of_threads(4, false), Some(waker));
        let keep = |application, at| {
            let (socket, _) = UnixStream::pair().unwrap();
            pool.keep(application, 0, Line::new(OwnedFd::from(socket)), at);
            closer.0.swap(0, Ordering::Relaxed)
        };
        let at = |ms| Tick(0).plus_ms(ms);
        assert_eq!(pool.close_kept(at(0), false), None);
        assert_eq!((keep(0, at(0)), keep(0, at(1))), (1, 0));
        assert_eq!(keep(1, at(1)), 1, "this one is due first");
        assert_eq!(pool.close_kept(at(1), false), Some(at(101)));
        assert_eq!((keep(1, at(2)), keep(0, at(2))), (0, 0));
        assert_eq!(pool.close_kept(at(102), false), Some(at(1000)));
        assert_eq!(pool.close_kept(at(1002), false), None);
        assert_eq!(keep(0, at(1002)), 1);
    }

    #[test]
    fn half_of_the_connections_that_may_be_open_now_are_for_an_application() {
        let connections = ConnectionLimit::new(8);
        let pool = pool(100, 0, Bounds::of_threads(6, &connections, true));
        let enter_all = || {
            let entered: Vec<Entered<OwnedFd>> = (0..10).map(|_| enter(&pool)).collect();
            entered.iter().filter(|entered| matches!(entered, Entered::Now(_))).count()
        };
        assert_eq!(enter_all(), 3, "of the threads");
        connections.set(4);
        assert_eq!(enter_all(), 2);
        connections.set(100);
        assert_eq!(enter_all(), 3);
    }

    #[test]
    fn nothing_is_kept_for_an_application_in_whose_place_another_has_come() {
        let former = application(0, CallLimits::default());
        let pool = CallPool::new(slice::from_ref(&former), 2, of_threads(4, false), None);
        let keep = || {
            let (socket, other) = UnixStream::pair().unwrap();
            other.set_nonblocking(true).unwrap();
            pool.keep(0, 0, Line::new(OwnedFd::from(socket)), Tick(0));
            other
        };
        let is_closed = |mut other: UnixStream| other.read(&mut [0]).is_ok_and(|count| count == 0);
        let kept = keep();
        former.retire();
        let next = application(1, CallLimits::default());
        let entered = pool.enter(&next, || Waker::noop().clone(), Tick(0));
        assert!(matches!(entered, Entered::Now(_)));
        assert!(is_closed(kept) && is_closed(keep()));
    }

    #[test]
    fn calls_that_wait_count_where_they_hold_a_thread() {
        for (parks, connections, expected) in [(false, 100, 2), (true, 100, 6), (true, 8, 4)] {
            let bounds = Bounds::of_threads(4, &ConnectionLimit::new(connections), parks);
            let pool = pool(100, 4, bounds);
            let entered: Vec<Entered<OwnedFd>> = (0..10).map(|_| enter(&pool)).collect();
            let is_in = |entered: &&Entered<OwnedFd>| !matches!(entered, Entered::Full);
            let count = entered.iter().filter(is_in).count();
            assert_eq!(count, expected, "{parks}: {connections} connections");
        }
    }
}
