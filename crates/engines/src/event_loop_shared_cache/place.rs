//! A place: a process that serves, and those that replace it.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use file_cache::Budget;
use os::descriptors::{self, Table};
use os::fork::{Child, Descriptors, Ended, fork};
use session::{Counters, Worker};

use super::process::{Order, Process, READY};
use super::shelf::Shelf;
use crate::jobs::Runner;
use crate::knobs::KnobValues;
use crate::{MakeWorker, PartitionStart, SendfileMode, Start};

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
    /// Present where all processes share one descriptor table.
    pub(super) table: Option<Table>,
}

/// What a process is made of, here and in each that replaces it: each takes a copy, as everything
/// in this memory.
pub(super) struct Outfit {
    /// It counts where its copies count.
    pub(super) worker: Worker,
    pub(super) cpus: Vec<usize>,
    pub(super) cpu: Option<usize>,
    pub(super) listeners: Vec<OwnedFd>,
    pub(super) connections_max: usize,
    /// What the processes share, and the seat there.
    pub(super) shelf: Shelf,
    pub(super) seat: usize,
    /// What of the cache is its own.
    pub(super) budget: Budget,
    pub(super) more: MakeWorker,
}

/// A place with the process that is there now.
pub(super) struct Place {
    /// Always there but in the process that has taken it.
    outfit: Option<Outfit>,
    counters: Arc<Counters>,
    life: Option<Life>,
}

/// A process that lives, as far as is known.
struct Life {
    child: Child,
    number: u32,
    orders: UnixStream,
    began_us: u64,
}

/// How a process has ended.
pub(super) struct End {
    /// In its own words or by its status.
    pub(super) reason: String,
    pub(super) is_in_order: bool,
    /// It was ended by a signal, and not by what it found.
    pub(super) is_killed: bool,
    pub(super) has_lived_us: u64,
}

impl Place {
    pub(super) fn new(outfit: Outfit) -> Self {
        let counters = Arc::clone(&outfit.worker.counters);
        Self { outfit: Some(outfit), counters, life: None }
    }

    pub(super) fn is_taken(&self) -> bool {
        self.life.is_some()
    }

    /// The number of its process.
    pub(super) fn number(&self) -> Option<u32> {
        self.life.as_ref().map(|life| life.number)
    }

    /// No process will come here any more. Those that serve have copies of the listeners.
    pub(super) fn close(&mut self) {
        if let Some(outfit) = &mut self.outfit {
            outfit.listeners.clear();
        }
    }

    /// Says to the process what to do. One that has died cannot hear it, and need not.
    pub(super) fn tell(&mut self, order: Order) {
        if let Some(life) = &mut self.life {
            let _ = life.orders.write(&[order.byte()]);
        }
    }

    /// Waits until the process serves. The error is why it does not.
    pub(super) fn wait_ready(&mut self) -> Result<(), String> {
        let Some(life) = &mut self.life else { return Ok(()) };
        let waited = life.wait_for_word().map_err(|why| why.to_string());
        let said = waited.inspect_err(|_| life.child.kill())?;
        if said == Some(READY) {
            return Ok(());
        }
        let ended = life.child.wait().map_err(|why| why.to_string())?;
        let end = self.settle(ended, said.as_slice());
        Err(end.map_or_else(String::new, |end| end.reason))
    }

    /// How its process has ended, if it has since the last look.
    pub(super) fn look(&mut self) -> Option<End> {
        let ended = self.life.as_mut()?.child.try_wait().ok().flatten()?;
        self.settle(ended, &[])
    }

    /// Waits for the end of its process.
    pub(super) fn wait(&mut self) -> Option<End> {
        let ended = self.life.as_mut()?.child.wait().ok()?;
        self.settle(ended, &[])
    }

    /// Settles what a dead process has left. `said` is the beginning of what it said.
    fn settle(&mut self, ended: Ended, said: &[u8]) -> Option<End> {
        let mut life = self.life.take()?;
        let mut said = said.to_vec();
        let _ = life.orders.read_to_end(&mut said); // it said no more
        descriptors::close_socket(life.orders.into());
        let said = said.strip_prefix(&[READY]).unwrap_or(&said);
        if let Some(outfit) = &self.outfit {
            outfit.shelf.bury(outfit.seat);
            outfit.worker.forget_copy();
        }
        self.counters.connections_open.reset(); // the kernel has closed them
        Some(End {
            reason: match said {
                [] => ended.to_string(),
                words => String::from_utf8_lossy(words).into_owned(),
            },
            is_in_order: ended == Ended::Exit(0),
            is_killed: matches!(ended, Ended::Signal(_)),
            has_lived_us: os::clock::now().saturating_sub(life.began_us),
        })
    }
}

impl Life {
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

/// Starts a process at a place, with a number that none before it had.
pub(super) fn begin(
    places: &mut [Place],
    index: usize,
    common: &Common,
    number: u32,
) -> io::Result<()> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?; // one that is stopped does not stop those who give orders
    if let Some(table) = common.table {
        descriptors::note(ours.as_fd());
        table.give(theirs.as_fd(), number);
        table.expect(index);
    }
    let (mut ours, mut theirs) = (Some(ours), Some(theirs));
    let child = fork(common.descriptors(), || {
        let Some(theirs) = theirs.take() else { return STATUS_TOLD };
        let ours = ours.take();
        let outfit = match common.table {
            Some(table) => {
                table.enter(index, number);
                ours.into_iter().for_each(descriptors::leave);
                places[index].outfit.take().map(Outfit::with_own_listeners).transpose()
            }
            None => {
                drop(ours);
                Ok(leave_to_parent(places, index))
            }
        };
        let taken = || io::Error::other("it is taken");
        let outcome = outfit.and_then(|outfit| {
            let orders = descriptors::duplicate(theirs.as_fd())?.into();
            serve(outfit.ok_or_else(taken)?, common, number, orders)
        });
        match outcome {
            Ok(()) => 0,
            Err(why) => {
                let _ = (&theirs).write_all(why.to_string().as_bytes()); // then by the status
                STATUS_TOLD
            }
        }
    })?;
    if common.table.is_some() {
        theirs.into_iter().for_each(descriptors::leave);
    }
    let began_us = os::clock::now();
    places[index].life = ours.map(|orders| Life { child, number, orders, began_us });
    Ok(())
}

impl Common {
    fn descriptors(&self) -> Descriptors {
        if self.table.is_some() { Descriptors::Shared } else { Descriptors::Private }
    }
}

impl Outfit {
    /// In a process that shares its descriptors: the listeners are those of the parent, which must
    /// not be closed here.
    fn with_own_listeners(mut self) -> io::Result<Self> {
        let own = self.listeners.iter().map(|listener| descriptors::duplicate(listener.as_fd()));
        let own = own.collect::<io::Result<_>>();
        let inherited = std::mem::take(&mut self.listeners);
        inherited.into_iter().for_each(descriptors::leave);
        Ok(Self { listeners: own?, ..self })
    }
}

/// In a copy of the process: takes what is its own, and closes what it has inherited for nothing. A
/// listener that is open somewhere has clients wait in its queue.
fn leave_to_parent(places: &mut [Place], index: usize) -> Option<Outfit> {
    let outfit = places[index].outfit.take();
    for place in places {
        place.close();
        place.life = None;
    }
    outfit
}

/// What the copy of the process does.
fn serve(outfit: Outfit, common: &Common, number: u32, orders: UnixStream) -> io::Result<()> {
    let Outfit { mut worker, shelf, .. } = outfit;
    // Roots are opened anew now and then, and the old ones closed.
    let runner = match common.table {
        Some(_) => Arc::new(common.runner.duplicate()?),
        None => Arc::clone(&common.runner),
    };
    let second = Arc::new(worker.cache().emptied(outfit.budget));
    worker.reach_beyond(Arc::clone(&second), Box::new(shelf.enter(outfit.seat, number)?));
    let worker = crate::WorkerStart { worker, cpu: outfit.cpu, listeners: outfit.listeners };
    let start = Start {
        partitions: vec![PartitionStart {
            cpus: outfit.cpus,
            workers: vec![worker],
            more: outfit.more,
        }],
        runner,
        connections_max: outfit.connections_max,
        sendfile: common.sendfile,
        exclusive_wakeups: common.exclusive_wakeups,
        knobs: common.knobs.clone(),
        start_helper: crate::no_helper_processes(),
    };
    Process::start(start, second, orders)?.run()
}
