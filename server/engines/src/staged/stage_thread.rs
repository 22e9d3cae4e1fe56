//! A thread of the read stage or of the write stage, or of the pool that serves both: it takes a
//! batch of connections from its queue, does its stage's work on each, and hands them on.
//!
//! The read stage receives, parses and runs jobs, so it may wait for the disk when a file is
//! opened. The write stage sends, so it may wait for the disk when a file is not in memory; with
//! blocking sockets it waits for the client too, but not longer than [`SEND_WAIT_MS`].

use std::io;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::Builder;
use std::time::Duration;

use session::{HOUSEKEEPING_MS, Op, Worker};

use super::client::{BoxedClient, Client, Stage};
use super::pipeline::{Outgoing, Pipeline, Pool};
use super::queue::Taken;
use crate::engine::SendfileMode;
use crate::jobs::Runner;
use crate::orders::Order;
use crate::parts::disk::helpers::run_on_the_spot;
use crate::parts::loops::clock::read_clock;
use crate::parts::loops::drive::{Begun, Driven, Pause, drive};
use crate::parts::loops::reactor::FILE_CHUNK_KIB;
use crate::parts::loops::step::{RECEIVE_BYTES, Step, Turn, step};
use crate::parts::loops::transport::Plain;
use crate::parts::loops::{Loop, LoopContext, Shared, describe_panic};

/// The number of spare buffers that a reading thread keeps: as many as one batch needs by default.
const SPARES: usize = 64;

/// How long a blocking send waits for a client before write-poll does, in milliseconds.
const SEND_WAIT_MS: u64 = 50;

/// The thread.
pub(super) struct StageThread {
    worker: Worker,
    /// The pool whose queue it takes work from.
    pool: Arc<Pool>,
    pipeline: Arc<Pipeline>,
    shared: Arc<Shared>,
    runner: Arc<Runner>,
    buffer: Box<[u8]>,
    outgoing: Outgoing,
    /// The number of spare buffers that it keeps: none if requests only end in its stage.
    spares: usize,
    sendfile: SendfileMode,
    file_chunk_bytes: u64,
}

impl StageThread {
    /// A thread of `stage`.
    pub(super) fn new(
        worker: Worker,
        loop_context: &LoopContext,
        pipeline: &Arc<Pipeline>,
        stage: Stage,
    ) -> Self {
        let knobs = &loop_context.knobs;
        let does_read = stage == Stage::Read || pipeline.has_shared_pool();
        Self {
            worker,
            pool: Arc::clone(pipeline.pool(stage)),
            pipeline: Arc::clone(pipeline),
            shared: Arc::clone(&loop_context.shared),
            runner: Arc::clone(&loop_context.runner),
            buffer: vec![0; RECEIVE_BYTES].into(),
            outgoing: Outgoing::default(),
            spares: if does_read { SPARES } else { 0 },
            sendfile: loop_context.sendfile,
            file_chunk_bytes: knobs.get(FILE_CHUNK_KIB.name) * 1024,
        }
    }

    /// Converts it into a loop, to be run in its thread.
    pub(super) fn into_loop(self) -> Loop {
        Box::new(move || self.run())
    }

    /// Starts one more thread for a stage, which ends by itself when there has been no work for a
    /// while.
    pub(super) fn add(
        pipeline: &Arc<Pipeline>,
        loop_context: &LoopContext,
        stage: Stage,
    ) -> io::Result<()> {
        let pool = Arc::clone(pipeline.pool(stage));
        let (task_pipeline, loop_context) = (Arc::clone(pipeline), loop_context.clone());
        let task_pool = Arc::clone(&pool);
        pool.added.fetch_add(1, Ordering::Relaxed);
        let task = move || {
            let outcome = Self::run_added(&task_pipeline, &loop_context, stage);
            task_pool.added.fetch_sub(1, Ordering::Relaxed);
            if let Err(why) = outcome {
                task_pipeline.lose();
                let name = task_pool.name;
                loop_context
                    .shared
                    .add_notice(format!("a thread that was added to {name} failed: {why}"));
            }
        };
        match Builder::new().name("staged-added".into()).spawn(task) {
            Ok(thread) => pipeline.added_threads.keep(thread),
            Err(why) => {
                pool.added.fetch_sub(1, Ordering::Relaxed);
                return Err(why);
            }
        }
        Ok(())
    }

    /// Runs a thread that was added, for its whole life.
    fn run_added(
        pipeline: &Arc<Pipeline>,
        loop_context: &LoopContext,
        stage: Stage,
    ) -> Result<(), String> {
        let idle_ms = loop_context.knobs.get(super::knobs::THREAD_IDLE_MS.name);
        let worker = || pipeline.added_threads.worker();
        let run = || Self::new(worker(), loop_context, pipeline, stage).run_for_a_while(idle_ms);
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(worker)) => {
                pipeline.added_threads.leave(worker);
                Ok(())
            }
            Ok(Err(why)) => Err(why.to_string()),
            Err(panic) => Err(describe_panic(&*panic)),
        }
    }

    fn run(mut self) -> io::Result<()> {
        self.work_until(None)
    }

    /// Works until there has been no work for `idle_ms`. Returns the worker, for the next thread.
    fn run_for_a_while(mut self, idle_ms: u64) -> io::Result<Worker> {
        self.work_until(Some(idle_ms))?;
        Ok(self.worker)
    }

    /// Works until the queue is closed, or there has been no work for `idle_ms`.
    fn work_until(&mut self, idle_ms: Option<u64>) -> io::Result<()> {
        let pipeline = Arc::clone(&self.pipeline);
        pipeline.enter(&self.shared)?;
        let mut batch = Vec::new();
        read_clock(&mut self.worker);
        let mut has_worked = self.worker.now();
        loop {
            let count = self.pool.batch.load(Ordering::Relaxed);
            // A log needs housekeeping even when there is no work.
            let housekeeping_ms = self.worker.is_logging().then_some(HOUSEKEEPING_MS);
            let timeout = [idle_ms, housekeeping_ms].into_iter().flatten().min();
            let timeout = timeout.map(Duration::from_millis);
            let taken = self.pool.queue.take(count, &mut batch, timeout);
            read_clock(&mut self.worker);
            match taken {
                Taken::Batch => {
                    self.work(&mut batch);
                    has_worked = self.worker.now();
                }
                Taken::Nudged => self.worker.do_housekeeping(),
                Taken::TimedOut => {}
                Taken::Closed => return Ok(()),
            }
            if idle_ms.is_some_and(|ms| has_worked.plus_ms(ms) <= self.worker.now()) {
                return Ok(());
            }
        }
    }

    fn work(&mut self, batch: &mut Vec<BoxedClient>) {
        self.pipeline.share_spares(&mut self.worker, self.spares);
        let is_draining = self.shared.orders.is_issued(Order::Drain);
        for mut client in batch.drain(..) {
            if is_draining {
                client.drain();
            }
            let next = self.drive(&mut client);
            self.outgoing.add(client, next);
        }
        self.outgoing.flush(&self.pipeline);
    }

    /// Takes steps with one connection for as long as they belong to its stage. Returns its next
    /// stage.
    #[inline]
    fn drive(&mut self, client: &mut Client) -> Stage {
        let stage = client.next_stage();
        client.is_answered |= stage == Stage::Write;
        let mut turn = Turn::new(self.file_chunk_bytes, self.sendfile);
        let pause = drive(&mut StageTurn { thread: self, client, stage }, &mut turn);
        client.is_over |= pause == Pause::Closed;
        let next = match pause {
            Pause::Wait if stage == Stage::Write => Stage::WritePoll,
            Pause::Wait | Pause::Closed => Stage::ReadPoll,
            Pause::Away if self.shared.orders.is_issued(Order::Abort) => Stage::ReadPoll,
            Pause::Away | Pause::Yield => client.next_stage(),
        };
        let next = self.expire(client, next);
        if client.is_blocking && next != Stage::Write {
            self.set_blocking(client, false);
        }
        if client.is_over { Stage::ReadPoll } else { next }
    }

    /// Acts on a deadline that has passed before the connection is sent to a stage in which it
    /// would wait. The stages that poll expire the connections that they hold, and would never hold
    /// one whose client sends another byte whenever the last has been read. Returns the next stage.
    #[inline]
    fn expire(&mut self, client: &mut Client, next: Stage) -> Stage {
        let is_to_wait = matches!(next, Stage::ReadPoll | Stage::WritePoll) && !client.is_over;
        match is_to_wait && client.connection.expire_if_due(&mut self.worker) {
            true => client.next_stage(),
            false => next,
        }
    }

    #[inline]
    fn step(&mut self, client: &mut Client, turn: &mut Turn) -> Step {
        let is_file = self.sendfile == SendfileMode::Blocking
            && !client.is_slow
            && matches!(client.connection.next(), Op::File { .. });
        if is_file { self.step_blocking(client, turn) } else { self.step_once(client, turn) }
    }

    #[inline]
    fn step_once(&mut self, client: &mut Client, turn: &mut Turn) -> Step {
        step(
            &mut Plain(client.socket.as_fd()),
            &mut client.connection,
            &mut self.worker,
            &mut self.buffer,
            &mut client.ready,
            turn,
        )
    }

    /// Sends from a file and waits until the kernel has all of it. A client that takes long is not
    /// waited for a second time.
    fn step_blocking(&mut self, client: &mut Client, turn: &mut Turn) -> Step {
        if !client.is_blocking {
            self.set_blocking(client, true);
        }
        let began = os::clock::now();
        let taken = self.step_once(client, turn);
        let waited_ms = os::clock::now().saturating_sub(began) / 1000;
        // From a socket that blocks nothing is received beside: that could wait for ever.
        if waited_ms >= SEND_WAIT_MS || client.ready.is_full {
            read_clock(&mut self.worker);
            client.is_slow = true;
            self.set_blocking(client, false);
        }
        taken
    }

    /// Changes the mode of a socket. If the kernel refuses, the connection goes on as one that no
    /// thread waits for.
    fn set_blocking(&self, client: &mut Client, is_blocking: bool) {
        let socket = client.socket.as_fd();
        let limited = match is_blocking {
            true => os::socket::set_send_timeout(socket, SEND_WAIT_MS),
            false => Ok(()),
        };
        let changed = limited.and_then(|()| os::socket::set_blocking(socket, is_blocking));
        client.is_blocking = is_blocking && changed.is_ok();
        client.is_slow |= changed.is_err();
    }
}

/// A connection that is with a thread of one stage.
struct StageTurn<'a> {
    thread: &'a mut StageThread,
    client: &'a mut Client,
    stage: Stage,
}

impl Driven for StageTurn<'_> {
    /// Takes one step, or none if the next step belongs to another stage.
    #[inline]
    fn step(&mut self, turn: &mut Turn) -> Step {
        let is_aborting = self.thread.shared.orders.is_issued(Order::Abort);
        if is_aborting || self.client.next_stage() != self.stage {
            return Step::Away;
        }
        self.thread.step(self.client, turn)
    }

    /// Runs the job on the spot: its stage may wait for the disk, as a stage that sends may.
    fn job(&mut self) -> Begun {
        let StageThread { worker, runner, pipeline, .. } = &mut *self.thread;
        if run_on_the_spot(&mut self.client.connection, worker, runner) {
            pipeline.request_eviction();
        }
        Begun::Done
    }
}
