//! A machine in which processes with one descriptor table run under a model checker (loom): the
//! steps are those of `os::descriptors`, shared memory and the kernel are the model's. A process
//! may be killed after any of its steps; what it does from then on has no effect. Whoever closes
//! what is not its own fails the test.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicUsize, Ordering as Std};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use os::descriptors::protocol::{Book, Cells, Kernel, Notes, Sweeper};

/// The manager's number; it never dies.
pub(crate) const MANAGER: u32 = 0;

/// Numbers that the table has.
pub(crate) const NUMBERS: usize = 12;

/// What all processes share.
pub(crate) struct Machine {
    table: Mutex<Vec<Option<Open>>>,
    /// Counts calls, so that they happen one after the other and can be interrupted in between.
    calls: AtomicU64,
    files: AtomicUsize,
}

/// What is open under a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    /// Which open file: copies have the same.
    pub(crate) file: usize,
    pub(crate) is_socket: bool,
    /// Who has opened it.
    pub(crate) owner: u32,
    /// Anybody may end that.
    pub(crate) is_lent: bool,
}

/// How long a process lives.
pub(crate) struct Life {
    steps_left: AtomicUsize,
    is_dead: AtomicBool,
}

/// Cells as one process reaches them.
#[derive(Clone)]
pub(crate) struct Memory {
    cells: Arc<Vec<AtomicU64>>,
    life: Arc<Life>,
}

/// One process; also, how it reaches the kernel.
#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) number: u32,
    pub(crate) machine: Arc<Machine>,
    pub(crate) lives: Arc<Vec<Arc<Life>>>,
    /// Has it refuse kcmp.
    pub(crate) is_silent: bool,
}

/// Processes by number: the manager first.
pub(crate) fn processes(steps: &[usize]) -> Vec<Process> {
    let life = |&steps: &usize| {
        Arc::new(Life { steps_left: AtomicUsize::new(steps), is_dead: AtomicBool::new(false) })
    };
    let lives = Arc::new([usize::MAX].iter().chain(steps).map(life).collect::<Vec<_>>());
    let machine = Arc::new(Machine {
        table: Mutex::new(vec![None; NUMBERS]),
        calls: AtomicU64::new(0),
        files: AtomicUsize::new(0),
    });
    let process = |number: usize| Process {
        number: number as u32,
        machine: Arc::clone(&machine),
        lives: Arc::clone(&lives),
        is_silent: false,
    };
    (0..lives.len()).map(process).collect()
}

/// Shared memory.
pub(crate) fn cells(count: usize) -> Arc<Vec<AtomicU64>> {
    Arc::new((0..count).map(|_| AtomicU64::new(0)).collect())
}

impl Life {
    /// Counts a step. Returns whether the process lived to do it.
    fn step(&self) -> bool {
        match self.steps_left.load(Std::Relaxed) {
            usize::MAX => true,
            0 => {
                self.is_dead.store(true, Ordering::Release);
                false
            }
            left => {
                self.steps_left.store(left - 1, Std::Relaxed);
                true
            }
        }
    }
}

impl Machine {
    fn table(&self) -> MutexGuard<'_, Vec<Option<Open>>> {
        self.calls.fetch_add(1, Ordering::AcqRel);
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is open under a number.
    pub(crate) fn look(&self, number: RawFd) -> Option<Open> {
        self.table()[number as usize]
    }

    /// The numbers of what is open.
    pub(crate) fn open_numbers(&self) -> Vec<RawFd> {
        let table = self.table();
        (0..NUMBERS).filter(|&number| table[number].is_some()).map(|it| it as RawFd).collect()
    }
}

impl Process {
    fn life(&self) -> &Arc<Life> {
        &self.lives[self.number as usize]
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.life().is_dead.load(Ordering::Acquire)
    }

    pub(crate) fn memory(&self, cells: &Arc<Vec<AtomicU64>>) -> Memory {
        Memory { cells: Arc::clone(cells), life: Arc::clone(self.life()) }
    }

    /// Its book in that memory; each process has the seat before its number.
    pub(crate) fn book(&self, cells: &Arc<Vec<AtomicU64>>) -> Book<Memory> {
        let notes = Notes::new(self.memory(cells), self.lives.len() - 1);
        match self.number {
            MANAGER => notes.book_of_manager(),
            number => notes.book(number as usize - 1, number),
        }
    }

    /// A new descriptor, the lowest number that is free.
    pub(crate) fn open(&self, is_socket: bool) -> io::Result<RawFd> {
        let file = self.machine.files.fetch_add(1, Std::Relaxed);
        self.put(|_| Some(Open { file, is_socket, owner: self.number, is_lent: false }))
    }

    /// From now on anybody may close it, if it is for the process to say so.
    #[allow(dead_code, reason = "for those who lend")]
    pub(crate) fn give_away(&self, number: RawFd) {
        if let (false, Some(open)) = (self.is_dead(), &mut self.machine.table()[number as usize]) {
            open.is_lent = true;
        }
    }

    fn put(&self, what: impl Fn(&[Option<Open>]) -> Option<Open>) -> io::Result<RawFd> {
        if !self.life().step() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut table = self.machine.table();
        let open = what(&table).ok_or(io::ErrorKind::NotFound)?;
        let free = table.iter().position(Option::is_none).expect("numbers enough");
        table[free] = Some(Open { owner: self.number, is_lent: false, ..open });
        Ok(free as RawFd)
    }
}

impl Kernel for Process {
    const ATTEMPTS: u32 = 2;

    fn duplicate(&self, number: RawFd) -> io::Result<RawFd> {
        self.put(|table| table[number as usize])
    }

    fn close(&self, number: RawFd) {
        if !self.life().step() {
            return;
        }
        let mut table = self.machine.table();
        let open = table[number as usize].take();
        drop(table);
        let open = open.unwrap_or_else(|| panic!("{} closes {number} in vain", self.number));
        let is_dead = || self.lives[open.owner as usize].is_dead.load(Ordering::Acquire);
        assert!(
            open.owner == self.number || open.is_lent || (self.number == MANAGER && is_dead()),
            "{} closes {number}: {open:?}",
            self.number
        );
    }

    fn is_socket(&self, number: RawFd) -> Option<bool> {
        self.machine.look(number).map(|open| open.is_socket)
    }

    fn is_same(&self, one: RawFd, other: RawFd) -> Option<bool> {
        let table = self.machine.table();
        let file = |number: RawFd| table[number as usize].map(|open| open.file);
        (!self.is_silent).then(|| file(one).is_some() && file(one) == file(other))
    }
}

impl Cells for Memory {
    fn count(&self) -> usize {
        self.cells.len()
    }

    fn load(&self, cell: usize) -> u64 {
        if self.life.step() { self.cells[cell].load(Ordering::SeqCst) } else { 0 }
    }

    fn store(&self, cell: usize, value: u64) {
        if self.life.step() {
            self.cells[cell].store(value, Ordering::SeqCst);
        }
    }

    fn add(&self, cell: usize, value: u64) -> u64 {
        if self.life.step() { self.cells[cell].fetch_add(value, Ordering::SeqCst) } else { 0 }
    }

    fn exchange(&self, cell: usize, current: u64, new: u64) -> bool {
        let order = Ordering::SeqCst;
        self.life.step() && self.cells[cell].compare_exchange(current, new, order, order).is_ok()
    }
}

/// Sweeps once; the living are those of the processes that have not died until now.
pub(crate) fn sweep(sweeper: &mut Sweeper<Memory, Process>, workers: &[Process]) -> usize {
    let living: Vec<_> = workers
        .iter()
        .filter(|worker| !worker.is_dead())
        .map(|worker| (worker.number as usize - 1, worker.number))
        .collect();
    let numbers = workers[0].machine.open_numbers();
    sweeper.sweep(&numbers, &living).left
}

/// All orders in which threads are interrupted at most so often.
pub(crate) fn check(preemptions: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(scenario);
}

/// A scenario for each number of steps after which a process is killed, until it is not killed any
/// more. The scenario says whether it was.
pub(crate) fn killed_after_each_step(
    preemptions: usize,
    scenario: impl Fn(usize) -> bool + Clone + Send + Sync + 'static,
) -> usize {
    for steps in 0.. {
        let kills = Arc::new(AtomicUsize::new(0));
        let (counted, scenario) = (Arc::clone(&kills), scenario.clone());
        check(preemptions, move || {
            counted.fetch_add(usize::from(scenario(steps)), Std::Relaxed);
        });
        if kills.load(Std::Relaxed) == 0 {
            return steps;
        }
    }
    unreachable!("nobody takes so many steps")
}
