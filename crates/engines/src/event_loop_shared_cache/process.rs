//! What runs in a process that serves: an event loop in a thread, and the thread that came with the
//! process, which waits for the manager's orders.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use file_cache::Cache;
use site::resource::Entry;

use crate::engine::{Engine, Start};
use crate::open_files::Caretaker;
use crate::orders::Order;
use crate::parts::loops::Loops;
use crate::parts::loops::reactor::Reactor;

/// What a process says when it serves. What it says after that is why it ends.
pub(super) const READY: u8 = b'\n';

/// How soon it is noticed that the loop has failed, or sleeps on what it should let go of.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_ENDING: Duration = Duration::from_millis(5);

/// A process that serves, until it has done what it was told.
pub(super) struct Process {
    loops: Loops,
    orders: UnixStream,
    /// The second level of its own cache.
    cache: Arc<Cache<Entry>>,
    /// Looks after its open files.
    open_files: Caretaker,
    evictions_told: u64,
    is_ending: bool,
}

impl Process {
    /// Starts the loop of this process, and says so. There is one partition with one worker in
    /// `start`, whose cache is `cache`.
    pub(super) fn start(
        start: Start,
        cache: Arc<Cache<Entry>>,
        mut orders: UnixStream,
        open_files: Caretaker,
    ) -> io::Result<Self> {
        let loops = Loops::start("loop", start, Reactor::make_gated)?;
        let _ = orders.write(&[READY]); // if nobody listens, that is noticed below
        Ok(Self { loops, orders, cache, open_files, evictions_told: 0, is_ending: false })
    }

    /// Waits for orders and obeys them until the loop has ended.
    pub(super) fn run(mut self) -> io::Result<()> {
        while !self.loops.is_finished() {
            let look = if self.is_ending { LOOK_ENDING } else { LOOK };
            self.orders.set_read_timeout(Some(look))?;
            let mut bytes = [0; 16];
            match self.orders.read(&mut bytes) {
                // Nobody is there any more who could give orders.
                Ok(0) => {
                    self.obey(Order::StopAccepting);
                    self.obey(Order::Abort);
                }
                Ok(count) => {
                    let orders = bytes[..count].iter().filter_map(|byte| Order::from_byte(*byte));
                    orders.for_each(|order| self.obey(order));
                }
                Err(why) if is_timeout(&why) => {}
                Err(why) => return Err(why),
            }
            self.do_housekeeping();
        }
        Box::new(self.loops).join()
    }

    fn obey(&mut self, order: Order) {
        self.loops.tell(order);
        self.is_ending |= order != Order::StopAccepting;
    }

    /// Has closed what nobody asks for, and wakes the loop if something has left the cache
    /// meanwhile.
    fn do_housekeeping(&mut self) {
        self.open_files.look_after();
        let evictions = self.cache.evictions();
        let have_left = std::mem::replace(&mut self.evictions_told, evictions) != evictions;
        if have_left {
            self.loops.do_housekeeping();
        }
    }
}

fn is_timeout(why: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(why.kind(), K::WouldBlock | K::TimedOut | K::Interrupted)
}
