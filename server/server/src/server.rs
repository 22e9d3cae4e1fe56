//! A running server: start it, get its addresses, change it, stop it. There are no signals here, so
//! that a test can have several servers.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use engines::{Heir, Order};
use os::event::Wake;
use session::{Counter, Counters};

use crate::access_log::{Log, Reopener};
use crate::applications;
use crate::config::Config;
use crate::generation::{Ended, Generation, Lasting, Prepared, Taker, report_left_out};
use crate::interrupt_affinity::InterruptAffinity;
use crate::line_writer::Queue;
use crate::partitions::Allowance;
use crate::passage::Passage;
use crate::report;
use crate::services::Services;
use crate::start_error::StartError;
use crate::stop_deadline::{StopDeadline, WORKERS_END_US};
use crate::upgrade::Predecessor;

/// How long former workers are waited for until they accept no more.
const LEAVE_US_MAX: u64 = 1_000_000;

/// How many sets of former workers have all time to leave: each has threads, and what it serves by.
const LEAVING_MAX: usize = 2;

/// Older ones are cut off when none of their connections has gone for so long.
const STUCK_US_MAX: u64 = 5_000_000;

/// The number of descriptors that have to be left after a change, so that the new workers do not
/// fail at once for want of them.
const DESCRIPTORS_SPARE: usize = 8;

/// A server that runs until it is stopped.
pub struct Server {
    lasting: Lasting,
    /// The workers that accept.
    current: Generation,
    /// Former workers that have connections which cannot be moved.
    leaving: Vec<Generation>,
    /// How many of them were said to hang.
    hanging: usize,
    /// What former workers have counted that have ended.
    past: Past,
    /// The settings of the machine that it has changed, until it ends.
    interrupts: InterruptAffinity,
    taker: Taker,
}

/// What workers that have ended are remembered by.
#[derive(Default)]
struct Past {
    /// None if there are no such workers.
    counters: Option<Arc<Counters>>,
    log_lines_dropped: u64,
}

/// What a server did while it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Connections accepted.
    pub connections: u64,
    /// Responses that were finished or broken off.
    pub requests: u64,
    /// Access log lines that could not be written.
    pub log_lines_dropped: u64,
    /// Whether connections had to be cut off.
    pub aborted: bool,
}

impl Server {
    /// Opens everything that the configuration names and starts to serve. When this returns,
    /// clients can connect.
    ///
    /// # Errors
    /// What could not be opened or started. Everything that was opened is closed then.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        Self::start_after(config, None)
    }

    /// Starts to serve in the place of another process, if there is one, by its listeners. The
    /// errors are those of [`Self::start`].
    pub(crate) fn start_after(
        config: &Config,
        predecessor: Option<&Predecessor>,
    ) -> Result<Self, StartError> {
        let mut lasting = Lasting::new(predecessor)?;
        let mut current = Generation::start(Prepared::new(config)?, &mut lasting, None)?;
        let interrupts = InterruptAffinity::set(&current.places);
        let (leaving, hanging, taker) = (Vec::new(), 0, Taker::default());
        let past = Past::default();
        taker.set(current.heir());
        Ok(Self { lasting, current, leaving, hanging, past, interrupts, taker })
    }

    /// Changes to another configuration while it serves. The workers go on by it if they can.
    /// Otherwise new workers start, and accept beside the former ones, which then leave: when this
    /// returns they accept no more, and give their connections to the new ones. What cannot be
    /// moved is finished by those that have it, within `timeouts.drain_ms`; if others have left
    /// twice since, only as long as some of it is finished every few seconds.
    ///
    /// # Errors
    /// What could not be opened or started. Nothing has changed then.
    pub fn change(&mut self, config: &Config) -> Result<(), StartError> {
        self.take_leave(); // what ended workers have is needed now
        let prepared = Prepared::new(config)?;
        if self.current.can_take_over(&prepared, &self.lasting.services) {
            return self.current.take_over(prepared, &mut self.lasting);
        }
        let spare = (0..DESCRIPTORS_SPARE).map(|_| Wake::new()).collect::<io::Result<Vec<_>>>();
        let spare = spare.map_err(StartError::system("start others beside the former workers"))?;
        let new = Generation::start(prepared, &mut self.lasting, Some(&self.current))?;
        drop(spare);
        self.leaving.push(std::mem::replace(&mut self.current, new));
        let heir = self.current.heir();
        self.taker.set(heir.clone());
        self.leaving.iter_mut().for_each(|former| former.leave(heir.clone()));
        self.leaving.iter_mut().for_each(|former| former.keep_no_files(&self.current));
        wait_until_left(&mut self.leaving.iter_mut());
        // First the former settings are put back, and then others are written.
        self.interrupts = InterruptAffinity::default();
        self.interrupts = InterruptAffinity::set(&self.current.places);
        self.take_leave();
        Ok(())
    }

    /// Bounds the time of the oldest of more former workers than may leave at a time. Those that a
    /// file system holds up are cut off already, and stay.
    fn bound_leaving(&mut self) {
        let going_on = self.leaving.iter_mut().filter(|former| !former.is_cut_off());
        let mut going_on: Vec<&mut Generation> = going_on.collect();
        let excess = going_on.len().saturating_sub(LEAVING_MAX);
        going_on[..excess].iter_mut().for_each(|oldest| oldest.leave_when_stuck(STUCK_US_MAX));
    }

    /// What processor time the process may use now, if the rule has chosen for another.
    pub(crate) fn other_allowance(&self) -> Option<Allowance> {
        let chosen_for = self.current.chosen_for.as_ref()?;
        Some(Allowance::inspect()).filter(|now| now != chosen_for)
    }

    /// How long connections may take when the server ends.
    pub(crate) fn drain_us(&self) -> u64 {
        self.current.drain_us
    }

    /// Copies of all listeners, described for another process.
    pub(crate) fn listeners(&self) -> io::Result<Vec<(String, OwnedFd)>> {
        self.lasting.listeners.copies()
    }

    /// The settings of the machine that it has changed, described for another process.
    pub(crate) fn interrupts(&self) -> Vec<String> {
        self.interrupts.changes()
    }

    /// Puts back at the end what the former server has changed, which leaves that to this one.
    pub(crate) fn take_over_interrupts(&mut self) {
        self.interrupts.take_over(&self.lasting.interrupts);
    }

    /// Who takes connections that come from another process.
    pub(crate) fn taker(&self) -> Taker {
        self.taker.clone()
    }

    /// The number of connections that are open in this process.
    pub(crate) fn open(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.lasting.open)
    }

    /// Has all workers leave in favour of another process, which accepts already. When this
    /// returns they accept no more.
    pub(crate) fn leave_to(&mut self, heir: Option<&Arc<dyn Heir>>) {
        self.lasting.listeners.close();
        self.interrupts.leave();
        self.all().for_each(|generation| generation.leave(heir.cloned()));
        let Self { leaving, current, .. } = self;
        wait_until_left(&mut leaving.iter_mut().chain([current]));
    }

    /// Takes leave of former workers that have ended, and of what only they have used.
    fn take_leave(&mut self) {
        for mut former in std::mem::take(&mut self.leaving) {
            former.take_notices().iter().for_each(|notice| report(notice));
            match former.has_ended() {
                false => self.leaving.push(former),
                true => {
                    let ended = former.end(0);
                    self.past.remember(&ended);
                    if let Err(why) = &ended.outcome {
                        report(why);
                    }
                    self.lasting.keep(ended);
                }
            }
        }
        self.report_hanging();
        for mut services in std::mem::take(&mut self.lasting.former) {
            let is_used = self.leaving.iter().any(|it| it.number <= services.last_user);
            match !is_used && services.have_ended() {
                false => self.lasting.former.push(services),
                true => {
                    self.past.log_lines_dropped += services.end(0, &mut StopDeadline::passed());
                }
            }
        }
    }

    /// Says how many former workers do not end, if they are more than before.
    fn report_hanging(&mut self) {
        let hanging = self.leaving.iter().filter(|former| former.hangs()).count();
        if hanging > std::mem::replace(&mut self.hanging, hanging) {
            report(&format!(
                "{hanging} sets of former workers have not ended {} s after their connections were \
                 cut off, and probably wait for a file system that does not answer",
                WORKERS_END_US / 1_000_000
            ));
        }
    }

    /// The addresses that the server listens at.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.current.addresses
    }

    /// One line: what is served, where and how.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.current.description
    }

    /// Advice for the start, a line each: how other machines could connect if they cannot, and what
    /// to do about hosts with nothing at `/`.
    #[must_use]
    pub fn hints(&self) -> &[String] {
        &self.current.hints
    }

    /// Why the engine was chosen, if by rule: a line each about partitions, engine, and files; then
    /// the changes to the interrupt settings of the machine, and the changes that failed.
    #[must_use]
    pub fn explanations(&self) -> Vec<String> {
        let reasons = self.current.reasons.iter().map(|reason| format!("auto: {reason}"));
        reasons.chain(self.interrupts.lines()).collect()
    }

    /// The state of the server, in lines: what is served, where and how, why so, and the counts, of
    /// which former workers that still leave have lines of their own.
    #[must_use]
    pub fn status(&self) -> Vec<String> {
        let counters = self.counters();
        let sum = |counter: fn(&Counters) -> &Counter| {
            counters.iter().map(|counters| counter(counters).get()).fold(0, u64::wrapping_add)
        };
        let mut lines = vec![self.current.description.clone()];
        lines.extend(self.explanations());
        lines.push(format!(
            "{} connections open, {} accepted, {} evicted, {} expired; accepting paused {} times",
            sum(|c| &c.connections_open),
            sum(|c| &c.connections_accepted),
            sum(|c| &c.connections_evicted),
            sum(|c| &c.connections_expired),
            sum(|c| &c.accept_pauses),
        ));
        lines.extend(self.leaving.iter().map(Generation::left));
        lines.push(format!(
            "{} requests, {} body bytes; {} cache hits, {} misses, {} bodies cut short",
            sum(|c| &c.requests),
            sum(|c| &c.body_bytes),
            sum(|c| &c.cache_hits),
            sum(|c| &c.cache_misses),
            sum(|c| &c.bodies_cut_short),
        ));
        lines.push(format!(
            "{} jobs handed out, {} sends that would have waited for the disk",
            sum(|c| &c.jobs_handed_out),
            sum(|c| &c.cold_sends),
        ));
        lines.extend(applications::status(self.current.site(), &counters));
        lines.extend(self.current.engine_status());
        lines
    }

    /// The counters of all workers that the server has had.
    #[must_use]
    pub fn counters(&self) -> Vec<Arc<Counters>> {
        let all = self.leaving.iter().chain([&self.current]).flat_map(Generation::counters);
        all.chain(self.past.counters.clone()).collect()
    }

    /// The ids of the current worker processes; none if the server's own process does the work.
    #[must_use]
    pub fn worker_processes(&self) -> Vec<u32> {
        self.leaving.iter().chain([&self.current]).flat_map(Generation::pids).collect()
    }

    /// The lines that wait for the access log, if there is one.
    pub(crate) fn log_queue(&self) -> Option<Arc<Queue>> {
        self.lasting.services.log.as_ref().map(Log::queue)
    }

    /// A handle that reopens the access log, if there is one.
    #[must_use]
    pub fn log_reopener(&self) -> Option<Reopener> {
        self.lasting.services.log.as_ref().map(Log::reopener)
    }

    /// Which worker has ended by a failure, and why; none while all is well. The others serve on
    /// until they are stopped.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.current.failure()
    }

    /// Takes the failures that were handled since the last call, a line each.
    #[must_use]
    pub fn take_notices(&self) -> Vec<String> {
        self.current.take_notices()
    }

    /// Starts another spawner of CGI programs if it has died, closes files that are no longer
    /// requested, wakes workers if an entry has left the cache since the last call, as one that
    /// sleeps may still have its file open, and ends former workers whose time is over. Call it
    /// about once a second.
    pub fn do_housekeeping(&mut self) {
        let services = self.lasting.former.iter_mut().chain([&mut self.lasting.services]);
        services.for_each(Services::do_housekeeping);
        self.all().for_each(Generation::do_housekeeping);
        self.bound_leaving();
        self.take_leave();
    }

    /// Stops accepting, lets responses finish for at most `drain`, and cuts off the rest.
    ///
    /// # Errors
    /// The failure that ended a worker, or that workers wait and do not end.
    pub fn stop_gracefully(self, drain: Duration) -> Result<Summary, String> {
        /// Short enough to delay no caller, long enough to cost nothing.
        const TURN: Duration = Duration::from_millis(5);
        let us = u64::try_from(drain.as_micros()).unwrap_or(u64::MAX);
        self.stop(&mut StopDeadline::new(us, || {
            std::thread::sleep(TURN);
            false
        }))
    }

    /// Stops accepting, lets responses finish until the `deadline`, and cuts off the rest. The
    /// errors are those of [`Self::stop_gracefully`].
    pub(crate) fn stop(mut self, deadline: &mut StopDeadline<'_>) -> Result<Summary, String> {
        // The workers close their copies when they have accepted the clients that wait.
        self.lasting.listeners.close();
        self.issue(Order::StopAccepting);
        self.issue(Order::Drain);
        self.end(deadline, None)
    }

    /// Waits until no connection is left, or until the `deadline`, and cuts off the rest. If they
    /// go `onward` to another process, which refuses them from some moment on or is killed, each
    /// ends here with its next response then. The errors are those of [`Self::stop_gracefully`].
    pub(crate) fn end(
        mut self,
        deadline: &mut StopDeadline<'_>,
        onward: Option<&Passage>,
    ) -> Result<Summary, String> {
        let (mut aborted, mut has_heir) = (false, true);
        while !self.has_ended() {
            if let Some(onward) = onward.filter(|onward| onward.is_over()) {
                if std::mem::take(&mut has_heir) {
                    self.all().for_each(|generation| generation.leave(None));
                }
                let heirs: Vec<_> = self.all().filter_map(Generation::heir).collect();
                onward.take_back(&heirs);
            }
            if deadline.has_passed() {
                self.issue(Order::Abort);
                aborted = true;
                break;
            }
        }
        let until_us = os::clock::now() + WORKERS_END_US;
        let Self { lasting, current, leaving, past, .. } = self;
        let mut services: Vec<_> = lasting.former.into_iter().chain([lasting.services]).collect();
        services.iter_mut().for_each(Services::end_programs);
        let mut all: Vec<_> = past.counters.into_iter().collect();
        let (mut outcome, mut log_lines_dropped) = (Ok(()), past.log_lines_dropped);
        for generation in leaving.into_iter().chain([current]) {
            // There is no later call.
            generation.take_notices().iter().for_each(|notice| report(notice));
            let ended = generation.end(until_us);
            all.extend(ended.counters);
            log_lines_dropped += ended.log_lines_dropped;
            outcome = outcome.and(ended.outcome);
        }
        report_left_out(lasting.errors);
        services.iter_mut().for_each(|it| it.wait_for_programs(until_us));
        let since_us = os::clock::now();
        for services in services {
            log_lines_dropped += services.end(since_us, deadline);
        }
        let sum = |counter: fn(&Counters) -> u64| all.iter().map(|it| counter(it)).sum();
        outcome.map(|()| Summary {
            connections: sum(|counters| counters.connections_accepted.get()),
            requests: sum(|counters| counters.requests.get()),
            log_lines_dropped,
            aborted,
        })
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Generation> {
        self.leaving.iter_mut().chain([&mut self.current])
    }

    /// Issues an order to all workers.
    fn issue(&mut self, order: Order) {
        self.all().for_each(|generation| generation.issue(order));
    }

    /// Whether all workers have ended.
    fn has_ended(&mut self) -> bool {
        self.all().all(Generation::has_ended)
    }
}

/// Waits until workers that leave accept no more, so that who connects from now on is served by
/// others. Those that an application or a file system holds up are not waited for.
fn wait_until_left(leaving: &mut dyn Iterator<Item = &mut Generation>) {
    const TURN: Duration = Duration::from_millis(1);
    let until_us = os::clock::now() + LEAVE_US_MAX;
    for generation in leaving {
        while !generation.has_left() {
            if os::clock::now() >= until_us {
                return report("former workers may still accept: something holds them up");
            }
            std::thread::sleep(TURN);
        }
    }
}

impl Past {
    /// Adds what workers have counted that have ended.
    fn remember(&mut self, ended: &Ended) {
        let sum = self.counters.get_or_insert_default();
        ended.counters.iter().for_each(|counters| sum.absorb(counters));
        self.log_lines_dropped += ended.log_lines_dropped;
    }
}
