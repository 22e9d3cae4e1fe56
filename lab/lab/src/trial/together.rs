//! Loads that are observed: of one server, or of several at once, each loaded by generators of its
//! own within the same window. What else happens on the machine then affects all of them at the
//! same moments, so that their ratios scatter less; but they wait for each other.

use super::{
    CLOSE_GRACE, LOAD_GRACE, LoadSetup, LoadUse, NOT_BEGUN, Observation, RunFailure, Target, Trial,
    await_measured, await_ready, finish, options, start_together,
};
use crate::observe::{CpuUsage, Disturbed, Machine, Observed, Observer, WindowUse, interference};
use crate::trial::Measured;
use load::options::Options;
use load::outcome::Outcome;
use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// A server that is loaded, what loads it, and its observer.
#[derive(Clone, Copy)]
pub(crate) struct Side<'a> {
    pub(crate) load_setup: &'a LoadSetup,
    pub(crate) server: Target<'a>,
    pub(crate) observer: &'a Observer<'a>,
}

/// An outcome, its text, and what was observed beside it.
type Loaded = (Outcome, String, Result<Observation, &'static str>);

/// What was observed of a side: of its server, and of the CPUs within the window.
type SideObservation = Result<(Observed, Option<WindowUse>), &'static str>;

/// Loads servers for one window: one, by whichever client its workload names, or several.
///
/// # Errors
/// When the load could not be run at all, or a server is gone.
pub(crate) fn run_together(
    sides: &[Side<'_>],
    trial: &Trial<'_>,
) -> Result<Vec<Measured>, RunFailure> {
    if let [one] = sides {
        return Ok(vec![one.load_setup.run_observed(one.server, trial, Some(one.observer))?]);
    }
    let window = Duration::from_secs_f64(trial.window_s);
    let loaded = load_observed(sides, &trial.options(), window)?;
    let measured = sides.iter().zip(loaded);
    Ok(measured
        .map(|(side, (outcome, text, seen))| {
            side.load_setup.measured(side.server, outcome, text, seen)
        })
        .collect())
}

/// Loads servers for a window, observed from when the generators are ready until they have
/// measured: connections that rest beside the load (`--idle`) are opened before that and closed
/// after it. How busy the servers' CPUs are is observed within the window alone; and so is
/// everything else where the load warms up first.
pub(super) fn load_observed(
    sides: &[Side<'_>],
    asked: &Options,
    window: Duration,
) -> Result<Vec<Loaded>, RunFailure> {
    let warm_up_us = asked.warm_up_us().map_err(RunFailure::of_generator)?;
    let within = options::run_time(window, asked).map_err(RunFailure::of_generator)?;
    let start = |side: &Side<'_>| side.load_setup.generators(side.server, asked, true);
    let of_sides = sides.iter().map(start).collect::<Result<Vec<_>, RunFailure>>()?;
    let counts: Vec<usize> = of_sides.iter().map(Vec::len).collect();
    let mut generators: Vec<_> = of_sides.into_iter().flatten().collect();
    await_ready(&mut generators)?;
    let before: Vec<_> = sides.iter().map(|side| side.observer.snapshot()).collect();
    let from_us = start_together(generators.iter_mut())? + warm_up_us;
    let span = (from_us, from_us + window.as_micros() as u64);
    let (measured, watched) = thread::scope(|scope| {
        let watching = sides.iter().map(|side| {
            let (running, ended) = channel();
            let begin = move || (warm_up_us > 0).then(|| side.observer.snapshot());
            let watch = move || WindowUse::watch(span, &side.server.groups(), &ended, begin);
            (running, scope.spawn(watch))
        });
        let (running, watching): (Vec<_>, Vec<_>) = watching.unzip();
        let measured = await_measured(&mut generators, within);
        // The servers get time to notice that the load's connections are closed.
        thread::sleep(CLOSE_GRACE);
        drop(running);
        let watched = watching.into_iter().map(|watching| watching.join().unwrap_or_default());
        (measured, watched.collect::<Vec<_>>())
    });
    measured?;
    let seen = sides.iter().zip(before).zip(watched).map(|((side, before), (begun, in_window))| {
        let is_missed = warm_up_us > 0 && begun.is_none();
        let since = || side.observer.since(&begun.flatten().unwrap_or(before));
        if is_missed { Err(NOT_BEGUN) } else { Ok((since(), in_window)) }
    });
    let seen: Vec<SideObservation> = seen.collect();
    let mut outcomes = Vec::new();
    for count in counts {
        outcomes.push(finish(generators.drain(..count).collect(), LOAD_GRACE)?);
    }
    Ok(observations(sides, outcomes, seen))
}

/// Puts beside each outcome what was observed, with what others did on the CPUs of all sides.
fn observations(
    sides: &[Side<'_>],
    outcomes: Vec<(Outcome, String)>,
    seen: Vec<SideObservation>,
) -> Vec<Loaded> {
    let uses: Vec<LoadUse> = outcomes.iter().map(|(outcome, _)| LoadUse::from(outcome)).collect();
    let parts = sides.iter().zip(&seen).zip(&uses).map(|((side, seen), load)| {
        let (observed, in_window) = seen.as_ref().ok()?;
        Some(Part { side: *side, observed, in_window: in_window.as_ref()?, load })
    });
    let parts: Option<Vec<Part<'_>>> = parts.collect();
    let disturbed = parts.and_then(|parts| disturbances(&parts));
    let sides = sides.iter().zip(outcomes).zip(seen).zip(&uses);
    let loaded = sides.map(|(((side, (outcome, text)), seen), load)| {
        let seen = seen.map(|(observed, in_window)| {
            side.observation(observed, in_window.as_ref(), load, disturbed.clone())
        });
        (outcome, text, seen)
    });
    loaded.collect()
}

/// What is known of one side of a window.
pub(super) struct Part<'a> {
    pub(super) side: Side<'a>,
    pub(super) observed: &'a Observed,
    pub(super) in_window: &'a WindowUse,
    pub(super) load: &'a LoadUse,
}

impl Side<'_> {
    /// What was observed beside a load, with the use of the CPUs within its window.
    pub(super) fn observation(
        &self,
        mut observed: Observed,
        in_window: Option<&WindowUse>,
        load: &LoadUse,
        interference: Option<BTreeMap<Disturbed, f64>>,
    ) -> Observation {
        if self.observer.knows_cpus() {
            self.observer.narrow(&mut observed, in_window, load.window_us);
        }
        Observation { observed, interference }
    }
}

/// What other processes did on the CPUs of a trial within its window. Of servers that are loaded
/// together each waits for the others, which are no strangers: it is not known how long one of them
/// waited for strangers.
pub(super) fn disturbances(parts: &[Part<'_>]) -> Option<BTreeMap<Disturbed, f64>> {
    let (first, is_alone) = (parts.first()?, parts.len() == 1);
    let server_cpus = sorted(parts.iter().flat_map(|part| part.side.server.cpus()).collect());
    let generators = || parts.iter().flat_map(|part| &part.side.load_setup.generators);
    let client_cpus = sorted(generators().flat_map(|one| one.cpus.iter().copied()).collect());
    let (began_unix_us, window_us) = first.load.window_us;
    let cpus = first.in_window.cpus(began_unix_us, window_us)?;
    // Packets that a network holds back for a while cause interrupts of no process in particular.
    let is_networked = generators().any(|generator| !generator.prefix.is_empty());
    let machine = Machine {
        window_us: first.in_window.length_us(),
        cpus: &cpus,
        interrupts_apart: is_networked || os::accounting::interrupts_apart(),
        lab_us: parts.iter().map(|part| part.in_window.lab_us()).sum(),
    };
    let waited = |waited_us: Option<u64>| waited_us.filter(|_| is_alone);
    let wake_ups = |part: &Part<'_>| part.observed.switches_voluntary.unwrap_or(0);
    let servers = CpuUsage {
        cpus: &server_cpus,
        cpu_us: parts.iter().map(|part| part.in_window.cpu_us()).sum(),
        waited_us: waited(first.observed.run_queue_wait_us),
        wake_ups: parts.iter().map(wake_ups).sum(),
    };
    // An application runs where its server does not, which is where the clients are: it is no
    // stranger there.
    let own = |part: &Part<'_>| part.load.cpu_us + part.observed.application_cpu_us.unwrap_or(0);
    let generators = CpuUsage {
        cpus: &client_cpus,
        cpu_us: parts.iter().map(own).sum(),
        waited_us: waited(first.load.waited_us),
        wake_ups: parts.iter().map(|part| part.load.wake_ups).sum(),
    };
    let mut shares = interference(&machine, servers, generators);
    let late_share = parts.iter().map(|part| part.in_window.late_share()).reduce(f64::max);
    shares.extend(late_share.map(|share| (Disturbed::Lab, share)));
    Some(shares)
}

fn sorted(mut cpus: Vec<usize>) -> Vec<usize> {
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}
