//! A turn of a fiber: steps of the connection that it serves, or accepting. Steps run on the stack
//! of the kernel thread; resting, blocking and ending happen on the fiber's: see [`os::fiber`].

use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use os::epoll::Interest;
use os::fiber::{FiberRoutine, Next};
use session::{Op, Phase};
use site::resource::FileRef;

use super::kernel_thread::KernelThread;
use super::routine::{BlockingWork, ConnectionFiber, Routine, Suspension};
use super::state::{FiberEvents, NEVER};
use crate::parts::disk::helpers::{answer, answer_at_once, run_on_the_spot};
use crate::parts::loops::drive::{Begun, Driven, Pause, drive_unguarded};
use crate::parts::loops::step::{STEPS_PER_JOB, Step, Turn, after_send_file, step};
use crate::parts::loops::transport::Plain;

impl Routine {
    /// Ends the routine, where it cannot go on.
    pub(super) fn leave(&mut self, thread: &mut KernelThread) {
        if let Self::Connection(fiber) = self {
            fiber.leave(thread);
        }
    }
}

impl FiberRoutine for Routine {
    type Thread = KernelThread;
    type Rest = Suspension;

    #[inline]
    fn step(&mut self, thread: &mut KernelThread) -> Next<Suspension> {
        match self {
            Self::Acceptor { listener } => {
                thread.accept(*listener, thread.cluster.settings.accepts_per_wake);
                Next::Rest(Suspension::Wait { deadline: NEVER, is_idle: false })
            }
            Self::Connection(fiber) => {
                let served = catch_unwind(AssertUnwindSafe(|| fiber.serve(thread)));
                // A bug met by one connection ends that connection. The panic has been printed.
                served.unwrap_or_else(|_| fiber.leave(thread))
            }
        }
    }

    fn block(&mut self) {
        if let Self::Connection(fiber) = self {
            let work = std::mem::replace(&mut fiber.blocking_work, BlockingWork::Failed);
            let ran = catch_unwind(AssertUnwindSafe(|| work.run(&fiber.socket)));
            fiber.blocking_work = ran.unwrap_or(BlockingWork::Failed);
        }
    }
}

impl ConnectionFiber {
    /// Takes steps until the fiber is to rest, block or end.
    #[inline]
    fn serve(&mut self, thread: &mut KernelThread) -> Next<Suspension> {
        let events = std::mem::replace(&mut thread.events, FiberEvents::NONE);
        if (events != FiberEvents::NONE || self.is_new) && self.apply(events, thread) {
            return self.leave(thread);
        }
        let mut may_expire = events.has(FiberEvents::EXPIRED);
        loop {
            let pause = self.drive(thread);
            return match pause {
                // What had arrived came first, and was not enough.
                Pause::Wait
                    if std::mem::take(&mut may_expire)
                        && self.connection.expire_if_due(&mut thread.worker) =>
                {
                    continue;
                }
                Pause::Wait => self.rest(thread),
                Pause::Yield => Next::Rest(Suspension::Yield { deadline: self.deadline() }),
                // Its application has to go on first.
                Pause::Away if matches!(self.blocking_work, BlockingWork::None) => {
                    self.rest(thread)
                }
                Pause::Away => Next::Block,
                Pause::Closed => self.leave(thread),
            };
        }
    }

    #[inline]
    fn drive(&mut self, thread: &mut KernelThread) -> Pause {
        let settings = &thread.cluster.settings;
        let mut turn = Turn::new(settings.file_chunk_bytes, settings.sendfile);
        drive_unguarded(&mut Serving { fiber: self, thread }, &mut turn)
    }

    /// Applies events to the connection. Returns whether the connection is to end at once.
    fn apply(&mut self, events: FiberEvents, thread: &mut KernelThread) -> bool {
        self.ready.is_drained &= !events.has(FiberEvents::READABLE);
        self.ready.is_full &= !events.has(FiberEvents::WRITABLE);
        self.ready.is_hung_up |= events.has(FiberEvents::HUNG_UP);
        self.blocking_work.apply(events);
        if events.has(FiberEvents::DRAIN) || (self.is_new && thread.is_draining()) {
            self.connection.drain();
        }
        if events.has(FiberEvents::LEAVE) || (self.is_new && thread.is_leaving()) {
            self.is_leaving = !thread.cluster.shared.is_finishing();
            if !self.is_leaving {
                self.connection.end_with_next();
            }
        }
        let aborts = events.has(FiberEvents::ABORT) || (self.is_new && thread.is_aborting());
        self.is_new = false;
        // While the fiber was away its client had no chance: what it brings back comes first.
        let was_away = !matches!(self.blocking_work, BlockingWork::None);
        if events.has(FiberEvents::EXPIRED) && !was_away {
            self.expire(thread);
        }
        if self.call.is_out() {
            self.apply_to_call(events, thread);
        }
        aborts || (events.has(FiberEvents::EVICTED) && self.makes_room(thread))
    }

    /// Acts on a deadline that has passed, unless something has arrived that is to be received
    /// first.
    fn expire(&mut self, thread: &mut KernelThread) {
        let receives = matches!(self.connection.next(), Op::Recv);
        if receives && os::socket::has_input(self.socket.as_fd()) {
            self.ready.is_drained = false;
        } else {
            self.connection.expire_if_due(&mut thread.worker);
        }
    }

    /// Has a connection that was chosen to make room do so, unless its client has sent a request
    /// meanwhile: then it does not rest. Returns whether it makes room.
    fn makes_room(&mut self, thread: &mut KernelThread) -> bool {
        if os::socket::has_input(self.socket.as_fd()) {
            self.ready.is_drained = false;
            return false;
        }
        thread.worker.counters.connections_evicted.add(1);
        true
    }

    /// Lets the fiber rest until there is an event, and has the socket watched if it is not yet.
    #[inline]
    fn rest(&mut self, thread: &mut KernelThread) -> Next<Suspension> {
        if self.call.is_out() {
            self.call.end_unwanted(&self.connection);
        }
        if self.is_leaving && self.is_movable(&thread.cluster.shared) {
            self.is_moving = true;
            return Next::Leave; // the kernel thread gives the connection away
        }
        if !self.is_watched {
            self.is_watched = true;
            let interest =
                Interest::READ.with(Interest::WRITE).with(Interest::RDHUP).with(Interest::EDGE);
            if thread.cluster.epoll.add(self.socket.as_fd(), interest, self.key).is_err() {
                return self.leave(thread); // no memory for the watch
            }
        }
        let is_idle = self.connection.phase() == Phase::Idle;
        if is_idle && thread.cluster.settings.parks_idle {
            return Next::Leave; // the fiber leaves its stack, and the connection stays
        }
        Next::Rest(Suspension::Wait { deadline: self.deadline(), is_idle })
    }

    /// Takes in the outcome of blocking work.
    fn finish_blocking_work(
        &mut self,
        work: BlockingWork,
        thread: &mut KernelThread,
        turn: &mut Turn,
    ) -> Step {
        match work {
            BlockingWork::Done(id, done) => {
                if answer(&mut self.connection, &mut thread.worker, id, done) {
                    thread.evict();
                }
                turn.steps = turn.steps.saturating_sub(STEPS_PER_JOB).max(1);
                Step::More
            }
            BlockingWork::Sent(outcome) => {
                let (connection, ready) = (&mut self.connection, &mut self.ready);
                let file_bytes = &mut turn.file_bytes;
                after_send_file(connection, &mut thread.worker, outcome, file_bytes, ready)
            }
            BlockingWork::None
            | BlockingWork::Job(..)
            | BlockingWork::File { .. }
            | BlockingWork::Failed => Step::Closed,
        }
    }

    fn leave(&mut self, thread: &mut KernelThread) -> Next<Suspension> {
        self.has_left = true;
        self.call.end();
        self.connection.close(&mut thread.worker);
        thread.cluster.count_out();
        Next::Leave
    }
}

/// A fiber in its turn.
struct Serving<'a> {
    fiber: &'a mut ConnectionFiber,
    thread: &'a mut KernelThread,
}

impl Driven for Serving<'_> {
    #[inline]
    fn step(&mut self, turn: &mut Turn) -> Step {
        let (fiber, thread) = (&mut *self.fiber, &mut *self.thread);
        match std::mem::replace(&mut fiber.blocking_work, BlockingWork::None) {
            BlockingWork::None => step(
                &mut Plain(fiber.socket.as_fd()),
                &mut fiber.connection,
                &mut thread.worker,
                &mut thread.buffer,
                &mut fiber.ready,
                turn,
            ),
            back => fiber.finish_blocking_work(back, thread, turn),
        }
    }

    /// Has the job run in the blocking cluster, or on the spot while the kernel thread waits. The
    /// fiber calls applications itself.
    fn job(&mut self) -> Begun {
        let (fiber, thread) = (&mut *self.fiber, &mut *self.thread);
        if fiber.call.is_wanted(&fiber.connection) && fiber.call(thread) {
            return Begun::Out;
        }
        let is_blocking = thread.cluster.blocking.is_some();
        if is_blocking && answer_at_once(&mut fiber.connection, &mut thread.worker, &thread.runner)
        {
            return Begun::Done;
        }
        if is_blocking {
            let (id, job) = fiber.connection.take_job();
            thread.worker.counters.jobs_handed_out.add(1);
            fiber.blocking_work = BlockingWork::Job(id, job, Arc::clone(&thread.runner));
            return Begun::Away;
        }
        if run_on_the_spot(&mut fiber.connection, &mut thread.worker, &thread.runner) {
            thread.evict();
        }
        Begun::Done
    }

    /// Has the bytes of a file fetched in the blocking cluster, which sends them as well.
    fn fetch(&mut self, turn: &Turn) -> Begun {
        let (fiber, thread) = (&mut *self.fiber, &mut *self.thread);
        let Op::File { file, offset, len } = fiber.connection.next() else { return Begun::Done };
        if thread.cluster.blocking.is_none() {
            return Begun::Done;
        }
        // A chunk is bounded far below the size of memory.
        let len = len.min(turn.file_bytes) as usize;
        thread.worker.counters.cold_sends.add(1);
        fiber.blocking_work = BlockingWork::File { file: FileRef::clone(file), offset, len };
        Begun::Away
    }
}
