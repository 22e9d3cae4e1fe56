//! The manager of the processes that serve: starts them, sends them orders, replaces them and waits
//! for them. Its own process has one thread, so it does its work whenever its state is queried.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, OnceLock};

use file_cache::{Budget, Cache};
use site::resource::Entry;

use super::knobs::SHARED_PERCENT;
use super::shared_memory::SharedMemory;
use super::worker_slot::{Common, End, ProcessStart, WorkerSlot, begin};
use crate::engine::{Engine, Heir, MakeWorker, Start, WorkerStart};
use crate::orders::Order;
use crate::parts::failures::{Failures, Replacement};

/// The time after which a process is started again if the system has refused one, in microseconds.
const TRY_AGAIN_US: u64 = 1_000_000;

/// The interval at which the manager checks whether processes have died, in milliseconds.
const CHECK_MS: u32 = 20;

/// The engine in the hands of the process that started it.
pub(super) struct Manager {
    inner: RefCell<Inner>,
    failure: OnceLock<String>,
}

struct Inner {
    slots: Vec<WorkerSlot>,
    /// For each slot the recent ends of processes that ended by themselves.
    deaths: Vec<Failures>,
    /// The recent starts that the system has refused.
    refusals: Failures,
    common: Common,
    /// The number of processes that were started so far.
    numbers: u32,
    /// Whether the processes accept.
    has_begun: bool,
    /// Whether the engine is stopping: a process that ends now is not replaced.
    is_ending: bool,
    notices: Vec<String>,
}

impl Manager {
    /// Starts a process for each worker, and waits until all serve.
    ///
    /// # Errors
    /// The calling process has other threads; there is no memory or no room for processes; or a
    /// process cannot serve, and why.
    pub(super) fn start(name: &'static str, start: Start) -> io::Result<Self> {
        os::clock::now(); // the origin of the clock, for all copies of this process
        let shared_percent = start.knobs.get_usize(SHARED_PERCENT.name);
        let mut starts = Vec::new();
        let partitions = start.partitions.into_iter();
        let workers: Vec<_> = partitions
            .flat_map(|partition| {
                let (cpus, more) = (partition.cpus, partition.more);
                let with = move |worker| (worker, cpus.clone(), Arc::clone(&more));
                partition.workers.into_iter().map(with)
            })
            .collect();
        let mut shares = shares(start.connections_max.most(), workers.len());
        for group in group_by_cache(workers) {
            starts.extend(process_starts(group, shared_percent, &mut shares)?);
        }
        let common = Common {
            name,
            runner: start.runner,
            sendfile: start.sendfile,
            exclusive_wakeups: start.exclusive_wakeups,
            knobs: start.knobs,
        };
        let mut inner = Inner::new(starts, common);
        if let Err(why) = inner.begin_all() {
            inner.send(Order::StopAccepting);
            inner.send(Order::Abort);
            inner.wait(); // processes that run already must not go on
            return Err(why);
        }
        Ok(Self { inner: RefCell::new(inner), failure: OnceLock::new() })
    }

    /// Replaces the processes that have died.
    fn replace_dead(&self) {
        if let Err(why) = self.inner.borrow_mut().replace_dead() {
            let _ = self.failure.set(why); // the first failure is the one that is reported
        }
    }
}

impl Engine for Manager {
    fn issue(&mut self, order: Order) {
        let inner = self.inner.get_mut();
        inner.send(order);
        if matches!(order, Order::Leave | Order::StopAccepting) {
            inner.is_ending = true;
            // The processes have copies of the listeners, and empty their queues first.
            inner.slots.iter_mut().for_each(WorkerSlot::close);
        }
    }

    /// Connections end here: they cannot go from one process to another.
    fn leave(&mut self, _: Option<Arc<dyn Heir>>) {
        self.issue(Order::Leave);
    }

    fn has_left(&self) -> bool {
        self.inner.borrow_mut().slots.iter_mut().all(WorkerSlot::has_left)
    }

    /// Has the processes look for another revision. Each does its housekeeping by itself.
    fn do_housekeeping(&self) {
        self.inner.borrow_mut().slots.iter_mut().for_each(WorkerSlot::keep_current);
    }

    fn check_interval_ms(&self) -> u32 {
        CHECK_MS
    }

    fn failure(&self) -> Option<&str> {
        self.replace_dead();
        self.failure.get().map(String::as_str)
    }

    fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut self.inner.borrow_mut().notices)
    }

    fn is_finished(&self) -> bool {
        self.replace_dead();
        !self.inner.borrow().slots.iter().any(WorkerSlot::is_taken)
    }

    fn join(mut self: Box<Self>) -> io::Result<()> {
        self.inner.get_mut().wait();
        self.failure.into_inner().map_or(Ok(()), |why| Err(io::Error::other(why)))
    }
}

impl Inner {
    fn new(starts: Vec<ProcessStart>, common: Common) -> Self {
        Self {
            deaths: vec![Failures::default(); starts.len()],
            refusals: Failures::default(),
            slots: starts.into_iter().map(WorkerSlot::new).collect(),
            common,
            numbers: 0,
            has_begun: false,
            is_ending: false,
            notices: Vec::new(),
        }
    }

    fn begin_all(&mut self) -> io::Result<()> {
        (0..self.slots.len()).try_for_each(|index| self.begin(index))?;
        for index in 0..self.slots.len() {
            let ready = self.slots[index].wait_ready();
            ready.map_err(|why| io::Error::other(format!("{}: {why}", self.name(index))))?;
        }
        Ok(())
    }

    /// Starts a process in a slot.
    fn begin(&mut self, index: usize) -> io::Result<()> {
        self.numbers += 1;
        begin(&mut self.slots, index, &self.common, self.numbers)?;
        if self.has_begun {
            self.slots[index].send(Order::Begin);
        }
        Ok(())
    }

    fn send(&mut self, order: Order) {
        self.has_begun |= order == Order::Begin;
        self.slots.iter_mut().for_each(|slot| slot.send(order));
    }

    /// Notes which processes have died, and starts others in their slots. Fails if the processes of
    /// a slot die again and again.
    fn replace_dead(&mut self) -> Result<(), String> {
        for index in 0..self.slots.len() {
            if let Some(end) = self.slots[index].poll_end() {
                self.note(index, &end)?;
            }
        }
        for index in 0..self.slots.len() {
            if !self.is_ending && !self.slots[index].is_taken() {
                self.fill(index);
            }
        }
        Ok(())
    }

    fn note(&mut self, index: usize, end: &End) -> Result<(), String> {
        let what = format!("{}: {}", self.name(index), end.reason);
        if self.is_ending {
            if !end.is_in_order {
                self.notices.push(format!("{what}; its connections are cut off"));
            }
            return Ok(());
        }
        let (deaths, now) = (&mut self.deaths[index], os::clock::now());
        // A process that is killed has not failed: it is replaced however often that happens.
        if !end.is_killed {
            deaths.note(now);
        }
        let replacement = deaths.replacement(now);
        let notice = format!("{what}; {replacement}");
        match replacement {
            Replacement::Due => {
                self.notices.push(notice);
                Ok(())
            }
            Replacement::GivenUp => {
                self.is_ending = true;
                Err(notice)
            }
        }
    }

    fn fill(&mut self, index: usize) {
        let now = os::clock::now();
        if self.refusals.pause_end_us(now, TRY_AGAIN_US).is_some() {
            return;
        }
        if let Err(why) = self.begin(index) {
            self.refusals.note(now);
            let name = self.name(index);
            self.notices.push(format!("{name}: it cannot be replaced yet: {why}"));
        }
    }

    fn wait(&mut self) {
        for index in 0..self.slots.len() {
            if let Some(end) = self.slots[index].wait() {
                let _ = self.note(index, &end); // no process is replaced any more
            }
        }
    }

    fn name(&self, index: usize) -> String {
        format!("{}-{index}", self.common.name)
    }
}

/// A worker, the CPUs of its partition, and the function that makes more workers.
type PartitionWorker = (WorkerStart, Vec<usize>, MakeWorker);

/// Groups the workers by their cache: the workers of one cache share memory. Usually each partition
/// has one cache.
fn group_by_cache(workers: Vec<PartitionWorker>) -> Vec<Vec<PartitionWorker>> {
    let mut groups: Vec<(Arc<Cache<Entry>>, Vec<PartitionWorker>)> = Vec::new();
    for worker in workers {
        let cache = worker.0.worker.cache();
        match groups.iter_mut().find(|(known, _)| Arc::ptr_eq(known, cache)) {
            Some((_, group)) => group.push(worker),
            None => groups.push((Arc::clone(cache), vec![worker])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// The parts that processes which share memory are started with.
fn process_starts(
    group: Vec<PartitionWorker>,
    shared_percent: usize,
    connections: &mut impl Iterator<Item = usize>,
) -> io::Result<Vec<ProcessStart>> {
    let Some((first, ..)) = group.first() else { return Ok(Vec::new()) };
    let budget = first.worker.cache().budget();
    let (shared, own) = divide(budget, shared_percent, group.len());
    let memory = SharedMemory::new(group.len(), shared)?;
    let process_start =
        |(slot_index, (start, cpus, more)): (usize, PartitionWorker)| ProcessStart {
            worker: start.worker,
            cpus,
            cpu: start.cpu,
            unpinned_cpus: start.unpinned_cpus,
            listeners: start.listeners,
            connections_max: connections.next().unwrap_or(1),
            memory,
            slot_index,
            budget: own,
            more,
        };
    Ok(group.into_iter().enumerate().map(process_start).collect())
}

/// Divides a budget into the shared part and the part of each process. Descriptors are not divided,
/// because each process has a table of its own, nor are entries: all processes have the same ones.
fn divide(budget: Budget, shared_percent: usize, processes: usize) -> (Budget, Budget) {
    let shared = budget.bytes / 100 * shared_percent;
    let own = budget.bytes.saturating_sub(shared) / processes;
    (Budget { bytes: shared, ..budget }, Budget { bytes: own, ..budget })
}

/// The limits on the connections of each process, which add up to `total`.
fn shares(total: usize, processes: usize) -> impl Iterator<Item = usize> {
    let processes = processes.max(1);
    let (each, rest) = (total / processes, total % processes);
    (0..processes).map(move |index| (each + usize::from(index < rest)).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_divided_without_rest() {
        let check = |total, processes, expected: &[usize]| {
            assert_eq!(shares(total, processes).collect::<Vec<_>>(), expected);
        };
        check(10, 3, &[4, 3, 3]);
        check(2, 2, &[1, 1]);
        check(1, 2, &[1, 1]); // a process without any would leave its clients waiting for ever
    }

    #[test]
    fn the_memory_of_all_is_what_the_budget_says() {
        let budget = Budget { bytes: 1000, descriptors: 10, entries: 100 };
        let (shared, own) = divide(budget, 40, 3);
        assert_eq!((shared.bytes, own.bytes), (400, 200));
        assert_eq!((own.descriptors, own.entries), (10, 100));
        let (shared, own) = divide(Budget { bytes: 0, ..budget }, 40, 3);
        assert_eq!((shared.bytes, own.bytes), (0, 0));
    }
}
