//! A worker slot: a process that serves, and its replacements.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use file_cache::Budget;
use os::fork::{Child, Ended, fork};
use session::{Account, Worker};

use super::process::{HOUSEKEEPING, LEFT, Process, READY};
use super::shared_memory::SharedMemory;
use crate::engine::{ConnectionLimit, MakeWorker, PartitionStart, SendfileMode, Start};
use crate::jobs::Runner;
use crate::knobs::KnobValues;
use crate::open_files::Caretaker;
use crate::orders::Order;

/// How long a process may take until it serves.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The exit status of a process that has written the reason why it ends.
const STATUS_REPORTED: i32 = 1;

/// The interval of checks whether a process has ended before it served, for the case that its end
/// does not show at the socket.
const CHECK_AT_START: Duration = Duration::from_millis(20);

/// The parts that are common to all processes.
pub(super) struct Common {
    pub(super) name: &'static str,
    pub(super) runner: Arc<Runner>,
    pub(super) sendfile: SendfileMode,
    pub(super) exclusive_wakeups: bool,
    pub(super) knobs: KnobValues,
}

/// The parts that a process, or its replacement, is started with. They are kept here: each process
/// has a copy, as of all memory.
pub(super) struct ProcessStart {
    /// A worker whose copies all count in the same place.
    pub(super) worker: Worker,
    pub(super) cpus: Vec<usize>,
    pub(super) cpu: Option<usize>,
    pub(super) unpinned_cpus: Arc<[usize]>,
    pub(super) listeners: Vec<OwnedFd>,
    pub(super) connections_max: usize,
    /// The memory that the processes share.
    pub(super) memory: SharedMemory,
    /// The number of this process in the shared memory.
    pub(super) slot_index: usize,
    /// The budget of the process's own cache.
    pub(super) budget: Budget,
    pub(super) more: MakeWorker,
}

/// A slot with the process that is there now, if any.
pub(super) struct WorkerSlot {
    /// None only in processes that were forked: one has taken its own, and the others are dropped.
    start: Option<ProcessStart>,
    account: Account,
    running: Option<Running>,
}

/// A process whose end is not known.
struct Running {
    child: Child,
    orders: UnixStream,
    /// What it has written since it serves.
    written: Vec<u8>,
}

/// The end of a process.
pub(super) struct End {
    /// The reason that the process has written, or its status.
    pub(super) reason: String,
    pub(super) is_in_order: bool,
    /// Whether the process was ended by a signal, and did not end by itself.
    pub(super) is_killed: bool,
}

impl WorkerSlot {
    pub(super) fn new(start: ProcessStart) -> Self {
        let account = start.worker.account();
        Self { start: Some(start), account, running: None }
    }

    pub(super) fn is_taken(&self) -> bool {
        self.running.is_some()
    }

    /// Closes the listeners: no process will be started here any more. Processes that serve have
    /// copies.
    pub(super) fn close(&mut self) {
        if let Some(start) = &mut self.start {
            start.listeners.clear();
        }
    }

    /// Sends an order to the process. A process that has died does not need it.
    pub(super) fn send(&mut self, order: Order) {
        self.send_byte(order.byte());
    }

    fn send_byte(&mut self, byte: u8) {
        if let Some(running) = &mut self.running {
            let _ = running.orders.write(&[byte]);
        }
    }

    /// Has the process, and whichever comes in its place, go by the newest revision.
    pub(super) fn keep_current(&mut self) {
        if self.start.as_mut().is_some_and(|start| start.worker.keep_current()) {
            self.send_byte(HOUSEKEEPING);
        }
    }

    /// Waits until the process serves. The error is the reason why it does not.
    pub(super) fn wait_ready(&mut self) -> Result<(), String> {
        let Some(running) = &mut self.running else { return Ok(()) };
        let waited = running.wait_first_byte().map_err(|why| why.to_string());
        let first = waited.inspect_err(|_| running.child.kill())?;
        if first == Some(READY) {
            return Ok(());
        }
        let ended = running.child.wait().map_err(|why| why.to_string())?;
        let end = self.clean_up(ended, first.as_slice());
        Err(end.map_or_else(String::new, |end| end.reason))
    }

    /// Whether the process accepts no more, after the order to leave, or has ended.
    pub(super) fn has_left(&mut self) -> bool {
        let Some(running) = &mut self.running else { return true };
        let _ = running.orders.read_to_end(&mut running.written); // it fails where there is no more
        running.written.first() == Some(&LEFT)
    }

    /// The end of the process, if it has ended since the last call.
    pub(super) fn poll_end(&mut self) -> Option<End> {
        let ended = self.running.as_mut()?.child.try_wait().ok().flatten()?;
        self.clean_up(ended, &[])
    }

    /// Waits for the end of the process.
    pub(super) fn wait(&mut self) -> Option<End> {
        let ended = self.running.as_mut()?.child.wait().ok()?;
        self.clean_up(ended, &[])
    }

    /// Cleans up after a dead process. `read` holds the bytes of its output that were read already.
    fn clean_up(&mut self, ended: Ended, read: &[u8]) -> Option<End> {
        let mut running = self.running.take()?;
        let mut output = [read, &running.written].concat();
        let _ = running.orders.read_to_end(&mut output); // after an error there is no more
        let output = output.strip_prefix(&[READY]).unwrap_or(&output);
        let output = output.strip_prefix(&[LEFT]).unwrap_or(output);
        if let Some(start) = &self.start {
            start.memory.release_dead(start.slot_index);
        }
        self.account.forget_process(); // the kernel has closed its connections
        Some(End {
            reason: match output {
                [] => ended.to_string(),
                reason => String::from_utf8_lossy(reason).into_owned(),
            },
            is_in_order: ended == Ended::Exit(0),
            is_killed: matches!(ended, Ended::Signal(_)),
        })
    }
}

impl Running {
    /// Waits for the first byte that the process writes; none if it ends without one.
    fn wait_first_byte(&mut self) -> io::Result<Option<u8>> {
        let deadline = os::clock::now() + START_TIMEOUT.as_micros() as u64;
        self.orders.set_nonblocking(false)?;
        self.orders.set_read_timeout(Some(CHECK_AT_START))?;
        let first = loop {
            let has_ended = self.child.try_wait()?.is_some();
            let mut byte = [0];
            match self.orders.read(&mut byte) {
                Ok(0) => break None,
                Ok(_) => break Some(byte[0]),
                Err(_) if has_ended => break None, // its end of the socket may be open still
                Err(why) if os::clock::now() > deadline => return Err(why),
                Err(_) => {}
            }
        };
        self.orders.set_nonblocking(true)?;
        Ok(first)
    }
}

/// Starts a process in a slot, with a `number` that no process before it had.
pub(super) fn begin(
    slots: &mut [WorkerSlot],
    index: usize,
    common: &Common,
    number: u32,
) -> io::Result<()> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?; // a process that is stopped must not block the manager
    let (mut ours, mut theirs) = (Some(ours), Some(theirs));
    let child = fork(|| {
        let Some(theirs) = theirs.take() else { return STATUS_REPORTED };
        drop(ours.take());
        let taken = || io::Error::other("it is taken");
        let start = leave_to_parent(slots, index).ok_or_else(taken);
        let outcome = start.and_then(|start| serve(start, common, number, theirs.try_clone()?));
        match outcome {
            Ok(()) => 0,
            Err(why) => {
                let _ = (&theirs).write_all(why.to_string().as_bytes()); // else the status is left
                STATUS_REPORTED
            }
        }
    })?;
    slots[index].running = ours.map(|orders| Running { child, orders, written: Vec::new() });
    Ok(())
}

/// Takes, in a copy of the process, the copy's own start, and drops what the copy has inherited
/// without need: as long as a listener is open anywhere, clients wait in its queue, and the workers
/// of others would go by their first revision for ever.
fn leave_to_parent(slots: &mut [WorkerSlot], index: usize) -> Option<ProcessStart> {
    let start = slots[index].start.take();
    for slot in slots {
        slot.start = None;
        slot.running = None;
    }
    start
}

/// Serves in the copy of the process until its orders are carried out.
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
        open: Arc::default(),
        connections_max: ConnectionLimit::new(start.connections_max),
        sendfile: common.sendfile,
        exclusive_wakeups: common.exclusive_wakeups,
        knobs: common.knobs.clone(),
        start_helper: crate::engine::no_helper_processes(),
    };
    Process::start(start, second, orders, open_files)?.run()
}
