//! A worker slot: a process that serves, and those that replace it.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use file_cache::Budget;
use os::fork::{Child, Ended, fork};
use session::{Account, Worker};

use super::process::{Process, READY};
use super::shared_memory::SharedMemory;
use crate::engine::{MakeWorker, PartitionStart, SendfileMode, Start};
use crate::jobs::Runner;
use crate::knobs::KnobValues;
use crate::open_files::Caretaker;
use crate::orders::Order;

/// How long a process may take until it serves.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// The status of a process that has said why it ends.
const STATUS_TOLD: i32 = 1;

/// How soon it is noticed that a process has ended before it served, where its end does not show
/// at the socket.
const LOOK_AT_START: Duration = Duration::from_millis(20);

/// What is the same for all processes.
pub(super) struct Common {
    pub(super) name: &'static str,
    pub(super) runner: Arc<Runner>,
    pub(super) sendfile: SendfileMode,
    pub(super) exclusive_wakeups: bool,
    pub(super) knobs: KnobValues,
}

/// What a process is started with, here and in each that replaces it: each takes a copy, as
/// everything in this memory.
pub(super) struct ProcessStart {
    /// It counts where its copies count.
    pub(super) worker: Worker,
    pub(super) cpus: Vec<usize>,
    pub(super) cpu: Option<usize>,
    pub(super) unpinned_cpus: Arc<[usize]>,
    pub(super) listeners: Vec<OwnedFd>,
    pub(super) connections_max: usize,
    /// What the processes share, and the number of this process there.
    pub(super) memory: SharedMemory,
    pub(super) slot_index: usize,
    /// What of the cache is its own.
    pub(super) budget: Budget,
    pub(super) more: MakeWorker,
}

/// A slot with the process that is there now.
pub(super) struct WorkerSlot {
    /// Always there but in the process that has taken it.
    start: Option<ProcessStart>,
    account: Account,
    running: Option<Running>,
}

/// A process that lives, as far as is known.
struct Running {
    child: Child,
    orders: UnixStream,
    began_us: u64,
}

/// How a process has ended.
pub(super) struct End {
    /// Why the process has ended, in its own words or by its status.
    pub(super) reason: String,
    pub(super) is_in_order: bool,
    /// Whether the process was ended by a signal, and not by what it found.
    pub(super) is_killed: bool,
    pub(super) has_lived_us: u64,
}

impl WorkerSlot {
    pub(super) fn new(start: ProcessStart) -> Self {
        let account = start.worker.account();
        Self { start: Some(start), account, running: None }
    }

    pub(super) fn is_taken(&self) -> bool {
        self.running.is_some()
    }

    /// No process will come here any more. Those that serve have copies of the listeners.
    pub(super) fn close(&mut self) {
        if let Some(start) = &mut self.start {
            start.listeners.clear();
        }
    }

    /// Says to the process what to do. One that has died cannot hear it, and need not.
    pub(super) fn tell(&mut self, order: Order) {
        if let Some(running) = &mut self.running {
            let _ = running.orders.write(&[order.byte()]);
        }
    }

    /// Waits until the process serves. The error is why it does not.
    pub(super) fn wait_ready(&mut self) -> Result<(), String> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let waited = running.wait_for_word().map_err(|why| why.to_string());
        let said = waited.inspect_err(|_| running.child.kill())?;
        if said == Some(READY) {
            return Ok(());
        }
        let ended = running.child.wait().map_err(|why| why.to_string())?;
        let end = self.settle(ended, said.as_slice());
        Err(end.map_or_else(String::new, |end| end.reason))
    }

    /// How its process has ended, if it has since the last look.
    pub(super) fn look(&mut self) -> Option<End> {
        let ended = self.running.as_mut()?.child.try_wait().ok().flatten()?;
        self.settle(ended, &[])
    }

    /// Waits for the end of its process.
    pub(super) fn wait(&mut self) -> Option<End> {
        let ended = self.running.as_mut()?.child.wait().ok()?;
        self.settle(ended, &[])
    }

    /// Settles what a dead process has left. `said` is the beginning of what it said.
    fn settle(&mut self, ended: Ended, said: &[u8]) -> Option<End> {
        let mut running = self.running.take()?;
        let mut said = said.to_vec();
        let _ = running.orders.read_to_end(&mut said); // it said no more
        let said = said.strip_prefix(&[READY]).unwrap_or(&said);
        if let Some(start) = &self.start {
            start.memory.release_dead(start.slot_index);
        }
        self.account.forget_process(); // the kernel has closed its connections
        Some(End {
            reason: match said {
                [] => ended.to_string(),
                words => String::from_utf8_lossy(words).into_owned(),
            },
            is_in_order: ended == Ended::Exit(0),
            is_killed: matches!(ended, Ended::Signal(_)),
            has_lived_us: os::clock::now().saturating_sub(running.began_us),
        })
    }
}

impl Running {
    /// The first byte that the process says; none if it ends in silence.
    fn wait_for_word(&mut self) -> io::Result<Option<u8>> {
        let patience = os::clock::now() + START_PATIENCE.as_micros() as u64;
        self.orders.set_nonblocking(false)?;
        self.orders.set_read_timeout(Some(LOOK_AT_START))?;
        let said = loop {
            let has_ended = self.child.try_wait()?.is_some();
            let mut byte = [0];
            match self.orders.read(&mut byte) {
                Ok(0) => break None,
                Ok(_) => break Some(byte[0]),
                Err(_) if has_ended => break None, // its end of the socket may be open still
                Err(why) if os::clock::now() > patience => return Err(why),
                Err(_) => {}
            }
        };
        self.orders.set_nonblocking(true)?;
        Ok(said)
    }
}

/// Starts a process in a slot, with a number that none before it had.
pub(super) fn begin(
    slots: &mut [WorkerSlot],
    index: usize,
    common: &Common,
    number: u32,
) -> io::Result<()> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?; // one that is stopped does not stop those who give orders
    let (mut ours, mut theirs) = (Some(ours), Some(theirs));
    let child = fork(|| {
        let Some(theirs) = theirs.take() else { return STATUS_TOLD };
        drop(ours.take());
        let taken = || io::Error::other("it is taken");
        let start = leave_to_parent(slots, index).ok_or_else(taken);
        let outcome = start.and_then(|start| serve(start, common, number, theirs.try_clone()?));
        match outcome {
            Ok(()) => 0,
            Err(why) => {
                let _ = (&theirs).write_all(why.to_string().as_bytes()); // then by the status
                STATUS_TOLD
            }
        }
    })?;
    let began_us = os::clock::now();
    slots[index].running = ours.map(|orders| Running { child, orders, began_us });
    Ok(())
}

/// Takes, in a copy of the process, the copy's own start, and closes what the copy has inherited
/// for nothing. A listener that is open somewhere has clients wait in its queue.
fn leave_to_parent(slots: &mut [WorkerSlot], index: usize) -> Option<ProcessStart> {
    let start = slots[index].start.take();
    for slot in slots {
        slot.close();
        slot.running = None;
    }
    start
}

/// What the copy of the process does.
fn serve(start: ProcessStart, common: &Common, number: u32, orders: UnixStream) -> io::Result<()> {
    let ProcessStart { mut worker, memory, .. } = start;
    let runner = Arc::clone(&common.runner);
    let second = Arc::new(worker.cache().emptied(start.budget));
    worker.use_cache(Arc::clone(&second));
    let open_files = Caretaker::new(runner.open_files(vec![Arc::clone(&second)]));
    worker.set_shared_level(Box::new(memory.attach(start.slot_index, number)?));
    let (cpu, unpinned_cpus, listeners) = (start.cpu, start.unpinned_cpus, start.listeners);
    let worker = crate::engine::WorkerStart { worker, cpu, unpinned_cpus, listeners };
    let start = Start {
        partitions: vec![PartitionStart {
            cpus: start.cpus,
            workers: vec![worker],
            more: start.more,
        }],
        runner,
        connections_max: start.connections_max,
        sendfile: common.sendfile,
        exclusive_wakeups: common.exclusive_wakeups,
        knobs: common.knobs.clone(),
        start_helper: crate::engine::no_helper_processes(),
    };
    Process::start(start, second, orders, open_files)?.run()
}
