//! Models of the scheduler: what cannot be seen from outside, in random interleavings (shuttle).
//! The word of a fiber's state and the ready queue are the real ones; fibers, sockets and the
//! kernel are counters.

use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use shuttle::thread;

use super::ready::{Ready, Work};
use super::state::{FiberState, News};

/// Interleavings tried of each model.
const RUNS: usize = 1_000;

/// A fiber that serves what arrives, and whether two threads ever ran it at once.
struct Model {
    state: FiberState,
    ready: Ready,
    arrived: AtomicUsize,
    served: AtomicUsize,
    is_running: AtomicBool,
    /// How often a sleeping poll was woken.
    rings: AtomicUsize,
}

/// The only fiber's index.
const FIBER: u32 = 7;

impl Model {
    /// The fiber rests.
    fn new(threads: usize) -> (Arc<Self>, u32) {
        let state = FiberState::vacant();
        let generation = state.occupy();
        assert!(state.rest(true));
        let model = Self {
            state,
            ready: Ready::new(threads),
            arrived: AtomicUsize::new(0),
            served: AtomicUsize::new(0),
            is_running: AtomicBool::new(false),
            rings: AtomicUsize::new(0),
        };
        (Arc::new(model), generation)
    }

    /// What a kernel thread does, until the end.
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

    /// The fiber serves all that has arrived when it looks, and rests.
    fn run(&self, fiber: u32) {
        assert_eq!(fiber, FIBER);
        assert!(!self.is_running.swap(true, Ordering::SeqCst), "two threads run one fiber");
        let news = self.state.take_news();
        if news.has(News::READABLE) {
            self.served.store(self.arrived.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        self.is_running.store(false, Ordering::SeqCst);
        if !self.state.rest(true) && self.ready.push(FIBER) {
            self.rings.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Each poll finds one arrival, until there are enough; the end is when all are served.
    fn poll(&self, arrivals: usize, generation: u32) {
        let mut found = Vec::new();
        if self.served.load(Ordering::SeqCst) == arrivals {
            return self.ready.end();
        }
        if self.arrived.load(Ordering::SeqCst) < arrivals {
            self.arrived.fetch_add(1, Ordering::SeqCst);
            if self.state.tell(generation, News::READABLE) {
                found.push(FIBER);
            }
        }
        thread::yield_now();
        self.ready.end_poll(&mut found);
    }
}

#[test]
fn a_fiber_is_run_by_one_thread_at_a_time_and_misses_no_news() {
    for threads in [1, 2, 3] {
        let model = move || {
            let (model, generation) = Model::new(threads);
            let work = |_| {
                let model = Arc::clone(&model);
                thread::spawn(move || model.work(4, generation))
            };
            let working: Vec<_> = (0..threads).map(work).collect();
            working.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(model.served.load(Ordering::SeqCst), 4);
        };
        shuttle::check_random(model, RUNS);
    }
}

#[test]
fn a_fiber_from_elsewhere_is_run_though_the_poller_sleeps() {
    let model = || {
        let ready = Arc::new(Ready::new(2));
        let bell = Arc::new(AtomicUsize::new(0));
        let ran = Arc::new(AtomicUsize::new(0));
        let work = |_| {
            let (ready, bell, ran) = (Arc::clone(&ready), Arc::clone(&bell), Arc::clone(&ran));
            thread::spawn(move || {
                let (mut batch, mut seen) = (Vec::new(), 0);
                loop {
                    match ready.next(&mut batch, &mut seen) {
                        Work::Run => {
                            ran.fetch_add(batch.drain(..).count(), Ordering::SeqCst);
                        }
                        Work::Poll { may_sleep } => {
                            // A sleep that only the bell ends, as that of a server without clients.
                            while may_sleep && bell.swap(0, Ordering::SeqCst) == 0 {
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
                bell.fetch_add(1, Ordering::SeqCst);
            }
        }
        while ran.load(Ordering::SeqCst) < 3 {
            thread::yield_now();
        }
        ready.end();
        bell.fetch_add(1, Ordering::SeqCst);
        working.into_iter().for_each(|thread| thread.join().unwrap());
    };
    shuttle::check_random(model, RUNS);
}

#[test]
fn a_fiber_that_waits_for_the_disk_has_no_other_wait_for_it() {
    let model = || {
        let ready = Arc::new(Ready::new(2));
        let (disk, stall) = shuttle::sync::mpsc::channel();
        let stall = Arc::new(shuttle::sync::Mutex::new(stall));
        let work = |_| {
            let (ready, disk, stall) = (Arc::clone(&ready), disk.clone(), Arc::clone(&stall));
            thread::spawn(move || {
                let (mut batch, mut seen) = (Vec::new(), 0);
                loop {
                    match ready.next(&mut batch, &mut seen) {
                        // The first waits until the three others have run.
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
        (0..4).for_each(|fiber| assert!(!ready.push(fiber), "nobody polls yet"));
        let working: Vec<_> = (0..2).map(work).collect();
        working.into_iter().for_each(|thread| thread.join().unwrap());
    };
    shuttle::check_random(model, RUNS);
}

#[test]
fn who_is_evicted_is_idle_and_is_evicted_once() {
    let model = || {
        let state = Arc::new(FiberState::vacant());
        let generation = state.occupy();
        assert!(state.rest(true));
        let claims = Arc::new(AtomicUsize::new(0));
        let claim = |by: fn(&FiberState, u32) -> bool| {
            let (state, claims) = (Arc::clone(&state), Arc::clone(&claims));
            thread::spawn(move || {
                if by(&state, generation) {
                    claims.fetch_add(1, Ordering::SeqCst);
                }
            })
        };
        let claiming = [
            claim(FiberState::evict),
            claim(FiberState::evict),
            claim(|state, whom| state.tell(whom, News::READABLE)),
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
        // It is owned by whoever has it: here the blocking thread, to which it was pushed.
        assert!(model.state.tell(generation, News::WRITABLE));
        model.state.take_news();
        let blocking = {
            let model = Arc::clone(&model);
            thread::spawn(move || {
                assert!(!model.is_running.swap(true, Ordering::SeqCst));
                thread::yield_now();
                model.is_running.store(false, Ordering::SeqCst);
                if model.ready.push(FIBER) {
                    model.rings.fetch_add(1, Ordering::SeqCst);
                }
            })
        };
        model.work(2, generation);
        blocking.join().unwrap();
        assert_eq!(model.served.load(Ordering::SeqCst), 2);
    };
    shuttle::check_random(model, RUNS);
}

#[test]
fn news_of_a_fiber_that_has_gone_finds_nobody() {
    shuttle::check_random(
        || {
            let state = FiberState::vacant();
            let first = state.occupy();
            state.vacate();
            assert!(!state.tell(first, News::ABORT) && !state.tell_anyone(News::ABORT));
            let second = state.occupy();
            assert!(state.rest(false), "no news");
            assert!(!state.tell(first, News::EXPIRED) && !state.evict(second));
            assert!(state.tell(second, News::EXPIRED));
            assert!(!state.tell(second, News::READABLE), "it is owned");
            let news = state.take_news();
            assert!(news.has(News::EXPIRED) && news.has(News::READABLE) && !news.has(News::DRAIN));
        },
        1,
    );
}
