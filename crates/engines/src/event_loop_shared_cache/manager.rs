//! The manager of the processes that serve: starts, tells, replaces and waits for them. Its own
//! process has one thread, so it does its work whenever it is asked how things are.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, OnceLock};

use file_cache::{Budget, Cache};
use site::resource::Entry;

use os::descriptors::{Sweeper, Table};
use session::Counters;

use super::shared_memory::SharedMemory;
use super::worker_slot::{Common, End, ProcessStart, WorkerSlot, begin};
use super::{DESCRIPTORS, SHARED, SHARED_PERCENT};
use crate::engine::{Engine, MakeWorker, Start, WorkerStart};
use crate::orders::Order;

/// A process that ends by itself within this is not going to do better the next time. Longer than
/// it takes until a loop's failure is noticed.
const SHORT_LIFE_US: u64 = 5_000_000;
/// So many of them in a row in one slot, and the engine has failed.
const SHORT_LIVES_MAX: u32 = 5;

/// Where a process could not be started, it is tried again after this.
const TRY_AGAIN_US: u64 = 1_000_000;

/// What dead processes have left open is worth a line if it is there for longer than this: a
/// process may wait for a disk, and what it is about to open cannot be told from what is left.
const LEFT_US: u64 = 2_000_000;

/// How soon it is noticed that a process has died.
const LOOK_MS: u32 = 20;

/// The engine as its starter sees it.
pub(super) struct Manager {
    inner: RefCell<Inner>,
    failure: OnceLock<String>,
}

struct Inner {
    slots: Vec<WorkerSlot>,
    /// Where all share one descriptor table.
    leftovers: Option<Leftovers>,
    histories: Vec<History>,
    common: Common,
    /// Incarnations so far.
    numbers: u32,
    /// Told to stop: who ends now is not replaced.
    is_ending: bool,
    notices: Vec<String>,
}

/// What dead processes may have left open in a common descriptor table.
struct Leftovers {
    sweeper: Sweeper,
    /// Where that is counted: with a worker, as what it serves is. Nobody else writes there.
    counters: Arc<Counters>,
    /// Since when something of dead processes may be open.
    since_us: Option<u64>,
    /// That it is so has been told.
    is_told: bool,
}

/// What is remembered of a slot from one process to the next.
#[derive(Clone, Copy, Default)]
struct History {
    /// Lives in a row that were short.
    short_lives: u32,
    try_again_us: u64,
}

impl Manager {
    /// Starts a process for each worker, and waits until all serve.
    ///
    /// # Errors
    /// The calling process has other threads; no memory or no room for processes; what a process
    /// lacks.
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
        let is_shared = start.knobs.get(DESCRIPTORS.name) == SHARED;
        let (table, leftovers) = match workers.first() {
            Some((first, ..)) if is_shared => {
                let (table, sweeper) = Table::create(workers.len())?;
                check_room(table.numbers(), workers.len())?;
                let counters = Arc::clone(&first.worker.counters);
                (Some(table), Some(Leftovers { sweeper, counters, since_us: None, is_told: false }))
            }
            _ => (None, None),
        };
        let mut shares = shares(start.connections_max, workers.len());
        for group in by_cache(workers) {
            starts.extend(process_starts(group, shared_percent, table, &mut shares)?);
        }
        let common = Common {
            name,
            runner: start.runner,
            sendfile: start.sendfile,
            exclusive_wakeups: start.exclusive_wakeups,
            knobs: start.knobs,
            table,
        };
        let mut inner = Inner::new(starts, common, leftovers);
        if let Err(why) = inner.begin_all() {
            inner.tell(Order::StopAccepting);
            inner.tell(Order::Abort);
            inner.wait(); // those that run already must not go on
            return Err(why);
        }
        Ok(Self { inner: RefCell::new(inner), failure: OnceLock::new() })
    }

    /// Looks whether processes have died, and replaces them.
    fn tend(&self) {
        if let Err(why) = self.inner.borrow_mut().tend() {
            let _ = self.failure.set(why); // the first is the one to tell
        }
    }
}

impl Engine for Manager {
    fn tell(&mut self, order: Order) {
        let inner = self.inner.get_mut();
        inner.tell(order);
        if order == Order::StopAccepting {
            inner.is_ending = true;
            // The processes have copies of their own, and take from the queue first.
            inner.slots.iter_mut().for_each(WorkerSlot::close);
        }
    }

    /// Each process does so by itself.
    fn keep_house(&self) {}

    fn look_ms(&self) -> u32 {
        LOOK_MS
    }

    fn failure(&self) -> Option<&str> {
        self.tend();
        self.failure.get().map(String::as_str)
    }

    fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut self.inner.borrow_mut().notices)
    }

    fn is_finished(&self) -> bool {
        self.tend();
        !self.inner.borrow().slots.iter().any(WorkerSlot::is_taken)
    }

    fn join(mut self: Box<Self>) -> io::Result<()> {
        self.inner.get_mut().wait();
        self.failure.into_inner().map_or(Ok(()), |why| Err(io::Error::other(why)))
    }
}

impl Inner {
    fn new(starts: Vec<ProcessStart>, common: Common, leftovers: Option<Leftovers>) -> Self {
        let notices = common.table.map(|table| describe(table, &starts));
        Self {
            leftovers,
            histories: vec![History::default(); starts.len()],
            slots: starts.into_iter().map(WorkerSlot::new).collect(),
            common,
            numbers: 0,
            is_ending: false,
            notices: notices.into_iter().collect(),
        }
    }

    fn begin_all(&mut self) -> io::Result<()> {
        (0..self.slots.len()).try_for_each(|index| self.begin(index))?;
        for index in 0..self.slots.len() {
            let ready = self.slots[index].wait_ready();
            ready.map_err(|why| io::Error::other(format!("{}: {why}", self.name_of(index))))?;
        }
        Ok(())
    }

    /// Starts a process in a slot.
    fn begin(&mut self, index: usize) -> io::Result<()> {
        self.numbers += 1;
        begin(&mut self.slots, index, &self.common, self.numbers)
    }

    fn tell(&mut self, order: Order) {
        self.slots.iter_mut().for_each(|slot| slot.tell(order));
    }

    /// Notes who has died, and has others take their places. The error is that one slot cannot be
    /// held.
    fn tend(&mut self) -> Result<(), String> {
        for index in 0..self.slots.len() {
            if let Some(end) = self.slots[index].look() {
                let noted = self.note(index, &end);
                self.leftovers.iter_mut().for_each(Leftovers::take_up);
                self.sweep(); // before another starts, of whom nobody knows what it opens
                noted?;
            }
        }
        self.sweep();
        for index in 0..self.slots.len() {
            if !self.is_ending && !self.slots[index].is_taken() {
                self.fill(index);
            }
        }
        Ok(())
    }

    fn note(&mut self, index: usize, end: &End) -> Result<(), String> {
        let what = format!("{}: {}", self.name_of(index), end.reason);
        if self.is_ending {
            if !end.is_in_order {
                self.notices.push(format!("{what}; its connections are cut off"));
            }
            return Ok(());
        }
        let history = &mut self.histories[index];
        let is_short = !end.is_killed && end.has_lived_us < SHORT_LIFE_US;
        history.short_lives = if is_short { history.short_lives + 1 } else { 0 };
        if history.short_lives >= SHORT_LIVES_MAX {
            let times = history.short_lives;
            return Err(format!("{what}; {times} times in a row"));
        }
        self.notices.push(format!("{what}; another takes its place"));
        Ok(())
    }

    /// Closes what dead processes have left open, where that is not done by the kernel.
    fn sweep(&mut self) {
        let Some(leftovers) = &mut self.leftovers else { return };
        let slots = self.slots.iter().enumerate();
        let living: Vec<_> =
            slots.filter_map(|(seat, slot)| Some((seat, slot.number()?))).collect();
        self.notices.extend(leftovers.sweep(&living));
    }

    fn fill(&mut self, index: usize) {
        let now = os::clock::now();
        if now < self.histories[index].try_again_us {
            return;
        }
        if let Err(why) = self.begin(index) {
            self.histories[index].try_again_us = now + TRY_AGAIN_US;
            let name = self.name_of(index);
            self.notices.push(format!("{name}: nobody can take its place yet: {why}"));
        }
    }

    fn wait(&mut self) {
        for index in 0..self.slots.len() {
            if let Some(end) = self.slots[index].wait() {
                let _ = self.note(index, &end); // nobody is replaced any more
            }
        }
    }

    fn name_of(&self, index: usize) -> String {
        format!("{}-{index}", self.common.name)
    }
}

impl Leftovers {
    /// One more has died.
    fn take_up(&mut self) {
        self.counters.dead_processes_swept.add(1);
        self.since_us.get_or_insert_with(os::clock::now);
    }

    /// Sweeps, if something may be left. Returns what is to be told.
    fn sweep(&mut self, living: &[(usize, u32)]) -> Option<String> {
        let since = self.since_us?;
        let swept = self.sweeper.sweep(living);
        if let Ok(swept) = &swept {
            self.counters.leftovers_closed.add(swept.closed as u64);
            self.counters.leftovers_unjudged.add(swept.unjudged as u64);
        }
        let left = match swept {
            Ok(swept) if swept.left == 0 => {
                self.since_us = None;
                let was_told = std::mem::take(&mut self.is_told);
                return was_told.then(|| "all that dead processes had open is closed".into());
            }
            Ok(swept) => format!("up to {} descriptors of dead processes are open", swept.left),
            Err(why) => format!("cannot look for descriptors of dead processes: {why}"),
        };
        let is_late = os::clock::now() > since + LEFT_US;
        let is_news = is_late && !self.is_told;
        self.is_told |= is_late;
        is_news.then(|| format!("{left}; they will be closed when the others are at rest"))
    }
}

/// Fewer descriptors for each process than this serve nobody: it has as many by itself.
const DESCRIPTORS_EACH_MIN: usize = 24;

fn check_room(numbers: usize, processes: usize) -> io::Result<()> {
    if numbers >= processes * DESCRIPTORS_EACH_MIN {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{processes} processes cannot share a table of {numbers} descriptors: raise the limit \
         (ulimit -n, LimitNOFILE=), have fewer (engine.knobs.processes), or let each have a table \
         of its own (engine.knobs.descriptors = \"private\")"
    )))
}

/// How the descriptors of a common table are divided.
fn describe(table: Table, starts: &[ProcessStart]) -> String {
    let connections: usize = starts.iter().map(|start| start.connections_max).sum();
    let files = starts.first().map_or(0, |start| start.budget.descriptors);
    format!(
        "{} processes share one table of {} descriptors: {connections} connections in all, and up \
         to {files} open files for each and {files} for all of a cache together",
        starts.len(),
        table.numbers(),
    )
}

/// A worker, the CPUs of its partition, and what makes more.
type Member = (WorkerStart, Vec<usize>, MakeWorker);

/// Those of one cache together: they share memory. Usually each partition has one.
fn by_cache(workers: Vec<Member>) -> Vec<Vec<Member>> {
    let mut groups: Vec<(Arc<Cache<Entry>>, Vec<Member>)> = Vec::new();
    for member in workers {
        let cache = member.0.worker.cache();
        match groups.iter_mut().find(|(known, _)| Arc::ptr_eq(known, cache)) {
            Some((_, group)) => group.push(member),
            None => groups.push((Arc::clone(cache), vec![member])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// What processes that share memory are started with.
fn process_starts(
    group: Vec<Member>,
    shared_percent: usize,
    table: Option<Table>,
    connections: &mut impl Iterator<Item = usize>,
) -> io::Result<Vec<ProcessStart>> {
    let Some((first, ..)) = group.first() else { return Ok(Vec::new()) };
    let budget = first.worker.cache().budget();
    let (shared, own) = divide(budget, shared_percent, group.len(), table.is_some());
    let memory = SharedMemory::new(group.len(), shared, table)?;
    let process_start = |(seat, (start, cpus, more)): (usize, Member)| ProcessStart {
        worker: start.worker,
        cpus,
        cpu: start.cpu,
        roam: start.roam,
        listeners: start.listeners,
        connections_max: connections.next().unwrap_or(1),
        memory,
        seat,
        budget: own,
        more,
    };
    Ok(group.into_iter().enumerate().map(process_start).collect())
}

/// What is shared, and what each process has to itself. With a descriptor table of its own each has
/// as many descriptors as it may; of a common one each has a part, and one is for what is open for
/// all. Entries are not divided: they are the same in all of them.
fn divide(
    budget: Budget,
    shared_percent: usize,
    processes: usize,
    is_table_shared: bool,
) -> (Budget, Budget) {
    let shared = budget.bytes / 100 * shared_percent;
    let own = budget.bytes.saturating_sub(shared) / processes;
    let parts = if is_table_shared { processes + 1 } else { 1 };
    let budget = Budget { descriptors: budget.descriptors / parts, ..budget };
    (Budget { bytes: shared, ..budget }, Budget { bytes: own, ..budget })
}

/// Bounds on the connections of each process, which add up to that of all.
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
        let (shared, own) = divide(budget, 40, 3, false);
        assert_eq!((shared.bytes, own.bytes), (400, 200));
        assert_eq!((own.descriptors, own.entries), (10, 100));
        let (shared, own) = divide(Budget { bytes: 0, ..budget }, 40, 3, false);
        assert_eq!((shared.bytes, own.bytes), (0, 0));
        let (shared, own) = divide(budget, 40, 3, true);
        assert_eq!((shared.descriptors, own.descriptors), (2, 2));
    }
}
