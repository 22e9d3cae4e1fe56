//! The run: which processor goes on, what runs there, and when the run ends.
//!
//! The processor that is furthest behind goes on. **In strict order** it stops as soon as another
//! is behind it. Otherwise it may run ahead by a number of cycles as long as it hits; records that
//! need the bus or the scheduler are always done in the order of time. The possible error is a hit
//! that an earlier transaction of another processor would have prevented; transactions that found a
//! copy in a cache whose processor was ahead of them are counted.
//!
//! `hits` is the work for each reference, `transact` the work for each miss, and `ahead` keeps
//! strict order without waiting at each reference. `last_level` and `nodes` are for machines that
//! have last-level caches or memory nodes.

mod ahead;
mod blocks;
mod early;
mod hits;
mod last_level;
mod nodes;
mod transact;

use std::collections::{HashMap, VecDeque};

use statistics::Generator;

use crate::TASKS_MAX;
use crate::bus::Bus;
use crate::cache::{BLOCKS_MAX, Cache};
use crate::error::SimulationError;
use crate::kernel::Stream;
use crate::machine::{Blocking, Machine, Placement};
use crate::order::{Order, Turn};
use crate::outcome::{Counts, Outcome};
use crate::protocol::{Compiled, State, Transaction};
use crate::ranking::Tally;
use crate::record::{Marker, PAGE_BYTES, Record};
use crate::scheduler::Scheduler;
use crate::shadow::Shadows;
use crate::workload::Workload;

use ahead::Ahead;
use blocks::Blocks;
use hits::{Geometry, Stop};
use last_level::LastLevel;
use nodes::Nodes;

/// Options of the simulation, which are not properties of the machine.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Cycles that a processor may run ahead of the others while it hits; 0 is strict order.
    pub run_ahead_cycles: u64,
    /// Whether to distinguish capacity misses from conflict misses, which takes several times as
    /// long.
    pub three_c: bool,
    /// Whether to count by code and data, for a ranking.
    pub rank: bool,
    /// Prefetches, on the real machine, the line of memory at an address that will soon be read,
    /// which safe code cannot. By default nothing is prefetched.
    pub prefetch: fn(usize),
}

impl Options {
    /// The default of [`Options::run_ahead_cycles`]: enough for speed; its effect is counted.
    pub const RUN_AHEAD_CYCLES: u64 = 200;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            run_ahead_cycles: Self::RUN_AHEAD_CYCLES,
            three_c: false,
            rank: false,
            prefetch: |_| {},
        }
    }
}

/// A reference that a processor makes.
#[derive(Debug, Clone, Copy)]
pub struct Reference {
    /// The processor.
    pub cpu: u32,
    /// The record of the reference.
    pub record: Record,
    /// The block's number in physical memory.
    pub block: u32,
    /// The block's set in every cache.
    pub set: u32,
    /// The state of the processor's own copy before the reference.
    pub state: State,
}

/// A transaction that was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// The processor that requested it.
    pub cpu: u32,
    /// The block.
    pub block: u32,
    /// The transaction.
    pub what: Transaction,
    /// Whether a cache supplied the block.
    pub from_cache: bool,
    /// Whether it was done inside a group of processors with a last-level cache, without the bus.
    pub inside: bool,
    /// Whether the memory of another node supplied the block.
    pub remote: bool,
    /// The state of the requesting processor's copy afterwards; after UB it has none.
    pub state: State,
}

/// An observer of the simulation. It is called in the order in which events are simulated: a
/// reference first, then the transactions that it causes.
pub trait Observer {
    /// Whether the observer must get all references, in their order. If not, it may get none.
    const IN_ORDER: bool = true;

    /// Called for a reference.
    fn reference(&mut self, _: &Reference) {}

    /// Called for a transaction that was done.
    fn transaction(&mut self, _: &Done) {}

    /// Called for the use of a row of a protocol's tables, the local or the snooping one. Hits that
    /// change nothing on the bus are not reported.
    fn row(&mut self, _local: bool, _number: u8) {}

    /// Whether a fully associative cache would have hit, if the observer knows.
    fn would_hit_anywhere(&self, _cpu: u32, _block: u32) -> Option<bool> {
        None
    }
}

impl Observer for () {
    const IN_ORDER: bool = false;
}

/// Runs a workload on a machine. Equal seeds give equal outcomes.
///
/// # Errors
/// The machine is impossible, or the workload cannot be simulated on it.
pub fn simulate(
    workload: &Workload,
    machine: &Machine,
    options: Options,
    seed: u64,
) -> Result<Outcome, SimulationError> {
    simulate_observed(workload, machine, options, seed, &mut ())
}

/// Runs a workload on a machine and calls an observer. Equal seeds give equal outcomes.
///
/// # Errors
/// The errors of [`simulate`].
pub fn simulate_observed<O: Observer>(
    workload: &Workload,
    machine: &Machine,
    options: Options,
    seed: u64,
    observer: &mut O,
) -> Result<Outcome, SimulationError> {
    if !options.three_c {
        return Simulation::new(workload, machine, options, seed, observer).map(Simulation::run);
    }
    machine.check()?;
    let lines = machine.cache.size_kib * 1024 / machine.cache.block_bytes;
    let blocks = blocks_of(workload, machine)? as usize;
    let mut shadows = Shadows::new(machine.cpus, blocks, lines as u32, Borrowed(observer));
    Simulation::new(workload, machine, options, seed, &mut shadows).map(Simulation::run)
}

/// An observer that the caller keeps.
struct Borrowed<'o, O>(&'o mut O);

impl<O: Observer> Observer for Borrowed<'_, O> {
    fn reference(&mut self, reference: &Reference) {
        self.0.reference(reference);
    }

    fn transaction(&mut self, done: &Done) {
        self.0.transaction(done);
    }

    fn row(&mut self, local: bool, number: u8) {
        self.0.row(local, number);
    }
}

/// The number of blocks of physical memory, those of the kernel included.
fn blocks_of(workload: &Workload, machine: &Machine) -> Result<u64, SimulationError> {
    let kernel = Stream::frames(&machine.kernel, workload.tasks.len() as u32);
    let frames = workload.frames.len() as u64 + u64::from(kernel);
    let block_bytes = machine.cache.block_bytes;
    let blocks = frames * PAGE_BYTES / block_bytes;
    if blocks > BLOCKS_MAX {
        return Err(SimulationError::TooManyBlocks {
            touched_bytes: frames * PAGE_BYTES,
            covered_bytes: BLOCKS_MAX * block_bytes,
            block_bytes,
        });
    }
    Ok(blocks)
}

/// A processor.
#[derive(Debug)]
struct Cpu {
    clock: u64,
    /// When the last record began.
    started: u64,
    task: Option<u32>,
    /// The position in the records of the task, or of the kernel.
    position: usize,
    /// The kernel's references for the system call under way.
    kernel: Vec<Record>,
    /// Where the task goes on after the system call.
    user_position: usize,
    in_kernel: bool,
    blocks_after: bool,
    /// References of the slice that are left.
    left: i64,
    last_fetch: Record,
    /// When each waiting write will be done.
    write_buffer: VecDeque<u64>,
    delay: u64,
    idle: u64,
    parked: bool,
}

/// A run under way.
struct Simulation<'w, O> {
    workload: &'w Workload,
    machine: &'w Machine,
    options: Options,
    seed: u64,
    observer: &'w mut O,
    table: Compiled,
    geometry: Geometry,
    /// By frame: the bits of the set that its place in memory decides.
    colours: Vec<u32>,
    caches: Vec<Cache>,
    cpus: Vec<Cpu>,
    /// In strict order: what may have to be undone.
    ahead: Vec<Ahead>,
    /// In strict order, for each processor: which blocks it may have touched too early, as a filter
    /// of the contents of `ahead`.
    filters: Vec<u64>,
    /// Whether strict order is kept by undoing.
    exact: bool,
    /// Up to here, not included, only the processor that has the turn does anything.
    alone_until: u64,
    blocks: Blocks,
    last: Option<LastLevel>,
    nodes: Option<Nodes>,
    bus: Bus,
    order: Order,
    scheduler: Scheduler,
    stream: Option<Stream>,
    kernel_frames: u32,
    /// By task: its next record, and its kernel's generator.
    positions: Vec<usize>,
    generators: Vec<Generator>,
    /// The task that used a lock last, and when.
    locks: HashMap<u64, (u32, u64)>,
    unfinished: usize,
    counts: Counts,
    tally: Option<Tally>,
}

impl<'w, O: Observer> Simulation<'w, O> {
    fn new(
        workload: &'w Workload,
        machine: &'w Machine,
        options: Options,
        seed: u64,
        observer: &'w mut O,
    ) -> Result<Self, SimulationError> {
        machine.check()?;
        let tasks = workload.tasks.len();
        if tasks > TASKS_MAX {
            return Err(SimulationError::TooManyTasks(tasks));
        }
        let blocks = blocks_of(workload, machine)? as usize;
        let geometry = Geometry::new(machine);
        let cpus = machine.cpus as usize;
        let (sets, ways) = (geometry.sets(), machine.cache.ways as usize);
        let kernel_frames = workload.frames.len() as u32;
        let stream = machine.kernel.enabled;
        let mut seeds = Generator::new(seed);
        let frames = blocks * machine.cache.block_bytes as usize / PAGE_BYTES as usize;
        let places = places(frames, machine.placement, seeds.next_u64());
        let colours = places.iter().map(|place| geometry.colour(*place)).collect();
        let remote_extra = machine.numa.map_or(0, |numa| numa.remote_extra_cycles);
        let last = |shape| LastLevel::new(shape, cpus, blocks, geometry, places);
        Ok(Self {
            workload,
            machine,
            options,
            seed,
            observer,
            table: Compiled::new(machine.protocol()?),
            geometry,
            colours,
            caches: vec![Cache::new(sets, ways); cpus],
            cpus: (0..cpus).map(|_| Cpu::new()).collect(),
            ahead: (0..cpus).map(|_| Ahead::new()).collect(),
            filters: vec![0; cpus],
            exact: options.run_ahead_cycles == 0 && !O::IN_ORDER,
            alone_until: 0,
            blocks: Blocks::new(blocks, cpus, tasks),
            last: machine.llc.map(last),
            nodes: machine.numa.map(|numa| Nodes::new(numa, cpus, frames, geometry.page_bits)),
            bus: Bus::new(&machine.bus, machine.cache.block_bytes, remote_extra),
            order: Order::new(cpus),
            scheduler: Scheduler::new(machine.scheduler, tasks, seeds.next_u64()),
            stream: stream.then(|| Stream::new(machine.kernel, tasks as u32, kernel_frames)),
            kernel_frames,
            positions: vec![0; tasks],
            generators: (0..tasks).map(|_| Generator::new(seeds.next_u64())).collect(),
            locks: HashMap::new(),
            unfinished: tasks,
            counts: Counts::default(),
            tally: options.rank.then(Tally::default),
        })
    }

    fn run(mut self) -> Outcome {
        let least = self.machine.scheduler.tasks_needed(self.machine.cpus, self.unfinished);
        while self.unfinished >= least {
            let Some(turn) = self.order.next() else { break };
            self.turn(turn, least);
            let cpu = &self.cpus[turn.cpu];
            self.order.set(turn.cpu, (!cpu.parked).then_some(cpu.clock));
        }
        self.outcome()
    }

    /// Lets a processor go on until another is behind it.
    fn turn(&mut self, turn: Turn, least: usize) {
        let cpu = turn.cpu;
        self.alone_until = turn.alone_until;
        while self.cpus[cpu].task.is_some() {
            let stop = self.hits(cpu);
            if stop == Stop::Limit || self.cpus[cpu].clock >= self.alone_until {
                self.prefetch_turn(cpu, stop);
                return;
            }
            self.in_time(cpu);
            match stop {
                Stop::Miss => self.miss(cpu),
                Stop::Marker => self.marker(cpu),
                Stop::SliceEnd => self.give_up(cpu, None),
                Stop::Limit => {}
            }
            if self.unfinished < least {
                return self.take_all_back(cpu);
            }
        }
        self.dispatch(cpu);
    }

    fn hits(&mut self, cpu: usize) -> Stop {
        let limit = match self.exact {
            true => u64::MAX,
            false => self.alone_until.saturating_add(self.options.run_ahead_cycles),
        };
        let state = &mut self.cpus[cpu];
        let Some(task) = state.task else { return Stop::Limit };
        let kernel = std::mem::take(&mut state.kernel);
        let run = hits::Run {
            records: match state.in_kernel {
                true => &kernel,
                false => &self.workload.tasks[task as usize].records,
            },
            colours: &self.colours,
            silent: &self.table.silent,
            limit,
            geometry: self.geometry,
            number: cpu as u32,
            rank: self.options.rank,
        };
        let counts = &mut self.counts.references[usize::from(state.in_kernel)];
        let (cache, observer) = (&mut self.caches[cpu], &mut *self.observer);
        let stop = match self.exact {
            true => hits::hits(&run, state, cache, &mut self.ahead[cpu], counts, observer),
            false => hits::hits(&run, state, cache, &mut (), counts, observer),
        };
        state.kernel = kernel;
        self.filters[cpu] = self.ahead[cpu].filter();
        stop
    }

    /// The records that a processor is executing.
    fn records(&self, cpu: usize) -> &[Record] {
        let state = &self.cpus[cpu];
        if state.in_kernel {
            return &state.kernel;
        }
        let task = state.task.expect("only a processor with a task has records");
        &self.workload.tasks[task as usize].records
    }

    fn record(&self, cpu: usize) -> Record {
        self.records(cpu)[self.cpus[cpu].position]
    }

    /// Handles a marker: a system call, its end, a lock, the end of the task.
    fn marker(&mut self, cpu: usize) {
        let record = self.record(cpu);
        let now = self.cpus[cpu].clock;
        let state = &mut self.cpus[cpu];
        if state.in_kernel {
            state.in_kernel = false;
            state.position = state.user_position;
            if state.blocks_after {
                self.give_up(cpu, Some(now + self.machine.scheduler.blocked_cycles));
            }
            return;
        }
        match record.as_marker() {
            Marker::End => {
                state.task = None;
                self.unfinished -= 1;
            }
            Marker::SystemCall(number) => self.system_call(cpu, number, record.moved()),
            Marker::Synchronise(lock) => {
                state.position += 1;
                let task = state.task.expect("a marker is a task's");
                let held = self.machine.scheduler.lock_held_cycles;
                let last = self.locks.insert(lock, (task, now));
                if last.is_some_and(|(other, at)| other != task && now < at + held) {
                    self.give_up(cpu, None);
                }
            }
        }
    }

    fn system_call(&mut self, cpu: usize, number: u32, moved_bytes: u64) {
        self.counts.system_calls += 1;
        let blocks = match self.machine.scheduler.blocking {
            Blocking::Never => false,
            Blocking::Waiting => WAITING.contains(&number),
            Blocking::Always => true,
        };
        let state = &mut self.cpus[cpu];
        let task = state.task.expect("a marker is a task's");
        state.position += 1;
        state.blocks_after = blocks;
        if let Some(stream) = &self.stream {
            let generator = &mut self.generators[task as usize];
            stream.draw(task, moved_bytes, generator, &mut state.kernel);
            state.user_position = state.position;
            state.position = 0;
            state.in_kernel = true;
        } else if blocks {
            let wake = state.clock + self.machine.scheduler.blocked_cycles;
            self.give_up(cpu, Some(wake));
        }
    }

    /// Takes a task from its processor, to wait until `wake` or to be ready at once.
    fn give_up(&mut self, cpu: usize, wake: Option<u64>) {
        let state = &mut self.cpus[cpu];
        let task = state.task.take().expect("only a processor with a task can give it up");
        self.positions[task as usize] = state.position;
        let slice = self.machine.scheduler.slice_references as i64;
        let served = (slice - state.left).max(0) as u64;
        match wake {
            None => self.scheduler.yields(task, served),
            Some(wake) => self.scheduler.blocks(task, served, wake),
        }
    }

    /// Gives a free processor a task, or lets the processor wait.
    fn dispatch(&mut self, cpu: usize) {
        let now = self.cpus[cpu].clock;
        let taken = self.scheduler.take(cpu as u32, now);
        let state = &mut self.cpus[cpu];
        if let Some(task) = taken {
            state.task = Some(task);
            state.position = self.positions[task as usize];
            state.left = self.machine.scheduler.slice_references as i64;
            self.call_others(cpu);
        } else if let Some(wake) = self.scheduler.next_wake() {
            state.idle += wake - now;
            state.clock = wake;
        } else {
            state.parked = true;
        }
    }

    /// Makes processors without a task check again.
    fn call_others(&mut self, cpu: usize) {
        let now = self.cpus[cpu].clock;
        if !self.scheduler.anyone_ready() {
            return;
        }
        for other in 0..self.cpus.len() {
            let state = &mut self.cpus[other];
            if state.parked {
                state.parked = false;
                state.idle += now.saturating_sub(state.clock);
                state.clock = state.clock.max(now);
                self.order.set(other, Some(state.clock));
            }
        }
    }

    fn outcome(mut self) -> Outcome {
        let end = self.cpus.iter().map(|cpu| cpu.clock).max().unwrap_or(0);
        for cpu in &mut self.cpus {
            cpu.idle += end - cpu.clock;
        }
        self.counts.switches = self.scheduler.switches;
        self.counts.migrations = self.scheduler.migrations;
        let times = self.cpus.iter().map(|cpu| (cpu.delay, cpu.idle));
        let ranking = self.tally.map(|tally| tally.name(self.workload, self.kernel_frames));
        Outcome::new(self.machine, self.seed, end, times, &self.bus, self.counts)
            .with_trace_references(self.workload.references())
            .ranked(ranking)
    }
}

/// Linux system calls (x86-64) that are made in order to wait: poll, select, pause, nanosleep,
/// accept, wait4, semop, futex, semtimedop, clock_nanosleep, epoll_wait, waitid, pselect6, ppoll,
/// epoll_pwait, accept4, epoll_pwait2.
const WAITING: [u32; 17] =
    [7, 23, 34, 35, 43, 61, 65, 202, 220, 230, 232, 247, 270, 271, 281, 288, 441];

impl Cpu {
    fn new() -> Self {
        Self {
            clock: 0,
            started: 0,
            task: None,
            position: 0,
            kernel: Vec::new(),
            user_position: 0,
            in_kernel: false,
            blocks_after: false,
            left: 0,
            last_fetch: Record(0),
            write_buffer: VecDeque::new(),
            delay: 0,
            idle: 0,
            parked: false,
        }
    }
}

/// Where frames lie in memory.
fn places(frames: usize, placement: Placement, seed: u64) -> Vec<u32> {
    let mut generator = Generator::new(seed);
    let place = |frame: usize| match placement {
        Placement::Random => generator.next_u64() as u32,
        Placement::InOrder => frame as u32,
    };
    (0..frames).map(place).collect()
}
