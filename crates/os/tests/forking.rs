//! Copies of a process, and locks whose holders are killed. Without the usual harness: that runs
//! tests in threads, and a process with threads cannot be copied.

use std::cell::Cell;
use std::fs::File;
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use os::descriptors::{self, Sweeper, Table};
use os::files::{FileStatus, Root, Symlinks};
use os::fork::{Child, Descriptors, Ended, STATUS_OF_PANIC, fork, is_single_threaded, next_ended};
use os::robust_lock::Owners;
use os::shared_memory::{create_cells, map_cells};
use os::signals::{Signal, SignalDescriptor};
use os::socket::{Readiness, wait_ready};

testkit::one_by_one![
    a_copy_ends_with_the_status_of_its_work,
    a_process_with_threads_is_not_copied,
    descriptors_are_shared_or_not,
    copies_are_more_expendable_than_who_made_them,
    copies_are_told_by_signals_and_tell_their_end,
    a_copy_may_have_threads,
    killed_holders_are_noticed_by_who_waits,
    killed_holders_are_buried,
    what_is_lent_is_copied_until_the_loan_ends,
    what_was_noted_meanwhile_is_its_owners,
    what_dead_processes_had_is_closed_and_nothing_else,
];

const BOTH: [Descriptors; 2] = [Descriptors::Private, Descriptors::Shared];

fn memory(cells: usize) -> &'static [AtomicU64] {
    map_cells(create_cells(cells).unwrap().as_fd()).unwrap()
}

fn a_copy_ends_with_the_status_of_its_work() {
    assert!(is_single_threaded().unwrap());
    for descriptors in BOTH {
        let shared = memory(1);
        let mut child = fork(descriptors, || {
            shared[0].store(std::process::id().into(), Ordering::Relaxed);
            7
        })
        .unwrap();
        assert_eq!(child.wait().unwrap(), Ended::Exit(7));
        assert_eq!(child.try_wait().unwrap(), Some(Ended::Exit(7)), "known from then on");
        assert_eq!(shared[0].load(Ordering::Relaxed), u64::from(child.id()));

        let mut panicking = fork(descriptors, || panic!("(this message is expected)")).unwrap();
        assert_eq!(panicking.wait().unwrap(), Ended::Exit(STATUS_OF_PANIC));

        let mut sleeping = fork(descriptors, sleep).unwrap();
        assert_eq!(sleeping.try_wait().unwrap(), None);
        sleeping.kill();
        assert_eq!(sleeping.wait().unwrap(), Ended::Signal(9));
    }
}

fn sleep() -> i32 {
    std::thread::sleep(Duration::from_secs(60));
    0
}

fn a_process_with_threads_is_not_copied() {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || ended.recv());
    assert!(fork(Descriptors::Private, || 0).is_err());
    drop(end);
    let _ = thread.join().unwrap();
    // The kernel lists a thread for a moment after it has been joined.
    while !is_single_threaded().unwrap() {
        std::thread::yield_now();
    }
}

/// Whether a descriptor that a copy opens is open here, too.
fn descriptors_are_shared_or_not() {
    for descriptors in BOTH {
        let shared = memory(1);
        let mut child = fork(descriptors, || {
            let file = File::open("/proc/self/exe").unwrap();
            shared[0].store(file.as_raw_fd() as u64, Ordering::Relaxed);
            std::mem::forget(file);
            0
        })
        .unwrap();
        assert_eq!(child.wait().unwrap(), Ended::Exit(0));
        let path = format!("/proc/self/fd/{}", shared[0].load(Ordering::Relaxed));
        let is_here = std::fs::read_link(path).is_ok();
        assert_eq!(is_here, descriptors == Descriptors::Shared);
    }
}

/// When memory runs out the copy is to be ended first, and its copy before it.
fn copies_are_more_expendable_than_who_made_them() {
    let own = |offset: i64| {
        let text = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap();
        text.trim().parse::<i64>().unwrap() + offset
    };
    let before = own(0);
    assert!(before < 900, "this test itself is the first to be ended: {before}");
    let mut child = fork(Descriptors::Private, || {
        let here = own(0);
        let deeper = fork(Descriptors::Private, || i32::from(own(0) > here)).unwrap().wait();
        i32::from(here > before) + i32::from(deeper.unwrap() == Ended::Exit(1))
    })
    .unwrap();
    assert_eq!(child.wait().unwrap(), Ended::Exit(2));
    assert_eq!(own(0), before);
}

fn copies_are_told_by_signals_and_tell_their_end() {
    // Blocked in the copies, too: a signal that comes before they look waits for them.
    let signals = SignalDescriptor::new(&[Signal::User1, Signal::Child]).unwrap();
    assert_eq!(next_ended().unwrap(), None, "there is none");
    let work = || {
        let told = SignalDescriptor::new(&[Signal::User1]).unwrap();
        assert!(wait_ready(told.as_fd(), Readiness::Readable, 20_000).unwrap());
        i32::from(told.read() == Some(Signal::User1)) * 3
    };
    let mut child = fork(Descriptors::Private, work).unwrap();
    assert_eq!(next_ended().unwrap(), None, "it has not ended");
    child.signal(Signal::User1);
    assert!(wait_ready(signals.as_fd(), Readiness::Readable, 20_000).unwrap());
    assert_eq!(signals.read(), Some(Signal::Child), "the other signal was for the copy only");
    for _ in 0..2 {
        assert_eq!(next_ended().unwrap(), Some(child.id()), "until it is waited for");
    }
    assert_eq!(child.try_wait().unwrap(), Some(Ended::Exit(3)));
    assert_eq!(next_ended().unwrap(), None);
    child.signal(Signal::User1); // nobody: its number may be another's
}

fn a_copy_may_have_threads() {
    for descriptors in BOTH {
        let work = || std::thread::spawn(|| 5).join().unwrap();
        assert_eq!(fork(descriptors, work).unwrap().wait().unwrap(), Ended::Exit(5));
    }
}

const SEATS: usize = 3;

/// Two numbers under a lock that are equal except in the middle of a change, and how often they
/// were found different by who had been told (the first) and had not (the second).
struct Ledger {
    owners: Owners,
    cells: &'static [AtomicU64],
}

impl Ledger {
    fn new() -> Self {
        Self { owners: Owners::new(memory(Owners::cells(SEATS))), cells: memory(6) }
    }

    fn lock(&self) -> &'static AtomicU64 {
        &self.cells[0]
    }

    fn get(&self, cell: usize) -> u64 {
        self.cells[cell].load(Ordering::Relaxed)
    }

    /// Changes the numbers again and again, for ever.
    fn work(&self, seat: usize, number: u32) -> i32 {
        let owner = self.owners.enter(seat, number).unwrap();
        loop {
            let held = owner.lock(self.lock());
            let (one, other) = (self.get(1), self.get(2));
            if one != other {
                let cell = if held.is_inherited() { 3 } else { 4 };
                self.cells[cell].fetch_add(1, Ordering::Relaxed);
            }
            self.cells[5].fetch_add(u64::from(held.is_inherited()), Ordering::Relaxed);
            let next = one.max(other) + 1;
            self.cells[1].store(next, Ordering::Relaxed);
            for _ in 0..next % 512 {
                std::hint::spin_loop(); // long enough to be killed here often
            }
            self.cells[2].store(next, Ordering::Relaxed);
        }
    }

    /// Kills one after the other, and has another take its place.
    fn rounds(&self, descriptors: Descriptors, rounds: u32, bury: bool) {
        let start =
            |seat: usize, number: u32| fork(descriptors, || self.work(seat, number)).unwrap();
        let mut children: Vec<Child> =
            (0..SEATS).map(|seat| start(seat, seat as u32 + 1)).collect();
        for round in 0..rounds {
            let seat = round as usize % SEATS;
            let before = self.get(2);
            std::thread::sleep(Duration::from_micros(200 + u64::from(round * 37 % 700)));
            children[seat].kill();
            if !bury {
                // Nobody waits for it and nobody is told: the others notice by themselves.
                let after = self.get(2);
                while self.get(2) < after + 100 {
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
            assert!(matches!(children[seat].wait().unwrap(), Ended::Signal(9)));
            self.owners.release_dead(seat, std::iter::once(self.lock()));
            assert!(self.get(2) >= before);
            children[seat] = start(seat, SEATS as u32 + 1 + round);
        }
        for child in &mut children {
            child.kill();
            child.wait().unwrap();
        }
    }

    fn check(&self, rounds: u32) {
        let (told, untold, inherited) = (self.get(3), self.get(4), self.get(5));
        println!(
            "{rounds} killed, {inherited} of them as holders, {told} in the middle of a change"
        );
        assert_eq!(untold, 0, "torn data without a word");
        assert!(inherited > 0, "nobody was killed while it held the lock");
    }
}

fn killed_holders_are_noticed_by_who_waits() {
    for descriptors in BOTH {
        let ledger = Ledger::new();
        ledger.rounds(descriptors, 40, false);
        ledger.check(40);
    }
}

fn killed_holders_are_buried() {
    for descriptors in BOTH {
        let ledger = Ledger::new();
        ledger.rounds(descriptors, 300, true);
        ledger.check(300);
    }
}

fn what_is_lent_is_copied_until_the_loan_ends() {
    let (table, mut sweeper) = Table::create(1).unwrap();
    let before = os::limits::open_descriptors();
    let file = File::open("/proc/self/exe").unwrap();
    let number = Cell::new(0);
    let loan = table.loan();
    table.lend(file.as_fd(), loan, |it| number.set(it)).unwrap();
    drop(file);
    sweeper.sweep(&[]).unwrap(); // it is open though nobody has it
    let inode = |file: &OwnedFd| FileStatus::of(file.as_fd()).unwrap().inode;
    let exe = OwnedFd::from(File::open("/proc/self/exe").unwrap());
    let copy = table.borrow(number.get(), loan).unwrap();
    assert_eq!(inode(&copy), inode(&exe));
    assert!(table.borrow(number.get(), table.loan()).is_none(), "by another loan");
    assert!(table.end_loan(number.get(), table.loan()).is_none(), "nor is that this one's end");
    assert!(table.borrow(number.get(), loan).is_some());
    assert!(table.end_loan(number.get(), loan).is_some());
    assert!(table.borrow(number.get(), loan).is_none());
    let another = OwnedFd::from(File::open("/").unwrap());
    assert_eq!(another.as_raw_fd().cast_unsigned(), number.get(), "the number is free again");
    assert!(table.end_loan(number.get(), loan).is_none(), "it has ended");
    assert!(FileStatus::of(another.as_fd()).is_ok());
    drop((another, copy, exe));
    assert_eq!(os::limits::open_descriptors(), before);
}

const KILLS: u32 = 300;

/// Twice the note of a file says that it is nobody's, but in between it was a process's, which is
/// about to close it.
fn what_was_noted_meanwhile_is_its_owners() {
    let is_open = |file: &OwnedFd| FileStatus::of(file.as_fd()).is_ok();
    let (table, mut sweeper) = Table::create(1).unwrap();
    table.expect(0); // from here on this plays both parts
    let file = OwnedFd::from(File::open("/").unwrap());
    descriptors::forget(file.as_fd());
    let living = [(0, 1)];
    assert_eq!(sweeper.sweep(&living).unwrap().closed, 0, "it is being opened");
    table.enter(0, 1);
    descriptors::note(file.as_fd());
    descriptors::at_rest(|| ());
    descriptors::forget(file.as_fd());
    assert_eq!(sweeper.sweep(&living).unwrap().closed, 0, "it is being closed");
    assert!(is_open(&file));
    // The process has died: it never comes to that.
    assert!(sweeper.sweep(&[]).unwrap().closed > 0);
    assert!(!is_open(&file));
    std::mem::forget(file);
}

/// One that opens and closes things all the time, and looks whether what it has is still its own.
struct Opener<'o> {
    listener: &'o TcpListener,
    root: &'o Root,
    inode: u64,
    wrong: &'o AtomicU64,
    rounds: &'o AtomicU64,
    sockets: Vec<OwnedFd>,
    files: Vec<OwnedFd>,
    random: u64,
}

impl Opener<'_> {
    fn work(mut self) -> i32 {
        loop {
            let pause = Duration::from_micros(self.next() % 100);
            descriptors::at_rest(|| std::thread::sleep(pause));
            for _ in 0..self.next() % 50 {
                self.step();
            }
            self.rounds.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.random >> 33
    }

    fn step(&mut self) {
        match self.next() % 5 {
            0 if self.sockets.len() < 40 => {
                self.sockets.push(descriptors::duplicate(self.listener.as_fd()).unwrap());
            }
            1 if self.files.len() < 40 => {
                self.files.push(self.root.open(b"", Symlinks::Never).unwrap());
            }
            2 => {
                // A library does so without a note.
                let _transient = File::open("/proc/self/stat");
                self.dawdle();
            }
            3 => {
                let Some(socket) = self.sockets.pop() else { return };
                let own = self.listener.local_addr().ok();
                let is_own = os::socket::local_addr(socket.as_fd()).ok() == own;
                self.wrong.fetch_add((!is_own).into(), Ordering::Relaxed);
                descriptors::close_socket(socket);
            }
            _ => {
                let Some(file) = self.files.pop() else { return };
                let is_own = FileStatus::of(file.as_fd()).is_ok_and(|it| it.inode == self.inode);
                self.wrong.fetch_add((!is_own).into(), Ordering::Relaxed);
                descriptors::forget(file.as_fd());
                self.dawdle();
            }
        }
    }

    /// Sometimes, for long enough for others to look at what is in the middle of a change.
    fn dawdle(&mut self) {
        if self.next().is_multiple_of(16) {
            std::thread::sleep(Duration::from_micros(self.next() % 200));
        }
    }
}

/// Processes with one table are killed at any instruction, and what they had is closed while the
/// others go on opening and closing.
fn what_dead_processes_had_is_closed_and_nothing_else() {
    let directories = [(); SEATS].map(|()| testkit::Temporary::new());
    let roots = directories.each_ref().map(|it| Root::new(it.path()).unwrap());
    let listeners = [(); SEATS].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let told = memory(2);
    let (table, mut sweeper) = Table::create(SEATS).unwrap();
    let before = os::limits::open_descriptors();
    let start = |seat: usize, number: u32| {
        table.expect(seat);
        let child = fork(Descriptors::Shared, || {
            table.enter(seat, number);
            let opener = Opener {
                listener: &listeners[seat],
                root: &roots[seat],
                inode: FileStatus::of(roots[seat].as_fd()).unwrap().inode,
                wrong: &told[0],
                rounds: &told[1],
                sockets: Vec::new(),
                files: Vec::new(),
                random: number.into(),
            };
            opener.work()
        });
        (child.unwrap(), number)
    };
    let mut children: Vec<(Child, u32)> = (0..SEATS).map(|at| start(at, at as u32 + 1)).collect();
    let (mut closed, mut most) = (0, 0);
    for round in 0..KILLS {
        std::thread::sleep(Duration::from_micros(u64::from(
            round.wrapping_mul(2_654_435_761) % 9_000,
        )));
        let seat = round as usize % SEATS;
        let (child, number) = &mut children[seat];
        child.kill();
        assert_eq!(child.wait().unwrap(), Ended::Signal(9), "it ended before it was killed");
        let number = *number + SEATS as u32;
        let others = || (0..SEATS).filter(|at| *at != seat);
        let living: Vec<_> = others().map(|at| (at, children[at].1)).collect();
        closed += sweep(&mut sweeper, &living);
        most = most.max(os::limits::open_descriptors());
        children[seat] = start(seat, number);
    }
    for (child, _) in &mut children {
        child.kill();
        child.wait().unwrap();
    }
    assert_eq!(told[0].load(Ordering::Relaxed), 0, "something of a living process was closed");
    closed += sweep(&mut sweeper, &[]);
    assert_eq!(os::limits::open_descriptors(), before, "something of a dead process is open");
    let rounds = told[1].load(Ordering::Relaxed);
    println!("{closed} descriptors of dead processes closed, {most} open at most, {rounds} rounds");
    assert!(closed > 1000 && rounds > 1000, "too little happened");
}

/// Sweeps until nothing is left. What living ones have just opened counts as left for a moment.
fn sweep(sweeper: &mut Sweeper, living: &[(usize, u32)]) -> usize {
    let mut closed = 0;
    for _ in 0..10_000 {
        let swept = sweeper.sweep(living).unwrap();
        closed += swept.closed;
        if swept.left == 0 {
            return closed;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    panic!("it comes to no end");
}
