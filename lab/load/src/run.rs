//! One run: starts the threads at one instant and merges their measurements.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use crate::client::{Assignment, Clients, Processor, Window};
use crate::idle::Idle;
use crate::measures::{Interval, Measures};
use crate::neighbours::Neighbours;
use crate::outcome::{Outcome, Setting};
use crate::plan::{Plan, Start};
use crate::run_error::RunError;
use crate::starts;
use crate::void;

/// Time for all threads to be ready before the first session.
const GET_READY_US: u64 = 20_000;

/// Observes a run while it is in progress.
pub trait Watch {
    /// An interval has ended in all threads; `seconds` of the run have passed.
    fn on_interval(&mut self, seconds: f64, interval: &Interval);
    /// Whether the run is to be interrupted; called about twenty times a second, also while the
    /// connections are opened that are to rest.
    fn wants_to_stop(&mut self) -> bool;
    /// Called where the plan says [`Start::WhenNotified`], once the generator is ready. Returns the
    /// time at which it is to start, in microseconds since 1970.
    ///
    /// # Errors
    /// [`RunError::NoStart`] or [`RunError::Interrupted`]: no start time will come.
    fn on_ready(&mut self) -> Result<u64, RunError> {
        Err(RunError::NoStart("no start time was given".into()))
    }
    /// Called where the plan says [`Start::WhenNotified`], when all is measured: the idle
    /// connections are closed only after it returns, so that the caller can inspect the server
    /// before.
    fn on_measured(&mut self) {}
}

/// State that the threads of a run share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    stop: AtomicBool,
    bad: Mutex<Option<String>>,
    refused: OnceLock<String>,
}

impl Shared {
    /// Whether the run is to end at once.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Keeps the message about the first reply that could not be parsed.
    pub(crate) fn refused(&self, what: impl FnOnce() -> String) {
        self.refused.get_or_init(what);
    }

    /// Keeps the first wrong reply and ends the run.
    pub(crate) fn found_bad(&self, what: String) {
        let mut bad = self.bad.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        bad.get_or_insert(what);
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Executes `plan` and returns its outcome, which contains `setting` and tells whether the run is
/// valid.
///
/// # Errors
/// Why there was no run, and by whose fault.
pub fn run(plan: &Plan, setting: Setting, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
    let shared = Shared::default();
    let idle = Idle::open(plan, watch)?;
    let addresses: Vec<SocketAddr> = plan.targets.iter().map(|target| target.address).collect();
    // Where the bound allows any disturbance, the server need not be inspected.
    let judges_server = plan.bounds.run_delay_share < 1.0;
    let neighbours = Neighbours::new(addresses, cpus(plan), judges_server);
    let (start_us, started_unix_us) = start_times(plan, watch)?;
    let from_us = start_us + plan.warm_up_us;
    let to_us = plan.duration_us.map_or(u64::MAX, |duration_us| from_us + duration_us);
    let window = Window { from_us, to_us };
    let mut looking = Watched { watch: &mut *watch, neighbours, window };
    let (parts, interrupted) = run_threads(plan, &shared, start_us, window, &mut looking)?;
    let ended_us = os::clock::now();
    let wake_ups = parts.iter().map(|(_, had)| had.wake_ups).sum();
    let observed = looking.neighbours.observed(wake_ups); // which takes a while
    let idle_closed = idle.closed();
    if plan.start == Start::WhenNotified {
        watch.on_measured();
    }
    let mut measures = Measures::default();
    let (mut cpu_us, mut run_delay_us) = ((0, 0), Some(0));
    for (part, had) in &parts {
        measures.merge(part);
        cpu_us = (cpu_us.0 + had.cpu_us.0, cpu_us.1 + had.cpu_us.1);
        run_delay_us = run_delay_us.zip(had.run_delay_us).map(|(sum_us, us)| sum_us + us);
    }
    measures.counts.idle_connections = idle.count();
    measures.counts.idle_closed = idle_closed;
    let first_bad = shared.bad.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    // A run whose sessions are over ends early.
    let end_us = ended_us.min(to_us);
    let mut outcome = Outcome {
        setting,
        window_us: end_us.saturating_sub(from_us).max(1),
        started_unix_us: started_unix_us + plan.warm_up_us,
        interval_us: plan.interval_us,
        cpu_us,
        run_delay_us,
        wake_ups,
        others_us: observed.map(|observed| observed.others_us),
        server_cpu: observed.and_then(|observed| observed.server),
        void: Vec::new(),
        measures,
        first_bad,
        first_refused: shared.refused.into_inner(),
        interrupted,
    };
    outcome.void = void::reasons(&outcome, plan.bounds);
    Ok(outcome)
}

/// The CPUs on which the threads of a run may run.
fn cpus(plan: &Plan) -> Vec<usize> {
    let pinned: Vec<usize> = plan.cpus.iter().copied().take(starts::threads(plan)).collect();
    if pinned.is_empty() { os::affinity::allowed_cpus() } else { pinned }
}

/// Wraps a [`Watch`], and observes the machine whenever it is polled.
struct Watched<'w> {
    watch: &'w mut dyn Watch,
    neighbours: Neighbours,
    window: Window,
}

impl Watch for Watched<'_> {
    fn on_interval(&mut self, seconds: f64, interval: &Interval) {
        self.watch.on_interval(seconds, interval);
    }

    fn wants_to_stop(&mut self) -> bool {
        self.neighbours.observe(os::clock::now(), self.window);
        self.watch.wants_to_stop()
    }
}

/// The start of the run in microseconds: by the clock of the run, and since 1970.
fn start_times(plan: &Plan, watch: &mut dyn Watch) -> Result<(u64, u64), RunError> {
    let start_unix_us = match plan.start {
        Start::Now => None,
        Start::At(unix_us) => Some(unix_us),
        Start::WhenNotified => Some(watch.on_ready()?),
    };
    let (seconds, nanoseconds) = os::clock::unix_time();
    let now_us = os::clock::now();
    let unix_us = seconds as u64 * 1_000_000 + u64::from(nanoseconds) / 1000;
    let Some(start_unix_us) = start_unix_us else {
        let wait_us = GET_READY_US.max(plan.rest_us);
        return Ok((now_us + wait_us, unix_us + wait_us));
    };
    match start_unix_us.checked_sub(unix_us) {
        Some(wait_us) => Ok((now_us + wait_us, start_unix_us)),
        // The generator was ready before it got the start time: if it is late all the same, its lag
        // shows that.
        None if plan.start == Start::WhenNotified => {
            Ok((now_us.saturating_sub(unix_us - start_unix_us), start_unix_us))
        }
        None => Err(RunError::TooLate { late_us: unix_us - start_unix_us }),
    }
}

type Parts = (Vec<(Measures, Processor)>, bool);

/// A message from a thread: an interval has ended, or, if there is none, the thread has.
type News = (usize, Option<Interval>);

fn run_threads(
    plan: &Plan,
    shared: &Shared,
    start_us: u64,
    window: Window,
    watch: &mut dyn Watch,
) -> Result<Parts, RunError> {
    std::thread::scope(|scope| {
        let (progress, intervals) = channel();
        let mut threads = Vec::new();
        for thread in 0..starts::threads(plan) {
            let work = assignment(plan, thread, start_us, window, &progress);
            let ended = progress.clone();
            let spawned = std::thread::Builder::new().name(format!("load-{thread}")).spawn_scoped(
                scope,
                move || {
                    let measures = clients(plan, shared, thread, work);
                    // The receiver may be gone already.
                    let _ = ended.send((thread, None));
                    measures
                },
            );
            threads.push(spawned.map_err(|why| {
                shared.stop.store(true, Ordering::Relaxed);
                RunError::Generator(format!("cannot start thread {thread}: {why}"))
            })?);
        }
        drop(progress);
        let interrupted = watch_threads(plan, shared, &intervals, window.to_us, watch);
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let parts = threads.into_iter().map(join).collect::<Result<Vec<_>, RunError>>()?;
        Ok((parts, interrupted))
    })
}

fn assignment(
    plan: &Plan,
    thread: usize,
    start_us: u64,
    window: Window,
    progress: &Sender<News>,
) -> Assignment {
    let starts = starts::for_thread(plan, thread, start_us);
    let progress = progress.clone();
    let progress = Box::new(move |interval| {
        // The receiver may be gone already; the interval is in the measures too.
        let _ = progress.send((thread, Some(interval)));
    });
    Assignment { starts, clients: starts::clients_of_thread(plan, thread), window, progress }
}

fn clients(
    plan: &Plan,
    shared: &Shared,
    thread: usize,
    work: Assignment,
) -> Result<(Measures, Processor), RunError> {
    let prepare = || {
        if !plan.cpus.is_empty() {
            os::affinity::pin_thread(&[plan.cpus[thread % plan.cpus.len()]])?;
        }
        os::process::set_precise_timers()?;
        // Where the kernel refuses it, requests cost a little more.
        let _ = os::process::unshare_descriptors();
        Clients::new(plan, shared, work)
    };
    let outcome = prepare().and_then(Clients::run);
    outcome.map_err(|why| {
        shared.stop.store(true, Ordering::Relaxed);
        RunError::Generator(format!("thread {thread} of the generator failed: {why}"))
    })
}

/// Passes ended intervals to `watch` until all threads have ended, and is awake when the window
/// ends. Returns whether the run was interrupted.
fn watch_threads(
    plan: &Plan,
    shared: &Shared,
    news: &Receiver<News>,
    window_ends_us: u64,
    watch: &mut dyn Watch,
) -> bool {
    const TURN_US: u64 = 50_000;
    let mut waiting = vec![Waiting::default(); starts::threads(plan)];
    let mut ended = 0_u32;
    let mut interrupted = false;
    loop {
        let left_us = window_ends_us.checked_sub(os::clock::now()).filter(|us| *us > 0);
        let turn_us = left_us.unwrap_or(TURN_US).min(TURN_US);
        match news.recv_timeout(Duration::from_micros(turn_us)) {
            Ok((thread, Some(interval))) => waiting[thread].intervals.push_back(interval),
            Ok((thread, None)) => waiting[thread].is_last = true,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return interrupted,
        }
        while let Some(interval) = take_merged(&mut waiting) {
            ended += 1;
            let seconds = f64::from(ended) * plan.interval_us as f64 / 1e6;
            watch.on_interval(seconds, &interval);
        }
        if !interrupted && watch.wants_to_stop() {
            interrupted = true;
            shared.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Intervals of a thread that wait for the same intervals of the other threads.
#[derive(Clone, Default)]
struct Waiting {
    intervals: VecDeque<Interval>,
    /// No more intervals will come.
    is_last: bool,
}

/// Takes the next interval, merged over all threads, once each thread has ended it or has ended
/// itself.
fn take_merged(waiting: &mut [Waiting]) -> Option<Interval> {
    if waiting.iter().any(|thread| thread.intervals.is_empty() && !thread.is_last) {
        return None;
    }
    let mut parts = waiting.iter_mut().filter_map(|thread| thread.intervals.pop_front());
    let first = parts.next()?;
    Some(parts.fold(first, |mut sum, part| {
        sum.merge(&part);
        sum
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(replies: &[u64], is_last: bool) -> Waiting {
        let interval = |replies: &u64| Interval { replies: *replies, ..Interval::default() };
        Waiting { intervals: replies.iter().map(interval).collect(), is_last }
    }

    #[test]
    fn intervals_wait_for_threads_that_still_run() {
        let mut waiting = [thread(&[1, 2], false), thread(&[10], false)];
        assert_eq!(take_merged(&mut waiting).map(|interval| interval.replies), Some(11));
        assert!(take_merged(&mut waiting).is_none());
        waiting[1].is_last = true;
        assert_eq!(take_merged(&mut waiting).map(|interval| interval.replies), Some(2));
        assert!(take_merged(&mut waiting).is_none());
    }
}
