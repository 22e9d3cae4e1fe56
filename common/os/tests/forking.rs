//! Copies of a process, and locks whose holders are killed. Without the usual harness: that runs
//! tests in threads, and a process with threads cannot be copied.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use os::fork::{Child, Ended, STATUS_OF_PANIC, fork, next_ended};
use os::programs::{self, Group, Program};
use os::robust_lock::Owners;
use os::shared_memory::{create_cells, map_cells};
use os::signals::{Signal, SignalDescriptor};
use os::socket::{Readiness, wait_ready};
use rustix::thread::{UnshareFlags, unshare_unsafe};

testkit::one_by_one![
    a_copy_ends_with_the_status_of_its_work,
    a_process_with_threads_is_not_copied,
    a_thread_that_was_joined_is_in_the_way_of_no_copy,
    copies_are_more_expendable_than_their_parents,
    copies_are_told_by_signals_and_tell_their_end,
    a_copy_may_have_threads,
    killed_holders_are_noticed_by_waiters,
    killed_holders_are_buried,
    a_group_is_a_program_and_what_it_leaves,
    what_is_no_program_is_not_started,
];

fn memory(cells: usize) -> &'static [AtomicU64] {
    map_cells(create_cells(cells).unwrap().as_fd()).unwrap().leak()
}

fn a_copy_ends_with_the_status_of_its_work() {
    let shared = memory(1);
    let mut child = fork(|| {
        shared[0].store(std::process::id().into(), Ordering::Relaxed);
        7
    })
    .unwrap();
    assert_eq!(child.wait().unwrap(), Ended::Exit(7));
    assert_eq!(child.try_wait().unwrap(), Some(Ended::Exit(7)), "known from then on");
    assert_eq!(shared[0].load(Ordering::Relaxed), u64::from(child.id()));

    let mut panicking = fork(|| panic!("(this message is expected)")).unwrap();
    assert_eq!(panicking.wait().unwrap(), Ended::Exit(STATUS_OF_PANIC));

    let mut sleeping = fork(sleep).unwrap();
    assert_eq!(sleeping.try_wait().unwrap(), None);
    sleeping.kill();
    assert_eq!(sleeping.wait().unwrap(), Ended::Signal(9));
}

fn sleep() -> i32 {
    std::thread::sleep(Duration::from_secs(60));
    0
}

fn a_process_with_threads_is_not_copied() {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || ended.recv());
    assert!(fork(|| 0).is_err());
    drop(end);
    let _ = thread.join().unwrap();
}

/// The kernel lists a thread for a moment after it has been joined, and longer where it has much
/// to close.
fn a_thread_that_was_joined_is_in_the_way_of_no_copy() {
    let end_slowly = || {
        // SAFETY: what this thread opens, no other knows.
        unsafe { unshare_unsafe(UnshareFlags::FILES) }.unwrap();
        let null = File::open("/dev/null").unwrap();
        (0..1000).for_each(|_| std::mem::forget(null.try_clone().unwrap()));
    };
    for round in 0..20 {
        std::thread::spawn(end_slowly).join().unwrap();
        let mut child = fork(|| 0).unwrap_or_else(|why| panic!("{round}: {why}"));
        assert_eq!(child.wait().unwrap(), Ended::Exit(0));
    }
}

/// When memory runs out a copy is to be ended before its parent, and its own copy before it.
fn copies_are_more_expendable_than_their_parents() {
    let own = |offset: i64| {
        let text = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap();
        text.trim().parse::<i64>().unwrap() + offset
    };
    let before = own(0);
    assert!(before < 900, "this test itself is the first to be ended: {before}");
    let mut child = fork(|| {
        let here = own(0);
        let deeper = fork(|| i32::from(own(0) > here)).unwrap().wait();
        i32::from(here > before) + i32::from(deeper.unwrap() == Ended::Exit(1))
    })
    .unwrap();
    assert_eq!(child.wait().unwrap(), Ended::Exit(2));
    assert_eq!(own(0), before);
}

fn copies_are_told_by_signals_and_tell_their_end() {
    // Blocked in the copies, too: a signal that arrives before they read signals waits for them.
    let signals = SignalDescriptor::new(&[Signal::User1, Signal::Child]).unwrap();
    assert_eq!(next_ended().unwrap(), None, "there is none");
    let work = || {
        let told = SignalDescriptor::new(&[Signal::User1]).unwrap();
        assert!(wait_ready(told.as_fd(), Readiness::Readable, 20_000).unwrap());
        i32::from(told.read() == Some(Signal::User1)) * 3
    };
    let mut child = fork(work).unwrap();
    assert_eq!(next_ended().unwrap(), None, "it has not ended");
    child.signal(Signal::User1);
    assert!(wait_ready(signals.as_fd(), Readiness::Readable, 20_000).unwrap());
    assert_eq!(signals.read(), Some(Signal::Child), "the other signal was for the copy only");
    for _ in 0..2 {
        assert_eq!(next_ended().unwrap(), Some(child.id()), "until it is waited for");
    }
    assert_eq!(child.try_wait().unwrap(), Some(Ended::Exit(3)));
    assert_eq!(next_ended().unwrap(), None);
    child.signal(Signal::User1); // has no effect: its number may be another's
}

fn a_copy_may_have_threads() {
    let work = || std::thread::spawn(|| 5).join().unwrap();
    assert_eq!(fork(work).unwrap().wait().unwrap(), Ended::Exit(5));
}

const SLOTS: usize = 3;

/// Two numbers under a lock that are equal except in the middle of a change, and how often they
/// were found different by holders that had been told so (the first) and had not (the second).
struct Ledger {
    owners: Owners,
    cells: &'static [AtomicU64],
}

impl Ledger {
    fn new() -> Self {
        Self { owners: Owners::new(memory(Owners::cells(SLOTS))), cells: memory(6) }
    }

    fn lock(&self) -> &'static AtomicU64 {
        &self.cells[0]
    }

    fn get(&self, cell: usize) -> u64 {
        self.cells[cell].load(Ordering::Relaxed)
    }

    /// Changes the numbers again and again, for ever.
    fn work(&self, slot: usize, number: u32) -> i32 {
        let owner = self.owners.enter(slot, number).unwrap();
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

    /// Kills one process after the other, and starts another in its place.
    fn rounds(&self, rounds: u32, bury: bool) {
        let start = |slot: usize, number: u32| fork(|| self.work(slot, number)).unwrap();
        let mut children: Vec<Child> =
            (0..SLOTS).map(|slot| start(slot, slot as u32 + 1)).collect();
        for round in 0..rounds {
            let slot = round as usize % SLOTS;
            let before = self.get(2);
            std::thread::sleep(Duration::from_micros(200 + u64::from(round * 37 % 700)));
            children[slot].kill();
            if !bury {
                // No process waits for it and none is told: the others notice by themselves.
                let after = self.get(2);
                while self.get(2) < after + 100 {
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
            assert!(matches!(children[slot].wait().unwrap(), Ended::Signal(9)));
            self.owners.release_dead(slot, std::iter::once(self.lock()));
            assert!(self.get(2) >= before);
            children[slot] = start(slot, SLOTS as u32 + 1 + round);
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
        assert!(inherited > 0, "no process was killed while it held the lock");
    }
}

fn killed_holders_are_noticed_by_waiters() {
    let ledger = Ledger::new();
    ledger.rounds(40, false);
    ledger.check(40);
}

fn killed_holders_are_buried() {
    let ledger = Ledger::new();
    ledger.rounds(300, true);
    ledger.check(300);
}

/// Starts a program that is found by its path, in the root directory, with one variable.
fn start(path: &CStr, variable: &CStr, output: &impl AsFd) -> io::Result<Group> {
    let nothing = File::open("/dev/null").unwrap();
    programs::start(&Program {
        path,
        directory: c"/",
        environment: &[variable],
        input: nothing.as_fd(),
        output: output.as_fd(),
        errors: output.as_fd(),
    })
}

fn a_group_is_a_program_and_what_it_leaves() {
    programs::adopt_orphans().unwrap();
    let file = testkit::Temporary::new();
    // Its standard error is a pipe, as its output, and not to be mixed with what is told by it.
    let script = "#!/bin/sh\necho \"$PWD $# $LEFT\"\n(exec sleep 60 >/dev/null 2>&1) &\n\
                  grep SigBlk /proc/self/status\nenv | grep -c =\nexit 3\n";
    let path = file.file("program", script);
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = std::ffi::CString::new(path.into_os_string().into_encoded_bytes()).unwrap();
    // What this process has blocked is not blocked in the program.
    let _blocked = SignalDescriptor::new(&[Signal::Terminate]).unwrap();
    let (mut output, theirs) = io::pipe().unwrap();
    let group = start(&path, c"LEFT=alone", &theirs).unwrap();
    drop(theirs);
    let mut told = String::new();
    output.read_to_string(&mut told).unwrap();
    assert_eq!(told, "/ 0 alone\nSigBlk:\t0000000000000000\n2\n", "PWD is the shell's own");
    let mut ended = None;
    assert!(testkit::comes_true(|| {
        ended = ended.or(programs::reap().unwrap());
        ended.is_some()
    }));
    assert_eq!(ended, Some((group.id(), Ended::Exit(3))));
    assert!(group.has_members(), "what it has left runs");
    group.terminate();
    let all_reaped = || programs::reap().unwrap().is_none() && !group.has_members();
    assert!(testkit::comes_true(all_reaped));
    group.kill(); // which has no members any more
}

fn what_is_no_program_is_not_started() {
    let output = File::open("/dev/null").unwrap();
    for (path, kind) in [
        (c"/no/such/program", io::ErrorKind::NotFound),
        (c"/etc/passwd", io::ErrorKind::PermissionDenied),
        (c"/etc", io::ErrorKind::PermissionDenied),
    ] {
        let why = start(path, c"A=1", &output).unwrap_err();
        assert_eq!(why.kind(), kind, "{path:?}");
    }
    assert!(programs::reap().unwrap().is_none(), "nothing is left of them");
}
