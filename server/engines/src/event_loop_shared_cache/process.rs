//! A process that serves: an event loop in a thread, and the process's main thread, which waits for
//! the manager's orders.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use file_cache::Cache;
use site::resource::Entry;

use crate::engine::{Engine, Start};
use crate::jobs::Runner;
use crate::open_files::Caretaker;
use crate::orders::Order;
use crate::parts::loops::Loops;
use crate::parts::loops::reactor::Reactor;

/// The byte that a process writes when it serves. Later bytes give the reason why it ends.
pub(super) const READY: u8 = b'\n';

/// The byte that it writes when it accepts no more, after the order to leave.
pub(super) const LEFT: u8 = b'\t';

/// The byte by which the manager has it do its housekeeping: there may be another revision.
pub(super) const HOUSEKEEPING: u8 = b'h';

/// The interval of checks whether the loop has failed, or sleeps on entries that it should release.
const CHECK: Duration = Duration::from_secs(1);
const CHECK_ENDING: Duration = Duration::from_millis(5);

/// A process that serves, until it has carried out its orders.
pub(super) struct Process {
    loops: Loops,
    runner: Arc<Runner>,
    orders: UnixStream,
    /// The second level of its own cache.
    cache: Arc<Cache<Entry>>,
    /// Closes files that are open without use.
    open_files: Caretaker,
    evictions_reported: u64,
    is_ending: bool,
    is_leaving: bool,
}

impl Process {
    /// Starts the loop of this process, and reports that it serves. `start` has one partition with
    /// one worker, whose cache is `cache`.
    pub(super) fn start(
        start: Start,
        cache: Arc<Cache<Entry>>,
        mut orders: UnixStream,
        open_files: Caretaker,
    ) -> io::Result<Self> {
        let runner = Arc::clone(&start.runner);
        let make = |start, context| Ok(Reactor::gated(start, context)?.into_loop());
        let loops = Loops::start("loop", start, make)?;
        let _ = orders.write(&[READY]); // if the manager has gone, that is noticed below
        let (evictions_reported, is_ending, is_leaving) = (0, false, false);
        Ok(Self {
            loops,
            runner,
            orders,
            cache,
            open_files,
            evictions_reported,
            is_ending,
            is_leaving,
        })
    }

    /// Waits for orders and carries them out until the loop has ended.
    pub(super) fn run(mut self) -> io::Result<()> {
        while !self.loops.is_finished() {
            let timeout = if self.is_ending { CHECK_ENDING } else { CHECK };
            self.orders.set_read_timeout(Some(timeout))?;
            let mut bytes = [0; 16];
            match self.orders.read(&mut bytes) {
                // The manager has gone, and no more orders can come.
                Ok(0) => {
                    self.pass_on(Order::StopAccepting);
                    self.pass_on(Order::Abort);
                }
                Ok(count) => bytes[..count].iter().for_each(|byte| self.obey(*byte)),
                Err(why) if is_timeout(&why) => {}
                Err(why) => return Err(why),
            }
            if self.is_leaving && self.loops.has_left() {
                self.is_leaving = false;
                let _ = self.orders.write(&[LEFT]); // the manager waits for it, or has gone
            }
            self.do_housekeeping();
        }
        Box::new(self.loops).join()
    }

    fn obey(&mut self, byte: u8) {
        match Order::from_byte(byte) {
            Some(order) => self.pass_on(order),
            None if byte == HOUSEKEEPING => self.loops.do_housekeeping(),
            None => {} // a manager sends no others
        }
    }

    fn pass_on(&mut self, order: Order) {
        self.loops.issue(order);
        self.is_leaving |= order == Order::Leave;
        self.is_ending |= order.is_to_end();
    }

    /// Has files closed that are not used, or are of a former revision, and wakes the loop if an
    /// entry has left the cache meanwhile.
    fn do_housekeeping(&mut self) {
        self.open_files.close_due();
        self.runner.forget_former();
        let evictions = self.cache.evictions();
        let have_left = std::mem::replace(&mut self.evictions_reported, evictions) != evictions;
        if have_left {
            self.loops.do_housekeeping();
        }
    }
}

fn is_timeout(why: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(why.kind(), K::WouldBlock | K::TimedOut | K::Interrupted)
}
