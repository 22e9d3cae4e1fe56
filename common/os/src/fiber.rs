//! Fibers: pieces of work (each a [`FiberRoutine`]) that run on stacks of their own, are suspended
//! in the middle and are resumed by any thread.
//!
//! The code on a fiber's stack is `run_routine`, here and nowhere else. The compiler cannot see
//! what lies on a stack when it is suspended, so code that resumes a fiber in another thread must
//! know it: a routine (which is `Send`), where in `run_routine` it is, and nothing more. In
//! particular no address of a thread's own variable is kept across a suspension: what belongs to a
//! thread is lent anew by every [`Fiber::resume`]. All other work is done on the stack of the
//! thread that resumes, which is why a fiber's stack can be small. There is no scheduler here.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;

use corosensei::stack::Stack as _;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::memory::prefetch;
use crate::stacks::Stack;

/// The work of a fiber.
pub trait FiberRoutine: Send + Sized + 'static {
    /// What a thread lends to the fiber that it resumes.
    type Thread: 'static;
    /// What a fiber says when it rests: what it waits for.
    type Rest: Copy + Send + 'static;

    /// Works until something else follows, on the stack of the thread that lends `thread`.
    fn step(&mut self, thread: &mut Self::Thread) -> Next<Self::Rest>;

    /// Does what [`Next::Block`] requested, in the thread that called [`Fiber::resume_blocking`].
    fn block(&mut self);
}

/// What follows the work of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<R> {
    /// A rest: the fiber is suspended until it is resumed.
    Rest(R),
    /// Work that may block: the fiber moves to a thread where blocking delays no other fiber, does
    /// the work there, and moves back.
    Block,
    /// The end of the fiber. The routine goes back to the thread that resumed the fiber.
    Leave,
}

/// Why [`Fiber::resume`] has returned.
#[derive(Debug)]
pub enum Pause<L: FiberRoutine> {
    /// The fiber rests.
    Rest(L::Rest),
    /// The fiber wants to block and waits for [`Fiber::resume_blocking`].
    Block,
    /// The fiber has done the work that may block, and waits for [`Fiber::resume`].
    Blocked,
    /// The fiber has ended; this is its routine.
    Left(L),
}

/// What a suspended fiber uses of its stack beside its routine, in bytes, approximately.
const FRAME_BYTES: usize = 640;

/// A line of the cache, in bytes.
const LINE: usize = 64;

/// A routine on a stack, suspended.
pub struct Fiber<L: FiberRoutine> {
    coroutine: RoutineCoroutine<L>,
    /// The address where the fiber's stack begins.
    base: usize,
    is_at_block: bool,
}

/// The coroutine that runs `run_routine`.
type RoutineCoroutine<L> = Coroutine<
    ThreadData<<L as FiberRoutine>::Thread>,
    Suspension<<L as FiberRoutine>::Rest>,
    End<L>,
    Stack,
>;

/// The data of a thread that a resumed fiber is given, valid until the next suspension.
enum ThreadData<T> {
    Thread(NonNull<T>),
    /// Nothing but permission to block.
    Leave,
    /// Nothing: the fiber is to end now.
    Nothing,
}

enum Suspension<R> {
    Rest(R),
    Block,
    Blocked,
}

/// What a fiber yields at its end. A panic is carried out as a value: unwinding takes more stack
/// than a fiber has.
struct End<L> {
    routine: L,
    panic: Option<Box<dyn Any + Send>>,
}

/// Something that is used only while the thread it belongs to waits for it.
struct SameThread<T>(T);

// SAFETY: `corosensei` requires Send of what runs on the parent's stack, lest a yielder is moved to
// another thread; it runs in the very same thread. There is no yielder in what `run_routine` runs
// there.
unsafe impl<T> Send for SameThread<T> {}

// SAFETY: a suspended fiber is a stack (Send) and what lies on it: the `routine` of `run_routine`,
// Send by its bound, a `Rest`, Send as well, and the pointer that was lent last, which is not used
// again: `run_routine` replaces it as the first thing after every suspension. See the head of this
// file.
unsafe impl<L: FiberRoutine> Send for Fiber<L> {}

impl<L: FiberRoutine> Fiber<L> {
    /// A fiber that will run `routine` on `stack`. It has not begun.
    #[must_use]
    pub fn new(stack: Stack, routine: L) -> Self {
        let base = stack.base().get();
        let coroutine =
            Coroutine::with_stack(stack, move |yielder, lent| run_routine(yielder, lent, routine));
        Self { coroutine, base, is_at_block: false }
    }

    /// Prefetches the top of the fiber's stack into the cache, for a resumption soon.
    #[inline]
    pub fn prefetch(&self) {
        let lines = (size_of::<L>() + FRAME_BYTES).div_ceil(LINE);
        (1..=lines).for_each(|line| prefetch(self.base - line * LINE));
    }

    /// Runs the fiber until its next pause.
    ///
    /// # Panics
    /// With the panic of [`FiberRoutine::step`], after which the fiber has ended. If the fiber has
    /// ended or waits for [`Fiber::resume_blocking`].
    #[inline]
    pub fn resume(&mut self, thread: &mut L::Thread) -> Pause<L> {
        assert!(!self.is_at_block, "it waits for a thread that may block");
        self.switch(ThreadData::Thread(NonNull::from(thread)))
    }

    /// Does the work that may block, in this thread.
    ///
    /// # Panics
    /// With the panic of [`FiberRoutine::block`], after which the fiber has ended. If the fiber has
    /// not paused with [`Pause::Block`].
    pub fn resume_blocking(&mut self) -> Pause<L> {
        assert!(self.is_at_block, "it has not asked to block");
        self.switch(ThreadData::Leave)
    }

    #[inline]
    fn switch(&mut self, lent: ThreadData<L::Thread>) -> Pause<L> {
        self.is_at_block = false;
        match self.coroutine.resume(lent) {
            CoroutineResult::Yield(Suspension::Rest(rest)) => Pause::Rest(rest),
            CoroutineResult::Yield(Suspension::Block) => {
                self.is_at_block = true;
                Pause::Block
            }
            CoroutineResult::Yield(Suspension::Blocked) => Pause::Blocked,
            CoroutineResult::Return(End { routine, panic: None }) => Pause::Left(routine),
            CoroutineResult::Return(End { routine, panic: Some(panic) }) => {
                drop(routine);
                resume_unwind(panic)
            }
        }
    }
}

impl<L: FiberRoutine> Drop for Fiber<L> {
    fn drop(&mut self) {
        if !self.coroutine.done() {
            // The routine comes out and is dropped here, not by unwinding on the small stack.
            drop(self.coroutine.resume(ThreadData::Nothing));
        }
    }
}

/// Runs a fiber, from its first resumption to its end.
fn run_routine<L: FiberRoutine>(
    yielder: &Yielder<ThreadData<L::Thread>, Suspension<L::Rest>>,
    mut lent: ThreadData<L::Thread>,
    mut routine: L,
) -> End<L> {
    while let ThreadData::Thread(thread) = lent {
        // SAFETY: the thread that resumed this fiber has lent it exclusively and waits in `resume`
        // for the suspension below; after that, `lent` is another one.
        let step = |routine: &mut L| unsafe { routine.step(&mut *thread.as_ptr()) };
        match on_thread(yielder, || step(&mut routine)) {
            Ok(Next::Rest(rest)) => lent = yielder.suspend(Suspension::Rest(rest)),
            Ok(Next::Block) => {
                let ThreadData::Leave = yielder.suspend(Suspension::Block) else { break };
                // From here to the next suspension this runs in a thread that may block.
                if let Err(panic) = on_thread(yielder, || routine.block()) {
                    return End { routine, panic: Some(panic) };
                }
                lent = yielder.suspend(Suspension::Blocked);
            }
            Ok(Next::Leave) => break,
            Err(panic) => return End { routine, panic: Some(panic) },
        }
    }
    End { routine, panic: None }
}

/// Runs `work` on the stack of the thread that resumed the fiber.
#[inline]
fn on_thread<I, Y, R>(
    yielder: &Yielder<I, Y>,
    work: impl FnOnce() -> R,
) -> Result<R, Box<dyn Any + Send>> {
    let work = SameThread(work);
    yielder.on_parent_stack(move || {
        let SameThread(work) = { work };
        catch_unwind(AssertUnwindSafe(work))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::Stacks;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::thread;

    /// Adds up the numbers it is lent, resting after each, and blocks before the third.
    #[derive(Debug)]
    struct Sum {
        sum: u64,
        steps: u32,
        _alive: Arc<()>,
    }

    impl FiberRoutine for Sum {
        type Thread = u64;
        type Rest = u64;

        fn step(&mut self, thread: &mut u64) -> Next<u64> {
            self.sum += *thread;
            *thread = self.sum;
            self.steps += 1;
            match self.steps {
                1 => Next::Rest(self.sum),
                2 => Next::Block,
                3 => Next::Leave,
                _ => panic!("too much"),
            }
        }

        fn block(&mut self) {
            self.sum += 1000;
        }
    }

    fn sum(steps: u32) -> (Fiber<Sum>, Arc<()>) {
        let alive = Arc::new(());
        let stack = Stacks::new(1, 16 * 1024).unwrap().take().unwrap().unwrap();
        (Fiber::new(stack, Sum { sum: 0, steps, _alive: Arc::clone(&alive) }), alive)
    }

    #[test]
    fn a_routine_goes_on_in_any_thread() {
        let (mut fiber, alive) = sum(0);
        let mut lent = 1;
        assert!(matches!(fiber.resume(&mut lent), Pause::Rest(1)));
        let other = thread::spawn(move || {
            let mut lent = 10;
            assert!(matches!(fiber.resume(&mut lent), Pause::Block));
            assert_eq!(lent, 11);
            fiber
        });
        let mut fiber = other.join().unwrap();
        let helper = thread::spawn(move || {
            assert!(matches!(fiber.resume_blocking(), Pause::Blocked));
            fiber
        });
        let mut fiber = helper.join().unwrap();
        let Pause::Left(routine) = fiber.resume(&mut lent) else { panic!("it should have ended") };
        assert_eq!((routine.sum, routine.steps), (1 + 10 + 1000 + 1, 3));
        drop((fiber, routine));
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn a_routine_that_is_not_over_ends_with_its_fiber() {
        for resumptions in 0..3 {
            let (mut fiber, alive) = sum(0);
            for _ in 0..resumptions {
                fiber.resume(&mut 1);
            }
            assert_eq!(Arc::strong_count(&alive), 2);
            drop(fiber);
            assert_eq!(Arc::strong_count(&alive), 1, "after {resumptions}");
        }
    }

    #[test]
    fn a_panic_comes_out_where_the_fiber_was_resumed() {
        let (mut fiber, alive) = sum(4);
        let outcome = catch_unwind(AssertUnwindSafe(|| fiber.resume(&mut 1)));
        assert_eq!(outcome.unwrap_err().downcast_ref::<&str>(), Some(&"too much"));
        assert_eq!(Arc::strong_count(&alive), 1);
        drop(fiber);
    }

    #[test]
    fn what_may_block_is_done_only_where_it_may() {
        let (mut fiber, _alive) = sum(1);
        assert!(matches!(fiber.resume(&mut 1), Pause::Block));
        assert!(catch_unwind(AssertUnwindSafe(|| fiber.resume(&mut 1))).is_err());
        let (mut fiber, _alive) = sum(0);
        assert!(catch_unwind(AssertUnwindSafe(|| fiber.resume_blocking())).is_err());
    }

    #[test]
    fn stacks_return_when_fibers_end() {
        let stacks = Stacks::new(1, 16 * 1024).unwrap();
        let (sender, receiver) = channel();
        for _ in 0..3 {
            let stack = stacks.take().unwrap().expect("the last one's");
            let routine = Sum { sum: 0, steps: 2, _alive: Arc::new(()) };
            let mut fiber = Fiber::new(stack, routine);
            assert!(matches!(fiber.resume(&mut 1), Pause::Left(_)));
            sender.send(()).unwrap();
        }
        assert_eq!(receiver.try_iter().count(), 3);
    }
}
