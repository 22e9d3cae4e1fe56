//! Tags alone; and the table as processes use it together, in all orders in which they can take
//! their steps, and killed after each of them: with the real steps of `os::descriptors` below, and
//! the machine of that crate's own models.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use loom::sync::atomic::AtomicU64;
use loom::sync::{Mutex, MutexGuard};
use loom::thread;
use os::descriptors::Loan;
use os::descriptors::protocol::{Book, Kernel, Notes, Sweeper};

use self::model::{MANAGER, Memory, NUMBERS, Process, check, killed_after_each_step, sweep};
use super::*;

#[path = "../../../../os/tests/descriptors/model.rs"]
mod model;

#[test]
fn a_tag_says_what_was_put_into_it() {
    let largest = Tag { loan: (1 << 40) - 1, first: SLOTS_MAX - 1, count: FILES_MAX };
    for tag in [Tag { loan: 1, first: 0, count: 1 }, largest] {
        assert_eq!(Tag::of(tag.number()), tag);
        assert_ne!(tag.number(), 0, "that would say that nothing is lent");
    }
}

#[test]
fn slots_are_divided_among_shards() {
    assert_eq!(OpenFileTable::slots_per_shard(8, 100), 12);
    assert_eq!(OpenFileTable::slots_per_shard(8, 7), 0);
    assert_eq!(OpenFileTable::slots_per_shard(4, usize::MAX), SLOTS_MAX / 4);
}

/// A process that lends and borrows: [`Table`] with the model below.
#[derive(Clone)]
struct Borrower {
    process: Process,
    book: Book<Memory>,
    notes: Notes<Memory>,
}

/// An open file of a process, closed by itself.
struct Copy<'b>(&'b Borrower, RawFd);

/// What was lent, closed by itself as well.
struct Ended<'b>(&'b Borrower, RawFd);

impl<'b> Lender for &'b Borrower {
    type File = Copy<'b>;
    type Ended = Ended<'b>;

    fn loan(&self) -> Loan {
        self.notes.loan()
    }

    fn lend(&self, file: &Copy<'b>, loan: Loan, told: impl Fn(u32)) -> io::Result<()> {
        self.book.lend(&self.process, file.1, loan, |number| {
            told(number);
            self.process.give_away(number.cast_signed());
        })
    }

    fn borrow(&self, number: u32, loan: Loan) -> Option<Copy<'b>> {
        self.book.borrow(&self.process, number, loan).map(|number| Copy(self, number))
    }

    fn end_loan(&self, number: u32, loan: Loan) -> Option<Ended<'b>> {
        self.book.end_loan(number, loan).then(|| Ended(self, number.cast_signed()))
    }
}

impl Drop for Copy<'_> {
    fn drop(&mut self) {
        self.0.book.forget(self.1);
        self.0.process.close(self.1);
    }
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.process.close(self.1);
    }
}

/// Slots of the only shard: two files fit, three do not.
const SLOTS: usize = 2;

/// What the shard's lock guards, but for the slots.
#[derive(Default)]
struct Shard {
    /// Its last holder has died.
    is_broken: bool,
    /// Entries: a tag, and which open file is meant.
    entries: Vec<(u64, usize)>,
}

/// What all processes share.
struct Stage {
    notes: Arc<Vec<AtomicU64>>,
    slots: Arc<Vec<AtomicU64>>,
    shard: Mutex<Shard>,
    workers: Vec<Process>,
}

impl Stage {
    fn new(steps: &[usize]) -> (Arc<Self>, Sweeper<Memory, Process>) {
        let mut workers = model::processes(steps);
        let notes = model::cells(Notes::<Memory>::cells(steps.len(), NUMBERS));
        let manager = workers.remove(MANAGER as usize);
        (0..steps.len())
            .for_each(|seat| Notes::new(manager.memory(&notes), steps.len()).expect(seat));
        let sweeper = Sweeper::new(manager.book(&notes), manager);
        let slots = model::cells(OpenFileTable::cells(1, SLOTS));
        let shard = Mutex::new(Shard::default());
        (Arc::new(Self { notes, slots, shard, workers }), sweeper)
    }

    fn worker(&self, index: usize) -> Borrower {
        let process = self.workers[index].clone();
        let book = process.book(&self.notes);
        let notes = Notes::new(process.memory(&self.notes), self.workers.len());
        Borrower { process, book, notes }
    }

    fn table<'b>(&self, borrower: &'b Borrower) -> OpenFileTable<Memory, &'b Borrower> {
        OpenFileTable::new(borrower, borrower.process.memory(&self.slots), SLOTS)
    }

    /// Takes the shard's lock, as the shared cache does: after a death nothing in it holds. The
    /// dead take none.
    fn lock(&self, borrower: &Borrower) -> Option<MutexGuard<'_, Shard>> {
        let mut shard = self.shard.lock().unwrap();
        if borrower.process.is_dead() {
            return None;
        }
        if std::mem::replace(&mut shard.is_broken, true) {
            self.table(borrower).empty(0, &mut Vec::new());
            shard.entries.clear();
        }
        Some(shard)
    }

    /// Releases it, if the process has lived until now.
    fn unlock(borrower: &Borrower, mut shard: MutexGuard<'_, Shard>) {
        shard.is_broken = borrower.process.is_dead();
    }

    /// Opens a file and puts it into the cache.
    fn insert(&self, borrower: &Borrower) {
        let Ok(number) = borrower.process.open(false) else { return };
        borrower.book.note(number);
        let file = Copy(borrower, number);
        let which = borrower.process.machine.look(number).map(|open| open.file);
        let Some(mut shard) = self.lock(borrower) else { return };
        let mut ended = Vec::new();
        let tag = self.table(borrower).lend(0, std::slice::from_ref(&file), &mut ended);
        if let (false, Some(which)) = (borrower.process.is_dead() || tag == 0, which) {
            shard.entries.push((tag, which));
        }
        Self::unlock(borrower, shard);
    }

    /// Takes copies of the files of all entries: they are what was put in, or there are none.
    fn find(&self, borrower: &Borrower) {
        let Some(shard) = self.lock(borrower) else { return };
        let mut files = Vec::new();
        for &(tag, which) in &shard.entries {
            self.table(borrower).copy(tag, &mut files);
            let found = files.pop().and_then(|file| borrower.process.machine.look(file.1));
            assert!(found.is_none_or(|found| found.file == which), "another file");
        }
        Self::unlock(borrower, shard);
    }

    /// The oldest entry leaves.
    fn remove(&self, borrower: &Borrower) {
        let Some(mut shard) = self.lock(borrower) else { return };
        let mut ended = Vec::new();
        if !shard.entries.is_empty() {
            let (tag, _) = shard.entries.remove(0);
            self.table(borrower).take_back(tag, &mut ended);
        }
        Self::unlock(borrower, shard); // before it is closed
    }

    /// Nobody is left but one who empties the cache: then nothing is open.
    fn end(&self, borrower: &Borrower, sweeper: &mut Sweeper<Memory, Process>) {
        self.shard.lock().unwrap().is_broken = true;
        self.lock(borrower).into_iter().for_each(|shard| Self::unlock(borrower, shard));
        borrower.book.at_rest(|| assert_eq!(sweep(sweeper, &self.workers), 0));
        let machine = &borrower.process.machine;
        let open: Vec<_> = machine.open_numbers().iter().map(|&it| machine.look(it)).collect();
        assert!(open.is_empty(), "{open:?}");
    }
}

type Work = fn(&Stage, &Borrower);

/// One dies over its work, another works beside it, and it is swept.
fn one_dies_one_works(dies_over: Work, works: Work, preemptions: usize) {
    let steps = killed_after_each_step(preemptions, move |steps| {
        let (stage, mut sweeper) = Stage::new(&[steps, usize::MAX]);
        let (dying, worker) = (stage.worker(0), stage.worker(1));
        [&dying, &worker].iter().for_each(|it| it.book.at_rest(|| ()));
        let dying = {
            let stage = Arc::clone(&stage);
            thread::spawn(move || {
                dies_over(&stage, &dying);
                dying.process.is_dead()
            })
        };
        let working = {
            let stage = Arc::clone(&stage);
            thread::spawn(move || {
                works(&stage, &worker);
                worker
            })
        };
        sweep(&mut sweeper, &stage.workers);
        let (was_killed, worker) = (dying.join().unwrap(), working.join().unwrap());
        if was_killed {
            stage.end(&worker, &mut sweeper);
        }
        was_killed
    });
    println!("{steps} steps");
}

#[test]
fn one_dies_over_lending() {
    one_dies_one_works(Stage::insert, Stage::insert, 1);
    one_dies_one_works(Stage::insert, Stage::find, 1);
}

#[test]
fn one_dies_over_taking_back() {
    fn insert_and_remove(stage: &Stage, borrower: &Borrower) {
        stage.insert(borrower);
        stage.remove(borrower);
    }
    one_dies_one_works(insert_and_remove, Stage::insert, 1);
}

#[test]
fn one_dies_over_a_copy() {
    fn insert_and_find(stage: &Stage, borrower: &Borrower) {
        stage.insert(borrower);
        stage.find(borrower);
    }
    one_dies_one_works(insert_and_find, Stage::remove, 1);
}

/// One dies, and who finds what it has left dies over that.
#[test]
fn one_dies_after_the_other() {
    for first in 0.. {
        let killed = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&killed);
        killed_after_each_step(0, move |second| {
            let (stage, mut sweeper) = Stage::new(&[first, second, usize::MAX]);
            let [one, other, worker] = [0, 1, 2].map(|index| stage.worker(index));
            [&one, &other, &worker].iter().for_each(|it| it.book.at_rest(|| ()));
            for borrower in [&one, &other] {
                stage.insert(borrower);
                stage.remove(borrower);
            }
            sweep(&mut sweeper, &stage.workers);
            stage.insert(&worker);
            let are_killed = [one, other].map(|it| it.process.is_dead());
            told.fetch_or(are_killed[0], Ordering::Relaxed);
            if are_killed == [true; 2] {
                stage.end(&worker, &mut sweeper);
            }
            are_killed[1]
        });
        if !killed.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// The files of an entry have left for those of newer ones, and then the entry leaves.
#[test]
fn an_entry_takes_no_others_files_with_it() {
    check(0, || {
        let (stage, _sweeper) = Stage::new(&[usize::MAX]);
        let worker = stage.worker(0);
        worker.book.at_rest(|| ());
        (0..=SLOTS).for_each(|_| stage.insert(&worker));
        stage.remove(&worker);
        let shard = stage.lock(&worker).unwrap();
        let mut files = Vec::new();
        shard.entries.iter().for_each(|(tag, _)| stage.table(&worker).copy(*tag, &mut files));
        assert_eq!(files.len(), SLOTS);
    });
}

/// More than there are slots: the newest take the places of the oldest.
#[test]
fn whoever_finds_gets_what_was_put_in() {
    check(2, || {
        let (stage, mut sweeper) = Stage::new(&[usize::MAX; 2]);
        let (one, other) = (stage.worker(0), stage.worker(1));
        [&one, &other].iter().for_each(|it| it.book.at_rest(|| ()));
        let working = {
            let stage = Arc::clone(&stage);
            thread::spawn(move || {
                (0..SLOTS).for_each(|_| stage.insert(&one));
                one
            })
        };
        stage.insert(&other);
        stage.find(&other);
        let one = working.join().unwrap();
        stage.find(&other);
        one.book.at_rest(|| stage.end(&other, &mut sweeper));
    });
}
