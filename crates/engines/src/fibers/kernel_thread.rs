//! A kernel thread of a cluster: it runs fibers that are ready, and when it is its turn it polls
//! for all. Its worker, buffer and clock are lent to the fiber that it runs.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Builder};

use os::epoll::Event;
use os::fiber::{Fiber, Pause};
use session::{Connection, Tick, Worker};

use super::cluster::{BELL_KEY, Cluster, ORDERS_KEY, Poller};
use super::places::{Place, Stay};
use super::ready::Work;
use super::standing::News;
use super::visit::{Rest, Visit};
use crate::jobs::Runner;
use crate::parts::clock::read_clock;
use crate::parts::listeners::{Accepted, LISTENER_KEYS};
use crate::parts::loops::{Loop, Seat};
use crate::parts::step::Turn;

/// Bytes received at once: a head of usual size many times over, or several pipelined ones.
const RECEIVE_BYTES: usize = 16 * 1024;

/// Connections taken from a listener's queue before it is closed.
const BACKLOG_MAX: usize = 4096;

/// Steps one fiber may take before others get a turn.
const STEPS_PER_TURN: u32 = 256;

/// How often logs are handed over while nothing happens.
const HOUSEKEEPING_MS: u64 = 250;

pub(super) struct KernelThread {
    pub(super) cluster: Arc<Cluster>,
    pub(super) worker: Worker,
    pub(super) runner: Arc<Runner>,
    pub(super) buffer: Box<[u8]>,
    /// What the fiber that runs may do in its turn.
    pub(super) turn: Turn,
    pub(super) steps_left: u32,
    /// What the fiber that runs was not told of yet.
    pub(super) news: News,
    /// Which of the engine's threads it is.
    index: usize,
}

/// Ends a cluster with whichever of its threads ends first: the others would wait for a poller that
/// is gone.
struct EndOfAll<'c>(&'c Cluster);

impl Drop for EndOfAll<'_> {
    fn drop(&mut self) {
        self.0.ready.end();
        self.0.ring();
        if let Some(blocking) = &self.0.blocking {
            blocking.end();
        }
    }
}

impl KernelThread {
    /// A kernel thread's loop, to be run in it.
    pub(super) fn make(worker: Worker, cluster: Arc<Cluster>, seat: Seat) -> Loop {
        let thread = Self {
            turn: Turn::new(0, cluster.settings.sendfile),
            cluster,
            worker,
            runner: seat.runner,
            buffer: vec![0; RECEIVE_BYTES].into(),
            steps_left: 0,
            news: News::NONE,
            index: seat.index,
        };
        Box::new(move || thread.run())
    }

    fn run(mut self) -> io::Result<()> {
        let cluster = Arc::clone(&self.cluster);
        let blocking = cluster.blocking.as_ref().filter(|_| cluster.is_first(self.index));
        thread::scope(|scope| {
            let _end_of_all = EndOfAll(&cluster);
            if let Some(blocking) = blocking {
                for number in 0..blocking.threads {
                    let name = format!("blocking-{}.{number}", self.index);
                    Builder::new().name(name).spawn_scoped(scope, || blocking.run(&cluster))?;
                }
            }
            self.work(&cluster)
        })
    }

    fn work(&mut self, cluster: &Cluster) -> io::Result<()> {
        let (mut batch, mut calls_seen) = (Vec::new(), 0);
        read_clock(&mut self.worker);
        loop {
            match cluster.ready.next(&mut batch, &mut calls_seen) {
                Work::Run => {
                    // A thread alone has just read the clock when it polled.
                    if cluster.settings.threads > 1 {
                        read_clock(&mut self.worker);
                    }
                    batch.drain(..).for_each(|index| self.run_fiber(cluster, index));
                }
                Work::Poll { may_sleep } => self.poll(cluster, may_sleep)?,
                Work::KeepHouse => self.worker.keep_house(),
                Work::End => return Ok(()),
            }
        }
    }

    /// Runs a fiber that this thread owns until it rests, moves or ends. The turn of a fiber that
    /// has this one closed to make room goes on afterwards.
    fn run_fiber(&mut self, cluster: &Cluster, index: u32) {
        let Some(place) = cluster.places.get(index) else { return };
        let file_bytes = cluster.settings.file_chunk_bytes;
        let outer = (self.turn, self.steps_left, self.news);
        self.turn = Turn::new(file_bytes, cluster.settings.sendfile);
        self.steps_left = STEPS_PER_TURN;
        self.news = place.standing.take_news();
        self.run_stay(cluster, place, index);
        (self.turn, self.steps_left, self.news) = outer;
    }

    #[inline]
    fn run_stay(&mut self, cluster: &Cluster, place: &Place, index: u32) {
        let mut stay = place.stay();
        if let Stay::Parked(_) = &*stay
            && !self.unpark(cluster, &mut stay)
        {
            drop(stay);
            return cluster.places.vacate(index);
        }
        let Stay::Fiber(fiber) = &mut *stay else { return };
        match fiber.resume(self) {
            Pause::Rest(Rest::Wait { deadline, is_idle }) => {
                drop(stay);
                self.rest(cluster, place, index, deadline, is_idle);
            }
            Pause::Rest(Rest::Yield { deadline }) => {
                drop(stay);
                self.schedule(cluster, place, index, deadline);
                cluster.run_later(index);
            }
            Pause::Block => {
                drop(stay);
                if let Some(blocking) = &cluster.blocking {
                    blocking.push(index);
                }
            }
            Pause::Blocked => cluster.run_later(index),
            Pause::Left(visit) if visit.is_parked() => {
                let deadline = visit.deadline();
                *stay = Stay::Parked(visit);
                drop(stay);
                self.rest(cluster, place, index, deadline, true);
            }
            Pause::Left(visit) => {
                *stay = Stay::Nobody;
                drop((stay, visit));
                cluster.places.vacate(index);
            }
        }
    }

    /// Gives a life a stack again. Returns whether there was one: if not, it ends here.
    fn unpark(&mut self, cluster: &Cluster, stay: &mut Stay) -> bool {
        let Stay::Parked(mut visit) = mem::replace(stay, Stay::Nobody) else { return false };
        match cluster.stack() {
            Some(stack) => *stay = Stay::Fiber(Fiber::new(stack, visit)),
            None => visit.leave(self),
        }
        matches!(stay, Stay::Fiber(_))
    }

    #[inline]
    fn rest(
        &mut self,
        cluster: &Cluster,
        place: &Place,
        index: u32,
        deadline: Tick,
        is_idle: bool,
    ) {
        self.schedule(cluster, place, index, deadline);
        if !place.standing.rest(is_idle) {
            cluster.run_later(index); // there is news already
        }
    }

    #[inline]
    fn schedule(&self, cluster: &Cluster, place: &Place, index: u32, deadline: Tick) {
        place.set_deadline(deadline);
        let key = u64::from(place.standing.generation()) << 32 | u64::from(index);
        if cluster.timers.schedule(place, key) {
            cluster.ring();
        }
    }

    /// Asks the kernel for events, on behalf of the cluster, and does what is due.
    fn poll(&mut self, cluster: &Cluster, may_sleep: bool) -> io::Result<()> {
        let mut poller = cluster.poller();
        let poller = &mut *poller;
        if cluster.is_over(poller) {
            cluster.ready.end();
            return Ok(());
        }
        let timeout = if may_sleep { self.timeout_ms(cluster) } else { Some(0) };
        cluster.epoll.wait(&mut poller.events, timeout)?;
        read_clock(&mut self.worker);
        for index in 0..poller.events.len() {
            if let Some(event) = poller.events.get(index) {
                self.handle(cluster, event, &mut poller.found);
            }
        }
        cluster.timers.expire(&cluster.places, self.worker.now(), &mut poller.found);
        if cluster.listeners().next_look().is_some_and(|look| look <= self.worker.now()) {
            cluster.listeners_mut().resume(&cluster.epoll, self.worker.now())?;
        }
        self.obey(cluster, poller);
        cluster.ready.end_poll(&mut poller.found);
        Ok(())
    }

    #[inline]
    fn handle(&mut self, cluster: &Cluster, event: Event, found: &mut Vec<u32>) {
        if event.key < LISTENER_KEYS {
            let mut news = News::WRITABLE;
            if event.readable {
                news = news.with(News::READABLE);
            }
            if event.hangup || event.error {
                news = news.with(News::HUNG_UP);
            }
            // An event of a connection that has gone meanwhile finds nobody.
            if cluster.places.tell(event.key, news) {
                found.push(event.key as u32);
            }
        } else if event.key == ORDERS_KEY {
            cluster.orders().clear();
            // Others may have evicted what this one has not asked for in a while.
            self.worker.keep_house();
            cluster.ready.call_all();
        } else if event.key == BELL_KEY {
            cluster.clear_bell();
        } else {
            let wake = |acceptor: &&u32| {
                let place = cluster.places.get(**acceptor);
                place.is_some_and(|place| place.standing.tell_anyone(News::READABLE))
            };
            found.extend(cluster.acceptors_of(event.key).iter().filter(wake));
        }
    }

    /// Does what the engine was told to do.
    fn obey(&mut self, cluster: &Cluster, poller: &mut Poller) {
        let told = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        if poller.is_accepting && told(&cluster.shared.stop_accepting) {
            let count = cluster.listeners().count();
            for listener in 0..count {
                // Who waits in the queue would be reset by the close. It holds so many at most;
                // more have come since.
                self.accept(listener, BACKLOG_MAX);
            }
            cluster.listeners_mut().close(&cluster.epoll);
            poller.is_accepting = false;
        }
        if told(&cluster.shared.drain) && !cluster.is_draining.swap(true, Ordering::SeqCst) {
            cluster.places.tell_all(News::DRAIN, &mut poller.found);
        }
        if !poller.is_aborting && told(&cluster.shared.abort) {
            poller.is_aborting = true;
            cluster.places.tell_all(News::ABORT, &mut poller.found);
        }
    }

    /// Accepts up to `count` connections from one listener.
    pub(super) fn accept(&mut self, listener: usize, count: usize) {
        let cluster = Arc::clone(&self.cluster);
        cluster.begin_accepting();
        self.accept_some(&cluster, listener, count);
        cluster.end_accepting();
    }

    fn accept_some(&mut self, cluster: &Cluster, listener: usize, count: usize) {
        for attempt in 0..count {
            if cluster.is_full() {
                // An event says that one waits. Whether more do, the next event will say: nobody is
                // closed to make room for nobody.
                if attempt > 0 {
                    return;
                }
                if !self.evict() || cluster.is_full() {
                    return self.pause(cluster);
                }
            }
            let accepted = cluster.listeners().accept(listener);
            match accepted {
                Ok(Accepted::Connection(socket, peer)) => {
                    // Without a stack nobody can serve it: who rests makes room for the next.
                    if !self.welcome(cluster, socket, peer) && !self.evict() {
                        return self.pause(cluster);
                    }
                }
                Ok(Accepted::Nothing) => return,
                Ok(Accepted::Gone) | Err(_) => {}
                // Who rests makes room for who comes; only when nobody rests is one turned away.
                Ok(Accepted::Exhausted) if self.evict() => {}
                Ok(Accepted::Exhausted) => {
                    cluster.listeners_mut().turn_one_away(listener);
                    return self.pause(cluster);
                }
            }
        }
    }

    /// Has a fiber serve a connection. Returns whether there was one to be had; if not, the client
    /// sees its connection closed.
    fn welcome(&mut self, cluster: &Cluster, socket: OwnedFd, peer: SocketAddr) -> bool {
        self.worker.counters.connections_accepted.add(1);
        let connection = Connection::new(&self.worker, peer);
        let spawned = cluster.spawn(|key| Visit::guest(connection, socket, key));
        let Ok(Some(key)) = spawned else { return false };
        cluster.count_in();
        cluster.run_later(key as u32);
        true
    }

    /// Has the idle connection closed that has rested longest. Returns whether there was one.
    pub(super) fn evict(&mut self) -> bool {
        let cluster = Arc::clone(&self.cluster);
        let Some(index) = cluster.timers.evict_least_recent(&cluster.places) else { return false };
        self.run_fiber(&cluster, index);
        true
    }

    fn pause(&mut self, cluster: &Cluster) {
        self.worker.counters.accept_pauses.add(1);
        cluster.listeners_mut().pause(&cluster.epoll, self.worker.now());
        if cluster.settings.threads > 1 {
            cluster.ring(); // the poller must not sleep beyond the pause
        }
    }

    pub(super) fn is_draining(&self) -> bool {
        self.cluster.is_draining.load(Ordering::SeqCst)
    }

    pub(super) fn is_aborting(&self) -> bool {
        self.cluster.shared.abort.load(Ordering::Acquire)
    }

    /// How long the poll may sleep.
    fn timeout_ms(&self, cluster: &Cluster) -> Option<u32> {
        let now = self.worker.now();
        let housekeeping = self.worker.needs_time().then(|| now.plus_ms(HOUSEKEEPING_MS));
        let looks = [cluster.listeners().next_look(), housekeeping];
        let until = cluster.timers.sleep(looks.into_iter().flatten().min())?;
        Some(u32::try_from(until.since(now).div_ceil(1000)).unwrap_or(u32::MAX))
    }
}
