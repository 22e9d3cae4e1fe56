//! The steps by which descriptors of a common table change owners, in all orders in which processes
//! can take them, and killed after each of them. How real processes fare is in `forking.rs`.

mod model;

use std::sync::Arc;

use loom::sync::atomic::AtomicU64;
use loom::thread;
use os::descriptors::protocol::{Book, Kernel, Notes, Sweeper};

use model::{MANAGER, Memory, NUMBERS, Process, check, killed_after_each_step, processes, sweep};

/// A table with its processes: what a scenario plays with.
struct Stage {
    cells: Arc<Vec<AtomicU64>>,
    workers: Vec<Process>,
    sweeper: Sweeper<Memory, Process>,
}

impl Stage {
    /// Workers that die after so many steps. All have been started, and none has rested yet.
    fn new(steps: &[usize]) -> Self {
        let mut workers = processes(steps);
        let cells = model::cells(Notes::<Memory>::cells(steps.len(), NUMBERS));
        let manager = workers.remove(MANAGER as usize);
        let notes = Notes::new(manager.memory(&cells), steps.len());
        (0..steps.len()).for_each(|seat| notes.expect(seat));
        let sweeper = Sweeper::new(manager.book(&cells), manager);
        Self { cells, workers, sweeper }
    }

    /// A worker and its book.
    fn worker(&self, index: usize) -> (Process, Book<Memory>) {
        let worker = self.workers[index].clone();
        let book = worker.book(&self.cells);
        (worker, book)
    }

    fn sweep(&mut self) -> usize {
        sweep(&mut self.sweeper, &self.workers)
    }

    /// Sweeps while all are at rest: nothing of the dead is open then, and all of the living.
    fn end(mut self) {
        assert_eq!(self.sweep(), 0, "something is left");
        let machine = &self.workers[0].machine;
        for open in machine.open_numbers().into_iter().filter_map(|it| machine.look(it)) {
            let owner = self.workers.iter().find(|worker| worker.number == open.owner);
            assert!(owner.is_none_or(|owner| !owner.is_dead()), "{open:?} has no owner");
        }
    }
}

/// Takes a connection as `os::socket::accept` does, and closes it.
fn serve(process: &Process, book: &Book<Memory>) {
    let accepted = book.with_sockets(|| {
        let socket = process.open(true)?;
        book.note(socket);
        std::io::Result::Ok(socket)
    });
    if let Ok(socket) = accepted {
        book.close_socket(process, socket);
    }
}

/// Opens a file as `os::files::Root` does, and closes it, in a later pass.
fn read(process: &Process, book: &Book<Memory>) {
    let Ok(file) = process.open(false) else { return };
    book.note(file);
    book.at_rest(|| ());
    book.forget(file);
    process.close(file);
}

/// A library has something open for a moment.
fn glance(process: &Process) {
    if let Ok(file) = process.open(false) {
        process.close(file);
    }
}

type Work = fn(&Process, &Book<Memory>);

/// A worker lives and does one thing, while what another has left is swept, which was killed over
/// another.
fn one_dies_one_works(dies_over: Work, works: Work, sweeps: usize, preemptions: usize) {
    let steps = killed_after_each_step(preemptions, move |steps| {
        let mut stage = Stage::new(&[steps, usize::MAX]);
        let (dying, its_book) = stage.worker(0);
        let (worker, book) = stage.worker(1);
        book.at_rest(|| ());
        its_book.at_rest(|| ());
        dies_over(&dying, &its_book);
        let was_killed = dying.is_dead();
        let working = thread::spawn(move || {
            works(&worker, &book);
            book
        });
        for _ in 0..sweeps {
            stage.sweep();
        }
        let book = working.join().unwrap();
        if was_killed {
            book.at_rest(|| stage.end());
        }
        was_killed
    });
    println!("{steps} steps");
}

#[test]
fn sockets_of_the_dead_are_closed_while_others_accept_and_close() {
    one_dies_one_works(serve, serve, 1, 3);
}

#[test]
fn files_of_the_dead_are_closed_while_others_open_and_close() {
    one_dies_one_works(read, read, 2, 3);
}

#[test]
fn what_has_no_note_for_a_moment_is_not_taken_for_a_dead_ones() {
    one_dies_one_works(read, |process, _| glance(process), 2, 3);
}

/// What two living processes open and close: each number goes from the one to the other, and in the
/// end each has what it has noted.
#[test]
fn a_number_that_one_closes_is_anothers_from_then_on() {
    check(3, || {
        let mut stage = Stage::new(&[usize::MAX; 2]);
        let (one, its_book) = stage.worker(0);
        let (other, book) = stage.worker(1);
        [&book, &its_book].iter().for_each(|book| book.at_rest(|| ()));
        let working = thread::spawn(move || {
            serve(&one, &its_book);
            its_book
        });
        let kept = book.with_sockets(|| {
            let socket = other.open(true).unwrap();
            book.note(socket);
            socket
        });
        let its_book = working.join().unwrap();
        its_book.at_rest(|| book.at_rest(|| stage.sweep()));
        book.close_socket(&other, kept);
    });
}

/// One that has just been started has noted nothing yet.
#[test]
fn what_a_process_opens_until_its_first_rest_is_its_own() {
    one_starts(serve);
    one_starts(read);
}

fn one_starts(works: Work) {
    check(3, move || {
        let mut stage = Stage::new(&[usize::MAX]);
        let (worker, book) = stage.worker(0);
        let working = thread::spawn(move || {
            works(&worker, &book);
            book.at_rest(|| ());
            works(&worker, &book);
        });
        stage.sweep();
        stage.sweep();
        working.join().unwrap();
    });
}

/// Somebody dies while it is swept, and another works.
#[test]
fn a_death_in_the_middle_of_a_sweep() {
    killed_after_each_step(2, |steps| {
        let mut stage = Stage::new(&[steps, usize::MAX]);
        let (dying, its_book) = stage.worker(0);
        let (worker, book) = stage.worker(1);
        book.at_rest(|| ());
        let one = thread::spawn(move || {
            its_book.at_rest(|| ());
            serve(&dying, &its_book);
            dying.is_dead()
        });
        let other = thread::spawn(move || {
            serve(&worker, &book);
            book
        });
        stage.sweep();
        let (was_killed, book) = (one.join().unwrap(), other.join().unwrap());
        if was_killed {
            book.at_rest(|| stage.end());
        }
        was_killed
    });
}

/// Twice the note of a file says that it is nobody's, but in between it was a process's.
#[test]
fn what_was_noted_meanwhile_is_its_owners() {
    check(4, || {
        let mut stage = Stage::new(&[usize::MAX]);
        let (worker, book) = stage.worker(0);
        book.at_rest(|| ());
        let working = thread::spawn(move || read(&worker, &book));
        for _ in 0..2 {
            stage.sweep();
        }
        working.join().unwrap();
    });
}

/// Where the kernel does not say what is the same, that is counted once, and a moment of rest is
/// waited for.
#[test]
fn what_cannot_be_judged_is_counted_and_closed_at_rest() {
    check(0, || {
        let mut stage = Stage::new(&[2, usize::MAX]);
        let (dying, its_book) = stage.worker(0);
        let (worker, book) = stage.worker(1);
        let mut manager = dying.clone();
        (manager.number, manager.is_silent) = (MANAGER, true);
        stage.sweeper = Sweeper::new(manager.book(&stage.cells), manager);
        book.at_rest(|| ());
        its_book.note(dying.open(false).unwrap());
        its_book.at_rest(|| ()); // it does not come to that
        let living = [(1, worker.number)];
        let numbers = || worker.machine.open_numbers();
        let mut sweep = || {
            let swept = stage.sweeper.sweep(&numbers(), &living);
            book.at_rest(|| ());
            (swept.closed, swept.left, swept.unjudged)
        };
        assert_eq!(sweep(), (0, 1, 0), "the other might be its owner");
        assert_eq!(sweep(), (0, 1, 1), "it is not, but nobody says that it is the same file");
        assert_eq!(sweep(), (0, 1, 0), "it is counted once");
        let swept = book.at_rest(|| stage.sweeper.sweep(&worker.machine.open_numbers(), &living));
        assert_eq!((swept.closed, swept.left, swept.unjudged), (1, 0, 0));
    });
}
