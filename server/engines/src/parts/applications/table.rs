//! The applications of one loop: connections that are in use, those that are kept for the next
//! request, and requests that wait for one.

use std::collections::VecDeque;
use std::sync::Arc;

use session::{JobId, Tick};
use upstream::{Application, Call, Failure, Tried};

use super::driven_call::BACKLOG_MS;
use super::joint::RECEIVE_BYTES;
use super::servers::Servers;
use crate::engine::ConnectionLimit;
use crate::parts::loops::connections::{Connections, Timed};

/// Marks the keys of connections to applications. Slots are descriptors, which are fewer.
pub(crate) const MARK: u64 = 1 << 31;

/// A call and the client that it is for.
pub(crate) struct Out {
    pub(crate) client: u64,
    pub(crate) id: JobId,
    pub(crate) call: Box<Call>,
    /// The servers that were tried and cannot be reached.
    pub(crate) tried: Tried,
    /// Whether a server had no room in its backlog.
    pub(crate) is_put_off: bool,
}

/// A connection to a server of an application.
pub(crate) struct Upstream<L> {
    pub(crate) line: L,
    /// The call that uses it; none while it is kept for the next one.
    pub(crate) out: Option<Out>,
    pub(crate) application: usize,
    pub(crate) server: usize,
    /// When it is closed if no call uses it.
    pub(crate) idle_until: Tick,
}

impl<L> Timed for Upstream<L> {
    fn deadline(&self) -> Option<Tick> {
        match &self.out {
            Some(out) => out.call.deadline(),
            None => Some(self.idle_until),
        }
    }

    fn is_idle(&self) -> bool {
        self.out.is_none()
    }
}

/// A call that waits until another is over.
struct Queued {
    out: Out,
    until: Tick,
}

/// A call whose server had no room in its backlog.
struct PutOff {
    out: Out,
    due: Tick,
}

/// An application as one loop uses it.
struct Usage {
    servers: Servers<u64>,
    in_flight: u64,
    queue: VecDeque<Queued>,
}

impl Usage {
    /// Whether no call is for it, and none will be.
    fn is_over(&self) -> bool {
        let has_kept = self.servers.kept.iter().any(|kept| !kept.is_empty());
        self.servers.application.is_retired() && self.in_flight == 0 && !has_kept
    }
}

/// What one application may have of a loop, whatever its own bounds allow, so that requests for
/// files never wait for an application: with all loops at most half of the connections.
pub(crate) struct Share {
    connections: ConnectionLimit,
    loops: usize,
}

impl Share {
    /// That of one of so many `loops`.
    pub(crate) fn new(connections: &ConnectionLimit, loops: usize) -> Self {
        Self { connections: connections.clone(), loops }
    }

    /// Calls that are with an application or wait for a place, at most.
    fn calls_max(&self) -> u64 {
        (self.connections.now() / 2 / self.loops).max(1) as u64
    }
}

/// All applications as one loop uses them.
pub(crate) struct Table<L> {
    pub(crate) slots: Connections<Upstream<L>>,
    /// By the numbers of the applications.
    usages: Vec<Option<Usage>>,
    share: Share,
    /// Calls that try again to connect, in the order in which they do.
    put_off: VecDeque<PutOff>,
    pub(crate) buffer: Box<[u8]>,
    /// Whether there are applications.
    pub(crate) is_used: bool,
    /// Whether connections are not kept any more.
    pub(crate) is_draining: bool,
}

/// What becomes of a call that is to begin.
pub(crate) enum Admitted {
    /// It may begin.
    Now(Out),
    /// It waits in the queue.
    Queued,
    /// The queue is full, or the application has its share of the connections.
    Refused(Out),
}

impl<L> Table<L> {
    pub(crate) fn new(applications: &[Arc<Application>], share: Share, now: Tick) -> Self {
        let is_used = !applications.is_empty();
        let buffer = vec![0; if is_used { RECEIVE_BYTES } else { 0 }].into();
        let (slots, put_off) = (Connections::new(now), VecDeque::new());
        let usages = Vec::new();
        let is_draining = false;
        let mut table = Self { slots, usages, share, put_off, buffer, is_used, is_draining };
        applications.iter().for_each(|application| table.learn(application));
        table
    }

    /// Forgets applications that no further call is for, and that have none any more. What is kept
    /// for them has been closed.
    pub(crate) fn forget_retired(&mut self) {
        for usage in &mut self.usages {
            usage.take_if(|usage| usage.is_over());
        }
    }

    /// Whether an application is one of these.
    #[inline]
    pub(crate) fn knows(&self, application: &Application) -> bool {
        self.usages.get(application.number()).is_some_and(Option::is_some)
    }

    /// Has another application be one of these.
    pub(crate) fn learn(&mut self, application: &Arc<Application>) {
        let number = application.number();
        if self.usages.len() <= number {
            self.usages.resize_with(number + 1, || None);
        }
        let (servers, queue) = (Servers::new(application), VecDeque::new());
        self.usages[number] = Some(Usage { servers, in_flight: 0, queue });
    }

    fn usage(&mut self, application: usize) -> &mut Usage {
        self.usages[application].as_mut().expect("a call of it was admitted")
    }

    fn all(&self) -> impl Iterator<Item = &Usage> {
        self.usages.iter().flatten()
    }

    /// Admits a call, if its application, which is one of these, may have one more.
    pub(crate) fn admit(&mut self, out: Out, now: Tick) -> Admitted {
        let calls_max = self.share.calls_max();
        let usage = self.usage(out.call.application().number());
        let limits = usage.servers.application.limits();
        let waiting = usage.queue.len() as u64;
        if usage.in_flight < limits.in_flight_max.min(calls_max) {
            usage.in_flight += 1;
            return Admitted::Now(out);
        }
        if waiting >= limits.queue_max || usage.in_flight + waiting >= calls_max {
            return Admitted::Refused(out);
        }
        usage.queue.push_back(Queued { out, until: now.plus_ms(limits.queue_ms) });
        Admitted::Queued
    }

    /// Counts a call off that was admitted. Returns one that waits, which is admitted in its place.
    pub(crate) fn leave(&mut self, application: usize) -> Option<Out> {
        let usage = self.usage(application);
        let next = usage.queue.pop_front().map(|queued| queued.out);
        if next.is_none() {
            usage.in_flight -= 1;
        }
        next
    }

    /// Takes a call that has waited for too long.
    pub(crate) fn take_late(&mut self, now: Tick) -> Option<Out> {
        let is_late = |usage: &&mut Usage| usage.queue.front().is_some_and(|it| it.until <= now);
        let usage = self.usages.iter_mut().flatten().find(is_late)?;
        usage.queue.pop_front().map(|queued| queued.out)
    }

    /// Has a call try again to connect in a moment.
    pub(crate) fn put_off(&mut self, out: Out, now: Tick) {
        self.put_off.push_back(PutOff { out, due: now.plus_ms(BACKLOG_MS) });
    }

    /// Takes a call that is to try again to connect.
    pub(crate) fn take_put_off(&mut self, now: Tick) -> Option<Out> {
        let is_due = self.put_off.front().is_some_and(|it| it.due <= now);
        if is_due { self.put_off.pop_front().map(|it| it.out) } else { None }
    }

    /// Chooses a server for a call, and takes a connection to it that was kept; none if there is
    /// none.
    pub(crate) fn choose(&mut self, out: &mut Out, now: Tick) -> Option<(usize, Option<u64>)> {
        let Out { call, tried, .. } = out;
        let servers = &mut self.usage(call.application().number()).servers;
        servers.choose(call.client(), tried, now)
    }

    /// Gives a call a connection that was kept. Returns the call if that is not there any more.
    pub(crate) fn use_kept(&mut self, key: u64, out: Out) -> Result<(), Out> {
        let Some(upstream) = self.slots.get(key) else { return Err(out) };
        let (application, server) = (upstream.application, upstream.server);
        upstream.out = Some(out);
        self.usage(application).servers.begin(server);
        Ok(())
    }

    /// Adds a connection that is being made for a call. Returns its key.
    pub(crate) fn add(&mut self, line: L, server: usize, out: Out, now: Tick) -> u64 {
        let application = out.call.application().number();
        self.usage(application).servers.begin(server);
        self.slots.insert(Upstream { line, out: Some(out), application, server, idle_until: now })
    }

    /// Takes the call from its connection.
    pub(crate) fn take_out(&mut self, key: u64) -> Option<Out> {
        let upstream = self.slots.get(key)?;
        let (application, server) = (upstream.application, upstream.server);
        let out = upstream.out.take()?;
        self.usage(application).servers.end(server);
        Some(out)
    }

    /// Whether connections to this application are kept.
    pub(crate) fn keeps(&mut self, application: usize) -> bool {
        !self.is_draining && !self.usage(application).servers.application.is_retired()
    }

    /// Keeps a connection for the next call.
    pub(crate) fn keep(&mut self, key: u64, now: Tick) {
        let Some(upstream) = self.slots.get(key) else { return };
        let (number, server) = (upstream.application, upstream.server);
        let Some(Some(usage)) = self.usages.get_mut(number) else { return };
        upstream.idle_until = now.plus_ms(usage.servers.application.limits().idle_ms);
        usage.servers.kept[server].push(key);
    }

    /// Forgets a connection that is kept.
    pub(crate) fn forget(&mut self, key: u64, application: usize, server: usize) {
        let kept = &mut self.usage(application).servers.kept[server];
        if let Some(at) = kept.iter().rposition(|kept| *kept == key) {
            kept.remove(at);
        }
    }

    /// The keys of the connections that are kept for applications of which this is true.
    pub(crate) fn kept_for(&self, is_meant: impl Fn(&Application) -> bool) -> Vec<u64> {
        let meant = self.all().filter(|usage| is_meant(&usage.servers.application));
        meant.flat_map(|usage| usage.servers.kept.iter().flatten()).copied().collect()
    }

    /// Notes that a server could not be reached.
    pub(crate) fn note_failure(&mut self, application: usize, server: usize, now: Tick) {
        self.usage(application).servers.note_failure(server, now);
    }

    /// Notes how a call of a server has ended.
    #[inline]
    pub(crate) fn note_end(
        &mut self,
        application: usize,
        server: usize,
        failure: Option<Failure>,
        now: Tick,
    ) {
        self.usage(application).servers.note_end(server, failure, now);
    }

    /// The moment at which something is due.
    pub(crate) fn next_check(&self) -> Option<Tick> {
        let queued = self.all().filter_map(|usage| usage.queue.front());
        let queued = queued.map(|queued| queued.until).min();
        let put_off = self.put_off.front().map(|it| it.due);
        self.slots.next_check().into_iter().chain(queued).chain(put_off).min()
    }
}
