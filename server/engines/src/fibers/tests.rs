//! Models of the scheduler, whose internals cannot be observed from outside, in random
//! interleavings (shuttle). The word of a fiber's state and the ready queue are the real ones;
//! fibers, sockets and the kernel are counters.

use std::io::ErrorKind;

use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;

use super::ready::{Ready, Work};
use super::routine::BlockingWork;
use super::state::{FiberEvents, FiberState};
use crate::parts::loops::transport::Moved;

/// The number of interleavings of each model that are run.
const RUNS: usize = 1_000;

/// A fiber that serves arrivals at two sockets, its client's and its application's, and checks that
/// no two threads run it at once.
struct Model {
    state: FiberState,
    ready: Ready,
    arrived: [AtomicUsize; 2],
    served: [AtomicUsize; 2],
    is_running: AtomicBool,
    /// How often a sleeping poll was woken.
    wakes: AtomicUsize,
}

/// The only fiber's index.
const FIBER: u32 = 7;

/// The events of an arrival at either socket.
const ARRIVALS: [FiberEvents; 2] = [FiberEvents::READABLE, FiberEvents::CALL_READABLE];

fn sum(counts: &[AtomicUsize; 2]) -> usize {
    counts.iter().map(|count| count.load(Ordering::SeqCst)).sum()
}

impl Model {
    /// A model whose fiber rests, and the fiber's generation.
    fn new(threads: usize) -> (Arc<Self>, u32) {
        let state = FiberState::vacant();
        let generation = state.occupy();
        assert!(state.rest(true));
        let model = Self {
            state,
            ready: Ready::new(threads),
            arrived: [0, 0].map(AtomicUsize::new),
            served: [0, 0].map(AtomicUsize::new),
            is_running: AtomicBool::new(false),
            wakes: AtomicUsize::new(0),
        };
        (Arc::new(model), generation)
    }

    /// Does the work of a kernel thread, until the end.
    fn work(&self, arrivals: usize, generation: u32) {
        let (mut batch, mut seen) = (Vec::new(), 0);
        loop {
            match self.ready.next(&mut batch, &mut seen) {
                Work::Run => batch.drain(..).for_each(|fiber| self.run(fiber)),
                Work::Poll { .. } => self.poll(arrivals, generation),
                Work::Housekeeping => {}
                Work::End => return,
            }
        }
    }

    /// Runs the fiber: it serves all arrivals so far, and rests.
    fn run(&self, fiber: u32) {
        assert_eq!(fiber, FIBER);
        assert!(!self.is_running.swap(true, Ordering::SeqCst), "two threads run one fiber");
        let events = self.state.take_events();
        for (socket, event) in ARRIVALS.into_iter().enumerate() {
            if events.has(event) {
                let arrived = self.arrived[socket].load(Ordering::SeqCst);
                self.served[socket].store(arrived, Ordering::SeqCst);
            }
        }
        self.is_running.store(false, Ordering::SeqCst);
        if !self.state.rest(true) && self.ready.push(FIBER) {
            self.wakes.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Polls: finds one arrival each time, until there are enough; ends when all are served.
    fn poll(&self, arrivals: usize, generation: u32) {
        let mut found = Vec::new();
        let [arrived, served] = [&self.arrived, &self.served].map(sum);
        if served == arrivals {
            return self.ready.end();
        }
        if arrived < arrivals {
            let socket = arrived % 2;
            self.arrived[socket].fetch_add(1, Ordering::SeqCst);
            if self.state.notify(generation, ARRIVALS[socket]) {
                found.push(FIBER);
            }
        }
        thread::yield_now();
        self.ready.end_poll(&mut found);
    }
}

#[test]
fn a_fiber_is_run_by_one_thread_at_a_time_and_misses_no_event() {
    for threads in [1, 2, 3] {
        let model = move || {
            let (model, generation) = Model::new(threads);
            let work = |_| {
                let model = Arc::clone(&model);
                thread::spawn(move || model.work(4, generation))
            };
            let working: Vec<_> = (0..threads).map(work).collect();
            working.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(sum(&model.served), 4);
        };
        shuttle::check_random(model, RUNS);
    }
}

#[test]
fn a_fiber_from_elsewhere_is_run_though_the_poller_sleeps() {
    let model = || {
        let ready = Arc::new(Ready::new(2));
        let wake = Arc::new(AtomicUsize::new(0));
        let ran = Arc::new(AtomicUsize::new(0));
        let work = |_| {
            let (ready, wake, ran) = (Arc::clone(&ready), Arc::clone(&wake), Arc::clone(&ran));
            thread::spawn(move || {
                let (mut batch, mut seen) = (Vec::new(), 0);
                loop {
                    match ready.next(&mut batch, &mut seen) {
                        Work::Run => {
                            ran.fetch_add(batch.drain(..).count(), Ordering::SeqCst);
                        }
                        Work::Poll { may_sleep } => {
                            // Sleeps until it is woken, as a server without clients does.
                            while may_sleep && wake.swap(0, Ordering::SeqCst) == 0 {
                                thread::yield_now();
                            }
                            ready.end_poll(&mut Vec::new());
                        }
                        Work::Housekeeping => {}
                        Work::End => return,
                    }
                }
            })
        };
        let working: Vec<_> = (0..2).map(work).collect();
        for fiber in 0..3 {
            if ready.push(fiber) {
                wake.fetch_add(1, Ordering::SeqCst);
            }
        }
        while ran.load(Ordering::SeqCst) < 3 {
            thread::yield_now();
        }
        ready.end();
        wake.fetch_add(1, Ordering::SeqCst);
        working.into_iter().for_each(|thread| thread.join().unwrap());
    };
    shuttle::check_random(model, RUNS);
}

#[test]
fn a_fiber_that_waits_for_the_disk_does_not_delay_others() {
    let model = || {
        let ready = Arc::new(Ready::new(2));
        let (disk, stall) = shuttle::sync::mpsc::channel();
        let stall = Arc::new(Mutex::new(stall));
        let work = |_| {
            let (ready, disk, stall) = (Arc::clone(&ready), disk.clone(), Arc::clone(&stall));
            thread::spawn(move || {
                let (mut batch, mut seen) = (Vec::new(), 0);
                loop {
                    match ready.next(&mut batch, &mut seen) {
                        // The first fiber waits until the three others have run.
                        Work::Run => batch.drain(..).for_each(|fiber| match fiber {
                            0 => {
                                (0..3).for_each(|_| stall.lock().unwrap().recv().unwrap());
                                ready.end();
                            }
                            _ => disk.send(()).unwrap(),
                        }),
                        Work::Poll { .. } => {
                            ready.end_poll(&mut Vec::new());
                            thread::yield_now();
                        }
                        Work::Housekeeping => {}
                        Work::End => return,
                    }
                }
            })
        };
        (0..4).for_each(|fiber| assert!(!ready.push(fiber), "no thread polls yet"));
        let working: Vec<_> = (0..2).map(work).collect();
        working.into_iter().for_each(|thread| thread.join().unwrap());
    };
    shuttle::check_random(model, RUNS);
}

#[test]
fn only_an_idle_fiber_is_evicted_and_only_once() {
    let model = || {
        let state = Arc::new(FiberState::vacant());
        let generation = state.occupy();
        assert!(state.rest(true));
        let claims = Arc::new(AtomicUsize::new(0));
        let claim = |attempt: fn(&FiberState, u32) -> bool| {
            let (state, claims) = (Arc::clone(&state), Arc::clone(&claims));
            thread::spawn(move || {
                if attempt(&state, generation) {
                    claims.fetch_add(1, Ordering::SeqCst);
                }
            })
        };
        let claiming = [
            claim(FiberState::evict),
            claim(FiberState::evict),
            claim(|state, generation| state.notify(generation, FiberEvents::READABLE)),
        ];
        claiming.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(claims.load(Ordering::SeqCst), 1, "one owner");
    };
    shuttle::check_random(model, RUNS);
}

#[test]
fn a_fiber_moves_to_the_blocking_cluster_and_back() {
    let model = || {
        let (model, generation) = Model::new(1);
        // The thread that has the fiber owns it: here the blocking thread, to which it was pushed.
        assert!(model.state.notify(generation, FiberEvents::WRITABLE));
        model.state.take_events();
        let blocking = {
            let model = Arc::clone(&model);
            thread::spawn(move || {
                assert!(!model.is_running.swap(true, Ordering::SeqCst));
                thread::yield_now();
                model.is_running.store(false, Ordering::SeqCst);
                if model.ready.push(FIBER) {
                    model.wakes.fetch_add(1, Ordering::SeqCst);
                }
            })
        };
        model.work(2, generation);
        blocking.join().unwrap();
        assert_eq!(sum(&model.served), 2);
    };
    shuttle::check_random(model, RUNS);
}

/// A fiber whose file is sent by a blocking thread.
struct Download {
    state: FiberState,
    ready: Ready,
    blocking_work: Mutex<BlockingWork>,
    has_room: AtomicBool,
    /// How many of the blocking thread and the client have done their part.
    ended: AtomicUsize,
    is_sent: AtomicBool,
}

impl Download {
    /// Sends, in a blocking thread, and gives the fiber back.
    fn send(&self) {
        *self.blocking_work.lock().unwrap() =
            BlockingWork::Sent(match self.has_room.load(Ordering::SeqCst) {
                true => Ok(Moved::Now(1)),
                false => Err(ErrorKind::WouldBlock.into()),
            });
        let _ = self.ready.push(FIBER);
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// Makes room as a client does that reads all there is: there is one event.
    fn receive(&self, generation: u32) {
        self.has_room.store(true, Ordering::SeqCst);
        if self.state.notify(generation, FiberEvents::WRITABLE) {
            let _ = self.ready.push(FIBER);
        }
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// Does the work of a kernel thread, until the file is sent or there are no more events.
    fn work(&self) {
        let (mut batch, mut seen) = (Vec::new(), 0);
        loop {
            let have_ended = self.ended.load(Ordering::SeqCst) == 2;
            match self.ready.next(&mut batch, &mut seen) {
                Work::Run => batch.drain(..).for_each(|_| self.run()),
                Work::Poll { may_sleep: true } if have_ended => return,
                Work::Poll { .. } => {
                    self.ready.end_poll(&mut Vec::new());
                    thread::yield_now();
                }
                Work::Housekeeping | Work::End => {}
            }
        }
    }

    /// Runs the fiber: it sends again, or takes in what the blocking thread found.
    fn run(&self) {
        let mut work = self.blocking_work.lock().unwrap();
        work.apply(self.state.take_events());
        let is_sent = match std::mem::replace(&mut *work, BlockingWork::None) {
            BlockingWork::None => self.has_room.load(Ordering::SeqCst),
            BlockingWork::Sent(outcome) => outcome.is_ok(),
            _ => unreachable!("the work is to send"),
        };
        self.is_sent.fetch_or(is_sent, Ordering::SeqCst);
        if !self.state.rest(false) {
            let _ = self.ready.push(FIBER);
        }
    }
}

#[test]
fn room_that_comes_while_a_blocking_thread_sends_is_not_missed() {
    let model = || {
        let state = FiberState::vacant();
        let generation = state.occupy();
        let download = Arc::new(Download {
            state,
            ready: Ready::new(1),
            blocking_work: Mutex::new(BlockingWork::None),
            has_room: AtomicBool::new(false),
            ended: AtomicUsize::new(0),
            is_sent: AtomicBool::new(false),
        });
        let [blocking, client] = [(); 2].map(|()| Arc::clone(&download));
        let working = [
            thread::spawn(move || blocking.send()),
            thread::spawn(move || client.receive(generation)),
        ];
        download.work();
        working.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(download.is_sent.load(Ordering::SeqCst), "the fiber rests though there is room");
    };
    shuttle::check_random(model, RUNS);
}

#[test]
fn events_for_a_fiber_that_has_gone_have_no_effect() {
    shuttle::check_random(
        || {
            let state = FiberState::vacant();
            let first = state.occupy();
            state.vacate();
            assert!(
                !state.notify(first, FiberEvents::ABORT) && !state.notify_any(FiberEvents::ABORT)
            );
            let second = state.occupy();
            assert!(state.rest(false), "no events");
            assert!(!state.notify(first, FiberEvents::EXPIRED) && !state.evict(second));
            assert!(state.notify(second, FiberEvents::EXPIRED));
            assert!(!state.notify(second, FiberEvents::READABLE), "it is owned");
            let events = state.take_events();
            assert!(
                events.has(FiberEvents::EXPIRED)
                    && events.has(FiberEvents::READABLE)
                    && !events.has(FiberEvents::DRAIN)
            );
        },
        1,
    );
}

/// A place for a call comes from another thread at any time, also while the fiber runs.
#[test]
fn a_call_that_waits_for_a_place_is_woken_once_it_has_one() {
    let model = || {
        let (model, generation) = Model::new(1);
        let taken = Arc::new(AtomicUsize::new(0));
        let giver = {
            let model = Arc::clone(&model);
            thread::spawn(move || {
                if model.state.notify(generation, FiberEvents::PLACE) {
                    let _ = model.ready.push(FIBER);
                }
            })
        };
        // Its client has sent something meanwhile, so that it may be running.
        if model.state.notify(generation, FiberEvents::READABLE) {
            let _ = model.ready.push(FIBER);
        }
        let (mut batch, mut seen) = (Vec::new(), 0);
        while taken.load(Ordering::SeqCst) == 0 {
            match model.ready.next(&mut batch, &mut seen) {
                Work::Run => batch.drain(..).for_each(|_| {
                    let has_place = model.state.take_events().has(FiberEvents::PLACE);
                    taken.fetch_add(usize::from(has_place), Ordering::SeqCst);
                    if !model.state.rest(false) {
                        let _ = model.ready.push(FIBER);
                    }
                }),
                _ => {
                    model.ready.end_poll(&mut Vec::new());
                    thread::yield_now();
                }
            }
        }
        giver.join().unwrap();
        assert_eq!(model.state.take_events(), FiberEvents::NONE);
    };
    shuttle::check_random(model, RUNS);
}

#[test]
fn events_of_both_sockets_are_told_apart() {
    let of_client = [FiberEvents::READABLE, FiberEvents::WRITABLE, FiberEvents::HUNG_UP];
    let of_call =
        [FiberEvents::CALL_READABLE, FiberEvents::CALL_WRITABLE, FiberEvents::CALL_HUNG_UP];
    assert_eq!(of_client.map(FiberEvents::of_call), of_call);
    let others = [FiberEvents::EXPIRED, FiberEvents::DRAIN, FiberEvents::ABORT];
    assert!(of_client.iter().chain(&others).all(|event| !event.has(FiberEvents::OF_CALL)));
    assert!(of_call.iter().all(|event| event.has(FiberEvents::OF_CALL)));
}
